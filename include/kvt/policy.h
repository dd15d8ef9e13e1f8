/* policy.h - what an eviction policy is. C only.
 *
 * The engine owns the cache, the clock, the budget, the random numbers and every byte of
 * memory. A policy owns an opinion: what to remember from a query, and which slots to keep.
 *
 * A lane is the cache of one kv head of one layer. Its slots hold tokens in ascending position.
 * For each lane the engine does
 *
 *   prefill   append all prompt tokens;
 *             step() once, with the last window() prompt queries
 *   decode    append one token;  step() with its one query
 *   in both   if slots > budget:  score(), select(), drop what was not kept
 *
 * With drop_first the decode order is append, drop, step. After an eviction a row is the
 * softmax of the same query over the slots that are left. What step() learns from the prompt is
 * shared by all budgets (lane->budget is 0 there); after that each budget has its own marks,
 * state and random stream.
 *
 * A policy of the prompt only may be run again while decoding (every=K): every K tokens its
 * marks and state are cleared, step() gets the last window() queries over the slots that are
 * left, and it decides as at the end of the prompt; step() is not called in between. A row of
 * that window has no weight on slots that came behind its query. lane->step is above 0 then,
 * and n_slot, not the prompt's length, says how many slots there are. Not for a policy that
 * selects over several lanes, or reads what is there of the prompt only. */
#ifndef KVT_POLICY_H
#define KVT_POLICY_H

#include "kvt/arena.h"
#include "kvt/need.h"
#include "kvt/param.h"
#include "kvt/sequence.h"
#include "kvt/view.h"
#include "kvt/work.h"

struct kvt_share;
enum { KVT_POLICY_ABI = 4 };

/* When it may act. A prefill-only policy lets decoded tokens pile up. */
typedef enum kvt_phase { KVT_PREFILL = 1 << 0, KVT_DECODE = 1 << 1 } kvt_phase;

/* Which lanes select() and the allocator see together, and so may trade slots. By model, a lane
 * is scored when its layer's prompt is there: score() sees its views as ever, select() and the
 * allocator see scores, marks and states of all lanes, but none of the views, for layers are
 * read one at a time. */
typedef enum kvt_scope { KVT_BY_LANE, KVT_BY_LAYER, KVT_BY_MODEL } kvt_scope;

/* What becomes of a slot that was not kept. */
typedef enum kvt_effect {
    KVT_EVICT, /* gone for good */
    KVT_SKIP,  /* not attended to by this query, still there for the next */
    KVT_JOIN,  /* averaged into the slot before it: see join() */
    /* All slots stay, channels of the keys go: score() ranks the D channels of the lane's keys
     * (out and pinned are [D], mark is as ever), once, at the end of the prompt. A budget of B
     * slots is the bytes of B slots: D (2 B - N) / N channels of N keys and all values; below
     * N / 2 it is refused. step() comes right in front of score(), and sees the same: keys,
     * values, the last window() queries. select(), if there is one, marks keep[0] [D] with
     * budget[0] channels. */
    KVT_CHANNELS
} kvt_effect;

/* X(name, as printed, what the number is worth), best first. Printed beside every result and
 * stored in it. */
/* clang-format off */
#define KVT_EXACTNESSES(X)                                                               \
    X(EXACT,          "exact",          "the set that the policy keeps on this model")   \
    X(BUDGET_EXACT,   "budget-exact",   "exact at the budgets its probe was run for")    \
    X(OPEN_LOOP,      "open-loop",      "later queries are those of the full cache")     \
    X(SURROGATE,      "surrogate",      "stands in for a policy that changes the model") \
    X(NOT_REPLAYABLE, "not replayable", "refused: the trace cannot tell")
/* clang-format on */

typedef enum kvt_exactness {
#define X(name, text, help) KVT_##name,
    KVT_EXACTNESSES(X)
#undef X
} kvt_exactness;

/* What the engine, the reports and the reader must know before it runs. */
typedef struct kvt_traits {
    unsigned phases; /* kvt_phase */
    unsigned needs;  /* kvt_need */
    kvt_scope scope;
    kvt_effect effect;

    /* The best class it can have. The engine prints the worse of this and of what it finds:
     * acting in decode is open-loop at best, a probe that was run for one budget is
     * budget-exact at best. */
    kvt_exactness exactness;

    /* score() depends neither on the budget nor on earlier evictions: the engine ranks each
     * lane once and cuts that ranking at every budget. Only for prefill; lane->budget is 0
     * then. */
    bool one_ranking;

    /* Only for variants whose code repeats keys and values first (LAQ, the authors' SnapKV): a
     * lane for each query head, H is 1 in every view, and bytes are counted so. */
    bool by_query_head;

    bool drop_first; /* in decode it drops before the row attends: a row sees B, not B + 1 */

    /* Keys take the position of their slot and the newest query that of the last one
     * (StreamingLLM's code): the same slots stay, but the output error is that of rows made
     * again from keys and queries turned to these positions. */
    bool cache_positions;

    /* Under KVT_CHANNELS: so many of the last prompt tokens keep all channels of their keys. */
    int64_t whole_recent;

    bool may_exceed; /* published arithmetic may hold more than B: the audit shows it */

    /* It keeps what reaches a threshold and has no budget of its own: asked for one, the
     * engine finds the threshold whose mean kept count over the other traces of the set meets
     * it (design.md 6), and the report says "matched mean"; threshold=X sets it. What is
     * pinned, and what scores the threshold or more, is kept; select() is not called. */
    bool by_threshold;
    /* Under by_threshold: it brings a threshold of its own, which is taken unless threshold=X
     * gives another one; nothing is matched then. */
    bool own_threshold;

    /* select() keeps the best of all lanes that it sees: where that is one (scope), scores are
     * a ranking, as without it. */
    bool selects_best;

    /* Scores are attention that slots got or are expected to get (sums, means or maxima of
     * weights), so that their shares may be compared with it (metric score_kl). Not logarithms,
     * priorities, ranks, nor a regression that may be negative. */
    bool mass_scores;
    /* In decode it reads keys and values of the newest slot only: those of the others are not
     * gathered, what stands in their place is no number of theirs. */
    bool new_slots_only;
    /* It reads future_all: `future` is not gathered over slots, and empty where one is gone. */
    bool future_by_position;
    double threshold;

    /* In decode it decides every so many tokens, unless every=K or --shrink-every says
     * otherwise; 0: after each. Between decisions a lane grows. */
    int64_t every;

    /* Of the table's controls and bounds: full, random, position, the oracles. */
    bool control;

    /* With KVT_NEED_PROBE: the kind of probe (traces/probes.def) that it reads. The trace's one
     * probe of that kind is taken; where there are several, the one of the policy's name; the
     * engine's own parameter probe=NAME takes another one. A kind that runs on an evicted cache
     * is looked up for each budget: a cell whose budget no probe was run at is skipped, and a
     * probe= of another budget makes the class surrogate. */
    const char *probe;

    /* Scores are those of decision/logit: the policy whose decisions the trace must hold
     * (attribute policy of /decision). With KVT_NEED_DECISION. */
    const char *decision;
} kvt_traits;

/* Extra tokens that ran on the stored prompt: learned tokens, a draft, the prompt repeated.
 * Here Q counts the probe's tokens. */
typedef struct kvt_probe {
    /* f32 [H Q S] the prompt's part of each row, as attention rows are made (the softmax of the
     * stored halves over the prompt and the probe's own keys up to itself, rounded to half);
     * sums to at most 1. data NULL where the probe ran on an evicted cache or in segments: the
     * policy makes its own rows from queries and keys (kvt_softmax_rows). */
    kvt_view attn;
    kvt_view queries; /* f32 [H Q D] after RoPE */
    kvt_view keys;    /* f32 [Q D] after RoPE, of the probe's own tokens */
    kvt_view lse;     /* f32 [H Q] over all that the rows saw */
    kvt_view pos;     /* i32 [Q] */
    kvt_view h_norm;  /* f32 [Q] norm of each token's residual */
    int64_t budget;   /* of the cache that it ran on; 0: the full cache */
    /* Segments that do not see each other, about chunks of the prompt (KVzip). */
    int n_segment;
    const int32_t *segment;     /* [Q], NULL: all 0 */
    const int32_t *begin, *end; /* [n_segment] prompt tokens of the chunk */
    const int32_t *from;        /* [n_segment] first row whose attention counts */
} kvt_probe;

/* One tensor that a weights file must hold. A policy with a table of these, ended by {0}, takes
 * the engine's own parameter weights=FILE. The engine opens the file once, checks its kind, its
 * model and every line here, and stores the file's digest in the result. The hooks see the
 * tensor of their lane: the axes L and G are gone, H is the heads of the lane. An axis of the
 * geometry (L H G D E) has its extent; any other letter has one extent over all lines. axes ""
 * is one number. */
typedef struct kvt_weight {
    const char *name; /* "gate/down" */
    const char *axes; /* "LGED": the hooks see this lane's [E D] */
    const char *help;
} kvt_weight;

typedef struct kvt_lane {
    int layer;   /* which lane: layer of the trace, */
    int group;   /* kv head (query head where by_query_head) */
    int n_layer; /* layers of the whole model; model_layer is this one's place among them */
    int model_layer;
    int64_t now;      /* position of the newest token */
    int64_t budget;   /* slots it may hold; 0 under one_ranking and in step() */
    double threshold; /* under by_threshold; NAN while scores are collected to find it */
    int64_t n_slot;
    int64_t step; /* 0: the decision at the end of the prompt; t follows response row t - 1 */
    const int64_t *pos;        /* [S] position held by each slot, ascending */
    float *mark;               /* [S slot_width] the policy's own; moves with the slots */
    void *state;               /* state_size bytes, the policy's own; zero at the start */
    const kvt_sequence *seq;   /* the prompt: lengths, spans, ids, flags, geometry */
    kvt_view attn;             /* f32 [H Q S] each row sums to 1 over the slots */
    kvt_view logits;           /* f32 [H Q S] scaled, before the softmax; unseen: -INFINITY */
    kvt_view blocks;           /* f32 [H J S] attention of each block of prompt queries */
    kvt_view col_sum, col_max; /* f32 [H S] causal, before any eviction */
    kvt_view keys, values;     /* f32 [S D] keys after RoPE */
    kvt_view queries;          /* f32 [H Q D] after RoPE */
    kvt_view query_mean, query_cov; /* f32 [H D], [H D D] before RoPE */
    kvt_view query_freq_abs;        /* f32 [H F] mean magnitude of each rotary pair */
    kvt_view wo_l1, wo_l2;          /* f32 [H S] norms of W_O v */
    kvt_view hidden; /* f32 [S E] input of the projections, after the input norm */
    /* f32 [S] the logit that decides on the slot's token: the trace's attribute shift is taken
     * away, so that DMS's bit of token t + 1 lies at token t; NAN where it has not arrived. */
    kvt_view decision;
    kvt_view decision_weight; /* f32 [S], of joins; data NULL where the trace has none */
    kvt_view future;          /* f32 [H Q S] attention of the queries after `now` */
    /* f32 [H Q T'] the same by position, not by slot, of what is gone, too; T' is what has
     * arrived, or more. */
    kvt_view future_all;
    /* f32 [H Q D] with KVT_NEED_FUTURE and KVT_NEED_VALUES, at the end of the prompt: what
     * tokens that are still to come add to the output of those queries, the sum of their
     * attention times their values. data NULL: not known. */
    kvt_view future_rest;
    kvt_view future_late; /* f32 [H Q T'] what they give to the tokens after `now`, rising */
    /* i32 [S] with KVT_NEED_PLAN: the step after whose row the best schedule of irreversible
     * eviction drops the slot (0: at the end of the prompt), INT32_MAX: never. */
    kvt_view drop_step;
    kvt_view scores;         /* f32 [S] computed by another program */
    kvt_view scores_pinned;  /* u8 [S], data NULL: none */
    const kvt_probe *probe;  /* its attn is NULL where it ran on an evicted cache */
    const kvt_view *weights; /* one for each line of the policy's table; f32 */
    /* Of a policy with a base, in score(): what the base scores [S] and always keeps. */
    const float *base_score;
    const bool *base_pinned;
    /* In split() and gap() of an allocator: what its learn() wrote [S mark_width], its own
     * table, and what the lane's rule keeps in any case [S] (NULL: nothing). */
    const float *share_mark;
    const kvt_view *share_weights;
    const bool *share_pinned;
    /* Under KVT_NEED_LAYER, of the whole layer: queries f32 [H Q D], keys, values [G S D]. */
    kvt_view layer_queries, layer_keys, layer_values;
    float decision_gamma; /* decision/gamma of the lane; 1 where the trace has none */
    kvt_arena *scratch;   /* rewound after each hook */
    uint64_t *rng; /* [KVT_RNG_WORDS] one stream for each (seed, trace, policy, layer, lane) */
} kvt_lane;

typedef struct kvt_policy {
    uint32_t abi; /* KVT_POLICY_ABI */

    /* Identity: `kvt policy list`, --help, the manual, docs/policies.md. */
    const char *name;  /* [a-z0-9-]+, as typed */
    const char *title; /* one line, no full stop */
    const char *paper; /* authors, name, year, arXiv or DOI: one short line */
    const char *about; /* the paper in a few paragraphs, "\n\n" between them: idea, what decides
                        * when, training, published settings; NULL where the title says all */
    const char *differs; /* how the default departs from the paper, or "" */

    kvt_traits traits; /* the most that it ever does: vary() only narrows it */
    int slot_width;    /* floats of mark for each slot */
    size_t state_size; /* bytes of state for each lane */

    /* Why a trace cannot tell, where exactness is (or vary() makes it) KVT_NOT_REPLAYABLE: one
     * line, no full stop. Such a policy is listed and refused with it; it may have no hooks. */
    const char *why_not;

    size_t params_size;
    const kvt_param *params;   /* ends with {0}; NULL: none */
    const kvt_weight *weights; /* ends with {0}; NULL: nothing learned. With KVT_NEED_WEIGHTS */
    const char *weights_kind;  /* kind of the file; NULL: the policy's name */

    /* The policy that scores in front of this one, unless base=NAME names another; its own
     * parameters are typed as base.NAME=VALUE. NULL: it has none. The engine runs the base's
     * step() and score() on marks of its own and shows the result in kvt_lane.base_score. A
     * base has score(), evicts, keeps no threshold, reads no file, has no base, does not select
     * over several lanes, and has a lane for each query head if the policy has. Of the last
     * queries each of the two sees those of its own window; random numbers come from one
     * stream. Needs, window, lanes by query head and a worse exactness are taken over from it;
     * so is acting in decode only, or in the prompt only; one ranking needs both. */
    const char *base;

    /* Hooks. `params` is the policy's own struct, defaults filled in. Each is optional, but one
     * of score and select must be there. None of them allocates outside scratch, prints, or
     * keeps a pointer past its return. */

    /* Fewer phases or needs, a worse exactness, lanes by query head: what these parameters
     * change. */
    void (*vary)(const void *params, kvt_traits *traits);

    /* Where the rule itself is impossible with these numbers at this budget (a share of 0, more
     * pinned than the budget holds and known before scoring), writes one line into `why` and
     * returns false: the cell is skipped with it. n_token: how many tokens a lane may come to
     * hold, those of the prompt, and of the response where it acts in decode. */
    bool (*fits)(const void *params, int64_t budget, int64_t n_token, char *why, size_t cap);

    /* How many of the last prompt queries step() gets. NULL: none. */
    int64_t (*window)(const void *params, int64_t n_prompt);

    /* Memory that depends on the trace or on parameters. NULL: slot_width, state_size. */
    void (*size)(const void *params, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size);

    /* Once a lane and budget, before its first decision: at the end of the prompt, with the
     * views of score(). Under SKIP, too, where lane->budget is what a row may see. Before each
     * decision of a policy that decides anew (every=K), behind step(). */
    void (*begin)(const void *params, kvt_lane *lane);

    /* How slots are shared out over lanes unless the user says another one (snapkv/ada). NULL:
     * evenly. Allocators are a registry of their own (kvt/share.h). */
    const struct kvt_share *share;
    /* What this policy sets in its allocator's parameters ("beta=20"), from its own. NULL:
     * nothing. */
    void (*share_params)(const void *params, char *out, size_t cap);

    /* Learns from queries: reads attn, writes mark. */
    void (*step)(const void *params, kvt_lane *lane);

    /* Ranks the slots into score [S], higher is kept, and sets pinned [S] for those that its
     * rule always keeps (sinks, window). Both start at zero. A pinned slot is out of the
     * ranking: its score is not read. */
    void (*score)(const void *params, float *score, bool *pinned, const kvt_lane *lane);

    /* Marks keep[i][s] over the lanes of the scope, at most sum(budget) in all, what is pinned
     * included (may_exceed: more, and the audit shows it). NULL: the best budget[i] of each
     * lane; of equal scores the lower position is kept. */
    void (*select)(const void *params, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget);

    /* Under KVT_JOIN: true where the newest token is averaged, before RoPE, into the slot
     * before it, with this weight (DMC). */
    bool (*join)(const void *params, const kvt_lane *lane, float *weight);

    /* What the engine cannot see from traits, window and size: drafts, extra tokens, how it
     * selects, layout. NULL: nothing more. */
    void (*work)(const void *params, kvt_work *work);
} kvt_policy;

enum { KVT_RNG_WORDS = 4 };

KVT_API const kvt_policy *const *kvt_policies(void);         /* by name, ends with NULL */
KVT_API const kvt_policy *kvt_policy_find(const char *name); /* built-in ones only; or NULL */
KVT_API const char *kvt_exactness_name(kvt_exactness e);     /* "open-loop" */
KVT_API const char *kvt_exactness_help(kvt_exactness e);

#endif
