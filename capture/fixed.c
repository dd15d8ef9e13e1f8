/* fixed.c - tokens that stand for themselves, in a sorted list (capture/fixed.h). */
#include "capture/fixed.h"

#include "kvt/arena.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    token_text text;
    int32_t id;
    bool anywhere;
} entry;

struct fixed {
    const vocab *vocab;
    entry *entry; /* [n] by bytes, then what matches anywhere, then ids: no two alike in the
                     first two */
    int64_t n;
    int64_t begin[257]; /* entries with first byte k: [begin[k], begin[k + 1]) */
};

static int by_text(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
    int order = memcmp(x->text.data, y->text.data, n);
    if (order)
        return order;
    if (x->text.n != y->text.n)
        return x->text.n < y->text.n ? -1 : 1;
    if (x->anywhere != y->anywhere)
        return x->anywhere ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static bool same(const entry *a, const entry *b)
{
    return a->anywhere == b->anywhere && a->text.n == b->text.n &&
           memcmp(a->text.data, b->text.data, a->text.n) == 0;
}

kvt_code fixed_new(fixed **out, const vocab *v, const uint8_t *sort, kvt_err *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < vocab_count(v); i++)
        n += sort[i] != FIXED_NONE;
    fixed *f = kvt_alloc(1, sizeof *f);
    entry *list = kvt_alloc(n, sizeof *list);
    if (!f || !list) {
        kvt_free(f);
        kvt_free(list);
        return kvt_fail_memory(err, (size_t)n * sizeof *list);
    }
    n = 0;
    for (int32_t i = 0; i < (int32_t)vocab_count(v); i++) {
        token_text text = vocab_bytes(v, i);
        if (sort[i] != FIXED_NONE && text.n)
            list[n++] = (entry){text, i, sort[i] == FIXED_ANYWHERE};
    }
    if (n)
        qsort(list, (size_t)n, sizeof *list, by_text);
    for (int64_t k = 0; k < n; k++)
        if (f->n == 0 || !same(&list[f->n - 1], &list[k]))
            list[f->n++] = list[k];
    for (int64_t k = 0; k < f->n; k++)
        f->begin[(uint8_t)list[k].text.data[0] + 1]++;
    for (int k = 0; k < 256; k++)
        f->begin[k + 1] += f->begin[k];
    f->vocab = v;
    f->entry = list;
    *out = f;
    return KVT_OK;
}

void fixed_free(fixed *f)
{
    if (!f)
        return;
    kvt_free(f->entry);
    kvt_free(f);
}

/* The first entry of [low, high) whose byte at `depth` is at least (more: above) c. All share
 * what is in front of it and are longer. */
static int64_t bound(const fixed *f, int64_t low, int64_t high, size_t depth, int c, bool more)
{
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        int have = (uint8_t)f->entry[mid].text.data[depth];
        if (have > c || (have == c && !more))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

int32_t fixed_at(const fixed *f, const char *text, size_t n, size_t at, size_t allowed_end)
{
    int c = (uint8_t)text[at];
    int64_t low = f->begin[c], high = f->begin[c + 1];
    int32_t found = -1;
    for (size_t depth = 1; low < high; depth++) {
        bool allowed = at + depth <= allowed_end;
        int32_t here = -1;
        for (; low < high && f->entry[low].text.n == depth; low++)
            if ((f->entry[low].anywhere || allowed) && (here < 0 || f->entry[low].id < here))
                here = f->entry[low].id;
        found = here >= 0 ? here : found;
        if (low == high || at + depth >= n)
            break;
        c = (uint8_t)text[at + depth];
        low = bound(f, low, high, depth, c, false);
        high = bound(f, low, high, depth, c, true);
    }
    return found;
}

int32_t fixed_find(const fixed *f, const char *text, size_t n)
{
    int32_t id = n ? fixed_at(f, text, n, 0, n) : -1;
    return id >= 0 && vocab_bytes(f->vocab, id).n == n ? id : -1;
}
