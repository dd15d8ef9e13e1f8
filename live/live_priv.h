/* live_priv.h - a probe that was asked for, and one that ran.
 *
 *   parse.c    NAME=kind:args@budgets
 *   ids.c      which tokens each kind runs
 *   second.c   the draft of a second model
 *   draft.c    caches evicted at a budget, for drafts
 *   cost.c     what they will take
 *   probes.c   opens what was asked for, runs it on a prompt, stores it */
#ifndef LIVE_PRIV_H
#define LIVE_PRIV_H

#include "capture/model.h"
#include "capture/probe.h"
#include "kvt/live.h"
#include "kvt/replay.h"

/* One NAME=kind:args@budgets. */
typedef struct wish {
    char name[64];
    kvt_probe_kind kind;
    char source[1024]; /* FILE, or "response"; "" where the kind takes none */
    char args[256];    /* as stored: the file's name and every option */
    int64_t number;    /* tokens or chunk */
    kvt_budget budget[KVT_BUDGETS_MAX];
    int n_budget;
    /* Opened once for all prompts. */
    adapter *learned;
    kvt_model *second;
    int32_t *id; /* [n_id] of a file */
    int64_t n_id;
} wish;

struct kvt_probes {
    kvt_model *m;
    wish *list;
    int n;
};

/* Rows to run; owned. */
typedef struct rows {
    int64_t n;
    int n_segment;               /* 0: no segments */
    int32_t *id;                 /* [n] */
    int32_t *pos, *segment;      /* [n], NULL without segments */
    int32_t *begin, *end, *from; /* [n_segment] */
    int64_t cap;
} rows;

/* USAGE. */
KVT_CHECKED kvt_code wish_parse(wish *out, const char *text, kvt_err *err);
/* What is behind the file's name in args: options that must be equal for a probe to be the
 * same. */
const char *wish_options(const char *args, kvt_probe_kind kind);

/* Opens the source of a wish: adapter, text, ids, trace, second model. `m` may be without
 * weights: then nothing large is read. */
KVT_CHECKED kvt_code wish_open(wish *w, const kvt_model *m, const kvt_ctx *ctx, kvt_err *err);
void wish_close(wish *w);

/* Rows of suffix, repeat and of given ids. FORMAT: a prompt without a response. */
KVT_CHECKED kvt_code rows_of(rows *out, const wish *w, const kvt_model *m,
                             const kvt_prompt *prompt, kvt_err *err);
void rows_free(rows *r);
void rows_digest(const rows *r, char out[KVT_DIGEST_TEXT]);
KVT_CHECKED kvt_code rows_push(rows *r, int32_t id, kvt_err *err);

/* Greedy continuation of the prompt by the wish's second model. */
KVT_CHECKED kvt_code second_draft(rows *out, const wish *w, const kvt_prompt *prompt,
                                  const kvt_ctx *ctx, kvt_err *err);
/* FORMAT with the first token that differs. */
KVT_CHECKED kvt_code second_check(const kvt_model *second, const kvt_model *m, kvt_err *err);

/* What caches evicted at n budgets hold of a prompt: u8 [n L H N]. A budget that the policy
 * refuses gets its reason in why[i], else "". */
typedef struct evicted {
    uint8_t *keep;
    int64_t slots[KVT_BUDGETS_MAX];
    char why[KVT_BUDGETS_MAX][224];
    int n;
} evicted;
enum { EVICTED_WINDOW = 32 }; /* last prompt queries that vote on what they hold */
/* Slots at each budget of a wish, rising, each once; how many. */
int evicted_budgets(int64_t slots[KVT_BUDGETS_MAX], const wish *w, const kvt_geometry *g,
                    int64_t n_prompt);
KVT_CHECKED kvt_code evicted_slots(evicted *out, const wish *w, const kvt_prompt *prompt,
                                   kvt_err *err);
KVT_CHECKED kvt_code evicted_fill(evicted *e, const kvt_prompt *prompt, const kvt_ctx *ctx,
                                  kvt_err *err);
void evicted_free(evicted *e);

#endif
