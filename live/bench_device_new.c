/* bench_device_new.c - memory and tasks of a device that is measured. */
#include "live/bench_device_priv.h"

#include <string.h>

#include "kvt/arena.h"

enum { MOST_TOKENS = 4096, LEAST_TOKENS = 512, NEAR = 8, WINDOW = 512 };
enum { SIDE = 4096, LEAST_SIDE = 128, LEAST_ROWS = 64, ALLOCATION = 2 << 20 };
/* Sizes are chosen so that a sample of a fast device is long enough to be timed. */
static const double FLOP_RATE = 1e13, BYTE_RATE = 5e8;

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t within(double x, int64_t least, int64_t top)
{
    return x < (double)least ? least : x > (double)top ? top : (int64_t)x;
}

/* ---- memory ---- */

static double layer_weights(const kvt_geometry *g)
{
    double hd = (double)(g->n_head * g->head_dim), gd = (double)(g->n_kv_head * g->head_dim);
    return (double)g->n_hidden * (2 * hd + 2 * gd + 3 * (double)g->n_ff);
}

static void size(bench_device *b)
{
    const kvt_geometry *g = b->c.g;
    double flop = FLOP_RATE * b->c.seconds;
    b->H = g->n_head;
    b->G = g->n_kv_head;
    b->D = most(g->head_dim, 128);
    b->size = dev_type_size(b->type);
    b->n_row = within(flop / (2 * layer_weights(g)), LEAST_ROWS, DEVICE_CHUNK);
    b->far = MOST_TOKENS;
    while (b->far > LEAST_TOKENS &&
           4 * (double)(b->H * b->D) * bench_pairs((double)b->far, 0) > flop)
        b->far /= 2;
    b->tile = device_tile(g, b->far);
    b->side = SIDE;
    while (b->side > LEAST_SIDE && 2 * (double)(b->side * b->side * b->side) > flop)
        b->side /= 2;
    b->bytes = within(BYTE_RATE * b->c.seconds, 1 << 20, 256 << 20);
    int64_t layer = 2 * b->G * BENCH_KV_TOKENS * g->head_dim * b->size;
    b->n_layer = within((double)b->bytes / (double)layer, 1, g->n_layer);
    b->kv_bytes = most(b->n_layer * layer, 2 * b->G * b->far * b->D * b->size);
    b->widest = most(most(g->n_hidden, g->n_ff), b->H * g->head_dim);
    b->widest = most(b->widest, g->n_vocab / b->n_row + 1); /* logits lie in `sums`, too */
}

static kvt_code take(bench_device *b, kvt_err *err)
{
#define X(member, name, bytes)                                               \
    if (b->d->alloc(b->d, &b->member, bytes, "a measurement: " name, err) || \
        b->d->clear(b->d, b->member, bytes, err))                            \
        return err->code;
    BENCH_DEVICE_MEMORY(X)
#undef X
    return KVT_OK;
}

/* ---- tasks ---- */

static void add_products(bench_device *b, bench_task *task, int *n, bench_times *times)
{
    static const char *const name[] = {
        "product of queries, keys and values", "product of attention's output",
        "product of the feed-forward, gate and up", "product of the feed-forward, down"};
    const kvt_weights_layer *w = &b->w->layer[0];
    const device_product_task all[4] = {{b, {&w->wq, &w->wk, &w->wv}, 3},
                                        {b, {&w->wo}, 1},
                                        {b, {&w->gate, &w->up}, 2},
                                        {b, {&w->down}, 1}};
    memcpy(b->product, all, sizeof all);
    for (int i = 0; i < 4; i++) {
        double weights = 0;
        for (int k = 0; k < all[i].n; k++)
            weights += (double)(all[i].matrix[k]->n_row * all[i].matrix[k]->n_col);
        bench_add(task, n, &times->product[i], name[i], "FLOP/s",
                  2 * (double)b->n_row * weights, bench_device_product, &b->product[i]);
    }
    double cube = 2 * (double)(b->side * b->side * b->side);
    bench_add(task, n, &times->square, "product of squares", "FLOP/s", cube,
              bench_device_square, b);
    if (b->type != DEV_F32)
        bench_add(task, n, &times->square_32, "product of squares, 32 bits", "FLOP/s", cube,
                  bench_device_square_32, b);
}

static int64_t window_of(const kvt_geometry *g, int64_t far)
{
    int64_t w = WINDOW;
    for (int64_t l = g->n_layer - 1; l >= 0; l--)
        w = g->window[l] > 0 ? g->window[l] : w;
    return w < far / 2 ? w : far / 2;
}

static void add_attention(bench_device *b, bench_task *task, int *n, bench_times *times)
{
    static const char *const name[] = {"attention, short", "attention, long",
                                       "attention, heads of another size",
                                       "attention within a window"};
    int64_t d = b->c.g->head_dim;
    times->near_tokens = b->far / NEAR;
    times->far_tokens = b->far;
    times->other_dim = d > 64 ? 64 : 128;
    times->window = window_of(b->c.g, b->far);
    const device_attention all[5] = {{b, times->near_tokens, b->tile, d, 0, 1},
                                     {b, b->far, b->tile, d, 0, 1},
                                     {b, b->far / 2, b->tile, times->other_dim, 0, 1},
                                     {b, b->far, b->tile, d, times->window, 1},
                                     {b, BENCH_KV_TOKENS, 1, d, 0, b->n_layer}};
    const bench_task **slot[] = {&times->near, &times->far, &times->other, &times->windowed};
    memcpy(b->attention, all, sizeof all);
    for (int i = 0; i < 4; i++) {
        const device_attention *a = &b->attention[i];
        double flop =
            4 * (double)(b->H * a->head_dim) * bench_pairs((double)a->n, (double)a->window);
        bench_add(task, n, slot[i], name[i], "FLOP/s", flop, bench_device_attention,
                  &b->attention[i]);
    }
    double bytes = (double)(b->n_layer * 2 * b->G * BENCH_KV_TOKENS * d * b->size);
    bench_add(task, n, &times->kv, "keys and values of a decode step", "B/s", bytes,
              bench_device_attention, &b->attention[4]);
}

static double weight_bytes(const device_weights *w)
{
    double sum = (double)(w->lm_head.n_row * w->lm_head.row_bytes);
    for (int64_t l = 0; l < w->geometry->n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
        const kvt_matrix *m[] = {&y->wq, &y->wk, &y->wv, &y->wo, &y->gate, &y->up, &y->down};
        for (int i = 0; i < 7; i++)
            sum += (double)(m[i]->n_row * m[i]->row_bytes);
    }
    return sum;
}

/* What the cost model counts of a row of a layer (replay/cost/prefill.c). */
static double row_bytes(const bench_device *b)
{
    const kvt_geometry *g = b->c.g;
    return (double)b->size *
           (double)(8 * g->n_hidden + 2 * (g->n_head + g->n_kv_head) * g->head_dim +
                    3 * g->n_ff);
}

static void add_memory(bench_device *b, bench_task *task, int *n, bench_times *times)
{
    bench_add(task, n, &times->rows, "norms, activations and residuals", "B/s",
              (double)b->n_row * row_bytes(b), bench_device_rows, b);
    bench_add(task, n, &times->weights, "weights of a decode step", "B/s", weight_bytes(b->w),
              bench_device_weights, b);
    bench_add(task, n, &times->copy, "memory, copied (read and written)", "B/s",
              2 * (double)b->bytes, bench_device_copy, b);
    bench_add(task, n, &times->launch, "a launch", "s", BENCH_LAUNCHES, bench_device_launch, b);
}

/* Launches of a layer of a prefill of `far` rows, capture/device_layer.c. */
static double launches(const bench_device *b)
{
    enum { OF_CHUNK = 14, OF_TILE = 5 };
    double tiles = (double)((b->far + b->tile - 1) / b->tile);
    double copies = b->w->layer[0].wq.type == device_quant(b->type) ? 0 : 7;
    return OF_CHUNK + copies + OF_TILE * tiles;
}

kvt_code bench_device_new(bench_device **out, const bench_case *c, kvt_device *d,
                          bench_task *task, int *n, bench_times *times, kvt_err *err)
{
    bench_device *b = kvt_alloc(1, sizeof *b);
    *out = b;
    if (!b)
        return kvt_fail_memory(err, sizeof *b);
    b->c = *c;
    b->d = d;
    if (!c->device && device_weights_new(&b->own, d, c->weights, err))
        return err->code;
    b->w = c->device ? c->device : b->own;
    b->type = b->w->type;
    size(b);
    if (take(b, err) || bench_narrow_new(&b->shallow, c, d, BENCH_SHALLOW, err) ||
        bench_narrow_new(&b->deep, c, d, BENCH_DEEP, err))
        return err->code;
    add_products(b, task, n, times);
    add_attention(b, task, n, times);
    add_memory(b, task, n, times);
    bench_narrow_add(b->shallow, task, n, &times->shallow, "a step of 2 narrow layers");
    bench_narrow_add(b->deep, task, n, &times->deep, "a step of 10 narrow layers");
    times->shallow_layers = BENCH_SHALLOW;
    times->deep_layers = BENCH_DEEP;
    times->launches_layer = launches(b);
    times->act_bytes = (double)b->size;
    times->mem_bytes = (double)d->memory;
    times->alloc_round = ALLOCATION;
    return KVT_OK;
}

void bench_device_free(bench_device *b)
{
    if (!b)
        return;
    bench_narrow_free(b->shallow);
    bench_narrow_free(b->deep);
#define X(member, name, bytes) b->d->free(b->d, b->member);
    BENCH_DEVICE_MEMORY(X)
#undef X
    device_weights_free(b->own);
    kvt_free(b);
}
