/* card.c - the card of a token: its whole text, why it went, when the lane missed it. */
#include "tui/card.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tui/ui.h"

enum { LINE = 512, LABEL = 14, TEXT_ROWS = 4, TEXT_BYTES = 1 << 16 };

typedef struct card {
    const tui_model *m;
    grid *g;
    int y, x, width;
} card;

static void row(card *c, const char *label, const char *text)
{
    grid_text(c->g, c->y, c->x + 2, GRID_BOLD, label, LABEL - 2);
    grid_text(c->g, c->y++, c->x + LABEL, GRID_PLAIN, text, c->width - LABEL - 2);
}

/* The whole text, over as many rows as there are; what is longer is counted. */
static void draw_text(card *c)
{
    const tui_data *d = c->m->data;
    int64_t begin = d->offset[c->m->token], n = d->offset[c->m->token + 1] - begin;
    int columns = c->width - LABEL - 2;
    buf b;
    if (d->no_text) {
        row(c, "text", "not in the trace (--no-text)");
        return;
    }
    buf_init(&b, TEXT_BYTES);
    buf_char(&b, '"');
    text_safe(&b, d->text + begin, (size_t)n, c->g->ascii);
    buf_char(&b, '"');
    const char *at = buf_get(&b);
    for (int i = 0; i < TEXT_ROWS && *at; i++) {
        const char *from = at;
        char line[4 * LINE];
        int used = 0;
        while (*at) {
            uint32_t cp[3];
            int width;
            size_t step = text_cell(at, strlen(at), cp, &width);
            if (used + width > columns || (size_t)(at - from) + step >= sizeof line)
                break;
            used += width;
            at += step;
        }
        memcpy(line, from, (size_t)(at - from));
        line[at - from] = 0;
        row(c, i == 0 ? "text" : "", line);
    }
    if (*at) {
        char more[64];
        snprintf(more, sizeof more, "... %lld bytes in all", (long long)n);
        row(c, "", more);
    }
    buf_fini(&b);
}

static void draw_identity(card *c)
{
    const tui_data *d = c->m->data;
    int64_t t = c->m->token, begin = d->offset[t], n = d->offset[t + 1] - begin;
    char line[LINE];
    int at = snprintf(line, sizeof line, "%d   bytes", (int)d->id[t]);
    for (int64_t i = 0; i < n && i < 12 && !d->no_text; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, " %02x", d->text[begin + i]);
    if (n > 12)
        snprintf(line + at, sizeof line - (size_t)at, " ...");
    row(c, "id", line);
}

static void draw_decision(card *c)
{
    const lane_view *v = &c->m->view;
    const kvt_result *r = v->r;
    int64_t t = c->m->token, a = (int64_t)v->layer * r->n_lane + v->lane, N = v->n_prompt;
    char line[LINE];
    int at = v->evict[t] < 0
                 ? snprintf(line, sizeof line, "keeps it%s", v->pinned[t] ? " (pinned)" : "")
                 : snprintf(line, sizeof line, "evicts it at step %d%s", (int)v->evict[t],
                            v->evict[t] == 0 ? " (prefill)" : "");
    if (t < N && r->score)
        at += snprintf(line + at, sizeof line - (size_t)at, "   score %.4g",
                       (double)r->score[a * N + t]);
    if (t < N && r->rank)
        at += snprintf(line + at, sizeof line - (size_t)at, "   rank %d of %lld",
                       (int)r->rank[a * N + t] + 1, (long long)N);
    if (r->cut)
        snprintf(line + at, sizeof line - (size_t)at, ", kept to %d",
                 (int)r->cut[(int64_t)v->cell * r->n_layer * r->n_lane + a]);
    row(c, "policy", line);
    if (v->judged[t] < 0)
        row(c, "oracle",
            t < N ? "no result at this budget" : "judges tokens of the prompt only");
    else if (!v->judged[t])
        row(c, "oracle", "drops it");
    else
        row(c, "oracle",
            v->regretted[t] ? "keeps it; one of those that carry 90% of the regret"
                            : "keeps it");
}

/* Attention by step, one column a few steps: what it got, or would have got. */
static void draw_attention(card *c)
{
    const lane_view *v = &c->m->view;
    int64_t M = v->n_response, t = c->m->token;
    char line[LINE];
    int columns = c->width - LABEL - 2;
    columns = M < columns ? (int)M : columns;
    if (!v->rows) {
        row(c, "attention", v->note[0] ? v->note : "no rows");
        return;
    }
    for (int i = 0; i < columns; i++) {
        int64_t a = M * i / columns, b = M * (i + 1) / columns;
        float most = 0;
        bool held = false;
        for (int64_t s = a; s < (b > a ? b : a + 1); s++) {
            float x = v->rows[s * v->n_token + t];
            most = x > most ? x : most;
            held = held || v->evict[t] < 0 || v->evict[t] > s;
        }
        int level = mark_level_root((double)most);
        grid_put(c->g, c->y, c->x + LABEL + i, (grid_style)(GRID_HEAT_0 + level),
                 ui_ramp(c->g, level));
        bool written = t <= v->n_prompt + (b > a ? b - 1 : a);
        grid_put(c->g, c->y + 1, c->x + LABEL + i, GRID_PLAIN,
                 !written ? ' '
                 : held   ? '='
                          : '.');
        if (c->m->step >= a && c->m->step < (b > a ? b : a + 1))
            grid_put(c->g, c->y + 2, c->x + LABEL + i, GRID_BOLD, '^');
    }
    row(c, "attention", "");
    row(c, "in cache", "");
    c->y++;
    snprintf(line, sizeof line, "now %.3f   %s %.3f",
             (double)v->rows[c->m->step * v->n_token + t],
             v->evict[t] >= 0 ? "missed since it left" : "over the response", v->mass[t]);
    row(c, "", line);
}

static void draw_other_heads(card *c)
{
    const lane_view *v = &c->m->view;
    int kept = 0, all = 0, n = v->r->n_layer * v->r->n_lane;
    char line[LINE];
    for (int a = 0; a < n; a++) {
        int32_t e = kvt_result_evict_step(v->r, v->cell, a / v->r->n_lane, a % v->r->n_lane,
                                          c->m->token);
        bool held = e < 0 || e > c->m->step;
        all += held;
        kept += held && a / v->r->n_lane == v->layer;
    }
    snprintf(line, sizeof line, "kept by %d of %d in this layer, %d of %d in all", kept,
             v->r->n_lane, all, n);
    row(c, "lanes", line);
}

void card_draw(const tui_model *m, grid *g)
{
    enum { HEIGHT = 15 };
    char title[64];
    card c = {.m = m, .g = g};
    c.width = g->width - 8 > 78 ? 78 : g->width - 8;
    int height = HEIGHT > g->height - 1 ? g->height - 1 : HEIGHT;
    int top = (g->height - height) / 2;
    c.x = (g->width - c.width) / 2;
    c.y = top + 1;
    snprintf(title, sizeof title, "token %lld", (long long)m->token);
    grid_box(g, top, c.x, height, c.width, title);
    draw_text(&c);
    draw_identity(&c);
    draw_decision(&c);
    draw_attention(&c);
    draw_other_heads(&c);
    grid_text(g, top + height - 1, c.x + 3, GRID_PLAIN, " Esc closes ", -1);
}
