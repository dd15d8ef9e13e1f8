/* fuzz_csv.c - any bytes as CSV: what is read in one piece is read in pieces of any size; and
 * as the header of a .npy file. */
#include "tests/fuzz/fuzz.h"

#include "base/buf.h"
#include "traces/csv.h"
#include "traces/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvt_code collect(void *user, const csv_row *row, kvt_err *err)
{
    buf *b = user;
    buf_printf(b, "%lld", (long long)row->line);
    for (int i = 0; i < row->n_field; i++) {
        buf_printf(b, " %zu:", row->size[i]);
        buf_add(b, row->field[i], row->size[i]);
    }
    buf_char(b, '\n');
    return buf_check(b, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    buf whole, parts;
    kvt_err err;
    npy a;
    size_t offset;
    buf_init(&whole, 1 << 26);
    buf_init(&parts, 1 << 26);
    kvt_code one = csv_read_bytes((const char *)bytes, n, 0, collect, &whole, &err);
    for (size_t piece = 1; piece < 8; piece += 3) {
        buf_clear(&parts);
        kvt_code code = csv_read_bytes((const char *)bytes, n, piece, collect, &parts, &err);
        if (code != one || parts.n != whole.n ||
            (whole.n && memcmp(whole.data, parts.data, whole.n)))
            abort();
    }
    if (npy_parse(&a, &offset, bytes, n, &err) == KVT_OK && offset > n)
        abort();
    buf_fini(&whole);
    buf_fini(&parts);
    return 0;
}
