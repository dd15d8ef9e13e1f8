/* test_adapter.c - learned lookahead tokens: the file, what is refused. */
#include "capture/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "traces/tensors.h"

enum { N = 4, R = 2, L = 2 };

static const kvt_geometry small = {.n_layer = L,
                                   .n_head = 4,
                                   .n_kv_head = 2,
                                   .head_dim = 6,
                                   .n_hidden = 20,
                                   .n_ff = 32,
                                   .n_vocab = 50};
static const char digest[] = "0123456789abcdef0123456789abcdef";
static const kvt_model_id model = {"0123456789abcdef0123456789abcdef", ""};

static float *noise(int64_t n, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int64_t)(seed >> 52) / 1024.0f - 2.0f; /* a half holds it exactly */
    }
    return x;
}

static adapter make(void)
{
    adapter a = {.kind = "lookaheadkv",
                 .model = "small",
                 .recipe = "{\"seed\": 7}",
                 .n_token = N,
                 .rank = R,
                 .alpha = 8,
                 .n_layer = L};
    snprintf(a.model_digest, sizeof a.model_digest, "%s", digest);
    a.token = noise(N * small.n_hidden, 3);
    a.layer = calloc(L, sizeof *a.layer);
    for (int l = 0; l < L; l++)
        for (int i = 0; i < ADAPTER_MAPS; i++) {
            int64_t in, out;
            if (l == L - 1 && i > ADAPTER_K)
                continue; /* nothing that the last layer's scores do not read */
            adapter_map_shape(&small, (adapter_map_id)i, &in, &out);
            a.layer[l][i].a = noise(R * in, (uint64_t)(l * 50 + i));
            a.layer[l][i].b = noise(R * out, (uint64_t)(l * 50 + i + 20));
        }
    return a;
}

static void unmake(adapter *a)
{
    free((void *)(uintptr_t)a->token);
    for (int l = 0; l < L; l++)
        for (int i = 0; i < ADAPTER_MAPS; i++) {
            free((void *)(uintptr_t)a->layer[l][i].a);
            free((void *)(uintptr_t)a->layer[l][i].b);
        }
    free(a->layer);
}

static void test_round_trip(void **state)
{
    kvt_err err;
    adapter a = make(), *b;
    (void)state;
    for (int half = 0; half < 2; half++) {
        const char *path = folder_path(half ? "half.safetensors" : "full.safetensors");
        CHECK_OK(adapter_write(path, &a, &small, half, false, &err), &err);
        CHECK_OK(adapter_open(&b, path, &small, &model, &err), &err);
        assert_int_equal(b->n_token, N);
        assert_int_equal(b->rank, R);
        CHECK_NEAR(b->alpha, 8, 0);
        assert_string_equal(b->kind, a.kind);
        assert_string_equal(b->recipe, a.recipe);
        assert_memory_equal(b->token, a.token, N * 20 * sizeof(float));
        for (int l = 0; l < L; l++)
            for (int i = 0; i < ADAPTER_MAPS; i++) {
                int64_t in, out;
                adapter_map_shape(&small, (adapter_map_id)i, &in, &out);
                assert_int_equal(!b->layer[l][i].a, !a.layer[l][i].a);
                if (!a.layer[l][i].a)
                    continue;
                assert_memory_equal(b->layer[l][i].a, a.layer[l][i].a,
                                    (size_t)(R * in) * sizeof(float));
                assert_memory_equal(b->layer[l][i].b, a.layer[l][i].b,
                                    (size_t)(R * out) * sizeof(float));
            }
        adapter_close(b);
    }
    unmake(&a);
}

static void test_other_model(void **state)
{
    kvt_err err;
    adapter a = make(), *b;
    kvt_geometry wide = small;
    const char *path = folder_path("model.safetensors");
    (void)state;
    CHECK_OK(adapter_write(path, &a, &small, false, false, &err), &err);
    /* One of before there were canonical weights names the file. */
    CHECK_OK(adapter_open(&b, path, &small,
                          &(kvt_model_id){"ffff", "0123456789abcdef0123456789abcdef"}, &err),
             &err);
    adapter_close(b);
    CHECK_FAILS(adapter_open(&b, path, &small, &(kvt_model_id){"ffff", ""}, &err), KVT_FORMAT,
                "another model", &err);
    /* Said before its tensors are found not to fit. */
    kvt_geometry short_one = small;
    short_one.n_layer = 1;
    CHECK_FAILS(adapter_open(&b, path, &short_one, &(kvt_model_id){"ffff", ""}, &err),
                KVT_FORMAT, "another model", &err);
    assert_null(b);
    wide.n_hidden = 24;
    CHECK_FAILS(adapter_open(&b, path, &wide, &model, &err), KVT_FORMAT, "expected [", &err);
    wide = small;
    wide.n_layer = 1;
    CHECK_FAILS(adapter_open(&b, path, &wide, &model, &err), KVT_FORMAT,
                "the model has 1 layers", &err);
    CHECK_FAILS(adapter_open(&b, folder_path("none.safetensors"), &small, &model, &err),
                KVT_NOTFOUND, "none.safetensors", &err);
    unmake(&a);
}

/* What is never written; nothing is left of it. */
static void test_not_finite(void **state)
{
    kvt_err err;
    adapter a = make();
    (void)state;
    ((float *)(uintptr_t)a.token)[5] = NAN;
    const char *path = folder_path("nan.safetensors");
    CHECK_FAILS(adapter_write(path, &a, &small, false, false, &err), KVT_FORMAT,
                "lookahead.embeddings", &err);
    assert_null(fopen(path, "rb"));
    ((float *)(uintptr_t)a.token)[5] = 1e6f;
    CHECK_FAILS(adapter_write(path, &a, &small, true, false, &err), KVT_FORMAT,
                "cannot be stored", &err);
    unmake(&a);
}

typedef struct bad {
    const char *name, *says;
    tensor list[3];
    int n;
    tensor_meta meta[4];
} bad;

static float some[400];
#define EMBED                                                                   \
    {                                                                           \
        .name = "lookahead.embeddings", .rank = 2, .dim = {4, 20}, .data = some \
    }
#define MAP(x, r, c)                                      \
    {                                                     \
        .name = x, .rank = 2, .dim = {r, c}, .data = some \
    }
#define META_OF(k)                                              \
    {                                                           \
        {"format", "kvt-adapter"}, {"kind", k}, {"alpha", "8"}, \
        {                                                       \
            "model_digest", digest                              \
        }                                                       \
    }

/* clang-format off */
static const bad bads[] = {
    {"no embeddings", "lookahead.embeddings",
     {MAP("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 20)}, 1, META_OF("lookaheadkv")},
    {"unknown tensor", "has no place", {EMBED, MAP("model.layers.0.self_attn.r_proj.lora_A.weight", 2, 20)}, 2,
     META_OF("lookaheadkv")},
    {"only A", "has a lora_A and no lora_B", {EMBED, MAP("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 20)}, 2,
     META_OF("lookaheadkv")},
    {"two ranks", "expected [24 2]", {EMBED, MAP("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 20),
     MAP("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 24, 3)}, 3, META_OF("lookaheadkv")},
    {"wrong input", "expected [2 20]", {EMBED, MAP("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 24),
     MAP("model.layers.0.self_attn.q_proj.lora_B.weight", 24, 2)}, 3, META_OF("lookaheadkv")},
    {"layer 2", "the model has 2 layers", {EMBED, MAP("model.layers.2.self_attn.q_proj.lora_A.weight", 2, 20)}, 2,
     META_OF("lookaheadkv")},
    {"width", "expected [4 20], got [4 24]", {MAP("lookahead.embeddings", 4, 24)}, 1, META_OF("lookaheadkv")},
    {"kind", "expected kind lookaheadkv or judgeq", {EMBED}, 1, META_OF("kvpop")},
    {"judge", "kind judgeq trains embeddings only, the file has a LoRA of rank 2", {EMBED,
     MAP("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 20),
     MAP("model.layers.0.self_attn.q_proj.lora_B.weight", 24, 2)}, 3, META_OF("judgeq")},
    {"twice", "is there twice", {EMBED, MAP("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 20),
     MAP("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 2, 20)}, 3, META_OF("lookaheadkv")},
    {"format", "expected format kvt-adapter", {EMBED}, 1, {{"format", "pt"}, {"kind", "judgeq"}, {"alpha", "8"}, {"x", "y"}}},
    {"alpha", "alpha 'eight'", {EMBED}, 1, {{"format", "kvt-adapter"}, {"kind", "judgeq"}, {"alpha", "eight"}, {"model_digest", digest}}},
};
/* clang-format on */

static void test_bad(void **state)
{
    const bad *b = *state;
    adapter *a;
    kvt_err err;
    const char *path = folder_path("bad.safetensors");
    CHECK_OK(tensors_write(path, b->list, b->n, b->meta, 4, true, &err), &err);
    CHECK_FAILS(adapter_open(&a, path, &small, &model, &err), KVT_FORMAT, b->says, &err);
    assert_null(a);
    assert_non_null(strstr(err.text, "bad.safetensors"));
    assert_null(strchr(err.text, '\n'));
}

/* Judge Q's layout: embeddings and nothing else; a prefix as PEFT writes it. */
static void test_embeddings_only(void **state)
{
    kvt_err err;
    adapter *a;
    const tensor list[] = {EMBED};
    const tensor_meta meta[] = META_OF("judgeq");
    const char *path = folder_path("judge.safetensors");
    (void)state;
    CHECK_OK(tensors_write(path, list, 1, meta, 4, true, &err), &err);
    CHECK_OK(adapter_open(&a, path, &small, NULL, &err), &err);
    assert_int_equal(a->rank, 0);
    assert_int_equal(a->n_token, 4);
    adapter_close(a);
}

/* Names as PEFT writes them; what the last layer's scores do not read is kept. */
static void test_peft_names(void **state)
{
    enum { LIST = 7 };
#define PEFT(x) "base_model.model.model.layers.1." x ".weight"
    kvt_err err;
    adapter *a;
    const tensor list[LIST] = {{.name = "base_model.model.lookahead.embeddings",
                                .rank = 2,
                                .dim = {4, 20},
                                .data = some},
                               MAP(PEFT("self_attn.q_proj.lora_A"), 2, 20),
                               MAP(PEFT("self_attn.q_proj.lora_B"), 24, 2),
                               MAP(PEFT("self_attn.v_proj.lora_A"), 2, 20),
                               MAP(PEFT("self_attn.v_proj.lora_B"), 12, 2),
                               MAP(PEFT("self_attn.o_proj.lora_A"), 2, 24),
                               MAP(PEFT("self_attn.o_proj.lora_B"), 20, 2)};
    const tensor_meta meta[] = META_OF("lookaheadkv");
    const char *path = folder_path("peft.safetensors");
    (void)state;
    CHECK_OK(tensors_write(path, list, LIST, meta, 4, true, &err), &err);
    CHECK_OK(adapter_open(&a, path, &small, &model, &err), &err);
    assert_int_equal(a->rank, 2);
    for (int i = 0; i < ADAPTER_MAPS; i++) {
        assert_null(a->layer[0][i].a);
        assert_int_equal(a->layer[1][i].a != NULL,
                         i == ADAPTER_Q || i == ADAPTER_V || i == ADAPTER_O);
        assert_int_equal(a->layer[1][i].b != NULL,
                         i == ADAPTER_Q || i == ADAPTER_V || i == ADAPTER_O);
    }
    adapter_close(a);
}

int main(void)
{
    struct CMUnitTest tests[5 + CHECK_COUNT(bads)] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_embeddings_only),
        cmocka_unit_test(test_peft_names)};
    int n = 5;
    CHECK_ROWS(tests, &n, bads, test_bad);
    folder_new();
    int code = CHECK_RUN("adapter", tests, n);
    folder_end();
    return code;
}
