/* data.c - the index over results: policies, budgets, cells. */
#include "tui/data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "kvt/analyze.h"
#include "kvt/arena.h"

void tui_data_fini(tui_data *d)
{
    kvt_free(d->text);
    kvt_free(d->offset);
    kvt_free(d->id);
    kvt_results_free(d->results);
    *d = (tui_data){0};
}

/* ---- the index --------------------------------------------------------------------------- */

static bool same_policy(const tui_policy *p, const kvt_result *r)
{
    return strcmp(p->of->policy_text, r->policy_text) == 0 && p->seed == r->cell[0].seed &&
           strcmp(p->of->cell[0].act, r->cell[0].act) == 0;
}

/* Controls come last; within both, the order of the results (by policy text). */
static bool comes_before(const kvt_result *a, const kvt_result *b)
{
    if (a->is_control != b->is_control)
        return b->is_control;
    int c = strcmp(a->policy_text, b->policy_text);
    return c != 0 ? c < 0 : a->cell[0].seed < b->cell[0].seed;
}

static void add_policy(tui_data *d, const kvt_result *r)
{
    int at = 0;
    for (int i = 0; i < d->n_policy; i++) {
        if (same_policy(&d->policy[i], r))
            return;
        at += !comes_before(r, d->policy[i].of);
    }
    if (d->n_policy == TUI_CHOICES_MAX)
        return;
    memmove(&d->policy[at + 1], &d->policy[at], (size_t)(d->n_policy - at) * sizeof *d->policy);
    d->n_policy++;
    d->policy[at] = (tui_policy){.of = r, .seed = r->cell[0].seed};
    snprintf(d->policy[at].exactness, sizeof d->policy[at].exactness, "%s",
             r->cell[0].exactness);
}

static void add_budget(tui_data *d, const kvt_cell *c)
{
    int at = 0;
    for (int i = 0; i < d->n_budget; i++) {
        if (strcmp(d->budget[i].text, c->budget_asked) == 0)
            return;
        at += d->budget[i].tokens <= c->budget_tokens;
    }
    if (d->n_budget == TUI_CHOICES_MAX)
        return;
    memmove(&d->budget[at + 1], &d->budget[at], (size_t)(d->n_budget - at) * sizeof *d->budget);
    d->n_budget++;
    d->budget[at] = (tui_budget){.tokens = c->budget_tokens, .frac = c->budget_frac};
    snprintf(d->budget[at].text, sizeof d->budget[at].text, "%s", c->budget_asked);
}

/* As in the tables: settings that are typed belong to the name; seeds of random need names of
 * their own. */
static void label(tui_data *d, int i, const kvt_labels *labels)
{
    tui_policy *p = &d->policy[i];
    const char *name = p->of->cell[0].policy;
    bool seeds = false;
    for (int k = 0; k < d->n_policy; k++) {
        const tui_policy *o = &d->policy[k];
        if (k == i || strcmp(o->of->cell[0].policy, name) != 0)
            continue;
        seeds |= strcmp(o->of->policy_text, p->of->policy_text) == 0;
    }
    const char *base = labels ? kvt_label(labels, name, p->of->cell[0].policy_params) : name;
    if (seeds && p->seed != KVT_EMPTY_INT)
        snprintf(p->label, sizeof p->label, "%.70s#%lld", base, (long long)p->seed);
    else if (seeds)
        snprintf(p->label, sizeof p->label, "%.70s (%.16s)", base, p->of->cell[0].act);
    else
        snprintf(p->label, sizeof p->label, "%.95s", base);
}

void tui_data_index(tui_data *d)
{
    d->n_policy = d->n_budget = 0;
    for (int64_t i = 0; d->results && i < d->results->n; i++) {
        const kvt_result *r = d->results->result[i];
        if (r->n_cell < 1 || strcmp(r->trace_digest, d->digest) != 0)
            continue;
        add_policy(d, r);
        for (int c = 0; c < r->n_cell; c++)
            add_budget(d, &r->cell[c]);
    }
    kvt_labels *labels = NULL;
    kvt_err err; /* without memory for names they are the plain ones */
    kvt_code named = d->results ? kvt_labels_new(&labels, d->results, &err) : KVT_OK;
    for (int i = 0; i < d->n_policy; i++)
        label(d, i, named == KVT_OK ? labels : NULL);
    kvt_labels_free(labels);
}

/* ---- looking up -------------------------------------------------------------------------- */

bool tui_data_shows(const kvt_result *r, int cell)
{
    return r && cell >= 0 && strcmp(r->cell[cell].status, "ok") == 0 &&
           (r->evict_step || (r->rank && r->cut));
}

/* A later pass wins over an older one, and one that can be shown over one that cannot. */
const kvt_result *tui_data_cell(const tui_data *d, int policy, int budget, int *cell)
{
    const kvt_result *found = NULL;
    *cell = -1;
    if (policy < 0 || policy >= d->n_policy || budget < 0 || budget >= d->n_budget)
        return NULL;
    for (int64_t i = 0; d->results && i < d->results->n; i++) {
        const kvt_result *r = d->results->result[i];
        if (r->n_cell < 1 || strcmp(r->trace_digest, d->digest) != 0 ||
            !same_policy(&d->policy[policy], r))
            continue;
        for (int c = 0; c < r->n_cell; c++)
            if (strcmp(r->cell[c].budget_asked, d->budget[budget].text) == 0 &&
                (!found || tui_data_shows(r, c) || !tui_data_shows(found, *cell))) {
                found = r;
                *cell = c;
            }
    }
    return found;
}

int tui_data_find_policy(const tui_data *d, const char *name)
{
    for (int i = 0; i < d->n_policy; i++)
        if (strcmp(d->policy[i].label, name) == 0)
            return i;
    for (int i = 0; i < d->n_policy; i++)
        if (strcmp(d->policy[i].of->policy_text, name) == 0 ||
            strcmp(d->policy[i].of->cell[0].policy, name) == 0)
            return i;
    return -1;
}

int tui_data_find_budget(const tui_data *d, const char *text)
{
    for (int i = 0; i < d->n_budget; i++)
        if (strcmp(d->budget[i].text, text) == 0)
            return i;
    return -1;
}

const kvt_result *tui_data_oracle(const tui_data *d, const kvt_result *of, int cell,
                                  int *oracle_cell)
{
    const kvt_result *found = NULL;
    *oracle_cell = -1;
    for (int64_t i = 0; of && d->results && i < d->results->n; i++) {
        const kvt_result *r = d->results->result[i];
        if (!kvt_result_is_oracle(r) || strcmp(r->trace_digest, d->digest) != 0 ||
            r->n_layer != of->n_layer || r->n_lane != of->n_lane ||
            memcmp(r->layer_id, of->layer_id, (size_t)r->n_layer * sizeof *r->layer_id) != 0)
            continue;
        for (int c = 0; c < r->n_cell; c++)
            if (strcmp(r->cell[c].budget_asked, of->cell[cell].budget_asked) == 0 &&
                tui_data_shows(r, c)) {
                found = r;
                *oracle_cell = c;
            }
    }
    return found;
}

kvt_effect tui_data_effect(const kvt_result *r)
{
    const kvt_policy *p = r->n_cell > 0 ? kvt_policy_find(r->cell[0].policy) : NULL;
    return p ? p->traits.effect : KVT_EVICT;
}

const char *tui_data_lost_to(const kvt_result *r)
{
    return tui_data_effect(r) == KVT_SKIP ? "tokens it did not read" : "evicted tokens";
}

const kvt_lane_row *tui_data_lane(const kvt_result *r, int cell, int layer, int lane)
{
    return &r->lane[((int64_t)cell * r->n_layer + layer) * r->n_lane + lane];
}

const char *tui_data_token(const tui_data *d, int64_t token, char *out, size_t cap, int columns,
                           bool ascii)
{
    int64_t begin = d->offset[token], end = d->offset[token + 1];
    if (d->no_text) {
        snprintf(out, cap, "#%d", (int)d->id[token]);
        return out;
    }
    return text_safe_cut(out, cap, d->text + begin, (size_t)(end - begin), columns, ascii);
}
