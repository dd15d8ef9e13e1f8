/* traces.c - the list of traces, where several were given. */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "tui/ui.h"

enum { LINE = 512, NAME = 26, MODEL = 18 };

static int rows_of(const tui_model *m)
{
    return m->height - 5;
}

static void draw_file(grid *g, int y, const tui_file *f, bool here)
{
    char name[LINE], model[LINE], size[32];
    text_safe_cut(name, sizeof name, (const uint8_t *)f->name, strlen(f->name), NAME, g->ascii);
    grid_put(g, y, 1, GRID_BOLD, here ? '>' : f->problem[0] ? '!' : ' ');
    grid_text(g, y, 3, here ? GRID_BOLD : GRID_PLAIN, name, NAME);
    if (f->problem[0]) {
        text_safe_cut(model, sizeof model, (const uint8_t *)f->problem, strlen(f->problem),
                      g->width - NAME - 6, g->ascii);
        grid_text(g, y, NAME + 4, GRID_WARN, model, -1);
    } else {
        text_safe_cut(model, sizeof model, (const uint8_t *)f->model, strlen(f->model), MODEL,
                      g->ascii);
        grid_text(g, y, NAME + 4, GRID_PLAIN, model, MODEL);
        int x = NAME + 4 + MODEL;
        if (g->width >= 78)
            grid_printf(g, y, x, GRID_PLAIN, " %6lld %4lld %7lld %7lld", (long long)f->n_layer,
                        (long long)f->n_kv_head, (long long)f->n_prompt,
                        (long long)f->n_response);
        if (g->width >= 90)
            grid_printf(g, y, x + 28, GRID_PLAIN, " %10s",
                        size_print(f->bytes, size, sizeof size));
    }
    if (here)
        grid_select(g, y, 0, g->width);
}

void screen_traces_draw(const tui_model *m, grid *g)
{
    char right[64];
    int rows = rows_of(m), first = m->file_at < rows ? 0 : m->file_at - rows + 1;
    grid_fill(g, 0, 0, g->width, GRID_TITLE, ' ');
    grid_text(g, 0, 1, GRID_TITLE, "kvt  traces", -1);
    snprintf(right, sizeof right, "%d traces ", m->n_file);
    grid_right(g, 0, GRID_TITLE, right);
    ui_tabs(m, g, 1, "");
    grid_text(g, 2, 3, GRID_BOLD, "TRACE", -1);
    grid_text(g, 2, NAME + 4, GRID_BOLD, "MODEL", -1);
    if (g->width >= 78)
        grid_text(g, 2, NAME + 4 + MODEL, GRID_BOLD, " LAYERS  KVH  PROMPT  DECODE", -1);
    if (g->width >= 90)
        grid_text(g, 2, NAME + 4 + MODEL + 28, GRID_BOLD, "       SIZE", -1);
    for (int i = 0; i < rows && first + i < m->n_file; i++)
        draw_file(g, 3 + i, &m->file[first + i], first + i == m->file_at);
    ui_message(m, g, g->height - 2, m->n_file ? m->file[m->file_at].path : "");
    ui_keys(m, g, g->height - 1);
}

static void move(tui_model *m, int by)
{
    int to = m->file_at + by, last = m->n_file - 1;
    to = to < 0 ? 0 : to > last ? last : to;
    if (to == m->file_at)
        tui_say(m, "the list ends here");
    m->file_at = to;
}

bool screen_traces_act(tui_model *m, const tui_command *c)
{
    switch (c->what) {
    case TUI_UP: move(m, -1); return true;
    case TUI_DOWN: move(m, 1); return true;
    case TUI_PAGE_UP: move(m, -rows_of(m)); return true;
    case TUI_PAGE_DOWN: move(m, rows_of(m)); return true;
    case TUI_FIRST: move(m, -m->n_file); return true;
    case TUI_LAST: move(m, m->n_file); return true;
    case TUI_LEFT:
    case TUI_RIGHT: tui_say(m, "a list has no columns to move in"); return true;
    case TUI_CLICK: {
        int rows = rows_of(m), first = m->file_at < rows ? 0 : m->file_at - rows + 1;
        int at = first + (int)c->n - 3;
        if (c->n >= 3 && c->n < 3 + rows && at < m->n_file)
            m->file_at = at;
        return true;
    }
    case TUI_ENTER:
        if (m->file[m->file_at].problem[0])
            tui_say(m, "%s", m->file[m->file_at].problem);
        else
            m->want = TUI_WANT_OPEN;
        return true;
    default: return false;
    }
}
