/* lukv - any ranking, with budgets of each head that kept the most of the future elsewhere.
 *
 *   Tang et al., "Predicting Future Utility: Global Combinatorial Optimization for
 *   Task-Agnostic KV Cache Eviction" (LU-KV), 2026, arXiv:2602.08585.
 *
 * The base ranks. The file holds, for each kv head, which share of its tokens it keeps where
 * f_o = o / (O + 1), o = 1..O, of all are kept (tensor keep LGO; published: 99 ratios). With B
 * the budget, n lanes of N slots, f = B / N and r_i linear between the table's points (0 at 0,
 * 1 at 1),
 *
 *   paper    budget[i] = x r_i N within what is pinned, 1 slot at least, and N, in whole slots
 *            that add up to n B (largest remainders)
 *   kvpress  the row at round(100 (1 - f)) removed; r_i N rounded down, in each layer the
 *            largest remainders one more until their rounded sum is met: the total is the
 *            table's
 *
 * What the base pins, the first `sinks` and the last `window` tokens are kept. Cost: the
 * base's, and O(n) for each bit of x. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct lukv {
    int64_t sinks, window;
    int compat;
} lukv;

enum { IS_PAPER, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "sinks=4,window=1", "between the table's points, exact total"},
    [IS_KVPRESS] = {"kvpress", "sinks=4,window=1",
                    "NVIDIA/kvpress 04af3dc, LUKVPress: nearest row of the table, rounding in "
                    "each layer"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(lukv, compats),
    KVT_PARAM(lukv, sinks, 4, 0, 4096, "tokens", "first tokens that are always kept"),
    KVT_PARAM(lukv, window, 1, 0, 4096, "tokens", "last tokens that are always kept"),
    {0},
};

static const kvt_weight weights[] = {
    {"keep", "LGO", "share of its tokens that a kv head keeps, at o / (O + 1) of all"}, {0}};

static void vary(const void *params_, kvt_traits *traits)
{
    const lukv *p = params_;
    traits->may_exceed = p->compat == IS_KVPRESS;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const lukv *p = params_;
    return kvt_ends_fit(p->sinks, p->window, budget, n_token, why, cap);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const lukv *p = params_;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = lane->base_score[s];
        pinned[s] =
            lane->base_pinned[s] || lane->pos[s] < p->sinks || s >= lane->n_slot - p->window;
    }
}

static double row(const kvt_view *keep, int64_t o) /* at o / (O + 1) */
{
    int64_t n = keep->dim[0];
    return o <= 0  ? 0
           : o > n ? 1
                   : (double)((const float *)keep->data)[(o - 1) * keep->stride[0]];
}

/* Share that a lane keeps where f of all are kept. */
static double share_at(const lukv *p, const kvt_view *keep, double f)
{
    double at = f * (double)(keep->dim[0] + 1), low = floor(at);
    if (p->compat == IS_KVPRESS) { /* counts what is removed */
        double n = (double)keep->dim[0];
        return row(keep, (int64_t)(n + 1 - fmin(fmax(nearbyint((n + 1) * (1 - f)), 1), n)));
    }
    double a = row(keep, (int64_t)low), b = row(keep, (int64_t)low + 1);
    return a + (at - low) * (b - a);
}

/* Counts of the lanes from..to of a layer as kvpress rounds them. */
static void round_layer(int64_t *count, const kvt_shares_out *s, int from, int to)
{
    double sum = 0;
    int64_t left = 0;
    for (int i = from; i < to; i++) {
        sum += s->want[i];
        count[i] = (int64_t)floor(s->want[i]);
        left -= count[i];
    }
    left += (int64_t)nearbyint(sum);
    for (; left > 0; left--) {
        int best = from;
        for (int i = from; i < to; i++)
            if (s->want[i] - (double)count[i] > s->want[best] - (double)count[best])
                best = i;
        count[best]++;
    }
    for (int i = from; i < to; i++)
        count[i] = kvt_min(kvt_max(count[i], s->least[i]), s->most[i]);
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const lukv *p = params_;
    kvt_shares_out s;
    int64_t *count, slots = 0;
    double *part;
    if (!kvt_share_open(&s, &count, &part, keep, lane, n_lane, scores, pinned, budget))
        return;
    for (int i = 0; i < n_lane; i++)
        slots += lane[i].n_slot;
    for (int i = 0; i < n_lane; i++)
        part[i] = share_at(p, &lane[i].weights[0], (double)s.total / (double)slots) *
                  (double)lane[i].n_slot;
    if (p->compat == IS_PAPER) {
        kvt_share_fill(&s, part);
        kvt_share_round(count, &s);
    }
    for (int i = 0, m; p->compat == IS_KVPRESS && i < n_lane; i += m) {
        m = kvt_layer_lanes(lane + i, n_lane - i);
        memcpy(s.want + i, part + i, (size_t)m * sizeof *part);
        round_layer(count, &s, i, i + m);
    }
    kvt_keep_counts(keep, lane, n_lane, scores, pinned, count);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->cuts_at_once = true; /* shares are a table */
}

const kvt_policy kvt_policy_lukv = {
    .abi = KVT_POLICY_ABI,
    .name = "lukv",
    .title = "any ranking, with budgets of each head that kept most of the future elsewhere",
    .paper = "Tang et al., LU-KV, 2026, arXiv:2602.08585",
    .about =
        "How far a heuristic's ranking foresees differs from head to head, so budgets should "
        "follow the marginal utility of each head's next slots, not the size of its scores. On "
        "other prompts the future attention that each head keeps is drawn against its budget, "
        "with tokens taken in the heuristic's own order; the upper concave hulls of these "
        "curves are climbed by falling slope, and the shares at each total become a table. At "
        "run time nothing is left but to look it up.\n\n"
        "Published settings: expected attention as the ranking, a table of 99 ratios, 4 sinks "
        "and the last token kept. kvt train lukv computes the table from traces; oracle-budget "
        "is what it would be with this prompt's own future.",
    .differs =
        "between the table's points, and adds up to the budget exactly on the layers that the "
        "trace holds; what the base pins stays",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_WEIGHTS,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .may_exceed = true},
    .params_size = sizeof(lukv),
    .params = params,
    .weights = weights,
    .base = "expected-attention",
    .vary = vary,
    .fits = fits,
    .score = score,
    .select = choose,
    .work = work,
};
