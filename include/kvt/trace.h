/* trace.h - reading and writing trace files (HDF5; docs/trace-format.md).
 *
 * Reading:
 *
 *   kvt_trace *t;
 *   kvt_trace_open(&t, "a.h5", 0, &err);            checks the schema, not the checksums
 *   const kvt_trace_info *i = kvt_trace_info_of(t);
 *   kvt_view k;
 *   kvt_trace_read(t, KVT_DS_KEYS, layer, &k, &err); f32 [G T D], halves decoded by our own
 * code
 *   ... use k ...
 *   kvt_trace_done(t, &k);                           the cache may drop it now
 *   kvt_trace_close(t);
 *
 * Every call may come from any thread: HDF5 is called by one thread of traces/io.c only.
 * What was decoded is cached, least recently used first out, within a limit given at open.
 *
 * Writing: kvt_writer_open() under a temporary name, kvt_writer_put() for each dataset or
 * layer, kvt_writer_close() checks that everything required is there, flushes, writes
 * `complete` and the content digest last, syncs and renames. kvt_writer_abort() removes it. */
#ifndef KVT_TRACE_H
#define KVT_TRACE_H

#include "kvt/geometry.h"
#include "kvt/sequence.h"
#include "kvt/view.h"

enum { KVT_TRACE_MAJOR = 1, KVT_TRACE_MINOR = 1, KVT_DIGEST_TEXT = 33, KVT_TOP = 64 };

typedef enum kvt_level { KVT_SUMMARY, KVT_REPLAY, KVT_FULL, KVT_TRAIN, KVT_NEVER } kvt_level;

typedef enum kvt_ds {
#define KVT_DATASET(id, path, type, axes, unit, level, required, help) KVT_DS_##id,
#include "traces/datasets.def"
#undef KVT_DATASET
    KVT_DS_COUNT
} kvt_ds;

typedef struct kvt_dataset {
    const char *id, *path;
    kvt_dtype dtype; /* as stored */
    const char *axes, *unit;
    kvt_level level;
    bool required;
    const char *help;
} kvt_dataset;

KVT_API const kvt_dataset *kvt_dataset_of(kvt_ds ds);
KVT_API int kvt_dataset_find(const char *path); /* a kvt_ds, or -1 */
KVT_API const char *kvt_level_name(kvt_level level);

/* Attributes of /token. Ranges are in tokens, end past the last; begin == end: none. */
typedef struct kvt_token_info {
    int64_t n_prompt, n_response, look_until;
    char template_name[64], template_digest[KVT_DIGEST_TEXT];
    int64_t prefix_end;               /* tokens of the template in front of the first message */
    int64_t system_begin, system_end; /* the system prompt */
    int64_t prefix_bytes[2], system_bytes[2]; /* the same two in bytes of the tokenized text;
                                               * equal: none, or not known */
    char stop_reason[32];                     /* "stop-token", "length", "forced", "none" */
    bool bos;                                 /* position 0 is the model's BOS */
} kvt_token_info;

/* Facts of the file that are not datasets. What is marked [run] is outside the content digest.
 */
typedef struct kvt_trace_facts {
    kvt_geometry model;
    char weights_digest[KVT_DIGEST_TEXT]; /* of the model's weights: kvt_model_id */
    char file_digest[KVT_DIGEST_TEXT];    /* [run] of its file or files; "": not known */
    char weights_type[64];                /* types and tensors of each: "Q4_1 210, F32 61" */
    char tokenizer[64];                   /* "gpt2/smollm" */
    kvt_token_info token;
    kvt_span span[16];
    int n_span;
    kvt_level level;
    uint64_t seed;
    char sampling[128];       /* "greedy" or "temperature=0.7,top_p=0.9,..." */
    char attention[64];       /* implementation: "cpu tiles of 128 queries, whole rows" */
    char attention_types[64]; /* "scores f32, softmax f32, sums f32 and f64" */
    char blas[96];            /* [run] library and kernel */
    int64_t block_tokens;     /* queries of a block of attn/block_sum */
    int64_t delay;            /* w of future/delayed */
    /* Of decision/logit; empty, 0 without it. */
    char decision_policy[64], decision_cache[16];
    int64_t decision_shift;
    char options_digest[KVT_DIGEST_TEXT]; /* [run] of prompt, model and options, for resume */
    char created[32], command[1024], device[128], host[64]; /* [run] */
    char writer[64], commit[48];                            /* [run] empty: this program's */
    bool no_text;
} kvt_trace_facts;

/* Which model something was made with or for, by XXH128 of its canonical weights (the same for
 * every file format) and of its files; "" where one is not known. Traces, adapters and scorers
 * of before there were canonical weights have the file's digest in the place of the first. */
typedef struct kvt_model_id {
    char weights[KVT_DIGEST_TEXT], file[KVT_DIGEST_TEXT];
} kvt_model_id;

KVT_API kvt_model_id kvt_model_id_of(const kvt_trace_facts *f);
/* One model: any digest of one is a digest of the other. The only place where this is decided.
 */
KVT_API bool kvt_model_id_same(const kvt_model_id *a, const kvt_model_id *b);

/* ---- reading -------------------------------------------------------------------------------
 */

typedef struct kvt_trace kvt_trace;

typedef struct kvt_trace_info {
    char path[1024];
    char name[128];               /* file name without folder and ".h5": trace_id */
    char digest[KVT_DIGEST_TEXT]; /* of the content */
    int version[2];
    int64_t file_bytes;
    kvt_trace_facts facts;
    int n_layer; /* layers of the trace */
    int32_t layer_id[KVT_LAYERS_MAX];
    int64_t n_token, n_query, n_block; /* T, Q, J */
    bool has[KVT_DS_COUNT];
} kvt_trace_info;

enum { KVT_TRACE_CACHE_DEFAULT = 512 }; /* MiB */

/* Opens and checks: format, version, `complete`, every dataset's type, axes and extents.
 * Expected codes: NOTFOUND, FORMAT. cache_bytes 0: KVT_TRACE_CACHE_DEFAULT. */
KVT_API KVT_CHECKED kvt_code kvt_trace_open(kvt_trace **out, const char *path,
                                            size_t cache_bytes, kvt_err *err);
KVT_API void kvt_trace_close(kvt_trace *t); /* NULL is fine */
KVT_API const kvt_trace_info *kvt_trace_info_of(const kvt_trace *t);

/* Reads a dataset: with an axis L one layer of the trace (the view has no axis L), else all of
 * it (layer is ignored). f16 comes as f32, the other types as stored. Borrowed until
 * kvt_trace_done(). NOTFOUND where the trace lacks it: "this trace has no kv/k (level
 * summary)". */
KVT_API KVT_CHECKED kvt_code kvt_trace_read(kvt_trace *t, kvt_ds ds, int layer, kvt_view *out,
                                            kvt_err *err);
/* The same, but f16 stays f16 (uint16_t). */
KVT_API KVT_CHECKED kvt_code kvt_trace_read_raw(kvt_trace *t, kvt_ds ds, int layer,
                                                kvt_view *out, kvt_err *err);
KVT_API void kvt_trace_done(kvt_trace *t, const kvt_view *view);

/* Extents of a dataset as it is stored, the axis L included; returns the rank, 0 where the
 * trace lacks it. */
KVT_API int kvt_trace_shape(const kvt_trace *t, kvt_ds ds, int64_t dim[KVT_RANK_MAX]);

/* Bytes of token t's text; n_byte 0 where the text was left out. Borrowed until close. */
KVT_API KVT_CHECKED kvt_code kvt_trace_token_text(kvt_trace *t, int64_t token,
                                                  const uint8_t **bytes, int64_t *n_byte,
                                                  kvt_err *err);

/* Which of the needs (a mask of kvt_need, kvt/policy.h) the trace cannot answer; `text` gets
 * the first reason: "needs keys (kv/k), which this trace lacks". */
KVT_API unsigned kvt_trace_lacks(const kvt_trace *t, unsigned needs, char *text, size_t cap);

/* Prompt as a sequence; arrays are borrowed from the trace until close. */
KVT_API KVT_CHECKED kvt_code kvt_trace_sequence(kvt_trace *t, kvt_sequence *out, kvt_err *err);

/* ---- probes --------------------------------------------------------------------------------
 * Extra tokens that ran on the stored prompt; they are no part of the content digest, since one
 * may be added. */

typedef enum kvt_probe_kind {
#define KVT_PROBE(id, name, args, help) KVT_PROBE_##id,
#include "traces/probes.def"
#undef KVT_PROBE
    KVT_PROBE_KINDS
} kvt_probe_kind;

typedef enum kvt_probe_set {
#define KVT_PROBE_SET(id, name, dtype, axes, unit, required, help) KVT_PROBE_SET_##id,
#include "traces/probe_sets.def"
#undef KVT_PROBE_SET
    KVT_PROBE_SETS
} kvt_probe_set;

typedef struct kvt_probe_info {
    char name[64]; /* [a-z0-9._-]+ */
    kvt_probe_kind kind;
    char args[256];                      /* as given: "tokens=8" */
    char source_digest[KVT_DIGEST_TEXT]; /* of the adapter, the draft model or the ids */
    char digest[KVT_DIGEST_TEXT];        /* of kind, source, budget and every array */
    int64_t n_row;                       /* P */
    int64_t budget; /* slots per lane of the cache it ran on; 0: the full cache */
    int n_segment;  /* R; 1 where the probe has no segments */
    int n_keep;     /* A of keep; 0: the full cache */
    bool has[KVT_PROBE_SETS];
} kvt_probe_info;

KVT_API const char *kvt_probe_kind_name(kvt_probe_kind kind);
KVT_API const char *kvt_probe_kind_args(kvt_probe_kind kind); /* "tokens=8@BUDGET,..." */
KVT_API const char *kvt_probe_kind_help(kvt_probe_kind kind);
KVT_API int kvt_probe_kind_find(const char *name); /* a kvt_probe_kind, or -1 */

/* Bytes of the values of a probe, of the arrays that `has` names, in a file of n_layer layers.
 */
KVT_API int64_t kvt_probe_bytes(const kvt_trace_facts *f, int n_layer, const kvt_probe_info *p);

KVT_API int kvt_trace_probe_count(const kvt_trace *t);
KVT_API const kvt_probe_info *kvt_trace_probe_info(const kvt_trace *t, int i);
KVT_API int kvt_trace_probe_find(const kvt_trace *t, const char *name); /* index, or -1 */

/* A probe's dataset: with an axis L one layer of the trace, else all. f16 comes as f32. The
 * data is the caller's: kvt_free((void *)(uintptr_t)out->data). NOTFOUND where it is not there;
 * checksums are compared. */
KVT_API KVT_CHECKED kvt_code kvt_trace_read_probe(kvt_trace *t, int probe, kvt_probe_set set,
                                                  int layer, kvt_view *out, kvt_err *err);

/* A probe to write. Arrays are contiguous, in the stored type (halves as uint16_t), and hold
 * every layer of the model [model layers ...]; those of the trace are stored. */
typedef struct kvt_probe_data {
    kvt_probe_info info;              /* digest and has[] are set by the writer */
    const void *data[KVT_PROBE_SETS]; /* NULL: not there */
} kvt_probe_data;

/* Adds probes to a finished trace: a copy is written beside it, checked, and renamed over it,
 * so that the trace is whole at every moment. The content digest stays. IO: one of that name is
 * there and not `force`; a symlink is followed, the file's mode stays. FORMAT: shapes. */
KVT_API KVT_CHECKED kvt_code kvt_trace_add_probes(const char *path,
                                                  const kvt_probe_data *const *probe, int n,
                                                  bool force, kvt_err *err);

/* ---- writing -------------------------------------------------------------------------------
 */

typedef struct kvt_writer kvt_writer;

typedef struct kvt_writer_spec {
    kvt_trace_facts facts;
    int n_layer;
    int32_t layer_id[KVT_LAYERS_MAX];
    int64_t n_query, n_block, n_text, n_raw; /* Q, J, Z, Y */
    bool compress; /* chunk by lane, shuffle, deflate, fletcher32; else contiguous */
    bool force;    /* an existing file of that name may be replaced */
} kvt_writer_spec;

/* Nothing is written under `path` before close. Estimates the size and fails early where the
 * folder is not writable or has no room. */
KVT_API KVT_CHECKED kvt_code kvt_writer_open(kvt_writer **out, const char *path,
                                             const kvt_writer_spec *spec, kvt_err *err);
/* One dataset (no axis L: layer is ignored) or one layer of it. The view must have the type and
 * the axes of datasets.def (without L); f32 is accepted for f16 and converted by our own code.
 */
KVT_API KVT_CHECKED kvt_code kvt_writer_put(kvt_writer *w, kvt_ds ds, int layer,
                                            const kvt_view *data, kvt_err *err);
/* Stores a probe with the trace; everything is copied. */
KVT_API KVT_CHECKED kvt_code kvt_writer_put_probe(kvt_writer *w, const kvt_probe_data *probe,
                                                  kvt_err *err);
KVT_API KVT_CHECKED kvt_code kvt_writer_close(kvt_writer *w,
                                              kvt_err *err); /* frees w, always */
KVT_API void kvt_writer_abort(kvt_writer *w);                /* NULL is fine */

/* Bytes on disk that such a trace takes, uncompressed. */
KVT_API int64_t kvt_writer_bytes(const kvt_writer_spec *spec, bool with_rows);

/* The options_digest of a finished file, for resume: NOTFOUND, or FORMAT where it is no whole
 * trace. */
KVT_API KVT_CHECKED kvt_code kvt_trace_peek(const char *path, char digest[KVT_DIGEST_TEXT],
                                            kvt_err *err);

/* ---- checking and importing ----------------------------------------------------------------
 */

/* One finding of `kvt verify`. */
typedef struct kvt_finding {
    bool ok;
    char check[64], text[400];
} kvt_finding;

/* Checks checksums, digest and invariants (rows against future/mean, lse, offsets, ...),
 * calling `each` for every check. NO where one failed. */
KVT_API KVT_CHECKED kvt_code kvt_trace_check(kvt_trace *t,
                                             void (*each)(void *user, const kvt_finding *f),
                                             void *user, kvt_err *err);

/* Builds a trace from a manifest (JSON: dataset path -> .npy file or HDF5 file:/path,
 * attributes). */
KVT_API KVT_CHECKED kvt_code kvt_trace_import(const char *manifest, const char *out, bool force,
                                              kvt_err *err);
/* Builds a score file (kind "kvt-scores") from f32 [L A N] for one trace. */
KVT_API KVT_CHECKED kvt_code kvt_scores_import(const char *manifest, const char *out,
                                               bool force, kvt_err *err);

typedef struct kvt_scores {
    char path[1024], trace_digest[KVT_DIGEST_TEXT], digest[KVT_DIGEST_TEXT], name[64];
    kvt_view score;  /* f32 [L A N] */
    kvt_view pinned; /* u8 [L A N], data NULL: none */
} kvt_scores;
KVT_API KVT_CHECKED kvt_code kvt_scores_open(kvt_scores **out, const char *path, kvt_err *err);
KVT_API void kvt_scores_close(kvt_scores *s);

/* The HDF5 library at run time, for `kvt doctor`: "1.10.8". Returns out. */
KVT_API const char *kvt_hdf5_name(char *out, size_t cap);

#endif
