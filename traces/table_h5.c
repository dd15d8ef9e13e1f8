/* table_h5.c - a kvt_table as an HDF5 table in the layout of H5TB.
 *
 *   1. one dataset of a packed compound, a member a column: text of fixed width, i64, f64;
 *   2. attributes CLASS "TABLE", VERSION "3.0", TITLE, FIELD_i_NAME: what H5TB and PyTables ask
 * for;
 *   3. attributes FIELD_i_UNIT and FIELD_i_HELP, ours.
 * Rows are packed here, not by HDF5: what lies behind the end of a text is 0 in the file. */
#include "traces/table_h5.h"

#include "base/digest.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

static size_t packed_width(const kvt_column *c)
{
    return c->type == KVT_COL_TEXT ? c->width : 8;
}

static hid_t member_type(const kvt_column *c)
{
    if (c->type == KVT_COL_INT)
        return H5Tcopy(H5T_STD_I64LE);
    if (c->type == KVT_COL_REAL)
        return H5Tcopy(H5T_IEEE_F64LE);
    hid_t t = H5Tcopy(H5T_C_S1);
    if (t >= 0)
        H5Tset_size(t, c->width);
    return t;
}

/* The packed compound of the columns for which use[i]; *size gets its bytes. */
static hid_t row_type(const kvt_column *columns, int n, const bool *use, size_t *size)
{
    *size = 0;
    for (int i = 0; i < n; i++)
        *size += use && !use[i] ? 0 : packed_width(&columns[i]);
    if (*size == 0)
        return -1;
    hid_t type = H5Tcreate(H5T_COMPOUND, *size);
    size_t at = 0;
    for (int i = 0; i < n && type >= 0; i++) {
        if (use && !use[i])
            continue;
        hid_t m = member_type(&columns[i]);
        herr_t failed = m < 0 ? -1 : H5Tinsert(type, columns[i].name, at, m);
        if (m >= 0)
            H5Tclose(m);
        if (failed < 0) {
            H5Tclose(type);
            return -1;
        }
        at += packed_width(&columns[i]);
    }
    return type;
}

static void pack(char *out, const kvt_table *t, int n)
{
    for (int64_t r = 0; r < t->n_row; r++)
        for (int i = 0; i < n; i++) {
            const kvt_column *c = &t->columns[i];
            const char *from = (const char *)t->rows + (size_t)r * t->row_size + c->offset;
            size_t width = packed_width(c);
            assert(c->type != KVT_COL_STRING);
            if (c->type == KVT_COL_TEXT)
                memcpy(out, from, strnlen(from, width)); /* the rest is 0 */
            else
                memcpy(out, from, width);
            out += width;
        }
}

static kvt_code put_fields(hid_t set, const kvt_table *t, int n, kvt_err *err)
{
    char name[32];
    if (h5_put_text(set, "CLASS", "TABLE", err) || h5_put_text(set, "VERSION", "3.0", err) ||
        h5_put_text(set, "TITLE", t->title, err))
        return err->code;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "FIELD_%d_NAME", i);
        if (h5_put_text(set, name, t->columns[i].name, err))
            return err->code;
        snprintf(name, sizeof name, "FIELD_%d_UNIT", i);
        if (h5_put_text(set, name, t->columns[i].unit, err))
            return err->code;
        snprintf(name, sizeof name, "FIELD_%d_HELP", i);
        if (h5_put_text(set, name, t->columns[i].help, err))
            return err->code;
    }
    return KVT_OK;
}

kvt_code table_write(hid_t file, const kvt_table *t, char sum[33], kvt_err *err)
{
    int n = kvt_table_columns(t->columns);
    size_t size;
    hid_t set = -1, type = row_type(t->columns, n, NULL, &size);
    char *rows = kvt_alloc(t->n_row, size ? size : 1);
    kvt_code code = KVT_OK;
    if (type < 0 || !rows) {
        code = type < 0 ? h5_fail(err, KVT_IO, t->name) : kvt_fail_memory(err, size);
        goto out;
    }
    pack(rows, t, n);
    digest_of(rows, (size_t)t->n_row * size, sum);
    int64_t chunk = (int64_t)((1 << 18) / size) + 1;
    chunk = chunk < t->n_row ? chunk : t->n_row;
    code = h5_set_new(&set, file, t->name, type, 1, &t->n_row, t->n_row ? &chunk : NULL, err);
    if (!code && t->n_row && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) < 0)
        code = h5_fail(err, KVT_IO, t->name);
    if (!code)
        code = put_fields(set, t, n, err);
out:
    if (set >= 0 && H5Dclose(set) < 0 && !code)
        code = h5_fail(err, KVT_IO, t->name);
    if (type >= 0)
        H5Tclose(type);
    kvt_free(rows);
    return code;
}

/* ---- reading -------------------------------------------------------------------------------
 */

kvt_code table_count(hid_t file, const char *name, int64_t *n_row, kvt_err *err)
{
    hid_t set;
    if (h5_set_open(&set, file, name, err))
        return err->code;
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    hsize_t n = 0;
    kvt_code code = KVT_OK;
    if (type < 0 || space < 0 || H5Tget_class(type) != H5T_COMPOUND ||
        H5Sget_simple_extent_ndims(space) != 1 ||
        H5Sget_simple_extent_dims(space, &n, NULL) < 0)
        code = kvt_fail(err, KVT_FORMAT, "%s: expected a table", name);
    else if (n > INT32_MAX)
        code = kvt_fail(err, KVT_FORMAT, "%s: %llu rows", name, (unsigned long long)n);
    *n_row = (int64_t)n;
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Dclose(set);
    return code;
}

/* Whether the file's member of that name can be read as the column. */
static bool fits(hid_t stored, const kvt_column *c)
{
    int i = H5Tget_member_index(stored, c->name);
    if (i < 0) {
        H5Eclear2(H5E_DEFAULT);
        return false;
    }
    H5T_class_t kind = H5Tget_member_class(stored, (unsigned)i);
    if (c->type != KVT_COL_TEXT)
        return kind == (c->type == KVT_COL_INT ? H5T_INTEGER : H5T_FLOAT);
    hid_t m = H5Tget_member_type(stored, (unsigned)i);
    bool fixed = kind == H5T_STRING && m >= 0 && H5Tis_variable_str(m) == 0;
    if (m >= 0)
        H5Tclose(m);
    return fixed;
}

static void unpack(void *rows, const char *from, const kvt_column *columns, int n,
                   const bool *use, int64_t n_row, size_t row_size)
{
    for (int64_t r = 0; r < n_row; r++)
        for (int i = 0; i < n; i++) {
            const kvt_column *c = &columns[i];
            char *to = (char *)rows + (size_t)r * row_size + c->offset;
            const int64_t none = KVT_EMPTY_INT;
            const double nan = NAN;
            if (!use[i]) {
                if (c->type == KVT_COL_TEXT)
                    memset(to, 0, c->width);
                else
                    memcpy(to, c->type == KVT_COL_INT ? (const void *)&none : &nan, 8);
                continue;
            }
            memcpy(to, from, packed_width(c));
            if (c->type == KVT_COL_TEXT)
                to[c->width - 1] = 0;
            from += packed_width(c);
        }
}

kvt_code table_read(hid_t file, const char *name, const kvt_column *columns, void *rows,
                    int64_t n_row, size_t row_size, kvt_err *err)
{
    int n = kvt_table_columns(columns);
    bool *use = kvt_alloc(n, sizeof *use);
    char *packed = NULL;
    size_t size = 0;
    hid_t set = -1, stored = -1, type = -1;
    kvt_code code = KVT_OK;
    if (!use)
        return kvt_fail_memory(err, (size_t)n);
    if ((code = h5_set_open(&set, file, name, err)))
        goto out;
    if ((stored = H5Dget_type(set)) < 0) {
        code = h5_fail(err, KVT_FORMAT, name);
        goto out;
    }
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= use[i] = fits(stored, &columns[i]);
    if (any && n_row > 0) {
        type = row_type(columns, n, use, &size);
        packed = kvt_alloc(n_row, size);
        if (type < 0 || !packed)
            code = type < 0 ? h5_fail(err, KVT_FORMAT, name) : kvt_fail_memory(err, size);
        if (!code)
            code = h5_chunks_check(set, 0, n_row, INT64_MAX, err);
        if (!code && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, packed) < 0)
            code = h5_fail(err, KVT_FORMAT, name);
    }
    if (!code)
        unpack(rows, packed, columns, n, use, n_row, row_size);
out:
    if (type >= 0)
        H5Tclose(type);
    if (stored >= 0)
        H5Tclose(stored);
    if (set >= 0)
        H5Dclose(set);
    kvt_free(packed);
    kvt_free(use);
    return code;
}
