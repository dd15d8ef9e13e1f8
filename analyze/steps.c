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

typedef struct lane_at {
    const kvt_result *r, *oracle;
    int cell, oracle_cell, layer, lane;
} lane_at;

static kvt_code make_lane(const lane_at *at, long_trace *t, steps_row *row, int32_t *evict,
                          const report_sink *sink, kvt_err *err)
{
    const kvt_result *r = at->r;
    int64_t n_token = r->n_prompt + r->n_response, n_lane = (int64_t)r->n_layer * r->n_lane;
    int64_t a = (int64_t)at->layer * r->n_lane + at->lane;
    const kvt_lane_row *lane = &r->lane[at->cell * n_lane + a];
    const float *lost = r->lost + (at->cell * n_lane + a) * r->n_response;
    const float *kept = r->kept_count + (at->cell * n_lane + a) * r->n_response;
    const float *attention = NULL, *oracle_lost = NULL;
    bool equal_slots = false;
    if (at->oracle != NULL && at->oracle->lost != NULL) {
        oracle_lost = at->oracle->lost + (at->oracle_cell * n_lane + a) * r->n_response;
        equal_slots = at->oracle->lane[at->oracle_cell * n_lane + a].kept_prefill_tokens ==
                          lane->kept_prefill_tokens &&
                      strcmp(r->cell[at->cell].growth, "on-top") == 0;
    }
    if (t->rows != NULL && !r->by_query_head &&
        kvt_rows_group(t->rows, t->layer[at->layer], at->lane, &attention, err) != KVT_OK)
        return err->code;
    for (int64_t i = 0; i < n_token; i++)
        evict[i] = kvt_result_evict_step(r, at->cell, at->layer, at->lane, i);
    row->layer = lane->layer;
    row->kv_head = lane->kv_head;
    for (int64_t m = 0; m < r->n_response; m++) {
        int64_t position = r->n_prompt + m;
        row->step = m;
        row->position_token = position;
        row->token_id = ((const int32_t *)t->id.data)[position];
        row->token_text = t->token[position];
        row->token_hex = t->hex[position];
        row->kept_tokens = (double)kept[m];
        row->lost_mass_frac = (double)lost[m];
        row->oracle_lost_mass_frac = oracle_lost != NULL ? (double)oracle_lost[m] : (double)NAN;
        row->regret_frac =
            equal_slots ? row->lost_mass_frac - row->oracle_lost_mass_frac : (double)NAN;
        row->evicted_tokens_count = 0;
        for (int64_t i = 0; i < n_token; i++)
            row->evicted_tokens_count += evict[i] == m;
        add_top(row, attention != NULL ? attention + m * n_token : NULL, evict, position + 1);
        if (sink->rows(sink->user, row, 1, err) != KVT_OK)
            return err->code;
    }
    return KVT_OK;
}

static kvt_code make_result(const kvt_results *results, const kvt_result *r, const char *run_id,
                            const report_sink *sink, kvt_err *err)
{
    bool wanted = false;
    for (int c = 0; c < r->n_cell; c++)
        wanted = wanted || report_wants(run_id, &r->cell[c]);
    if (!wanted || r->lost == NULL)
        return KVT_OK; /* per-query bounds and passes without rows have no steps */
    long_trace t;
    if (long_open(&t, r, err) != KVT_OK)
        return err->code;
    kvt_code code = KVT_OK;
    int32_t *evict = kvt_alloc(r->n_prompt + r->n_response, sizeof *evict);
    if (evict == NULL)
        code = kvt_fail_memory(err, (size_t)(r->n_prompt + r->n_response) * sizeof *evict);
    for (int c = 0; c < r->n_cell && code == KVT_OK; c++) {
        if (!report_wants(run_id, &r->cell[c]))
            continue;
        lane_at at = {.r = r, .cell = c};
        at.oracle = long_oracle(results, r, c, &at.oracle_cell);
        steps_row row = {0};
        report_key_of(&row.key, &r->cell[c]);
        for (at.layer = 0; at.layer < r->n_layer && code == KVT_OK; at.layer++)
            for (at.lane = 0; at.lane < r->n_lane && code == KVT_OK; at.lane++)
                code = make_lane(&at, &t, &row, evict, sink, err);
    }
    kvt_free(evict);
    return long_finish(&t, code, sink, err);
}

static kvt_code make_steps(const kvt_results *results, const char *run_id,
                           const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    const kvt_result **order = report_order(results);
    if (order == NULL)
        return kvt_fail_memory(err, (size_t)results->n * sizeof *order);
    kvt_code code = KVT_OK;
    for (int64_t i = 0; i < results->n && code == KVT_OK; i++) {
        code = kvt_progress(ctx, "steps", i, results->n, err);
        if (code == KVT_OK)
            code = make_result(results, order[i], run_id, sink, err);
    }
    kvt_free(order);
    return code;
}

const report_kind report_steps = {
    .name = "steps",
    .title = "one row a response row of each lane",
    .row_size = sizeof(steps_row),
    .schema = steps_schema,
    .make = make_steps,
};
