/* looks.c - a user of what looks ahead: a trainer, a scorer file and probes, by public headers
 * alone. Nothing is there to train on: what is missing is said. */
#include <stdio.h>
#include <string.h>

#include "kvt/live.h"
#include "kvt/scorer.h"
#include "kvt/train.h"

int main(void)
{
    kvt_err err;
    kvt_scorer *scorer = NULL;
    kvt_train_counts counts;
    const char *const none[] = {"no-such-trace.h5"};
    const kvt_train_spec spec = {.what = "kvpop", .trace = none, .n_trace = 1, .out = "k.h5"};
    const kvt_trainer *t = kvt_trainer_find("lookaheadkv");

    bool opened = kvt_scorer_open(&scorer, "no-such-scorer.h5", &err) == KVT_OK;
    kvt_scorer_close(scorer);
    bool planned = kvt_train_plan(&spec, &counts, NULL, &err) == KVT_OK;
    kvt_probes_close(NULL);
    printf("%s %s\n", t ? t->file : "?", strstr(err.text, none[0]) ? "named" : err.text);
    return opened || planned;
}
