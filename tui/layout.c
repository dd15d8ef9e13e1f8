/* layout.c - where things stand on a screen of a given size. */
#include "tui/layout.h"

enum { SIDE_WIDTH = 38, LABEL_WIDTH = 5, INDEX_WIDTH = 9 };

static bool has_tabs(const tui_model *m)
{
    return m->width >= 90 && m->height >= 26;
}

/* ---- lane -------------------------------------------------------------------------------- */

lane_layout layout_lane(const tui_model *m)
{
    int W = m->width, H = m->height, y = 1;
    bool small = W < 60 || H < 16;
    lane_layout l = {.tabs_y = -1,
                     .map_y = -1,
                     .steps_y = -1,
                     .numbers_y = -1,
                     .rule_y = -1,
                     .legend_y = -1};
    l.full = has_tabs(m);
    l.keys_y = H - 1;
    l.message_y = small ? -1 : H - 2;
    l.legend_y = l.full ? H - 3 : -1;
    l.token_y = small ? H - 2 : l.full ? H - 4 : H - 3;
    if (l.full)
        l.tabs_y = y++;
    if (!small && W >= 72) {
        l.map_y = y;
        y += l.full ? 4 : 2;
        l.steps_y = y;
        y += l.full ? 3 : 1;
    } else if (!small) {
        l.numbers_y = y++;
    }
    if (!small)
        l.rule_y = y++;
    l.text_y = y;
    l.text_rows = l.token_y - (l.full ? 1 : 0) - y;
    l.text_x = W >= 100 ? INDEX_WIDTH : 1;
    l.text_width = W - l.text_x - 1;
    return l;
}

int layout_lines(const tui_model *m)
{
    int rows = layout_lane(m).text_rows;
    int lines = m->markers ? rows / 2 : rows;
    return lines < 1 ? 1 : lines;
}

/* ---- overview ---------------------------------------------------------------------------- */

/* Heads on a row: cells shrink first, then the window moves with the selection. */
static void place_heads(overview_layout *o, const tui_model *m, int room, bool means)
{
    static const struct {
        int cell_width, ink, mean;
    } sizes[] = {{6, 5, 6}, {6, 5, 0}, {3, 2, 0}, {2, 2, 0}, {1, 1, 0}};
    int n = m->r ? m->r->n_lane : 1;
    for (int i = means ? 0 : 1; i < 5; i++) {
        o->cell_width = sizes[i].cell_width;
        o->ink = sizes[i].ink;
        o->mean_width = sizes[i].mean;
        if (LABEL_WIDTH + 1 + n * o->cell_width + o->mean_width <= room)
            break;
    }
    int most = (room - LABEL_WIDTH - 1) / o->cell_width;
    o->n_lane = n < most ? n : most < 1 ? 1 : most;
    o->first_lane = m->lane < o->n_lane ? 0 : m->lane - o->n_lane + 1;
    o->block_width = LABEL_WIDTH + 1 + o->n_lane * o->cell_width + o->mean_width + 1;
}

/* Layers: in one block while they fit, else in blocks side by side, else a window of them. */
static void place_layers(overview_layout *o, const tui_model *m, int room)
{
    int n = m->r ? m->r->n_layer : 1, rows = o->map_rows < 1 ? 1 : o->map_rows;
    int most = room / o->block_width < 1 ? 1 : room / o->block_width;
    o->n_block = 1;
    while (o->n_block < most && o->n_block * rows < n)
        o->n_block++;
    o->per_block = (n + o->n_block - 1) / o->n_block;
    if (o->per_block > rows)
        o->per_block = rows;
    int shown = o->per_block * o->n_block;
    o->first_layer = 0;
    if (shown < n) {
        o->first_layer = m->layer - shown / 2;
        if (o->first_layer > n - shown)
            o->first_layer = n - shown;
        if (o->first_layer < 0)
            o->first_layer = 0;
    }
    o->map_rows = o->per_block;
}

overview_layout layout_overview(const tui_model *m)
{
    int W = m->width, H = m->height, y = 1;
    bool small = W < 60 || H < 16, tabs = has_tabs(m);
    overview_layout o = {
        .tabs_y = -1, .worst_y = -1, .side_x = -1, .rule_y = -1, .scale_y = -1};
    o.keys_y = H - 1;
    o.message_y = H - 2;
    if (tabs)
        o.tabs_y = y++;
    o.head_y = y++;
    o.map_y = y;
    int bottom = o.message_y; /* first row below what is free */
    if (!small)
        o.scale_y = --bottom;
    o.detail_rows = small ? (H >= 12 ? 2 : 1) : 4;
    o.detail_y = bottom -= o.detail_rows;
    if (!small)
        o.rule_y = --bottom;
    bool side = W >= 100;
    if (!side && H >= 20)
        o.worst_y = --bottom;
    o.mean_row = H >= 20;
    int room = W - (side ? SIDE_WIDTH + 2 : 0);
    o.map_rows = bottom - y - o.mean_row;
    int n = m->r ? m->r->n_layer : 1, rows = o.map_rows;
    place_heads(&o, m, room, true);
    place_layers(&o, m, room);
    if (o.per_block * o.n_block < n) { /* the layers are worth more than their means */
        o.map_rows = rows;
        place_heads(&o, m, room, false);
        place_layers(&o, m, room);
    }
    /* All layers in one block have a row of means below them; blocks have none. */
    if (o.n_block > 1 || o.per_block < n)
        o.mean_row = false;
    if (side) {
        o.side_x = o.n_block * o.block_width + 1;
        if (o.side_x < W - SIDE_WIDTH - 40)
            o.side_x = o.side_x < 60 ? 60 : o.side_x;
        o.side_rows = bottom - o.head_y;
    }
    return o;
}
