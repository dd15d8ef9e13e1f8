/* overview.c - which lanes lose most: the map of layers and heads, the worst lanes, and what
 * the selected lane lost. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/marks.h"
#include "kvt/metric.h"
#include "tui/layout.h"
#include "tui/ui.h"

enum { LINE = 512, LABEL_WIDTH = 5, BAR = 9 };
#define SAME 0.0005 /* as printed */

/* Nats have no end: they are drawn as the share that they stand for. */
static int level_of(const tui_model *m, double value)
{
    double share = m->metric == TUI_KL ? 1 - exp(-fabs(value)) : fabs(value);
    return mark_level_root(share);
}

/* ---- the map ----------------------------------------------------------------------------- */

static void draw_cell(const tui_model *m, grid *g, const overview_layout *o, int y, int x,
                      double value)
{
    char digits[8], text[16];
    int level = level_of(m, value);
    char ramp = isnan(value) ? ' ' : mark_ramp(level);
    bool minus = m->minus && m->metric != TUI_REGRET;
    ui_share(value, digits);
    if (o->ink == 5 && minus && !isnan(value))
        snprintf(text, sizeof text, "%c%c%s", ramp, value < 0 ? '-' : '+', digits);
    else
        snprintf(text, sizeof text, "%c%c%s", ramp, ramp, digits);
    text[o->ink] = 0;
    grid_style style = isnan(value) ? GRID_DIM : (grid_style)(GRID_HEAT_0 + level);
    grid_text(g, y, x, style, text, -1);
}

/* Brackets stand around a cell; where there is no room for them, in its place. */
static void mark_selected(grid *g, const overview_layout *o, int y, int x)
{
    if (o->cell_width > o->ink) {
        grid_put(g, y, x - 1, GRID_BOLD, '[');
        grid_put(g, y, x + o->ink, GRID_BOLD, ']');
    } else {
        grid_put(g, y, x, GRID_BOLD, '[');
        if (o->ink > 1)
            grid_put(g, y, x + 1, GRID_BOLD, ']');
    }
    grid_select(g, y, x, o->ink);
}

static double mean_of_layer(const tui_model *m, int layer)
{
    double sum = 0;
    for (int a = 0; a < m->r->n_lane; a++)
        sum += tui_value(m, layer, a);
    return sum / m->r->n_lane;
}

static double mean_of_head(const tui_model *m, int lane)
{
    double sum = 0;
    for (int l = 0; l < m->r->n_layer; l++)
        sum += tui_value(m, l, lane);
    return sum / m->r->n_layer;
}

static void draw_share(grid *g, int y, int x, double value, bool sign)
{
    char digits[8];
    ui_share(value, digits);
    if (sign && !isnan(value))
        grid_put(g, y, x - 1, GRID_PLAIN, value < 0 ? '-' : '+');
    grid_text(g, y, x, GRID_PLAIN, digits, -1);
}

static void draw_heads(const tui_model *m, grid *g, const overview_layout *o, int block)
{
    int x0 = block * o->block_width;
    char letter = m->r->by_query_head ? 'H' : 'G', text[16];
    for (int i = 0; i < o->n_lane; i++) {
        int lane = o->first_lane + i, x = x0 + LABEL_WIDTH + 1 + i * o->cell_width;
        snprintf(text, sizeof text, "%c%d", letter, lane);
        if (o->ink == 5)
            grid_text(g, o->head_y, x + 1, GRID_PLAIN, text, -1);
        else if (lane % (o->cell_width == 1 ? 10 : 5) == 0)
            grid_text(g, o->head_y, x, GRID_PLAIN, text, -1);
    }
    if (o->mean_width)
        grid_text(g, o->head_y, x0 + LABEL_WIDTH + 2 + o->n_lane * o->cell_width, GRID_PLAIN,
                  "mean", -1);
}

static void draw_map(const tui_model *m, grid *g, const overview_layout *o)
{
    const kvt_result *r = m->r;
    bool sign = m->minus && m->metric != TUI_REGRET;
    for (int b = 0; b < o->n_block; b++)
        draw_heads(m, g, o, b);
    for (int i = 0; i < o->per_block * o->n_block; i++) {
        int layer = o->first_layer + i, y = o->map_y + i % o->per_block;
        int x0 = i / o->per_block * o->block_width;
        if (layer >= r->n_layer)
            break;
        grid_printf(g, y, x0 + 2, GRID_PLAIN, "L%02d", (int)r->layer_id[layer]);
        for (int k = 0; k < o->n_lane; k++)
            draw_cell(m, g, o, y, x0 + LABEL_WIDTH + 1 + k * o->cell_width,
                      tui_value(m, layer, o->first_lane + k));
        if (layer == m->layer)
            mark_selected(g, o, y,
                          x0 + LABEL_WIDTH + 1 + (m->lane - o->first_lane) * o->cell_width);
        if (o->mean_width)
            draw_share(g, y, x0 + LABEL_WIDTH + 3 + o->n_lane * o->cell_width,
                       mean_of_layer(m, layer), sign);
    }
    int y = o->map_y + o->map_rows;
    if (o->mean_row && o->ink == 5) {
        grid_text(g, y, 1, GRID_PLAIN, "mean", -1);
        for (int k = 0; k < o->n_lane; k++)
            draw_share(g, y, LABEL_WIDTH + 3 + k * o->cell_width,
                       mean_of_head(m, o->first_lane + k), sign);
    }
}

/* ---- panels ------------------------------------------------------------------------------ */

static void draw_bar(grid *g, int y, int x, int n)
{
    grid_fill(g, y, x, n, GRID_PLAIN, g->ascii ? '#' : 0x2588);
}

static void draw_worst(const tui_model *m, grid *g, int y, int x, int rows)
{
    const kvt_result *r = m->r;
    double most = 0;
    grid_text(g, y, x, GRID_BOLD, m->by_loss ? "WORST LANES (by loss)" : "WORST LANES", -1);
    grid_text(g, y, x + 23, GRID_PLAIN, "lost regret", -1);
    for (int i = 0; i < rows && i < m->n_order; i++) {
        int layer = m->order[i] / r->n_lane, lane = m->order[i] % r->n_lane;
        char number[16];
        double lost = tui_lane_value(r, m->cell, layer, lane, TUI_LOST);
        double regret = tui_lane_value(r, m->cell, layer, lane, TUI_REGRET);
        double key = m->by_loss ? lost : regret;
        char name[32];
        bool here = layer == m->layer && lane == m->lane;
        most = i == 0 ? key : most;
        tui_lane_name(m, layer, lane, name, sizeof name);
        grid_printf(g, y + 1 + i, x, here ? GRID_BOLD : GRID_PLAIN, "%c%-2d %-8.8s",
                    here ? '>' : ' ', i + 1, name);
        if (most > 0 && key > 0)
            draw_bar(g, y + 1 + i, x + 12, (int)(BAR * key / most + 0.5));
        grid_printf(g, y + 1 + i, x + 22, GRID_PLAIN, "%5s", ui_loss(lost, number));
        if (isnan(regret))
            grid_text(g, y + 1 + i, x + 32, GRID_PLAIN, "-", -1);
        else
            grid_printf(g, y + 1 + i, x + 28, GRID_PLAIN, "%6.3f", regret);
    }
}

static void draw_distribution(const tui_model *m, grid *g, int y, int x)
{
    static const double edge[] = {0, 0.05, 0.1, 0.2, 0.3, 0.5, 1};
    enum { N = 6, WIDTH = 16 };
    int count[N] = {0}, most = 1;
    for (int a = 0; a < m->r->n_layer * m->r->n_lane; a++) {
        double v = tui_lane_value(m->r, m->cell, 0, a, TUI_LOST);
        for (int i = N - 1; i >= 0; i--)
            if (v >= edge[i]) {
                count[i]++;
                break;
            }
    }
    for (int i = 0; i < N; i++)
        most = count[i] > most ? count[i] : most;
    grid_printf(g, y, x, GRID_BOLD, "DISTRIBUTION OF %d LANES", m->r->n_layer * m->r->n_lane);
    grid_text(g, y, x + 26, GRID_PLAIN, "lost mass", -1);
    for (int i = 0; i < N; i++) {
        grid_printf(g, y + 1 + i, x, GRID_PLAIN, "%.2f-%.2f", edge[i], edge[i + 1]);
        draw_bar(g, y + 1 + i, x + 11, (count[i] * WIDTH + most - 1) / most);
        grid_printf(g, y + 1 + i, x + 29, GRID_PLAIN, "%5d", count[i]);
    }
}

static void draw_side(const tui_model *m, grid *g, const overview_layout *o)
{
    enum { DISTRIBUTION = 8 }; /* rows, a blank one in front */
    if (o->side_x < 0) {
        if (o->worst_y >= 0) {
            int x = grid_text(g, o->worst_y, 1, GRID_PLAIN, "worst", -1) + 2;
            for (int i = 0; i < m->n_order && x + 13 <= g->width; i++) {
                char name[32], digits[8];
                int layer = m->order[i] / m->r->n_lane, lane = m->order[i] % m->r->n_lane;
                tui_lane_name(m, layer, lane, name, sizeof name);
                ui_share(tui_lane_value(m->r, m->cell, layer, lane,
                                        m->by_loss ? TUI_LOST : TUI_REGRET),
                         digits);
                x = grid_printf(g, o->worst_y, x, GRID_PLAIN, "%s %s", name, digits) + 2;
            }
            grid_text(g, o->worst_y, x, GRID_PLAIN, m->by_loss ? "lost" : "regret", -1);
        }
        return;
    }
    for (int i = 0; i < o->side_rows; i++)
        grid_put(g, o->head_y + i, o->side_x, GRID_PLAIN, 0x2502);
    bool both = o->side_rows >= DISTRIBUTION + 4;
    int rows = o->side_rows - 1 - (both ? DISTRIBUTION : 0);
    rows = rows < m->n_order ? rows : m->n_order;
    draw_worst(m, g, o->head_y, o->side_x + 2, rows);
    if (both)
        draw_distribution(m, g, o->head_y + rows + 2, o->side_x + 2);
}

/* ---- what the lane lost ------------------------------------------------------------------ */

static void say_evicted(const tui_model *m, char *out, size_t cap)
{
    static const char *const others[] = {
        [KVT_SKIP] = "evicts nothing: each row reads some of the slots, the next chooses anew",
        [KVT_JOIN] = "evicts nothing: tokens are averaged into the slot before them",
        [KVT_CHANNELS] = "evicts nothing: all tokens stay, with fewer channels in their keys"};
    const lane_view *v = &m->view;
    kvt_effect effect = tui_data_effect(m->r);
    if (effect != KVT_EVICT)
        snprintf(out, cap, "%s", others[effect]);
    else
        snprintf(out, cap, "evicted %lld at prefill, %lld while decoding",
                 (long long)v->evicted_prefill, (long long)v->evicted_decode);
}

static void say_missing(const tui_model *m, char *out, size_t cap)
{
    const lane_view *v = &m->view;
    kvt_effect effect = tui_data_effect(m->r);
    if (effect == KVT_SKIP)
        snprintf(out, cap, "compare its lost mass with that of oracle-step, the best to read");
    else if (effect != KVT_EVICT)
        snprintf(out, cap, "%s", m->r->plan_note ? m->r->plan_note : "");
    else if (!v->oracle)
        snprintf(out, cap,
                 "no result of an oracle with these lanes: no token can be called missing");
    else
        snprintf(
            out, cap,
            "%lld of the oracle's tokens are missing, %lld of them carry 90%% of the regret",
            (long long)v->sum.missing, (long long)v->sum.regretted);
}

static void say_worst(const tui_model *m, char *out, size_t cap)
{
    char token[96];
    const lane_view *v = &m->view;
    kvt_effect effect = tui_data_effect(m->r);
    if (effect == KVT_JOIN || effect == KVT_CHANNELS) {
        int at = kvt_metric_value("out_err_mean_rel");
        char number[16];
        double error =
            at < 0 ? (double)NAN : tui_data_lane(m->r, m->cell, m->layer, m->lane)->value[at];
        snprintf(out, cap, "no mass is lost; relative error of the output here: %s",
                 ui_loss(error, number));
        return;
    }
    if (!v->lost || v->n_response == 0) {
        snprintf(out, cap, "loss by step is not known%s%s", v->note[0] ? ": " : "", v->note);
        return;
    }
    int64_t s = v->worst[0];
    snprintf(out, cap, "worst step %lld (%s): %.2f of its attention went to %s", (long long)s,
             ui_token(m, v->n_prompt + s, token, sizeof token, 22), (double)v->lost[s],
             tui_data_lost_to(v->r));
}

/* What regret is measured against: the oracle, with as many slots as this lane got, or the best
 * schedule. */
static void say_bound(const tui_model *m, char *out, size_t cap, bool narrow)
{
    const lane_view *v = &m->view;
    double own = tui_data_lane(m->r, m->cell, m->layer, m->lane)->oracle_lost_mass_mean_frac;
    double at = v->oracle
                    ? tui_lane_value(v->oracle, v->oracle_cell, m->layer, m->lane, TUI_LOST)
                    : (double)NAN;
    const char *name = narrow ? "oracle" : "oracle at this budget";
    if (!isnan(own) && strcmp(m->r->cell[m->cell].growth, "inside") == 0)
        name = narrow ? "best" : "best schedule";
    else if (!isnan(own) && !(fabs(own - at) < SAME) && !narrow)
        name = "oracle with as many slots";
    else if (isnan(own))
        own = at;
    out[0] = 0;
    if (!isnan(own))
        snprintf(out, cap, "   %s %.3f", name, own);
}

static void draw_detail(const tui_model *m, grid *g, const overview_layout *o)
{
    const lane_view *v = &m->view;
    char line[LINE], name[32], oracle[96] = "", number[16];
    double lost = tui_lane_value(m->r, m->cell, m->layer, m->lane, TUI_LOST);
    double regret = tui_lane_value(m->r, m->cell, m->layer, m->lane, TUI_REGRET);
    tui_lane_name(m, m->layer, m->lane, name, sizeof name);
    snprintf(line, sizeof line,
             m->r->by_query_head ? "%s   one query head"
                                 : "%s   one kv head, %d query heads share it",
             name, m->data->n_head / (m->data->n_kv_head ? m->data->n_kv_head : 1));
    ui_rule(g, o->rule_y, line);
    say_bound(m, oracle, sizeof oracle, g->width < 90);
    int at =
        snprintf(line, sizeof line, "%s%slost mass %s%s", o->rule_y < 0 ? name : "",
                 o->rule_y < 0 ? "  " : "", ui_loss(lost, number), o->rule_y < 0 ? "" : oracle);
    if (!isnan(regret))
        at += snprintf(line + at, sizeof line - (size_t)at, "   regret %.3f", regret);
    if (v->oracle_kept)
        snprintf(line + at, sizeof line - (size_t)at,
                 g->width < 90 ? "   overlap %.2f" : "   overlap with oracle %.2f",
                 (double)v->common / (double)v->oracle_kept);
    ui_text(g, o->detail_y, 1, GRID_PLAIN, line, g->width - 2);
    if (o->detail_rows == 1)
        return;
    say_worst(m, line, sizeof line);
    ui_text(g, o->detail_y + o->detail_rows - 1, 1, GRID_PLAIN, line, g->width - 2);
    if (o->detail_rows < 4)
        return;
    say_evicted(m, line, sizeof line);
    ui_text(g, o->detail_y + 1, 1, GRID_PLAIN, line, g->width - 2);
    say_missing(m, line, sizeof line);
    ui_text(g, o->detail_y + 2, 1, GRID_PLAIN, line, g->width - 2);
}

/* ---- the lines below --------------------------------------------------------------------- */

static void draw_scale(const tui_model *m, grid *g, const overview_layout *o)
{
    char digits[8];
    if (o->scale_y < 0)
        return;
    int x = grid_printf(g, o->scale_y, 1, GRID_PLAIN, "%s", tui_metric_name(m->metric)) + 2;
    for (int i = 0; i < MARK_LEVELS; i++) {
        double from = i * i / 100.0;
        ui_share(m->metric == TUI_KL ? -log(1 - from) : from, digits);
        char ramp[3] = {mark_ramp(i), mark_ramp(i), 0};
        x = grid_text(g, o->scale_y, x, (grid_style)(GRID_HEAT_0 + i), ramp, -1);
        x = grid_printf(g, o->scale_y, x, GRID_PLAIN, "%s ", digits);
    }
    grid_text(g, o->scale_y, x, GRID_PLAIN,
              m->minus && m->metric != TUI_REGRET ? "minus oracle" : "and more", -1);
}

static void say_audit(const tui_model *m, char *out, size_t cap)
{
    const kvt_cell *c = &m->r->cell[m->cell];
    int n = m->r->n_layer * m->r->n_lane, over = 0, under = 0, empty = 0;
    for (int a = 0; a < n; a++) {
        const char *flag = tui_data_lane(m->r, m->cell, 0, a)->flag;
        over += strcmp(flag, "over") == 0;
        under += strcmp(flag, "under") == 0;
        empty += strcmp(flag, "empty") == 0;
    }
    int at =
        snprintf(out, cap, "%sasked %s = %.6g slots a lane, kept ",
                 m->width >= 100 ? "budget audit: " : "", c->budget_asked, c->budget_tokens);
    if (c->kept_tokens_min == c->kept_tokens_max)
        at += snprintf(out + at, cap - (size_t)at, "%lld in all %d lanes",
                       (long long)c->kept_tokens_min, n);
    else
        at += snprintf(out + at, cap - (size_t)at, "%lld to %lld in %d lanes",
                       (long long)c->kept_tokens_min, (long long)c->kept_tokens_max, n);
    if (over || under || empty)
        at += snprintf(out + at, cap - (size_t)at, " (!");
    if (over)
        at += snprintf(out + at, cap - (size_t)at, " %d over", over);
    if (under)
        at += snprintf(out + at, cap - (size_t)at, " %d under", under);
    if (empty)
        at += snprintf(out + at, cap - (size_t)at, " %d empty", empty);
    if (over || under || empty)
        at += snprintf(out + at, cap - (size_t)at, ")");
    snprintf(out + at, cap - (size_t)at, "; mean of %lld steps", (long long)m->r->n_response);
}

void screen_overview_draw(const tui_model *m, grid *g)
{
    overview_layout o = layout_overview(m);
    char path[LINE], line[LINE], right[64] = "", number[16];
    snprintf(path, sizeof path, "%s > overview", m->data->name);
    if (m->r)
        snprintf(right, sizeof right, "lost mass %s",
                 ui_loss(m->r->cell[m->cell].value[kvt_metric_value("lost_mass_mean_frac")],
                         number));
    ui_title(m, g, path, right);
    ui_tabs(m, g, o.tabs_y, "rows: layers  cols: heads");
    ui_keys(m, g, o.keys_y);
    if (!m->r) {
        ui_missing(m, g, o.head_y + 1);
        ui_message(m, g, o.message_y, "");
        return;
    }
    draw_map(m, g, &o);
    draw_side(m, g, &o);
    draw_detail(m, g, &o);
    draw_scale(m, g, &o);
    say_audit(m, line, sizeof line);
    ui_message(m, g, o.message_y, line);
}

/* ---- commands ---------------------------------------------------------------------------- */

static void move(tui_model *m, int layers, int lanes)
{
    int layer = m->layer + layers, lane = m->lane + lanes, L = m->r->n_layer, A = m->r->n_lane;
    bool out = layer < 0 || layer >= L || lane < 0 || lane >= A;
    if (out && (layers == 1 || layers == -1 || lanes)) {
        tui_say(m, "the map ends here");
        return;
    }
    layer = layer < 0 ? 0 : layer >= L ? L - 1 : layer;
    if (layer == m->layer && lane == m->lane)
        tui_say(m, "the map ends here");
    else
        tui_select_lane(m, layer, lane);
}

bool screen_overview_act(tui_model *m, const tui_command *c)
{
    if (!m->r && c->what != TUI_ENTER)
        return false;
    overview_layout o = layout_overview(m);
    switch (c->what) {
    case TUI_UP: move(m, -1, 0); return true;
    case TUI_DOWN: move(m, 1, 0); return true;
    case TUI_LEFT: move(m, 0, -1); return true;
    case TUI_RIGHT: move(m, 0, 1); return true;
    case TUI_PAGE_UP: move(m, -o.per_block, 0); return true;
    case TUI_PAGE_DOWN: move(m, o.per_block, 0); return true;
    case TUI_FIRST: move(m, -m->r->n_layer, 0); return true;
    case TUI_LAST: move(m, m->r->n_layer, 0); return true;
    case TUI_ENTER: tui_go(m, TUI_ON_lane); return true;
    case TUI_CLICK: {
        int row = (int)c->n - o.map_y, block = (int)c->n2 / o.block_width;
        int col = (int)c->n2 % o.block_width - LABEL_WIDTH - 1;
        int layer = o.first_layer + block * o.per_block + row;
        int lane = o.first_lane + (col < 0 ? -1 : col / o.cell_width);
        if (row >= 0 && row < o.map_rows && block < o.n_block && layer < m->r->n_layer &&
            col >= 0 && lane < o.first_lane + o.n_lane)
            tui_select_lane(m, layer, lane);
        return true;
    }
    default: return false;
    }
}
