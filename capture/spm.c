/* spm.c - merging by score (capture/spm.h): scores become ranks once, highest first. */
#include "capture/spm.h"

#include "base/text.h"
#include "capture/merger.h"
#include "kvt/arena.h"

#include <math.h>
#include <stdlib.h>

struct spm {
    const vocab *vocab;
    int32_t *rank; /* [n_token]; equal scores, equal ranks */
    int32_t unk;
    merger merger;
};

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static kvt_code add_ranks(spm *s, const float *score, kvt_err *err)
{
    int64_t n = vocab_count(s->vocab);
    scored *order = kvt_alloc(n, sizeof *order);
    s->rank = kvt_alloc(n, sizeof *s->rank);
    kvt_code code = KVT_OK;
    if (!order || !s->rank) {
        code = kvt_fail_memory(err, (size_t)n * sizeof *order);
        goto out;
    }
    for (int32_t i = 0; i < (int32_t)n; i++) {
        if (isnan(score[i])) {
            code = kvt_fail(err, KVT_FORMAT, "scores: token %d: expected a number, got nan",
                            (int)i);
            goto out;
        }
        order[i] = (scored){score[i], i};
    }
    qsort(order, (size_t)n, sizeof *order, by_score);
    int32_t rank = 0;
    for (int64_t k = 0; k < n; k++) {
        rank += k > 0 && order[k].score != order[k - 1].score;
        s->rank[order[k].id] = rank;
    }
out:
    kvt_free(order);
    return code;
}

kvt_code spm_new(spm **out, const vocab *v, const float *score, int32_t unk, kvt_err *err)
{
    spm *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    s->vocab = v;
    s->unk = unk;
    if (add_ranks(s, score, err)) {
        spm_free(s);
        return err->code;
    }
    *out = s;
    return KVT_OK;
}

void spm_free(spm *s)
{
    if (!s)
        return;
    merger_fini(&s->merger);
    kvt_free(s->rank);
    kvt_free(s);
}

/* A merge_find. The two lie side by side in the text. */
static bool find_joined(const void *rules, const char *text, const merge_symbol *left,
                        const merge_symbol *right, merge_rule *out)
{
    const spm *s = rules;
    size_t n = (size_t)left->size + (size_t)right->size;
    int32_t id = n <= vocab_longest(s->vocab) ? vocab_find(s->vocab, text + left->at, n) : -1;
    if (id < 0)
        return false;
    *out = (merge_rule){s->rank[id], id};
    return true;
}

/* A character that is no token: its bytes; each without a token is `unk`, or left out and in
 * the size of the one before. Returns what leads the next token. */
static int64_t put_bytes(const spm *s, token_room *room, const char *bytes, int32_t n,
                         int64_t lead)
{
    bool all = true;
    for (int32_t k = 0; k < n; k++)
        all = all && vocab_byte(s->vocab, (uint8_t)bytes[k]) >= 0;
    if (all || s->unk >= 0) {
        for (int32_t k = 0; k < (all ? n : 1); k++) {
            room->id[room->n] = all ? vocab_byte(s->vocab, (uint8_t)bytes[k]) : s->unk;
            room->size[room->n++] = (all ? 1 : n) + lead;
            lead = 0;
        }
        room->n_lost += all ? 0 : n;
        return 0;
    }
    room->n_lost += n;
    if (room->n == 0)
        return lead + n;
    room->size[room->n - 1] += n;
    return 0;
}

kvt_code spm_word(spm *s, token_room *room, const char *text, size_t n, kvt_err *err)
{
    merger *m = &s->merger;
    room->n = 0;
    if (n == 0)
        return KVT_OK;
    if (merger_begin(m, n, err))
        return err->code;
    for (int32_t at = 0, size; at < (int32_t)n; at += size) {
        uint32_t cp;
        size = text_decode(&cp, (const uint8_t *)text + at, n - (size_t)at);
        size = size ? size : 1;
        merger_add(m, vocab_find(s->vocab, text + at, (size_t)size), at, size);
    }
    merger_run(m, text, s, find_joined);
    int64_t lead = 0;
    for (int32_t i = m->n ? 0 : -1; i >= 0; i = m->sym[i].next) {
        const merge_symbol *one = &m->sym[i];
        if (one->id < 0) {
            lead = put_bytes(s, room, text + one->at, one->size, lead);
            continue;
        }
        room->id[room->n] = one->id;
        room->size[room->n++] = one->size + lead;
        lead = 0;
    }
    return KVT_OK;
}
