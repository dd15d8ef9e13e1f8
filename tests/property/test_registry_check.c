/* test_registry_check.c - what `kvt policy check` tries on a plug-in holds for everything that
 * is built in: each policy by itself, with every value of every choice, with every allocator,
 * and again every few tokens. What cannot be tried without a trace says so. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "kvt/check.h"

enum { CASE_MAX = 2048, TEXT = 160 };

typedef struct trial {
    char text[TEXT];
} trial;

static trial trials[CASE_MAX];
static struct CMUnitTest tests[CASE_MAX + 1];
static int n_trial, n_tried;

static void note(void *user, kvt_law law, const char *what)
{
    char *broken = user;
    if (what && strlen(broken) < 600)
        snprintf(broken + strlen(broken), 300, "\n  %s: %s", kvt_law_name(law), what);
}

static void obeys_every_law(void **state)
{
    const trial *t = *state;
    char broken[1024] = "";
    kvt_use *use;
    kvt_err err;
    CHECK_OK(kvt_use_parse(&use, NULL, t->text, &err), &err);
    kvt_code code = kvt_policy_check(use, note, broken, &err);
    kvt_use_free(use);
    n_tried += code == KVT_OK;
    if (code == KVT_USAGE)
        assert_non_null(strstr(err.text, "cannot be tried without a trace"));
    else if (code != KVT_OK)
        fail_msg("%s: %s%s", t->text, err.text, broken);
}

/* A use that the parser takes; what it refuses is no case. */
static void add(const char *text)
{
    kvt_use *use;
    kvt_err err;
    if (kvt_use_parse(&use, NULL, text, &err))
        return;
    kvt_use_free(use);
    assert_true(n_trial < CASE_MAX);
    trial *t = &trials[n_trial];
    snprintf(t->text, sizeof t->text, "%s", text);
    tests[n_trial++] =
        (struct CMUnitTest){.name = t->text, .test_func = obeys_every_law, .initial_state = t};
}

static void add_policy(const kvt_policy *p)
{
    char text[TEXT];
    add(p->name);
    for (const kvt_param *q = p->params; q && q->name; q++)
        for (int i = 0; q->choices && i <= (int)q->max; i++) {
            if (i == (int)q->def)
                continue;
            snprintf(text, sizeof text, "%s:%s=%s", p->name, q->name, q->choices[i].name);
            add(text);
        }
    for (const kvt_share *const *s = kvt_shares(); *s; s++) {
        snprintf(text, sizeof text, "%s/%s", p->name, (*s)->name);
        add(text);
    }
    snprintf(text, sizeof text, "%s:every=3", p->name);
    add(text);
}

/* A registry that shrinks to what cannot be tried would pass. */
static void most_were_tried(void **state)
{
    (void)state;
    assert_true(n_tried > 300);
}

int main(void)
{
    for (const kvt_policy *const *p = kvt_policies(); *p; p++)
        add_policy(*p);
    tests[n_trial] =
        (struct CMUnitTest){.name = "most were tried", .test_func = most_were_tried};
    return CHECK_RUN("registry", tests, n_trial + 1);
}
