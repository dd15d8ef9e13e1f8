/* finch - what the question at the end looks at, one set for all heads of a layer.
 *
 *   Corallo and Papotti, "FINCH: Prompt-guided Key-Value Cache Compression for Large Language
 *   Models", 2024, arXiv:2408.00167. The text in front of the question is one segment.
 *
 * With W the tokens from the start of the question to the prompt's end, A the attention of
 * those queries and n = S - W slots in front of them,
 *
 *   score[s]      sum over H and Q of weight(i) A[H i s], s < n, with
 *   heads=layer   all query heads of the layer: one set for all of its lanes
 *   heads=lane    the query heads of the lane: a set for each lane
 *   weight(i)     1, or with rows=keys n + i for the i-th row of the question (from 0)
 *
 * and the question itself is pinned. W is window=N, or where that is 0 begins at the trace's
 * span "question"; without one it is the last 32 tokens.
 *
 * Differs: see `differs`. Cost for each lane, once: O(H W S) time, S floats. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct finch {
    int64_t window, queries, segments;
    int heads, rows, compat;
} finch;

enum { DEFAULT_WINDOW = 32 };
enum { HEADS_LAYER, HEADS_LANE };
enum { ROWS_EQUAL, ROWS_KEYS };
enum { COMPAT_PAPER, COMPAT_KVPRESS };

static const kvt_choice heads[] = {
    [HEADS_LAYER] = {"layer", "", "all heads of a layer vote for one set"},
    [HEADS_LANE] = {"lane", "", "a set for each kv head"},
};

static const kvt_choice rows[] = {
    [ROWS_EQUAL] = {"equal", "", "each row of the question counts the same"},
    [ROWS_KEYS] = {"keys", "", "the more keys it sees, the more it counts"},
};

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "heads=layer,rows=equal",
                      "giulio98/context-compression e20715f, one segment: its option to "
                      "normalise is overwritten there and does nothing"},
    [COMPAT_KVPRESS] = {"kvpress", "heads=lane,rows=keys",
                        "NVIDIA/kvpress 8bb29b9: each kv head by itself, row i times T - W + "
                        "i, one less than the keys that it sees"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(finch, compats),
    KVT_PARAM(finch, window, 0, 0, 4096, "tokens",
              "last prompt queries that vote, always kept; 0: from the span question on"),
    KVT_PARAM(finch, queries, 64, 1, 4096, "tokens",
              "with window=0: last prompt queries that are read for the question at most"),
    KVT_PARAM(finch, segments, 1, 1, 4096, "",
              "parts that the text is read in; more than one cannot be replayed"),
    KVT_PARAM_CHOICE(finch, heads, HEADS_LAYER, heads, "which heads share a set"),
    KVT_PARAM_CHOICE(finch, rows, ROWS_EQUAL, rows, "what a row of the question counts"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const finch *p = params_;
    if (p->heads == HEADS_LANE)
        traits->scope = KVT_BY_LANE;
    traits->mass_scores = p->rows == ROWS_EQUAL;
    if (p->segments > 1)
        traits->exactness = KVT_NOT_REPLAYABLE;
}

static bool fits(const void *params_, int64_t budget, int64_t n_prompt, char *why, size_t cap)
{
    const finch *p = params_;
    return p->window == 0 || kvt_window_fits(p->window, budget, n_prompt, why, cap);
}

/* The span is not known here: as many rows as a question may have. One less than the prompt, so
 * that a short prompt does not count as a question altogether. */
static int64_t window(const void *params_, int64_t n_prompt)
{
    const finch *p = params_;
    return p->window ? kvt_min(p->window, n_prompt)
                     : kvt_max(kvt_min(p->queries, n_prompt - 1), 1);
}

/* W */
static int64_t question(const finch *p, const kvt_sequence *seq)
{
    for (int i = 0; p->window == 0 && i < seq->n_span; i++)
        if (strcmp(seq->span[i].name, "question") == 0 && seq->span[i].begin < seq->n_prompt)
            return seq->n_prompt - seq->span[i].begin;
    return p->window ? p->window : DEFAULT_WINDOW;
}

static void step(const void *params_, kvt_lane *lane)
{
    const finch *p = params_;
    const kvt_view *A = &lane->attn;
    int64_t W = question(p, lane->seq), n = lane->n_slot, from = kvt_max(A->dim[1] - W, 0);
    double *sum = kvt_arena_array(lane->scratch, n, sizeof *sum);
    for (int64_t h = 0; sum && h < A->dim[0]; h++)
        for (int64_t q = from; q < A->dim[1]; q++) {
            const float *row = kvt_head_row(A, h, q);
            /* n - W keys lie in front; this is row W - Q + q of the question */
            double weight = p->rows == ROWS_KEYS ? (double)(n - A->dim[1] + q) : 1;
            for (int64_t s = 0; s < n; s++)
                sum[s] += weight * (double)row[s];
        }
    for (int64_t s = 0; s < n; s++) /* NaN, which is refused: no memory */
        lane->mark[s] = sum ? (float)sum[s] : NAN;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, question(params_, lane->seq));
    for (int64_t s = 0; s < n; s++)
        out[s] = lane->mark[s];
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->even_lanes = true; /* one set for all heads, or each lane alone */
}

const kvt_policy kvt_policy_finch = {
    .abi = KVT_POLICY_ABI,
    .name = "finch",
    .title = "keep what the question at the end looks at, one set a layer",
    .paper = "Corallo and Papotti, FINCH, 2024, arXiv:2408.00167",
    .about =
        "A long text and a short question behind it: what the question attends to is what the "
        "answer needs. The attention of all tokens of the question is summed over all heads of "
        "the layer, and the best of the text stay, the same in every head, with the question "
        "itself. Nothing is trained, nothing is pooled.\n\n"
        "As published a text that is longer than the model's window is read in segments, each "
        "with the question behind it and with what was kept of the ones before in front. Here "
        "it is one segment; segments=2 and more is refused, since later segments look at a "
        "cache that this trace does not hold.\n\n"
        "Where the trace has a span named question (kvt capture, field spans of a prompt), the "
        "window is from its first token to the prompt's end; else window=N says it, or it is "
        "the last 32 tokens.",
    .differs =
        "one segment only; the question is found by the trace's span, no delimiter is "
        "searched or removed: without a span the last 32 tokens stand for it; of a question "
        "of more than queries (64) tokens the last that many vote, and all of it is kept; "
        "sums where kvpress has means over rows and heads, the same order; positions stay as "
        "they were, where the published codes turn the kept keys to their slots",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN,
               .scope = KVT_BY_LAYER,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true},
    .slot_width = 1,
    .why_not =
        "a later segment looks at what was kept of the ones before it, which the rows of a "
        "full cache do not show",
    .params_size = sizeof(finch),
    .params = params,
    .vary = vary,
    .fits = fits,
    .window = window,
    .step = step,
    .score = score,
    .select = kvt_select_together,
    .work = work,
};
