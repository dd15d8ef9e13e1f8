/* test_targets.c - labels against plain sums over a synthetic trace's attention, and the shared
 * direction of queries against one that is known. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/folder.h"
#include "tests/synth.h"
#include "train/label.h"
#include "train/qfilters.h"
#include "train/targets.h"

enum { DELAY = 5, LEAST = 3 };

typedef struct opened {
    synth *s;
    tracein in;
    const char *path;
} opened;

static void open_trace(opened *o, const kvt_ds *ds, int n)
{
    static train_trace of;
    kvt_err err;
    synth_spec spec = synth_default();
    spec.delay = DELAY;
    spec.last_queries = -1;
    spec.level = KVT_FULL;
    spec.window = 9;
    o->s = synth_new(&spec);
    o->path = folder_path("trace.h5");
    CHECK_OK(synth_write(o->s, o->path, &err), &err);
    snprintf(of.path, sizeof of.path, "%s", o->path);
    of.n_prompt = spec.n_prompt;
    of.n_token = spec.n_prompt + spec.n_response;
    CHECK_OK(tracein_open(&o->in, &of, ds, n, &err), &err);
}

static void close_trace(opened *o)
{
    tracein_close(&o->in);
    synth_free(o->s);
    remove(o->path);
}

/* Mean attention of head h to token t from queries at distance DELAY or more. */
static double mean_later(const synth *s, int layer, int64_t h, int64_t t, int64_t T)
{
    double sum = 0;
    for (int64_t q = t + DELAY; q < T; q++)
        sum += synth_attn(s, layer, (int)h, q, t);
    return sum / (double)(T - t - DELAY);
}

static void delayed(void **state)
{
    (void)state;
    static const kvt_ds ds[] = {KVT_DS_FUTURE_DELAYED};
    opened o;
    open_trace(&o, ds, 1);
    const tracein *in = &o.in;
    double max[64], mean[64];
    for (int layer = 0; layer < in->n_layer; layer++)
        for (int g = 0; g < in->G; g++) {
            target_delayed(max, in, layer, g, TARGET_MAX, 1e-6);
            target_delayed(mean, in, layer, g, TARGET_MEAN, 1e-6);
            for (int64_t t = 0; t < in->T; t++) {
                double most = 0, sum = 0;
                if (t + DELAY >= in->T) {
                    assert_true(isnan(max[t]) && isnan(mean[t]));
                    continue;
                }
                for (int64_t h = g * in->R; h < (g + 1) * in->R; h++) {
                    double m = mean_later(o.s, layer, h, t, in->T);
                    most = fmax(most, m);
                    sum += m / (double)in->R;
                }
                CHECK_NEAR(max[t], log(1e-6 + most), 2e-4);
                CHECK_NEAR(mean[t], log(1e-6 + sum), 2e-4);
            }
        }
    /* The last token with LEAST later queries: T - 1 - (DELAY + LEAST - 1). */
    assert_int_equal(target_end(in->T, DELAY, LEAST), in->T - DELAY - LEAST + 1);
    assert_int_equal(target_end(4, DELAY, LEAST), 0);
    close_trace(&o);
}

static void prompt_and_rows(void **state)
{
    (void)state;
    static const kvt_ds ds[] = {KVT_DS_FUTURE_MAX, KVT_DS_KEYS, KVT_DS_QUERIES,
                                KVT_DS_QUERY_POS};
    opened o;
    open_trace(&o, ds, 4);
    const tracein *in = &o.in;
    double label[2 * 64];
    float key[64 * 64], query[64], row[64];
    kvt_err err;
    for (int layer = 0; layer < in->n_layer; layer++) {
        CHECK_OK(label_layer(label, in, layer, LABEL_FUTURE, NULL, &err), &err);
        for (int64_t g = 0; g < in->G; g++)
            for (int64_t t = 0; t < in->N; t++) {
                double most = 0;
                for (int64_t h = g * in->R; h < (g + 1) * in->R; h++)
                    for (int64_t q = in->N; q < in->T; q++)
                        most = fmax(most, synth_attn(o.s, layer, (int)h, q, t));
                CHECK_NEAR(label[g * in->N + t], most, 1e-5);
            }
        for (int64_t h = 0; h < in->H; h++) {
            tracein_keys(key, in, layer, (int)(h / in->R));
            for (int64_t q = 0; q < in->T; q++) {
                tracein_row(row, in, layer, h, tracein_find(in, q), key, query);
                for (int64_t t = 0; t < in->T; t++)
                    CHECK_NEAR((double)row[t], synth_attn(o.s, layer, (int)h, q, t), 1e-4);
            }
        }
    }
    assert_int_equal(tracein_find(in, in->T), -1);
    close_trace(&o);
}

/* Queries a v + noise, v known; signs as most of them. */
static void shared_direction(void **state)
{
    (void)state;
    enum { N = 300, D = 5 };
    static const double v[D] = {0.5, -0.5, 0.1, 0.7, 0};
    static float q[N * D];
    double out[D], work[D + D * D], length = 0, dot = 0;
    uint64_t rng[4];
    rng_init(rng, "direction", 9);
    for (int i = 0; i < N; i++) {
        double a = i % 5 == 0 ? 2 : -2; /* four of five look away from v */
        for (int d = 0; d < D; d++)
            q[i * D + d] = (float)(a * v[d] + 0.1 * (rng_real(rng) - 0.5));
    }
    assert_true(qfilters_direction(out, q, N, D, work));
    for (int d = 0; d < D; d++) {
        length += out[d] * out[d];
        dot += out[d] * v[d];
    }
    CHECK_NEAR(length, 1, 1e-12);
    CHECK_NEAR(dot, -1, 1e-3);
    static const float none[D] = {0};
    assert_false(qfilters_direction(out, none, 1, D, work));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delayed),
        cmocka_unit_test(prompt_and_rows),
        cmocka_unit_test(shared_direction),
    };
    folder_new();
    int failed = cmocka_run_group_tests_name("targets", tests, NULL, NULL);
    folder_end();
    return failed;
}
