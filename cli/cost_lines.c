/* cost_lines.c - see cost_lines.h. */
#include "cli/cost_lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

/* ---- finding ------------------------------------------------------------------------------
 */

/* Traces of different lengths stand together, unless each of them was priced at several: rows
 * of a trace stand side by side. */
static bool is_by_length(const kvt_cost_table *t)
{
    for (int64_t i = 0; i < t->n; i++)
        if (!t->row[i].trace_id[0] ||
            (i > 0 && strcmp(t->row[i - 1].trace_id, t->row[i].trace_id) == 0 &&
             t->row[i - 1].prompt_tokens != t->row[i].prompt_tokens))
            return true;
    return false;
}

static bool in_block(const cost_block *b, const kvt_cost_row *r)
{
    return strcmp(b->row->machine, r->machine) == 0 &&
           strcmp(b->row->geometry, r->geometry) == 0 && b->row->batch == r->batch &&
           (!b->by_length || b->row->prompt_tokens == r->prompt_tokens);
}

static bool is_dense(const kvt_cost_row *r)
{
    return strcmp(r->policy, "full") == 0;
}

static bool in_line(const cost_line *l, const kvt_cost_row *r)
{
    if (is_dense(r) || is_dense(l->row))
        return is_dense(r) && is_dense(l->row);
    return strcmp(l->row->policy, r->policy) == 0 &&
           strcmp(l->row->budget_asked, r->budget_asked) == 0 &&
           strcmp(l->row->policy_params, r->policy_params) == 0;
}

static cost_block *find_block(cost_lines *s, const kvt_cost_row *r, bool by_length,
                              kvt_err *err)
{
    for (int64_t i = s->n - 1; i >= 0; i--)
        if (in_block(&s->block[i], r))
            return &s->block[i];
    cost_block *grown = kvt_resize(s->block, s->n, s->n + 1, sizeof *grown);
    if (!grown) {
        kvt_fail_memory(err, sizeof *grown);
        return NULL;
    }
    s->block = grown;
    const kvt_band unknown = {NAN, NAN};
    grown[s->n] = (cost_block){.row = r,
                               .least_prompt = r->prompt_tokens,
                               .most_prompt = r->prompt_tokens,
                               .by_length = by_length,
                               .ttft = unknown,
                               .evict = unknown,
                               .tpot = unknown,
                               .memory = unknown};
    return &grown[s->n++];
}

/* The line of a row. Most rows follow one of their own line, so that the search is short. */
static cost_line *find_line(cost_block *b, const kvt_cost_row *r, kvt_err *err)
{
    for (int64_t i = b->n - 1; i >= 0; i--)
        if (in_line(&b->line[i], r))
            return &b->line[i];
    cost_line *grown = kvt_resize(b->line, b->n, b->n + 1, sizeof *grown);
    if (!grown) {
        kvt_fail_memory(err, sizeof *grown);
        return NULL;
    }
    b->line = grown;
    grown[b->n] = (cost_line){.row = r};
    return &grown[b->n++];
}

/* ---- adding --------------------------------------------------------------------------------
 */

static unsigned marks_of(const kvt_cost_row *r)
{
    return (unsigned)(r->assumed != 0) << COST_AT_ASSUMED |
           (unsigned)(r->mapped != 0) << COST_AT_MAPPED |
           (unsigned)(r->scaled != 0) << COST_AT_SCALED |
           (unsigned)(r->is_default != 0) << COST_AT_DEFAULT |
           (unsigned)(r->is_bound != 0) << COST_AT_LIMIT |
           (unsigned)(r->cache_resident != 0) << COST_AT_CACHED |
           (unsigned)(r->out_of_range != 0) << COST_AT_RANGE;
}

/* Sums while rows come, means at the end. */
static void add_eviction(cost_line *l, const kvt_cost_row *r, int profile)
{
    l->evict_of[profile] += r->cost.evict.total;
    l->frac_of[profile] += r->cost.evict_frac;
    l->draft_of[profile] = r->draft_tokens;
    l->n_of[profile]++;
}

static void widen(kvt_band *b, const kvt_band *with)
{
    b->lo = fmax(b->lo, with->lo);
    b->hi = fmax(b->hi, with->hi);
}

/* Slots of a lane: what is left of the prompt; where nothing was dropped there (rows skip
 * slots, or a policy acts while decoding), what rows read in the end. */
static double slots_of(const kvt_cost_row *r)
{
    bool whole = r->kept_tokens_mean >= (double)r->prompt_tokens;
    return whole ? fmin(r->kept_tokens_mean, r->end_slots_mean_tokens) : r->kept_tokens_mean;
}

static void add_shown(cost_block *b, cost_line *l, const kvt_cost_row *r)
{
    const kvt_cost *c = &r->cost;
    if (!l->worst || c->peak.total > l->worst->cost.peak.total)
        l->worst = r;
    if (l->n == 0)
        l->row = r;
    l->n++;
    l->slots += slots_of(r);
    l->ttft += c->ttft;
    l->tpot += c->step_mean.total;
    l->evict += c->evict.total;
    widen(&b->ttft, &c->ttft_band);
    widen(&b->tpot, &c->step_band);
    widen(&b->memory, &c->memory_band);
    if (c->evict.total > 0)
        widen(&b->evict, &c->evict_band);
}

static kvt_code add(cost_lines *s, const kvt_cost_row *r, const char *profile, bool by_length,
                    kvt_err *err)
{
    cost_block *b = find_block(s, r, by_length, err);
    cost_line *l = b ? find_line(b, r, err) : NULL;
    if (!l)
        return err->code;
    b->least_prompt = r->prompt_tokens < b->least_prompt ? r->prompt_tokens : b->least_prompt;
    b->most_prompt = r->prompt_tokens > b->most_prompt ? r->prompt_tokens : b->most_prompt;
    l->marks |= marks_of(r);
    if (strcmp(r->profile, kvt_cost_profile_name(KVT_PROFILE_FUSED)) == 0)
        add_eviction(l, r, 0);
    if (strcmp(r->profile, kvt_cost_profile_name(KVT_PROFILE_AS_PUBLISHED)) == 0)
        add_eviction(l, r, 1);
    if (strcmp(r->profile, profile) != 0)
        return KVT_OK;
    /* The dense cache of a trace that was replayed stands for it once more at each budget. */
    b->n_trace += is_dense(r) && !r->run_id[0];
    add_shown(b, l, r);
    return KVT_OK;
}

static void take_means(cost_line *l)
{
    double n = (double)l->n;
    l->slots /= n;
    l->ttft /= n;
    l->tpot /= n;
    l->evict /= n;
    for (int p = 0; p < 2; p++) {
        l->evict_of[p] /= (double)l->n_of[p];
        l->frac_of[p] /= (double)l->n_of[p];
    }
}

kvt_code cost_lines_make(cost_lines *out, const kvt_cost_table *t, const char *profile,
                         kvt_err *err)
{
    bool by_length = is_by_length(t);
    *out = (cost_lines){0};
    for (int64_t i = 0; i < t->n; i++)
        if (strcmp(t->row[i].status, "ok") == 0 &&
            add(out, &t->row[i], profile, by_length, err)) {
            cost_lines_free(out);
            return err->code;
        }
    for (int64_t i = 0; i < out->n; i++)
        for (int64_t k = 0; k < out->block[i].n; k++)
            take_means(&out->block[i].line[k]);
    return KVT_OK;
}

void cost_lines_free(cost_lines *s)
{
    for (int64_t i = 0; i < s->n; i++)
        kvt_free(s->block[i].line);
    kvt_free(s->block);
    *s = (cost_lines){0};
}

/* ---- names ---------------------------------------------------------------------------------
 */

/* Whether the list "a=1,b=2" holds that piece. */
static bool holds(const char *list, const char *piece, size_t n)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        if (len == n && strncmp(list, piece, n) == 0)
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

const char *cost_label(char *out, size_t cap, const cost_block *b, const kvt_cost_row *r)
{
    const char *other = NULL;
    for (int64_t i = 0; i < b->n && !other; i++)
        if (strcmp(b->line[i].row->policy, r->policy) == 0 &&
            strcmp(b->line[i].row->policy_params, r->policy_params) != 0)
            other = b->line[i].row->policy_params;
    snprintf(out, cap, "%s", r->policy);
    for (const char *at = r->policy_params; other && *at;) {
        size_t len = strcspn(at, ","), n = strlen(out);
        if (!holds(other, at, len))
            snprintf(out + n, cap - n, "%s%.*s", strchr(out, ':') ? "," : ":", (int)len, at);
        at += len + (at[len] == ',');
    }
    return out;
}
