/* help.c - every key, every state and the words of the screens, from the tables. */
#include <stdio.h>
#include <string.h>

#include "analyze/marks.h"
#include "base/version.h"
#include "kvt/policy.h"
#include "tui/ui.h"

enum { KEYS_WIDTH = 16, NAME_WIDTH = 23, WIDE = 100 };

/* A column of the page; lines outside of [first, last) of the grid are only counted. */
typedef struct page {
    grid *g;
    int top, y, first, last;
    int column, width;
} page;

static void put(page *p, int x, grid_style style, const char *text)
{
    int y = p->first + p->y - p->top;
    if (y >= p->first && y < p->last)
        grid_text(p->g, y, p->column + x, style, text, p->width - x);
}

/* Over as many lines as it takes; ends on the line behind. */
static void put_wrapped(page *p, int x, const char *text)
{
    char line[256];
    while (ui_wrap(&text, line, sizeof line, p->width - x)) {
        put(p, x, GRID_PLAIN, line);
        p->y++;
    }
}

static void draw_group(page *p, const char *group)
{
    put(p, 1, GRID_BOLD, group);
    p->y++;
    for (int i = 0; i < TUI_KEY_COUNT; i++) {
        const tui_key_info *k = &tui_keys()[i];
        if (strcmp(k->group, group) != 0)
            continue;
        put(p, 2, GRID_PLAIN, k->keys);
        put_wrapped(p, KEYS_WIDTH, k->help);
    }
    p->y++;
}

/* Groups from..to of the table, to not included. */
static void draw_groups(page *p, int from, int to)
{
    const char *seen = "";
    for (int i = 0, at = -1; i < TUI_KEY_COUNT; i++)
        if (strcmp(tui_keys()[i].group, seen) != 0) {
            seen = tui_keys()[i].group;
            at++;
            if (at >= from && at < to)
                draw_group(p, seen);
        }
}

/* Two columns where there is room. */
static void draw_keys(page *p)
{
    enum { LEFT = 4, ALL = 100 };
    page right = *p;
    if (p->width < WIDE - 2) {
        draw_groups(p, 0, ALL);
        return;
    }
    p->width = right.width = p->width / 2;
    right.column = p->width;
    draw_groups(p, 0, LEFT);
    draw_groups(&right, LEFT, ALL);
    p->width *= 2;
    p->y = p->y > right.y ? p->y : right.y;
}

static void draw_words(page *p)
{
    static const char *const words[][2] = {
        {"lost mass",
         "share of the full attention that falls on tokens no longer in the cache"},
        {"regret", "lost mass minus that of the oracle with as many slots in each lane"},
        {"oracle", "the set that one would keep who knew the response, at the same budget"},
        {"lane", "the cache of one kv head of one layer, written L13 G2"},
        {"budget", "slots a lane may hold, sinks and window included; what is kept"},
        {"10%!", "some lane kept something else than asked; the budget audit counts them"}};
    char text[160];
    bool narrow = p->width < 60;
    put(p, 1, GRID_BOLD, "States of tokens");
    p->y++;
    for (int i = MARK_COUNT - 1; i >= 0; i--) {
        const mark_kind *k = mark_kind_of((mark)i);
        snprintf(text, sizeof text, "%c", k->letter);
        put(p, 2, k->style, text);
        put(p, 4, k->style, k->name);
        p->y += narrow;
        put_wrapped(p, narrow ? 6 : NAME_WIDTH, k->help);
    }
    p->y++;
    put(p, 1, GRID_BOLD, "Words");
    p->y++;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        put(p, 2, GRID_PLAIN, words[i][0]);
        p->y += narrow;
        put_wrapped(p, narrow ? 6 : NAME_WIDTH, words[i][1]);
    }
    p->y++;
    put(p, 1, GRID_BOLD, "What a number is worth");
    p->y++;
    for (int e = 0; e < KVT_NOT_REPLAYABLE; e++) {
        put(p, 2, GRID_PLAIN, kvt_exactness_name((kvt_exactness)e));
        p->y += narrow;
        put_wrapped(p, narrow ? 6 : NAME_WIDTH, kvt_exactness_help((kvt_exactness)e));
    }
    p->y++;
    snprintf(text, sizeof text,
             "kvt %s   man kvt-tui   the mouse selects; --no-mouse leaves it to the terminal",
             version_text());
    put_wrapped(p, 1, text);
}

/* The page as a whole, in a grid or only counted: its lines. */
static int draw_page(const tui_model *m, grid *g, int first, int last)
{
    page p = {.g = g, .top = m->help_top, .first = first, .last = last, .width = m->width - 1};
    draw_keys(&p);
    draw_words(&p);
    return p.y;
}

static int rows_of(const tui_model *m)
{
    return m->height - 4;
}

void screen_help_draw(const tui_model *m, grid *g)
{
    char right[64];
    int n = draw_page(m, g, 2, g->height - 2);
    ui_title(m, g, "help", "");
    grid_fill(g, 0, 0, g->width, GRID_TITLE, ' ');
    grid_text(g, 0, 1, GRID_TITLE, "kvt  help", -1);
    snprintf(right, sizeof right, "lines %d-%d of %d ", m->help_top + 1,
             m->help_top + rows_of(m) < n ? m->help_top + rows_of(m) : n, n);
    grid_right(g, 0, GRID_TITLE, right);
    ui_message(m, g, g->height - 2, "");
    ui_keys(m, g, g->height - 1);
}

static int length(const tui_model *m)
{
    grid none = {0};
    return draw_page(m, &none, 0, 0);
}

static void scroll(tui_model *m, int by)
{
    int most = length(m) - rows_of(m), to = m->help_top + by;
    most = most < 0 ? 0 : most;
    to = to < 0 ? 0 : to > most ? most : to;
    if (to == m->help_top)
        tui_say(m, by < 0 ? "the help begins here" : "the help ends here");
    m->help_top = to;
}

bool screen_help_act(tui_model *m, const tui_command *c)
{
    switch (c->what) {
    case TUI_UP: scroll(m, -1); return true;
    case TUI_DOWN: scroll(m, 1); return true;
    case TUI_PAGE_UP: scroll(m, -rows_of(m)); return true;
    case TUI_PAGE_DOWN: scroll(m, rows_of(m)); return true;
    case TUI_FIRST: scroll(m, -10000); return true;
    case TUI_LAST: scroll(m, 10000); return true;
    default: return false;
    }
}
