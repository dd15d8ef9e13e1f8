/* steps.c - steps.csv: what each lane lost at each response row. */
#include "analyze/long.h"
#include "analyze/report_priv.h"

#include <math.h>
#include <string.h>

typedef struct steps_row {
    report_key key;
    int64_t layer, kv_head, step, position_token, token_id;
    const char *token_text, *token_hex;
    double kept_tokens, lost_mass_frac, oracle_lost_mass_frac, regret_frac;
    int64_t evicted_tokens_count, top_lost_token;
    double top_lost_mass_frac;
} steps_row;

static void steps_schema(kvt_schema *out)
{
    static const kvt_column columns[] = {
        KVT_COLUMN(steps_row, layer, "", "layer of the model, from 0"),
        KVT_COLUMN(steps_row, kv_head, "", "kv head of the layer, from 0"),
        KVT_COLUMN(steps_row, step, "", "response row, from 0"),
        KVT_COLUMN(steps_row, position_token, "", "position of the row's query"),
        KVT_COLUMN(steps_row, token_id, "", "vocabulary entry of the token there"),
        {.name = "token_text",
         .help = "its text",
         .type = KVT_COL_STRING,
         .untrusted = true,
         .offset = offsetof(steps_row, token_text)},
        KVT_COLUMN(steps_row, token_hex, "", "its bytes, two digits each"),
        KVT_COLUMN(steps_row, kept_tokens, "tokens", "slots that the row saw"),
        KVT_COLUMN(steps_row, lost_mass_frac, "frac",
                   "attention on evicted tokens, mean over the lane's query heads"),
        KVT_COLUMN(steps_row, oracle_lost_mass_frac, "frac",
                   "the same of the oracle at this budget"),
        KVT_COLUMN(steps_row, regret_frac, "frac",
                   "the difference; only where both keep the same number of slots"),
        KVT_COLUMN(steps_row, evicted_tokens_count, "tokens",
                   "tokens that left the lane in the decision in front of this row"),
        KVT_COLUMN(steps_row, top_lost_token, "",
                   "position of the evicted token that the row looked at most"),
        KVT_COLUMN(steps_row, top_lost_mass_frac, "frac", "its attention"),
        {0},
    };
    *out = (kvt_schema){0};
    report_key_schema(out, offsetof(steps_row, key));
    report_schema_add(out, columns);
}

/* The evicted token that row m of a lane looked at most. */
static void add_top(steps_row *row, const float *attention, const int32_t *evict, int64_t n)
{
    row->top_lost_token = KVT_EMPTY_INT;
    row->top_lost_mass_frac = (double)NAN;
    if (attention == NULL)
        return;
    for (int64_t t = 0; t < n; t++) {
        bool gone = evict[t] >= 0 && evict[t] <= row->step;
        if (gone && !((double)attention[t] <= row->top_lost_mass_frac)) {
            row->top_lost_token = t;
            row->top_lost_mass_frac = (double)attention[t];
        }
    }
}

static bool has_rows(const kvt_result *r)
{
    return r->lost != NULL;
}

static void *new_work(kvt_arena *arena, int64_t n)
{
    return kvt_arena_array(arena, n, sizeof(int32_t)); /* step at which each token left */
}

/* The oracle's losses of this lane, and whether both hold as many slots. */
static const float *oracle_lost(const long_lane *at, int64_t a, bool *equal_slots)
{
    const kvt_result *o = at->oracle, *r = at->r;
    int64_t n_lane = (int64_t)r->n_layer * r->n_lane;
    *equal_slots = false;
    if (o == NULL || o->lost == NULL)
        return NULL;
    *equal_slots = o->lane[at->oracle_cell * n_lane + a].kept_prefill_tokens ==
                       r->lane[at->cell * n_lane + a].kept_prefill_tokens &&
                   strcmp(r->cell[at->cell].growth, "on-top") == 0;
    return o->lost + (at->oracle_cell * n_lane + a) * r->n_response;
}

static kvt_code make_lane(const long_lane *at, kvt_err *err)
{
    const kvt_result *r = at->r;
    const long_trace *t = at->trace;
    int64_t n_token = r->n_prompt + r->n_response, n_lane = (int64_t)r->n_layer * r->n_lane;
    int64_t a = (int64_t)at->layer * r->n_lane + at->lane;
    const kvt_lane_row *lane = &r->lane[at->cell * n_lane + a];
    const float *lost = r->lost + (at->cell * n_lane + a) * r->n_response;
    const float *kept = r->kept_count + (at->cell * n_lane + a) * r->n_response;
    bool equal_slots;
    const float *best = oracle_lost(at, a, &equal_slots), *attention;
    int32_t *evict = at->work;
    steps_row row = {.key = at->key, .layer = lane->layer, .kv_head = lane->kv_head};
    if (long_rows(&attention, at, err) != KVT_OK)
        return err->code;
    for (int64_t i = 0; i < n_token; i++)
        evict[i] = kvt_result_evict_step(r, at->cell, at->layer, at->lane, i);
    for (int64_t m = 0; m < r->n_response; m++) {
        int64_t position = r->n_prompt + m;
        row.step = m;
        row.position_token = position;
        row.token_id = ((const int32_t *)t->id.data)[position];
        row.token_text = t->token[position];
        row.token_hex = t->hex[position];
        row.kept_tokens = (double)kept[m];
        row.lost_mass_frac = (double)lost[m];
        row.oracle_lost_mass_frac = best != NULL ? (double)best[m] : (double)NAN;
        row.regret_frac =
            equal_slots ? row.lost_mass_frac - row.oracle_lost_mass_frac : (double)NAN;
        row.evicted_tokens_count = 0;
        for (int64_t i = 0; i < n_token; i++)
            row.evicted_tokens_count += evict[i] == m;
        add_top(&row, attention != NULL ? attention + m * n_token : NULL, evict, position + 1);
        if (at->sink->rows(at->sink->user, &row, 1, err) != KVT_OK)
            return err->code;
    }
    return KVT_OK;
}

static kvt_code make_steps(const kvt_results *results, const char *run_id,
                           const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    static const long_kind kind = {"steps", has_rows, new_work, make_lane};
    return long_make(&kind, results, run_id, sink, ctx, err);
}

const report_kind report_steps = {
    .name = "steps",
    .title = "one row a response row of each lane",
    .row_size = sizeof(steps_row),
    .schema = steps_schema,
    .make = make_steps,
};
