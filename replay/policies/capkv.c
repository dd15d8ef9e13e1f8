/* capkv - keep the values that span most of what queries will want.
 *
 *   CAPKV, "capacity" of a cache as a log determinant, 2026, arXiv:2604.25975, as in
 *   NVIDIA/kvpress 8bb29b9 (CapPress).
 *
 * With a the mean query before RoPE (the prompt's first 4 left out), turned by the mean
 * rotation over the next `future` positions, for each query head
 *
 *   w_s      = exp(tau (cos(a, k_s) - max over S of that))        keys after RoPE
 *   M        = I + sum over S of (w_s + 1e-6) v_s v_s^T
 *   score[s] = mean over H of w_s v_s^T M^-1 v_s
 *
 * over the tokens behind the first `sinks`, which are pinned.
 *
 * Differs: see `differs`. Cost for each lane, once: O(H (S D^2 + D^3)) time, O(D^2 + S)
 * memory. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct capkv {
    double tau;
    int64_t future, sinks;
    int compat;
} capkv;

enum { IS_PAPER, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "tau=5,future=512,sinks=4",
                  "the published code, with sinks as a rule"},
    [IS_KVPRESS] = {"kvpress", "tau=5,future=512,sinks=4",
                    "NVIDIA/kvpress 8bb29b9 CapPress: as the default"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(capkv, compats),
    KVT_PARAM(capkv, tau, 5, 0, 1000, "1", "how sharply the mean query weighs keys"),
    KVT_PARAM(capkv, future, 512, 1, 65536, "tokens", "positions to come"),
    KVT_PARAM(capkv, sinks, 4, 0, 65536, "tokens", "first tokens that are always kept"),
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const capkv *p = params_;
    return kvt_pinned_fits(p->sinks, "sinks", budget, n_token, why, cap);
}

/* Room of one head. */
typedef struct room {
    double *anchor, *x; /* [D] */
    double *m;          /* [D D] */
    double *weight;     /* [S] */
} room;

/* weight [S] of one head: how near each key is to the turned mean query; 0 where pinned. */
static bool weigh(const room *r, const capkv *p, const bool *pinned, const kvt_lane *lane,
                  int64_t head)
{
    int64_t D = lane->keys.dim[1];
    double length = 0, most = -INFINITY;
    if (!kvt_expected_query(r->anchor, lane, head, p->future))
        return false;
    for (int64_t d = 0; d < D; d++)
        length += r->anchor[d] * r->anchor[d];
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *k = kvt_row(&lane->keys, s);
        double dot = kvt_dot(k, r->anchor, D), norm = sqrt(length) * kvt_norm(k, D);
        r->weight[s] = norm > 0 ? dot / norm : 0;
        if (!pinned[s])
            most = fmax(most, r->weight[s]);
    }
    for (int64_t s = 0; s < lane->n_slot; s++)
        r->weight[s] = pinned[s] ? 0 : exp(p->tau * (r->weight[s] - most));
    return true;
}

/* m = the factor of I + sum (w + 1e-6) v v^T: never worse than I. */
static bool factor(const room *r, const bool *pinned, const kvt_lane *lane)
{
    int64_t D = lane->values.dim[1];
    memset(r->m, 0, (size_t)(D * D) * sizeof *r->m);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *v = kvt_row(&lane->values, s);
        for (int64_t i = 0; !pinned[s] && i < D; i++) {
            double x = (r->weight[s] + 1e-6) * (double)v[i];
            for (int64_t k = 0; k <= i; k++)
                r->m[i * D + k] += x * (double)v[k];
        }
    }
    for (int64_t i = 0; i < D; i++)
        r->m[i * D + i] += 1;
    return kvt_cholesky(r->m, D);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const capkv *p = params_;
    int64_t n = lane->n_slot, H = lane->query_mean.dim[0], D = lane->values.dim[1];
    room r = {.anchor = kvt_arena_array(lane->scratch, D, sizeof *r.anchor),
              .x = kvt_arena_array(lane->scratch, D, sizeof *r.x),
              .m = kvt_arena_array(lane->scratch, D * D, sizeof *r.m),
              .weight = kvt_arena_array(lane->scratch, n, sizeof *r.weight)};
    bool good = r.anchor && r.x && r.m && r.weight;
    for (int64_t s = 0; s < n; s++) {
        pinned[s] = lane->pos[s] < p->sinks;
        out[s] = 0;
    }
    for (int64_t h = 0; good && h < H; h++) {
        good = weigh(&r, p, pinned, lane, h) && factor(&r, pinned, lane);
        for (int64_t s = 0; good && s < n; s++) {
            for (int64_t d = 0; d < D; d++)
                r.x[d] = (double)kvt_row(&lane->values, s)[d];
            out[s] += (float)(r.weight[s] * kvt_cholesky_form(r.m, r.x, D) / (double)H);
        }
    }
    if (!good)
        kvt_no_score(out, n);
}

const kvt_policy kvt_policy_capkv = {
    .abi = KVT_POLICY_ABI,
    .name = "capkv",
    .title = "keep the values that span most of what queries will want",
    .paper = "CAPKV, 2026, arXiv:2604.25975",
    .about =
        "A cache is worth the space of outputs that it can still give: the log determinant of "
        "the sum of its weighted values' outer products. A token's score is what it adds to "
        "that: its weight times the leverage of its value. The weight says how near the key is "
        "to the mean query, turned to the next 512 positions (exp of 5 times the cosine).\n\n"
        "The first 4 tokens always stay; no question is needed and nothing is trained.",
    .differs =
        "the published code is followed where it departs from the paper: the weight is of a "
        "cosine, and of the mean query turned to positions to come; sinks are kept by a rule, "
        "there by a score of max + 1; a prompt of no more than the sinks is kept, where the "
        "code stops; the mean leaves out the trace's first 4 tokens whatever sinks is; solved "
        "in double",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_MOMENTS,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .params_size = sizeof(capkv),
    .params = params,
    .fits = fits,
    .score = score,
};
