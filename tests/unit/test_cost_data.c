/* test_cost_data.c - models of the cost model: what is compiled in, and files of users.
 *
 * Totals and vectors are the tables of the models' publishers' configurations, computed once
 * more by hand (G1 to G4). */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "kvt/cost.h"
#include "tests/folder.h"

static kvt_err err;

/* ---- models --------------------------------------------------------------------------------
 */

static const struct model_row {
    const char *name;
    int64_t all, lin;
    double kib; /* of a token, 16 bits */
} models[] = {
    {"llama-3.2-1b", 1235814400, 973078528, 32},
    {"llama-3.2-3b", 3212749824, 2818572288, 112},
    {"llama-3.1-8b", 8030261248, 6979321856, 128},
    {"llama-3.1-70b", 70553706496, 68451041280, 320},
    {"llama-2-7b", 6738415616, 6476005376, 512},
    {"qwen3-0.6b", 596049920, 440401920, 112},
    {"qwen3-1.7b", 1720574976, 1409286144, 112},
    {"qwen3-4b", 4022468096, 3633315840, 144},
    {"qwen3-8b", 8190735360, 6945767424, 144},
    {"qwen3-32b", 32762123264, 31205621760, 256},
    {"qwen2.5-0.5b", 494032768, 357826560, 12},
    {"qwen2.5-7b", 7615616512, 6525288448, 56},
    {"gemma-3-270m", 268098176, 100270080, 18},
    {"gemma-3-1b", 999885952, 697761792, 26},
    {"gemma-3-4b", 3880263168, 3208642560, 136},
    {"smollm2-135m", 134515008, 106168320, 22.5},
    {"smollm2-360m", 361821120, 314572800, 40},
    {"smollm2-1.7b", 1711376384, 1610612736, 192},
    {"mistral-7b-v0.3", 7248023552, 6979321856, 128},
};

static void total_is_the_published_one(void **state) /* G1 */
{
    const struct model_row *r = *state;
    kvt_cost_geometry g;
    CHECK_OK(kvt_cost_geometry_find(&g, r->name, &err), &err);
    assert_string_equal(g.g.name, r->name);
    assert_int_equal(g.theta_all, r->all);
    assert_int_equal(g.theta_lin, r->lin);
    assert_int_equal(g.theta_head, g.g.n_vocab * g.g.n_hidden);
    assert_true(kvt_cost_token_bytes(&g, 16, 0) * (double)g.g.n_layer == r->kib * 1024);
    assert_true(g.title[0] && g.g.n_context > 0 && g.g.rope_theta > 0);
}

static const struct vector_row {
    const char *name, *model;
    int64_t n, cache, linear, causal, square;
} vectors[] = {
    {"llama-3.2-1b, 4,096", "llama-3.2-1b", 4096, 134217728, 7971459301376, 1099780063232,
     2199023255552},
    {"llama-3.1-8b, 4,096", "llama-3.1-8b", 4096, 536870912, 57174604644352, 4399120252928,
     8796093022208},
    {"llama-3.1-8b, 32,768", "llama-3.1-8b", 32768, 4294967296, 457396837154816,
     281483566645248, 562949953421312},
    {"llama-3.1-70b, 32,768", "llama-3.1-70b", 32768, 10737418240, 4486007441326080,
     1407417833226240, 2814749767106560},
    {"qwen3-8b, 32,768", "qwen3-8b", 32768, 4831838208, 455197813899264, 316669012475904,
     633318697598976},
    {"qwen2.5-0.5b, 32,768", "qwen2.5-0.5b", 32768, 402653184, 23450521436160, 46180897652736,
     92358976733184},
    {"gemma-3-1b, 4,096", "gemma-3-1b", 4096, 28311552, 5716064600064, 314662977536,
     1786706395136},
    {"gemma-3-1b, 32,768", "gemma-3-1b", 32768, 145752064, 45728516800512, 10296401854464,
     114349209288704},
    {"smollm2-135m, 32,768", "smollm2-135m", 32768, 754974720, 6957847019520, 37109649899520,
     74217034874880},
};

static void integers_are_exact(void **state) /* G2 */
{
    const struct vector_row *r = *state;
    kvt_cost_geometry g;
    CHECK_OK(kvt_cost_geometry_find(&g, r->model, &err), &err);
    assert_true(kvt_cost_cache_bytes(&g, r->n) == (double)r->cache);
    assert_true(kvt_cost_linear_flops(&g, r->n) == (double)r->linear);
    assert_true(kvt_cost_attention_flops(&g, r->n, false) == (double)r->causal);
    assert_true(kvt_cost_attention_flops(&g, r->n, true) == (double)r->square);
}

static const struct cache_row {
    const char *name, *model;
    int64_t n;
    double gib;
} caches[] = {
    {"70B, 131,072 tokens (G3)", "llama-3.1-70b", 131072, 40},
    {"70B, 2^20 tokens (G3)", "llama-3.1-70b", 1 << 20, 320},
    {"1B pool, 10,240 tokens (G4)", "llama-3.2-1b", 10240, .3125},
    {"1B pool, 67,584 tokens (G4)", "llama-3.2-1b", 67584, 2.0625},
    {"8B pool, 10,240 tokens (G4)", "qwen3-8b", 10240, 1.40625},
    {"8B pool, 67,584 tokens (G4)", "qwen3-8b", 67584, 9.28125},
};

static void cache_is_exact(void **state)
{
    const struct cache_row *r = *state;
    kvt_cost_geometry g;
    CHECK_OK(kvt_cost_geometry_find(&g, r->model, &err), &err);
    assert_int_equal(r->n % 16, 0); /* whole pages of the pools */
    assert_true(kvt_cost_cache_bytes(&g, r->n) == r->gib * 0x1p30);
}

static void every_model_is_tabled_and_sorted(void **state)
{
    (void)state;
    const char *const *name = kvt_cost_geometry_names();
    int n = 0;
    for (; name[n]; n++)
        if (n)
            assert_true(strcmp(name[n - 1], name[n]) < 0);
    assert_int_equal(n, CHECK_COUNT(models));
}

static void drafts_are_models_of_the_same_vocabulary(void **state)
{
    (void)state;
    int with = 0;
    for (const char *const *name = kvt_cost_geometry_names(); *name; name++) {
        kvt_cost_geometry g, draft;
        CHECK_OK(kvt_cost_geometry_find(&g, *name, &err), &err);
        if (!g.draft[0])
            continue;
        with++;
        CHECK_OK(kvt_cost_geometry_find(&draft, g.draft, &err), &err);
        assert_true(draft.theta_all < g.theta_all);
        assert_string_equal(draft.draft, "");
        /* padding of the rows differs, the tokens do not */
        assert_true(fabs((double)(draft.g.n_vocab - g.g.n_vocab)) <= 128);
    }
    assert_int_equal(with, 12);
}

static void windows_are_where_the_model_has_them(void **state)
{
    (void)state;
    kvt_cost_geometry g;
    CHECK_OK(kvt_cost_geometry_find(&g, "Gemma-3-4B", &err), &err); /* capitals do not matter */
    int global = 0;
    for (int l = 0; l < g.g.n_layer; l++) {
        assert_int_equal(g.g.window[l], l % 6 == 5 ? 0 : 1024);
        global += !g.g.window[l];
    }
    assert_int_equal(global, 5);
    assert_int_equal(g.g.window[g.g.n_layer], 0);
    assert_int_equal(g.norms_per_layer, 4);
    assert_true(g.qk_norm && !g.qkv_bias);
    assert_true(g.g.rope_theta_local == 10000 && g.g.rope_factor == 8);
}

/* A model as a trace gives it. */
static kvt_geometry tiny(const char *arch)
{
    kvt_geometry g = {.n_layer = 2,
                      .n_head = 4,
                      .n_kv_head = 2,
                      .head_dim = 8,
                      .n_hidden = 16,
                      .n_ff = 24,
                      .n_vocab = 100,
                      .tied = 1};
    snprintf(g.arch, sizeof g.arch, "%s", arch);
    return g;
}

/* Matrices of a layer: 2 (16 x 32) + 2 (16 x 16) + 3 (16 x 24) = 2,688. */
static const struct arch_row {
    const char *arch;
    int64_t beside; /* matrices and rows */
} archs[] = {
    {"llama", 16 * (2 * 2 + 1)},
    {"qwen2", 16 * (2 * 2 + 1) + 2 * (4 + 4) * 8},
    {"qwen3", 16 * (2 * 2 + 1) + 2 * 2 * 8},
    {"gemma3", 16 * (4 * 2 + 1) + 2 * 2 * 8},
    {"neox", 16 * (2 * 2 + 1)}, /* not known: two norms, nothing else */
};

static void vectors_follow_the_architecture(void **state)
{
    const struct arch_row *r = *state;
    kvt_geometry g = tiny(r->arch);
    kvt_cost_geometry c;
    CHECK_OK(kvt_cost_geometry_of(&c, &g, &err), &err);
    assert_int_equal(c.theta_lin, 2 * 2688);
    assert_int_equal(c.theta_head, 1600);
    assert_int_equal(c.theta_all, 2 * 2688 + 1600 + r->beside);
    g.tied = 0;
    CHECK_OK(kvt_cost_geometry_of(&c, &g, &err), &err);
    assert_int_equal(c.theta_all, 2 * 2688 + 3200 + r->beside);
}

static void shapes_that_are_no_model_are_refused(void **state)
{
    (void)state;
    kvt_cost_geometry c;
    kvt_geometry g;
#define REFUSED(change, part)                                                   \
    do {                                                                        \
        g = tiny("llama");                                                      \
        change;                                                                 \
        CHECK_FAILS(kvt_cost_geometry_of(&c, &g, &err), KVT_USAGE, part, &err); \
    } while (0)
    REFUSED(g.n_layer = 0, "n_layer: expected 1 to 256, got 0");
    REFUSED(g.n_layer = 257, "n_layer: expected 1 to 256, got 257");
    REFUSED(g.n_ff = 0, "n_ff: expected 1 to");
    REFUSED(g.n_hidden = -16, "n_hidden: expected 1 to 1048576, got -16");
    REFUSED(g.head_dim = 513, "head_dim: expected 1 to 512, got 513");
    REFUSED(g.n_vocab = INT64_MAX, "n_vocab: expected 1 to");
    REFUSED(g.n_kv_head = 3, "n_kv_head: expected a divisor of n_head 4, got 3");
    REFUSED(g.n_kv_head = 8, "n_kv_head: expected a divisor of n_head 4, got 8");
    REFUSED(g.tied = 2, "tied: expected 0 or 1, got 2");
    REFUSED(g.n_context = -1, "n_context: expected 0 or more");
    REFUSED(g.window[1] = -5, "window of layer 1: expected 0 or more tokens, got -5");
#undef REFUSED
}

/* ---- files of users ------------------------------------------------------------------------
 */

static const char *written(const char *name, const char *text)
{
    const char *path = folder_path(name);
    CHECK_OK(file_write(path, text, strlen(text), &err), &err);
    return path;
}

#define SHAPES                                                                               \
    "\"name\":\"x\",\"n_layer\":2,\"n_head\":4,\"n_kv_head\":2,\"head_dim\":8,\"n_hidden\":" \
    "16,"                                                                                    \
    "\"n_ff\":24,\"n_vocab\":100,\"tied\":true"

static const struct text_row {
    const char *name, *text;
    kvt_code code;
    const char *part;
} geometry_texts[] = {
    {"shapes alone", "{" SHAPES "}", KVT_OK, NULL},
    {"the total agrees", "{" SHAPES ",\"params_total\":7056}", KVT_OK, NULL},
    {"overrides",
     "{" SHAPES ",\"arch\":\"own\",\"qkv_bias\":1,\"qk_norm\":true,"
     "\"norms_per_layer\":4,\"params_total\":7280}",
     KVT_OK, NULL},
    {"the total disagrees", "{" SHAPES ",\"params_total\":7055}", KVT_FORMAT,
     "params_total: the shapes give 7056 weights, got 7055"},
    {"an unknown member", "{" SHAPES ",\"n_layers\":3}", KVT_FORMAT,
     "unknown member 'n_layers' (did you mean 'n_layer'?)"},
    {"one that is nothing like", "{" SHAPES ",\"zzz\":3}", KVT_FORMAT, "unknown member 'zzz'"},
    {"twice", "{" SHAPES ",\"n_layer\":2}", KVT_FORMAT, "duplicate"},
    {"missing", "{\"name\":\"x\",\"tied\":true}", KVT_FORMAT, "'n_layer' is missing"},
    {"no name", "{\"tied\":true}", KVT_FORMAT, "'name' is missing"},
    {"tied is missing", "{\"name\":\"x\"}", KVT_FORMAT, "'tied' is missing"},
    {"tied is no flag", "{\"name\":\"x\",\"tied\":2}", KVT_FORMAT,
     "'tied': expected true or false"},
    {"a text for a number", "{\"n_layer\":\"2\"}", KVT_FORMAT,
     "'n_layer': expected a whole number, got a text"},
    {"a fraction", "{\"n_layer\":2.5}", KVT_FORMAT,
     "'n_layer': expected a whole number, got a number"},
    {"a number for a text", "{\"name\":2}", KVT_FORMAT, "'name': expected a text"},
    {"a control character", "{\"name\":\"a\\u001b[2J\"}", KVT_FORMAT,
     "'name': expected a line of text without control characters"},
    {"a name that is too long",
     "{\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
     KVT_FORMAT, "'name': expected at most 63 bytes, got 64"},
    {"negative", "{" SHAPES ",\"window\":-1}", KVT_FORMAT, "'window': expected 0 to"},
    {"a negative real", "{" SHAPES ",\"rope_theta\":-1}", KVT_FORMAT,
     "'rope_theta': expected 0 or more, got -1"},
    {"global layers of nothing", "{" SHAPES ",\"global_every\":2}", KVT_FORMAT,
     "'global_every' needs a 'window'"},
    {"some of the bytes", "{" SHAPES ",\"lin_bytes\":10}", KVT_FORMAT, "expected none, or all"},
    {"bytes that do not add up",
     "{" SHAPES ",\"lin_bytes\":10,\"head_bytes\":5,\"all_bytes\":14}", KVT_FORMAT,
     "all_bytes 14"},
    {"not a number", "{" SHAPES ",\"rope_theta\":NaN}", KVT_FORMAT, "JSON: line 1"},
    {"empty", "", KVT_FORMAT, "JSON: line 1"},
    {"cut", "{" SHAPES, KVT_FORMAT, "JSON: line 1"},
    {"no object", "[1]", KVT_FORMAT, "expected an object"},
};

static void geometry_file_is_read_or_refused(void **state)
{
    const struct text_row *r = *state;
    kvt_cost_geometry g;
    kvt_code code = kvt_cost_geometry_find(&g, written("model.json", r->text), &err);
    if (r->code) {
        check_fails(code, r->code, r->part, &err, r->name);
        check_fails(code, r->code, "model.json", &err, r->name);
        assert_null(strchr(err.text, '\033'));
    } else {
        CHECK_OK(code, &err);
        assert_string_equal(g.g.name, "x");
    }
}

static void geometry_file_has_windows_and_bytes(void **state)
{
    (void)state;
    kvt_cost_geometry g;
    const char *path = written(
        "model.json", "{" SHAPES ",\"window\":7,\"lin_bytes\":10,\"head_bytes\":5,"
                      "\"all_bytes\":15,\"draft\":\"llama-3.2-1b\",\"title\":\"\u00b5\"}");
    CHECK_OK(kvt_cost_geometry_find(&g, path, &err), &err);
    assert_int_equal(g.g.window[0], 7); /* without global_every: every layer */
    assert_int_equal(g.g.window[1], 7);
    assert_int_equal(g.lin_bytes, 10);
    assert_int_equal(g.head_bytes, 5);
    assert_int_equal(g.all_bytes, 15);
    assert_string_equal(g.draft, "llama-3.2-1b");
    assert_string_equal(g.title, "\u00b5");
}

static void names_that_are_not_there(void **state)
{
    (void)state;
    kvt_cost_geometry g;
    CHECK_FAILS(kvt_cost_geometry_find(&g, "llama-3.1-8", &err), KVT_USAGE,
                "no geometry 'llama-3.1-8' (did you mean 'llama-3.1-8b'?)", &err);
    CHECK_FAILS(kvt_cost_geometry_find(&g, "nothing", &err), KVT_USAGE,
                "no geometry 'nothing'; there are gemma-3-1b, ", &err);
    assert_non_null(strstr(err.text, "smollm2-360m")); /* the last one has room, too */
    CHECK_FAILS(kvt_cost_geometry_find(&g, "", &err), KVT_USAGE, "no geometry ''", &err);
    CHECK_FAILS(kvt_cost_geometry_find(&g, folder_path("not-there.json"), &err), KVT_NOTFOUND,
                "not-there.json", &err);
    CHECK_FAILS(kvt_cost_geometry_find(&g, folder_name, &err), KVT_IO, "directory", &err);
}

int main(void)
{
    struct CMUnitTest tests[128] = {
        cmocka_unit_test(every_model_is_tabled_and_sorted),
        cmocka_unit_test(drafts_are_models_of_the_same_vocabulary),
        cmocka_unit_test(windows_are_where_the_model_has_them),
        cmocka_unit_test(shapes_that_are_no_model_are_refused),
        cmocka_unit_test(geometry_file_has_windows_and_bytes),
        cmocka_unit_test(names_that_are_not_there),
    };
    int n = 6;
    folder_new();
    CHECK_ROWS(tests, &n, models, total_is_the_published_one);
    CHECK_ROWS(tests, &n, vectors, integers_are_exact);
    CHECK_ROWS(tests, &n, caches, cache_is_exact);
    CHECK_ROWS(tests, &n, archs, vectors_follow_the_architecture);
    CHECK_ROWS(tests, &n, geometry_texts, geometry_file_is_read_or_refused);
    int failed = CHECK_RUN("cost data", tests, n);
    folder_end();
    return failed;
}
