/* choose.h - what the files of the choice share, and the command that prints it. */
#ifndef ANALYZE_CHOOSE_H
#define ANALYZE_CHOOSE_H

#include "kvt/analyze.h"

/* X(limit, field of kvt_slo, field of kvt_selection_row, kind) in the order they are named. */
/* clang-format off */
#define SLO_LIMITS(X)                                              \
    X(ttft,    ttft_s,       ttft_s,              SLO_TIME)        \
    X(evict,   evict_s,      evict_s,             SLO_TIME)        \
    X(tpot,    tpot_s,       tpot_s,              SLO_TIME)        \
    X(request, request_s,    request_s,           SLO_TIME)        \
    X(peak,    peak_bytes,   peak_bytes,          SLO_BYTES)       \
    X(steady,  steady_bytes, steady_bytes,        SLO_BYTES)       \
    X(lost,    lost_frac,    lost_mass_mean_frac, SLO_SHARE)
/* clang-format on */

typedef enum slo_kind { SLO_TIME, SLO_BYTES, SLO_SHARE } slo_kind;

typedef struct slo_limit {
    const char *name;
    size_t offset, row_offset; /* of doubles in kvt_slo, in kvt_selection_row */
    slo_kind kind;
} slo_limit;
enum { SLO_N = 7 };
extern const slo_limit slo_limits[SLO_N];

double slo_of(const kvt_slo *slo, int limit); /* NAN: none */
double slo_value(const kvt_selection_row *row, int limit);
void slo_none(kvt_slo *out);      /* no limit at all */
bool slo_any(const kvt_slo *slo); /* whether there is a limit at all */
/* "18.2 ms", "24.0 GiB", "5.0 %"; "-": not known. Returns out. */
const char *slo_print(slo_kind kind, double x, char *out, size_t cap);

/* Fills meets and missed of a row. */
void slo_judge(kvt_selection_row *row, const kvt_slo *slo);
/* How far the worst limit is passed, as a share of it: 0 where all are met, INFINITY where a
 * value is not known or the memory does not hold it. */
double slo_excess(const kvt_selection_row *row, const kvt_slo *slo);
/* Least of (limit - value) / limit; NAN: no limit. */
double slo_headroom(const kvt_selection_row *row, const kvt_slo *slo);

double choose_cost(const kvt_selection_row *row, kvt_cost_axis axis);
/* Whether both rows are of one machine, profile, batch, length and model. */
bool choose_same_group(const kvt_selection_row *a, const kvt_selection_row *b);
/* Takes part in the choice: no bound, no control. */
bool choose_candidate(const kvt_selection_row *row);

#endif
