/* show.c - screens as plain text. */
#include "tui/show.h"

#include <stdio.h>
#include <string.h>

kvt_code tui_show_screen(buf *out, const tui_model *m, kvt_err *err)
{
    grid g;
    if (grid_init(&g, m->width, m->height, m->ascii, err))
        return err->code;
    tui_draw(m, &g);
    grid_dump(&g, out, false);
    grid_fini(&g);
    return buf_check(out, err);
}

static void add_title(buf *out, const tui_model *m)
{
    char name[32];
    const tui_data *d = m->data;
    tui_lane_name(m, m->layer, m->lane, name, sizeof name);
    buf_printf(out, "%s  %s (%s)  %s  step %lld/%lld", name, d->policy[m->policy].label,
               d->policy[m->policy].exactness, d->budget[m->budget].text, (long long)m->step,
               (long long)d->n_response);
    if (m->view.lost && d->n_response)
        buf_printf(out, "  lost %.2f", (double)m->view.lost[m->step]);
    buf_char(out, '\n');
}

/* What of a line is asked for; the rest of it is left out, so that columns stay. */
static void add_line(buf *out, const tui_model *m, grid *g, int64_t line, int64_t from,
                     int64_t to, bool markers)
{
    const flow *f = &m->text;
    int64_t first = -1;
    grid_clear(g);
    for (int64_t p = f->line[line]; p < f->line[line + 1]; p++) {
        const flow_piece *piece = &f->piece[p];
        char text[4200];
        if (piece->token < from || piece->token > to)
            continue;
        first = first < 0 ? piece->token : first;
        int n = piece->bytes < (int)sizeof text - 1 ? piece->bytes : (int)sizeof text - 1;
        memcpy(text, f->text.data + piece->at, (size_t)n);
        text[n] = 0;
        grid_text(g, 0, piece->column, GRID_PLAIN, text, piece->width);
        char letter = mark_kind_of(lane_view_mark(&m->view, piece->token, m->step))->letter;
        grid_fill(g, 1, piece->column, piece->width, GRID_PLAIN,
                  (uint32_t)(unsigned char)letter);
    }
    if (first < 0)
        return;
    buf rows;
    buf_init(&rows, 1 << 20);
    grid_dump(g, &rows, false);
    const char *text = buf_get(&rows), *end = strchr(text, '\n');
    buf_printf(out, "%5lld |%.*s\n", (long long)first, (int)(end - text), text);
    if (markers) {
        text = end + 1;
        buf_printf(out, "      |%.*s\n", (int)strcspn(text, "\n"), text);
    }
    buf_fini(&rows);
}

kvt_code tui_show_tokens(buf *out, const tui_model *m, int64_t from, int64_t to, bool markers,
                         kvt_err *err)
{
    int64_t n = m->data->n_token;
    grid g;
    if (from < 0 || from > to || to >= n)
        return kvt_fail(err, KVT_USAGE, "--tokens %lld-%lld: this trace has tokens 0 to %lld",
                        (long long)from, (long long)to, (long long)n - 1);
    if (!m->view.r || !m->text.n_line)
        return kvt_fail(err, KVT_NO, "--tokens: no result to show text by");
    if (grid_init(&g, m->text.width + 1, 2, m->ascii, err))
        return err->code;
    add_title(out, m);
    int64_t last = flow_line_of(&m->text, to);
    while (last + 1 < m->text.n_line && m->text.line[last + 1] < m->text.n_piece &&
           m->text.piece[m->text.line[last + 1]].token <= to)
        last++; /* a token of several lines */
    for (int64_t line = flow_line_of(&m->text, from); line <= last; line++)
        add_line(out, m, &g, line, from, to, markers);
    grid_fini(&g);
    return buf_check(out, err);
}
