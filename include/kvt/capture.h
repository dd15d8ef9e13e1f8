/* capture.h - running a model on prompts and recording traces.
 *
 *   kvt_model *m;
 *   kvt_model_open(&m, "model.gguf", NULL, &err);
 *   kvt_capture_spec spec = {.prompt = "...", .out = "a.h5", .max_new = 256};
 *   kvt_capture(m, &spec, &counts, &ctx, &err);
 *   kvt_model_close(m);
 */
#ifndef KVT_CAPTURE_H
#define KVT_CAPTURE_H

#include "kvt/ctx.h"
#include "kvt/geometry.h"
#include "kvt/trace.h"

typedef struct kvt_model kvt_model;

typedef struct kvt_model_options {
    const char *device; /* NULL: "auto" */
    bool header_only;   /* no weights: for --plan and kvt info */
    bool f32;           /* matrices are decoded to f32 when loaded; else they stay as filed */
    const char *pre;    /* pre-tokenizer in place of the file's; NULL: the file's */
} kvt_model_options;

/* Opens a GGUF file, any part of a split one, or a folder of Hugging Face (config.json,
 * safetensors, tokenizer.json). NOTFOUND, FORMAT with the field's or tensor's
 * name. */
KVT_API KVT_CHECKED kvt_code kvt_model_open(kvt_model **out, const char *path,
                                            const kvt_model_options *options,
                                            const kvt_ctx *ctx, kvt_err *err);
KVT_API void kvt_model_close(kvt_model *m);
KVT_API const kvt_geometry *kvt_model_geometry(const kvt_model *m);
/* Bytes of its weights as they lie in memory: the matrices inside the layers, the output matrix
 * (the embedding, where the two are one), and everything, a tied matrix once. As filed, unless
 * it was opened with f32; also of a header. */
KVT_API void kvt_model_bytes(const kvt_model *m, int64_t *layers, int64_t *head, int64_t *all);
/* Which model it is. The digest of the canonical weights is computed when it is first asked
 * for, on all threads. Both are "" where only the header was read. */
KVT_API KVT_CHECKED kvt_code kvt_model_digest(const kvt_model *m, kvt_model_id *out,
                                              const kvt_ctx *ctx, kvt_err *err);

/* What probes run on: a prompt as a trace stores it. The arrays hold halves, decoded; all
 * layers of the model. Calls may come from several threads. */
typedef struct kvt_prompt {
    const kvt_geometry *geometry;
    int64_t n_prompt, n_response;
    const int32_t *id;   /* [N + M] */
    const uint8_t *flag; /* [N + M] KVT_TOKEN_SPECIAL ... */
    int32_t first;       /* likeliest token behind the prompt; -1: not known */
    void *self;
    /* f32 [N D] of a kv head; false: cannot be read, the reason is in err. `out` has room. */
    kvt_code (*keys)(void *self, int layer, int kv_head, float *out, kvt_err *err);
    kvt_code (*values)(void *self, int layer, int kv_head, float *out, kvt_err *err);
    /* f32 [n D] of a query head: the last n prompt positions. NULL: not recorded for all
     * layers (--layers). */
    kvt_code (*queries)(void *self, int layer, int head, int64_t n, float *out, kvt_err *err);
} kvt_prompt;

/* What the probes of a prompt will take. */
typedef struct kvt_probe_cost {
    int64_t file_bytes, memory_bytes;
    double flops, stream_bytes; /* of products; of weights that are read for one row */
} kvt_probe_cost;

typedef struct kvt_capture_spec {
    const char *prompt;  /* text, or */
    const char *prompts; /* a JSONL file; then `out` is a folder */
    const char *system;  /* NULL: the template's own default */
    const char *chat;    /* a template by name; NULL: the model's */
    bool raw, parse_special;
    const char *response;      /* teacher-forced text; NULL: generated */
    int64_t max_new;           /* -1: 256 */
    double temperature, top_p; /* temperature 0: greedy */
    int64_t top_k;             /* 0: all */
    const char *out;
    kvt_level level;
    const char *layers; /* "0-3,29"; NULL: all */
    bool queries_all;
    int64_t delay;                   /* 0: 256 */
    int64_t rows_limit, block_limit; /* bytes; -1: the defaults 256 MiB, 512 MiB */
    bool compress, no_text, force;
    bool record;         /* false: runs the engine without recording (for bench) */
    const char *command; /* for the file's run facts */
    /* Called when a prompt has run, before its trace is closed: kvt_probes_capture(). */
    kvt_code (*probes)(void *user, const kvt_prompt *prompt, kvt_writer *w, const kvt_ctx *ctx,
                       kvt_err *err);
    /* Called for a trace that is there already (resume): kvt_probes_add(). */
    kvt_code (*present)(void *user, const char *trace, const kvt_ctx *ctx, kvt_err *err);
    /* Called by kvt_capture_planned(): kvt_probes_cost(). NULL: probes are not counted. */
    void (*probes_cost)(void *user, const kvt_trace_facts *facts, int n_layer,
                        const kvt_ctx *ctx, kvt_probe_cost *out);
    void *probes_user;
} kvt_capture_spec;

KVT_API void kvt_capture_defaults(kvt_capture_spec *spec);

/* Of a set: tokens and memory of the largest prompt, bytes and seconds of all; probes are
 * counted in all of them. */
typedef struct kvt_capture_plan {
    int64_t n_prompt, n_response;                   /* tokens; the response at most */
    int64_t file_bytes, memory_bytes, weight_bytes; /* memory of the host */
    int64_t device_bytes, device_weight_bytes;      /* of a GPU; 0: there is none */
    int64_t device_free_bytes;                      /* that were free when it was opened */
    double seconds;       /* expected on this machine, from a short sgemm measurement */
    int64_t probe_bytes;  /* of file_bytes */
    double probe_seconds; /* of seconds */
} kvt_capture_plan;

typedef struct kvt_capture_counts {
    int64_t captured, skipped, failed;
    int64_t n_prompt, n_response; /* of the last prompt */
    int64_t file_bytes, peak_bytes;
    double load_s, prefill_s, decode_s, future_s, probe_s, write_s;
    char path[1024]; /* of the last trace */
    char text[4096]; /* its response, cut */
} kvt_capture_counts;

KVT_API KVT_CHECKED kvt_code kvt_capture_planned(kvt_model *m, const kvt_capture_spec *spec,
                                                 kvt_capture_plan *out, const kvt_ctx *ctx,
                                                 kvt_err *err);
/* PARTLY: some prompts of a set failed; STOPPED: finished traces are kept. */
KVT_API KVT_CHECKED kvt_code kvt_capture(kvt_model *m, const kvt_capture_spec *spec,
                                         kvt_capture_counts *counts, const kvt_ctx *ctx,
                                         kvt_err *err);

/* Token ids of a text with this model's tokenizer, for tests and kvt doctor. ids are
 * kvt_free()d. */
KVT_API KVT_CHECKED kvt_code kvt_model_tokenize(const kvt_model *m, const char *text,
                                                size_t n_byte, bool parse_special,
                                                int32_t **ids, int64_t *n, kvt_err *err);

#endif
