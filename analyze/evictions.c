/* evictions.c - evictions.csv: every token that left a lane, when, why and what it cost. */
#include "analyze/long.h"
#include "analyze/regret.h"
#include "analyze/report_priv.h"

#include <math.h>
#include <string.h>

enum { REGRET_PERCENT = 90 };

typedef struct evictions_row {
    report_key key;
    int64_t layer, kv_head, step, token, token_id;
    const char *token_text, *token_hex, *phase;
    double score;
    int64_t rank_tokens;
    double cut_score;
    int64_t age_steps;
    double past_mass_sum, future_mass_sum;
    int64_t oracle_keeps, regretted, worst_missed_step;
} evictions_row;

static void evictions_schema(kvt_schema *out)
{
    static const kvt_column columns[] = {
        KVT_COLUMN(evictions_row, layer, "", "layer of the model, from 0"),
        KVT_COLUMN(evictions_row, kv_head, "", "kv head of the layer, from 0"),
        KVT_COLUMN(evictions_row, step, "",
                   "0: the decision at the end of the prompt; t follows response row t - 1"),
        KVT_COLUMN(evictions_row, token, "", "position of the token"),
        KVT_COLUMN(evictions_row, token_id, "", "its vocabulary entry"),
        {.name = "token_text",
         .help = "its text",
         .type = KVT_COL_STRING,
         .untrusted = true,
         .offset = offsetof(evictions_row, token_text)},
        KVT_COLUMN(evictions_row, token_hex, "", "its bytes, two digits each"),
        KVT_COLUMN(evictions_row, phase, "", "prefill or decode"),
        KVT_COLUMN(evictions_row, score, "",
                   "the policy's score of the decision at the end of the prompt"),
        KVT_COLUMN(evictions_row, rank_tokens, "tokens",
                   "its rank in the lane, 1 is best; one ranking for all budgets only"),
        KVT_COLUMN(evictions_row, cut_score, "",
                   "score of the last token that was kept by score"),
        KVT_COLUMN(evictions_row, age_steps, "tokens",
                   "positions between it and the newest token"),
        KVT_COLUMN(evictions_row, past_mass_sum, "rows",
                   "attention from all prompt queries, mean over the lane's query heads"),
        KVT_COLUMN(evictions_row, future_mass_sum, "rows",
                   "attention still to come, mean over the lane's query heads"),
        KVT_COLUMN(evictions_row, oracle_keeps, "", "1: the oracle at this budget keeps it"),
        KVT_COLUMN(evictions_row, regretted, "",
                   "1: of the smallest set that carries 90 % of the regret"),
        KVT_COLUMN(evictions_row, worst_missed_step, "",
                   "response row that looked at it most, after it left"),
        {0},
    };
    *out = (kvt_schema){0};
    report_key_schema(out, offsetof(evictions_row, key));
    report_schema_add(out, columns);
}

/* What one lane needs, for all its evictions; arrays over tokens. */
typedef struct lane_work {
    int32_t *evict;
    double *
        remaining; /* attention still to come after the token left (all of it where it stays) */
    int32_t *missed; /* row that looked at it most from there on; -1: none */
    bool *held, *judged, *marked;
    double *past; /* [N], NULL where the trace has no column sums */
} lane_work;

static bool has_sets(const kvt_result *r)
{
    return r->rank != NULL || r->evict_step != NULL;
}

static void *new_work(kvt_arena *arena, int64_t n)
{
    lane_work *w = kvt_arena_get(arena, sizeof *w);
    if (w == NULL)
        return NULL;
    w->evict = kvt_arena_array(arena, n, sizeof *w->evict);
    w->remaining = kvt_arena_array(arena, n, sizeof *w->remaining);
    w->missed = kvt_arena_array(arena, n, sizeof *w->missed);
    w->held = kvt_arena_array(arena, n, sizeof *w->held);
    w->judged = kvt_arena_array(arena, n, sizeof *w->judged);
    w->marked = kvt_arena_array(arena, n, sizeof *w->marked);
    w->past = kvt_arena_array(arena, n, sizeof *w->past);
    bool whole =
        w->evict && w->remaining && w->missed && w->held && w->judged && w->marked && w->past;
    return whole ? w : NULL;
}

/* Mass still to come of each token, from the response rows; NAN without rows. */
static void look_ahead(lane_work *w, const kvt_result *r, const float *rows)
{
    int64_t n = r->n_prompt + r->n_response;
    for (int64_t t = 0; t < n; t++) {
        int64_t from = w->evict[t] > 0 ? w->evict[t] : 0;
        float most = 0;
        w->remaining[t] = rows != NULL ? 0 : (double)NAN;
        w->missed[t] = -1;
        for (int64_t m = from; rows != NULL && m < r->n_response; m++) {
            float a = rows[m * n + t];
            w->remaining[t] += (double)a;
            if (a > most) {
                most = a;
                w->missed[t] = (int32_t)m;
            }
        }
    }
}

/* Mean over the lane's query heads of the attention from all prompt queries. */
static kvt_code look_back(lane_work *w, const long_lane *at, kvt_err *err)
{
    const long_trace *t = at->trace;
    kvt_view sums;
    kvt_code code = kvt_trace_read(t->trace, KVT_DS_COL_SUM, t->layer[at->layer], &sums, err);
    if (code != KVT_OK)
        return code;
    const float *sum = sums.data; /* f32 [H N] */
    int64_t n = at->r->n_prompt, n_head = sums.dim[0] / at->r->n_lane;
    for (int64_t i = 0; i < n; i++) {
        w->past[i] = 0;
        for (int64_t h = 0; h < n_head; h++)
            w->past[i] += (double)sum[(at->lane * n_head + h) * n + i];
        w->past[i] /= (double)n_head;
    }
    kvt_trace_done(t->trace, &sums);
    return KVT_OK;
}

/* Score of the last token that a ranking kept by score. */
static double cut_score(const kvt_result *r, int cell, int64_t a)
{
    if (r->rank == NULL || r->score == NULL || r->cut == NULL)
        return (double)NAN;
    int64_t n = r->n_prompt, n_lane = (int64_t)r->n_layer * r->n_lane;
    int32_t cut = r->cut[cell * n_lane + a];
    for (int64_t t = 0; t < n; t++)
        if (r->rank[a * n + t] == cut - 1 && (r->pinned == NULL || !r->pinned[a * n + t]))
            return (double)r->score[a * n + t];
    return (double)NAN;
}

static void look_at_sets(lane_work *w, const long_lane *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int keeps = long_oracle_keeps(at, i);
        w->evict[i] = kvt_result_evict_step(at->r, at->cell, at->layer, at->lane, i);
        w->held[i] = w->evict[i] < 0;
        /* where the judge has no say (generated tokens), it agrees */
        w->judged[i] = keeps == 1 || (keeps < 0 && w->held[i]);
    }
}

/* What is known of one token that left. */
static void fill(evictions_row *row, const lane_work *w, const long_lane *at, int64_t i)
{
    const kvt_result *r = at->r;
    int64_t a = (int64_t)at->layer * r->n_lane + at->lane;
    int keeps = long_oracle_keeps(at, i);
    bool in_prompt = i < r->n_prompt;
    row->step = w->evict[i];
    row->token = i;
    row->token_id = ((const int32_t *)at->trace->id.data)[i];
    row->token_text = at->trace->token[i];
    row->token_hex = at->trace->hex[i];
    row->phase = w->evict[i] == 0 ? "prefill" : "decode";
    row->score =
        in_prompt && r->score != NULL ? (double)r->score[a * r->n_prompt + i] : (double)NAN;
    row->rank_tokens =
        in_prompt && r->rank != NULL ? r->rank[a * r->n_prompt + i] + 1 : KVT_EMPTY_INT;
    row->age_steps = r->n_prompt + w->evict[i] - 1 - i;
    row->past_mass_sum = in_prompt && !r->by_query_head ? w->past[i] : (double)NAN;
    row->future_mass_sum = w->remaining[i];
    row->oracle_keeps = keeps < 0 ? KVT_EMPTY_INT : keeps;
    row->regretted = keeps < 0 ? KVT_EMPTY_INT : w->marked[i];
    row->worst_missed_step = w->missed[i] >= 0 ? w->missed[i] : KVT_EMPTY_INT;
}

static kvt_code make_lane(const long_lane *at, kvt_err *err)
{
    const kvt_result *r = at->r;
    lane_work *w = at->work;
    int64_t n = r->n_prompt + r->n_response, a = (int64_t)at->layer * r->n_lane + at->lane;
    const kvt_lane_row *lane = &r->lane[(int64_t)at->cell * r->n_layer * r->n_lane + a];
    const float *rows;
    regret_sum sum;
    if (long_rows(&rows, at, err) != KVT_OK)
        return err->code;
    look_at_sets(w, at, n);
    look_ahead(w, r, rows);
    if (look_back(w, at, err) != KVT_OK ||
        regret_mark(w->marked, &sum, w->held, w->judged, w->remaining, n,
                    REGRET_PERCENT / 100.0, err) != KVT_OK)
        return err->code;
    evictions_row row = {.key = at->key,
                         .layer = lane->layer,
                         .kv_head = lane->kv_head,
                         .cut_score = cut_score(r, at->cell, a)};
    for (int64_t i = 0; i < n; i++) {
        if (w->held[i])
            continue;
        fill(&row, w, at, i);
        if (at->sink->rows(at->sink->user, &row, 1, err) != KVT_OK)
            return err->code;
    }
    return KVT_OK;
}

static kvt_code make_evictions(const kvt_results *results, const char *run_id,
                               const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    static const long_kind kind = {"evictions", has_sets, new_work, make_lane};
    return long_make(&kind, results, run_id, sink, ctx, err);
}

const report_kind report_evictions = {
    .name = "evictions",
    .title = "one row an eviction",
    .row_size = sizeof(evictions_row),
    .schema = evictions_schema,
    .make = make_evictions,
};
