/* calibrate_read.c - measured points of a CSV file. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "traces/csv.h"

enum { NOT_THERE = -1 };

/* X(column, whether a file must have it) */
#define COLUMNS(X)         \
    X(quantity, true)      \
    X(geometry, true)      \
    X(prompt_tokens, true) \
    X(batch, false)        \
    X(kv_bits, false)      \
    X(weight_bits, false)  \
    X(policy, false)       \
    X(rows, false)         \
    X(seconds, true)

typedef enum column_id {
#define X(name, must) COL_##name,
    COLUMNS(X)
#undef X
        COL_N
} column_id;

static const char *const column_names[] = {
#define X(name, must) #name,
    COLUMNS(X)
#undef X
        NULL};
static const bool column_must[] = {
#define X(name, must) must,
    COLUMNS(X)
#undef X
};

static const char *const quantity_names[] = {"prefill", "decode", "evict", NULL};

const char *cal_quantity_name(cal_quantity q)
{
    return quantity_names[q];
}

typedef struct reader {
    cal *c;
    int at[COL_N]; /* field of each column; NOT_THERE */
    bool begun;    /* the header is read */
} reader;

/* ---- the header ----------------------------------------------------------------------------
 */

static int find_name(const char *word, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(word, list[i]) == 0)
            return i;
    return NOT_THERE;
}

/* " (nearest: decode)", or "". */
static const char *hint(char out[80], const char *word, const char *const *list)
{
    const char *near = text_nearest(word, list);
    snprintf(out, 80, near ? " (nearest: %s)" : "", near ? near : "");
    return out;
}

static kvt_code read_header(reader *r, const csv_row *row, kvt_err *err)
{
    char near[80];
    for (int i = 0; i < COL_N; i++)
        r->at[i] = NOT_THERE;
    for (int f = 0; f < row->n_field; f++) {
        int i = find_name(row->field[f], column_names);
        if (i == NOT_THERE)
            return kvt_fail(err, KVT_FORMAT, "line %lld: unknown column '%.40s'%s",
                            (long long)row->line, row->field[f],
                            hint(near, row->field[f], column_names));
        if (r->at[i] != NOT_THERE)
            return kvt_fail(err, KVT_FORMAT, "line %lld: column %s stands there twice",
                            (long long)row->line, column_names[i]);
        r->at[i] = f;
    }
    for (int i = 0; i < COL_N; i++)
        if (column_must[i] && r->at[i] == NOT_THERE)
            return kvt_fail(err, KVT_FORMAT, "line %lld: column %s is missing",
                            (long long)row->line, column_names[i]);
    r->begun = true;
    return KVT_OK;
}

/* ---- a line --------------------------------------------------------------------------------
 */

/* "" where the file has no such column. */
static const char *field(const reader *r, const csv_row *row, column_id i)
{
    return r->at[i] == NOT_THERE ? "" : row->field[r->at[i]];
}

static kvt_code bad(const csv_row *row, column_id i, const char *expected, const char *got,
                    kvt_err *err)
{
    return kvt_fail(err, KVT_FORMAT, "line %lld: %s: expected %s, got '%.60s'",
                    (long long)row->line, column_names[i], expected, got);
}

/* A whole number of at least `least`; `def` where the field is empty. */
static kvt_code whole(int64_t *out, const reader *r, const csv_row *row, column_id i,
                      int64_t least, int64_t def, kvt_err *err)
{
    const char *text = field(r, row, i);
    char expected[64];
    kvt_err ignored;
    *out = def;
    if (!*text && def >= least)
        return KVT_OK;
    snprintf(expected, sizeof expected, "a whole number of at least %lld", (long long)least);
    if (int_parse(out, text, &ignored) || *out < least)
        return bad(row, i, expected, text, err);
    return KVT_OK;
}

static kvt_code bits(double *out, const reader *r, const csv_row *row, column_id i,
                     const char *expected, bool (*good)(double), double def, kvt_err *err)
{
    const char *text = field(r, row, i);
    kvt_err ignored;
    *out = def;
    if (!*text)
        return KVT_OK;
    if (real_parse(out, text, &ignored) || !good(*out))
        return bad(row, i, expected, text, err);
    return KVT_OK;
}

static bool good_kv(double x)
{
    return x == 16 || x == 8 || x == 4;
}

static bool good_weight(double x)
{
    return x >= 1 && x <= 32;
}

static kvt_code seconds(double *out, const reader *r, const csv_row *row, kvt_err *err)
{
    const char *text = field(r, row, COL_seconds);
    kvt_err ignored;
    if (real_parse(out, text, &ignored) || !isfinite(*out) || *out <= 0)
        return bad(row, COL_seconds, "seconds above 0", text, err);
    return KVT_OK;
}

static kvt_code copy_name(char *out, size_t cap, const csv_row *row, column_id i,
                          const char *text, kvt_err *err)
{
    if (strlen(text) >= cap)
        return bad(row, i, "at most 63 bytes", text, err);
    snprintf(out, cap, "%s", text);
    return KVT_OK;
}

/* ---- the file ------------------------------------------------------------------------------
 */

static kvt_code read_point(reader *r, const csv_row *row, kvt_cost_point *p,
                           cal_quantity *quantity, kvt_err *err)
{
    char near[80], expected[128];
    const char *what = field(r, row, COL_quantity);
    int q = find_name(what, quantity_names);
    *p = (kvt_cost_point){.line = row->line,
                          .predicted_s = (double)NAN,
                          .residual_frac = (double)NAN,
                          .left_out_frac = (double)NAN};
    if (q == NOT_THERE) {
        snprintf(expected, sizeof expected, "prefill, decode or evict%s",
                 hint(near, what, quantity_names));
        return bad(row, COL_quantity, expected, what, err);
    }
    *quantity = (cal_quantity)q;
    snprintf(p->quantity, sizeof p->quantity, "%s", quantity_names[q]);
    if (copy_name(p->geometry, sizeof p->geometry, row, COL_geometry,
                  field(r, row, COL_geometry), err) ||
        copy_name(p->policy, sizeof p->policy, row, COL_policy, field(r, row, COL_policy),
                  err) ||
        whole(&p->prompt_tokens, r, row, COL_prompt_tokens, 1, 0, err) ||
        whole(&p->batch, r, row, COL_batch, 1, 1, err) ||
        whole(&p->rows, r, row, COL_rows, 0, 0, err) ||
        bits(&p->kv_bits, r, row, COL_kv_bits, "16, 8 or 4", good_kv, 16, err) ||
        bits(&p->weight_bits, r, row, COL_weight_bits, "1 to 32", good_weight, 0, err) ||
        seconds(&p->measured_s, r, row, err))
        return err->code;
    return KVT_OK;
}

static kvt_code each(void *user, const csv_row *row, kvt_err *err)
{
    reader *r = user;
    kvt_cost_point p;
    cal_quantity q = CAL_PREFILL;
    for (int f = 0; f < row->n_field; f++)
        if (strlen(row->field[f]) != row->size[f])
            return kvt_fail(err, KVT_FORMAT, "line %lld: a zero byte in field %d",
                            (long long)row->line, f + 1);
    if (!r->begun)
        return read_header(r, row, err);
    return read_point(r, row, &p, &q, err) ? err->code : cal_add(r->c, &p, q, err);
}

kvt_code cal_read(cal *c, kvt_err *err)
{
    reader r = {.c = c};
    if (csv_read_file(c->path, each, &r, err))
        return err->code;
    if (!r.begun)
        return kvt_fail(err, KVT_FORMAT,
                        "'%s': empty; expected the header quantity,geometry,prompt_tokens,"
                        "seconds",
                        c->path);
    if (c->out->n_point == 0)
        return kvt_fail(err, KVT_FORMAT, "'%s': a header and no points", c->path);
    return KVT_OK;
}
