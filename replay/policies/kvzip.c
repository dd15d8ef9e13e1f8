/* kvzip - keep what the model reads to repeat the prompt.
 *
 *   Kim et al., "KVzip: Query-Agnostic KV Cache Compression with Context Reconstruction",
 *   2025, arXiv:2505.23416; snu-mllab/KVzip 5d84729. KVzip+ (plus=true): NVIDIA/kvpress
 *   8bb29b9.
 *
 * The probe cuts the prompt into chunks (2,000 tokens in the official code, 2,048 in kvpress)
 * and, for each, runs an instruction and the chunk's own tokens again behind the full cache.
 * For the rows i of a repeated chunk c, with a softmax of their own over three kinds of keys,
 *
 *   A[h, i]  = softmax over [sinks | chunk c | repeated rows up to i] of scale q_i.k
 *   score[j] = max over the query heads h of the lane and over i of A[h, i, j],   j in chunk c
 *
 * KVzip+ takes A[h, i, j] ||W_O^(h) v_j|| / ||h_i|| instead, with h_i the residual of row i.
 * Which rows of a segment count the probe says (chunk/from); in those of `kvt capture --probe`
 * all do, the instruction's among them, as in both published codes. Selection: scope=lane keeps
 * the best B of each lane; scope=model the best of all lanes of the model together, B for each
 * on average. sinks=prefix: the template's prefix, always kept, in front of every chunk;
 * sinks=four: the first four tokens, which score 1 and so come first (scores of KVzip+ may be
 * larger; kvpress 0.5.5 then keeps the four all the same).
 *
 * Differs: the question is a part of the prompt and is repeated with it; the prefix counts
 * towards B; equal scores at the cut fill the budget by position
 * (ties=drop: none of them is kept, as the official threshold does); ||h_i|| is taken before
 * the norm. In layers with a sliding window rows still see their three parts whole. Cost for
 * each lane, once: O(H N C D) time for chunks of C tokens, beside the probe's N and more rows;
 * O(C D) memory. */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct kvzip {
    int scope, sinks, ties;
    bool plus;
} kvzip;

enum { SCOPE_LANE, SCOPE_MODEL };
enum { SINKS_PREFIX, SINKS_FOUR };
enum { TIES_LOWER, TIES_DROP };
enum { FOUR = 4, TILE = 16 }; /* rows at a time */

static const kvt_choice scopes[] = {
    [SCOPE_LANE] = {"lane", "", "the best of each lane"},
    [SCOPE_MODEL] = {"model", "", "the best of all lanes together, the same number in all"},
};

static const kvt_choice sinks[] = {
    [SINKS_PREFIX] = {"prefix", "", "the template's prefix, always kept: the official code"},
    [SINKS_FOUR] = {"four", "", "the first four tokens, with score 1: kvpress"},
};

static const kvt_choice ties[] = {
    [TIES_LOWER] = {"lower", "", "equal scores at the cut: the lower position is kept"},
    [TIES_DROP] = {"drop", "", "what equals the last score that fits is dropped: official"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(kvzip, scope, SCOPE_LANE, scopes, "which scores compete"),
    KVT_PARAM_CHOICE(kvzip, sinks, SINKS_PREFIX, sinks, "what stands before every chunk"),
    KVT_PARAM_CHOICE(kvzip, ties, TIES_LOWER, ties, "equal scores at the cut"),
    KVT_PARAM(kvzip, plus, false, 0, 1, "", "KVzip+: weighs by the norm of the output"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const kvzip *p = params_;
    if (p->scope == SCOPE_LANE)
        traits->scope = KVT_BY_LANE;
    if (p->sinks == SINKS_FOUR)
        traits->needs &= ~(unsigned)KVT_NEED_TOKENS;
    if (p->plus)
        traits->mass_scores = false; /* attention times a norm */
    else
        traits->needs &= ~(unsigned)KVT_NEED_WO_NORM;
}

/* Tokens in front of the first that a user wrote: the template's, the system prompt. */
static int64_t prefix(const kvt_sequence *seq)
{
    enum { FRONT = KVT_TOKEN_SPECIAL | KVT_TOKEN_TEMPLATE | KVT_TOKEN_SYSTEM };
    int64_t n = 0;
    while (n < seq->n_prompt && (seq->flag[n] & FRONT))
        n++;
    return n;
}

/* One segment: which rows count, and the keys that they see. */
typedef struct segment {
    int64_t first, from, end; /* rows of the probe; from: the first that counts */
    int64_t begin, n_chunk, n_sink, n_key;
    float *key; /* f32 [n_key D] */
    float *row; /* f32 [TILE n_key] */
    int64_t n_see[TILE];
} segment;

static void copy_keys(float *to, const kvt_view *keys, int64_t begin, int64_t n)
{
    int64_t n_dim = keys->dim[1];
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * n_dim, (const float *)keys->data + (begin + i) * keys->stride[0],
               (size_t)n_dim * sizeof *to);
}

/* False: no room. */
static bool open_segment(segment *g, const kvt_lane *lane, int which, int64_t n_sink)
{
    const kvt_probe *probe = lane->probe;
    int64_t n_row = probe->queries.dim[1], n_dim = lane->keys.dim[1];
    *g = (segment){.begin = probe->begin[which]};
    while (g->first < n_row && probe->segment && probe->segment[g->first] < which)
        g->first++;
    g->end = g->first;
    while (g->end < n_row && (!probe->segment || probe->segment[g->end] == which))
        g->end++;
    g->from = kvt_max(probe->from ? probe->from[which] : g->first, g->first);
    g->n_chunk = kvt_min(probe->end[which], lane->n_slot) - g->begin;
    g->n_sink = kvt_min(n_sink, g->begin);
    g->n_key = g->n_sink + g->n_chunk + g->end - g->first;
    g->key = kvt_arena_array(lane->scratch, g->n_key * n_dim, sizeof *g->key);
    g->row = kvt_arena_array(lane->scratch, TILE * g->n_key, sizeof *g->row);
    if (!g->key || !g->row)
        return false;
    copy_keys(g->key, &lane->keys, 0, g->n_sink);
    copy_keys(g->key + g->n_sink * n_dim, &lane->keys, g->begin, g->n_chunk);
    copy_keys(g->key + (g->n_sink + g->n_chunk) * n_dim, &probe->keys, g->first,
              g->end - g->first);
    return true;
}

/* out[j] becomes the maximum of itself and of each row's value at j. */
static void raise_to(float *out, const segment *g, const kvzip *p, const kvt_lane *lane,
                     int64_t head, int64_t row, int64_t n_row)
{
    const kvt_view *wo = &lane->wo_l2, *norm = &lane->probe->h_norm;
    for (int64_t i = 0; i < n_row; i++) {
        const float *a = g->row + i * g->n_key + g->n_sink;
        const float *weight = NULL;
        float h_norm = 1;
        if (p->plus) {
            weight = (const float *)wo->data + head * wo->stride[0] + g->begin;
            h_norm = ((const float *)norm->data)[(row + i) * norm->stride[0]];
        }
        for (int64_t j = 0; j < g->n_chunk; j++) {
            float value = weight && h_norm > 0 ? a[j] * weight[j] / h_norm : a[j];
            out[j] = value > out[j] ? value : out[j];
        }
    }
}

static void score_segment(float *out, segment *g, const kvzip *p, const kvt_lane *lane)
{
    const kvt_view *q = &lane->probe->queries;
    float scale = (float)lane->seq->geometry->attn_scale;
    for (int64_t h = 0; h < q->dim[0]; h++)
        for (int64_t at = g->from; at < g->end; at += TILE) {
            int64_t n = kvt_min(TILE, g->end - at);
            const float *query = kvt_head_row(q, h, at);
            for (int64_t i = 0; i < n; i++) /* up to itself */
                g->n_see[i] = g->n_sink + g->n_chunk + at + i - g->first + 1;
            kvt_softmax_rows(g->row, query, q->stride[1], n, g->key, g->n_key, q->dim[2], scale,
                             g->n_see);
            raise_to(out + g->begin, g, p, lane, h, at, n);
        }
}

/* Scores are marks: they are taken while a layer's keys are there, so that the lanes of all
 * layers can compete later. */
static void step(const void *params_, kvt_lane *lane)
{
    const kvzip *p = params_;
    bool four = p->sinks == SINKS_FOUR, room = true;
    int64_t n_sink = kvt_min(four ? FOUR : prefix(lane->seq), lane->n_slot);
    for (int i = 0; room && i < lane->probe->n_segment; i++) {
        segment g;
        size_t start = kvt_arena_mark(lane->scratch);
        room = open_segment(&g, lane, i, n_sink);
        if (room)
            score_segment(lane->mark, &g, p, lane);
        kvt_arena_rewind(lane->scratch, start);
    }
    if (!room)
        kvt_no_score(lane->mark, lane->n_slot);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const kvzip *p = params_;
    bool four = p->sinks == SINKS_FOUR;
    int64_t n_sink = kvt_min(four ? FOUR : prefix(lane->seq), lane->n_slot);
    memcpy(out, lane->mark, (size_t)lane->n_slot * sizeof *out);
    for (int64_t s = 0; s < n_sink; s++) {
        pinned[s] = !four;
        out[s] = isnan(out[s]) ? out[s] : 1;
    }
}

/* ties=drop: unmarks what is not pinned and scores no more than the least that was kept, where
 * something had to go. */
static void drop_ties(bool *keep, const float *score, const bool *pinned, int64_t n)
{
    float least = INFINITY;
    for (int64_t s = 0; s < n; s++)
        if (keep[s] && !pinned[s] && score[s] < least)
            least = score[s];
    for (int64_t s = 0; s < n; s++)
        keep[s] &= pinned[s] || score[s] > least;
}

/* All lanes of the scope as one list: a lane alone, or the model. Without room nothing is
 * marked. */
static void select(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget)
{
    const kvzip *p = params_;
    int64_t n = 0, total = 0, at = 0;
    for (int i = 0; i < n_lane; i++) {
        n += lane[i].n_slot;
        total += budget[i];
    }
    float *all = kvt_arena_array(lane->scratch, n, sizeof *all);
    bool *held = kvt_arena_array(lane->scratch, n, sizeof *held);
    bool *best = kvt_arena_array(lane->scratch, n, sizeof *best);
    if (!all || !held || !best)
        return;
    for (int i = 0; i < n_lane; at += lane[i++].n_slot)
        for (int64_t s = 0; s < lane[i].n_slot; s++) {
            all[at + s] = score[i][s];
            held[at + s] = pinned[i][s];
            total -= pinned[i][s];
        }
    if (kvt_keep_best(best, all, held, n, total, lane->scratch) < 0)
        return;
    if (p->ties == TIES_DROP)
        drop_ties(best, all, held, n);
    at = 0;
    for (int i = 0; i < n_lane; at += lane[i++].n_slot)
        memcpy(keep[i], best + at, (size_t)lane[i].n_slot * sizeof **keep);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->repeats = 1; /* and an instruction of a few tokens in front of each chunk */
}

const kvt_policy kvt_policy_kvzip = {
    .abi = KVT_POLICY_ABI,
    .name = "kvzip",
    .title = "keep what the model reads to repeat the prompt",
    .paper = "Kim et al., KVzip, 2025, arXiv:2505.23416",
    .about =
        "A cache that lets the model repeat its prompt will serve any question about it. So "
        "the model is told to repeat it, and what it reads for that is kept; the question is "
        "never seen, one compressed cache serves many.\n\n"
        "The prompt is cut into chunks (2,000 tokens in the official code, 2,048 in "
        "kvpress). For each an instruction and the chunk's own tokens run again behind the "
        "full cache. Score of a token of chunk c: the largest attention from any query head "
        "of the group and any of these rows, in a softmax of its own over [sinks | chunk c | "
        "these rows so far]. It decides once, at the end of the prompt: the best B of each "
        "lane, or (scope=model) the best of all layers and heads together, so that lanes "
        "differ in length. The template's prefix always stays. Nothing is trained; it costs "
        "two to three prefills.\n\n"
        "plus=true is KVzip+ of NVIDIA/kvpress: each attention times ||W_O v|| of the token, "
        "over the norm of the row's residual.",
    .differs =
        "a trace's prompt holds its question, which is repeated with it; the template's prefix "
        "counts towards the budget; equal scores at the cut fill the "
        "budget by position (ties=drop: as published, fewer are kept); the row's norm in "
        "KVzip+ is taken before the input norm; of its two selections the default is "
        "scope=lane",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE | KVT_NEED_KEYS | KVT_NEED_TOKENS | KVT_NEED_WO_NORM,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .probe = "repeat"},
    .slot_width = 1,
    .params_size = sizeof(kvzip),
    .params = params,
    .vary = vary,
    .step = step,
    .score = score,
    .select = select,
    .work = work,
};
