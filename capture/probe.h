/* probe.h - extra rows run behind a stored prompt, whose keys and values are constants.
 *
 * Prompt states never depend on what is appended (the causal mask): one primitive serves
 * learned tokens, drafts and the repeated prompt.
 *
 *   probe_pass p = {.prompt = prompt, .weights = w, .backend = b, .n_row = 32, .embed = e,
 * ...}; probe_run(&out, &p, &err);        all rows at once probe_draft(&out, &p, n, &err);   or
 * one by one, each the likeliest token behind the last
 *
 * Rows see the prompt (what `keep` leaves of it), and the rows of their own segment up to
 * themselves. The LoRA acts on all rows. A row's own keys and values are used as they are
 * computed (f32); the prompt's are the stored halves. */
#ifndef CAPTURE_PROBE_H
#define CAPTURE_PROBE_H

#include "capture/adapter.h"
#include "capture/weights.h"
#include "kvt/backend.h"
#include "kvt/capture.h"

typedef struct probe_pass {
    const kvt_prompt *prompt;
    const kvt_weights *weights;
    const kvt_backend *backend;
    const kvt_ctx *ctx;
    int64_t n_row;
    const int32_t *id;      /* [P], or */
    const float *embed;     /* f32 [P E] (times embed_scale already, where the model has one) */
    const adapter *adapter; /* its LoRA; NULL: none */
    const int32_t *pos;     /* [P]; NULL: n_prompt, n_prompt + 1, ... */
    const int32_t *segment; /* [P] rising; NULL: one */
    const uint8_t *keep;    /* [L n_lane N] of all layers; NULL: the full cache */
    int n_lane;             /* G, or H: a set for each query head */
    int64_t n_vocab;        /* of a draft: tokens of the vocabulary, the rows of the embedding
                             * behind them are padding; 0: all rows */
} probe_pass;

/* Results of all layers of the model, owned; probe_out_free(). */
typedef struct probe_out {
    int64_t n_row;
    uint16_t *q, *k;   /* f16 [L H P D], [L G P D] after RoPE */
    float *lse, *norm; /* f32 [L H P], [L P] */
    int32_t *pos, *id; /* [P]; id NULL where rows are embeddings */
    float *logit;      /* f32 [V] behind the last row; NULL unless it was asked for */
} probe_out;

KVT_CHECKED kvt_code probe_run(probe_out *out, const probe_pass *p, bool logits, kvt_err *err);
/* Greedy: `first` is fed whatever it is, then the likeliest, the lower id among equals; at most
 * n rows, and a later stop token (is_stop) ends it and is never fed. out->n_row says how many
 * were. */
KVT_CHECKED kvt_code probe_draft(probe_out *out, const probe_pass *p, int32_t first, int64_t n,
                                 bool (*is_stop)(const void *user, int32_t id),
                                 const void *user, kvt_err *err);
void probe_out_free(probe_out *o);
/* Memory that n rows take beside their results; drafts run one by one. */
int64_t probe_state_bytes(const kvt_weights *w, int64_t n_prompt, int64_t n, bool one_by_one,
                          int64_t rank, int n_thread);

/* A trace as a kvt_prompt: halves of all layers of the model. FORMAT: without them. The trace
 * stays open until probe_prompt_close. */
KVT_CHECKED kvt_code probe_prompt_open(kvt_prompt *out, kvt_trace *t, kvt_err *err);
void probe_prompt_close(kvt_prompt *p);

#endif
