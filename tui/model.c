/* model.c - the state: opening, selecting, and what follows from a selection. */
#include "tui/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/select.h"
#include "kvt/arena.h"
#include "kvt/metric.h"
#include "tui/layout.h"

/* ---- small things ------------------------------------------------------------------------ */

const char *tui_metric_name(tui_metric metric)
{
    static const char *const names[TUI_METRICS] = {"lost mass", "regret", "attention KL"};
    return names[metric];
}

void tui_say(tui_model *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->message, sizeof m->message, fmt, args);
    va_end(args);
}

tui_where tui_at(const tui_model *m)
{
    return m->stack[m->depth - 1];
}

void tui_go(tui_model *m, tui_where where)
{
    m->card = false;
    for (int i = 0; i < m->depth; i++)
        if (m->stack[i] == where) {
            m->depth = i + 1;
            return;
        }
    if (m->depth == TUI_STACK) /* never: there are no more screens than places */
        m->depth--;
    m->stack[m->depth++] = where;
}

bool tui_fits(const tui_model *m)
{
    return m->width >= TUI_WIDTH_LEAST && m->height >= TUI_HEIGHT_LEAST;
}

void tui_lane_name(const tui_model *m, int layer, int lane, char *out, size_t cap)
{
    if (!m->r)
        snprintf(out, cap, "no lane");
    else
        snprintf(out, cap, "L%02d %c%d", (int)m->r->layer_id[layer],
                 m->r->by_query_head ? 'H' : 'G', lane);
}

/* ---- values ------------------------------------------------------------------------------ */

double tui_lane_value(const kvt_result *r, int cell, int layer, int lane, tui_metric metric)
{
    const kvt_lane_row *row = tui_data_lane(r, cell, layer, lane);
    if (metric == TUI_REGRET)
        return row->regret_mean_frac;
    int at = kvt_metric_value(metric == TUI_KL ? "attn_kl_mean_nats" : "lost_mass_mean_frac");
    return at < 0 ? (double)NAN : row->value[at];
}

double tui_value(const tui_model *m, int layer, int lane)
{
    if (!m->r)
        return (double)NAN;
    double value = tui_lane_value(m->r, m->cell, layer, lane, m->metric);
    if (!m->minus || m->metric == TUI_REGRET)
        return value;
    int cell;
    const kvt_result *oracle = tui_data_oracle(m->data, m->r, m->cell, &cell);
    return oracle ? value - tui_lane_value(oracle, cell, layer, lane, m->metric) : (double)NAN;
}

/* Lanes from the worst on. */
static kvt_code rank_lanes(tui_model *m, kvt_err *err)
{
    const kvt_result *r = m->r;
    m->n_order = 0;
    kvt_free(m->order);
    m->order = NULL;
    if (!r)
        return KVT_OK;
    int n = r->n_layer * r->n_lane;
    kvt_arena *work = kvt_arena_new((size_t)n * 64 + (1 << 20));
    double *value = work ? kvt_arena_array(work, n, sizeof *value) : NULL;
    m->order = kvt_alloc(n, sizeof *m->order);
    bool ok = value && m->order;
    for (int pass = 0; ok && pass < 2; pass++) {
        bool any = false;
        m->by_loss = pass == 1;
        for (int a = 0; a < n; a++) {
            double v = tui_lane_value(r, m->cell, a / r->n_lane, a % r->n_lane,
                                      m->by_loss ? TUI_LOST : TUI_REGRET);
            any = any || v > 0;
            value[a] = isnan(v) ? -1 : v;
        }
        if (any)
            break;
    }
    ok = ok && select_rank_double(m->order, value, n, work);
    m->n_order = ok ? n : 0;
    kvt_arena_free(work);
    return ok ? KVT_OK : kvt_fail_memory(err, (size_t)n * 64);
}

/* ---- selecting --------------------------------------------------------------------------- */

static int64_t clamp(int64_t x, int64_t n)
{
    return x < 0 || n <= 0 ? 0 : x >= n ? n - 1 : x;
}

/* The lane's tables; where they cannot be read, the screens say why. */
static void look(tui_model *m)
{
    kvt_err err = {0};
    if (!m->data)
        return;
    if (lane_view_make(&m->view, m->data, m->r, m->cell, m->layer, m->lane, &err))
        tui_say(m, "%s", err.text);
    lane_view_at(&m->view, m->step);
}

void tui_select_step(tui_model *m, int64_t step)
{
    m->step = clamp(step, m->data ? m->data->n_response : 0);
    lane_view_at(&m->view, m->step);
}

void tui_select_lane(tui_model *m, int layer, int lane)
{
    m->layer = (int)clamp(layer, m->r ? m->r->n_layer : 0);
    m->lane = (int)clamp(lane, m->r ? m->r->n_lane : 0);
    look(m);
}

void tui_select_token(tui_model *m, int64_t token)
{
    m->token = clamp(token, m->data ? m->data->n_token : 0);
    if (!m->text.n_line)
        return;
    int64_t line = flow_line_of(&m->text, m->token);
    int visible = layout_lines(m);
    if (line < m->top || line >= m->top + visible)
        m->top = line - visible / 3;
    int64_t last = m->text.n_line - visible;
    m->top = m->top > last ? last : m->top;
    m->top = m->top < 0 ? 0 : m->top;
}

/* The cell of policy and budget; lane, step and token stay where they are. */
static kvt_code select_cell(tui_model *m, kvt_err *err)
{
    const kvt_result *r = tui_data_cell(m->data, m->policy, m->budget, &m->cell);
    m->r = tui_data_shows(r, m->cell) ? r : NULL;
    if (rank_lanes(m, err))
        return err->code;
    if (m->r)
        tui_select_lane(m, m->layer, m->lane);
    else
        lane_view_fini(&m->view);
    return KVT_OK;
}

void tui_resize(tui_model *m, int width, int height)
{
    kvt_err err = {0};
    int64_t row = 0;
    if (m->text.n_line)
        row = flow_line_of(&m->text, m->token) - m->top;
    m->width = width;
    m->height = height;
    if (!m->data || !tui_fits(m))
        return;
    int columns = layout_lane(m).text_width;
    if ((!m->text.n_line || m->text.width != columns) &&
        flow_make(&m->text, m->data, columns, m->ascii, &err))
        tui_say(m, "%s", err.text);
    if (m->text.n_line)
        m->top = flow_line_of(&m->text, m->token) - row;
    tui_select_token(m, m->token);
}

/* ---- opening ----------------------------------------------------------------------------- */

/* A cell to begin with, of the policies that a person came for before the controls: one whose
 * regret is known before one where it is not, then a budget near a tenth. */
static double appeal(const tui_data *d, int policy, int budget)
{
    int cell;
    const kvt_result *r = tui_data_cell(d, policy, budget, &cell);
    if (!tui_data_shows(r, cell))
        return -1;
    double far = fabs(log(fmax(d->budget[budget].frac, 1e-9) / 0.1));
    return (r->is_control ? 0 : 4) + (isnan(r->cell[cell].regret_mean_frac) ? 0 : 2) +
           1 / (1 + far);
}

static void choose_cell(tui_model *m, const tui_start *s)
{
    const tui_data *d = m->data;
    int policy = s->policy ? tui_data_find_policy(d, s->policy) : -1;
    int budget = s->budget ? tui_data_find_budget(d, s->budget) : -1;
    double best = -1;
    m->policy = policy < 0 ? 0 : policy;
    m->budget = budget < 0 ? 0 : budget;
    for (int p = 0; p < d->n_policy; p++)
        for (int b = 0; b < d->n_budget; b++) {
            bool asked = (policy < 0 || p == policy) && (budget < 0 || b == budget);
            double a = asked ? appeal(d, p, b) : -1;
            if (a > best) {
                best = a;
                m->policy = p;
                m->budget = b;
            }
        }
}

static void choose_lane(tui_model *m, const tui_start *s)
{
    int layer = 0, lane = 0;
    if (m->n_order) {
        layer = m->order[0] / m->r->n_lane;
        lane = m->order[0] % m->r->n_lane;
    }
    for (int l = 0; m->r && s->layer >= 0 && l < m->r->n_layer; l++)
        if (m->r->layer_id[l] == s->layer) {
            layer = l;
            lane = s->lane < 0 ? 0 : (int)clamp(s->lane, m->r->n_lane);
        }
    tui_select_lane(m, layer, lane);
}

kvt_code tui_model_data(tui_model *m, const tui_data *d, const tui_start *s, bool fresh,
                        kvt_err *err)
{
    kvt_err ignored = {0};
    m->data = d;
    if (!d) {
        m->r = NULL;
        lane_view_fini(&m->view);
        flow_fini(&m->text);
        return rank_lanes(m, err);
    }
    if (!fresh) {
        if (s->policy && tui_data_find_policy(d, s->policy) >= 0)
            m->policy = tui_data_find_policy(d, s->policy);
        if (s->budget && tui_data_find_budget(d, s->budget) >= 0)
            m->budget = tui_data_find_budget(d, s->budget);
        m->asked_policy[0] = m->asked_budget[0] = 0;
        return select_cell(m, err);
    }
    m->layer = m->lane = 0;
    m->step = m->token = m->top = 0;
    m->search[0] = 0;
    m->n_match = 0;
    choose_cell(m, s);
    if (select_cell(m, err))
        return err->code;
    choose_lane(m, s);
    int64_t worst = m->view.r && d->n_response > 0 ? m->view.worst[0] : 0;
    tui_select_step(m, s->step >= 0 ? s->step : worst);
    flow_fini(&m->text);
    if (tui_fits(m) && flow_make(&m->text, d, layout_lane(m).text_width, m->ascii, &ignored))
        tui_say(m, "%s", ignored.text);
    int64_t token = m->view.r && m->view.top_regret >= 0 ? m->view.top_regret : 0;
    m->top = 0;
    tui_select_token(m, s->token >= 0 ? s->token : token);
    return KVT_OK;
}

static tui_where first_screen(const tui_start *s, const tui_data *d)
{
    if (!d)
        return TUI_ON_traces;
    for (int i = 0; s->screen && i < TUI_SCREENS; i++)
        if (strcmp(tui_screen_of((tui_where)i)->name, s->screen) == 0)
            return (tui_where)i;
    return TUI_ON_overview;
}

kvt_code tui_model_init(tui_model *m, const tui_data *d, const tui_start *s, kvt_err *err)
{
    *m = (tui_model){.width = 80,
                     .height = 24,
                     .ascii = s->ascii,
                     .colour = s->colour,
                     .markers = !s->no_markers,
                     .file = s->file,
                     .n_file = s->n_file};
    m->view.step = m->view.top_regret = -1;
    buf_init(&m->log, 1 << 20);
    if (m->n_file > 1)
        tui_go(m, TUI_ON_traces);
    tui_where where = first_screen(s, d);
    if (d)
        tui_go(m, TUI_ON_overview);
    tui_go(m, where);
    return tui_model_data(m, d, s, true, err);
}

void tui_model_fini(tui_model *m)
{
    lane_view_fini(&m->view);
    flow_fini(&m->text);
    kvt_free(m->order);
    kvt_free(m->match);
    buf_fini(&m->log);
    *m = (tui_model){0};
}

/* ---- the same view by a command line ----------------------------------------------------- */

/* Appends a word, quoted where a shell would read more into it. */
static void add_word(char *out, size_t cap, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_#";
    bool quote = !word[0] || word[0] == '#' || word[strspn(word, plain)] != 0;
    size_t at = strlen(out);
    if (at + 3 >= cap)
        return;
    out[at++] = ' ';
    if (quote)
        out[at++] = '\'';
    for (const char *s = word; *s && at + 6 < cap; s++) {
        if (*s == '\'') {
            memcpy(out + at, "'\\''", 4);
            at += 4;
        } else {
            out[at++] = *s;
        }
    }
    if (quote && at + 1 < cap)
        out[at++] = '\'';
    out[at] = 0;
}

void tui_show_command(const tui_model *m, char *out, size_t cap)
{
    char word[64];
    snprintf(out, cap, "kvt show");
    if (!m->data) {
        add_word(out, cap, m->n_file ? m->file[m->file_at].path : "TRACE");
        return;
    }
    bool lane = false;
    for (int i = 0; i < m->depth; i++)
        lane = m->stack[i] == TUI_ON_lane || (lane && m->stack[i] == TUI_ON_help);
    add_word(out, cap, m->data->path);
    add_word(out, cap, "--screen");
    add_word(out, cap, lane ? "lane" : "overview");
    if (m->r) {
        snprintf(word, sizeof word, "%d:%d", (int)m->r->layer_id[m->layer], m->lane);
        add_word(out, cap, "--lane");
        add_word(out, cap, word);
    }
    if (m->data->n_policy) {
        add_word(out, cap, "-p");
        add_word(out, cap, m->data->policy[m->policy].label);
    }
    if (m->data->n_budget) {
        add_word(out, cap, "-b");
        add_word(out, cap, m->data->budget[m->budget].text);
    }
    snprintf(word, sizeof word, "%lld", (long long)m->step);
    add_word(out, cap, "--step");
    add_word(out, cap, word);
    if (lane) {
        snprintf(word, sizeof word, "%lld", (long long)m->token);
        add_word(out, cap, "--token");
        add_word(out, cap, word);
    }
    static const char *const metric[TUI_METRICS] = {"lost", "regret", "kl"};
    if (m->metric != TUI_LOST) {
        add_word(out, cap, "--metric");
        add_word(out, cap, metric[m->metric]);
    }
    if (m->minus)
        add_word(out, cap, "--minus");
}
