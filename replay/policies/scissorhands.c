/* scissorhands - drop what the last queries found unimportant most often.
 *
 *   Liu et al., "Scissorhands: Exploiting the Persistence of Importance Hypothesis for LLM KV
 *   Cache Compression at Test Time", 2023, arXiv:2305.17118.
 *
 * With A a row over the t slots that it sees, and the last `rows` rows i of the H query heads,
 *
 *   count[s] = number of (H, i) with A[H i s] < 1 / t       score[s] = -count[s]
 *
 * the `recent` newest are pinned (the paper sets their counters to 0). At the end of the prompt
 * the best B stay; while decoding, whenever the lane is full, the m = drop x B (1 at least)
 * with the largest counters go, so that it breathes between B - m + 1 and B. A bit for each row
 * and head is kept beside a slot, and moves with it; a row that a slot was not there for counts
 * 0.
 *
 *   compat=cold-compress   score[s] = -count[s] / (H times the rows it was there for)
 *   compat=kvcf            score[s] = sum over H, i of decay^age A[H i s], of the prompt's last
 *                          `rows` and all of the response
 *
 * Differs: see `differs`. Cost for each lane: O(H S) a row, O(H rows S / 32) a decision, H
 * rows bits and a float a slot. */
#include "kvt/pieces.h"

#include <stdio.h>

typedef struct scissorhands {
    int64_t rows, recent, sinks;
    double drop, decay, temperature;
    int compat;
} scissorhands;

enum { IS_PAPER, IS_PUBLISHED, IS_COLD, IS_KVCF };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "rows=64,recent=10,sinks=0,drop=0.5",
                  "the rule, over the rows that a trace holds by default"},
    [IS_PUBLISHED] = {"published", "rows=400,recent=10,sinks=0,drop=0.5",
                      "the paper's numbers: 400 rows"},
    [IS_COLD] =
        {"cold-compress", "rows=64,recent=10,sinks=4,drop=0",
         "AnswerDotAI/cold-compress 11db56e, heavy hitter, binary: mean over the rows that saw "
         "a token, 4 sinks, one token a step"},
    [IS_KVCF] = {"kvcf", "rows=64,recent=10,sinks=4,drop=0",
                 "Zefan-Cai/KVCache-Factory c97f9d7 selector: sums of attention instead of "
                 "counters, 4 sinks, one token a step"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(scissorhands, compats),
    KVT_PARAM(scissorhands, rows, 64, 1, 4096, "tokens", "last queries that count"),
    KVT_PARAM(scissorhands, recent, 10, 0, 1048576, "tokens",
              "newest tokens that are always kept"),
    KVT_PARAM(scissorhands, sinks, 0, 0, 1048576, "tokens",
              "first tokens that are always kept"),
    KVT_PARAM(scissorhands, drop, 0.5, 0, 1, "frac",
              "share of the budget that goes when a lane is full; 0: one token"),
    KVT_PARAM(scissorhands, decay, 1, 0, 1, "",
              "compat=kvcf: what a row's attention is worth one row later"),
    KVT_PARAM(
        scissorhands, temperature, 0, 0, 1000, "",
        "slots are drawn with softmax(score / temperature), as KVCache-Factory can; 0: the "
        "best"),
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const scissorhands *p = params_;
    if (p->decay < 1 && p->compat != IS_KVCF) {
        snprintf(why, cap, "decay=%g fades sums, which compat=kvcf has", p->decay);
        return false;
    }
    return kvt_ends_fit(p->sinks, p->recent, budget, n_token, why, cap);
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const scissorhands *p = params_;
    return kvt_min(p->rows, n_prompt);
}

/* The sum of attention, then the histories of the heads. */
static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    const scissorhands *p = params_;
    (void)budget;
    *slot_width = (int)(1 + kvt_bit_words(p->rows) * kvt_lane_heads(seq));
    *state_size = sizeof(int64_t); /* rows so far */
}

/* Row q of the lane's attention, that of a query at position `at`. */
static void add_row(const scissorhands *p, kvt_lane *lane, int64_t q, int64_t at, int64_t row)
{
    int64_t H = lane->attn.dim[0], words = kvt_bit_words(p->rows), width = 1 + words * H,
            n_see = 0;
    while (n_see < lane->n_slot && lane->pos[n_see] <= at)
        n_see++;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        float *mark = lane->mark + s * width;
        double sum = 0;
        for (int64_t h = 0; h < H; h++) {
            float a = kvt_head_row(&lane->attn, h, q)[s];
            sum += (double)a;
            kvt_put_bit(mark + 1 + h * words, row % p->rows,
                        s < n_see && (double)a * (double)n_see < 1);
        }
        mark[0] = (float)(p->decay * (double)mark[0] + sum);
    }
}

static void step(const void *params_, kvt_lane *lane)
{
    const scissorhands *p = params_;
    int64_t *row = lane->state, n = lane->attn.dim[1];
    for (int64_t q = 0; q < n; q++)
        add_row(p, lane, q, lane->now - n + 1 + q, (*row)++);
}

/* The score, or what a draw with weight exp(score / temperature) ranks by. */
static double drawn(const scissorhands *p, double x, uint64_t *rng)
{
    return p->temperature > 0 ? x / p->temperature + kvt_gumbel(rng) : x;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const scissorhands *p = params_;
    int64_t H = kvt_lane_heads(lane->seq), words = kvt_bit_words(p->rows),
            width = 1 + words * H, rows = *(int64_t *)lane->state;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *mark = lane->mark + s * width;
        double count = (double)kvt_count_bits(mark + 1, width - 1);
        int64_t seen = kvt_min(kvt_min(rows, p->rows), lane->now + 1 - lane->pos[s]);
        double x = p->compat == IS_KVCF   ? (double)mark[0]
                   : p->compat == IS_COLD ? -count / (double)(kvt_max(seen, 1) * H)
                                          : -count;
        out[s] = (float)drawn(p, x, lane->rng);
        pinned[s] = lane->pos[s] < p->sinks || s >= lane->n_slot - p->recent;
    }
}

/* One lane: down to B at the end of the prompt, by m tokens where a new one is too many. */
static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const scissorhands *p = params_;
    for (int i = 0; i < n_lane; i++) {
        int64_t m = kvt_max(kvt_share_floor(p->drop, budget[i]), 1), n = lane[i].n_slot;
        bool full = lane[i].step > 0 && n > budget[i]; /* the others of its scope may be */
        (void)kvt_keep_budget(keep[i], scores[i], pinned[i], n,
                              full ? budget[i] + 1 - m : budget[i], lane[i].scratch);
    }
}

static void work(const void *params_, kvt_work *work)
{
    const scissorhands *p = params_;
    work->state_bytes_slot = p->compat == IS_KVCF ? 4 : work->lane_heads * ((p->rows + 7) / 8);
    work->whole_rows = true;
}

const kvt_policy kvt_policy_scissorhands = {
    .abi = KVT_POLICY_ABI,
    .name = "scissorhands",
    .title = "drop what the last queries found unimportant most often",
    .paper = "Liu et al., Scissorhands, NeurIPS 2023, arXiv:2305.17118",
    .about = "What mattered once will matter again (persistence of importance). A token is "
             "unimportant to a query that gives it less than the mean, 1 / t of t tokens. A "
             "counter for each token says how many of the last w queries found it so; whenever "
             "the lane is full the m tokens with the largest counters go at once, so that the "
             "counting is rare. The newest tokens stay.\n\n"
             "Published: w = 400, 10 newest tokens, m half of the budget, later layers larger "
             "budgets; no code. After the end of the prompt a lane holds between B / 2 and B. "
             "Nothing is trained.",
    .differs =
        "no official code: rows=64 instead of 400 (what a trace holds of the prompt by "
        "default; compat=published has 400); at the end of the prompt B tokens stay, m go at "
        "once only while decoding; the newest are kept by rule instead of a counter of 0; one "
        "set for each kv head, each of its query heads counts; layers have equal budgets "
        "(larger ones for later layers are an allocator's); compat=kvcf adds up the prompt's "
        "last rows and all rows of the response",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_ATTN,
               .exactness = KVT_EXACT},
    .params_size = sizeof(scissorhands),
    .params = params,
    .fits = fits,
    .window = window,
    .size = size,
    .step = step,
    .score = score,
    .select = choose,
    .work = work,
};
