/* calibrate_point.c - what the names in a measured point stand for. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

static kvt_code find_geometry(int *of, cal *c, const kvt_cost_point *p, kvt_err *err)
{
    for (int64_t i = 0; i < c->out->n_point; i++)
        if (strcmp(c->out->point[i].geometry, p->geometry) == 0) {
            *of = c->of[i];
            return KVT_OK;
        }
    kvt_cost_geometry *grown =
        kvt_resize(c->geometry, c->n_geometry, c->n_geometry + 1, sizeof *grown);
    if (!grown)
        return kvt_fail_memory(err, sizeof *grown);
    c->geometry = grown;
    kvt_err why;
    kvt_code code = kvt_cost_geometry_find(&grown[c->n_geometry], p->geometry, &why);
    if (code)
        return kvt_fail(err, code == KVT_NOMEM ? code : KVT_FORMAT, "line %lld: %.400s",
                        (long long)p->line, why.text);
    *of = c->n_geometry++;
    return KVT_OK;
}

/* Queries that a policy scores with; 0: it scores otherwise. */
static kvt_code policy_rows(int64_t *rows, const kvt_cost_geometry *g, const kvt_cost_point *p,
                            kvt_err *err)
{
    kvt_use *use = NULL;
    kvt_cost_work work;
    kvt_err why;
    kvt_code code = kvt_use_parse(&use, NULL, p->policy, &why);
    if (code)
        return kvt_fail(err, code == KVT_NOMEM ? code : KVT_FORMAT, "line %lld: %.400s",
                        (long long)p->line, why.text);
    int64_t half = p->prompt_tokens > 1 ? p->prompt_tokens / 2 : 1;
    kvt_cost_work_of(&work, use, g, p->prompt_tokens, half, KVT_ACT_OWN);
    kvt_use_free(use);
    if (work.draft != KVT_DRAFT_NONE)
        return kvt_fail(err, KVT_FORMAT,
                        "line %lld: policy %s runs a draft, which is no part of evict_factor",
                        (long long)p->line, p->policy);
    *rows = work.score == KVT_SCORE_ROWS ? work.rows : 0;
    return KVT_OK;
}

/* A machine has one evict_factor: all evictions of a file are one policy's. */
static kvt_code check_evict(int64_t *rows, const cal *c, const kvt_cost_point *p,
                            const kvt_cost_geometry *g, kvt_err *err)
{
    int64_t own = 0;
    for (int64_t i = 0; i < c->out->n_point; i++) {
        const kvt_cost_point *first = &c->out->point[i];
        if (c->quantity[i] == CAL_EVICT && strcmp(first->policy, p->policy) != 0)
            return kvt_fail(err, KVT_FORMAT,
                            "line %lld: expected policy '%s' as in line %lld, got '%s': a "
                            "machine has one evict_factor",
                            (long long)p->line, first->policy, (long long)first->line,
                            p->policy);
    }
    if (p->policy[0] && policy_rows(&own, g, p, err))
        return err->code;
    *rows = p->rows ? p->rows : own;
    if (*rows > 0)
        return KVT_OK;
    return kvt_fail(
        err, KVT_FORMAT, "line %lld: rows: expected the number of scoring queries%s, got none",
        (long long)p->line,
        p->policy[0] ? ", for the policy scores by none of its own" : " or a policy");
}

/* Of a prefill or a decode step nothing is fitted that a policy does. */
static kvt_code check_plain(const kvt_cost_point *p, kvt_err *err)
{
    if (p->policy[0] && strcmp(p->policy, "full") != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "line %lld: policy: expected none, or full, in a %s, got '%s'",
                        (long long)p->line, p->quantity, p->policy);
    if (p->rows)
        return kvt_fail(err, KVT_FORMAT, "line %lld: rows: expected none in a %s, got %lld",
                        (long long)p->line, p->quantity, (long long)p->rows);
    return KVT_OK;
}

/* Products with 4-bit weights have a rate of their own that no constant of a fit stands for. */
static kvt_code check_weights(const cal *c, const kvt_cost_point *p, cal_quantity q,
                              kvt_err *err)
{
    bool own_rate = p->weight_bits > 0 && p->weight_bits < 8 && c->base->peak_flops_w4 > 0;
    if (q != CAL_PREFILL || !own_rate)
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT,
                    "line %lld: weight_bits: expected 8 or more in a prefill, got %g: %s has a "
                    "rate of its own for 4-bit products (peak_flops_w4)",
                    (long long)p->line, p->weight_bits, c->base->name);
}

static kvt_code append(cal *c, const kvt_cost_point *p, cal_quantity q, int of, int64_t rows,
                       kvt_err *err)
{
    int64_t n = c->out->n_point;
    kvt_cost_point *point = kvt_resize(c->out->point, n, n + 1, sizeof *point);
    if (point)
        c->out->point = point;
    int *of_all = kvt_resize(c->of, n, n + 1, sizeof *of_all);
    if (of_all)
        c->of = of_all;
    cal_quantity *quantity = kvt_resize(c->quantity, n, n + 1, sizeof *quantity);
    if (quantity)
        c->quantity = quantity;
    int64_t *rows_all = kvt_resize(c->rows, n, n + 1, sizeof *rows_all);
    if (rows_all)
        c->rows = rows_all;
    if (!point || !of_all || !quantity || !rows_all)
        return kvt_fail_memory(err, (size_t)(n + 1) * sizeof *point);
    point[n] = *p;
    of_all[n] = of;
    quantity[n] = q;
    rows_all[n] = rows;
    c->out->n_point++;
    return KVT_OK;
}

kvt_code cal_add(cal *c, const kvt_cost_point *p, cal_quantity q, kvt_err *err)
{
    int of = 0;
    int64_t rows = 0;
    if (find_geometry(&of, c, p, err) || check_weights(c, p, q, err))
        return err->code;
    if (q == CAL_EVICT ? check_evict(&rows, c, p, &c->geometry[of], err) : check_plain(p, err))
        return err->code;
    return append(c, p, q, of, rows, err);
}

void cal_free(cal *c)
{
    kvt_free(c->geometry);
    kvt_free(c->of);
    kvt_free(c->quantity);
    kvt_free(c->rows);
}
