/* pieces.h - arithmetic that policies, allocators and metrics share (replay/pieces.c). The last
 * axis of a view has stride 1 here. */
#ifndef KVT_PIECES_H
#define KVT_PIECES_H

#include "kvt/policy.h"

/* Pools of stride 1 over `width` values around each; an even width counts as the next odd one.
 * The mean counts what lies outside as zero, the maximum leaves it out. out and in differ. */
KVT_API void kvt_pool_mean(float *out, const float *in, int64_t n, int64_t width);
KVT_API void kvt_pool_max(float *out, const float *in, int64_t n, int64_t width);
KVT_API void kvt_add_rows(float *mark, const kvt_view *attn); /* mark[s] += sum over H, Q */
KVT_API void kvt_mean_heads(float *out,
                            const kvt_view *rows); /* out[s] = mean over H of [H S] */

/* The rule of observation windows: pins the last `window` slots and returns how many lie before
 * them. Where none does there is nothing to score: nothing is pinned, the scores rise with the
 * position (the latest are kept), and it returns 0. */
KVT_API int64_t kvt_pin_window(float *score, bool *pinned, int64_t n_slot, int64_t window);
/* Whether these are the scores of that case: a policy with a base then keeps the latest, too.
 */
KVT_API bool kvt_is_latest(const float *score, const bool *pinned, int64_t n_slot);

/* The fits() of observation windows: false, and why, where a prompt that is longer than both
 * the window and the budget has a budget below the window. */
KVT_API bool kvt_window_fits(int64_t window, int64_t budget, int64_t n_prompt, char *why,
                             size_t cap);

/* Softmax rows of queries over chosen keys, for probes whose rows the engine does not make:
 *
 *   z[q, s] = scale * sum over d of query[q, d] key[s, d],  s < n_key, and s < n_see[q]
 *   out[q, s] = exp(z - max) / sum over s, 0 where it is not seen
 *
 * in f32; queries [n_query D] with `ld` floats between them, keys [n_key D] contiguous, n_see
 * [n_query] or NULL: all. Tolerance 1e-6. */
KVT_API void kvt_softmax_rows(float *out, const float *query, int64_t ld, int64_t n_query,
                              const float *key, int64_t n_key, int64_t n_dim, float scale,
                              const int64_t *n_see);

/* The same for the heads of a lane over its own keys: row q sees first[q] <= s < end[q] (a
 * sliding window has a first; kvt_geometry_first). queries [H Q D], keys [S D], out [H Q S].
 * False: scratch has no room. */
KVT_API bool kvt_softmax_heads(float *out, const kvt_view *queries, const kvt_view *keys,
                               float scale, const int64_t *first, const int64_t *end,
                               kvt_arena *scratch);

/* out[i, o] = bias[o] + sum over j of x[i, j] weight[o, j]: x [n W] with `ld` floats between
 * rows, weight [n_out W], bias NULL: 0. Each out depends on its own row only, in a fixed order.
 */
KVT_API void kvt_affine(float *out, const float *x, int64_t ld, int64_t n, int64_t n_in,
                        const float *weight, const float *bias, int64_t n_out);
KVT_API void kvt_silu(float *x, int64_t n); /* x / (1 + exp(-x)), in place */
KVT_API void kvt_gelu(float *x, int64_t n); /* x Phi(x), the exact form, in place */

/* How rows of attention become one score a slot (policies-learned.md 1.3): the reduction that
 * LookaheadKV, Judge Q, a fixed suffix and their bound share, and their parameters.
 *
 *   mass[h, s] = sum over rows Q of attn[h, Q, s]
 *   score[s]   = mean or maximum over the heads h of mass[h, s], pooled over `pool` slots,
 *                or with order=pool the mean or maximum of each head's pooled mass
 *
 * that is the number of rows times the published mean over rows: no order changes. The last
 * `recent` slots are pinned. */
enum { KVT_REDUCE_MEAN, KVT_REDUCE_MAX };              /* reduce */
enum { KVT_POOL_MAX, KVT_POOL_AVG };                   /* kind */
enum { KVT_ORDER_REDUCE_POOL, KVT_ORDER_POOL_REDUCE }; /* order */

typedef struct kvt_reduction {
    int reduce, kind, order;
    int64_t pool; /* 0: none */
    int64_t recent;
} kvt_reduction;

extern KVT_API const kvt_param kvt_reduction_params[]; /* mean, 7, max, reduce first, 0 */

/* rows f32 [H Q S]; score [S] is written; NaN where scratch has no room. */
KVT_API void kvt_reduce_rows(float *score, bool *pinned, const kvt_view *rows,
                             const kvt_reduction *r, kvt_arena *scratch);
/* The fits() of these: false where the pool is even, or the pinned tokens exceed the budget. */
KVT_API bool kvt_reduction_fits(const void *reduction, int64_t budget, int64_t n_token,
                                char *why, size_t cap);

/* Pools `in` into out as kind and width say: 0 and 1 copy. out and in differ. */
KVT_API void kvt_pool(float *out, const float *in, int64_t n, int64_t width, int kind);

/* ---- learned scorers (replay/pieces_score.c): without memory a score is NaN, which the engine
 * refuses -----------------------------------------------------------------------------------
 */

/* x[i] = [k; v] of slot from + i, the key after RoPE: x f32 [n 2D]. */
KVT_API void kvt_key_value(float *x, const kvt_lane *lane, int64_t from, int64_t n);
/* A network of one hidden layer,
 *
 *   out[i] = b' + sum over K of w'[K] unit(w x[i] + b)[K]
 *
 * with weight[0..3] = w [K W], b [K], w' [K], b' [], as kvt_lane.weights gives them, unit
 * kvt_silu or kvt_gelu, x [n W] contiguous. */
KVT_API void kvt_network(float *out, const float *x, int64_t n, const kvt_view *weight,
                         void (*unit)(float *x, int64_t n), kvt_arena *scratch);
/* mark[s] = network of [k; v] with SiLU, for every slot at or behind position *seen, which then
 * is the next position: a token is scored once. */
KVT_API void kvt_network_new(kvt_lane *lane, int64_t *seen);
/* First slot at or behind a position. */
KVT_API int64_t kvt_slot_from(const kvt_lane *lane, int64_t position);
KVT_API float kvt_weight_number(const kvt_lane *lane, int i); /* weights[i], axes "" */

/* ---- rotary positions (replay/pieces_rope.c; layout half: pairs (i, i + D/2)) ---------------
 */

/* freq [D / 2] radians a position of that layer (layers with a window may have a base of their
 * own); returns the factor that cos and sin carry there (YaRN's magnitude; 1: none). */
KVT_API double kvt_rope_freq(double *freq, const kvt_geometry *g, int model_layer);
/* out [D] = a key or query after RoPE, [D], moved by `delta` positions: each pair is turned by
 * delta freq. No factor is applied again: the norm stays, and -delta turns back. out may be
 * in. n_dim even. */
KVT_API void kvt_rotate(float *out, const float *in, const double *freq, int64_t n_dim,
                        int64_t delta);
/* The same key or query before RoPE: turned back by its position and divided by the factor of
 * kvt_rope_freq(). */
KVT_API void kvt_unrotate(float *out, const float *in, const double *freq, int64_t n_dim,
                          int64_t position, double factor);

/* ---- keys, values and moments of queries (replay/pieces_geometry.c) -------------------------
 */

static inline const float *kvt_row(const kvt_view *v, int64_t i) /* of a view [S D] */
{
    return (const float *)v->data + i * v->stride[0];
}
static inline const float *kvt_head_row(const kvt_view *v, int64_t h, int64_t i) /* [H Q D] */
{
    return (const float *)v->data + h * v->stride[0] + i * v->stride[1];
}
static inline double kvt_heads_sum(const kvt_view *v, int64_t i, int64_t s) /* over H */
{
    double sum = 0;
    for (int64_t h = 0; h < v->dim[0]; h++)
        sum += (double)kvt_head_row(v, h, i)[s];
    return sum;
}
KVT_API double kvt_norm(const float *x, int64_t n); /* Euclidean */
KVT_API double kvt_dot(const float *a, const double *b, int64_t n);
/* The fits() of rules that pin so many tokens, or all of a shorter lane: false, and "4 sinks
 * need a budget of 4 or more, got 3". */
KVT_API bool kvt_pinned_fits(int64_t pinned, const char *what, int64_t budget, int64_t n_token,
                             char *why, size_t cap);

/* Of lanes with keys, query_mean and query_cov; false: scratch has no room. With R the mean
 * rotation of the `future` positions behind lane->now,
 *
 *   q [D] = R m                                          of a query head's mean m before RoPE
 */
KVT_API bool kvt_expected_query(double *q, const kvt_lane *lane, int64_t head, int64_t future);
/* Expected Attention (arXiv 2510.00636) of one query head, with its covariance C and the
 * model's scale c: out [S] = softmax over the slots that are not pinned, 0 at those that are,
 * of
 *
 *   c (R m).k_s + c^2 / 2 k_s^T R C R^T k_s              the latter with `covariance` */
KVT_API bool kvt_expected_attention(double *out, const kvt_lane *lane, int64_t head,
                                    const bool *pinned, int64_t future, bool covariance);
/* LagKV (arXiv 2504.04704): out [n] += weight times the softmax, over the rows at..at + n - 1
 * of v [S D], of the deviation (D - 1) over channels of (x - least) / (largest - least), with
 * the ends of the n rows behind them; a channel without range is 0. False: no room. */
KVT_API bool kvt_add_lag(double *out, const kvt_view *v, int64_t at, int64_t n, double weight,
                         kvt_arena *scratch);

/* turn[s] = the how many-th slot s goes of a lane with values and future: always the one
 * without which the output of the response's rows changes least, beside what went before, as
 * oracle-output says it; o and p are made again after `batch` of them. O(H M S) memory. False:
 * scratch has no room. replay/pieces_output.c */
KVT_API bool kvt_eliminate(float *turn, const kvt_lane *lane, int64_t batch);

/* ---- small dense algebra, in double (replay/pieces_solve.c) ---------------------------------
 */

/* a [n n], symmetric and positive definite, becomes its lower factor L, a = L L^T; what lies
 * above the diagonal is left. False: it is not positive definite. */
KVT_API bool kvt_cholesky(double *a, int64_t n);
/* x^T a^-1 x of a factored a, which is the square of L^-1 x; x becomes that. */
KVT_API double kvt_cholesky_form(const double *factor, double *x, int64_t n);
/* out [n] = draws of N(0, 1). */
KVT_API void kvt_random_normal(double *out, int64_t n, uint64_t *rng);

/* ---- what Compactor is made of (replay/pieces_compactor.c; arXiv 2507.08143) ----------------
 *
 * Both give a score to the tokens `from`..`from` + n - 1 of a lane, [n], and are false where
 * scratch has no room. */

/* Leverage: with X the keys before RoPE, centred over these tokens, times a Gaussian sketch
 * [D sketch] / sqrt(sketch) from the lane's stream,
 *
 *   out[j] = max(0, x_j^T (X^T X + e I)^-1 x_j),   e = 0.01, ten times that until it factors
 *
 * keys [S D] after RoPE. sketch 0: X as it is, nothing is drawn. */
KVT_API bool kvt_leverage(double *out, const kvt_view *keys, const kvt_lane *lane, int64_t from,
                          int64_t n, int64_t sketch);
/* Attention without order: in chunks of `chunk` tokens, the sum over queries, mean over the R
 * query heads,
 *
 *   A = softmax over the chunk of q_i.k_j, unscaled
 *   out[j] = ||v_j|| / R sum over heads, i of A_ij,   then the mean of 3 neighbours
 *
 * queries [R Q D] of the positions up to lane->now: a token without one only answers. `padded`
 * fills the last chunk up with zeros, as kvpress 8bb29b9 does. */
KVT_API bool kvt_chunk_attention(double *out, const kvt_view *queries, const kvt_view *keys,
                                 const kvt_view *values, const kvt_lane *lane, int64_t from,
                                 int64_t n, int64_t chunk, bool padded);
/* x = (x - mean) / deviation over all of n numbers, by n - 1, at least 1e-6. */
KVT_API void kvt_standardize(double *x, int64_t n);
/* `count` heads from `first` of a view of the whole layer. */
KVT_API kvt_view kvt_heads_of(const kvt_view *layer, int64_t first, int64_t count);

/* KVpop's rule (arXiv 2607.05061): positions below `sinks` and the last `window` are pinned,
 * of the others
 *
 *   step = 1   pi_t = r_t - t log gamma                     the same at every q
 *   step > 1   r_t(q) = r_t + floor((q - t) / step) log gamma
 *
 * decide; with step > 1 each row of the prompt drops the least in its turn, O(S) a row, since
 * the order of its end would keep another set. Where the budget leaves no slot for them the
 * best is pinned, too, so that the engine refuses with the budget that is needed. r [S], f32.
 */
typedef struct kvt_pop {
    int64_t sinks, window, step;
    double log_gamma;
} kvt_pop;
KVT_API void kvt_pop_score(const kvt_pop *p, const float *r, float *score, bool *pinned,
                           const kvt_lane *lane);

/* ---- sums of what queries looked at (replay/pieces_sums.c) ---------------------------------
 */

/* floor(share n), where 0.29 x 100 is 29: a decimal fraction may fall just short. */
KVT_API int64_t kvt_share_floor(double share, int64_t n);
/* The fits() of rules whose newest tokens are a share of the budget: false, and "recent=0.5 of
 * a budget of 1 is no token", where one above 0 comes to none. */
KVT_API bool kvt_recent_fits(double recent, int64_t budget, int64_t n_token, char *why,
                             size_t cap);
/* -ln(-ln u) of a u that is neither 0 nor 1: the k best of x + such noise are a draw of k
 * without replacement with weights exp(x). */
KVT_API double kvt_gumbel(uint64_t *rng);
/* mark[s] += H n_query times the sum over H, Q of rows |v_s|, divided by the sum of that over
 * s: as much as n_query rows. rows [H Q S], values [S D]. False: scratch has no room. */
KVT_API bool kvt_add_by_length(float *mark, const kvt_view *rows, const kvt_view *values,
                               int64_t n_query, kvt_arena *scratch);

/* work() of such sums: a float beside each slot, of rows that the attention must write whole.
 */
KVT_API void kvt_sums_work(const void *params, kvt_work *work);

/* Masks over a full cache (h2o-mask, h2o-lm-eval), with kvt_select_pinned(): the marks of a
 * slot. */
typedef struct kvt_mask {
    float sum;  /* what it got of rows so far */
    float seen; /* by the newest row: 1 or 0; NaN, which is refused: scratch has no room */
} kvt_mask;
enum { KVT_MASK_WIDTH = sizeof(kvt_mask) / sizeof(float) }; /* slot_width */
static inline kvt_mask *kvt_masks(const kvt_lane *lane)     /* [S] */
{
    return (kvt_mask *)lane->mark;
}
/* Adds to the sums what rows [H S] give over H, or the first of rows [H Q S]. */
KVT_API void kvt_mask_add(kvt_lane *lane, const kvt_view *rows);
/* score(): pins what is seen. */
KVT_API void kvt_mask_score(const void *params, float *score, bool *pinned,
                            const kvt_lane *lane);

/* A row of bits in the places of floats, 32 in each: as numbers they are never read. */
KVT_API int64_t kvt_bit_words(int64_t n_bit);
KVT_API void kvt_put_bit(float *row, int64_t bit, bool on);
KVT_API int64_t kvt_count_bits(const float *row, int64_t n_word);

/* How much other keys say the same (R-KV, arXiv 2505.24133): with u the keys over their length
 * + 1e-8,
 *
 *   c[i s] = u_i . u_s, 0 for i = s, and 0 for the last s with c[i s] > similar in each row i
 *   out[s] = softmax over s of mean over i of c[i s]
 *
 * in tiles of rows, never [S S]. spare_first: the first such s; column_zero: s = 0 in rows that
 * have none. keys [S D], out [S]. False: scratch has no room. */
typedef struct kvt_redundancy_rule {
    double similar;
    bool spare_first, column_zero;
} kvt_redundancy_rule;
KVT_API bool kvt_redundancy(double *out, const kvt_view *keys, const kvt_redundancy_rule *rule,
                            kvt_arena *scratch);

/* ---- the last prompt queries, and the ends of lanes (replay/pieces_window.c) ----------------
 */

/* window() and fits() of policies whose parameters begin with `int64_t window`: so many of the
 * last prompt queries, which are always kept. */
KVT_API int64_t kvt_window_rows(const void *params, int64_t n_prompt);
KVT_API bool kvt_window_held(const void *params, int64_t budget, int64_t n_prompt, char *why,
                             size_t cap);
enum { KVT_N_POOL_KIND = 2 };
extern KVT_API const kvt_choice kvt_pool_kinds[KVT_N_POOL_KIND]; /* max, mean */

/* Parameters that many policies have. */
#define KVT_PARAM_COMPAT(S, choices) \
    KVT_PARAM_CHOICE(S, compat, 0, choices, "published implementation to follow")
#define KVT_PARAM_WINDOW(S, n) \
    KVT_PARAM(S, window, n, 1, 4096, "tokens", "last prompt queries that vote, always kept")
#define KVT_PARAM_POOL(S, n)                \
    KVT_PARAM(S, pool, n, 1, 255, "tokens", \
              "width of the pool; an even one counts as the next odd one")
#define KVT_PARAM_KIND(S, kind_) \
    KVT_PARAM_CHOICE(S, kind, kind_, kvt_pool_kinds, "what the pool takes")

KVT_API int64_t kvt_lane_heads(const kvt_sequence *seq); /* query heads of a kv head's lane */
/* mark[s, h] = what slot s gets of the rows of query head h, of n_set; n_set 1: of all rows.
 * NaN where scratch has no room. */
enum {
    KVT_VOTE_SUM,
    KVT_VOTE_MEAN,
    KVT_VOTE_MAX, /* the largest of all rows */
    KVT_VOTE_HEAD /* the largest of the heads' sums */
};
KVT_API void kvt_vote(kvt_lane *lane, int64_t n_set, int how);
/* out[s] += sum over the sets of votes in marks [S n_set], each pooled over s < n (kvt_pool),
 * by `divisor`. NaN where scratch has no room. */
KVT_API void kvt_pool_votes(float *out, const kvt_lane *lane, int64_t n, int64_t n_set,
                            int64_t width, int kind, int64_t divisor);
/* How many of the lanes from lane[0] on are of its layer: those of a layer lie together. */
KVT_API int kvt_layer_lanes(const kvt_lane *lane, int n_lane);
KVT_API void kvt_no_score(float *score, int64_t n); /* NaN, which the engine refuses */

/* The fits() of rules that keep so many tokens of both ends: false, and "4 first and 10 newest
 * tokens need a budget of 14 or more, got 13". */
KVT_API bool kvt_ends_fit(int64_t first, int64_t last, int64_t budget, int64_t n_token,
                          char *why, size_t cap);
/* Of the lanes cut[0..n_cut - 1] the `first` slots and the last ones, `hold` together; of all
 * others every slot. hold 0: the cut ones share what the others leave of `total` evenly, where
 * it does not divide the first of them get one more. */
KVT_API void kvt_keep_ends(bool *const *keep, const kvt_lane *lane, int n_lane,
                           const int32_t *cut, int n_cut, int64_t first, int64_t hold,
                           int64_t total);

/* The best `budget` of n slots, pinned ones first. False: no room, and all are kept, which the
 * engine refuses as too many. */
KVT_API bool kvt_keep_budget(bool *keep, const float *score, const bool *pinned, int64_t n,
                             int64_t budget, kvt_arena *scratch);
/* Marks the largest of n masses in front of the one with which their share of all reaches
 * `cover`, at most `most`. False: no room. */
KVT_API bool kvt_keep_cover(bool *keep, const float *mass, int64_t n, double cover,
                            int64_t most, kvt_arena *scratch);
KVT_API void kvt_keep_if(bool good, bool *keep, int64_t n); /* not good: all of them */
/* select(): what is pinned, and nothing else; kvt_keep_together(). */
KVT_API void kvt_select_pinned(const void *params, bool *const *keep, const kvt_lane *lane,
                               int n_lane, const float *const *score, const bool *const *pinned,
                               const int64_t *budget);
KVT_API void kvt_select_together(const void *params, bool *const *keep, const kvt_lane *lane,
                                 int n_lane, const float *const *score,
                                 const bool *const *pinned, const int64_t *budget);

static inline int64_t kvt_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t kvt_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Marks the `k` best of n scores that are not pinned, beside all pinned ones (NULL: none): of
 * equal scores the lower index wins; NaN sorts last. Returns how many are marked, -1 where
 * scratch has no room for the work (keep is as it was then). */
KVT_API int64_t kvt_keep_best(bool *keep, const float *score, const bool *pinned, int64_t n,
                              int64_t k, kvt_arena *scratch);

/* The same over lanes together: the best sum(budget) of them all, what is pinned and the best
 * slot of each lane among them. Without room nothing is marked, which is fewer than asked. */
KVT_API void kvt_keep_best_of_all(bool *const *keep, const kvt_lane *lane, int n_lane,
                                  const float *const *score, const bool *const *pinned,
                                  const int64_t *budget);

/* ---- sharing slots out (replay/pieces_share.c); memory from lane[0].scratch -----------------
 */

/* What lanes may get. `want` is what the allocator would like, in slots, pinned ones included;
 * it starts at 0. */
typedef struct kvt_shares_out {
    int n;
    const int64_t *n_pinned; /* [n] */
    int64_t *least, *most;   /* [n] 1 and what is pinned at least, all slots at most */
    double *want;            /* [n] */
    int64_t total, free;     /* to give, at most all slots; without what is pinned */
} kvt_shares_out;

/* False where the total does not reach for `least`, or scratch has no room: `budget` [n_lane]
 * is set then so that the engine refuses it. */
KVT_API bool kvt_share_begin(kvt_shares_out *out, int64_t *budget, const kvt_lane *lane,
                             int n_lane, const int64_t *n_pinned, int64_t total);
/* want[i] += x part[i], within least and most, with the one x >= 0 whose sum is the total. */
KVT_API void kvt_share_fill(kvt_shares_out *s, const double *part);
/* budget = want in whole slots that add up to the total: rounded down, then one more for the
 * largest remainders, of equal ones for the first. */
KVT_API void kvt_share_round(int64_t *budget, const kvt_shares_out *s);
/* count [n] = floor(x part), from 1 (0 where the total is below n) to `most`, with the largest
 * x at which they add up to no more than the total; where several would get one more at the
 * same x, the first of them. Without any part > 0 all parts become 1. */
KVT_API void kvt_share_floors(int64_t *count, double *part, int n, int64_t total, int64_t most);
/* count[i] = how many of lane i are among the n_best of all slots that no rule keeps, where the
 * first[i] best of each lane come first (NULL: none) and scores of a lane are multiplied by
 * factor[i] (NULL: 1). Of equal scores the first lane, then the lower position. False: no room.
 */
KVT_API bool kvt_share_count(int64_t *count, const kvt_lane *lane, int n_lane,
                             const float *const *score, const float *factor,
                             const int64_t *first, int64_t n_best);
/* select() of policies that share out themselves: the best count[i] of lane i, pinned ones
 * first. Without room all are kept, which the engine refuses. */
KVT_API void kvt_keep_counts(bool *const *keep, const kvt_lane *lane, int n_lane,
                             const float *const *score, const bool *const *pinned,
                             const int64_t *count);
/* The beginning of such a select(): shares of the lanes' budgets, and count and part [n_lane]
 * of 0. False: keep is marked so that the engine refuses it. */
KVT_API bool kvt_share_open(kvt_shares_out *out, int64_t **count, double **part,
                            bool *const *keep, const kvt_lane *lane, int n_lane,
                            const float *const *score, const bool *const *pinned,
                            const int64_t *budget);
/* out [n] = slots by falling score, of equal ones the lower first. False: no room. */
KVT_API bool kvt_rank(int32_t *out, const float *score, int64_t n, kvt_arena *scratch);
KVT_API bool kvt_rank_double(int32_t *out, const double *score, int64_t n, kvt_arena *scratch);
/* The upper concave hull of kept[from..to]: corner [to - from + 1] gets its corners, from the
 * first to the last, slope [to - from] the slope behind each, which falls. Returns how many
 * corners there are. */
KVT_API int64_t kvt_hull(int32_t *corner, double *slope, const double *kept, int64_t from,
                         int64_t to);

/* The same slots in all lanes, which hold the same ones and pin the same: the best by the sum
 * of the lanes' scores, as many as the mean of the budgets. Without room all is marked, which
 * is more than asked. */
KVT_API void kvt_keep_together(bool *const *keep, const kvt_lane *lane, int n_lane,
                               const float *const *score, const bool *const *pinned,
                               const int64_t *budget);
/* A uniform number of [0, 1) from the lane's stream, and the next 64 bits of it. */
KVT_API double kvt_random(uint64_t *rng);
KVT_API uint64_t kvt_random_bits(uint64_t *rng);

#endif
