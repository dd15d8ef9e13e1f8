/* What the uses of policies are called where several stand below each other. */
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "kvt/analyze.h"
#include "kvt/arena.h"
#include "kvt/replay.h"

/* A pass of one cell of a policy with these parameters, as they stand in a result. */
static void add(kvt_results *s, const char *policy, const char *params)
{
    kvt_err err;
    kvt_result *r = kvt_result_new();
    assert_non_null(r);
    r->n_cell = 1;
    r->cell = kvt_alloc(1, sizeof *r->cell);
    snprintf(r->cell[0].policy, sizeof r->cell[0].policy, "%s", policy);
    snprintf(r->cell[0].policy_params, sizeof r->cell[0].policy_params, "%s", params);
    CHECK_OK(kvt_results_add(s, r, &err), &err);
}

/* The parameters that a use stores: everything behind the colon. */
static void canonical(char out[512], char name[96], const char *typed)
{
    kvt_use *u;
    kvt_err err;
    CHECK_OK(kvt_use_parse(&u, NULL, typed, &err), &err);
    const char *colon = strchr(u->text, ':');
    snprintf(out, 512, "%s", colon ? colon + 1 : "");
    snprintf(name, 96, "%s", u->name);
    kvt_use_free(u);
}

/* {what is typed, what it is called}; {NULL} ends a set. */
static const char *const uses[][2] = {
    {"snapkv", "snapkv"},
    {"snapkv:pool=1,window=8", "snapkv:window=8,pool=1"},
    {"snapkv:compat=kvpress", "snapkv:compat=kvpress"},
    {"snapkv:compat=kvpress,window=16", "snapkv:compat=kvpress,window=16"},
    {"snapkv/pyramid", "snapkv/pyramid"},
    {"snapkv/pyramid:beta=10", "snapkv/pyramid:beta=10"},
    {"h2o:every=8", "h2o:every=8"},
    {"lookaheadkv:pool=0,probe=look2", "lookaheadkv:pool=0,probe=look2"},
    {"kvpop-mlp:weights=/data/pop.h5", "kvpop-mlp:weights=pop.h5"},
    {"kvpop-mlp:weights=runs/a/mlp.h5", "kvpop-mlp:weights=a/mlp.h5"},
    {"kvpop-mlp:weights=runs/b/mlp.h5", "kvpop-mlp:weights=b/mlp.h5"},
    {"full", "full"},
};
enum { N_USE = sizeof uses / sizeof uses[0] };

static void labels_hold_what_has_to_be_typed(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    char params[512], name[96], again[512], same[96];
    for (int i = 0; i < N_USE; i++) {
        canonical(params, name, uses[i][0]);
        add(s, name, params);
        add(s, name, params); /* of another trace */
    }
    kvt_labels *labels;
    CHECK_OK(kvt_labels_new(&labels, s, &err), &err);
    for (int i = 0; i < N_USE; i++) {
        canonical(params, name, uses[i][0]);
        const char *got = kvt_label(labels, name, params);
        assert_string_equal(got, uses[i][1]);
        if (strchr(uses[i][0], '/') && strstr(uses[i][0], "weights"))
            continue; /* a part of a path is for eyes */
        canonical(again, same, got);
        assert_string_equal(again, params);
    }
    assert_string_equal(kvt_label(labels, "tova", "x=1"), "tova");
    kvt_labels_free(labels);
    kvt_results_free(s);
}

/* A plug-in's parameters have no defaults here: what not all of its uses have is shown. What is
 * too long is cut, and never so that two look the same. */
static void unknown_and_long_ones_stay_apart(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    static const char *const params[] = {
        "depth=1,width=2,first-long-name=10000000,second-long-name=20000000,last=1",
        "depth=1,width=2,first-long-name=10000000,second-long-name=20000000,last=2",
        "depth=1,width=2,first-long-name=30000000,second-long-name=20000001,last=2",
    };
    for (int i = 0; i < 3; i++)
        add(s, "mine", params[i]);
    add(s, "other", "a=1,b=2");
    kvt_labels *labels;
    CHECK_OK(kvt_labels_new(&labels, s, &err), &err);
    assert_string_equal(kvt_label(labels, "other", "a=1,b=2"), "other");
    const char *got[3];
    for (int i = 0; i < 3; i++) {
        got[i] = kvt_label(labels, "mine", params[i]);
        assert_null(strstr(got[i], "depth")); /* the same in all */
        assert_int_equal(strncmp(got[i], "mine:first-long-name=", 21), 0);
    }
    for (int i = 0; i < 3; i++)
        assert_string_not_equal(got[i], got[(i + 1) % 3]);
    assert_string_equal(got[2], "mine:first-long-name=30000000,second-l..");
    assert_non_null(strstr(got[0], "last=1"));
    kvt_labels_free(labels);
    kvt_results_free(s);
}

/* The tables carry it. */
static void rows_are_labelled(void **state)
{
    (void)state;
    kvt_err err;
    kvt_ctx ctx = {.seed = 1, .n_thread = 1};
    kvt_results *s = kvt_alloc(1, sizeof *s);
    char params[512], name[96];
    static const char *const tables[] = {"cells", "curve"};
    for (int i = 0; i < 2; i++) {
        canonical(params, name, uses[i][0]);
        add(s, name, params);
        snprintf(s->result[i]->cell[0].status, sizeof s->result[i]->cell[0].status, "ok");
        for (int v = 0; v < KVT_VALUES_MAX; v++)
            s->result[i]->cell[0].value[v] = 0.5;
    }
    for (int i = 0; i < 2; i++) {
        kvt_report *r;
        char label[KVT_LABEL_MAX];
        CHECK_OK(kvt_report_make(&r, tables[i], s, NULL, &ctx, &err), &err);
        const kvt_table *t = kvt_report_table(r);
        const kvt_column *c = kvt_column_find(t->columns, "policy_label");
        assert_non_null(c);
        assert_int_equal(t->n_row, 2);
        bool plain = false, typed = false;
        for (int64_t row = 0; row < 2; row++) {
            kvt_cell_print(t, row, c, label, sizeof label);
            plain |= strcmp(label, uses[0][1]) == 0;
            typed |= strcmp(label, uses[1][1]) == 0;
        }
        assert_true(plain && typed);
        kvt_report_free(r);
    }
    kvt_results_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_hold_what_has_to_be_typed),
        cmocka_unit_test(unknown_and_long_ones_stay_apart),
        cmocka_unit_test(rows_are_labelled),
    };
    return cmocka_run_group_tests_name("labels", tests, NULL, NULL);
}
