/* cost.h - what a policy costs: time to first token, eviction, time per token, memory.
 *
 *   kvt_cost_geometry g;                      a model (built in, of a trace, of a model file)
 *   kvt_machine m;                            a device with an engine's constants
 *   kvt_cost_work w;                          what one policy does, from traits and work()
 *   kvt_cost_load load;                       slots of its lanes, from a replay or its own rule
 *   kvt_cost cost;
 *   kvt_cost_predict(&cost, &(kvt_cost_case){.geometry = &g, .machine = &m, .work = &w,
 *                                            .load = &load, .n_prompt = 32768, ...});
 *
 * A roofline with a handful of constants a machine: math, memory, and the host beside both.
 * Nothing here allocates after its inputs are made, and every split sums to its total. Times
 * are seconds, sizes bytes, rates a second; 1 multiply-add is 2 FLOP. Undefined is NAN.
 * docs/cost.md has the formulae, and what they gave beside what was published. */
#ifndef KVT_COST_H
#define KVT_COST_H

#include "kvt/ctx.h"
#include "kvt/replay.h"

/* ---- models --------------------------------------------------------------------------------
 */

/* A geometry with what follows from it. In a data file (JSON) the keys are the fields of
 * kvt_geometry plus those below. */
typedef struct kvt_cost_geometry {
    kvt_geometry g;
    char title[96]; /* one line: where it is from, what to know of it; "" */
    char draft[64]; /* geometry that usually drafts for it (SpecKV); "": none is known */
    bool qkv_bias;  /* of g.arch, unless the file says otherwise */
    bool qk_norm;
    int norms_per_layer; /* RMS norms of width n_hidden in a layer: 2, or 4 */
    /* Weights: matrices inside the layers; rows of the vocabulary; all stored ones. */
    int64_t theta_lin, theta_head, theta_all;
    /* Of a model file: bytes that its matrices take in the layers, of the output matrix, and of
     * all tensors. 0: from the weight bits of the case. */
    int64_t lin_bytes, head_bytes, all_bytes;
} kvt_cost_geometry;

/* Fills what follows from g (theta_*, qkv_bias, qk_norm, norms_per_layer by g.arch). USAGE
 * where a field that the model needs is missing, negative or does not fit another one. */
KVT_API KVT_CHECKED kvt_code kvt_cost_geometry_of(kvt_cost_geometry *out, const kvt_geometry *g,
                                                  kvt_err *err);
/* A built-in name ("llama-3.1-8b") or a JSON file (a path with '/' or ".json"). USAGE with the
 * nearest name; FORMAT where the file's params_total is not what its shapes give. */
KVT_API KVT_CHECKED kvt_code kvt_cost_geometry_find(kvt_cost_geometry *out, const char *name,
                                                    kvt_err *err);
/* Names of the built-in ones, sorted, ends with NULL. */
KVT_API const char *const *kvt_cost_geometry_names(void);

/* Bytes of keys and values of one token in one layer at `kv_bits` (16, 8, 4), of all kv heads.
 * 8 bits add scale_bytes for each head, 4 bits 4 bytes for each 32 channels of a head. */
KVT_API double kvt_cost_token_bytes(const kvt_cost_geometry *g, double kv_bits,
                                    double scale_bytes);
/* Bytes of the full cache of n tokens in 16 bits; layers with a window hold min(n, window). */
KVT_API double kvt_cost_cache_bytes(const kvt_cost_geometry *g, int64_t n);
/* FLOP of the matrices for n tokens (without the output matrix), and of attention over n
 * tokens, causal and within windows, or n x n in every layer. */
KVT_API double kvt_cost_linear_flops(const kvt_cost_geometry *g, int64_t n);
KVT_API double kvt_cost_attention_flops(const kvt_cost_geometry *g, int64_t n, bool square);

/* ---- machines ------------------------------------------------------------------------------
 */

/* X(origin, text): where a number of a machine comes from. */
/* clang-format off */
#define KVT_ORIGINS(X)                                                                       \
    X(VENDOR,     "vendor",     "data sheet")                                                \
    X(KERNEL_FIT, "kernel-fit", "fitted to published measurements of kernels")               \
    X(CALIBRATED, "calibrated", "fitted to end-to-end measurements, or measured here")       \
    X(DEFAULT,    "default",    "what holds where nothing is known, or the middle of a range")

/* X(field, unit, least, most, help). Every one is a double with an origin; a data file has them
 * all, as "field": [value, "origin"]. 0 means none unless the help says otherwise. */
#define KVT_MACHINE_FIELDS(X)                                                                    \
    X(peak_flops_16,   "FLOP/s", 0, 1e18, "dense bf16 or fp16 products; 0: those of 32 bits")    \
    X(peak_flops_32,   "FLOP/s", 0, 1e18, "fp32 products without tensor cores")                  \
    X(peak_flops_w4,   "FLOP/s", 0, 1e18, "products with 4-bit weights, efficiency included; 0: weights are decoded, the peak is that of activations") \
    X(mem_bw,          "B/s",    1, 1e16, "memory, one direction")                               \
    X(mem_bytes,       "B",      0, 1e15, "memory that the driver reports; 0: not known, nothing is said of what fits") \
    X(cache_bytes,     "B",      0, 1e12, "last-level cache")                                    \
    X(cache_gain,      "1",      1, 100,  "how much faster than memory it is where weights and cache fit into it") \
    X(link_bw,         "B/s",    0, 1e15, "to the other devices of a node, one direction; 0: none") \
    X(e_lin,           "1",      0, 1,    "achieved share of the peak, projections and feed-forward") \
    X(e_att,           "1",      0, 1,    "achieved share of the peak, attention of a prefill")  \
    X(n_half,          "tokens", 0, 1e6,  "length at which attention reaches half of e_att")     \
    X(hd64_factor,     "1",      0, 1,    "attention with heads of 64 channels, of that with 128") \
    X(window_half,     "tokens", 0, 1e6,  "window at which a layer with one reaches half of the rate") \
    X(e_w,             "1",      0, 1,    "achieved share of mem_bw, weights in decode")         \
    X(e_kv,            "1",      0, 1,    "achieved share of mem_bw, keys and values in decode") \
    X(e_m,             "1",      0, 1,    "achieved share of mem_bw, copies and elementwise work") \
    X(t_launch,        "s",      0, 1,    "a kernel's launch")                                   \
    X(launches_layer,  "1",      0, 1e4,  "launches of a layer in a prefill")                    \
    X(elementwise,     "1",      0, 1,    "1: norms, activations and residuals are no part of e_lin and e_att") \
    X(t_layer,         "s",      0, 1,    "fixed time of a layer of a decode step")              \
    X(t_step,          "s",      0, 10,   "fixed time of a decode step")                         \
    X(t_req,           "s",      0, 1,    "fixed time of a decode step for each request")        \
    X(t_ttft,          "s",      0, 100,  "constant of the time to first token (serving)")       \
    X(host_floor_layer,"s",      0, 10,   "time that the host takes for a layer of a decode step") \
    X(host_floor_step, "s",      0, 10,   "and for the step itself")                             \
    X(host_smooth,     "1",      0, 100,  "s of (device^s + host^s)^(1/s); 0: the larger one")   \
    X(kv_traffic,      "1",      1, 100,  "how often keys and values are moved in a decode step") \
    X(evict_factor,    "1",      0, 1000, "s_impl: an eager eviction step, of its memory traffic") \
    X(evict_floor,     "s",      0, 100,  "and the least that it takes")                         \
    X(runtime_bytes,   "B",      0, 1e12, "driver, libraries, graphs")                           \
    X(alloc_round,     "B",      0, 1e9,  "allocations are rounded up to this")                  \
    X(kv8_scale_bytes, "B",      0, 64,   "scales of 8-bit keys and values, for each token and head") \
    X(range_from,      "tokens", 0, 1e9,  "shortest prompt of the calibration; 0: not calibrated") \
    X(range_to,        "tokens", 0, 1e9,  "longest one")                                         \
    X(range_head_dim,  "1",      0, 4096, "channels of a head in the calibration")               \
    X(band_prefill,    "frac",   0, 10,   "half width of the band of a prefill")                 \
    X(band_evict,      "frac",   0, 10,   "of an eviction step")                                 \
    X(band_draft,      "frac",   0, 10,   "of one with a draft")                                 \
    X(band_decode_lo,  "frac",   0, 1,    "a decode step may take so much less")                 \
    X(band_decode_hi,  "frac",   0, 10,   "and so much more")                                    \
    X(band_bytes,      "frac",   0, 10,   "half width of the band of the memory")
/* clang-format on */

typedef enum kvt_origin {
#define X(id, text, help) KVT_ORIGIN_##id,
    KVT_ORIGINS(X)
#undef X
} kvt_origin;

typedef enum kvt_engine_kind {
    KVT_ENGINE_FUSED, /* captured graphs, fused kernels */
    KVT_ENGINE_EAGER, /* a framework's operators, one after the other */
    KVT_ENGINE_PAPER  /* the conventions of LookaheadKV's theory table (docs/cost.md) */
} kvt_engine_kind;

typedef enum kvt_machine_field {
#define X(field, unit, least, most, help) KVT_MACHINE_##field,
    KVT_MACHINE_FIELDS(X)
#undef X
        KVT_MACHINE_N
} kvt_machine_field;

typedef struct kvt_machine {
    char name[64], title[128];
    kvt_engine_kind engine;
    char calibrated_on[192]; /* free text: date, engine, driver, source; "": nothing was fitted
                              */
#define X(field, unit, least, most, help) double field;
    KVT_MACHINE_FIELDS(X)
#undef X
    unsigned char origin[KVT_MACHINE_N]; /* kvt_origin of each field */
} kvt_machine;

typedef struct kvt_machine_field_info {
    const char *name, *unit, *help;
    double least, most;
    size_t offset;
} kvt_machine_field_info;
KVT_API const kvt_machine_field_info *kvt_machine_fields(void); /* KVT_MACHINE_N */
KVT_API const char *kvt_origin_name(kvt_origin o);
KVT_API const char *kvt_engine_name(kvt_engine_kind e); /* "fused" */

/* A built-in name or alias ("h100-sxm", "h100", "rtx-4090") or a JSON file. USAGE with the
 * nearest name; FORMAT naming the field that is missing, negative or out of range. */
KVT_API KVT_CHECKED kvt_code kvt_machine_find(kvt_machine *out, const char *name, kvt_err *err);
/* The fitted profiles ("lkv-measured", "paper-lkv") are machines of their own. */
KVT_API KVT_CHECKED kvt_code kvt_cost_profile_find(kvt_machine *out, const char *name,
                                                   kvt_err *err);
KVT_API const char *const *kvt_machine_names(void);               /* sorted, ends with NULL */
KVT_API const char *const *kvt_machine_aliases(const char *name); /* ends with NULL */
KVT_API const char *const *kvt_cost_profile_names(void); /* files of profiles, sorted */
/* Writes it as a data file, by a temporary name and a rename. */
KVT_API KVT_CHECKED kvt_code kvt_machine_save(const kvt_machine *m, const char *path,
                                              kvt_err *err);

/* ---- profiles ------------------------------------------------------------------------------
 */

typedef enum kvt_cost_profile {
    KVT_PROFILE_FUSED,        /* "fused": every policy implemented equally well */
    KVT_PROFILE_AS_PUBLISHED, /* "as-published": at the cost of its published implementation */
    KVT_PROFILE_PAPER_LKV     /* "paper-lkv": the theory of LookaheadKV's appendix */
} kvt_cost_profile;
KVT_API const char *kvt_cost_profile_name(kvt_cost_profile p);

/* What was measured of a published implementation, beside its machine. */
typedef struct kvt_published {
    kvt_machine machine;  /* constants of the profile, evict_factor and floor of the policy */
    int64_t draft_tokens; /* drafts that the measurement used; 0: the policy's own number */
    double draft_step;    /* s, replaces a decode step of the draft; 0: predicted */
    int64_t draft_step_tokens; /* prompt at which draft_step was measured; 0: at any */
    bool is_default;           /* nothing was measured of this policy on this machine */
    char source[128];
} kvt_published;

/* The constants of one policy on one machine under a profile: the machine itself under fused;
 * replay/cost/data/published.csv under as-published, where a policy without a line of its own
 * gets the machine's line "*" with evict_factor 3 and a floor of 11 ms (is_default), and a
 * machine without lines the eager profile on its own rates. */
KVT_API void kvt_cost_constants(kvt_published *out, const kvt_machine *machine,
                                kvt_cost_profile profile, const char *policy);

/* ---- what a policy does --------------------------------------------------------------------
 */

/* What it reads to rank the prompt's slots. */
typedef enum kvt_score_kind {
    KVT_SCORE_NONE,    /* positions, tables, or another program's numbers */
    KVT_SCORE_ROWS,    /* attention rows of `rows` queries: one product with the keys */
    KVT_SCORE_COLUMNS, /* sums over all prompt queries: half of the attention once more */
    KVT_SCORE_KEYS,    /* keys (and values) once */
    KVT_SCORE_MOMENTS, /* keys against moments of queries: D more products each */
    KVT_SCORE_NETWORK, /* a small network on each token's features */
    KVT_SCORE_REPEAT   /* the prompt runs once more behind itself */
} kvt_score_kind;

typedef enum kvt_when {
    KVT_WHEN_NEVER,        /* nothing leaves; where rows skip slots, they are scored then */
    KVT_WHEN_IN_LAYER,     /* each layer is cut as soon as its prompt is through */
    KVT_WHEN_AFTER_PREFILL /* when all layers are through: they are alive together */
} kvt_when;

typedef enum kvt_draft_kind { KVT_DRAFT_NONE, KVT_DRAFT_SELF, KVT_DRAFT_MODEL } kvt_draft_kind;

/* The descriptor of one use of a policy (cost-model of the papers, docs/cost.md). Derived from
 * traits, window, size and work(); nothing is listed a second time. Rows, tokens: of one
 * sequence. */
typedef struct kvt_cost_work {
    kvt_when when;
    bool in_decode; /* decides while decoding, too */
    int64_t every;  /* in decode: tokens between decisions, at least 1 */
    kvt_score_kind score;
    int64_t rows;        /* scoring queries at the end of the prompt */
    int64_t decode_rows; /* scoring queries of a decision in decode; 0: none */
    int k_passes;        /* reads of the keys: 1 where the rows' log-sum-exp is there already */
    double rows_frac;    /* of KVT_SCORE_COLUMNS: share of the N x N rows, 0.5 for all causal */
    bool reads_values;   /* scoring reads values, too */
    int64_t extra_tokens; /* tokens that run behind the prompt in the same pass */
    double lora_params;   /* weights of adapters on those tokens; 0: none */
    double embed_params;  /* learned embeddings */
    kvt_draft_kind draft;
    int64_t draft_tokens;  /* generated one at a time before the decision */
    bool first_stage;      /* an eviction for the draft's own cache in front of it (LAQ) */
    int64_t first_rows;    /* scoring queries of that one; 0: as many as of the second */
    bool selects;          /* ranks and picks; false: positions alone (a ring) */
    double network_flops;  /* of a scorer, for each token and lane */
    double network_params; /* its weights, for each lane */
    bool by_query_head;    /* K and V are stored once for each query head */
    bool keeps_all;        /* nothing leaves memory: rows read `budget` slots only (SKIP) */
    bool joins;            /* slots are merged (DMC): one slot of a lane is rewritten a step */
    bool ragged;           /* lanes of a layer differ in length: paged, unbalanced */
    int64_t page_tokens;   /* pages that its published layout has; 0: the case's */
    bool in_place;         /* a new token takes a dropped one's slot (while decoding) */
    bool whole_rows;       /* as published it needs whole rows: the matrix is materialised */
    double state_slot, state_lane; /* bytes beside each slot, each lane, while decoding; a
                                      lane's move once each way between two decisions */
    double decode_state_moves; /* bytes of state read and written for each slot and decision */
    bool decode_reads_keys, decode_reads_values; /* all slots', at each decision */
    bool is_bound; /* an oracle: scoring costs nothing, it is a limit */
} kvt_cost_work;

/* Of a use at this prompt and budget on a geometry. */
KVT_API void kvt_cost_work_of(kvt_cost_work *out, const kvt_use *use,
                              const kvt_cost_geometry *g, int64_t n_prompt, int64_t budget,
                              kvt_act act);

/* ---- slots in use --------------------------------------------------------------------------
 */

enum { KVT_COST_RUNS_MAX = 64 };

/* Slots of one layer over its lanes (kv heads; query heads where sets are stored so). */
typedef struct kvt_cost_layer {
    double slots; /* sum */
    double most;  /* of the longest lane */
    double held;  /* sum, each lane rounded up to its pages */
} kvt_cost_layer;

/* So many decode steps that read the same number of slots, summed over layers and lanes. */
typedef struct kvt_cost_run {
    double steps;
    double slots;   /* that rows see */
    double busiest; /* lanes x longest lane, summed over layers: what an unbalanced kernel waits
                       for */
    double held;    /* in memory, rounded to pages */
} kvt_cost_run;

typedef struct kvt_cost_load {
    int n_layer, n_lane;                 /* L; lanes of a layer */
    kvt_cost_layer kept[KVT_LAYERS_MAX]; /* after the decision at the end of the prompt */
    kvt_cost_run run[KVT_COST_RUNS_MAX]; /* in order */
    int n_run;                           /* 0: no step is decoded */
    kvt_cost_run first, last, top;       /* the first step, the last, the one that holds most */
    double mean_held;                    /* over steps, in slots */
    bool assumed;                        /* from the policy's own rule, no trace */
    bool mapped; /* from a trace of another geometry: layers by relative depth, lanes by rank */
    bool scaled; /* from a trace of another length: by kept fraction */
} kvt_cost_load;

/* What decides how slots become bytes and time, of every case. Zeroes are defaults. */
typedef struct kvt_cost_setting {
    int64_t batch;         /* requests decoded together; 0: 1 */
    int64_t prefill_batch; /* of them, at most so many prompts are read together: times of the
                              prompt are theirs, and in memory the others hold what they hold
                              while decoding, at most; 0, or more than batch: all */
    double kv_bits;        /* 16, 8, 4; 0: 16 */
    double weight_bits;    /* of matrices inside the layers; 0: 16, or the model file's own */
    int64_t page_tokens;   /* 0: one allocation a lane, exact */
    bool shared_pages;     /* a page holds all kv heads of a layer (vLLM) */
    int64_t tensor;        /* devices that share each layer; 0: 1 */
    int64_t chunk;         /* tokens of a chunk of the prefill; 0: whole */
    bool full_windows;     /* layers with a window store every token, too */
    bool all_logits;       /* logits of all positions are kept (some published code) */
    bool masked;           /* nothing leaves memory, masks only (training frameworks) */
    double fragmentation;  /* share that is added to what is allocated */
} kvt_cost_setting;

/* By the policy's own rule: `budget` slots a lane on average, by its allocator where that needs
 * no scores, else evenly. Decoded tokens come on top, or inside (kvt_cost_work). */
KVT_API void kvt_cost_load_assume(kvt_cost_load *out, const kvt_use *use,
                                  const kvt_cost_work *work, const kvt_cost_geometry *g,
                                  const kvt_cost_setting *s, int64_t n_prompt,
                                  int64_t n_response, int64_t budget);
/* Of a cell of a replay (arrays where they are there: each step; else from lanes). Lengths
 * other than the trace's scale the kept fractions. */
KVT_API KVT_CHECKED kvt_code kvt_cost_load_result(kvt_cost_load *out, const kvt_result *r,
                                                  int cell, const kvt_cost_work *work,
                                                  const kvt_cost_geometry *g,
                                                  const kvt_cost_setting *s, int64_t n_prompt,
                                                  int64_t n_response, kvt_err *err);

/* ---- prediction ----------------------------------------------------------------------------
 */

/* X(name, what it is). Parts of a time that sum to its total. */
/* clang-format off */
#define KVT_PREFILL_PARTS(X)                                                       \
    X(linear,      "projections, feed-forward, output matrix of the last token")   \
    X(attention,   "attention")                                                    \
    X(elementwise, "norms, activations, residuals, where they are counted apart")  \
    X(exchange,    "all-reduces between devices")                                  \
    X(host,        "what the host takes longer than the device")                   \
    X(constant,    "serving")
#define KVT_EVICT_PARTS(X)                                                         \
    X(extra,    "tokens that run behind the prompt, adapters")                     \
    X(prefill,  "prefill of a draft model")                                        \
    X(draft,    "draft steps")                                                     \
    X(score,    "scoring")                                                         \
    X(select,   "pooling and picking")                                             \
    X(copy,     "moving what is kept together")                                    \
    X(host,     "launches; as published, what measured code takes beyond the traffic")
#define KVT_DECODE_PARTS(X)                                                        \
    X(fixed,    "fixed time of step, layers and requests")                         \
    X(weights,  "reading weights, or their math")                                  \
    X(kv,       "reading keys and values")                                         \
    X(policy,   "the policy's scoring, state and selection")                       \
    X(copy,     "moving slots together")                                           \
    X(exchange, "all-reduces between devices")                                     \
    X(host,     "what the host takes longer than the device")
/* X(name, help) parts of the memory at its peak, and of the steady one. */
#define KVT_MEMORY_PARTS(X)                                                        \
    X(weights,     "the model's weights")                                          \
    X(adapter,     "adapters, learned embeddings, scorers")                        \
    X(draft,       "weights of a draft model")                                     \
    X(draft_kv,    "its cache")                                                    \
    X(kv,          "keys and values")                                              \
    X(state,       "what the policy keeps beside them")                            \
    X(scratch,     "scores, copies, expanded keys")                                \
    X(activations, "activations of one layer, or logits")                          \
    X(runtime,     "driver, libraries, graphs")                                    \
    X(slack,       "rounding and fragmentation of allocations")
#define KVT_PHASES(X)                                                              \
    X(LOAD,      "load")                                                           \
    X(DRAFT,     "draft")                                                          \
    X(ATTENTION, "prefill attention")                                              \
    X(FFN,       "prefill feed-forward")                                           \
    X(LOGITS,    "prefill logits")                                                 \
    X(EVICT,     "eviction")                                                       \
    X(DECODE,    "decode")
/* clang-format on */

#define KVT_PART(name, help) double name;
typedef struct kvt_prefill_cost {
    double total;
    KVT_PREFILL_PARTS(KVT_PART)
} kvt_prefill_cost;
typedef struct kvt_evict_cost {
    double total;
    KVT_EVICT_PARTS(KVT_PART)
} kvt_evict_cost;
typedef struct kvt_decode_cost {
    double total;
    KVT_DECODE_PARTS(KVT_PART)
} kvt_decode_cost;
typedef struct kvt_memory_cost {
    double total;
    KVT_MEMORY_PARTS(KVT_PART)
} kvt_memory_cost;
#undef KVT_PART

typedef enum kvt_memory_phase {
#define X(id, text) KVT_PHASE_##id,
    KVT_PHASES(X)
#undef X
} kvt_memory_phase;

typedef enum kvt_bottleneck { KVT_BOUND_MATH, KVT_BOUND_MEMORY, KVT_BOUND_HOST } kvt_bottleneck;

/* A quantity may be from total (1 - lo) to total (1 + hi). NAN: not known. */
typedef struct kvt_band {
    double lo, hi;
} kvt_band;

typedef struct kvt_cost_case {
    const kvt_cost_geometry *geometry;
    const kvt_cost_geometry *draft; /* model of a draft; NULL where none is needed or known */
    const kvt_published *constants; /* of the profile: kvt_cost_constants() */
    const kvt_cost_work *work;
    const kvt_cost_load *load;
    const kvt_cost_setting *setting;
    int64_t n_prompt, n_response, budget;
} kvt_cost_case;

typedef struct kvt_cost {
    kvt_prefill_cost prefill; /* the dense one */
    kvt_evict_cost evict;
    double ttft;                                      /* prefill.total + evict.total */
    double evict_frac;                                /* evict.total / prefill.total */
    kvt_decode_cost step_first, step_mean, step_last; /* NAN where nothing is decoded */
    double decode;                /* s of all steps: step_mean.total x steps */
    double request;               /* ttft + decode */
    kvt_memory_cost peak, steady; /* steady: at the last decode step */
    kvt_memory_phase peak_phase;
    int peak_layer;       /* of the prefill phases, else -1 */
    double kv_mean;       /* bytes of keys and values, mean over steps */
    int64_t draft_tokens; /* that were counted */
    /* What fits into mem_bytes: at this budget rule, other things equal (of a larger batch
     * still prefill_batch prompts are read together). -1: mem_bytes is not known. */
    int64_t max_batch, max_context;
    double short_bytes; /* that the peak exceeds mem_bytes by; 0: it fits; NAN: not known */
    kvt_bottleneck ttft_bound, evict_bound, step_bound;
    bool cache_resident; /* weights and cache fit into the last-level cache */
    bool out_of_range;   /* far outside of what the machine was calibrated on */
    kvt_band ttft_band, evict_band, step_band, memory_band;
} kvt_cost;

/* Cannot fail and does not allocate; NAN where something is undefined (a draft without a
 * model). */
KVT_API void kvt_cost_predict(kvt_cost *out, const kvt_cost_case *c);

KVT_API const char *kvt_memory_phase_name(kvt_memory_phase p); /* "prefill feed-forward" */
KVT_API const char *kvt_bottleneck_name(kvt_bottleneck b);     /* "math" */

/* The parts by themselves, for tests, calibration and tables. */
KVT_API void kvt_cost_prefill(kvt_prefill_cost *out, const kvt_cost_geometry *g,
                              const kvt_machine *m, const kvt_cost_setting *s,
                              int64_t n_prompt);
/* One decode step that reads `run` (its steps are ignored); work and load may be NULL: a full
 * cache's. What a decision takes is spread over its period. */
KVT_API void kvt_cost_step(kvt_decode_cost *out, const kvt_cost_case *c,
                           const kvt_cost_run *run);
/* Bytes that an eager scoring pass moves (24 bytes a score, keys and values expanded), one
 * layer at a time, in seconds at the machine's e_m. */
KVT_API double kvt_cost_eager_score(const kvt_cost_geometry *g, const kvt_machine *m,
                                    int64_t rows, int64_t n_prompt);
/* The steps and the memory, phase by phase; returns how many rows of `out` were filled
 * (KVT_COST_PHASES_MAX at most): what the peak was taken from. */
enum { KVT_COST_PHASES_MAX = 2 * KVT_LAYERS_MAX + 8 };
typedef struct kvt_phase_row {
    kvt_memory_phase phase;
    int layer; /* -1: of the whole model */
    kvt_memory_cost memory;
} kvt_phase_row;
KVT_API int kvt_cost_timeline(kvt_phase_row *out, const kvt_cost_case *c);

/* ---- tables --------------------------------------------------------------------------------
 */

/* A row of cost.csv: a policy at a budget and a length, on a machine, under a profile. */
typedef struct kvt_cost_row {
    char run_id[KVT_RUN_ID], trace_id[128]; /* "" without a replay */
    char policy[96], policy_params[384], policy_title[128], exactness[24];
    char budget_asked[32], budget_rule[24];
    double budget_tokens, budget_frac;
    int64_t seed;
    char geometry[64], machine[64], profile[16], draft_geometry[64];
    int64_t prompt_tokens, response_tokens, batch, prefill_batch;
    double kv_bits, weight_bits;
    int64_t page_tokens, tensor_devices, draft_tokens;
    int64_t chunk_tokens, shared_pages, full_windows, all_logits, masked; /* 0, 1 but chunk */
    double fragmentation_frac;
    int64_t assumed, mapped, scaled, is_default, is_bound, is_control; /* 0, 1 */
    double kept_tokens_mean, end_slots_mean_tokens; /* of a lane, on this geometry */
    kvt_cost cost;
    int64_t fits; /* 1, 0; empty: the machine's memory is not known */
    int64_t peak_layer, max_batch, max_context_tokens; /* empty: none, not known */
    int64_t max_batch_apart; /* were prompts read one by one; 0 where the batch fits as it is */
    int64_t out_of_range, cache_resident; /* 0, 1; as in cost */
    char peak_phase[32], ttft_bottleneck[8], evict_bottleneck[8], step_bottleneck[8];
    char status[16], error[256]; /* ok, skipped */
} kvt_cost_row;

typedef struct kvt_cost_table {
    kvt_cost_row
        *row; /* sorted: trace, length, batch, budget, policy as asked, machine, profile */
    int64_t n;
} kvt_cost_table;

KVT_API const kvt_column *kvt_cost_columns(void); /* of kvt_cost_row, ends with {0} */
KVT_API kvt_table kvt_cost_table_of(const kvt_cost_table *t); /* "cost" */
KVT_API void kvt_cost_table_free(kvt_cost_table *t);

typedef struct kvt_cost_spec {
    const kvt_cost_geometry *geometry; /* NULL: that of each result's trace (see results) */
    const kvt_cost_geometry *draft;    /* NULL: the geometry's usual one */
    int64_t draft_tokens; /* of every draft; 0: the policy's own, or what was measured */
    const kvt_machine *machine;
    int n_machine;
    const kvt_cost_profile *profile;
    int n_profile;
    kvt_cost_setting setting;
    const int64_t *batch; /* several; NULL: setting.batch */
    int n_batch;
    const int64_t *length; /* prompt tokens; NULL: those of each trace */
    int n_length;
    int64_t n_response; /* -1: of the trace, 256 without one */
    /* Without results: policies x budgets by their own rules. */
    const kvt_registry *registry;
    const char *policies, *budgets; /* NULL: "all", "10%" */
    kvt_rule rule;
    kvt_act act;
    /* Kept counts of a replay: every cell that is ok. NULL: assumed. `trace_geometry` gives the
     * model of a trace (from its file); it may be NULL where `geometry` is set. */
    const kvt_results *results;
    kvt_code (*trace_geometry)(void *user, const char *trace_path, kvt_cost_geometry *out,
                               kvt_err *err);
    void *user;
    /* A model whose weights do not fit on any of the machines is an error, not a table; off:
     * the rows say so. */
    bool weights_must_fit;
} kvt_cost_spec;

/* Expands the spec and predicts every row. USAGE: an unknown policy, a budget of bytes that no
 * lane fits in; NO: memory cannot hold the weights (says what is short, by how much). */
KVT_API KVT_CHECKED kvt_code kvt_cost_make(kvt_cost_table *out, const kvt_cost_spec *spec,
                                           const kvt_ctx *ctx, kvt_err *err);
/* Reads "4Ki,8192,1K" and "4Ki..128Kix2" into tokens; at most `cap`. USAGE. */
KVT_API KVT_CHECKED kvt_code kvt_lengths_parse(int64_t *out, int cap, int *n, const char *text,
                                               kvt_err *err);

/* ---- calibration ---------------------------------------------------------------------------
 */

/* One measurement: a row of --calibrate's CSV. */
typedef struct kvt_cost_point {
    char quantity[16]; /* prefill, decode, evict */
    char geometry[64], policy[64];
    int64_t prompt_tokens; /* decode: slots of a lane that the step reads */
    int64_t batch, rows;   /* rows: scoring queries of an eviction; 0: the policy's own */
    double kv_bits, weight_bits;
    double measured_s, predicted_s, residual_frac; /* predicted / measured - 1 */
    double left_out_frac; /* the same, fitted without this point; NAN: fewer than 4 points */
    int64_t line;
} kvt_cost_point;

typedef struct kvt_calibration {
    kvt_machine machine; /* the base, with what was fitted (origin calibrated) */
    kvt_cost_point *point;
    int64_t n_point;
    double rms_prefill, rms_decode, rms_evict; /* of the residuals; NAN: nothing was fitted */
    bool host_bound; /* decode does not follow the context: the excess is a host floor */
    char note[256];  /* what was clamped, left at its default, or refused, and why */
} kvt_calibration;

/* Fits prefill (e_lin, e_att, constant), decode (t_layer, t_step, e_w, e_kv, or a host floor)
 * and eviction (evict_factor, evict_floor) by relative least squares, each where its points
 * suffice. `base` gives rates and what is not fitted. FORMAT: a line of the file (what,
 * expected, got); NO: lengths too close together (condition number above 1e4), or no quantity
 * has enough points. */
KVT_API KVT_CHECKED kvt_code kvt_calibrate(kvt_calibration *out, const kvt_machine *base,
                                           const char *csv_path, kvt_err *err);
KVT_API void kvt_calibration_free(kvt_calibration *c);
KVT_API kvt_table kvt_calibration_table(const kvt_calibration *c); /* its points */

/* ---- published figures ---------------------------------------------------------------------
 */

/* A number that was published or measured elsewhere, beside what the formulae give. */
typedef struct kvt_figure {
    const char *id;    /* "G16" */
    const char *group; /* heading of its table */
    const char *what;  /* "LookaheadKV, of the dense prefill, 32,768 tokens" */
    const char *unit, *profile, *source;
    double published, predicted;
    double least, most; /* predicted must lie within; the tolerance of the test */
    bool held_out;      /* no constant was fitted to it */
} kvt_figure;

/* Computes all of them; at most `cap`; returns how many there are. */
KVT_API int kvt_cost_figures(kvt_figure *out, int cap);

#endif
