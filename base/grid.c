/* grid.c - a buffer of terminal cells. Drawing outside of it is cut, never an error. */
#include "base/grid.h"

#include "base/text.h"
#include "kvt/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One letter a style in dumps; a selected cell has the upper-case letter, or '#'. */
static const char letters[] = ".bdrtpvhsnowx0123456789";
_Static_assert(sizeof letters == GRID_STYLE_COUNT + 1, "a letter for each style");

static grid_cell *at(const grid *g, int y, int x)
{
    if (y < 0 || y >= g->height || x < 0 || x >= g->width)
        return NULL;
    return &g->cell[(int64_t)y * g->width + x];
}

static void blank(grid_cell *c, grid_style style)
{
    *c = (grid_cell){.cp = {' '}, .style = (uint8_t)style};
}

kvt_code grid_init(grid *g, int width, int height, bool ascii, kvt_err *err)
{
    *g = (grid){
        .width = width > 0 ? width : 0, .height = height > 0 ? height : 0, .ascii = ascii};
    g->cell = kvt_alloc((int64_t)g->width * g->height, sizeof *g->cell);
    if (!g->cell)
        return kvt_fail_memory(err, (size_t)g->width * (size_t)g->height * sizeof *g->cell);
    grid_clear(g);
    return KVT_OK;
}

void grid_fini(grid *g)
{
    kvt_free(g->cell);
    *g = (grid){0};
}

void grid_clear(grid *g)
{
    for (int64_t i = 0; i < (int64_t)g->width * g->height; i++)
        blank(&g->cell[i], GRID_PLAIN);
}

/* Writes a cell of `width` columns; a wide character whose other half is written over becomes
 * blank, and one that has no room for its right half, too. */
static void set(grid *g, int y, int x, grid_style style, const uint32_t cp[3], int width)
{
    grid_cell *c = at(g, y, x), *left = at(g, y, x - 1), *right = at(g, y, x + width);
    if (!c)
        return;
    if (c->cp[0] == 0 && left)
        blank(left, left->style);
    if (right && right->cp[0] == 0)
        blank(right, right->style);
    grid_cell *half = width == 2 ? at(g, y, x + 1) : NULL;
    if (width == 2 && !half) {
        blank(c, style);
        return;
    }
    *c = (grid_cell){.cp = {cp[0], cp[1], cp[2]}, .style = (uint8_t)style};
    if (half)
        *half = (grid_cell){.style = (uint8_t)style};
}

/* One code point in what an ASCII grid may show. */
static uint32_t ascii_of(uint32_t cp)
{
    switch (cp) {
    case 0x2500: return '-';
    case 0x2502: return '|';
    case 0x2026: return '.';
    case 0x00b7: return '.';
    default: break;
    }
    if (cp >= 0x2500 && cp < 0x2580)
        return '+';
    return cp < 0x80 ? cp : '?';
}

void grid_put(grid *g, int y, int x, grid_style style, uint32_t cp)
{
    char name[16];
    if (text_classify(cp, name) != TEXT_PLAIN)
        cp = '?';
    uint32_t cell[3] = {g->ascii ? ascii_of(cp) : cp};
    set(g, y, x, style, cell, !g->ascii && text_width(cp) > 1 ? 2 : 1);
}

int grid_text(grid *g, int y, int x, grid_style style, const char *text, int max)
{
    size_t n = strlen(text), i = 0;
    int end = max < 0 || max > g->width - x ? g->width : x + max;
    while (i < n && x < end) {
        uint32_t cp[3];
        int width;
        i += text_cell(text + i, n - i, cp, &width);
        int each = width;
        if (g->ascii &&
            cp[0] >= 0x80) { /* "??" for a wide one: what follows stays in its place */
            cp[0] = ascii_of(cp[0]);
            cp[1] = cp[2] = 0;
            each = 1;
        }
        char name[16];
        if (cp[0] < 0x20 || cp[0] == 0x7f || text_classify(cp[0], name) == TEXT_NAMED)
            cp[0] = '?';
        if (x + width > end)
            break;
        for (int next = x + width; x < next; x += each)
            set(g, y, x, style, cp, each);
    }
    return x;
}

int grid_printf(grid *g, int y, int x, grid_style style, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return grid_text(g, y, x, style, text, -1);
}

void grid_right(grid *g, int y, grid_style style, const char *text)
{
    int x = g->width - text_columns(text);
    grid_text(g, y, x > 0 ? x : 0, style, text, -1);
}

void grid_fill(grid *g, int y, int x, int n, grid_style style, uint32_t cp)
{
    int width = text_width(cp) > 1 ? 2 : 1;
    for (int i = 0; i + width <= n && x + i < g->width; i += width)
        grid_put(g, y, x + i, style, cp);
}

void grid_select(grid *g, int y, int x, int n)
{
    for (int i = 0; i < n && x + i < g->width; i++) {
        grid_cell *c = at(g, y, x + i);
        if (c)
            c->selected = true;
    }
}

void grid_restyle(grid *g, int y, int x, int n, grid_style style)
{
    for (int i = 0; i < n && x + i < g->width; i++) {
        grid_cell *c = at(g, y, x + i);
        if (c)
            c->style = (uint8_t)style;
    }
}

void grid_box(grid *g, int y, int x, int height, int width, const char *title)
{
    for (int i = 0; i < height; i++) {
        bool edge = i == 0 || i == height - 1;
        grid_fill(g, y + i, x, width, GRID_PLAIN, edge ? 0x2500 : ' ');
        uint32_t left = i == 0 ? 0x250c : edge ? 0x2514 : 0x2502;
        uint32_t right = i == 0 ? 0x2510 : edge ? 0x2518 : 0x2502;
        grid_put(g, y + i, x, GRID_PLAIN, left);
        grid_put(g, y + i, x + width - 1, GRID_PLAIN, right);
    }
    if (title && title[0] && width > 6) {
        int end = grid_text(g, y, x + 3, GRID_TITLE, title, width - 6);
        grid_put(g, y, x + 2, GRID_PLAIN, ' ');
        grid_put(g, y, end, GRID_PLAIN, ' ');
    }
}

static void dump_cell(const grid_cell *c, buf *out)
{
    for (int i = 0; i < 3 && c->cp[i]; i++) {
        char bytes[4];
        buf_add(out, bytes, (size_t)text_encode(bytes, c->cp[i]));
    }
}

static char letter_of(const grid_cell *c)
{
    char l = letters[c->style];
    if (!c->selected)
        return l;
    return l >= 'a' && l <= 'z' ? (char)(l - 'a' + 'A') : '#';
}

void grid_dump(const grid *g, buf *out, bool attributes)
{
    for (int y = 0; y < g->height; y++) {
        int end = g->width;
        while (end > 0 && at(g, y, end - 1)->cp[0] == ' ' && !at(g, y, end - 1)->cp[1])
            end--;
        for (int x = 0; x < end; x++)
            dump_cell(at(g, y, x), out);
        buf_char(out, '\n');
    }
    for (int y = 0; attributes && y < g->height; y++) {
        int end = g->width;
        while (end > 0 && letter_of(at(g, y, end - 1)) == '.')
            end--;
        for (int x = 0; x < end; x++)
            buf_char(out, letter_of(at(g, y, x)));
        buf_char(out, '\n');
    }
}
