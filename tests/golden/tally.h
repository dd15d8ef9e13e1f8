/* tally.h - a golden CSV file whose rows are compared one by one: how many there were and how
 * many were wrong, each of which compare() prints. */
#ifndef GOLDEN_TALLY_H
#define GOLDEN_TALLY_H

#include <stdio.h>

#include "tests/check.h"
#include "traces/csv.h"

typedef struct tally {
    int rows, wrong;
} tally;

/* Every row of tests/golden/NAME, the header too: so many are counted, and none is wrong. */
static inline void tally_file(const char *name, int rows,
                              kvt_code (*compare)(void *user, const csv_row *row, kvt_err *err))
{
    char path[512];
    kvt_err err;
    tally t = {0};
    snprintf(path, sizeof path, KVT_SOURCE_DIR "/tests/golden/%s", name);
    CHECK_OK(csv_read_file(path, compare, &t, &err), &err);
    assert_int_equal(t.rows, rows);
    assert_int_equal(t.wrong, 0);
}

#endif
