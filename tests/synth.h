/* synth.h - small traces made of random numbers, for tests.
 *
 *   synth_spec spec = synth_default();
 *   spec.n_prompt = 40;
 *   synth *s = synth_new(&spec);           every dataset in memory, and the attention in double
 *   kvt_code code = synth_write(s, path, &err);
 *   synth_free(s);
 *
 * q, k and v are random halves; everything else is computed from them by plain loops in double,
 * by the definitions of docs/trace-format.md, so that it is a second opinion on capture and
 * replay. The same spec gives the same bytes. */
#ifndef TESTS_SYNTH_H
#define TESTS_SYNTH_H

#include "kvt/trace.h"

enum { SYNTH_PROBES_MAX = 12, SYNTH_DRAFTS = 4 };

/* What a rule can say instead of random numbers. */
typedef enum synth_kind { SYNTH_Q, SYNTH_K, SYNTH_V, SYNTH_WO } synth_kind;

typedef struct synth_spec {
    int n_layer, n_head, n_kv_head, head_dim;
    int model_layers; /* of the whole model; the trace holds its last n_layer ones. 0: n_layer
                       */
    int64_t n_prompt, n_response;
    uint64_t seed;
    kvt_level level;
    int64_t window;       /* sliding window of the trace's odd layers, tokens; 0: none */
    int64_t delay;        /* w of future/delayed */
    int64_t block_tokens; /* queries of a block */
    int64_t last_queries; /* prompt queries that are stored beside the response's; -1: all */
    double sharpness;     /* factor of q; 1: flat attention, 3: peaked */
    double sink; /* every query's last channel, and key 0's; no other key has one. 0: none */
    /* Number i of [L H T D], [L G T D] twice, [L H D E]; half precision holds it. NULL: random.
     */
    float (*draw)(const struct synth_spec *spec, synth_kind kind, int64_t i);
    bool no_rows, no_text, hostile, compress, force;
    /* Decisions of a retrofitted model, normal numbers: decision/logit, with weights of joins
     * and a decay of each lane. NULL: none. */
    const char *decision_policy;
    int64_t decision_shift;
    /* Of synth_probes(): slots of the caches that drafts ran on, and rows of a probe (a third
     * of the prompt is a chunk of the repeat). 0: none. */
    int64_t draft_budget[SYNTH_DRAFTS], probe_rows;
} synth_spec;

/* 2 layers, 4 heads on 2 kv heads of 8 channels, 24 + 6 tokens, level replay, with rows. */
synth_spec synth_default(void);

typedef struct synth {
    synth_spec spec;
    kvt_writer_spec out;      /* facts and extents */
    void *data[KVT_DS_COUNT]; /* all layers, in the dataset's type; NULL: not there */
    int64_t dim[KVT_DS_COUNT][KVT_RANK_MAX];
    double *attn;  /* [L H T T] exact rows of every query */
    double *logit; /* [L H T T] scaled, -inf where not seen */
    /* Of synth_probes(): with the arrays of all layers of the model, which synth_free() frees.
     */
    kvt_probe_data probe[SYNTH_PROBES_MAX];
    int n_probe;
    kvt_code (*write_probes)(const struct synth *s, kvt_writer *w, kvt_err *err);
} synth;

synth *synth_new(const synth_spec *spec); /* ends the program where memory runs out */
void synth_free(synth *s);
/* Attention of query q on key k. */
double synth_attn(const synth *s, int layer, int head, int64_t q, int64_t k);
/* One layer (or all of a dataset without layers) as a view in the stored type. */
kvt_view synth_view(const synth *s, kvt_ds ds, int layer);
KVT_CHECKED kvt_code synth_write(const synth *s, const char *path, kvt_err *err);
/* synth_new, synth_write, synth_free. */
KVT_CHECKED kvt_code synth_file(const synth_spec *spec, const char *path, kvt_err *err);

#endif
