/* test_trace_memory.c - the n-th allocation fails, for n = 1, 2, ... until all succeed:
 * writing, reading, checking, importing a trace, writing and reading a result. Nothing may
 * crash, and nothing may be left under a final name; what leaks shows under ASan. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth.h"

#include "kvt/arena.h"
#include "kvt/result.h"

static kvt_err err;
static synth *s;
static char trace[1024];

static void ignore(void *user, const kvt_finding *f)
{
    (void)user;
    (void)f;
}

static kvt_code write_trace(void)
{
    unlink(trace);
    kvt_code code = synth_write(s, trace, &err);
    if (code && access(trace, F_OK) == 0)
        fail_msg("a file under its final name after '%s'", err.text);
    return code;
}

static kvt_code read_trace(void)
{
    kvt_trace *t;
    kvt_view v;
    kvt_sequence q;
    const uint8_t *b;
    int64_t n;
    if (kvt_trace_open(&t, trace, 0, &err))
        return err.code;
    kvt_code code = KVT_OK;
    for (int ds = 0; ds < KVT_DS_COUNT && !code; ds++)
        if (kvt_trace_info_of(t)->has[ds] &&
            !(code = kvt_trace_read(t, (kvt_ds)ds, 1, &v, &err)))
            kvt_trace_done(t, &v);
    if (!code)
        code = kvt_trace_sequence(t, &q, &err);
    if (!code)
        code = kvt_trace_token_text(t, 3, &b, &n, &err);
    kvt_trace_close(t);
    return code;
}

static kvt_code check_trace(void)
{
    kvt_trace *t;
    if (kvt_trace_open(&t, trace, 0, &err))
        return err.code;
    kvt_code code = kvt_trace_check(t, ignore, NULL, &err);
    kvt_trace_close(t);
    return code;
}

static kvt_code import_trace(void)
{
    const char *out = folder_path("import.h5");
    unlink(out);
    kvt_code code = kvt_trace_import(folder_path("m.json"), out, false, &err);
    if (code && access(out, F_OK) == 0)
        fail_msg("a file under its final name after '%s'", err.text);
    return code;
}

static kvt_schema schema;

static kvt_code keep_result(void)
{
    kvt_cell cell = {.policy = "h2o"};
    float score[2 * 2 * 4] = {0};
    kvt_result r = {
        .n_layer = 2, .n_lane = 2, .n_prompt = 4, .n_cell = 1, .cell = &cell, .score = score};
    kvt_results *set;
    r.layer_id[1] = 1;
    const char *path = folder_path("a.kvt-results.h5");
    if (kvt_result_write(&r, &schema, &schema, path, &err) ||
        kvt_results_load(&set, &schema, &schema, path, true, &err))
        return err.code;
    kvt_results_free(set);
    return KVT_OK;
}

static const struct act {
    const char *name;
    kvt_code (*run)(void);
} acts[] = {
    {"write", write_trace},   {"read", read_trace},     {"check", check_trace},
    {"import", import_trace}, {"results", keep_result},
};

static void memory_may_end_anywhere(void **state)
{
    const struct act *a = *state;
    for (int stays = 0; stays < 2; stays++) {
        int64_t n = 1;
        for (;; n += stays ? 5 : 1) {
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
    }
}

int main(void)
{
    struct CMUnitTest t[8];
    int n = 0;
    synth_spec spec = synth_default();
    spec.n_prompt = 10;
    spec.n_response = 2;
    s = synth_new(&spec);
    folder_new();
    snprintf(trace, sizeof trace, "%s", folder_path("a.h5"));
    if (synth_write(s, trace, &err))
        return 1;
    /* Every dataset from the trace itself; what follows from the rest is left out. */
    FILE *f = fopen(folder_path("m.json"), "w");
    fputs("{\"model\": {\"n_vocab\": 256}, \"attn\": {\"block_tokens\": 8}, \"future\": "
          "{\"delay\": 5}, "
          "\"datasets\": {",
          f);
    for (int ds = 0, first = 1; ds < KVT_DS_COUNT; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        if (s->data[ds] && d->level <= KVT_REPLAY && ds != KVT_DS_LAYER_ID &&
            ds != KVT_DS_BLOCK_START) {
            fprintf(f, "%s\"%s\": \"a.h5:/%s\"", first ? "" : ", ", d->path, d->path);
            first = 0;
        }
    }
    fputs("}}", f);
    fclose(f);
    schema.column[0] = (kvt_column)KVT_COLUMN(kvt_cell, policy, "", "name");
    schema.n = 1;
    CHECK_ROWS(t, &n, acts, memory_may_end_anywhere);
    int failed = CHECK_RUN("trace_memory", t, n);
    synth_free(s);
    folder_end();
    return failed;
}
