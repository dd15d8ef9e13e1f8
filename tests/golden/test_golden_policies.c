/* test_golden_policies.c - what policies keep, slot by slot, against numpy versions written
 * from the papers and the published code (make_policies.py) and against kvpress's own presses
 * (make_kvpress.py). Every cell of the CSV files is a test of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "../mini.h"

enum { CELL_MAX = 256, FIELD_MAX = 16, NAME_CAP = 160 };

typedef struct line {
    char *field[FIELD_MAX];
    int n;
} line;

/* Consecutive lines of one file that differ in what was kept only. */
typedef struct cell {
    char name[NAME_CAP];
    const char *policy;
    const line *first;
    int n_line;
    bool kvpress;
} cell;

static cell cells[CELL_MAX];
static int n_cell;
static kvt_arena *memory;

/* Splits a CSV line in place; quotes are not doubled in these files. */
static line split(char *text)
{
    line out = {0};
    for (char *c = text; c && *c && out.n < FIELD_MAX;) {
        bool quoted = *c == '"';
        out.field[out.n++] = c + quoted;
        c = strpbrk(c + quoted, quoted ? "\"" : ",");
        if (c && quoted)
            *c++ = 0;
        if (c && *c)
            *c++ = 0;
    }
    /* an empty last field */
    while (out.n < FIELD_MAX)
        out.field[out.n++] = text + strlen(text);
    return out;
}

static bool same_cell(const line *a, const line *b, int n_key)
{
    for (int i = 0; i < n_key; i++)
        if (strcmp(a->field[i], b->field[i]) != 0)
            return false;
    return true;
}

static void name_cell(cell *c)
{
    char *const *f = c->first->field + c->kvpress;
    snprintf(c->name, sizeof c->name, "%s%s:%s%s%s b=%s %s N=%s", c->kvpress ? "kvpress " : "",
             c->policy, f[1], *f[2] ? "," : "", f[2], f[3], c->kvpress ? "" : f[4],
             c->first->field[0]);
}

static void read_cells(const char *policy, const char *file, bool kvpress)
{
    kvt_err err;
    char path[512];
    buf text;
    buf_init(&text, 1 << 20);
    snprintf(path, sizeof path, "%s/tests/golden/%s.csv", KVT_SOURCE_DIR, file);
    if (file_read(&text, path, 1 << 20, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    char *copy = kvt_arena_text(memory, buf_get(&text));
    line *lines = kvt_arena_array(memory, 2048, sizeof *lines);
    int n = 0, n_key = 5; /* toy, params, share, budget, act; or with the policy, without act */
    for (char *at = strtok_r(copy, "\n", &copy); at; at = strtok_r(NULL, "\n", &copy))
        lines[n++] = split(at);
    for (int i = 1; i < n;) {
        cell *c = &cells[n_cell++];
        *c = (cell){.policy = kvpress ? lines[i].field[1] : policy,
                    .first = &lines[i],
                    .kvpress = kvpress};
        while (i < n && same_cell(c->first, &lines[i], n_key))
            i++, c->n_line++;
        name_cell(c);
    }
    buf_fini(&text);
}

/* "3-5 9" into a mask; returns how many. */
static int64_t read_runs(const char *text, uint8_t *mask)
{
    int64_t n = 0;
    for (const char *c = text; *c;) {
        char *end;
        long from = strtol(c, &end, 10), to = from;
        if (*end == '-')
            to = strtol(end + 1, &end, 10);
        for (long j = from; j <= to; j++, n++)
            mask[j] = 1;
        c = end + (*end == ' ');
    }
    return n;
}

static toy *toy_of(kvt_arena *a, const char *name)
{
    unsigned long long seed;
    int n_layer, n_model, n_head, n_group;
    long long N, M;
    assert_int_equal(sscanf(name, "%llu/%d/%d/%d/%d/%lld/%lld", &seed, &n_layer, &n_model,
                            &n_head, &n_group, &N, &M),
                     7);
    return toy_new(a, seed, n_layer, n_model, n_head, n_group, N, M, false);
}

static void print_set(const char *what, const uint8_t *mask, int64_t n)
{
    printf("  %-9s", what);
    for (int64_t j = 0; j < n; j++)
        if (mask[j])
            printf(" %lld", (long long)j);
    printf("\n");
}

static void fail_set(const cell *c, const line *at, const uint8_t *want, const uint8_t *got,
                     int64_t n)
{
    print_set("expected", want, n);
    print_set("got", got, n);
    fail_msg("%s: line %s,%s,%s: another set", c->name, at->field[5], at->field[6],
             at->field[7]);
}

static void check_line(const cell *c, const line *at, const mini_result *r, const toy *t)
{
    uint8_t want[512] = {0};
    read_runs(at->field[8], want);
    const uint8_t *got =
        mini_held(r, t, atoi(at->field[5]), atoi(at->field[6]), atoi(at->field[7]));
    if (memcmp(want, got, (size_t)t->T) != 0)
        fail_set(c, at, want, got, t->T);
}

/* torch's topk has no rule for equal scores: what is kept lies above the cut, or on it. */
static void check_kvpress(const cell *c, const line *at, const mini_result *r, const toy *t)
{
    uint8_t above[512] = {0}, tied[512] = {0};
    read_runs(at->field[8], above);
    read_runs(at->field[9], tied);
    int layer = atoi(at->field[5]), lane = atoi(at->field[6]);
    const uint8_t *got = mini_held(r, t, 0, layer, lane);
    for (int64_t j = 0; j < t->T; j++)
        if ((above[j] && !got[j]) || (got[j] && !above[j] && !tied[j]))
            fail_set(c, at, above, got, t->T);
    assert_int_equal(mini_count(r, t, 0, layer, lane), atoi(at->field[7]));
}

static void keeps_the_published_set(void **state)
{
    const cell *c = *state;
    char *const *f = c->first->field + c->kvpress;
    size_t mark = kvt_arena_mark(memory);
    toy *t = toy_of(memory, c->first->field[0]);
    float *mass =
        kvt_arena_array(memory, t->n_layer * t->n_group * KVT_POSITION_BINS, sizeof *mass);
    for (int l = 0; l < t->n_layer; l++)
        for (int g = 0; g < t->n_group; g++)
            for (int b = 0; b < KVT_POSITION_BINS; b++)
                mass[(l * t->n_group + g) * KVT_POSITION_BINS + b] =
                    (float)((7 * l + 5 * g + 3 * b) % 11) / 16;
    mini_spec spec = {.trace = t,
                      .policy = kvt_policy_find(c->policy),
                      .params = f[1],
                      .share_params = *f[2] ? f[2] : NULL,
                      .budget = atoll(f[3]),
                      .prefill_only = c->kvpress || strcmp(f[4], "prefill") == 0,
                      .position_mass = mass};
    mini_result r;
    kvt_err err;
    assert_non_null(spec.policy);
    if (mini_run(&r, &spec, memory, &err))
        fail_msg("%s: %s", c->name, err.text);
    if (r.skipped)
        fail_msg("%s: skipped: %s", c->name, r.why);
    if (!c->kvpress && r.decodes != (strcmp(f[4], "decode") == 0))
        fail_msg("%s: acts at the wrong time", c->name);
    for (int i = 0; i < c->n_line; i++)
        (c->kvpress ? check_kvpress : check_line)(c, &c->first[i], &r, t);
    kvt_arena_rewind(memory, mark);
}

/* ---- nothing is missing silently ------------------------------------------------------------
 */

static const char *const folders[] = {"",          "attention/", "decode/",
                                      "geometry/", "oracles/",   "values/"};

/* Policies without a golden file, and what holds them instead. A policy that no trace can
 * answer keeps nothing. */
static const char *const without[][2] = {
    {"full", "keeps everything: property/test_policies.c"},
    {"random", "its draws are its own: property/test_policies.c"},
    {"scores", "keeps what another program says: unit/test_replay_cases.c"},
};

static bool has_file(const char *folder, const char *policy)
{
    char path[512];
    int at = snprintf(path, sizeof path, "%s/tests/golden/%s", KVT_SOURCE_DIR, folder);
    snprintf(path + at, sizeof path - (size_t)at, "%s.csv", policy);
    for (char *c = path + at; *c; c++)
        *c = *c == '-' ? '_' : *c;
    FILE *f = fopen(path, "rb");
    if (f)
        fclose(f);
    return f != NULL;
}

static bool is_anywhere(const char *policy)
{
    bool found = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        found |= has_file(folders[i], policy);
    return found;
}

static bool needs_none(const kvt_policy *p)
{
    bool none = p->traits.exactness == KVT_NOT_REPLAYABLE;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        none |= strcmp(p->name, without[i][0]) == 0;
    return none;
}

static void every_policy_has_a_golden_file_or_a_reason(void **state)
{
    (void)state;
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        if (is_anywhere(p->name) == needs_none(p))
            fail_msg("%s: expected tests/golden/.../*.csv of that name or a reason for none, "
                     "got %s",
                     p->name, needs_none(p) ? "both" : "neither");
    }
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        assert_non_null(kvt_policy_find(without[i][0]));
}

int main(void)
{
    memory = kvt_arena_new((size_t)1 << 30);
    for (int i = 0; kvt_policies()[i]; i++) {
        const kvt_policy *p = kvt_policies()[i];
        char file[64];
        /* what runs behind the prompt and what was learned: test_golden_probes.c,
         * test_golden_scored.c */
        if (p->traits.needs & (KVT_NEED_PROBE | KVT_NEED_WEIGHTS | KVT_NEED_DECISION))
            continue;
        snprintf(file, sizeof file, "%s", p->name);
        for (char *c = file; *c; c++)
            *c = *c == '-' ? '_' : *c;
        if (has_file("", p->name))
            read_cells(p->name, file, false);
    }
    read_cells(NULL, "kvpress", true);
    static struct CMUnitTest tests[CELL_MAX + 1];
    for (int i = 0; i < n_cell; i++)
        tests[i] = (struct CMUnitTest){.name = cells[i].name,
                                       .test_func = keeps_the_published_set,
                                       .initial_state = &cells[i]};
    tests[n_cell] =
        (struct CMUnitTest)cmocka_unit_test(every_policy_has_a_golden_file_or_a_reason);
    int failed = _cmocka_run_group_tests("policies", tests, (size_t)n_cell + 1, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
