/* bench_fields.c - from measured times to the constants of a machine.
 *
 *   peak     the best product
 *   e_lin    FLOP of a layer by the time of its products
 *   t_ttft   what it takes to decode all matrices to f32: a prefill does so once, whatever its
 *            length. It is that of the model that was measured.
 *   e_att    attention at two lengths, 4 H D pairs (1 + n_half / N) / rate: two unknowns. A
 *            tile of rows multiplies all keys up to its end, half a tile more a row than
 *            it sees, twice of which is n_half. Softmax is inside: a time for each pair, as
 *            the products.
 *   e_m      the slower of copies, and of norms, activations and residuals by the bytes that
 *            the model counts of them, which stay in the caches here
 *   e_w      bytes of the weights as they lie, by the time of the products with a vector
 *   e_kv     bytes of keys and values, by the time of scores, softmax and mixing
 *   t_layer  what ten narrow layers take longer than two, an eighth of it; t_step what is left
 *
 * What decode's threads need to meet is in t_layer, so that it is taken out of the times of
 * weights, keys and values. */
#include "live/bench_priv.h"

#include <math.h>
#include <string.h>

#define SET(m, field, value, from) \
    set(m, KVT_MACHINE_##field, (double)(value), KVT_ORIGIN_##from)

/* Within what the field can be: noise may bring a share above 1. */
static void set(kvt_machine *m, kvt_machine_field f, double value, kvt_origin origin)
{
    const kvt_machine_field_info *info = &kvt_machine_fields()[f];
    value = value > info->least ? value : info->least; /* NAN, too */
    value = value < info->most ? value : info->most;
    memcpy((char *)m + info->offset, &value, sizeof value);
    m->origin[f] = (unsigned char)origin;
}

static double rate(const bench_task *t)
{
    return t ? t->amount / t->best : 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- products and attention ---- */

static void products(kvt_machine *m, const bench_times *t)
{
    double flop = 0, seconds = 0, best = rate(t->square);
    for (int i = 0; i < 4; i++) {
        flop += t->product[i]->amount;
        seconds += t->product[i]->best;
        best = larger(best, rate(t->product[i]));
    }
    SET(m, peak_flops_16, t->act_bytes == 2 ? best : 0, CALIBRATED);
    SET(m, peak_flops_32, t->square_32 ? rate(t->square_32) : best, CALIBRATED);
    SET(m, e_lin, flop / seconds / best, CALIBRATED);
    SET(m, t_ttft, t->decoding ? t->decoding->best : 0, CALIBRATED);
}

static double peak(const kvt_machine *m)
{
    return m->peak_flops_16 > 0 ? m->peak_flops_16 : m->peak_flops_32;
}

static void attention(kvt_machine *m, const bench_times *t, int64_t head_dim)
{
    double near = (double)t->near_tokens, far = (double)t->far_tokens, mid = far / 2;
    double a = t->near->best / t->near->amount, b = t->far->best / t->far->amount;
    double half_s = (a - b) / (1 / near - 1 / far); /* n_half / rate */
    half_s = half_s > 0 ? half_s : 0;
    half_s = half_s < far * b / 2 ? half_s : far * b / 2; /* n_half is below `far` */
    double flops = 1 / (b - half_s / far), n_half = half_s * flops;
    double other = rate(t->other) * (mid + n_half) / mid;
    double narrow = head_dim > 64 ? other : flops, wide = head_dim > 64 ? flops : other;
    double factor = narrow < wide ? narrow / wide : 1;
    SET(m, n_half, n_half, CALIBRATED);
    SET(m, hd64_factor, factor, CALIBRATED);
    SET(m, e_att, flops / (head_dim > 64 ? 1 : factor) / peak(m), CALIBRATED);
    double w = (double)t->window, open = flops * far / (far + n_half);
    SET(m, window_half, w * (open / rate(t->windowed) - 1), CALIBRATED);
    SET(m, range_from, t->near_tokens, CALIBRATED);
    SET(m, range_to, t->far_tokens, CALIBRATED);
    SET(m, range_head_dim, head_dim, CALIBRATED);
}

/* ---- memory and steps ---- */

/* Without the time in which threads meet, of which at most half is believed. */
static double without_rounds(const bench_task *t, const bench_task *round, int64_t n)
{
    double meet = round ? (double)n * round->best / round->amount : 0;
    return t->best - (meet < t->best / 2 ? meet : t->best / 2);
}

static void memory(kvt_machine *m, const bench_times *t)
{
    double bw = larger(rate(t->read), rate(t->copy));
    SET(m, mem_bw, bw, CALIBRATED);
    SET(m, e_w,
        t->weights->amount / without_rounds(t->weights, t->round, t->weight_rounds) / bw,
        CALIBRATED);
    SET(m, e_kv, t->kv->amount / without_rounds(t->kv, t->round, t->kv_rounds) / bw,
        CALIBRATED);
    double moves = rate(t->copy);
    SET(m, e_m, (rate(t->rows) < moves ? rate(t->rows) : moves) / bw, CALIBRATED);
    SET(m, elementwise, 1, CALIBRATED);
}

static void steps(kvt_machine *m, const bench_times *t)
{
    double few = t->shallow->best / t->shallow->amount, many = t->deep->best / t->deep->amount;
    double layer = (many - few) / (double)(t->deep_layers - t->shallow_layers);
    layer = layer > 0 ? layer : 0;
    SET(m, t_layer, layer, CALIBRATED);
    SET(m, t_step, few - (double)t->shallow_layers * layer, CALIBRATED);
    SET(m, t_launch, t->launch->best / t->launch->amount, CALIBRATED);
    SET(m, launches_layer, t->launches_layer, CALIBRATED);
}

/* ---- the rest ---- */

/* By how much samples of what a pass is made of vary, and no less than what predictions from
 * such parts are off by on a quiet machine. */
static double band(const bench_task *const *task, int n)
{
    double widest = 0.15;
    for (int i = 0; i < n; i++)
        widest = larger(widest, task[i]->median / task[i]->best - 1);
    return widest;
}

static void bands(kvt_machine *m, const bench_times *t)
{
    const bench_task *pass[] = {t->product[2], t->far}, *step[] = {t->weights, t->kv};
    double prefill = band(pass, 2), decode = band(step, 2);
    SET(m, band_prefill, prefill, CALIBRATED);
    SET(m, band_decode_lo, decode, CALIBRATED);
    SET(m, band_decode_hi, decode, CALIBRATED);
    SET(m, band_evict, 0.35, DEFAULT); /* kvt evicts in no cache of its own */
    SET(m, band_draft, 0.35, DEFAULT);
    SET(m, band_bytes, 0.1, DEFAULT);
}

static void defaults(kvt_machine *m)
{
#define X(field, unit, least, most, help) SET(m, field, 0, DEFAULT);
    KVT_MACHINE_FIELDS(X)
#undef X
    SET(m, cache_gain, 1, DEFAULT);
    SET(m, kv_traffic, 1, DEFAULT);
}

void bench_fields(kvt_machine *out, const bench_times *t, const kvt_geometry *g)
{
    defaults(out);
    out->engine = KVT_ENGINE_FUSED;
    products(out, t);
    attention(out, t, g->head_dim);
    memory(out, t);
    steps(out, t);
    bands(out, t);
    SET(out, mem_bytes, t->mem_bytes, CALIBRATED);
    SET(out, runtime_bytes, t->runtime_bytes, DEFAULT);
    SET(out, alloc_round, t->alloc_round, DEFAULT);
}
