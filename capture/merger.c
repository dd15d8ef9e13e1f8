/* merger.c - joining neighbours by rank, with a heap.
 *
 * Pairs wait as 64-bit keys, rank above position, so that the smallest key is the next merge. A
 * key is stale when the pair at its position has another rank by now: it is dropped when it
 * comes up. Each merge takes one key out and puts at most two in. */
#include "capture/merger.h"

#include "kvt/arena.h"

enum { SYMBOLS_MAX = 1 << 30 };

void merger_fini(merger *m)
{
    kvt_free(m->sym);
    kvt_free(m->heap);
    *m = (merger){0};
}

kvt_code merger_begin(merger *m, size_t n, kvt_err *err)
{
    m->n = 0;
    m->n_heap = 0;
    if (n <= (size_t)m->cap)
        return KVT_OK;
    if (n >= SYMBOLS_MAX)
        return kvt_fail(err, KVT_FORMAT, "a text of %zu symbols is too long to merge", n);
    int64_t cap = n < 256 ? 256 : (int64_t)n;
    merger_fini(m);
    m->sym = kvt_alloc(cap, sizeof *m->sym);
    m->heap = kvt_alloc(2 * cap, sizeof *m->heap);
    if (!m->sym || !m->heap) {
        merger_fini(m);
        return kvt_fail_memory(err, (size_t)cap * (sizeof *m->sym + 2 * sizeof *m->heap));
    }
    m->cap = cap;
    return KVT_OK;
}

void merger_add(merger *m, int32_t id, int32_t at, int32_t size)
{
    if (m->n)
        m->sym[m->n - 1].next = m->n;
    m->sym[m->n] =
        (merge_symbol){.id = id, .at = at, .size = size, .prev = m->n - 1, .next = -1};
    m->n++;
}

/* A heap of four children a node: half the depth of a binary one, and the children share a line
 * of the cache. */
static void sift_down(uint64_t *heap, int64_t n, int64_t at)
{
    uint64_t key = heap[at];
    for (;;) {
        int64_t first = 4 * at + 1, best = first;
        if (first >= n)
            break;
        int64_t end = first + 4 < n ? first + 4 : n;
        for (int64_t c = first + 1; c < end; c++)
            if (heap[c] < heap[best])
                best = c;
        if (heap[best] >= key)
            break;
        heap[at] = heap[best];
        at = best;
    }
    heap[at] = key;
}

static void push(merger *m, uint64_t key)
{
    int64_t at = m->n_heap++;
    while (at > 0) {
        int64_t up = (at - 1) / 4;
        if (m->heap[up] <= key)
            break;
        m->heap[at] = m->heap[up];
        at = up;
    }
    m->heap[at] = key;
}

static uint64_t pop(merger *m)
{
    uint64_t key = m->heap[0];
    m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap > 0)
        sift_down(m->heap, m->n_heap, 0);
    return key;
}

static uint64_t key_of(int32_t rank, int32_t at)
{
    return (uint64_t)rank << 32 | (uint32_t)at;
}

void merger_run(merger *m, const char *text, const void *rules, merge_find *find)
{
    merge_symbol *sym = m->sym;
    merge_rule rule;
    for (int32_t i = 0; i + 1 < m->n; i++)
        if (find(rules, text, &sym[i], &sym[i + 1], &rule))
            m->heap[m->n_heap++] = key_of(rule.rank, i);
    for (int64_t i = m->n_heap / 4; i >= 0 && m->n_heap > 1; i--)
        sift_down(m->heap, m->n_heap, i);
    while (m->n_heap > 0) {
        uint64_t key = pop(m);
        int32_t at = (int32_t)(key & UINT32_MAX), rank = (int32_t)(key >> 32);
        merge_symbol *left = &sym[at];
        if (left->size == 0 || left->next < 0 ||
            !find(rules, text, left, &sym[left->next], &rule) || rule.rank != rank)
            continue;
        merge_symbol *right = &sym[left->next];
        int32_t before = left->prev;
        left->id = rule.id;
        left->size += right->size;
        right->size = 0;
        left->next = right->next;
        if (left->next >= 0) {
            sym[left->next].prev = at;
            if (find(rules, text, left, &sym[left->next], &rule))
                push(m, key_of(rule.rank, at));
        }
        if (before >= 0 && find(rules, text, &sym[before], left, &rule))
            push(m, key_of(rule.rank, before));
    }
}
