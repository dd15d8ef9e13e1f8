/* flow.c - tokens as flowing text. */
#include "tui/flow.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "kvt/arena.h"

enum { CUT_BYTES = 4096 };

typedef struct maker {
    flow *f;
    const tui_data *d;
    int64_t piece_room, line_room;
    int column;
    int64_t spill; /* end of a character that began in an earlier token */
} maker;

static bool grow(void **array, int64_t n, int64_t *room, size_t size)
{
    if (n < *room)
        return true;
    int64_t more = *room ? 2 * *room : 1024;
    void *bigger = kvt_resize(*array, *room, more, size);
    if (!bigger)
        return false;
    *array = bigger;
    *room = more;
    return true;
}

static bool new_line(maker *k)
{
    flow *f = k->f;
    void *lines = f->line;
    bool ok = grow(&lines, f->n_line + 1, &k->line_room, sizeof *f->line);
    f->line = lines;
    if (!ok)
        return false;
    f->line[f->n_line++] = f->n_piece;
    k->column = 0;
    return true;
}

static bool add(maker *k, int64_t token, const char *text, int width, bool newline)
{
    flow *f = k->f;
    if (!newline && k->column > 0 && k->column + width > f->width && !new_line(k))
        return false;
    void *pieces = f->piece;
    bool ok = grow(&pieces, f->n_piece, &k->piece_room, sizeof *f->piece);
    f->piece = pieces;
    if (!ok)
        return false;
    f->piece[f->n_piece++] = (flow_piece){.at = (int64_t)f->text.n,
                                          .token = (int32_t)token,
                                          .bytes = (int32_t)strlen(text),
                                          .column = k->column,
                                          .width = width,
                                          .newline = newline};
    buf_text(&f->text, text);
    k->column += width;
    return !newline || new_line(k);
}

static bool is_plain(const uint8_t *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (s[i] < 0x20 || s[i] > 0x7e)
            return false;
    return true;
}

/* [begin, end) without a newline, as one piece that is cut at the window's width. */
static bool add_run(maker *k, int64_t token, int64_t begin, int64_t end, bool dotted)
{
    char text[CUT_BYTES], *at = text;
    const uint8_t *bytes = k->d->text + begin;
    int64_t n = end - begin;
    int room = k->f->width - (dotted ? 1 : 0);
    if (!dotted && n > 0 && n <= room && n < CUT_BYTES && is_plain(bytes, n)) {
        memcpy(text, bytes, (size_t)n); /* nearly every token: nothing to make safe */
        text[n] = 0;
        return add(k, token, text, (int)n, false);
    }
    if (dotted)
        at += snprintf(text, sizeof text, "%s", k->f->ascii ? "." : "\u00b7");
    text_safe_cut(at, sizeof text - (size_t)(at - text), bytes, (size_t)n, room, k->f->ascii);
    int width = text_columns(text);
    if (width == 0) { /* no bytes, or nothing of them fits: still a place for the cursor */
        snprintf(text, sizeof text, " ");
        width = 1;
    }
    return add(k, token, text, width, false);
}

/* Where a character begins before `end` and ends behind it: its end, else `end`. */
static int64_t through(const tui_data *d, int64_t begin, int64_t end)
{
    int64_t all = d->offset[d->n_token];
    for (int64_t k = end - 1; k >= begin && k > end - 4; k--) {
        uint32_t cp;
        int len = text_decode(&cp, d->text + k, (size_t)(all - k));
        if (len)
            return k + len > end ? k + len : end;
    }
    return end;
}

static bool add_token(maker *k, int64_t token)
{
    const tui_data *d = k->d;
    int64_t begin = d->offset[token], end = d->offset[token + 1];
    char name[32];
    if (d->no_text) {
        snprintf(name, sizeof name, k->f->width > 1 ? "#%d " : " ", (int)d->id[token]);
        int width = (int)strlen(name);
        if (width > k->f->width)
            name[width = k->f->width] = 0;
        return add(k, token, name, width, false);
    }
    bool dotted = k->spill > begin;
    begin = k->spill > begin ? (k->spill < end ? k->spill : end) : begin;
    int64_t last = begin < end ? through(d, begin, end) : end;
    if (last > k->spill)
        k->spill = last;
    for (bool any = false;; any = true) {
        const uint8_t *at =
            last > begin ? memchr(d->text + begin, '\n', (size_t)(last - begin)) : NULL;
        int64_t stop = at ? at - d->text : last;
        if ((stop > begin || dotted || (!any && !at)) &&
            !add_run(k, token, begin, stop, dotted))
            return false;
        dotted = false;
        if (!at)
            return true;
        if (!add(k, token, k->f->ascii ? "~" : "\u00b6", 1, true))
            return false;
        begin = stop + 1;
        if (begin == last)
            return true;
    }
}

kvt_code flow_make(flow *f, const tui_data *d, int width, bool ascii, kvt_err *err)
{
    flow_fini(f);
    maker k = {.f = f, .d = d};
    f->width = width < 1 ? 1 : width;
    f->ascii = ascii;
    buf_init(&f->text, (size_t)1 << 34);
    f->first = kvt_alloc(d->n_token + 1, sizeof *f->first);
    bool ok = f->first && new_line(&k);
    for (int64_t t = 0; ok && t < d->n_token; t++) {
        int64_t before = f->n_piece;
        ok = add_token(&k, t);
        f->first[t] = before;
    }
    void *lines = f->line;
    ok = ok && grow(&lines, f->n_line, &k.line_room, sizeof *f->line);
    f->line = lines;
    if (!ok || f->text.failed) {
        flow_fini(f);
        return kvt_fail_memory(err, (size_t)d->n_token * sizeof(flow_piece));
    }
    f->first[d->n_token] = f->line[f->n_line] = f->n_piece;
    return KVT_OK;
}

void flow_fini(flow *f)
{
    buf_fini(&f->text);
    kvt_free(f->piece);
    kvt_free(f->line);
    kvt_free(f->first);
    *f = (flow){0};
}

int64_t flow_line_of(const flow *f, int64_t token)
{
    int64_t piece = f->first[token], lo = 0, hi = f->n_line - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (f->line[mid] <= piece)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}
