/* test_registry_words.c - what policies and allocators say of themselves: names, sentences,
 * tables of parameters that read back; which names are free, in which order they are listed. */
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/replay.h"

static kvt_arena *memory;

static bool is_name(const char *s)
{
    return s && *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s);
}

static bool is_sentence(const char *s)
{
    return s && *s && s[strlen(s) - 1] != '.' && s[0] != ' ' && !strchr(s, '\n');
}

static void check_table(const kvt_param *table)
{
    for (const kvt_param *p = table; p && p->name; p++) {
        assert_true(*p->name && is_sentence(p->help) && p->unit);
        if (p->def < p->min || p->def > p->max)
            fail_msg("%s: default %g is not in %g to %g", p->name, p->def, p->min, p->max);
        for (int i = 0; p->type == KVT_CHOICE && i <= (int)p->max; i++)
            assert_true(is_name(p->choices[i].name) && p->choices[i].sets &&
                        is_sentence(p->choices[i].help));
    }
}

/* Defaults survive print and parse; the default of a choice brings the default values. */
static void check_defaults(const kvt_param *table, size_t size)
{
    char text[512], item[256];
    kvt_err err;
    void *defaults = kvt_arena_get(memory, size), *again = kvt_arena_get(memory, size);
    kvt_param_defaults(table, defaults);
    assert_true(kvt_param_print(table, text, sizeof text, defaults) < sizeof text);
    for (const kvt_param *p = table; p->name; p++) {
        char was[512];
        kvt_param_defaults(table, again);
        snprintf(item, sizeof item, "%s=%s", p->name,
                 p->type == KVT_CHOICE ? p->choices[(int)p->def].name : "");
        if (p->type == KVT_CHOICE && kvt_param_parse(table, again, item, &err))
            fail_msg("%s: %s", item, err.text);
        kvt_param_print(table, was, sizeof was, again);
        assert_string_equal(was, text);
    }
    memset(again, 0x55, size); /* whatever was there: the printed form names every parameter */
    kvt_param_defaults(table, again);
    if (kvt_param_parse(table, again, text, &err))
        fail_msg("%s: %s", text, err.text);
    char was[512];
    kvt_param_print(table, was, sizeof was, again);
    assert_string_equal(was, text);
}

static void policy_describes_itself(const kvt_policy *p)
{
    assert_int_equal(p->abi, KVT_POLICY_ABI);
    assert_true(is_name(p->name) && is_sentence(p->title) && p->paper && *p->paper &&
                p->differs);
    assert_true(strlen(p->paper) < 100 && !strchr(p->paper, '\n'));
    assert_true(!p->about || (*p->about && p->about[strlen(p->about) - 1] == '.'));
    assert_true(p->score || p->select ||
                (p->traits.exactness == KVT_NOT_REPLAYABLE && is_sentence(p->why_not)));
    assert_true((p->params != NULL) == (p->params_size > 0));
    check_table(p->params);
    if (p->params)
        check_defaults(p->params, p->params_size);
}

static void policies_describe_themselves(void **state)
{
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        print_message("  %s\n", (*p)->name);
        policy_describes_itself(*p);
    }
}

static void shares_describe_themselves(void **state)
{
    (void)state;
    for (int i = 0; kvt_shares()[i]; i++) {
        const kvt_share *s = kvt_shares()[i];
        assert_int_equal(s->abi, KVT_POLICY_ABI);
        assert_true(is_name(s->name) && is_sentence(s->title) && s->paper && s->differs &&
                    s->split);
        check_table(s->params);
        if (s->params)
            check_defaults(s->params, s->params_size);
        for (int k = 0; kvt_policies()[k]; k++)
            for (const kvt_param *p = kvt_policies()[k]->params; p && p->name; p++)
                if (s->params && kvt_param_find(s->params, p->name))
                    fail_msg("%s and %s: both have '%s'", kvt_policies()[k]->name, s->name,
                             p->name);
    }
}

/* What the engine reads itself (weights=, probe=, ...) would never reach them. */
static void names_of_the_engine_are_free(void **state)
{
    (void)state;
    for (const kvt_param *own = kvt_use_table(); own->name; own++) {
        for (int i = 0; kvt_policies()[i]; i++)
            if (kvt_policies()[i]->params &&
                kvt_param_find(kvt_policies()[i]->params, own->name))
                fail_msg("%s has the engine's '%s'", kvt_policies()[i]->name, own->name);
        for (int i = 0; kvt_shares()[i]; i++)
            if (kvt_shares()[i]->params && kvt_param_find(kvt_shares()[i]->params, own->name))
                fail_msg("%s has the engine's '%s'", kvt_shares()[i]->name, own->name);
    }
}

static void lists_are_by_name(void **state)
{
    (void)state;
    for (int i = 1; kvt_policies()[i]; i++)
        assert_true(strcmp(kvt_policies()[i - 1]->name, kvt_policies()[i]->name) < 0);
    for (int i = 1; kvt_shares()[i]; i++)
        assert_true(strcmp(kvt_shares()[i - 1]->name, kvt_shares()[i]->name) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_describe_themselves),
        cmocka_unit_test(shares_describe_themselves),
        cmocka_unit_test(names_of_the_engine_are_free),
        cmocka_unit_test(lists_are_by_name),
    };
    memory = kvt_arena_new((size_t)1 << 24);
    int failed = cmocka_run_group_tests_name("words of the registry", tests, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
