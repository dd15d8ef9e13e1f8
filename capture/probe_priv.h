/* probe_priv.h - a probe that is running: what probe.c, probe_attend.c and probe_draft.c share.
 */
#ifndef CAPTURE_PROBE_PRIV_H
#define CAPTURE_PROBE_PRIV_H

#include "capture/probe.h"
#include "compute/backend.h"

/* The grid: rows and columns of a product, rows of a tile of attention. */
enum { PROBE_ROWS = 128, PROBE_COLUMNS = 256 };

typedef struct probe_state {
    const probe_pass *p;
    const kvt_geometry *g;
    const kvt_backend *b;
    int n_thread;
    int64_t n_prompt, cap; /* rows that there is room for */
    int64_t done, n;       /* rows that have run, rows of this pass behind them */
    bool one_by_one;       /* keys and values of all layers are held, else of one */
    int32_t *id, *pos;     /* [cap]; id NULL where rows are embeddings */
    int64_t *first;        /* [cap] first row of each row's segment */
    float *x, *y;          /* f32 [cap E] */
    float *q, *o;          /* f32 [cap H D] */
    float *kv;             /* f32 [cap G D] a projection on its way */
    float *gate, *up;      /* f32 [cap F] */
    float *low;            /* f32 [cap r] */
    float *table, *local;  /* f32 [cap D] cosines and sines; of layers with the local base */
    float *decoded;        /* f32: the matrix of a product, where it is not f32 */
    float *k, *v;          /* f32 [layers G cap D] the rows' own */
    float *logit;          /* f32 [V] */
    float *scratch;        /* f32 [n_thread stride] */
    int64_t stride;
    probe_out *out; /* with room for cap rows */
    kvt_err failed; /* of the prompt's keys or values; code OK: nothing */
} probe_state;

/* Memory for `cap` rows; probe_end() after a failure, too. */
KVT_CHECKED kvt_code probe_begin(probe_state *s, const probe_pass *p, probe_out *out,
                                 int64_t cap, bool one_by_one, kvt_err *err);
void probe_end(probe_state *s);
/* Runs the n rows behind those that have run; x holds their embeddings. `logits`: s->logit is
 * then that of the last row. */
KVT_CHECKED kvt_code probe_rows(probe_state *s, int64_t n, bool logits, kvt_err *err);
/* The embedding of a token into row r. USAGE: outside the vocabulary. */
KVT_CHECKED kvt_code probe_embed(probe_state *s, int64_t r, int32_t id, kvt_err *err);
/* Attention of this pass's rows: q to o, and the lse of each. */
void probe_attend(probe_state *s, int layer);
int64_t probe_attend_floats(const probe_state *s); /* scratch of one thread */

/* The rows' own keys or values of a kv head, f32 [cap D]. */
static inline float *probe_own(const probe_state *s, float *all, int layer, int64_t kv_head)
{
    int64_t l = s->one_by_one ? layer : 0;
    return all + (l * s->g->n_kv_head + kv_head) * s->cap * s->g->head_dim;
}

#endif
