/* file.c - whole files, mappings, safe replacement, folders.
 *
 * Every descriptor is close-on-exec: a helper that we start (pager, plot) must not share an
 * open trace. A file that others may read appears under its name only whole: it is written
 * beside it under a temporary name, synced, then renamed. */
#include "base/file.h"

#include "kvt/arena.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

/* "cannot open 'x': No such file or directory" */
static kvt_code fail_errno(kvt_err *err, const char *what, const char *path, int number)
{
    char why[128];
    if (strerror_r(number, why, sizeof why))
        snprintf(why, sizeof why, "error %d", number);
    kvt_code code = number == ENOENT || number == ENOTDIR ? KVT_NOTFOUND : KVT_IO;
    return kvt_fail(err, code, "cannot %s '%s': %s", what, path, why);
}

static kvt_code open_to_read(int *fd, const char *path, struct stat *st, kvt_err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return fail_errno(err, "open", path, errno);
    int number = fstat(*fd, st) ? errno : S_ISDIR(st->st_mode) ? EISDIR : 0;
    if (!number)
        return KVT_OK;
    close(*fd);
    *fd = -1;
    return fail_errno(err, "read", path, number);
}

static kvt_code read_all(buf *out, int fd, const char *path, size_t limit, kvt_err *err)
{
    char *part = kvt_alloc(1, (size_t)64 << 10);
    if (!part)
        return kvt_fail_memory(err, (size_t)64 << 10);
    kvt_code code = KVT_OK;
    size_t sum = 0;
    for (;;) {
        ssize_t n = read(fd, part, (size_t)64 << 10);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            code = fail_errno(err, "read", path, errno);
        if (n <= 0)
            break;
        sum += (size_t)n;
        if (sum > limit) {
            code = kvt_fail(err, KVT_FORMAT, "'%s': larger than %zu bytes", path, limit);
            break;
        }
        buf_add(out, part, (size_t)n);
    }
    kvt_free(part);
    return code ? code : buf_check(out, err);
}

kvt_code file_read(buf *out, const char *path, size_t limit, kvt_err *err)
{
    if (!strcmp(path, "-"))
        return read_all(out, STDIN_FILENO, "standard input", limit, err);
    int fd;
    struct stat st = {0};
    if (open_to_read(&fd, path, &st, err))
        return err->code;
    kvt_code code = read_all(out, fd, path, limit, err);
    close(fd);
    return code;
}

kvt_code file_map_open(file_map *out, const char *path, kvt_err *err)
{
    *out = (file_map){0};
    int fd;
    struct stat st = {0};
    if (open_to_read(&fd, path, &st, err))
        return err->code;
    kvt_code code = KVT_OK;
    if (st.st_size > 0) { /* an empty mapping is refused by the system */
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            code = fail_errno(err, "map", path, errno);
        else
            *out = (file_map){.data = p, .n = (size_t)st.st_size};
    }
    close(fd);
    return code;
}

void file_map_close(file_map *m)
{
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->n);
    *m = (file_map){0};
}

const char *file_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *file_dir(char *out, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(out, cap, ".");
    else
        snprintf(out, cap, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return out;
}

kvt_code file_join(char *out, size_t cap, const char *dir, const char *name, kvt_err *err)
{
    size_t n = strlen(dir);
    const char *slash = n && dir[n - 1] == '/' ? "" : "/";
    int len = snprintf(out, cap, "%s%s%s", dir, slash, name);
    if (len < 0 || (size_t)len >= cap)
        return kvt_fail(err, KVT_USAGE, "'%s': the path is longer than %zu bytes", name,
                        cap - 1);
    return KVT_OK;
}

/* Temporary files of this name whose writer was killed: a living one writes more often. */
static void drop_stale(const char *dir, const char *name)
{
    enum { STALE_SECONDS = 3600, DIGITS = 6 };
    static const char end[] = ".part";
    size_t n = strlen(name);
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        const char *s = e->d_name;
        struct stat st;
        if (strlen(s) == 1 + n + 1 + DIGITS + sizeof end - 1 && s[0] == '.' &&
            !strncmp(s + 1, name, n) && s[1 + n] == '.' && !strcmp(s + 2 + n + DIGITS, end) &&
            !fstatat(dirfd(d), s, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
            st.st_mtime < time(NULL) - STALE_SECONDS)
            unlinkat(dirfd(d), s, 0);
    }
    if (d)
        closedir(d);
}

kvt_code file_temp_name(char *out, size_t cap, const char *path, kvt_err *err)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char dir[PATH_ROOM], tail[7] = {0};
    struct timespec now;
    if (strlen(path) >= sizeof dir)
        return kvt_fail(err, KVT_USAGE, "the path is longer than %zu bytes", sizeof dir - 1);
    file_dir(dir, sizeof dir, path);
    if (!file_base(path)[0])
        return kvt_fail(err, KVT_USAGE, "'%s' is the name of a folder", path);
    if (file_exists(path) && !file_is_regular(path) &&
        !file_is_dir(path)) /* a rename would take a device's place */
        return kvt_fail(err, KVT_USAGE, "'%s' is no regular file and is not replaced", path);
    if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS))
        return fail_errno(err, "write to the folder", dir, errno);
    drop_stale(dir, file_base(path));
    for (int attempt = 0; attempt < 100; attempt++) {
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t x = (uint64_t)now.tv_nsec + (uint64_t)now.tv_sec * 1000000007u;
        x = (x ^ (uint64_t)getpid() << 40 ^ (uintptr_t)&now) * UINT64_C(0x9e3779b97f4a7c15);
        for (int i = 0; i < 6; i++, x /= 36)
            tail[i] = digits[x % 36];
        int len = snprintf(out, cap, "%s/.%s.%s.part", dir, file_base(path), tail);
        if (len < 0 || (size_t)len >= cap)
            return kvt_fail(err, KVT_USAGE, "'%s': the path is longer than %zu bytes", path,
                            cap - 1);
        if (!file_exists(out))
            return KVT_OK;
    }
    return kvt_fail(err, KVT_IO, "no free temporary name beside '%s'", path);
}

/* fsync of what lies at a path. Folders that cannot be synced (some network file systems) are
 * let through: the data is written, only a power cut now could undo the rename. */
static int sync_path(const char *path, bool is_dir)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return is_dir ? 0 : errno;
    int number = fsync(fd) ? errno : 0;
    close(fd);
    return is_dir ? 0 : number;
}

kvt_code file_commit(const char *temp, const char *path, kvt_err *err)
{
    char dir[PATH_ROOM];
    int number = sync_path(temp, false);
    if (!number && rename(temp, path))
        number = errno;
    if (number) {
        unlink(temp);
        return fail_errno(err, "write", path, number);
    }
    sync_path(file_dir(dir, sizeof dir, path), true);
    return KVT_OK;
}

static int write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return errno;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

/* Into a device or pipe, such as /dev/stdout: there is nothing to replace. */
static kvt_code write_through(const char *path, const void *bytes, size_t n, kvt_err *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "write", path, errno);
    int number = write_all(fd, bytes, n);
    if (close(fd) && !number)
        number = errno;
    return number ? fail_errno(err, "write", path, number) : KVT_OK;
}

kvt_code file_write(const char *path, const void *bytes, size_t n, kvt_err *err)
{
    char temp[PATH_ROOM + 16];
    if (file_exists(path) && !file_is_regular(path) && !file_is_dir(path))
        return write_through(path, bytes, n, err);
    if (file_temp_name(temp, sizeof temp, path, err))
        return err->code;
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(err, "write", path, errno);
    int number = write_all(fd, bytes, n);
    if (close(fd) && !number)
        number = errno;
    if (number) {
        unlink(temp);
        return fail_errno(err, "write", path, number);
    }
    return file_commit(temp, path, err);
}

bool file_exists(const char *path)
{
    struct stat st;
    return !stat(path, &st);
}

bool file_is_dir(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool file_is_regular(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

bool file_same(const char *a, const char *b)
{
    struct stat s, t;
    return !stat(a, &s) && !stat(b, &t) && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

int64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1 : (int64_t)st.st_size;
}

kvt_code file_mkdirs(const char *path, kvt_err *err)
{
    char part[PATH_ROOM];
    size_t n = strlen(path);
    if (n >= sizeof part)
        return kvt_fail(err, KVT_USAGE, "the path is longer than %zu bytes", sizeof part - 1);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] && path[i] != '/')
            continue;
        part[i] = 0;
        if (mkdir(part, 0777) && (errno != EEXIST || !file_is_dir(part)))
            return fail_errno(err, "make the folder", part, errno);
        part[i] = path[i];
    }
    return KVT_OK;
}

int64_t file_free_room(const char *path)
{
    char dir[PATH_ROOM];
    struct statvfs fs;
    if (strlen(path) >= sizeof dir)
        return -1;
    file_dir(dir, sizeof dir, path);
    if (statvfs(dir, &fs))
        return -1;
    uint64_t block = fs.f_frsize ? fs.f_frsize : fs.f_bsize, n = fs.f_bavail;
    return block && n > (uint64_t)INT64_MAX / block ? INT64_MAX : (int64_t)(n * block);
}

typedef struct names {
    char **name;
    int64_t n, cap;
} names;

static bool add_name(names *list, const char *name)
{
    if (list->n == list->cap) {
        int64_t cap = list->cap ? 2 * list->cap : 64;
        char **more = kvt_resize(list->name, list->cap, cap, sizeof *more);
        if (!more)
            return false;
        list->name = more;
        list->cap = cap;
    }
    list->name[list->n] = kvt_copy_text(name);
    return list->name[list->n] && ++list->n;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static kvt_code read_names(names *list, const char *dir, kvt_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int number = errno;
        if (fd >= 0)
            close(fd);
        return fail_errno(err, "list", dir, number);
    }
    kvt_code code = KVT_OK;
    const struct dirent *e;
    while (errno = 0, !code && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !add_name(list, e->d_name))
            code = kvt_fail_memory(err, (size_t)list->cap * sizeof *list->name);
    }
    if (!code && errno)
        code = fail_errno(err, "list", dir, errno);
    closedir(d);
    return code;
}

kvt_code file_list(const char *dir,
                   kvt_code (*each)(void *user, const char *name, kvt_err *err), void *user,
                   kvt_err *err)
{
    names list = {0};
    kvt_code code = read_names(&list, dir, err);
    if (!code && list.n)
        qsort(list.name, (size_t)list.n, sizeof *list.name, by_bytes);
    for (int64_t i = 0; i < list.n; i++) {
        if (!code)
            code = each(user, list.name[i], err);
        kvt_free(list.name[i]);
    }
    kvt_free(list.name);
    return code;
}
