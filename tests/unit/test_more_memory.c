/* test_more_memory.c - the n-th allocation fails, for n = 1, 2, ... until all succeed: probes
 * added and read, scorer files and safetensors written, read and imported. Nothing may crash, a
 * trace stays whole, nothing is left under a final name; what leaks shows under ASan. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth_more.h"

#include "base/digest.h"
#include "traces/tensors.h"

#include "kvt/arena.h"

static kvt_err err;
static synth *s;
static synth_spec spec;
static char trace[1024], before[KVT_DIGEST_TEXT];

static kvt_code add_probes(void)
{
    const kvt_probe_data *list[SYNTH_PROBES_MAX];
    char after[KVT_DIGEST_TEXT];
    kvt_err mine;
    for (int i = 0; i < s->n_probe; i++)
        list[i] = &s->probe[i];
    kvt_code code = kvt_trace_add_probes(trace, list, s->n_probe, true, &err);
    kvt_alloc_fail_at(0, false);
    if (code && digest_file(trace, after, &mine) == KVT_OK && strcmp(before, after) != 0)
        fail_msg("the trace was changed before '%s'", err.text);
    return code;
}

static void ignore(void *user, const kvt_finding *f)
{
    (void)user;
    (void)f;
}

static kvt_code read_probes(void)
{
    kvt_trace *t;
    kvt_code code = KVT_OK;
    if (kvt_trace_open(&t, folder_path("with.h5"), 0, &err))
        return err.code;
    for (int i = 0; i < kvt_trace_probe_count(t) && !code; i++)
        for (int k = 0; k < KVT_PROBE_SETS && !code; k++) {
            kvt_view v;
            if (!kvt_trace_probe_info(t, i)->has[k])
                continue;
            if (!(code = kvt_trace_read_probe(t, i, (kvt_probe_set)k, 0, &v, &err)))
                kvt_free((void *)(uintptr_t)v.data);
        }
    if (!code)
        code = kvt_trace_check(t, ignore, NULL, &err);
    kvt_trace_close(t);
    return code;
}

static kvt_code write_scorer(void)
{
    const int64_t dim[] = {1};
    const float x[] = {1};
    kvt_scorer_info info = {.kind = "k",
                            .n_head = 1,
                            .n_kv_head = 1,
                            .head_dim = 1,
                            .model_layers = 1,
                            .n_layer = 1,
                            .recipe = "{}"};
    kvt_scorer_tensor t = {
        .name = "a/b", .view = kvt_view_of(x, KVT_F32, "L", 1, dim), .half = true};
    const char *path = folder_path("scorer.h5");
    unlink(path);
    kvt_code code = kvt_scorer_write(path, &info, &t, 1, false, &err);
    if (code && access(path, F_OK) == 0)
        fail_msg("a file under its final name after '%s'", err.text);
    return code;
}

static kvt_code import_scorer(void)
{
    return kvt_scorer_import(folder_path("scorer.json"), folder_path("to.h5"), true, &err);
}

static kvt_code both_tensors(void)
{
    const float x[] = {1, 2};
    const tensor list[] = {{.name = "b", .dtype = KVT_F16, .rank = 1, .dim = {2}, .data = x},
                           {.name = "a", .dtype = KVT_F32, .rank = 0, .data = x}};
    const tensor_meta meta = {"key", "value"};
    const char *path = folder_path("a.safetensors");
    tensors *t;
    float y[2];
    if (tensors_write(path, list, 2, &meta, 1, true, &err) || tensors_open(&t, path, &err))
        return err.code;
    kvt_code code = tensors_floats(tensors_find(t, "b"), y, 2, &err);
    tensors_close(t);
    return code;
}

static const struct act {
    const char *name;
    kvt_code (*run)(void);
} acts[] = {
    {"add probes", add_probes},       {"read probes", read_probes},
    {"write a scorer", write_scorer}, {"import a scorer", import_scorer},
    {"safetensors", both_tensors},
};

static void memory_may_end_anywhere(void **state)
{
    const struct act *a = *state;
    for (int stays = 0; stays < 2; stays++) {
        int64_t n = 1;
        for (;; n += stays ? 7 : n < 200 ? 1 : 11) {
            kvt_alloc_fail_at(n, stays);
            kvt_code code = a->run();
            kvt_alloc_fail_at(0, false);
            if (code == KVT_OK)
                break;
            if (code != KVT_NOMEM && code != KVT_NO) /* NO: a check that could not be made */
                fail_msg("allocation %lld: %s: %s", (long long)n, kvt_code_name(code),
                         err.text);
            if (n > 100000)
                fail_msg("it never succeeds");
        }
        print_message("%s: %lld allocations\n", a->name, (long long)n - 1);
        assert_true(n > 1);
        if (a->run == add_probes)
            CHECK_OK(digest_file(trace, before, &err), &err);
    }
}

int main(void)
{
    struct CMUnitTest t[8];
    int n = 0;
    folder_new();
    snprintf(trace, sizeof trace, "%s", folder_path("a.h5"));
    spec = synth_default();
    spec.n_prompt = 10;
    spec.n_response = 2;
    spec.draft_budget[0] = 4;
    spec.probe_rows = 2;
    s = synth_new(&spec);
    if (synth_write(s, trace, &err) || digest_file(trace, before, &err))
        return 1;
    synth_probes(s);
    if (synth_write(s, folder_path("with.h5"), &err))
        return 1;
    FILE *f = fopen(folder_path("scorer.json"), "w");
    fputs("{\"kind\": \"k\", \"trace\": \"a.h5\", \"tensors\": {\"n\": 1, \"k\": "
          "{\"file\": \"a.h5:/attn/lse\", \"axes\": \"LHW\"}}}",
          f);
    fclose(f);
    CHECK_ROWS(t, &n, acts, memory_may_end_anywhere);
    int failed = CHECK_RUN("more_memory", t, n);
    synth_free(s);
    folder_end();
    return failed;
}
