/* update.c - what each command does, on every screen the same. What moves a cursor is the
 * business of the screens. A command that cannot act says why. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tui/choose.h"
#include "tui/find.h"
#include "tui/model.h"

static const tui_screen screens[TUI_SCREENS] = {
#define SCREEN(id, key, letter, name, title) \
    {key, letter, name, title, screen_##id##_act, screen_##id##_draw},
#include "tui/screens/screens.def"
#undef SCREEN
};

const tui_screen *tui_screen_of(tui_where where)
{
    return &screens[where];
}

/* ---- lane, step, token ------------------------------------------------------------------- */

static void say_lane(tui_model *m)
{
    char name[32];
    tui_lane_name(m, m->layer, m->lane, name, sizeof name);
    double lost = tui_lane_value(m->r, m->cell, m->layer, m->lane, TUI_LOST);
    double regret = tui_lane_value(m->r, m->cell, m->layer, m->lane, TUI_REGRET);
    if (regret == regret)
        tui_say(m, "%s: lost mass %.3f, regret %.3f", name, lost, regret);
    else
        tui_say(m, "%s: lost mass %.3f", name, lost);
}

static void move_lane(tui_model *m, int layers, int lanes)
{
    int layer = m->layer + layers, lane = m->lane + lanes;
    char what[64];
    snprintf(what, sizeof what,
             layers                ? "layer"
             : m->r->by_query_head ? "query head"
                                   : "kv head");
    if (layer < 0 || lane < 0)
        tui_say(m, "this is the first %s", what);
    else if (layer >= m->r->n_layer || lane >= m->r->n_lane)
        tui_say(m, "this is the last %s", what);
    else {
        tui_select_lane(m, layer, lane);
        say_lane(m);
    }
}

static void next_lane(tui_model *m)
{
    int at = 0, a = m->layer * m->r->n_lane + m->lane;
    while (at < m->n_order && m->order[at] != a)
        at++;
    at = at + 1 < m->n_order ? at + 1 : 0;
    tui_select_lane(m, m->order[at] / m->r->n_lane, m->order[at] % m->r->n_lane);
    say_lane(m);
    size_t used = strlen(m->message);
    snprintf(m->message + used, sizeof m->message - used, " (%d of %d by %s)", at + 1,
             m->n_order, m->by_loss ? "loss" : "regret");
}

static void say_step(tui_model *m)
{
    int64_t n = m->data->n_response;
    if (m->view.lost)
        tui_say(m, "step %lld of %lld: %.2f of its attention went to %s", (long long)m->step,
                (long long)n, (double)m->view.lost[m->step], tui_data_lost_to(m->view.r));
    else
        tui_say(m, "step %lld of %lld", (long long)m->step, (long long)n);
}

static void move_step(tui_model *m, int64_t by)
{
    int64_t n = m->data->n_response, to = m->step + by;
    if (n == 0)
        tui_say(m, "this trace has no response, so it has no steps");
    else if ((by < 0 && m->step == 0) || (by > 0 && m->step == n - 1))
        tui_say(m, "this is the %s step", by < 0 ? "first" : "last");
    else {
        tui_select_step(m, to);
        say_step(m);
    }
}

static void walk_worst(tui_model *m, int by)
{
    int64_t n = m->data->n_response, at = 0;
    if (!m->view.r || !m->view.lost || n == 0) {
        tui_say(m, "loss by step is not known here");
        return;
    }
    while (at < n && m->view.worst[at] != m->step)
        at++;
    at += by;
    if (at < 0 || at >= n) {
        tui_say(m, at < 0 ? "this is the worst step" : "this is the step that lost least");
        return;
    }
    tui_select_step(m, m->view.worst[at]);
    say_step(m);
    size_t used = strlen(m->message);
    snprintf(m->message + used, sizeof m->message - used, " (%lld of %lld by loss)",
             (long long)at + 1, (long long)n);
}

static void next_regret(tui_model *m, int dir)
{
    if (m->n_match) {
        tui_find_next(m, dir);
        return;
    }
    if (!m->view.r || !m->view.sum.regretted) {
        tui_say(m, m->view.r && !m->view.oracle
                       ? "no oracle for this cell: nothing is regretted"
                       : "no token of this lane is regretted");
        return;
    }
    int64_t to = lane_view_next_regret(&m->view, m->token, dir), above = 0;
    if (to < 0) {
        tui_say(m, "no regretted token %s here", dir > 0 ? "behind" : "in front of");
        return;
    }
    tui_select_token(m, to);
    for (int64_t t = 0; t <= to; t++)
        above += m->view.regretted[t];
    tui_say(m, "regretted token %lld of %lld, at %lld", (long long)above,
            (long long)m->view.sum.regretted, (long long)to);
}

static void to_step(tui_model *m, int64_t step)
{
    if (step >= m->data->n_response)
        tui_say(m, "steps end at %lld", (long long)m->data->n_response - 1);
    else {
        tui_select_step(m, step);
        say_step(m);
    }
}

static void to_token(tui_model *m, int64_t token)
{
    if (token >= m->data->n_token)
        tui_say(m, "tokens end at %lld", (long long)m->data->n_token - 1);
    else {
        tui_select_token(m, token);
        tui_say(m, "token %lld", (long long)token);
    }
}

static void to_lane(tui_model *m, const tui_command *c)
{
    for (int l = 0; l < m->r->n_layer; l++)
        if (m->r->layer_id[l] == c->n && c->n2 >= 0 && c->n2 < m->r->n_lane) {
            tui_select_lane(m, l, (int)c->n2);
            say_lane(m);
            return;
        }
    tui_say(m, "no lane L%lld G%lld: layers %d to %d, heads 0 to %d", (long long)c->n,
            (long long)c->n2, (int)m->r->layer_id[0], (int)m->r->layer_id[m->r->n_layer - 1],
            m->r->n_lane - 1);
}

/* ---- looks ------------------------------------------------------------------------------- */

static void set_metric(tui_model *m, const char *name)
{
    static const char *const names[TUI_METRICS] = {"lost", "regret", "kl"};
    int to = name ? -1 : (int)(m->metric + 1) % TUI_METRICS;
    for (int i = 0; name && i < TUI_METRICS; i++)
        if (strcmp(names[i], name) == 0)
            to = i;
    if (name && to < 0) {
        tui_say(m, "no metric '%.40s'; they are lost, regret, kl", name);
        return;
    }
    static const char *const means[TUI_METRICS] = {
        "share of attention that falls on evicted tokens",
        "lost mass minus that of the oracle with as many slots",
        "-ln of the kept share, in nats, mean over steps"};
    m->metric = (tui_metric)to;
    tui_say(m, "%s: %s", tui_metric_name(m->metric), means[to]);
}

static void turn_minus(tui_model *m)
{
    int cell;
    if (!m->minus && !(m->r && tui_data_oracle(m->data, m->r, m->cell, &cell))) {
        tui_say(m, "no result of the oracle at this budget");
        return;
    }
    m->minus = !m->minus;
    tui_say(m, m->minus ? "minus the oracle at the same budget; d shows the whole again"
                        : "not minus the oracle");
}

static void turn_markers(tui_model *m)
{
    if (m->markers && !m->colour) {
        tui_say(m, "without colours the marker line stays: nothing else shows states");
        return;
    }
    m->markers = !m->markers;
    tui_select_token(m, m->token);
    tui_say(m, m->markers ? "marker line on" : "marker line off; colours show the states");
}

static void toggle_help(tui_model *m)
{
    if (tui_at(m) == TUI_ON_help) {
        m->depth--;
    } else {
        m->help_top = 0;
        tui_go(m, TUI_ON_help);
    }
}

static void leave(tui_model *m, bool quits)
{
    if (m->card) {
        m->card = false;
    } else if (m->search[0] && !quits) {
        tui_find_end(m);
        tui_say(m, "search ended");
    } else if (m->depth > 1) {
        m->depth--;
    } else if (quits) {
        m->want = TUI_WANT_QUIT;
    } else {
        tui_say(m, "this is the first screen; q quits");
    }
}

static void go_to(tui_model *m, tui_where where)
{
    if (where == TUI_ON_traces && m->n_file < 2)
        tui_say(m, "one trace is open; give several to kvt tui for a list");
    else if (where == tui_at(m))
        tui_say(m, "this is %s", tui_screen_of(where)->title);
    else {
        if (where == TUI_ON_lane && tui_at(m) == TUI_ON_traces)
            tui_go(m, TUI_ON_overview);
        tui_go(m, where);
    }
}

/* ---- dispatch ---------------------------------------------------------------------------- */

/* Commands that need nothing of a trace. True: done. */
static bool update_any(tui_model *m, const tui_command *c)
{
    switch (c->what) {
    case TUI_QUIT: m->want = TUI_WANT_QUIT; return true;
    case TUI_BACK: leave(m, true); return true;
    case TUI_ESC: leave(m, false); return true;
    case TUI_HELP: toggle_help(m); return true;
    case TUI_REDRAW: tui_say(m, "drawn again"); return true;
    case TUI_RESIZE: tui_resize(m, (int)c->n, (int)c->n2); return true;
    case TUI_NOTHING: return true;
    case TUI_COMMAND:
        m->input_kind = ':';
        m->input[0] = 0;
        return true;
    case TUI_SHOW: tui_show_command(m, m->message, sizeof m->message); return true;
    case TUI_TRACES: go_to(m, TUI_ON_traces); return true;
    case TUI_WHITE:
        m->white = !m->white;
        tui_say(m, m->white ? "spaces are visible" : "spaces are blank");
        return true;
    case TUI_MARKERS: turn_markers(m); return true;
    case TUI_METRIC: set_metric(m, NULL); return true;
    case TUI_TO_METRIC: set_metric(m, c->text); return true;
    default: return false;
    }
}

/* Commands that need a trace. */
static bool update_trace(tui_model *m, const tui_command *c)
{
    switch (c->what) {
    case TUI_OVERVIEW: go_to(m, TUI_ON_overview); return true;
    case TUI_LANE: go_to(m, TUI_ON_lane); return true;
    case TUI_POLICY_ON: choose_policy_by(m, 1); return true;
    case TUI_POLICY_BACK: choose_policy_by(m, -1); return true;
    case TUI_BUDGET_ON: choose_budget_by(m, 1); return true;
    case TUI_BUDGET_BACK: choose_budget_by(m, -1); return true;
    case TUI_TO_POLICY: choose_policy(m, c->text); return true;
    case TUI_TO_BUDGET: choose_budget(m, c->text); return true;
    case TUI_RUN: choose_run(m); return true;
    case TUI_STEP_BACK: move_step(m, -1); return true;
    case TUI_STEP_ON: move_step(m, 1); return true;
    case TUI_STEPS_BACK: move_step(m, -16); return true;
    case TUI_STEPS_ON: move_step(m, 16); return true;
    case TUI_TO_STEP: to_step(m, c->n); return true;
    case TUI_TO_TOKEN: to_token(m, c->n); return true;
    case TUI_FIND_TEXT: tui_find(m, c->text); return true;
    case TUI_FIND:
        m->input_kind = '/';
        m->input[0] = 0;
        return true;
    default: return false;
    }
}

/* Commands that need a result. */
static void update_lane(tui_model *m, const tui_command *c)
{
    switch (c->what) {
    case TUI_LAYER_ON: move_lane(m, 1, 0); break;
    case TUI_LAYER_BACK: move_lane(m, -1, 0); break;
    case TUI_HEAD_ON: move_lane(m, 0, 1); break;
    case TUI_HEAD_BACK: move_lane(m, 0, -1); break;
    case TUI_LANE_ON: next_lane(m); break;
    case TUI_TO_LANE: to_lane(m, c); break;
    case TUI_WORST_ON: walk_worst(m, 1); break;
    case TUI_WORST_BACK: walk_worst(m, -1); break;
    case TUI_NEXT: next_regret(m, 1); break;
    case TUI_PREVIOUS: next_regret(m, -1); break;
    case TUI_MINUS: turn_minus(m); break;
    default: tui_say(m, "nothing to do here"); break;
    }
}

static void write_log(tui_model *m, const tui_command *c)
{
    char text[TUI_TEXT_MAX + 16];
    if (c->what == TUI_COMMAND || c->what == TUI_FIND || c->what == TUI_NOTHING)
        return; /* they open a line; what is typed there is the command */
    tui_command_print(c, text, sizeof text);
    buf_printf(&m->log, "%s\n", text);
}

void tui_update(tui_model *m, const tui_command *c)
{
    m->message[0] = 0;
    write_log(m, c);
    bool always = c->what == TUI_RESIZE || c->what == TUI_QUIT || c->what == TUI_BACK;
    if (!tui_fits(m) && !always) {
        tui_say(m, "the window is too small");
        return;
    }
    if (tui_screen_of(tui_at(m))->act(m, c) || update_any(m, c))
        return;
    if (tui_at(m) == TUI_ON_help)
        tui_say(m, "this is the help; Esc goes back to where the key works");
    else if (!m->data)
        tui_say(m, "no trace is open; Enter opens the selected one");
    else if (tui_at(m) == TUI_ON_traces && c->what != TUI_OVERVIEW && c->what != TUI_LANE)
        tui_say(m, "this is the list of traces; Enter opens the selected one");
    else if (!update_trace(m, c)) {
        if (m->r)
            update_lane(m, c);
        else
            choose_say(m);
    }
}

/* ---- keys -------------------------------------------------------------------------------- */

static void run_input(tui_model *m)
{
    tui_command c = {.what = TUI_FIND_TEXT};
    kvt_err err = {0};
    char kind = m->input_kind;
    m->input_kind = 0;
    m->message[0] = 0;
    if (kind == '/')
        snprintf(c.text, sizeof c.text, "%s", m->input);
    else if (tui_command_parse(&c, m->input, &err)) {
        tui_say(m, "%s", err.text);
        return;
    }
    tui_update(m, &c);
}

static void edit(tui_model *m, int key)
{
    size_t n = strlen(m->input);
    char bytes[4];
    m->message[0] = 0;
    if (key == TUI_KEY_ENTER) {
        run_input(m);
    } else if (key == TUI_KEY_ESC) {
        m->input_kind = 0;
        tui_say(m, "nothing was done");
    } else if (key == TUI_KEY_BACKSPACE) {
        while (n > 0 && ((uint8_t)m->input[n - 1] & 0xc0) == 0x80)
            n--;
        if (n == 0)
            m->input_kind = 0;
        m->input[n > 0 ? n - 1 : 0] = 0;
    } else if (key == ('U' & 0x1f)) {
        m->input[0] = 0;
    } else if (key >= 0x20 && key < 0x110000 && key != 0x7f) {
        int len = text_encode(bytes, (uint32_t)key);
        if (n + (size_t)len < sizeof m->input) {
            memcpy(m->input + n, bytes, (size_t)len);
            m->input[n + (size_t)len] = 0;
        }
    }
}

void tui_key_pressed(tui_model *m, int key)
{
    tui_command c = {.what = tui_key_command(key)};
    if (m->input_kind && tui_fits(m)) {
        edit(m, key);
        return;
    }
    if (c.what == TUI_NOTHING) {
        m->message[0] = 0;
        if (key >= 0x20)
            tui_say(m, "this key does nothing; ? lists those that do");
        return;
    }
    tui_update(m, &c);
}
