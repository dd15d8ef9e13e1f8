/* test_writer_later.c - puts that do not wait: the same file, and what fails is said by a later
 * call. */
#include "traces/writer.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth.h"
#include "traces/dataset.h"

static kvt_err err;

static kvt_writer *open_writer(synth *s, const char *name)
{
    kvt_writer *w;
    s->out.force = true;
    CHECK_OK(kvt_writer_open(&w, folder_path(name), &s->out, &err), &err);
    return w;
}

/* All datasets, waiting for each or for none. */
static void write_all(synth *s, const char *name, bool waits)
{
    int64_t n = 0, last = 0;
    kvt_writer *w = open_writer(s, name);
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int l = 0; l < (dataset_has_layers((kvt_ds)ds) ? s->spec.n_layer : 1); l++) {
            if (!s->data[ds] || !dataset_in_level((kvt_ds)ds, s->spec.level))
                continue;
            kvt_view v = synth_view(s, (kvt_ds)ds, l);
            if (waits)
                CHECK_OK(kvt_writer_put(w, (kvt_ds)ds, l, &v, &err), &err);
            else
                CHECK_OK(writer_put_later(w, (kvt_ds)ds, l, &v, &n, &err), &err);
            assert_true(n >= last);
            last = n;
        }
    assert_true(waits || last > 20);
    CHECK_OK(kvt_writer_close(w, &err), &err);
}

static void digest_of_file(const char *name, char out[KVT_DIGEST_TEXT])
{
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, folder_path(name), 0, &err), &err);
    snprintf(out, KVT_DIGEST_TEXT, "%s", kvt_trace_info_of(t)->digest);
    kvt_trace_close(t);
}

static void the_same_file(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    char a[KVT_DIGEST_TEXT], b[KVT_DIGEST_TEXT];
    write_all(s, "waits.h5", true);
    write_all(s, "later.h5", false);
    digest_of_file("waits.h5", a);
    digest_of_file("later.h5", b);
    assert_string_equal(a, b);
    synth_free(s);
}

/* What was waited for may change. */
static void memory_is_free_behind_a_wait(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    int64_t n, h = spec.n_head, t = spec.n_prompt + spec.n_response;
    kvt_view v = synth_view(s, KVT_DS_LSE, 0), read;
    float *mine = calloc((size_t)(h * t), sizeof *mine);
    float *want = calloc((size_t)(h * t), sizeof *want);
    memcpy(mine, v.data, (size_t)(h * t) * sizeof *mine);
    memcpy(want, v.data, (size_t)(h * t) * sizeof *want);
    kvt_writer *w = open_writer(s, "free.h5");
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int l = 0; l < (dataset_has_layers((kvt_ds)ds) ? spec.n_layer : 1); l++) {
            if (!s->data[ds] || !dataset_in_level((kvt_ds)ds, spec.level))
                continue;
            kvt_view one = synth_view(s, (kvt_ds)ds, l);
            if (ds != KVT_DS_LSE || l != 0) {
                CHECK_OK(writer_put_later(w, (kvt_ds)ds, l, &one, &n, &err), &err);
                continue;
            }
            one.data = mine;
            CHECK_OK(writer_put_later(w, KVT_DS_LSE, 0, &one, &n, &err), &err);
            CHECK_OK(writer_wait(w, n, &err), &err);
            memset(mine, 0xff, (size_t)(h * t) * sizeof *mine);
        }
    CHECK_OK(kvt_writer_close(w, &err), &err);
    kvt_trace *trace;
    CHECK_OK(kvt_trace_open(&trace, folder_path("free.h5"), 0, &err), &err);
    CHECK_OK(kvt_trace_read(trace, KVT_DS_LSE, 0, &read, &err), &err);
    assert_memory_equal(read.data, want, (size_t)(h * t) * sizeof *want);
    kvt_trace_done(trace, &read);
    kvt_trace_close(trace);
    free(mine), free(want);
    synth_free(s);
}

static void a_failure_is_said_later(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    int64_t n;
    kvt_view v = synth_view(s, KVT_DS_LSE, 0);
    for (int how = 0; how < 3; how++) {
        kvt_writer *w = open_writer(s, "failed.h5");
        CHECK_OK(writer_put_later(w, KVT_DS_LSE, 0, &v, &n, &err), &err);
        CHECK_OK(writer_put_later(w, KVT_DS_LSE, 0, &v, &n, &err), &err); /* a second time */
        if (how == 0) {
            CHECK_FAILS(writer_wait(w, n, &err), KVT_FORMAT, "attn/lse, layer 0: written twice",
                        &err);
            CHECK_FAILS(kvt_writer_close(w, &err), KVT_IO, "failed.h5", &err);
        } else if (how == 1) {
            CHECK_FAILS(kvt_writer_close(w, &err), KVT_FORMAT, "written twice", &err);
        } else {
            kvt_writer_abort(w); /* with puts on their way */
        }
        assert_int_equal(access(folder_path("failed.h5"), F_OK), -1);
    }
    kvt_writer *w = open_writer(s, "failed.h5"); /* shapes are looked at at once */
    CHECK_FAILS(writer_put_later(w, KVT_DS_LSE, 9, &v, &n, &err), KVT_FORMAT, "layer 9", &err);
    kvt_writer_abort(w);
    assert_int_equal(folder_count(folder_name), 3); /* of the other tests; nothing temporary */
    synth_free(s);
}

/* The thread stays with the parent: a child waits for nothing. */
static void a_child_does_not_hang(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    int64_t n;
    kvt_view v = synth_view(s, KVT_DS_LSE, 0);
    kvt_writer *w = open_writer(s, "child.h5");
    CHECK_OK(writer_put_later(w, KVT_DS_LSE, 0, &v, &n, &err), &err);
    pid_t pid = fork();
    if (pid == 0) {
        kvt_err e;
        alarm(20);
        for (int i = 0; i < 20; i++) /* the put may have been done before the fork */
            if (writer_put_later(w, KVT_DS_LSE, 1, &v, &n, &e) || writer_wait(w, n, &e))
                _exit(strstr(e.text, "before a fork") ? 0 : 2);
        _exit(3);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    kvt_writer_abort(w);
    synth_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_file),
        cmocka_unit_test(memory_is_free_behind_a_wait),
        cmocka_unit_test(a_failure_is_said_later),
        cmocka_unit_test(a_child_does_not_hang),
    };
    folder_new();
    int n = CHECK_RUN("writer_later", tests, CHECK_COUNT(tests));
    folder_end();
    return n;
}
