/* check.h - laws that every policy obeys, tried on one: what `kvt policy check` runs on a
 * plug-in before anybody believes its numbers. (replay/check.c)
 *
 * A policy runs through the engine on small made-up prompts, at several budgets, by its own
 * habit and on the prompt only. The hooks are called for real: one that reads what it does not
 * declare finds NULL and crashes, so that a caller who does not trust them forks first. */
#ifndef KVT_CHECK_H
#define KVT_CHECK_H

#include "kvt/replay.h"

/* X(id, name, what it says) */
/* clang-format off */
#define KVT_LAWS(X)                                                                          \
    X(RUNS,     "runs",     "runs on prompts of 1, 2, 3 and 48 tokens")                      \
    X(FINITE,   "finite",   "its scores are finite numbers, on flat attention and on zeros, too") \
    X(BUDGET,   "budget",   "holds at most the budget, and fills it")                        \
    X(FULL,     "full",     "keeps everything where the budget is as long as the prompt")    \
    X(PINNED,   "pinned",   "what its rule always keeps is kept")                            \
    X(SAME,     "same",     "the same seed gives the same result")                           \
    X(STATE,    "state",    "remembers nothing of another prompt")                           \
    X(LANES,    "lanes",    "lanes that are exchanged exchange their results")               \
    X(RANKING,  "ranking",  "one ranking, where it declares one, is what it does at every budget") \
    X(NESTED,   "nested",   "of one ranking a larger budget keeps all that a smaller one keeps")
/* clang-format on */
typedef enum kvt_law {
#define X(id, name, help) KVT_LAW_##id,
    KVT_LAWS(X)
#undef X
        KVT_LAW_COUNT
} kvt_law;

KVT_API const char *kvt_law_name(kvt_law law);
KVT_API const char *kvt_law_help(kvt_law law);

/* Called before a law is tried (`what` NULL), so that a crash can be named, and with what was
 * found when it is broken. */
typedef void kvt_check_report(void *user, kvt_law law, const char *what);

/* Tries every law on a use. USAGE where it cannot be tried without a trace: what needs a probe,
 * learned weights, a table of shares or the best schedule, joins slots or drops channels; NO
 * where a law is broken. */
KVT_API KVT_CHECKED kvt_code kvt_policy_check(const kvt_use *use, kvt_check_report *report,
                                              void *user, kvt_err *err);

#endif
