/* h5.c - HDF5 files, types and objects. Attributes are in h5attr.c. */
#include "traces/h5.h"

#include "base/file.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- errors --------------------------------------------------------------------------------
 */

/* Where the system refused, HDF5's text also holds a time, addresses and the temporary name:
 * the system's own words are all that a reader can use. */
static herr_t innermost(unsigned n, const H5E_error2_t *e, void *user)
{
    static const char before[] = "error message = '";
    (void)n;
    if (!e->desc || !*e->desc)
        return 0;
    const char *why = strstr(e->desc, before);
    if (why) {
        why += sizeof before - 1;
        snprintf(user, 200, "%.*s", (int)strcspn(why, "'"), why);
    } else {
        snprintf(user, 200, "%s", e->desc);
    }
    return 0;
}

kvt_code h5_fail_at(kvt_err *err, kvt_code code, const char *file, int line, const char *what)
{
    char text[200] = "no reason given";
    /* Walking down, the last one seen is the one that was raised first. */
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, innermost, text);
    H5Eclear2(H5E_DEFAULT);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 32)
            *p = ' ';
    return kvt_fail_at(err, code, file, line, "%s: %s", what, text);
}

/* ---- files ---------------------------------------------------------------------------------
 */

static hid_t access_list(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (list < 0)
        return -1;
    if (H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_V18) < 0 ||
        H5Pset_fclose_degree(list, H5F_CLOSE_SEMI) < 0) {
        H5Pclose(list);
        return -1;
    }
#if H5_VERSION_GE(1, 10, 7)
    H5Pset_file_locking(list, 0, 1);
#endif
    return list;
}

static int descriptor(hid_t file)
{
    int *fd = NULL;
    if (H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&fd) < 0 || !fd)
        return -1;
    return *fd;
}

static void close_on_exec(hid_t file)
{
    int fd = descriptor(file);
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

kvt_code h5_file_new(hid_t *out, const char *path, kvt_err *err)
{
    kvt_code code = KVT_OK;
    hid_t create = -1, access = access_list();
    create = H5Pcreate(H5P_FILE_CREATE);
    errno = 0;
    if (access < 0 || create < 0 || H5Pset_obj_track_times(create, 0) < 0)
        code = h5_fail(err, KVT_IO, "property list");
    else if ((*out = H5Fcreate(path, H5F_ACC_TRUNC, create, access)) < 0)
        code = errno ? kvt_fail(err, KVT_IO, "cannot be written: %s", strerror(errno))
                     : h5_fail(err, KVT_IO, "cannot be written");
    else
        close_on_exec(*out);
    if (create >= 0)
        H5Pclose(create);
    if (access >= 0)
        H5Pclose(access);
    H5Eclear2(H5E_DEFAULT);
    return code;
}

static int64_t little(const uint8_t *p, int n)
{
    uint64_t x = 0;
    for (int i = n - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return (int64_t)x;
}

/* The end of the file as its superblock states it; -1 where it has none that we read. */
static int64_t stated_end(const uint8_t *p, size_t n)
{
    static const uint8_t sign[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    if (n < 64 || memcmp(p, sign, 8) != 0)
        return -1;
    int size = p[8] < 2 ? p[13] : p[9]; /* bytes of an address */
    int at = p[8] == 0 ? 24 + 2 * 8 : p[8] == 1 ? 28 + 2 * 8 : 12 + 2 * 8;
    return size == 8 ? little(p + at, 8) : -1;
}

/* What HDF5 would say less clearly: not there, a folder, something else, cut short. */
static kvt_code look(const char *path, kvt_err *err)
{
    uint8_t head[64];
    struct stat st;
    if (stat(path, &st) != 0)
        return kvt_fail(err, errno == ENOENT || errno == ENOTDIR ? KVT_NOTFOUND : KVT_IO,
                        "cannot be opened: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return kvt_fail(err, KVT_FORMAT, "is not a regular file");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kvt_fail(err, KVT_IO, "cannot be opened: %s", strerror(errno));
    ssize_t n = pread(fd, head, sizeof head, 0);
    close(fd);
    int64_t end = stated_end(head, n < 0 ? 0 : (size_t)n);
    if (end < 0 && n > 9 && head[8] == '{' && head[9] == '"')
        return kvt_fail(err, KVT_FORMAT,
                        "is not an HDF5 file but safetensors, as adapters are (kvt capture "
                        "--probe)");
    if (end < 0)
        return kvt_fail(
            err, KVT_FORMAT,
            "is not an HDF5 file: expected its signature in the first 64 bytes of %lld",
            (long long)st.st_size);
    if (end > st.st_size)
        return kvt_fail(err, KVT_FORMAT, "is cut short: %lld bytes expected, %lld found",
                        (long long)end, (long long)st.st_size);
    return KVT_OK;
}

kvt_code h5_file_open(hid_t *out, const char *path, kvt_err *err)
{
    if (look(path, err))
        return err->code;
    kvt_code code = KVT_OK;
    hid_t access = access_list();
    if (access < 0)
        return h5_fail(err, KVT_IO, "property list");
    if ((*out = H5Fopen(path, H5F_ACC_RDONLY, access)) < 0)
        code = h5_fail(err, KVT_FORMAT, "is not a whole HDF5 file");
    else
        close_on_exec(*out);
    H5Pclose(access);
    H5Eclear2(H5E_DEFAULT);
    return code;
}

kvt_code h5_file_change(hid_t *out, const char *path, kvt_err *err)
{
    hid_t access = access_list();
    kvt_code code = KVT_OK;
    if (access < 0)
        return h5_fail(err, KVT_IO, "property list");
    if ((*out = H5Fopen(path, H5F_ACC_RDWR, access)) < 0)
        code = h5_fail(err, KVT_IO, "cannot be written");
    else
        close_on_exec(*out);
    H5Pclose(access);
    H5Eclear2(H5E_DEFAULT);
    return code;
}

kvt_code h5_file_sync(hid_t file, kvt_err *err)
{
    int fd = descriptor(file);
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0)
        return h5_fail(err, KVT_IO, "flush");
    if (fd >= 0 && fsync(fd) != 0)
        return kvt_fail(err, KVT_IO, "sync: %s", strerror(errno));
    return KVT_OK;
}

int64_t h5_file_objects(hid_t file)
{
    /* Files are not counted: HDF5 keeps the number of one whose close failed on a full disk,
     * and takes it for one of the next file's. */
    return H5Fget_obj_count(file, (H5F_OBJ_ALL & ~H5F_OBJ_FILE) | H5F_OBJ_LOCAL);
}

kvt_code h5_file_close(hid_t file, kvt_err *err)
{
    kvt_code code = h5_file_sync(file, err);
    int64_t n = h5_file_objects(file);
    if (!code && n != 0)
        code = kvt_fail(err, KVT_IO, "%lld objects are still open before close", (long long)n);
    if (H5Fclose(file) < 0 && !code)
        code = h5_fail(err, KVT_IO, "close");
    H5Eclear2(H5E_DEFAULT);
    return code;
}

void h5_file_drop(hid_t file)
{
    if (file >= 0)
        H5Fclose(file);
    H5Eclear2(H5E_DEFAULT);
}

/* ---- types ---------------------------------------------------------------------------------
 */

/* A float of 16 bits. HDF5 wants fields first, then size and bias, so that no state in between
 * is invalid. */
static hid_t small_float(size_t exponent, size_t mantissa, size_t bias)
{
    hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    if (t < 0)
        return -1;
    if (H5Tset_fields(t, 15, mantissa, exponent, 0, mantissa) < 0 || H5Tset_size(t, 2) < 0 ||
        H5Tset_ebias(t, bias) < 0) {
        H5Tclose(t);
        return -1;
    }
    return t;
}

hid_t h5_type(kvt_dtype dtype)
{
    switch (dtype) {
    case KVT_F32: return H5Tcopy(H5T_IEEE_F32LE);
    case KVT_F64: return H5Tcopy(H5T_IEEE_F64LE);
    case KVT_I64: return H5Tcopy(H5T_STD_I64LE);
    case KVT_I32: return H5Tcopy(H5T_STD_I32LE);
    case KVT_U8: return H5Tcopy(H5T_STD_U8LE);
    case KVT_F16: return small_float(5, 10, 15);
    case KVT_BF16: return small_float(8, 7, 127);
    }
    return -1;
}

int h5_dtype(hid_t type)
{
    static const kvt_dtype all[] = {KVT_F32, KVT_F16, KVT_BF16, KVT_I64,
                                    KVT_I32, KVT_U8,  KVT_F64};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hid_t t = h5_type(all[i]);
        bool same = t >= 0 && H5Tequal(t, type) > 0;
        if (t >= 0)
            H5Tclose(t);
        if (same)
            return (int)all[i];
    }
    H5Eclear2(H5E_DEFAULT);
    return -1;
}

/* ---- objects -------------------------------------------------------------------------------
 */

int h5_has(hid_t at, const char *path)
{
    char part[256];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return 0;
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        H5L_info_t info;
        htri_t there = H5Lexists(at, part, H5P_DEFAULT);
        if (there <= 0 || H5Lget_info(at, part, &info, H5P_DEFAULT) < 0)
            return there == 0 ? 0 : -1;
        if (info.type != H5L_TYPE_HARD)
            return 0;
    }
    return 1;
}

kvt_code h5_set_open(hid_t *out, hid_t at, const char *path, kvt_err *err)
{
    kvt_code code = KVT_OK;
    *out = -1;
    int has = h5_has(at, path);
    if (has < 0)
        return h5_fail(err, KVT_FORMAT, path);
    if (!has)
        return kvt_fail(err, KVT_NOTFOUND, "no dataset '%s'", path);
    hid_t set = H5Dopen2(at, path, H5P_DEFAULT);
    if (set < 0)
        return h5_fail(err, KVT_FORMAT, path);
    hid_t list = H5Dget_create_plist(set);
    H5D_layout_t layout = list < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(list);
    if (layout == H5D_LAYOUT_ERROR)
        code = h5_fail(err, KVT_FORMAT, path);
    else if (layout == H5D_VIRTUAL || H5Pget_external_count(list) != 0)
        code = kvt_fail(err, KVT_FORMAT, "%s: its data lie in another file", path);
    if (list >= 0)
        H5Pclose(list);
    if (code)
        H5Dclose(set);
    else
        *out = set;
    return code;
}

/* Without times, so that the same content gives the same bytes. */
static hid_t new_group(hid_t at, const char *path)
{
    hid_t create = H5Pcreate(H5P_GROUP_CREATE), group = -1;
    if (create >= 0 && H5Pset_obj_track_times(create, 0) >= 0)
        group = H5Gcreate2(at, path, H5P_DEFAULT, create, H5P_DEFAULT);
    if (create >= 0)
        H5Pclose(create);
    return group;
}

kvt_code h5_group(hid_t *out, hid_t at, const char *path, kvt_err *err)
{
    char part[256];
    size_t n = strlen(path);
    *out = -1;
    for (size_t i = 1; i <= n && n < sizeof part; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        int has = h5_has(at, part);
        hid_t group = has < 0 ? -1
                      : has   ? H5Gopen2(at, part, H5P_DEFAULT)
                              : new_group(at, part);
        if (group < 0)
            return h5_fail(err, has ? KVT_FORMAT : KVT_IO, path);
        if (path[i])
            H5Gclose(group);
        else
            *out = group;
    }
    return *out < 0 ? kvt_fail(err, KVT_FORMAT, "no group '%s'", path) : KVT_OK;
}

/* The groups that a dataset's path goes through. */
static kvt_code make_parent(hid_t at, const char *path, kvt_err *err)
{
    char part[256];
    const char *slash = strrchr(path, '/');
    hid_t group;
    if (!slash)
        return KVT_OK;
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    if (h5_group(&group, at, part, err))
        return err->code;
    H5Gclose(group);
    return KVT_OK;
}

kvt_code h5_set_read(void *out, hid_t set, hid_t type, kvt_err *err)
{
    return H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0
               ? h5_fail(err, KVT_FORMAT, "read")
               : KVT_OK;
}

kvt_code h5_set_new(hid_t *out, hid_t at, const char *path, hid_t type, int rank,
                    const int64_t *dim, const int64_t *chunk, kvt_err *err)
{
    kvt_code code = KVT_OK;
    hsize_t size[H5S_MAX_RANK], piece[H5S_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        size[i] = (hsize_t)dim[i];
        piece[i] = chunk ? (hsize_t)chunk[i] : 1;
    }
    *out = -1;
    if (make_parent(at, path, err))
        return err->code;
    hid_t space = H5Screate_simple(rank, size, NULL);
    hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    if (space < 0 || create < 0 || H5Pset_obj_track_times(create, 0) < 0)
        code = h5_fail(err, KVT_IO, path);
    /* Sum of the chunk last, so that it covers what lies on disk. */
    else if (chunk && (H5Pset_chunk(create, rank, piece) < 0 || H5Pset_shuffle(create) < 0 ||
                       H5Pset_deflate(create, 1) < 0 || H5Pset_fletcher32(create) < 0))
        code = h5_fail(err, KVT_IO, path);
    /* Every byte is written by us: filling first would write all twice. */
    else if (H5Pset_fill_time(create, H5D_FILL_TIME_NEVER) < 0 ||
             (*out = H5Dcreate2(at, path, type, space, H5P_DEFAULT, create, H5P_DEFAULT)) < 0)
        code = h5_fail(err, KVT_IO, path);
    if (create >= 0)
        H5Pclose(create);
    if (space >= 0)
        H5Sclose(space);
    return code;
}

kvt_code h5_set_write(hid_t at, const char *path, kvt_dtype dtype, int rank, const int64_t *dim,
                      const void *data, kvt_err *err)
{
    kvt_code code = KVT_OK;
    int64_t chunk[KVT_RANK_MAX], n = (int64_t)kvt_dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        n *= dim[i];
    /* Pieces of at most about 1 MiB: the outer axes are cut first. */
    int64_t left = n;
    for (int i = 0; i < rank; i++) {
        int64_t inner = dim[i] > 0 ? left / dim[i] : 1;
        chunk[i] = inner >= 1 << 20 ? 1 : inner > 0 ? (1 << 20) / inner : 1;
        chunk[i] = chunk[i] < dim[i] ? chunk[i] : dim[i];
        left = inner;
    }
    hid_t set = -1, type = h5_type(dtype);
    if (type < 0)
        return h5_fail(err, KVT_IO, path);
    if (!(code = h5_set_new(&set, at, path, type, rank, dim, n > 4096 ? chunk : NULL, err)) &&
        n > 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        code = h5_fail(err, KVT_IO, path);
    if (set >= 0 && H5Dclose(set) < 0 && !code)
        code = h5_fail(err, KVT_IO, path);
    H5Tclose(type);
    return code;
}
