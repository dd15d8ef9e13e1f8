/* cells.c - golden CSV files read as cells. */
#include "cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* The text up to `stop`, or between quotes; *at moves behind it. */
static char *take(char **at, char stop)
{
    char *start = *at;
    bool quoted = *start == '"';
    char *end = strchr(start + quoted, quoted ? '"' : stop);
    *at = end ? end + 1 + quoted : start + strlen(start);
    if (end)
        *end = 0;
    return start + quoted;
}

static bool same_key(const golden_cells *all, char *const *a, char *const *b)
{
    for (int i = 0; i < all->n_key; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

void golden_read(golden_cells *out, const kvt_policy *p, const char *name)
{
    char path[512], file[64];
    kvt_err err;
    buf text;
    snprintf(file, sizeof file, "%s", name ? name : p->name);
    for (char *c = file; *c; c++)
        *c = *c == '-' ? '_' : *c;
    snprintf(path, sizeof path, "%s/tests/golden/%s.csv", KVT_SOURCE_DIR, file);
    buf_init(&text, 1 << 20);
    if (file_read(&text, path, 1 << 20, &err))
        die(err.text);
    char *at = kvt_arena_text(out->memory, buf_get(&text));
    char **field =
        kvt_arena_array(out->memory, (int64_t)GOLDEN_LINES_MAX * out->n_field, sizeof *field);
    if (!at || !field)
        die("no memory");
    take(&at, '\n');
    golden_cell *c = NULL;
    for (int n = 0; *at; field += out->n_field, n++) {
        char *row = take(&at, '\n');
        if (n == GOLDEN_LINES_MAX || out->n == GOLDEN_CELLS_MAX)
            die(path);
        for (int i = 0; i < out->n_field; i++)
            field[i] = take(&row, ',');
        if (!c || !same_key(out, field, c->line)) {
            c = &out->cell[out->n++];
            c->policy = p, c->line = field;
        }
        c->n_line++;
    }
    buf_fini(&text);
}

void golden_runs(const char *text, uint8_t *mask)
{
    for (const char *c = text; *c;) {
        char *end;
        long from = strtol(c, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        for (long j = from; j <= to; j++)
            mask[j] = 1;
        c = end + (*end == ' ');
    }
}

void golden_print(const char *what, const uint8_t *mask, int64_t n)
{
    printf("  %-9s", what);
    for (int64_t j = 0; j < n; j++)
        if (mask[j])
            printf(" %lld", (long long)j);
    printf("\n");
}
