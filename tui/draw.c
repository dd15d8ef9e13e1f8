/* draw.c - a model into a grid: the screen at hand, or that the window is too small; and the
 * line that is being typed. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tui/ui.h"

static void draw_too_small(const tui_model *m, grid *g)
{
    char line[128];
    int y = 0;
    snprintf(line, sizeof line, "terminal is %dx%d", m->width, m->height);
    grid_text(g, y++, 0, GRID_BOLD, line, -1);
    snprintf(line, sizeof line, "kvt needs at least %dx%d", TUI_WIDTH_LEAST, TUI_HEIGHT_LEAST);
    grid_text(g, y++, 0, GRID_PLAIN, line, -1);
    grid_text(g, y++, 0, GRID_PLAIN, "make it larger, or use:", -1);
    if (m->r)
        snprintf(line, sizeof line, "  kvt show TRACE --lane %d:%d",
                 (int)m->r->layer_id[m->layer], m->lane);
    else
        snprintf(line, sizeof line, "  kvt show TRACE");
    grid_text(g, y++, 0, GRID_PLAIN, line, -1);
    grid_text(g, y++, 0, GRID_PLAIN, "q quit", -1);
}

/* The end of a long line is what is being typed. */
static void draw_input(const tui_model *m, grid *g)
{
    char safe[2 * TUI_TEXT_MAX * 8];
    int y = m->width < 60 || m->height < 16 ? m->height - 1 : m->height - 2;
    buf b;
    buf_init(&b, sizeof safe - 1);
    text_safe(&b, (const uint8_t *)m->input, strlen(m->input), g->ascii);
    const char *at = buf_get(&b);
    int room = g->width - 4;
    while (text_columns(at) > room) {
        uint32_t cp[3];
        int width;
        at += text_cell(at, strlen(at), cp, &width);
    }
    grid_fill(g, y, 0, g->width, GRID_BOLD, ' ');
    grid_put(g, y, 1, GRID_BOLD, (uint32_t)(unsigned char)m->input_kind);
    int x = grid_text(g, y, 2, GRID_BOLD, at, room);
    grid_put(g, y, x, GRID_REVERSE, '_');
    buf_fini(&b);
}

void tui_draw(const tui_model *m, grid *g)
{
    grid_clear(g);
    if (!tui_fits(m)) {
        draw_too_small(m, g);
        return;
    }
    tui_screen_of(tui_at(m))->draw(m, g);
    if (m->input_kind)
        draw_input(m, g);
}
