/* test_file.c - whole reads, safe replacement, folders; nothing stays open (C060). */
#include "tests/check.h"

#include "base/file.h"
#include "kvt/arena.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[1000]; /* a fresh folder in the build folder */

static const char *in_root(const char *name)
{
    static char paths[4][1200];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "%s/test_file.XXXXXX", KVT_BINARY_DIR);
    return mkdtemp(root) && !chmod(root, 0755) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[1200];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void expect_file(const char *path, const char *want)
{
    kvt_err err;
    buf b;
    buf_init(&b, 1000000);
    CHECK_OK(file_read(&b, path, 1000000, &err), &err);
    assert_string_equal(buf_get(&b), want);
    buf_fini(&b);
}

static int n_entry(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    while (d && readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void bytes_come_back(void **state)
{
    (void)state;
    kvt_err err;
    const char *path = in_root("a");
    CHECK_OK(file_write(path, "one", 3, &err), &err);
    expect_file(path, "one");
    CHECK_OK(file_write(path, "longer", 6, &err), &err);
    expect_file(path, "longer");
    assert_int_equal(file_size(path), 6);
    CHECK_OK(file_write(path, "", 0, &err), &err);
    expect_file(path, "");
    assert_int_equal(file_size(path), 0);
    assert_int_equal(file_size(in_root("none")), -1);
    static char big[300000];
    memset(big, 'x', sizeof big - 1);
    CHECK_OK(file_write(path, big, sizeof big - 1, &err), &err);
    expect_file(path, big);
    assert_int_equal(n_entry(root), 1); /* no temporary file is left */
}

static void limit_and_kind_are_checked(void **state)
{
    (void)state;
    kvt_err err;
    buf b;
    buf_init(&b, 1000);
    CHECK_OK(file_write(in_root("ten"), "0123456789", 10, &err), &err);
    CHECK_OK(file_read(&b, in_root("ten"), 10, &err), &err);
    CHECK_FAILS(file_read(&b, in_root("ten"), 9, &err), KVT_FORMAT, "larger than 9 bytes",
                &err);
    CHECK_FAILS(file_read(&b, in_root("none"), 9, &err), KVT_NOTFOUND, "No such file", &err);
    CHECK_FAILS(file_read(&b, in_root("ten/x"), 9, &err), KVT_NOTFOUND, "Not a directory",
                &err);
    CHECK_FAILS(file_read(&b, root, 9, &err), KVT_IO, "Is a directory", &err);
    buf_fini(&b);
}

static void mapping_shows_the_bytes(void **state)
{
    (void)state;
    kvt_err err;
    file_map m;
    CHECK_OK(file_write(in_root("map"), "bytes", 5, &err), &err);
    CHECK_OK(file_map_open(&m, in_root("map"), &err), &err);
    assert_int_equal(m.n, 5);
    assert_memory_equal(m.data, "bytes", 5);
    file_map_close(&m);
    assert_null(m.data);
    file_map_close(&m);
    CHECK_OK(file_write(in_root("map"), "", 0, &err), &err);
    CHECK_OK(file_map_open(&m, in_root("map"), &err), &err);
    assert_int_equal(m.n, 0);
    file_map_close(&m);
    CHECK_FAILS(file_map_open(&m, root, &err), KVT_IO, "Is a directory", &err);
    CHECK_FAILS(file_map_open(&m, in_root("none"), &err), KVT_NOTFOUND, "cannot open", &err);
}

static void temporary_names_lie_beside(void **state)
{
    (void)state;
    kvt_err err;
    char name[1200], other[1200], want[1200];
    CHECK_OK(file_temp_name(name, sizeof name, in_root("a.h5"), &err), &err);
    CHECK_OK(file_temp_name(other, sizeof other, in_root("a.h5"), &err), &err);
    assert_string_not_equal(name, other);
    snprintf(want, sizeof want, "%s/.a.h5.", root);
    assert_memory_equal(name, want, strlen(want));
    assert_string_equal(name + strlen(want) + 6, ".part");
    CHECK_OK(file_temp_name(name, sizeof name, "plain", &err), &err);
    assert_memory_equal(name, "./.plain.", 9);
    CHECK_FAILS(file_temp_name(name, 10, in_root("a.h5"), &err), KVT_USAGE,
                "longer than 9 bytes", &err);
    CHECK_FAILS(file_temp_name(name, sizeof name, in_root("no/a"), &err), KVT_NOTFOUND,
                "cannot write to the folder", &err);
    CHECK_FAILS(file_temp_name(name, sizeof name, in_root("dir/"), &err), KVT_USAGE,
                "is the name of a folder", &err);
}

/* What a killed writer left goes when the same name is written again; a living one's stays. */
static void stale_temporary_files_go(void **state)
{
    static const char *const names[] = {".s.h5.abc123.part", ".s.h5.abc124.part",
                                        ".s.h5x.abc123.part", ".other.abc123.part"};
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    (void)state;
    kvt_err err;
    char name[1200];
    for (int i = 0; i < 4; i++) {
        int fd = open(in_root(names[i]), O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        close(fd);
        if (i != 1) /* just written */
            assert_int_equal(utimensat(AT_FDCWD, in_root(names[i]), old, 0), 0);
    }
    CHECK_OK(file_temp_name(name, sizeof name, in_root("s.h5"), &err), &err);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(file_exists(in_root(names[i])), i != 0);
        unlink(in_root(names[i]));
    }
}

/* A device or pipe is written to, and never replaced by a file. */
static void devices_are_not_replaced(void **state)
{
    (void)state;
    kvt_err err;
    char got[8] = "", pipe_path[1200], name[1200];
    snprintf(pipe_path, sizeof pipe_path, "%s", in_root("pipe"));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_false(file_is_regular(pipe_path));
    int fd = open(pipe_path, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    CHECK_OK(file_write(pipe_path, "text", 4, &err), &err);
    assert_int_equal(read(fd, got, sizeof got), 4);
    assert_string_equal(got, "text");
    close(fd);
    CHECK_FAILS(file_temp_name(name, sizeof name, pipe_path, &err), KVT_USAGE,
                "is no regular file", &err);
    unlink(pipe_path);
}

static void failed_commit_leaves_the_old_file(void **state)
{
    (void)state;
    kvt_err err;
    CHECK_OK(file_write(in_root("old"), "old", 3, &err), &err);
    CHECK_FAILS(file_commit(in_root("gone.part"), in_root("old"), &err), KVT_NOTFOUND,
                "cannot write", &err);
    expect_file(in_root("old"), "old");
    CHECK_OK(file_mkdirs(in_root("folder"), &err), &err);
    CHECK_FAILS(file_write(in_root("folder"), "x", 1, &err), KVT_IO, "cannot write", &err);
    assert_true(file_is_dir(in_root("folder")));
    assert_int_equal(rmdir(in_root("folder")), 0);
}

/* A limit on the size of files stands in for a full disk: the write fails half way. */
static void no_room_leaves_nothing_behind(void **state)
{
    (void)state;
    kvt_err err;
    struct rlimit old, small;
    static char big[200000];
    int before = n_entry(root);
    CHECK_OK(file_write(in_root("room"), "old", 3, &err), &err);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 50000;
    setrlimit(RLIMIT_FSIZE, &small);
    kvt_code code = file_write(in_root("room"), big, sizeof big, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(code, KVT_IO);
    assert_non_null(strstr(err.text, "File too large"));
    expect_file(in_root("room"), "old");
    assert_int_equal(n_entry(root), before + 1);
}

static void read_only_folder_is_told_early(void **state)
{
    (void)state;
    kvt_err err;
    char name[1200];
    CHECK_OK(file_mkdirs(in_root("locked"), &err), &err);
    chmod(in_root("locked"), 0555);
    bool is_root = geteuid() == 0; /* who may write everywhere: somebody else for a moment */
    if (is_root && seteuid(65534)) {
        print_message("root writes everywhere\n");
        skip();
    }
    CHECK_FAILS(file_temp_name(name, sizeof name, in_root("locked/a"), &err), KVT_IO,
                "Permission denied", &err);
    CHECK_FAILS(file_write(in_root("locked/a"), "x", 1, &err), KVT_IO, "Permission denied",
                &err);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    chmod(in_root("locked"), 0755);
}

static void folders_are_made(void **state)
{
    (void)state;
    kvt_err err;
    CHECK_OK(file_mkdirs(in_root("x/y//z"), &err), &err);
    CHECK_OK(file_mkdirs(in_root("x/y/z/"), &err), &err);
    assert_true(file_is_dir(in_root("x/y/z")));
    assert_true(file_exists(in_root("x")));
    assert_false(file_is_dir(in_root("none")));
    CHECK_OK(file_write(in_root("x/file"), "", 0, &err), &err);
    CHECK_FAILS(file_mkdirs(in_root("x/file/deep"), &err), KVT_IO, "cannot make the folder",
                &err);
}

static const struct path_row {
    const char *name, *dir, *base;
} path_rows[] = {
    {"a.h5", ".", "a.h5"},         {"x/a.h5", "x", "a.h5"}, {"/a.h5", "/", "a.h5"},
    {"/x/y/a.h5", "/x/y", "a.h5"}, {"x/", "x", ""},         {"", ".", ""},
};

static void paths_are_split(void **state)
{
    const struct path_row *r = *state;
    char dir[100];
    assert_string_equal(file_dir(dir, sizeof dir, r->name), r->dir);
    assert_string_equal(file_base(r->name), r->base);
}

static void paths_are_joined(void **state)
{
    (void)state;
    kvt_err err;
    char path[10];
    CHECK_OK(file_join(path, sizeof path, "ab", "cd", &err), &err);
    assert_string_equal(path, "ab/cd");
    CHECK_OK(file_join(path, sizeof path, "/", "cd", &err), &err);
    assert_string_equal(path, "/cd");
    CHECK_OK(file_join(path, sizeof path, "abcd", "efgh", &err), &err);
    CHECK_FAILS(file_join(path, sizeof path, "abcde", "efgh", &err), KVT_USAGE,
                "longer than 9 bytes", &err);
}

typedef struct listing {
    char all[200];
    int stop_at, n;
    bool open_folder; /* a descriptor beyond those of the start */
    int n_open;
} listing;

static int n_open_files(void)
{
    return n_entry("/proc/self/fd"); /* with its own descriptor, the same each time */
}

static kvt_code note(void *user, const char *name, kvt_err *err)
{
    listing *l = user;
    size_t n = strlen(l->all);
    snprintf(l->all + n, sizeof l->all - n, "%s|", name);
    l->open_folder |= n_open_files() != l->n_open;
    return ++l->n == l->stop_at ? kvt_fail(err, KVT_STOPPED, "enough") : KVT_OK;
}

static void entries_come_in_byte_order(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "a", "B", ".hidden", "\u00e9", "a.h5", "10", "9"};
    kvt_err err;
    CHECK_OK(file_mkdirs(in_root("list"), &err), &err);
    for (int i = 0; i < CHECK_COUNT(names); i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s", in_root("list"), names[i]);
        CHECK_OK(file_write(path, "", 0, &err), &err);
    }
    listing l = {.n_open = n_open_files()};
    CHECK_OK(file_list(in_root("list"), note, &l, &err), &err);
    assert_string_equal(l.all, ".hidden|10|9|B|a|a.h5|b|\u00e9|");
    assert_false(l.open_folder);
    l = (listing){.stop_at = 2, .n_open = n_open_files()};
    CHECK_FAILS(file_list(in_root("list"), note, &l, &err), KVT_STOPPED, "enough", &err);
    assert_string_equal(l.all, ".hidden|10|");
    CHECK_FAILS(file_list(in_root("none"), note, &l, &err), KVT_NOTFOUND, "cannot list", &err);
    CHECK_FAILS(file_list(in_root("list/a"), note, &l, &err), KVT_NOTFOUND, "cannot list",
                &err);
    for (int n = 1;; n++) { /* each allocation fails once */
        l = (listing){.n_open = n_open_files()};
        kvt_alloc_fail_at(n, false);
        kvt_code code = file_list(in_root("list"), note, &l, &err);
        bool all = kvt_alloc_count() < n;
        kvt_alloc_fail_at(0, false);
        assert_int_equal(code, all ? KVT_OK : KVT_NOMEM);
        assert_int_equal(n_open_files(), l.n_open);
        if (all)
            break;
    }
}

/* C060: no call leaves a descriptor, so that no helper can inherit one. */
static void nothing_stays_open(void **state)
{
    (void)state;
    kvt_err err;
    char name[1200];
    file_map m;
    buf b;
    int before = n_open_files();
    CHECK_OK(file_write(in_root("a"), "more than five", 14, &err), &err);
    CHECK_OK(file_map_open(&m, in_root("a"), &err), &err);
    assert_int_equal(n_open_files(), before); /* the mapping needs none */
    file_map_close(&m);
    buf_init(&b, 10);
    assert_int_equal(file_read(&b, in_root("a"), 5, &err), KVT_FORMAT);
    buf_fini(&b);
    assert_int_equal(file_read(&b, root, 5, &err), KVT_IO);
    assert_int_equal(file_map_open(&m, root, &err), KVT_IO);
    CHECK_OK(file_temp_name(name, sizeof name, in_root("a"), &err), &err);
    assert_int_equal(n_open_files(), before);
}

static void free_room_is_known(void **state)
{
    (void)state;
    assert_true(file_free_room(in_root("not-there-yet.h5")) > 0);
    assert_int_equal(file_free_room(in_root("no/such/folder.h5")), -1);
}

static void standard_input_is_a_dash(void **state)
{
    (void)state;
    kvt_err err;
    CHECK_OK(file_write(in_root("in"), "from a pipe", 11, &err), &err);
    int saved = dup(STDIN_FILENO), fd = open(in_root("in"), O_RDONLY);
    assert_true(fd >= 0 && dup2(fd, STDIN_FILENO) == STDIN_FILENO);
    close(fd);
    expect_file("-", "from a pipe");
    if (saved >= 0) {
        dup2(saved, STDIN_FILENO);
        close(saved);
    }
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(path_rows) + 15];
    int n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(bytes_come_back);
    CHECK_ROWS(tests, &n, path_rows, paths_are_split);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(paths_are_joined);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(limit_and_kind_are_checked);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(mapping_shows_the_bytes);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(temporary_names_lie_beside);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(failed_commit_leaves_the_old_file);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_room_leaves_nothing_behind);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(read_only_folder_is_told_early);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(folders_are_made);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(entries_come_in_byte_order);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_stays_open);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(free_room_is_known);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(standard_input_is_a_dash);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(stale_temporary_files_go);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(devices_are_not_replaced);
    return _cmocka_run_group_tests("file", tests, (size_t)n, make_root, remove_root);
}
