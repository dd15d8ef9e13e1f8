/* h2o-lm-eval - H2O as its evaluation harness ran it: heavy hitters by what is yet to come.
 *
 *   Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large
 *   Language Models", 2023, arXiv:2306.14048; FMInference/H2O ac75c2a, h2o_hf/utils_lm_eval.
 *
 * Nothing leaves the cache; a mask says what each row sees. R = recent x B, hh = B - R.
 *
 *   mask=active  the path that runs. Columns are summed over all queries of the sequence,
 *                those of the response included; the hh best of all T are heavy for every
 *                row. Row i sees the heavy ones that have come, and i - R .. i. It looks at
 *                the future: a bound, no policy.
 *   mask=greedy  the variant that is commented out. R = 0, hh = B - 1; from the first row on
 *                row i sees the hh best acc of [0, i - R) and i - R .. i; then acc += the
 *                full row (not the one over what it sees), acc <- 0 where it does not see
 *   mask=less    its relative in LESS (arXiv:2402.09398): the same with R = recent x B, hh =
 *                B - R, no token in both parts
 *
 * The last two run over every row of the prompt (kvt capture --queries all) before the first
 * response token. A row of `active` and `less` sees B + 1 tokens, itself included, as rows of
 * an evicting policy do; one of `greedy` B.
 *
 * Differs: see `differs`. Cost for each lane: active O(H M S) a row; else O(N^2 H) for the
 * prompt, O(H S) a row. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct h2o_lm_eval {
    double recent;
    int mask, compat;
} h2o_lm_eval;

typedef struct memo {
    int64_t budget;
} memo;

enum { MASK_ACTIVE, MASK_GREEDY, MASK_LESS };
enum { COMPAT_PAPER, COMPAT_OFFICIAL, COMPAT_LESS };

static const kvt_choice masks[] = {
    [MASK_ACTIVE] = {"active", "", "what runs: sums over all queries, later ones included"},
    [MASK_GREEDY] = {"greedy", "", "what is commented out: row by row, needs all prompt rows"},
    [MASK_LESS] = {"less", "", "greedy beside the newest tokens, needs all prompt rows"},
};

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "mask=active,recent=0.5", "reduced to kv heads"},
    [COMPAT_OFFICIAL] = {"official", "mask=active,recent=0.5",
                         "FMInference/H2O ac75c2a, utils_lm_eval: a set for each query head"},
    [COMPAT_LESS] =
        {"less", "mask=less,recent=0.5",
         "hdong920/LESS 0e0cf98: heavy hitters before the newest, a set for each query "
         "head"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(h2o_lm_eval, compats),
    KVT_PARAM_CHOICE(h2o_lm_eval, mask, MASK_ACTIVE, masks, "which of the masks"),
    KVT_PARAM(h2o_lm_eval, recent, 0.5, 0, 1, "frac",
              "share of the budget for the newest tokens; greedy does not read it"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const h2o_lm_eval *p = params_;
    traits->by_query_head = p->compat != COMPAT_PAPER;
    if (p->mask != MASK_ACTIVE)
        traits->needs = KVT_NEED_ATTN;
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const h2o_lm_eval *p = params_;
    return p->mask == MASK_ACTIVE ? 0 : n_prompt;
}

static int64_t newest(const h2o_lm_eval *p, int64_t budget)
{
    return p->mask == MASK_GREEDY ? 0 : kvt_share_floor(p->recent, budget);
}

static int64_t heavy(const h2o_lm_eval *p, int64_t budget)
{
    return budget - newest(p, budget) - (p->mask == MASK_GREEDY);
}

/* acc[s] += attention of query q over all heads of the lane, n slots. */
static void add_row(double *acc, const kvt_view *rows, int64_t q, int64_t n)
{
    for (int64_t h = 0; h < rows->dim[0]; h++) {
        const float *row = kvt_head_row(rows, h, q);
        for (int64_t s = 0; s < n; s++)
            acc[s] += (double)row[s];
    }
}

/* ---- row by row ----------------------------------------------------------------------------
 */

/* What row i sees, and acc behind it; it is query q of rows. NaN, which is refused: no memory.
 */
static void advance(const h2o_lm_eval *p, kvt_lane *lane, const kvt_view *rows, int64_t q,
                    int64_t i)
{
    int64_t B = ((const memo *)lane->state)->budget, n = kvt_max(0, i - newest(p, B));
    size_t start = kvt_arena_mark(lane->scratch);
    float *score = kvt_arena_array(lane->scratch, i + 1, sizeof *score);
    double *acc = kvt_arena_array(lane->scratch, i + 1, sizeof *acc);
    bool *best = kvt_arena_array(lane->scratch, i + 1, sizeof *best);
    kvt_mask *m = kvt_masks(lane);
    bool good = score && acc && best;
    for (int64_t s = 0; good && s <= i; s++)
        acc[s] = (double)(score[s] = m[s].sum);
    good = good && kvt_keep_best(best, score, NULL, n, heavy(p, B), lane->scratch) >= 0;
    if (good)
        add_row(acc, rows, q, i + 1);
    for (int64_t s = 0; s <= i; s++) {
        bool seen = s >= n || (good && best[s]);
        m[s].seen = good ? seen : NAN;
        m[s].sum = good && seen ? (float)acc[s] : 0;
    }
    kvt_arena_rewind(lane->scratch, start);
}

/* At the end of the prompt, for each budget: a row of an evicting policy sees B and its own. */
static void begin(const void *params_, kvt_lane *lane)
{
    const h2o_lm_eval *p = params_;
    ((memo *)lane->state)->budget = lane->budget - 1;
    for (int64_t i = 0; p->mask != MASK_ACTIVE && i < lane->n_slot; i++)
        advance(p, lane, &lane->attn, i, i);
}

/* ---- by what is yet to come ----------------------------------------------------------------
 */

/* Sums over all queries: what has come by now, and what comes. */
static void sum_future(float *out, const kvt_view *rows, double *sum, int64_t n)
{
    for (int64_t q = 0; rows->data && q < rows->dim[1]; q++)
        add_row(sum, rows, q, n);
    for (int64_t s = 0; s < n; s++)
        out[s] = (float)sum[s];
}

static void see_heavy(const h2o_lm_eval *p, const kvt_lane *lane)
{
    int64_t B = ((const memo *)lane->state)->budget, R = newest(p, B), n = lane->n_slot;
    int64_t T = n + (lane->future_late.data ? lane->future_late.dim[2] : 0);
    double *sum = kvt_arena_array(lane->scratch, T, sizeof *sum);
    float *total = kvt_arena_array(lane->scratch, T, sizeof *total);
    bool *best = kvt_arena_array(lane->scratch, T, sizeof *best);
    kvt_mask *m = kvt_masks(lane);
    bool good = sum && total && best;
    for (int64_t s = 0; good && s < n; s++)
        sum[s] = (double)m[s].sum;
    if (good) {
        sum_future(total, &lane->future, sum, n);
        sum_future(total + n, &lane->future_late, sum + n, T - n);
        good = kvt_keep_best(best, total, NULL, T, heavy(p, B), lane->scratch) >= 0;
    }
    for (int64_t s = 0; s < n; s++) /* NaN, which is refused: no memory */
        m[s].seen = !good ? NAN : best[s] || s >= n - 1 - R;
}

static void step(const void *params_, kvt_lane *lane)
{
    const h2o_lm_eval *p = params_;
    bool prompt = lane->now < lane->seq->n_prompt;
    if (p->mask == MASK_ACTIVE) /* [H S] of the prompt, [H 1 S] of a row */
        kvt_mask_add(lane, prompt ? &lane->col_sum : &lane->attn);
    else if (!prompt)
        advance(p, lane, &lane->attn, lane->attn.dim[1] - 1, lane->now);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const h2o_lm_eval *p = params_;
    if (p->mask == MASK_ACTIVE)
        see_heavy(p, lane);
    kvt_mask_score(p, out, pinned, lane);
}

const kvt_policy kvt_policy_h2o_lm_eval = {
    .abi = KVT_POLICY_ABI,
    .name = "h2o-lm-eval",
    .title = "bound: heavy hitters by attention that is yet to come",
    .paper = "Zhang et al., H2O (evaluation harness), 2023, arXiv:2306.14048",
    .about =
        "The harness that gave H2O's scores on evaluation tasks runs a whole sequence at once "
        "and masks it: the columns with the largest sums over all its queries are heavy "
        "hitters for every row, beside a band of the newest tokens. Rows at the start "
        "therefore know what rows at the end look at. It is an upper bound of the method, and "
        "listed with the oracles.\n\n"
        "mask=greedy is the causal variant that stands in the same file, commented out: row by "
        "row the best accumulated columns and the row's own, scores from full rows, zero for "
        "what is hidden. mask=less is its relative in LESS, with the newest tokens beside the "
        "heavy hitters. Both need every prompt row in the trace (kvt capture --queries all).",
    .differs =
        "one set for each kv head instead of each query head (compat=official); columns are "
        "those of the trace, prompt and response",
    .traits = {.phases = KVT_DECODE,
               .needs = KVT_NEED_ATTN | KVT_NEED_COLUMNS | KVT_NEED_FUTURE,
               .effect = KVT_SKIP,
               .exactness = KVT_OPEN_LOOP,
               .by_query_head = true,
               .control = true},
    .slot_width = KVT_MASK_WIDTH,
    .state_size = sizeof(memo),
    .params_size = sizeof(h2o_lm_eval),
    .params = params,
    .vary = vary,
    .window = window,
    .begin = begin,
    .step = step,
    .score = score,
    .select = kvt_select_pinned,
    .work = kvt_sums_work,
};
