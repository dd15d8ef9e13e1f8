/* choose.c - policy and budget: what has a result is shown, what has none is asked for. */
#include "tui/choose.h"

#include <stdio.h>
#include <string.h>

void choose_say(tui_model *m)
{
    const tui_data *d = m->data;
    int cell;
    const char *policy = d->policy[m->policy].label, *budget = d->budget[m->budget].text;
    if (!d->n_policy) {
        tui_say(m, "no results for this trace; R computes some");
        return;
    }
    if (m->r) {
        tui_say(m, "%s at %s", policy, budget);
        return;
    }
    const kvt_result *r = tui_data_cell(d, m->policy, m->budget, &cell);
    if (r && strcmp(r->cell[cell].status, "ok") != 0)
        tui_say(m, "%s at %s was %s: %.300s", policy, budget, r->cell[cell].status,
                r->cell[cell].error);
    else
        tui_say(m, "%s at %s has no result; R computes it, y shows the command", policy,
                budget);
}

static void select_pair(tui_model *m, int policy, int budget)
{
    kvt_err err = {0};
    m->policy = policy;
    m->budget = budget;
    tui_start s = {.policy = m->data->policy[policy].label,
                   .budget = m->data->budget[budget].text};
    if (tui_model_data(m, m->data, &s, false, &err))
        tui_say(m, "%s", err.text);
    else
        choose_say(m);
}

void choose_policy_by(tui_model *m, int by)
{
    int n = m->data->n_policy;
    if (n < 2)
        tui_say(m,
                n ? "%s is the only policy with a result; :policy NAME names another"
                  : "no results; :policy NAME and R compute one%s",
                n ? m->data->policy[0].label : "");
    else
        select_pair(m, (m->policy + by + n) % n, m->budget);
}

void choose_budget_by(tui_model *m, int by)
{
    int n = m->data->n_budget, to = m->budget + by;
    if (n < 2)
        tui_say(m,
                n ? "%s is the only budget with a result; :budget X names another"
                  : "no results; :budget X and R compute one%s",
                n ? m->data->budget[0].text : "");
    else if (to < 0 || to >= n)
        tui_say(m, "%s is the %s budget with a result; :budget X names another",
                m->data->budget[m->budget].text, to < 0 ? "smallest" : "largest");
    else
        select_pair(m, m->policy, to);
}

void choose_policy(tui_model *m, const char *name)
{
    int at = tui_data_find_policy(m->data, name);
    if (at >= 0) {
        select_pair(m, at, m->budget);
        return;
    }
    snprintf(m->asked_policy, sizeof m->asked_policy, "%s", name);
    tui_say(m, "%.100s has no result for this trace; R computes it", name);
}

void choose_budget(tui_model *m, const char *text)
{
    int at = tui_data_find_budget(m->data, text);
    if (at >= 0) {
        select_pair(m, m->policy, at);
        return;
    }
    snprintf(m->asked_budget, sizeof m->asked_budget, "%.31s", text);
    tui_say(m, "budget %.31s has no result for this trace; R computes it", text);
}

void choose_run(tui_model *m)
{
    const tui_data *d = m->data;
    bool asked = m->asked_policy[0] || m->asked_budget[0];
    if (m->r && !asked) {
        tui_say(m, "%s at %s is computed; name another with :policy NAME or :budget X",
                d->policy[m->policy].label, d->budget[m->budget].text);
        return;
    }
    if (!m->asked_policy[0] && d->n_policy)
        snprintf(m->asked_policy, sizeof m->asked_policy, "%.511s",
                 d->policy[m->policy].of->policy_text);
    if (!m->asked_budget[0] && d->n_budget)
        snprintf(m->asked_budget, sizeof m->asked_budget, "%s", d->budget[m->budget].text);
    m->want = TUI_WANT_RUN;
    tui_say(m, "replaying %.100s at %s", m->asked_policy, m->asked_budget);
}
