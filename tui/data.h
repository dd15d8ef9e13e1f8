/* data.h - what the browser shows: a trace's tokens and the results of every pass on it. It
 * does not change while it is looked at; tui/load.c fills it from files, tests by hand.
 *
 * Several passes may hold the same policy at other budgets: the index lists policies and
 * budgets once and finds the cell of a pair. */
#ifndef TUI_DATA_H
#define TUI_DATA_H

#include "kvt/policy.h"
#include "kvt/result.h"

typedef struct tui_policy {
    const kvt_result *of; /* one of its passes, for its texts */
    char label[96];       /* what is shown and typed, unlike any other */
    char exactness[24];
    int64_t seed;
} tui_policy;

typedef struct tui_budget {
    char text[32]; /* as asked */
    double tokens, frac;
} tui_budget;

enum { TUI_CHOICES_MAX = 128 };

/* Attention of a lane, on demand. by_query_head: the lane is a query head. */
typedef struct tui_source {
    void *user;
    /* f32 [M T] of the response rows, mean over the lane's query heads, borrowed until the next
     * call. NOTFOUND: the trace has none. */
    kvt_code (*rows)(void *user, int layer_id, int lane, bool by_query_head, const float **rows,
                     kvt_err *err);
    /* f64 [N] sum over the response rows for each prompt token; may be NULL. */
    kvt_code (*future)(void *user, int layer_id, int lane, bool by_query_head, double *out,
                       kvt_err *err);
} tui_source;

typedef struct tui_data {
    char path[1024], name[128], model[96], digest[KVT_DIGEST_TEXT];
    int n_head, n_kv_head; /* of the model */
    int64_t n_prompt, n_response, n_token;
    uint8_t *text;   /* u8 [offset[T]] */
    int64_t *offset; /* i64 [T + 1] */
    int32_t *id;     /* i32 [T] vocabulary entry */
    bool no_text;
    kvt_results *results; /* of this trace only, owned */
    tui_source source;

    /* The index. */
    tui_policy policy[TUI_CHOICES_MAX];
    tui_budget budget[TUI_CHOICES_MAX];
    int n_policy, n_budget;
} tui_data;

void tui_data_fini(tui_data *d);
/* Lists policies (controls last) and budgets (rising) again, after results came. */
void tui_data_index(tui_data *d);
/* The cell of a policy at a budget, whatever its status; NULL: no result. */
const kvt_result *tui_data_cell(const tui_data *d, int policy, int budget, int *cell);
/* By label, name or canonical text; by text or, for a budget, equal slots. -1: none. */
int tui_data_find_policy(const tui_data *d, const char *name);
int tui_data_find_budget(const tui_data *d, const char *text);
/* The oracle at a cell's budget with lanes alike, or NULL. */
const kvt_result *tui_data_oracle(const tui_data *d, const kvt_result *of, int cell,
                                  int *oracle_cell);
/* Whether a cell can be looked at: it was computed and its kept set is there. */
bool tui_data_shows(const kvt_result *r, int cell);
/* What becomes of slots that its policy does not keep; of a plug-in's: they are evicted. */
kvt_effect tui_data_effect(const kvt_result *r);
/* Where its lost mass went: "evicted tokens", or of a policy that skips what it did not read.
 */
const char *tui_data_lost_to(const kvt_result *r);
/* Row of a lane: layer and lane are indices of the result. */
const kvt_lane_row *tui_data_lane(const kvt_result *r, int cell, int layer, int lane);
/* Text of a token as safe text, cut to `columns`; "#1234" where the trace holds no text. */
const char *tui_data_token(const tui_data *d, int64_t token, char *out, size_t cap, int columns,
                           bool ascii);

#endif
