/* cells.c - the tables that a result file already holds: cells, lanes and the budget audit. */
#include "analyze/report_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

/* ---- cells: one row a trace, policy and budget ---------------------------------------------
 */

typedef struct cells_row {
    kvt_cell cell;
    char policy_label[KVT_LABEL_MAX];
} cells_row;

static void cells_schema(kvt_schema *out)
{
    static const kvt_column columns[] = {
        KVT_COLUMN(cells_row, policy_label, "",
                   "policy with the parameters that tell its uses apart"),
        {0},
    };
    kvt_cell_schema(out);
    report_schema_add(out, columns);
}

/* A sink that names a cell's policy on the way. */
typedef struct named {
    const report_sink *sink;
    kvt_labels *labels;
    cells_row row;
} named;

static kvt_code put_named(void *user, const void *rows, int64_t n, kvt_err *err)
{
    named *to = user;
    kvt_code code = KVT_OK;
    for (int64_t i = 0; i < n && code == KVT_OK; i++) {
        to->row.cell = ((const kvt_cell *)rows)[i];
        snprintf(to->row.policy_label, sizeof to->row.policy_label, "%s",
                 kvt_label(to->labels, to->row.cell.policy, to->row.cell.policy_params));
        code = to->sink->rows(to->sink->user, &to->row, 1, err);
    }
    return code;
}

static kvt_code put_cell(const report_sink *sink, const kvt_result *r, int cell, kvt_err *err)
{
    return sink->rows(sink->user, &r->cell[cell], 1, err);
}

static kvt_code make_cells(const kvt_results *results, const char *run_id,
                           const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    (void)ctx;
    named *to = kvt_alloc(1, sizeof *to);
    if (to == NULL)
        return kvt_fail_memory(err, sizeof *to);
    *to = (named){.sink = sink};
    report_sink over = {.rows = put_named, .user = to};
    kvt_code code = kvt_labels_new(&to->labels, results, err);
    if (code == KVT_OK)
        code = report_each(results, run_id, true, put_cell, &over, err);
    kvt_labels_free(to->labels);
    kvt_free(to);
    return code;
}

const report_kind report_cells = {
    .name = "cells",
    .title = "one row a trace, policy and budget; skipped and failed ones with their reason",
    .row_size = sizeof(cells_row),
    .schema = cells_schema,
    .make = make_cells,
};

/* ---- lanes ---------------------------------------------------------------------------------
 */

typedef struct lanes_row {
    report_key key;
    kvt_lane_row lane;
} lanes_row;

static bool is_key(const char *name)
{
    return strcmp(name, "run_id") == 0 || strcmp(name, "policy") == 0 ||
           strcmp(name, "budget_asked") == 0;
}

/* Key columns, then those of a lane row that are no keys. */
static void lanes_schema(kvt_schema *out)
{
    kvt_schema lane = {0};
    kvt_lane_schema(&lane);
    *out = (kvt_schema){0};
    report_key_schema(out, offsetof(lanes_row, key));
    for (int i = 0; i < lane.n && out->n < KVT_COLUMNS_MAX; i++) {
        if (is_key(lane.column[i].name))
            continue;
        out->column[out->n] = lane.column[i];
        out->column[out->n++].offset += offsetof(lanes_row, lane);
    }
    out->column[out->n] = (kvt_column){0};
}

static kvt_code put_lanes(const report_sink *sink, const kvt_result *r, int cell, kvt_err *err)
{
    int64_t n_lane = (int64_t)r->n_layer * r->n_lane;
    kvt_code code = KVT_OK;
    lanes_row row = {0};
    report_key_of(&row.key, &r->cell[cell]);
    for (int64_t a = 0; a < n_lane && code == KVT_OK; a++) {
        row.lane = r->lane[cell * n_lane + a];
        code = sink->rows(sink->user, &row, 1, err);
    }
    return code;
}

static kvt_code make_lanes(const kvt_results *results, const char *run_id,
                           const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    (void)ctx;
    return report_each(results, run_id, false, put_lanes, sink, err);
}

const report_kind report_lanes = {
    .name = "lanes",
    .title = "one row a lane (kv head of a layer) of each cell",
    .row_size = sizeof(lanes_row),
    .schema = lanes_schema,
    .make = make_lanes,
};

/* ---- audit: does a policy keep what was asked ----------------------------------------------
 */

typedef struct audit_row {
    report_key key;
    int64_t layer, kv_head, asked_tokens, kept_prefill_tokens, kept_end_tokens, kept_max_tokens,
        excess_tokens, kept_bytes;
    const char *flag;
} audit_row;

static void audit_schema(kvt_schema *out)
{
    static const kvt_column columns[] = {
        KVT_COLUMN(audit_row, layer, "", "layer of the model, from 0"),
        KVT_COLUMN(audit_row, kv_head, "",
                   "kv head of the layer, from 0 (query head where a set is kept for each)"),
        KVT_COLUMN(audit_row, asked_tokens, "tokens", "slots that this lane was given"),
        KVT_COLUMN(audit_row, kept_prefill_tokens, "tokens",
                   "held after the decision at the end of the prompt"),
        KVT_COLUMN(audit_row, kept_end_tokens, "tokens", "held after the last step"),
        KVT_COLUMN(audit_row, kept_max_tokens, "tokens",
                   "most that it held after any decision"),
        KVT_COLUMN(audit_row, excess_tokens, "tokens",
                   "held at the end of the prompt beyond what was asked"),
        KVT_COLUMN(audit_row, kept_bytes, "bytes",
                   "K and V held after the last step, in the trace's type"),
        KVT_COLUMN(audit_row, flag, "",
                   "ok, over, under, empty, or grows (decoded tokens come on top)"),
        {0},
    };
    *out = (kvt_schema){0};
    report_key_schema(out, offsetof(audit_row, key));
    report_schema_add(out, columns);
}

static kvt_code put_audit(const report_sink *sink, const kvt_result *r, int cell, kvt_err *err)
{
    const kvt_cell *c = &r->cell[cell];
    int64_t n_lane = (int64_t)r->n_layer * r->n_lane;
    int64_t full_slots = c->layers * c->kv_heads * (r->n_prompt + r->n_response);
    int64_t slot_bytes = full_slots > 0 ? c->full_bytes / full_slots : 0;
    kvt_code code = KVT_OK;
    for (int64_t a = 0; a < n_lane && code == KVT_OK; a++) {
        const kvt_lane_row *lane = &r->lane[cell * n_lane + a];
        audit_row row = {
            .layer = lane->layer,
            .kv_head = lane->kv_head,
            .asked_tokens = lane->asked_tokens,
            .kept_prefill_tokens = lane->kept_prefill_tokens,
            .kept_end_tokens = lane->kept_end_tokens,
            .kept_max_tokens = lane->kept_max_tokens,
            .excess_tokens = lane->kept_prefill_tokens - lane->asked_tokens,
            .kept_bytes = lane->kept_end_tokens * slot_bytes,
            .flag = lane->flag,
        };
        report_key_of(&row.key, c);
        code = sink->rows(sink->user, &row, 1, err);
    }
    return code;
}

static kvt_code make_audit(const kvt_results *results, const char *run_id,
                           const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    (void)ctx;
    return report_each(results, run_id, false, put_audit, sink, err);
}

const report_kind report_audit = {
    .name = "audit",
    .title = "asked and kept slots of each lane",
    .row_size = sizeof(audit_row),
    .schema = audit_schema,
    .make = make_audit,
};
