/* check_priv.h - what the checks of `kvt verify` share. */
#ifndef TRACES_CHECK_PRIV_H
#define TRACES_CHECK_PRIV_H

#include "traces/trace_priv.h"

typedef struct checker {
    kvt_trace *t;
    void (*each)(void *user, const kvt_finding *f);
    void *user;
    int n_failed;
} checker;

void check_find(checker *c, bool ok, const char *check, const char *fmt, ...) KVT_PRINTF(4, 5);

/* Worst of a check over all layers and heads, and where. */
typedef struct worst {
    double off;
    int64_t layer, at, n;
} worst;

void check_note(worst *w, double off, int64_t layer, int64_t at);
/* One finding: whether the worst is at most `limit`. */
void check_report(checker *c, const worst *w, double limit, const char *check,
                  const char *what);

KVT_CHECKED kvt_code check_decisions(checker *c, kvt_err *err);
KVT_CHECKED kvt_code check_probes(checker *c, kvt_err *err);

#endif
