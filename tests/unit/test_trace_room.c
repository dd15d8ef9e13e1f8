/* test_trace_room.c - no room on disk (C053), a read-only folder, a folder that is not there:
 * an error with the system's reason, and nothing under a final name. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth.h"

#include "traces/h5.h"
#include "traces/io.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

static kvt_err err;
static char disk[600]; /* a file system of 1 MiB, "" where it could not be mounted */

static synth_spec large(void)
{
    synth_spec s = synth_default();
    s.n_layer = 4;
    s.n_prompt = 400;
    s.head_dim = 32;
    s.n_kv_head = 4;
    s.last_queries = 16;
    s.no_rows = true;
    return s;
}

/* Takes `bytes` of the disk away. */
static void fill(const char *name, size_t bytes)
{
    char path[700], block[4096];
    memset(block, 1, sizeof block);
    snprintf(path, sizeof path, "%s/%s", disk, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < bytes / sizeof block; i++)
        if (fwrite(block, sizeof block, 1, f) != 1)
            break;
    fclose(f);
}

static void too_large_is_told_before(void **state)
{
    (void)state;
    char path[700];
    if (!disk[0])
        skip();
    synth_spec spec = large();
    snprintf(path, sizeof path, "%s/a.h5", disk);
    CHECK_FAILS(synth_file(&spec, path, &err), KVT_IO, "no room: needs", &err);
    assert_int_equal(folder_count(disk), 0);
}

/* The room goes while the trace is written: after each of its datasets in turn. */
static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    char path[700];
    if (!disk[0])
        skip();
    synth_spec spec = synth_default();
    spec.n_prompt = 100;
    synth *s = synth_new(&spec);
    int64_t need = kvt_writer_bytes(&s->out, true);
    assert_true(need < 700 << 10);
    snprintf(path, sizeof path, "%s/a.h5", disk);
    int n_failed = 0;
    for (int stop = 0; stop <= KVT_DS_COUNT; stop++)
        for (int compress = 0; compress < 2; compress++) {
            kvt_writer *w;
            s->out.compress = compress;
            CHECK_OK(kvt_writer_open(&w, path, &s->out, &err), &err);
            kvt_code code = KVT_OK;
            for (int ds = 0; ds <= KVT_DS_COUNT && !code; ds++) {
                if (ds == stop)
                    fill("ballast", 1 << 20);
                if (ds == KVT_DS_COUNT || !s->data[ds] ||
                    kvt_dataset_of((kvt_ds)ds)->level > spec.level)
                    continue;
                const char *axes = kvt_dataset_of((kvt_ds)ds)->axes;
                for (int l = 0; l < (axes[0] == 'L' && axes[1] ? 2 : 1) && !code; l++) {
                    kvt_view v = synth_view(s, (kvt_ds)ds, l);
                    code = kvt_writer_put(w, (kvt_ds)ds, l, &v, &err);
                }
            }
            if (code)
                kvt_writer_abort(w);
            else
                code = kvt_writer_close(w, &err);
            n_failed += code != KVT_OK;
            if (code && code != KVT_IO && code != KVT_FORMAT)
                fail_msg("stop %d: %s: %s", stop, kvt_code_name(code), err.text);
            char ballast[700];
            snprintf(ballast, sizeof ballast, "%s/ballast", disk);
            unlink(ballast);
            if (code) { /* neither the file nor its temporary one */
                if (folder_count(disk) != 0)
                    fail_msg("stop %d: something is left behind: %s", stop, err.text);
            } else { /* all of it was on the disk before: then it is whole */
                kvt_trace *t;
                CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
                for (int l = 0; l < 2; l++) {
                    kvt_view v;
                    CHECK_OK(kvt_trace_read(t, KVT_DS_KEYS, l, &v, &err), &err);
                    kvt_trace_done(t, &v);
                }
                kvt_trace_close(t);
                unlink(path);
            }
        }
    print_message("%d of %d writes met the full disk\n", n_failed, 2 * (KVT_DS_COUNT + 1));
    assert_true(n_failed > KVT_DS_COUNT);
    synth_free(s);
}

/* Works without a mount: a file may not grow beyond a limit. */
static void a_limit_of_size_is_an_error(void **state)
{
    (void)state;
    struct rlimit old, low;
    synth_spec spec = synth_default();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = old;
    low.rlim_cur = 40 << 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    kvt_code code = synth_file(&spec, folder_path("limit.h5"), &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(code, KVT_IO);
    assert_int_equal(folder_count(folder_name), disk[0] ? 1 : 0); /* the mount point */
}

static void a_wrong_folder_is_told(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    kvt_code code = synth_file(&spec, folder_path("none/a.h5"), &err);
    assert_true(code == KVT_IO || code == KVT_NOTFOUND);
    assert_non_null(strstr(err.text, "none/a.h5"));
    if (geteuid() == 0)
        return; /* root may write everywhere */
    mkdir(folder_path("closed"), 0500);
    CHECK_FAILS(synth_file(&spec, folder_path("closed/a.h5"), &err), KVT_IO, "closed/a.h5",
                &err);
}

static void a_read_only_disk_is_told(void **state)
{
    (void)state;
    char path[700];
    synth_spec spec = synth_default();
    if (!disk[0])
        skip();
    snprintf(path, sizeof path, "%s/a.h5", disk);
    assert_int_equal(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    kvt_code code = synth_file(&spec, path, &err);
    assert_int_equal(mount(NULL, disk, NULL, MS_REMOUNT, NULL), 0);
    assert_int_equal(code, KVT_IO);
    assert_non_null(strstr(err.text, "Read-only file system"));
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(too_large_is_told_before),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(a_limit_of_size_is_an_error),
        cmocka_unit_test(a_wrong_folder_is_told),
        cmocka_unit_test(a_read_only_disk_is_told),
    };
    folder_new();
    snprintf(disk, sizeof disk, "%s", folder_path("disk"));
    mkdir(disk, 0700);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=1m") != 0) {
        perror("test_trace_room: no file system to fill (needs root): two tests are skipped");
        rmdir(disk);
        disk[0] = 0;
    }
    int failed = cmocka_run_group_tests_name("trace_room", t, NULL, NULL);
    if (disk[0])
        umount(disk);
    folder_end();
    return failed;
}
