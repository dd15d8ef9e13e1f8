/* test_probe.c - probes: written with a trace, added to one that is there, read back; what is
 * refused; the trace is whole at every moment. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/synth_more.h"

#include "base/digest.h"
#include "base/half.h"
#include "traces/h5.h"
#include "traces/io.h"
#include "traces/probe_priv.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "kvt/arena.h"

static kvt_err err;

static synth_spec small(void)
{
    synth_spec s = synth_default();
    s.draft_budget[0] = 6;
    s.draft_budget[1] = 12;
    s.probe_rows = 4;
    return s;
}

/* A trace with or without the probes of a synth. */
static void write_one(const synth_spec *spec, const char *path, bool with)
{
    synth *s = synth_new(spec);
    if (with)
        synth_probes(s);
    CHECK_OK(synth_write(s, path, &err), &err);
    synth_free(s);
}

static void list_of(const kvt_probe_data **out, const synth *s)
{
    for (int i = 0; i < s->n_probe; i++)
        out[i] = &s->probe[i];
}

static void content(const char *path, char out[KVT_DIGEST_TEXT])
{
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    memcpy(out, kvt_trace_info_of(t)->digest, KVT_DIGEST_TEXT);
    kvt_trace_close(t);
}

/* Element i of a probe's layer of the model, as the reader gives it. */
static double given(const kvt_probe_data *p, kvt_probe_set set, int64_t i)
{
    switch (probe_dataset_of(set)->dtype) {
    case KVT_F16: return (double)half_to_float(((const uint16_t *)p->data[set])[i]);
    case KVT_F32: return (double)((const float *)p->data[set])[i];
    case KVT_U8: return ((const uint8_t *)p->data[set])[i];
    default: return ((const int32_t *)p->data[set])[i];
    }
}

static double read_at(const kvt_view *v, int64_t i)
{
    return v->dtype == KVT_F32   ? (double)((const float *)v->data)[i]
           : v->dtype == KVT_I32 ? ((const int32_t *)v->data)[i]
                                 : ((const uint8_t *)v->data)[i];
}

static void compare(kvt_trace *t, const kvt_probe_data *p)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    int at = kvt_trace_probe_find(t, p->info.name);
    assert_in_range(at, 0, kvt_trace_probe_count(t) - 1);
    const kvt_probe_info *got = kvt_trace_probe_info(t, at);
    assert_int_equal(got->kind, p->info.kind);
    assert_string_equal(got->args, p->info.args);
    assert_string_equal(got->source_digest, p->info.source_digest);
    assert_int_equal(got->budget, p->info.budget);
    assert_int_equal(got->n_segment, p->info.n_segment);
    assert_int_equal(got->n_keep, p->info.n_keep);
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        bool layers = probe_has_layers((kvt_probe_set)i);
        kvt_view v;
        assert_int_equal(got->has[i], p->data[i] != NULL);
        if (!p->data[i]) {
            CHECK_FAILS(kvt_trace_read_probe(t, at, (kvt_probe_set)i, 0, &v, &err),
                        KVT_NOTFOUND, "has no", &err);
            continue;
        }
        for (int l = 0; l < (layers ? info->n_layer : 1); l++) {
            CHECK_OK(kvt_trace_read_probe(t, at, (kvt_probe_set)i, l, &v, &err), &err);
            int64_t n = kvt_view_count(&v), from = layers ? info->layer_id[l] * n : 0;
            assert_string_equal(v.axes, probe_dataset_of((kvt_probe_set)i)->axes + layers);
            for (int64_t k = 0; k < n; k++)
                assert_true(read_at(&v, k) == given(p, (kvt_probe_set)i, from + k));
            kvt_free((void *)(uintptr_t)v.data);
        }
    }
}

/* Written with the trace or added later: the same probes, the same digests, the content's
 * digest as without any. */
static void round_trip(const synth_spec *spec)
{
    const kvt_probe_data *list[SYNTH_PROBES_MAX];
    char bare[KVT_DIGEST_TEXT], with[KVT_DIGEST_TEXT], added[KVT_DIGEST_TEXT];
    kvt_trace *a, *b;
    synth *s = synth_new(spec);
    synth_probes(s);
    list_of(list, s);
    assert_true(s->n_probe >= KVT_PROBE_KINDS);
    write_one(spec, folder_path("bare.h5"), false);
    content(folder_path("bare.h5"), bare);
    CHECK_OK(synth_write(s, folder_path("with.h5"), &err), &err);
    content(folder_path("with.h5"), with);
    CHECK_OK(kvt_trace_add_probes(folder_path("bare.h5"), list, s->n_probe, false, &err), &err);
    content(folder_path("bare.h5"), added);
    assert_string_equal(bare, with);
    assert_string_equal(bare, added);
    CHECK_OK(kvt_trace_open(&a, folder_path("with.h5"), 0, &err), &err);
    CHECK_OK(kvt_trace_open(&b, folder_path("bare.h5"), 0, &err), &err);
    assert_int_equal(kvt_trace_probe_count(a), s->n_probe);
    assert_int_equal(kvt_trace_probe_count(b), s->n_probe);
    for (int i = 0; i < s->n_probe; i++) {
        compare(a, list[i]);
        compare(b, list[i]);
        assert_string_equal(kvt_trace_probe_info(a, i)->digest,
                            kvt_trace_probe_info(b, i)->digest);
    }
    assert_int_equal(kvt_trace_probe_find(a, "nothing"), -1);
    assert_null(kvt_trace_probe_info(a, s->n_probe));
    assert_null(kvt_trace_probe_info(a, -1));
    kvt_trace_close(a);
    kvt_trace_close(b);
    synth_free(s);
    unlink(folder_path("bare.h5"));
    unlink(folder_path("with.h5"));
}

static void every_kind(void **state)
{
    (void)state;
    synth_spec spec = small();
    round_trip(&spec);
}

static void some_layers(void **state)
{
    (void)state;
    synth_spec spec = small();
    spec.model_layers = 5;
    spec.window = 7;
    round_trip(&spec);
}

static void compressed(void **state)
{
    (void)state;
    synth_spec spec = small();
    spec.compress = true;
    spec.probe_rows = 40;
    round_trip(&spec);
}

static void kinds_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < KVT_PROBE_KINDS; i++) {
        assert_int_equal(kvt_probe_kind_find(kvt_probe_kind_name((kvt_probe_kind)i)), i);
        assert_true(kvt_probe_kind_args((kvt_probe_kind)i)[0] != 0);
        assert_true(kvt_probe_kind_help((kvt_probe_kind)i)[0] != 0);
    }
    assert_int_equal(kvt_probe_kind_find("draf"), -1);
}

/* ---- what is refused -----------------------------------------------------------------------
 */

static void no_q(kvt_probe_data *p)
{
    p->data[KVT_PROBE_SET_Q] = NULL;
}
static void no_norm(kvt_probe_data *p)
{
    p->data[KVT_PROBE_SET_NORM] = NULL;
}
static void upper_case(kvt_probe_data *p)
{
    snprintf(p->info.name, sizeof p->info.name, "Look");
}
static void no_name(kvt_probe_data *p)
{
    p->info.name[0] = 0;
}
static void two_dots(kvt_probe_data *p)
{
    snprintf(p->info.name, sizeof p->info.name, "..");
}
static void a_slash(kvt_probe_data *p)
{
    snprintf(p->info.name, sizeof p->info.name, "a/b");
}
static void no_rows(kvt_probe_data *p)
{
    p->info.n_row = 0;
}
static void other_kind(kvt_probe_data *p)
{
    p->info.kind = KVT_PROBE_KINDS;
}
static void budget_only(kvt_probe_data *p)
{
    p->info.budget = 8;
}
static void lanes(kvt_probe_data *p)
{
    p->info.n_keep = 3;
}
static void segments(kvt_probe_data *p)
{
    p->info.n_segment = 2;
}
static void no_segments(kvt_probe_data *p)
{
    p->info.n_segment = 0;
}
static int32_t number[64];
static int32_t *numbers(kvt_probe_data *p, kvt_probe_set set, int64_t n)
{
    for (int i = 0; i < 64; i++)
        number[i] = i < n && p->data[set] ? ((const int32_t *)p->data[set])[i] : 0;
    p->data[set] = number;
    return number;
}
static void pos_falls(kvt_probe_data *p)
{
    numbers(p, KVT_PROBE_SET_POS, p->info.n_row)[2] = 25;
}
static void pos_is_negative(kvt_probe_data *p)
{
    numbers(p, KVT_PROBE_SET_POS, p->info.n_row)[0] = -1;
}
static void id_of_no_vocabulary(kvt_probe_data *p)
{
    numbers(p, KVT_PROBE_SET_ID, p->info.n_row)[1] = 1 << 30;
}
static void segment_jumps(kvt_probe_data *p)
{
    p->info.n_segment = 2;
    numbers(p, KVT_PROBE_SET_SEGMENT, 0)[1] = 2;
}
static void segment_is_missing(kvt_probe_data *p)
{
    p->info.n_segment = 2;
    numbers(p, KVT_PROBE_SET_SEGMENT, 0);
}
static void begin_alone(kvt_probe_data *p)
{
    numbers(p, KVT_PROBE_SET_BEGIN, 0);
}
static void from_behind(kvt_probe_data *p)
{
    numbers(p, KVT_PROBE_SET_FROM, 0)[0] = 100;
}

/* Rows 0 and 1 are one segment, 2 and 3 the other. */
static void from_of_another_segment(kvt_probe_data *p)
{
    static const int32_t of[] = {0, 0, 1, 1}, from[] = {0, 1};
    p->info.n_segment = 2;
    p->data[KVT_PROBE_SET_SEGMENT] = of;
    p->data[KVT_PROBE_SET_FROM] = from;
}

static void from_of_the_next_segment(kvt_probe_data *p)
{
    static const int32_t from[] = {2, 3};
    from_of_another_segment(p);
    p->data[KVT_PROBE_SET_FROM] = from;
}

static const struct refusal {
    const char *name;
    void (*edit)(kvt_probe_data *p);
    const char *part;
} refusals[] = {
    {"no queries", no_q, "has no q"},
    {"no norms", no_norm, "has no norm"},
    {"a name in upper case", upper_case, "'Look': expected a name of a-z"},
    {"no name", no_name, "'': expected a name of a-z"},
    {"a name of two dots", two_dots, "'..': expected a name of a-z"},
    {"a name with a slash", a_slash, "'a/b': expected a name of a-z"},
    {"no rows", no_rows, "0 rows, budget 0"},
    {"no kind", other_kind, "is no kind of probe"},
    {"a budget without a set", budget_only, "keep, a budget and n_keep go together"},
    {"lanes that no model has", lanes, "n_keep: expected 0, 2 or 4, got 3"},
    {"segments without numbers", segments, "2 segments without segment"},
    {"no segment", no_segments, "segments: expected 1 to 4 (rows), got 0"},
    {"positions that fall", pos_falls, "pos[2]: 25 does not come after 25"},
    {"a negative position", pos_is_negative, "pos[0]: expected 0 to"},
    {"an id of no vocabulary", id_of_no_vocabulary, "id[1]: expected 0 to"},
    {"a segment is left out", segment_jumps, "segment[1]: expected numbers that rise"},
    {"fewer segments than said", segment_is_missing, "segment: expected 2 of them, got 1"},
    {"a begin without an end", begin_alone, "chunk/begin and chunk/end go together"},
    {"a row behind the last", from_behind,
     "chunk/from[0]: expected a row of its segment, 0 to 3, got 100"},
    {"a row of another segment", from_of_another_segment,
     "chunk/from[1]: expected a row of its segment, 2 to 3, got 1"},
    {"a row of the next segment", from_of_the_next_segment,
     "chunk/from[0]: expected a row of its segment, 0 to 1, got 2"},
};

static void is_refused(void **state)
{
    const struct refusal *r = *state;
    synth_spec spec = small();
    char before[KVT_DIGEST_TEXT], after[KVT_DIGEST_TEXT];
    const char *path = folder_path("refused.h5");
    synth *s = synth_new(&spec);
    synth_probes(s);
    spec.force = true;
    write_one(&spec, path, false);
    CHECK_OK(digest_file(path, before, &err), &err);
    const kvt_probe_data *from = synth_probe_of(s, KVT_PROBE_LOOKAHEADKV, 0);
    assert_non_null(from);
    kvt_probe_data p = *from;
    const kvt_probe_data *list = &p;
    r->edit(&p);
    CHECK_FAILS(kvt_trace_add_probes(path, &list, 1, false, &err), KVT_FORMAT, r->part, &err);
    CHECK_OK(digest_file(path, after, &err), &err);
    assert_string_equal(before, after);
    synth_free(s);
    unlink(path);
}

static void twice_in_one_call(void **state)
{
    (void)state;
    synth_spec spec = small();
    synth *s = synth_new(&spec);
    synth_probes(s);
    write_one(&spec, folder_path("twice.h5"), false);
    const kvt_probe_data *list[] = {&s->probe[0], &s->probe[0]};
    CHECK_FAILS(kvt_trace_add_probes(folder_path("twice.h5"), list, 2, true, &err), KVT_FORMAT,
                "given twice", &err);
    CHECK_FAILS(kvt_trace_add_probes(folder_path("none.h5"), list, 1, true, &err), KVT_NOTFOUND,
                "cannot be opened", &err);
    synth_free(s);
    unlink(folder_path("twice.h5"));
}

/* ---- replacing -----------------------------------------------------------------------------
 */

static void force_replaces(void **state)
{
    (void)state;
    synth_spec spec = small();
    const char *path = folder_path("force.h5");
    write_one(&spec, path, true);
    int64_t size = 0;
    kvt_trace *t;
    for (int round = 0; round < 6; round++) {
        struct stat st;
        spec.probe_rows = 5 - round % 2;
        synth *s = synth_new(&spec);
        synth_probes(s);
        const kvt_probe_data *one = synth_probe_of(s, KVT_PROBE_REPEAT, 0);
        assert_non_null(one);
        CHECK_FAILS(kvt_trace_add_probes(path, &one, 1, false, &err), KVT_IO,
                    "is there already; --force replaces it", &err);
        CHECK_OK(kvt_trace_add_probes(path, &one, 1, true, &err), &err);
        CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
        assert_int_equal(kvt_trace_probe_count(t), s->n_probe);
        compare(t, one);
        kvt_trace_close(t);
        synth_free(s);
        assert_int_equal(stat(path, &st), 0);
        if (round == 1)
            size = st.st_size;
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size <= size + size / 4); /* what goes away is used again */
    unlink(path);
}

/* The link stays a link, the file keeps its mode, nothing else is left beside it. */
static void link_and_mode_stay(void **state)
{
    (void)state;
    synth_spec spec = small();
    struct stat st;
    mkdir(folder_path("far"), 0777);
    write_one(&spec, folder_path("far/real.h5"), false);
    assert_int_equal(chmod(folder_path("far/real.h5"), 0440), 0);
    assert_int_equal(symlink("far/real.h5", folder_path("link.h5")), 0);
    synth *s = synth_new(&spec);
    synth_probes(s);
    const kvt_probe_data *one = &s->probe[0];
    CHECK_OK(kvt_trace_add_probes(folder_path("link.h5"), &one, 1, false, &err), &err);
    assert_int_equal(lstat(folder_path("link.h5"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(folder_path("far/real.h5"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0440);
    assert_int_equal(folder_count(folder_path("far")), 1);
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, folder_path("link.h5"), 0, &err), &err);
    compare(t, one);
    kvt_trace_close(t);
    synth_free(s);
}

/* ---- kills ---------------------------------------------------------------------------------
 */

/* Killed at any moment, the trace is whole: with the probe or without it. */
static void a_kill_leaves_a_whole_file(void **state)
{
    (void)state;
    synth_spec spec = small();
    const char *path = folder_path("killed.h5");
    char before[KVT_DIGEST_TEXT], after[KVT_DIGEST_TEXT];
    synth *s = synth_new(&spec);
    synth_probes(s);
    const kvt_probe_data *one = &s->probe[0];
    write_one(&spec, path, false);
    content(path, before);
    int n_killed = 0;
    for (long wait_us = 0; wait_us < 12000; wait_us += 400) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            kvt_err mine;
            _exit(kvt_trace_add_probes(path, &one, 1, true, &mine) != KVT_OK);
        }
        struct timespec pause = {.tv_nsec = wait_us * 1000};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        n_killed += WIFSIGNALED(status);
        content(path, after);
        assert_string_equal(before, after);
    }
    assert_true(n_killed > 0);
    synth_free(s);
}

/* Files may not grow beyond a limit, as on a full disk: the old trace stays, nothing is left
 * beside it. */
static void a_full_disk_leaves_the_old_one(void **state)
{
    (void)state;
    synth_spec spec = small();
    char before[KVT_DIGEST_TEXT], after[KVT_DIGEST_TEXT];
    struct stat st;
    mkdir(folder_path("full"), 0777);
    char path[1024];
    snprintf(path, sizeof path, "%s", folder_path("full/a.h5"));
    synth *s = synth_new(&spec);
    synth_probes(s);
    const kvt_probe_data *list[SYNTH_PROBES_MAX];
    list_of(list, s);
    write_one(&spec, path, false);
    CHECK_OK(digest_file(path, before, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    signal(SIGXFSZ, SIG_IGN);
    int n_failed = 0;
    for (rlim_t most = (rlim_t)st.st_size / 2; n_failed < 100; most += 4096) {
        struct rlimit old, limit;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        limit = (struct rlimit){.rlim_cur = most, .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        kvt_code code = kvt_trace_add_probes(path, list, s->n_probe, false, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(folder_count(folder_path("full")), 1);
        if (code == KVT_OK)
            break;
        n_failed++;
        assert_int_equal(code, KVT_IO);
        CHECK_OK(digest_file(path, after, &err), &err);
        assert_string_equal(before, after);
    }
    assert_in_range(n_failed, 5, 99);
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    assert_int_equal(kvt_trace_probe_count(t), s->n_probe);
    kvt_trace_close(t);
    synth_free(s);
}

static void a_read_only_folder_is_told(void **state)
{
    (void)state;
    synth_spec spec = small();
    char before[KVT_DIGEST_TEXT], after[KVT_DIGEST_TEXT];
    if (geteuid() == 0) /* may write everywhere */
        skip();
    mkdir(folder_path("closed"), 0777);
    const char *path = folder_path("closed/a.h5");
    synth *s = synth_new(&spec);
    synth_probes(s);
    const kvt_probe_data *one = &s->probe[0];
    write_one(&spec, path, false);
    CHECK_OK(digest_file(path, before, &err), &err);
    assert_int_equal(chmod(folder_path("closed"), 0555), 0);
    CHECK_FAILS(kvt_trace_add_probes(path, &one, 1, false, &err), KVT_IO, "write to the folder",
                &err);
    assert_int_equal(chmod(folder_path("closed"), 0777), 0);
    CHECK_OK(digest_file(path, after, &err), &err);
    assert_string_equal(before, after);
    assert_int_equal(folder_count(folder_path("closed")), 1);
    synth_free(s);
}

/* ---- files that lie ------------------------------------------------------------------------
 */

typedef struct lie {
    const char *name, *set, *part;
    int32_t value;
    int at;
} lie;

/* Puts a number into a dataset, its checksum set right: only the check of indices is left. */
static kvt_code tell(void *arg, kvt_err *e)
{
    const lie *l = arg;
    hid_t file, set;
    int32_t x[256];
    char path[100];
    snprintf(path, sizeof path, "probe/repeat/%s", l->set);
    if (h5_file_change(&file, folder_path("lie.h5"), e) || h5_set_open(&set, file, path, e) ||
        h5_set_read(x, set, H5T_NATIVE_INT32, e))
        return e->code;
    hid_t space = H5Dget_space(set);
    size_t n = (size_t)H5Sget_simple_extent_npoints(space);
    H5Sclose(space);
    x[l->at] = l->value;
    uint64_t sum = digest_64(x, n * sizeof *x);
    assert_true(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
    assert_true(H5Adelete(set, "xxh64") >= 0);
    kvt_code code = h5_put_array(set, "xxh64", H5T_STD_U64LE, 1, &sum, e);
    H5Dclose(set);
    return code ? code : h5_file_close(file, e);
}

static const lie lies[] = {
    {"segment", "segment", "segment[1]: expected numbers that rise", 7, 1},
    {"begin", "chunk/begin", "chunk/begin[0]: expected 0 to 23, got -1", -1, 0},
    {"end", "chunk/end", "chunk/end[1]: expected 1 to 24, got 25", 25, 1},
    {"an empty chunk", "chunk/end", "chunk/end[1]: 1 does not come after", 1, 1},
    {"from", "chunk/from", "chunk/from[0]: expected a row of its segment, 0 to 9", 1000, 0},
    {"pos", "pos", "pos[1]: expected 0 to", INT32_MAX, 1},
    {"id", "id", "id[0]: expected 0 to", -5, 0},
};

static void an_index_is_checked(void **state)
{
    synth_spec spec = small();
    kvt_trace *t;
    lie l = *(const lie *)*state;
    synth *s = synth_new(&spec);
    synth_probes(s);
    kvt_probe_data p = *synth_probe_of(s, KVT_PROBE_REPEAT, 0);
    const kvt_probe_data *one = &p;
    snprintf(p.info.name, sizeof p.info.name, "repeat");
    unlink(folder_path("lie.h5"));
    write_one(&spec, folder_path("lie.h5"), false);
    CHECK_OK(kvt_trace_add_probes(folder_path("lie.h5"), &one, 1, false, &err), &err);
    CHECK_OK(io_once(tell, &l, &err), &err);
    CHECK_FAILS(kvt_trace_open(&t, folder_path("lie.h5"), 0, &err), KVT_FORMAT, l.part, &err);
    synth_free(s);
}

/* A group of a name that no probe can have, or with a number of rows that none can. */
static kvt_code rename_or_count(void *arg, kvt_err *e)
{
    hid_t file, group;
    const int64_t *n_row = arg;
    char name[200];
    memset(name, 'x', sizeof name);
    memcpy(name, "probe/", 6);
    name[sizeof name - 1] = 0;
    if (h5_file_change(&file, folder_path("lie.h5"), e))
        return e->code;
    if (!n_row) {
        assert_true(H5Lmove(file, "probe/repeat", file, name, H5P_DEFAULT, H5P_DEFAULT) >= 0);
        return h5_file_close(file, e);
    }
    group = H5Gopen2(file, "probe/repeat", H5P_DEFAULT);
    assert_true(group >= 0 && H5Adelete(group, "n_row") >= 0);
    kvt_code code = h5_put_int(group, "n_row", *n_row, e);
    H5Gclose(group);
    return code ? code : h5_file_close(file, e);
}

static void names_and_rows_are_told(void **state)
{
    (void)state;
    static int64_t rows[] = {-3, 0, 1 << 30, INT64_MAX};
    static const char *const parts[] = {
        "n_row: expected 1 or more, got -3", "n_row: expected 1 or more, got 0",
        "repeat: q:", "repeat: q:", "a name of 193 bytes, at most"};
    synth_spec spec = small();
    kvt_trace *t;
    synth *s = synth_new(&spec);
    synth_probes(s);
    kvt_probe_data p = *synth_probe_of(s, KVT_PROBE_REPEAT, 0);
    const kvt_probe_data *one = &p;
    snprintf(p.info.name, sizeof p.info.name, "repeat");
    for (int i = 0; i < 5; i++) {
        unlink(folder_path("lie.h5"));
        write_one(&spec, folder_path("lie.h5"), false);
        CHECK_OK(kvt_trace_add_probes(folder_path("lie.h5"), &one, 1, false, &err), &err);
        CHECK_OK(io_once(rename_or_count, i < 4 ? &rows[i] : NULL, &err), &err);
        CHECK_FAILS(kvt_trace_open(&t, folder_path("lie.h5"), 0, &err), KVT_FORMAT, parts[i],
                    &err);
    }
    synth_free(s);
}

/* ---- verify --------------------------------------------------------------------------------
 */

static char failed[2000];

static void collect(void *user, const kvt_finding *f)
{
    int *n = user;
    *n += f->ok;
    if (!f->ok)
        snprintf(failed + strlen(failed), sizeof failed - strlen(failed), "%s: %s\n", f->check,
                 f->text);
}

static kvt_code verify(const char *path, int *n_ok)
{
    kvt_trace *t;
    failed[0] = 0;
    *n_ok = 0;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    kvt_code code = kvt_trace_check(t, collect, n_ok, &err);
    kvt_trace_close(t);
    return code;
}

static void verify_takes_what_is_right(void **state)
{
    (void)state;
    synth_spec spec = small();
    spec.model_layers = 3;
    spec.window = 9;
    spec.force = true;
    int bare, with;
    write_one(&spec, folder_path("v.h5"), false);
    CHECK_OK(verify(folder_path("v.h5"), &bare), &err);
    write_one(&spec, folder_path("v.h5"), true);
    if (verify(folder_path("v.h5"), &with) != KVT_OK)
        fail_msg("%s", failed);
    assert_true(with >= bare + 2 * KVT_PROBE_KINDS); /* a digest and an lse each */
}

/* A log-sum-exp, a set or a key that is not what the rows saw. */
static void verify_finds_what_is_wrong(void **state)
{
    (void)state;
    synth_spec spec = small();
    spec.force = true;
    int n;
    synth *s = synth_new(&spec);
    synth_probes(s);
    kvt_probe_data p = *synth_probe_of(s, KVT_PROBE_DRAFT, 6);
    const kvt_probe_data *one = &p;
    const char *path = folder_path("w.h5");
    int64_t n_lse = spec.n_layer * spec.n_head * p.info.n_row;
    int64_t n_keep = spec.n_layer * p.info.n_keep * spec.n_prompt;
    float *lse = kvt_alloc(n_lse, sizeof *lse);
    uint8_t *keep = kvt_alloc(n_keep, 1);
    memcpy(lse, p.data[KVT_PROBE_SET_LSE], (size_t)n_lse * sizeof *lse);
    memcpy(keep, p.data[KVT_PROBE_SET_KEEP], (size_t)n_keep);
    write_one(&spec, path, false);

    lse[n_lse - 1] += 0.25f;
    p.data[KVT_PROBE_SET_LSE] = lse;
    CHECK_OK(kvt_trace_add_probes(path, &one, 1, true, &err), &err);
    CHECK_FAILS(verify(path, &n), KVT_NO, "1 checks failed", &err);
    assert_non_null(strstr(failed, "lse against its queries"));

    lse[n_lse - 1] = NAN;
    CHECK_OK(kvt_trace_add_probes(path, &one, 1, true, &err), &err);
    CHECK_FAILS(verify(path, &n), KVT_NO, "1 checks failed", &err);
    assert_non_null(strstr(failed, "NaN or infinity"));

    p.data[KVT_PROBE_SET_LSE] = synth_probe_of(s, KVT_PROBE_DRAFT, 6)->data[KVT_PROBE_SET_LSE];
    p.data[KVT_PROBE_SET_KEEP] = keep;
    memset(keep, 1, (size_t)n_keep);
    CHECK_OK(kvt_trace_add_probes(path, &one, 1, true, &err), &err);
    CHECK_FAILS(verify(path, &n), KVT_NO, "2 checks failed", &err);
    assert_non_null(strstr(failed, "24 tokens a lane, a budget of 6"));
    kvt_free(lse);
    kvt_free(keep);
    synth_free(s);
}

/* ---- decisions -----------------------------------------------------------------------------
 */

static void decisions_need_a_policy(void **state)
{
    (void)state;
    synth_spec spec = small();
    int n;
    spec.force = true;
    spec.decision_policy = "kvpop";
    spec.decision_shift = 1;
    CHECK_OK(synth_file(&spec, folder_path("d.h5"), &err), &err);
    if (verify(folder_path("d.h5"), &n) != KVT_OK)
        fail_msg("%s", failed);
    synth *s = synth_new(&spec);
    s->out.facts.decision_policy[0] = 0;
    CHECK_FAILS(synth_write(s, folder_path("d.h5"), &err), KVT_FORMAT,
                "decision/logit needs attribute 'policy' of /decision", &err);
    snprintf(s->out.facts.decision_policy, sizeof s->out.facts.decision_policy, "kvpop");
    snprintf(s->out.facts.decision_cache, sizeof s->out.facts.decision_cache, "wet");
    CHECK_FAILS(synth_write(s, folder_path("d.h5"), &err), KVT_FORMAT,
                "/decision cache: expected dense or evicted, got 'wet'", &err);
    snprintf(s->out.facts.decision_cache, sizeof s->out.facts.decision_cache, "dense");
    ((float *)s->data[KVT_DS_DECISION_G])[0] = 1.5f;
    CHECK_OK(synth_write(s, folder_path("d.h5"), &err), &err);
    CHECK_FAILS(verify(folder_path("d.h5"), &n), KVT_NO, "1 checks failed", &err);
    assert_non_null(strstr(failed, "decision/gamma above 0 and at most 1"));
    synth_free(s);
}

int main(void)
{
    struct CMUnitTest tests[64] = {
        cmocka_unit_test(every_kind),
        cmocka_unit_test(some_layers),
        cmocka_unit_test(compressed),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(twice_in_one_call),
        cmocka_unit_test(names_and_rows_are_told),
        cmocka_unit_test(force_replaces),
        cmocka_unit_test(link_and_mode_stay),
        cmocka_unit_test(a_kill_leaves_a_whole_file),
        cmocka_unit_test(a_full_disk_leaves_the_old_one),
        cmocka_unit_test(a_read_only_folder_is_told),
        cmocka_unit_test(verify_takes_what_is_right),
        cmocka_unit_test(verify_finds_what_is_wrong),
        cmocka_unit_test(decisions_need_a_policy),
    };
    int n = 13;
    CHECK_ROWS(tests, &n, refusals, is_refused);
    CHECK_ROWS(tests, &n, lies, an_index_is_checked);
    folder_new();
    int failures = CHECK_RUN("probe", tests, n);
    folder_end();
    return failures != 0;
}
