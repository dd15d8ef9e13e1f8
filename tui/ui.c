/* ui.c - what several screens draw. */
#include "tui/ui.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/marks.h"
#include "base/text.h"

enum { LINE = 512 };

uint32_t ui_ramp(const grid *g, int level)
{
    return g->ascii ? (uint32_t)(unsigned char)mark_ramp(level) : mark_block(level);
}

void ui_share(double x, char out[8])
{
    if (isnan(x))
        snprintf(out, 8, " - ");
    else if (isinf(x))
        snprintf(out, 8, "inf");
    else if (fabs(x) < 0.995)
        snprintf(out, 8, ".%02d", (int)(fabs(x) * 100 + 0.5));
    else if (fabs(x) < 9.95)
        snprintf(out, 8, "%.1f", fabs(x));
    else
        snprintf(out, 8, "%3.0f", fmin(fabs(x), 999));
}

const char *ui_loss(double x, char out[16])
{
    if (isnan(x))
        snprintf(out, 16, "-");
    else
        snprintf(out, 16, "%.3f", x);
    return out;
}

const char *ui_token(const tui_model *m, int64_t token, char *out, size_t cap, int columns)
{
    char text[LINE];
    tui_data_token(m->data, token, text, sizeof text, columns > 2 ? columns - 2 : 1, m->ascii);
    snprintf(out, cap, "\"%s\"", text);
    return out;
}

int ui_text(grid *g, int y, int x, grid_style style, const char *text, int max)
{
    char safe[LINE];
    if (max <= 0)
        return x;
    text_safe_cut(safe, sizeof safe, (const uint8_t *)text, strlen(text), max, g->ascii);
    return grid_text(g, y, x, style, safe, max);
}

bool ui_wrap(const char **text, char *line, size_t cap, int columns)
{
    const char *from = *text, *at = from, *blank = NULL;
    int used = 0;
    while (*at) {
        uint32_t cp[3];
        int width;
        size_t n = text_cell(at, strlen(at), cp, &width);
        if (used + width > columns || (size_t)(at - from) + n >= cap)
            break;
        if (*at == ' ')
            blank = at;
        used += width;
        at += n;
    }
    if (at == from)
        return false;
    const char *end = *at && *at != ' ' && blank && blank > from ? blank : at;
    memcpy(line, from, (size_t)(end - from));
    line[end - from] = 0;
    *text = end + strspn(end, " ");
    return true;
}

/* Any text over several rows; returns the row behind. */
static int draw_wrapped(grid *g, int y, int x, grid_style style, const char *text)
{
    buf safe;
    char line[LINE];
    buf_init(&safe, 1 << 16);
    text_safe(&safe, (const uint8_t *)text, strlen(text), g->ascii);
    const char *at = buf_get(&safe);
    while (y < g->height - 2 && ui_wrap(&at, line, sizeof line, g->width - x - 2))
        grid_text(g, y++, x, style, line, -1);
    buf_fini(&safe);
    return y;
}

/* Lanes where something else was kept than asked. */
static bool audit_fails(const tui_model *m)
{
    for (int a = 0; m->r && a < m->r->n_layer * m->r->n_lane; a++) {
        const char *flag = tui_data_lane(m->r, m->cell, 0, a)->flag;
        if (strcmp(flag, "over") == 0 || strcmp(flag, "under") == 0 ||
            strcmp(flag, "empty") == 0)
            return true;
    }
    return false;
}

void ui_title(const tui_model *m, grid *g, const char *path, const char *right)
{
    char context[LINE] = "", safe[LINE], policy[64] = "", left[LINE];
    const tui_data *d = m->data;
    grid_fill(g, 0, 0, g->width, GRID_TITLE, ' ');
    if (d && d->n_policy) {
        const tui_policy *p = &d->policy[m->policy];
        text_safe_cut(policy, sizeof policy, (const uint8_t *)p->label, strlen(p->label),
                      g->width < 60 ? 14 : 30, g->ascii);
        const char *bad = audit_fails(m) ? "!" : "", *budget = d->budget[m->budget].text;
        if (g->width < 72)
            snprintf(context, sizeof context, "%s %s%s %s", policy, budget, bad, right);
        else
            snprintf(context, sizeof context, "%s (%s)  %s%s  %s", policy, p->exactness, budget,
                     bad, right);
    } else {
        snprintf(context, sizeof context, "%s", right);
    }
    text_safe_cut(safe, sizeof safe, (const uint8_t *)context, strlen(context), g->width - 12,
                  g->ascii);
    int end = g->width - text_columns(safe) - 1;
    snprintf(left, sizeof left, g->width < 60 ? "%s" : "kvt  %s", path);
    ui_text(g, 0, 1, GRID_TITLE, left, end - 2);
    grid_text(g, 0, end, GRID_TITLE, safe, -1);
}

void ui_tabs(const tui_model *m, grid *g, int y, const char *right)
{
    char tab[64];
    int x = 1;
    if (y < 0)
        return;
    for (int i = 0; i < TUI_SCREENS; i++) {
        const tui_screen *s = tui_screen_of((tui_where)i);
        bool here = tui_at(m) == (tui_where)i;
        if (!s->key || (i == TUI_ON_traces && m->n_file < 2))
            continue;
        snprintf(tab, sizeof tab, here ? "[%c %s]" : " %c %s ", s->key, s->title);
        x = grid_text(g, y, x, here ? GRID_BOLD : GRID_PLAIN, tab, -1) + 1;
    }
    grid_right(g, y, GRID_PLAIN, right);
}

void ui_rule(grid *g, int y, const char *title)
{
    if (y < 0)
        return;
    grid_fill(g, y, 0, g->width, GRID_PLAIN, 0x2500);
    if (title[0]) {
        int end = grid_text(g, y, 3, GRID_BOLD, title, g->width - 6);
        grid_put(g, y, 2, GRID_PLAIN, ' ');
        grid_put(g, y, end, GRID_PLAIN, ' ');
    }
}

void ui_message(const tui_model *m, grid *g, int y, const char *idle)
{
    if (y < 0)
        return;
    if (m->message[0]) {
        grid_fill(g, y, 0, g->width, GRID_PLAIN, ' ');
        ui_text(g, y, 1, GRID_BOLD, m->message, g->width - 2);
    } else if (idle[0]) {
        ui_text(g, y, 1, GRID_PLAIN, idle, g->width - 2);
    }
}

void ui_keys(const tui_model *m, grid *g, int y)
{
    const tui_key_info *keys = tui_keys(), *help = &keys[TUI_HELP];
    char letter = tui_screen_of(tui_at(m))->letter;
    int room = g->width - 1 - (strchr(help->screens, letter) ? (int)strlen(help->foot) + 1 : 0);
    int x = 1, shown = 0, most = g->width < 100 ? 6 : 99;
    for (int place = 1; place < 99; place++)
        for (int i = 0; i < TUI_KEY_COUNT; i++) {
            int n = (int)strlen(keys[i].foot);
            if (keys[i].place != place || !strchr(keys[i].screens, letter) || n == 0 ||
                x + n > room || shown == most)
                continue;
            x = grid_text(g, y, x, GRID_PLAIN, keys[i].foot, -1) + 2;
            shown++;
        }
    if (strchr(help->screens, letter))
        grid_text(g, y, x, GRID_PLAIN, help->foot, -1);
}

int ui_missing(const tui_model *m, grid *g, int y)
{
    char line[2 * LINE];
    const tui_data *d = m->data;
    int cell;
    if (!d->n_policy) {
        y = draw_wrapped(g, y, 2, GRID_BOLD, "no results for this trace; R computes some");
        snprintf(line, sizeof line, "kvt replay %.900s", d->path);
        y = draw_wrapped(g, y, 2, GRID_PLAIN, line);
        return y;
    }
    const char *policy = d->policy[m->policy].label, *budget = d->budget[m->budget].text;
    const kvt_result *r = tui_data_cell(d, m->policy, m->budget, &cell);
    snprintf(line, sizeof line, "%s at %s was not computed for this trace", policy, budget);
    if (r && strcmp(r->cell[cell].status, "ok") != 0)
        snprintf(line, sizeof line, "%s at %s was %s: %s", policy, budget, r->cell[cell].status,
                 r->cell[cell].error);
    y = draw_wrapped(g, y, 2, GRID_BOLD, line);
    snprintf(line, sizeof line, "kvt replay %.400s -p %.511s -b %.31s", d->path,
             d->policy[m->policy].of->policy_text, budget);
    y = draw_wrapped(g, y, 2, GRID_PLAIN, line);
    bool skipped = r && strcmp(r->cell[cell].status, "skipped") == 0;
    return draw_wrapped(g, y, 2, GRID_PLAIN,
                        skipped ? "p and b show other results"
                                : "R runs it now; p and b show other results");
}
