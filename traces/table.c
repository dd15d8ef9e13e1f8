/* table.c - columns that describe themselves: counting, finding, printing a cell. */
#include "kvt/table.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int kvt_table_columns(const kvt_column *columns)
{
    int n = 0;
    while (columns[n].name)
        n++;
    return n;
}

const kvt_column *kvt_column_find(const kvt_column *columns, const char *name)
{
    for (; columns->name; columns++)
        if (strcmp(columns->name, name) == 0)
            return columns;
    return NULL;
}

static size_t put(char *out, size_t cap, const char *text, size_t n)
{
    if (cap > 0) {
        size_t fit = n < cap - 1 ? n : cap - 1;
        memcpy(out, text, fit);
        out[fit] = 0;
    }
    return n;
}

size_t kvt_cell_print(const kvt_table *t, int64_t row, const kvt_column *c, char *out,
                      size_t cap)
{
    const char *at = (const char *)t->rows + (size_t)row * t->row_size + c->offset;
    char number[64] = "";
    const char *text;
    int64_t i;
    double r;
    switch (c->type) {
    case KVT_COL_TEXT: return put(out, cap, at, strnlen(at, c->width));
    case KVT_COL_STRING:
        memcpy(&text, at, sizeof text);
        return put(out, cap, text ? text : "", text ? strlen(text) : 0);
    case KVT_COL_INT:
        memcpy(&i, at, sizeof i);
        if (i != KVT_EMPTY_INT)
            snprintf(number, sizeof number, "%" PRId64, i);
        break;
    case KVT_COL_REAL:
        memcpy(&r, at, sizeof r);
        real_print(r, number, sizeof number); /* "" of NaN, "inf" */
        break;
    }
    return put(out, cap, number, strlen(number));
}
