/* keyformer - keep what a noisy, ever flatter softmax of the response's queries adds up to.
 *
 *   Adnan et al., "Keyformer: KV Cache Reduction through Key Tokens Selection for Efficient
 *   Generative Inference", 2024, arXiv:2403.09054.
 *
 * With z the logits of row t (1 is the first of the response) over what is left in the cache
 * and g Gumbel noise of its own for each head, row and slot,
 *
 *   acc[s]   = sum over H, t of softmax over s of (z[H t s] + g) / tau_t
 *   tau_t    = tau_start + (tau_end - tau_start) t / M, or tau_start + tau_step t
 *   score[s] = acc[s], the last R = recent x budget slots are pinned
 *
 * The prompt starts at zero: at its end the first B - R and the last R tokens stay. With rows=n
 * its last n queries are added before that, at tau_start.
 *
 *   compat=official  the slot in front of the last R - 1 is in no set and goes for good, as the
 *                    code's masks are made for the next step; all prompt queries count
 *
 * Differs: see `differs`. Cost for each lane: O(H S) for each query, S floats. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct keyformer {
    double recent, tau_start, tau_end, tau_step;
    int64_t rows;
    bool noise;
    int compat;
} keyformer;

enum { IS_PAPER, IS_OFFICIAL };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "recent=0.3,tau_step=0,rows=0",
                  "tau rises to tau_end over the response, the prompt starts at zero"},
    [IS_OFFICIAL] = {"official", "recent=0.3,tau_step=0.01,rows=1048576",
                     "d-matrix-ai/keyformer-llm f327831: tau rises by 0.01 a step, all queries "
                     "of the prompt count (kvt capture --queries all), the token that leaves "
                     "the newest goes"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(keyformer, compats),
    KVT_PARAM(keyformer, recent, 0.3, 0, 1, "frac",
              "share of the budget for the newest tokens"),
    KVT_PARAM(keyformer, tau_start, 1, 1e-3, 1000, "", "temperature at the end of the prompt"),
    KVT_PARAM(keyformer, tau_end, 2, 1e-3, 1000, "",
              "temperature of the last row of the response, where tau_step is 0"),
    KVT_PARAM(keyformer, tau_step, 0, 0, 1000, "",
              "rise of the temperature a row; 0: evenly to tau_end"),
    KVT_PARAM(keyformer, rows, 0, 0, 1048576, "tokens",
              "last prompt queries that count; 0: the prompt starts at zero"),
    KVT_PARAM(keyformer, noise, 1, 0, 1, "", "Gumbel noise is added to the logits"),
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const keyformer *p = params_;
    return kvt_recent_fits(p->recent, budget, n_token, why, cap);
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const keyformer *p = params_;
    return kvt_min(p->rows, n_prompt);
}

/* Temperature of the row that was just made. */
static double tau(const keyformer *p, const kvt_lane *lane)
{
    int64_t t = lane->now + 1 - lane->seq->n_prompt, M = lane->seq->n_response;
    if (t <= 0)
        return p->tau_start;
    return p->tau_start + (p->tau_step > 0
                               ? p->tau_step * (double)t
                               : (p->tau_end - p->tau_start) * (double)t / (double)M);
}

/* Adds the softmax of a row z [S], of what it sees, to the marks; work [S]. */
static void add_row(const keyformer *p, kvt_lane *lane, const float *z, double *work)
{
    double most = -INFINITY, sum = 0;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        double g = p->noise ? kvt_gumbel(lane->rng) : 0;
        work[s] = ((double)z[s] + g) / tau(p, lane);
        most = work[s] > most ? work[s] : most;
    }
    for (int64_t s = 0; s < lane->n_slot; s++)
        sum += work[s] = exp(work[s] - most);
    for (int64_t s = 0; s < lane->n_slot; s++)
        lane->mark[s] += (float)(work[s] / sum);
}

static void step(const void *params_, kvt_lane *lane)
{
    const kvt_view *z = &lane->logits;
    double *work = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *work);
    for (int64_t h = 0; work && z->data && h < z->dim[0]; h++)
        for (int64_t q = 0; q < z->dim[1]; q++)
            add_row(params_, lane, kvt_head_row(z, h, q), work);
    if (!work)
        kvt_no_score(lane->mark, lane->n_slot);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const keyformer *p = params_;
    int64_t R = kvt_share_floor(p->recent, lane->budget), n = lane->n_slot;
    bool blind = p->compat == IS_OFFICIAL && R > 0;
    for (int64_t s = 0; s < n; s++) {
        out[s] = lane->mark[s];
        pinned[s] = s >= n - R + blind;
    }
    if (blind && R <= n)
        out[n - R] = 0; /* no more than any sum, and the last of equals */
}

const kvt_policy kvt_policy_keyformer = {
    .abi = KVT_POLICY_ABI,
    .name = "keyformer",
    .title = "keep what a noisy, ever flatter softmax of the response adds up to",
    .paper = "Adnan et al., Keyformer, MLSys 2024, arXiv:2403.09054",
    .about =
        "Once tokens are gone the softmax of the others is too sure of itself, so that sums of "
        "attention (h2o) favour what was kept before. Keyformer adds Gumbel noise to the "
        "logits and divides by a temperature that rises while decoding, so that more tokens "
        "get a part; sums of these softmaxes rank the key tokens, and a window of the newest "
        "stays.\n\n"
        "It decides at the end of the prompt and after each token. Published: 60 % of the "
        "prompt is kept, 30 % of that are the newest, temperature 1 to 2. Nothing is trained.",
    .differs =
        "the kept fraction (0.6) is the budget; one set for each kv head and one sequence; "
        "the noise comes from the lane's stream (exact given the draws); the prompt starts at "
        "zero, where the paper is silent, so that at its end the first and the newest tokens "
        "stay (rows=n counts its last n queries); the paper's temperature reaches 2 at the "
        "last row of the stored response",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_LOGITS,
               .exactness = KVT_EXACT,
               .mass_scores = true},
    .slot_width = 1,
    .params_size = sizeof(keyformer),
    .params = params,
    .fits = fits,
    .window = window,
    .step = step,
    .score = score,
    .work = kvt_sums_work,
};
