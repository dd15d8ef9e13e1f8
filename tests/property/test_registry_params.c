/* test_registry_params.c - what no parameter takes, over the registry: each policy and each
 * allocator, each parameter out of its range, no number, no choice, given twice. The mistake is
 * named in one line, and nothing is made. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/replay.h"

enum { TEXT = 512 };

static int64_t n_refused;

static void refused(const char *text, const char *part)
{
    kvt_use *use;
    kvt_err err;
    kvt_code code = kvt_use_parse(&use, NULL, text, &err);
    if (code != KVT_USAGE)
        fail_msg("%s: expected usage, got %s %s", text, kvt_code_name(code),
                 code ? err.text : "");
    assert_null(use);
    if (!strstr(err.text, part) || strchr(err.text, '\n') || strlen(err.text) > 400)
        fail_msg("%s: expected one line with '%s', got '%s'", text, part, err.text);
    n_refused++;
}

/* HEAD:NAME=VALUE is refused, and so is it behind other parameters. */
static void value_refused(const char *head, const kvt_param *p, const char *value)
{
    char text[TEXT];
    snprintf(text, sizeof text, "%s:%s=%s", head, p->name, value);
    refused(text, p->name);
}

static void number_refused(const char *head, const kvt_param *p, double x)
{
    char value[64];
    snprintf(value, sizeof value, "%.17g", x);
    value_refused(head, p, value);
}

static void parameter_refused(const char *head, const kvt_param *p)
{
    static const char *const odd[] = {"",    "x",   "nan", "inf",    "-inf", "1e999", "0x1p3",
                                      "1;2", "--1", "1 ",  "\x1b[m", "%n",   "1e",    "=1"};
    char text[TEXT];
    for (int i = 0; i < CHECK_COUNT(odd); i++)
        value_refused(head, p, odd[i]);
    if (p->type == KVT_INT) {
        number_refused(head, p, p->min - 1);
        number_refused(head, p, p->max + 1);
        number_refused(head, p, p->min + 0.5);
        value_refused(head, p, "99999999999999999999999");
        value_refused(head, p, "-9223372036854775809");
    } else if (p->type == KVT_REAL) {
        number_refused(head, p, nextafter(p->min, -INFINITY));
        number_refused(head, p, nextafter(p->max, INFINITY));
    }
    snprintf(text, sizeof text, "%s:%s", head, p->name);
    refused(text, "name=value");
    snprintf(text, sizeof text, "%s:%s1=1", head, p->name);
    refused(text, "no parameter");
}

static void twice_refused(const char *head, const kvt_param *p)
{
    char text[TEXT], one[160];
    kvt_use *use;
    kvt_err err;
    if (p->type == KVT_CHOICE)
        snprintf(one, sizeof one, "%s=%s", p->name, p->choices[0].name);
    else if (p->type == KVT_BOOL)
        snprintf(one, sizeof one, "%s=true", p->name);
    else
        snprintf(one, sizeof one, "%s=%.17g", p->name, p->def);
    snprintf(text, sizeof text, "%s:%s", head, one);
    if (kvt_use_parse(&use, NULL, text, &err))
        return; /* what its default says alone is no use of it: another law's matter */
    kvt_use_free(use);
    snprintf(text, sizeof text, "%s:%s,%s", head, one, one);
    refused(text, "twice");
}

static void policies_refuse(void **state)
{
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++)
        for (const kvt_param *q = (*p)->params; q && q->name; q++) {
            parameter_refused((*p)->name, q);
            twice_refused((*p)->name, q);
        }
}

static void allocators_refuse(void **state)
{
    (void)state;
    for (const kvt_share *const *s = kvt_shares(); *s; s++)
        for (const kvt_param *q = (*s)->params; q && q->name; q++) {
            char head[TEXT];
            snprintf(head, sizeof head, "keydiff/%s", (*s)->name);
            parameter_refused(head, q);
            twice_refused(head, q);
        }
}

/* base= takes a ranking and nothing else; whatever it says, it is one line. */
static void bases_are_taken_or_refused(void **state)
{
    static const char *const never[] = {
        "full",          "position",   "oracle-step", "oracle-assign", "quest",  "think",
        "dmc",           "cam",        "dms",         "kvzap",         "scores", "kvpop",
        "duo",           "criticalkv", "chunkkv",     "pyramidinfer",  "nope",   "snapkv/ada",
        "snapkv:pool=3", "all",        "tova",        "\x1b[31mred"};
    int64_t n_taken = 0;
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        char text[TEXT];
        for (int i = 0; (*p)->base && i < CHECK_COUNT(never); i++) {
            bool together = strcmp(never[i], "tova") == 0 || strcmp(never[i], "duo") == 0;
            snprintf(text, sizeof text, "%s:base=%s", (*p)->name, never[i]);
            if (!together || (*p)->traits.scope == KVT_BY_LANE)
                refused(text, "base");
        }
        for (const kvt_policy *const *b = kvt_policies(); *b; b++) {
            kvt_use *use;
            kvt_err err;
            snprintf(text, sizeof text, "%s:base=%s", (*p)->name, (*b)->name);
            kvt_code code = kvt_use_parse(&use, NULL, text, &err);
            assert_true(code == KVT_OK || code == KVT_USAGE);
            assert_true((*p)->base || code == KVT_USAGE);
            n_taken += code == KVT_OK;
            kvt_use_free(code ? NULL : use);
        }
    }
    assert_true(n_taken > 50);
}

/* Every use that is taken prints a text that is taken again and means the same. */
static void texts_read_back(void **state)
{
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++)
        for (const kvt_param *q = (*p)->params; q && q->name; q++)
            for (int i = 0; q->choices && i <= (int)q->max; i++) {
                char text[TEXT];
                kvt_use *use, *again;
                kvt_err err;
                snprintf(text, sizeof text, "%s:%s=%s", (*p)->name, q->name,
                         q->choices[i].name);
                if (kvt_use_parse(&use, NULL, text, &err))
                    continue;
                CHECK_OK(kvt_use_parse(&again, NULL, use->text, &err), &err);
                assert_string_equal(again->text, use->text);
                kvt_use_free(use);
                kvt_use_free(again);
            }
}

static void enough_was_refused(void **state)
{
    (void)state;
    print_message("%lld texts are refused\n", (long long)n_refused);
    assert_true(n_refused > 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_refuse),
        cmocka_unit_test(allocators_refuse),
        cmocka_unit_test(bases_are_taken_or_refused),
        cmocka_unit_test(texts_read_back),
        cmocka_unit_test(enough_was_refused),
    };
    return cmocka_run_group_tests_name("registry params", tests, NULL, NULL);
}
