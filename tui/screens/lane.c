/* lane.c - the text as a lane kept it at a step: map of the prompt, strip of steps, text with
 * its marker line, and what is known of the token under the cursor. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tui/card.h"
#include "tui/layout.h"
#include "tui/ui.h"

enum { LINE = 512, LABEL = 8, TICK = 11 };

/* ---- map of the prompt ------------------------------------------------------------------- */

/* `n` things on `columns` columns: the first thing of a column. */
static int64_t first_of(int64_t n, int columns, int column)
{
    return n * column / columns;
}

static int columns_of(const grid *g, int64_t n, int reserved)
{
    int room = g->width - LABEL - 1 - reserved;
    return n < room ? (int)n : room;
}

/* Numbers under which the columns stand, at most one every TICK columns. */
static void draw_axis(grid *g, int y, const char *label, int64_t n, int columns)
{
    grid_text(g, y, 1, GRID_BOLD, label, -1);
    for (int c = 0; c < columns; c += TICK) {
        int64_t at = first_of(n, columns, c);
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)at);
        if (c + TICK >= columns && c > 0)
            break;
        grid_text(g, y, LABEL + c, GRID_PLAIN, text, -1);
    }
    if (columns > 2 * TICK) {
        char text[24];
        int w = snprintf(text, sizeof text, "%lld", (long long)n - 1);
        grid_text(g, y, LABEL + columns - w, GRID_PLAIN, text, -1);
    }
}

static int64_t line_start(const tui_model *m, int64_t line)
{
    if (line >= m->text.n_line)
        return m->data->n_token;
    int64_t piece = m->text.line[line];
    return piece < m->text.n_piece ? m->text.piece[piece].token : m->data->n_token;
}

static void draw_map(const tui_model *m, grid *g, const lane_layout *l)
{
    const lane_view *v = &m->view;
    int64_t n = v->n_prompt, from = line_start(m, m->top);
    int64_t to = line_start(m, m->top + layout_lines(m));
    int columns = columns_of(g, n, 8), y = l->map_y;
    if (l->full)
        draw_axis(g, y++, "PROMPT", n, columns);
    grid_text(g, y, 1, GRID_PLAIN, "kept", -1);
    grid_text(g, y + 1, 1, GRID_PLAIN, "regret", -1);
    if (l->full)
        grid_text(g, y + 2, 1, GRID_PLAIN, "view", -1);
    for (int c = 0; c < columns; c++) {
        int64_t a = first_of(n, columns, c), b = first_of(n, columns, c + 1);
        b = b > a ? b : a + 1;
        int64_t held = v->held_before[b] - v->held_before[a];
        int tenth = (int)(held * 10 / (b - a));
        uint32_t cp = g->ascii    ? (uint32_t)(tenth == 10 ? '#' : '0' + tenth)
                      : held == 0 ? ' '
                                  : 0x2581u + (uint32_t)((held * 8 - 1) / (b - a));
        grid_put(g, y, LABEL + c, GRID_PLAIN, cp);
        if (v->regret_before[b] > v->regret_before[a])
            grid_put(g, y + 1, LABEL + c, GRID_SHOULD, '!');
        if (l->full && a < to && b > from)
            grid_put(g, y + 2, LABEL + c, GRID_BOLD, g->ascii ? '=' : 0x2550);
        if (m->token >= a && m->token < b) /* where the cursor stands */
            grid_put(g, l->full ? y + 2 : y + 1, LABEL + c, GRID_BOLD,
                     l->full                                     ? '^'
                     : v->regret_before[b] > v->regret_before[a] ? '!'
                                                                 : '^');
    }
    if (g->ascii)
        grid_text(g, y, LABEL + columns + 1, GRID_DIM, "tenths", -1);
}

/* ---- strip of steps ---------------------------------------------------------------------- */

static double loss_at(const tui_model *m, int64_t step)
{
    const lane_view *v = &m->view;
    double lost = (double)v->lost[step];
    return m->minus && v->oracle_lost ? lost - (double)v->oracle_lost[step] : lost;
}

static void draw_caret(const tui_model *m, grid *g, int y, int x)
{
    char text[LINE], before[64], here[64], after[64], where[48];
    int64_t at = m->view.n_prompt + m->step;
    int n = snprintf(where, sizeof where, "step %lld", (long long)m->step);
    before[0] = after[0] = 0;
    if (at > m->view.n_prompt)
        tui_data_token(m->data, at - 1, before, sizeof before, 14, m->ascii);
    tui_data_token(m->data, at, here, sizeof here, 18, m->ascii);
    if (at + 1 < m->data->n_token)
        tui_data_token(m->data, at + 1, after, sizeof after, 14, m->ascii);
    snprintf(text, sizeof text, "%s   %s[%s]%s", where, before, here, after);
    int columns = text_columns(text);
    grid_put(g, y, x, GRID_BOLD, '^');
    if (x + 2 + columns < g->width) {
        grid_text(g, y, x + 2, GRID_PLAIN, text, -1);
        return;
    }
    snprintf(text, sizeof text, "%s[%s]%s   %s", before, here, after, where);
    int start = x - 1 - text_columns(text);
    if (start >= LABEL)
        grid_text(g, y, start, GRID_PLAIN, text, -1);
    else
        grid_text(g, y, x - 1 - n, GRID_PLAIN, where, -1);
}

static void draw_steps(const tui_model *m, grid *g, const lane_layout *l)
{
    const lane_view *v = &m->view;
    int64_t n = v->n_response;
    int y = l->steps_y;
    if (n == 0 || !v->lost) {
        grid_printf(g, y, 1, GRID_DIM, "no steps: %s",
                    n == 0       ? "the trace has no response"
                    : v->note[0] ? v->note
                                 : "loss by step is not known");
        return;
    }
    int columns = columns_of(g, n, 10), here = 0;
    if (l->full)
        draw_axis(g, y++, "STEPS", n, columns);
    grid_text(g, y, 1, GRID_PLAIN, m->minus ? "regret" : "lost", -1);
    for (int c = 0; c < columns; c++) {
        int64_t a = first_of(n, columns, c), b = first_of(n, columns, c + 1);
        double most = loss_at(m, a);
        b = b > a ? b : a + 1;
        for (int64_t s = a + 1; s < b; s++)
            most = fmax(most, loss_at(m, s));
        bool is_here = m->step >= a && m->step < b;
        int level = mark_level(most);
        grid_put(g, y, LABEL + c, (grid_style)(GRID_HEAT_0 + (level < 0 ? 0 : level)),
                 ui_ramp(g, level));
        if (is_here) {
            here = c;
            grid_select(g, y, LABEL + c, 1);
        }
    }
    grid_printf(g, y, LABEL + columns + 1, GRID_BOLD, "%.2f now", loss_at(m, m->step));
    if (l->full)
        draw_caret(m, g, y + 1, LABEL + here);
}

static void draw_numbers(const tui_model *m, grid *g, int y)
{
    const lane_view *v = &m->view;
    int64_t held = v->held_before[v->n_prompt];
    int x = grid_printf(g, y, 1, GRID_PLAIN, "kept %lld of %lld   regretted %lld",
                        (long long)held, (long long)v->n_prompt, (long long)v->sum.regretted);
    if (v->lost && v->n_response)
        grid_printf(g, y, x, GRID_PLAIN, "   lost %.2f now", loss_at(m, m->step));
}

/* ---- text -------------------------------------------------------------------------------- */

static bool is_match(const tui_model *m, int64_t token)
{
    int64_t lo = 0, hi = m->n_match - 1;
    while (lo <= hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (m->match[mid] == token)
            return true;
        if (m->match[mid] < token)
            lo = mid + 1;
        else
            hi = mid - 1;
    }
    return false;
}

/* A piece stands at its own column and the cells behind it are cleared: a terminal that sees
 * other widths can spoil a token, never a line. */
static void draw_piece(const tui_model *m, grid *g, const lane_layout *l, int y,
                       const flow_piece *p)
{
    char text[4200];
    int x = l->text_x + p->column,
        n = p->bytes < (int)sizeof text - 1 ? p->bytes : (int)sizeof text - 1;
    mark state = m->view.r ? lane_view_mark(&m->view, p->token, m->step) : MARK_KEPT;
    grid_style style = mark_kind_of(state)->style;
    if (state == MARK_UNWRITTEN)
        style = GRID_DIM;
    memcpy(text, m->text.text.data + p->at, (size_t)n);
    text[n] = 0;
    if (m->white && !p->newline) {
        grid_text(g, y, x, style, text, p->width);
        for (int i = 0; i < p->width; i++)
            if (text[0] && i < g->width &&
                g->cell[(int64_t)y * g->width + x + i].cp[0] == ' ' &&
                !g->cell[(int64_t)y * g->width + x + i].cp[1])
                grid_put(g, y, x + i, style, g->ascii ? '_' : 0xb7);
    } else {
        grid_text(g, y, x, p->newline ? GRID_DIM : style, text, p->width);
    }
    if (is_match(m, p->token))
        grid_restyle(g, y, x, p->width, GRID_SECOND);
    if (m->markers && m->view.r)
        grid_fill(g, y + 1, x, p->width, mark_kind_of(state)->style,
                  (uint32_t)(unsigned char)mark_kind_of(state)->letter);
    if (p->token == m->token)
        grid_select(g, y, x, p->width);
}

static void draw_text(const tui_model *m, grid *g, const lane_layout *l)
{
    int lines = layout_lines(m), each = m->markers ? 2 : 1;
    for (int i = 0; i < lines && m->top + i < m->text.n_line; i++) {
        int64_t line = m->top + i;
        int y = l->text_y + i * each;
        if (m->text.line[line] == m->text.line[line + 1])
            continue;
        if (l->text_x > 1) {
            grid_printf(g, y, 0, GRID_DIM, "%7lld ", (long long)line_start(m, line));
            for (int k = 0; k < each; k++)
                grid_put(g, y + k, l->text_x - 1, GRID_DIM, 0x2502);
        }
        for (int64_t p = m->text.line[line]; p < m->text.line[line + 1]; p++)
            draw_piece(m, g, l, y, &m->text.piece[p]);
    }
}

/* ---- the token under the cursor ---------------------------------------------------------- */

static void say_token(const tui_model *m, char *out, size_t cap, int columns)
{
    const lane_view *v = &m->view;
    int64_t t = m->token;
    char text[96];
    int at;
    ui_token(m, t, text, sizeof text, columns < 60 ? 10 : 20);
    at = snprintf(out, cap, "%lld %s ", (long long)t, text);
    mark state = lane_view_mark(v, t, m->step);
    bool gone = v->evict[t] >= 0 && v->evict[t] <= m->step;
    if (gone)
        at += snprintf(out + at, cap - (size_t)at, "evicted at step %d%s", (int)v->evict[t],
                       v->evict[t] == 0 && columns >= 60 ? " (prefill)" : "");
    else
        at += snprintf(out + at, cap - (size_t)at, "%s", mark_kind_of(state)->name);
    int64_t a = (int64_t)v->layer * v->r->n_lane + v->lane;
    if (v->r->rank && t < v->n_prompt && columns >= 60)
        at += snprintf(out + at, cap - (size_t)at, ", rank %d of %lld",
                       (int)v->r->rank[a * v->n_prompt + t] + 1, (long long)v->n_prompt);
    if (v->rows && state != MARK_UNWRITTEN)
        at += snprintf(out + at, cap - (size_t)at, "; attention now %.2f",
                       (double)v->rows[m->step * v->n_token + t]);
    if (columns >= 60 && (v->rows || v->note[0]))
        at += snprintf(out + at, cap - (size_t)at, ", %s %.2f",
                       v->evict[t] >= 0 ? "missed in total" : "in total", v->mass[t]);
    if (gone && v->regretted[t] && columns >= 60)
        snprintf(out + at, cap - (size_t)at, ": should be kept");
}

static void say_legend(const tui_model *m, char *out, size_t cap)
{
    snprintf(
        out, cap,
        m->width >= 100
            ? "= kept  # pinned (sink/recent)  . evicted, harmless  ! should be kept  - kept "
              "in vain  < now"
            : "= kept  # pinned  . evicted  ! should be kept  - in vain  < now");
}

static void say_regret(const tui_model *m, char *out, size_t cap)
{
    const lane_view *v = &m->view;
    int64_t above = 0;
    for (int64_t t = 0; t < m->token; t++)
        above += v->regretted[t];
    if (!v->oracle)
        snprintf(out, cap, "no result of an oracle with these lanes: ! is not known%s%s",
                 v->note[0] ? "; " : "", v->note);
    else if (v->sum.regretted)
        snprintf(out, cap,
                 "%lld evicted tokens carry 90%% of the regret; n jumps to the next one (%lld "
                 "of %lld are above)",
                 (long long)v->sum.regretted, (long long)above, (long long)v->sum.regretted);
    else
        snprintf(out, cap, "nothing is regretted in this lane");
}

static void draw_facts(const tui_model *m, grid *g, const lane_layout *l)
{
    char line[LINE], safe[LINE];
    say_token(m, line, sizeof line, g->width);
    if (l->full) {
        snprintf(safe, sizeof safe, "token %lld", (long long)m->token);
        ui_rule(g, l->token_y - 1, safe);
    }
    ui_text(g, l->token_y, 1, GRID_PLAIN, line, g->width - 2);
    say_legend(m, line, sizeof line);
    if (l->legend_y >= 0) {
        ui_text(g, l->legend_y, 1, GRID_PLAIN, line, g->width - 2);
        say_regret(m, line, sizeof line);
    }
    if (l->message_y >= 0)
        ui_message(m, g, l->message_y, line);
    else if (m->message[0])
        ui_message(m, g, l->token_y, "");
}

void screen_lane_draw(const tui_model *m, grid *g)
{
    lane_layout l = layout_lane(m);
    char path[LINE], name[32], right[64];
    tui_lane_name(m, m->layer, m->lane, name, sizeof name);
    bool small = l.message_y < 0;
    if (small)
        snprintf(path, sizeof path, "%s", name);
    else
        snprintf(path, sizeof path, "%s > %s", m->data->name, name);
    if (small && m->view.lost && m->data->n_response)
        snprintf(right, sizeof right, "%lld/%lld lost %.2f", (long long)m->step,
                 (long long)m->data->n_response, (double)m->view.lost[m->step]);
    else
        snprintf(right, sizeof right, "step %lld/%lld", (long long)m->step,
                 (long long)m->data->n_response);
    ui_title(m, g, path, right);
    ui_tabs(m, g, l.tabs_y, m->view.oracle ? "judge: oracle, same budget" : "no judge");
    ui_keys(m, g, l.keys_y);
    if (!m->view.r) {
        if (m->message[0])
            grid_text(g, l.text_y, 2, GRID_BOLD, m->message, g->width - 4);
        else
            ui_missing(m, g, l.text_y);
        return;
    }
    if (l.map_y >= 0) {
        draw_map(m, g, &l);
        draw_steps(m, g, &l);
    } else if (l.numbers_y >= 0) {
        draw_numbers(m, g, l.numbers_y);
    }
    if (l.rule_y >= 0) {
        int64_t from = line_start(m, m->top), to = line_start(m, m->top + layout_lines(m));
        snprintf(path, sizeof path, "tokens %lld-%lld of %lld%s", (long long)from,
                 (long long)to - 1, (long long)m->data->n_token,
                 from < m->data->n_prompt ? "" : ", the response");
        ui_rule(g, l.rule_y, path);
    }
    draw_text(m, g, &l);
    draw_facts(m, g, &l);
    if (m->card)
        card_draw(m, g);
}

/* ---- commands ---------------------------------------------------------------------------- */

/* The token of another line that stands under the same column. */
static void move_line(tui_model *m, int64_t by)
{
    const flow *f = &m->text;
    if (!f->n_line)
        return;
    int64_t line = flow_line_of(f, m->token), to = line + by;
    int column = f->piece[f->first[m->token]].column;
    to = to < 0 ? 0 : to >= f->n_line ? f->n_line - 1 : to;
    while (to > 0 &&
           f->line[to] == f->line[to + 1]) /* the line behind a last newline is empty */
        to--;
    int64_t best = f->line[to];
    for (int64_t p = f->line[to]; p < f->line[to + 1]; p++)
        if (f->piece[p].column <= column)
            best = p;
    int64_t token = f->piece[best].token;
    /* A token of several lines begins in front of them: go past it. */
    if (by > 0 && token <= m->token)
        token = m->token + (to > line && m->token + 1 < m->data->n_token);
    if (token == m->token)
        tui_say(m, by < 0 ? "the text begins here" : "the text ends here");
    else
        tui_select_token(m, token);
}

static void move_token(tui_model *m, int64_t by)
{
    int64_t to = m->token + by;
    if (to < 0 || to >= m->data->n_token)
        tui_say(m, by < 0 ? "the text begins here" : "the text ends here");
    else
        tui_select_token(m, to);
}

static void move_end(tui_model *m, int64_t to)
{
    if (m->token == to)
        tui_say(m, to == 0 ? "the text begins here" : "the text ends here");
    else
        tui_select_token(m, to);
}

static void click(tui_model *m, const tui_command *c)
{
    lane_layout l = layout_lane(m);
    int row = (int)c->n - l.text_y, column = (int)c->n2 - l.text_x;
    int64_t line = m->top + row / (m->markers ? 2 : 1);
    if (row < 0 || row >= l.text_rows || line >= m->text.n_line)
        return;
    for (int64_t p = m->text.line[line]; p < m->text.line[line + 1]; p++)
        if (column >= m->text.piece[p].column &&
            column < m->text.piece[p].column + m->text.piece[p].width)
            tui_select_token(m, m->text.piece[p].token);
}

bool screen_lane_act(tui_model *m, const tui_command *c)
{
    if (!m->view.r)
        return false; /* there is no text to move in */
    switch (c->what) {
    case TUI_UP: move_line(m, -1); return true;
    case TUI_DOWN: move_line(m, 1); return true;
    case TUI_LEFT: move_token(m, -1); return true;
    case TUI_RIGHT: move_token(m, 1); return true;
    case TUI_PAGE_UP: move_line(m, -layout_lines(m)); return true;
    case TUI_PAGE_DOWN: move_line(m, layout_lines(m)); return true;
    case TUI_FIRST: move_end(m, 0); return true;
    case TUI_LAST: move_end(m, m->data->n_token - 1); return true;
    case TUI_CLICK: click(m, c); return true;
    case TUI_ENTER:
        if (m->width < 60 || m->height < 16)
            tui_say(m, "the card of a token needs 60x16");
        else
            m->card = !m->card;
        return true;
    default: return false;
    }
}
