/* bpe.c - byte-pair merging: the pair with the lowest rank first, the leftmost among equals.
 *
 * Pairs wait in a heap of 64-bit keys, rank above position, so that the smallest key is the
 * next merge. A key is stale when the pair at its position has another rank by now: it is
 * dropped when it comes up. Each merge takes one key out and puts at most two in: O(n log n)
 * for n bytes. */
#include "capture/bpe.h"

#include "base/digest.h"
#include "base/text.h"
#include "kvt/arena.h"

#include <string.h>

typedef struct merge {
    uint64_t pair; /* left << 32 | right; NO_PAIR: an empty place */
    int32_t rank, id;
} merge;

/* A piece of the word; its fields lie together, as a merge touches all of its neighbours'. */
typedef struct symbol {
    int32_t id, size;   /* size 0: merged into another */
    int32_t prev, next; /* places, -1: none */
} symbol;

static const uint64_t NO_PAIR = UINT64_MAX;

struct bpe {
    char *blob;      /* the bytes of all tokens, one behind the other */
    int64_t *offset; /* [n_token + 1] */
    int64_t n_token;
    int32_t *slot;      /* [slot_mask + 1] ids by hash of their bytes, -1: empty */
    uint64_t slot_mask; /* a power of two less one, as merge_mask */
    merge *merge;       /* [merge_mask + 1] by hash of the pair */
    uint64_t merge_mask;
    int32_t byte_id[256]; /* -1: no token */

    /* Scratch of one word: a list of symbols linked by position, and the heap. */
    int64_t cap;    /* bytes of the longest word so far */
    symbol *sym;    /* [cap] */
    uint64_t *heap; /* [2 cap] */
    int64_t n_heap;
};

/* The byte that a character of the byte-level alphabet stands for, or -1. Bytes that are
 * printable in Latin-1 stand for themselves, the other 68 are U+0100 onwards in ascending
 * order. */
static int byte_of(uint32_t cp)
{
    bool itself =
        (cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255);
    if (itself)
        return (int)cp;
    if (cp < 0x100 || cp >= 0x100 + 68)
        return -1;
    int k = (int)cp - 0x100; /* the 68: 0-32, 127-160, 173 */
    return k < 33 ? k : k < 67 ? 127 + (k - 33) : 173;
}

/* Writes the bytes of a token in the alphabet to out (at most n): their count, or -1 where a
 * character is outside it. */
static int64_t decode(char *out, bpe_text token)
{
    int64_t n = 0;
    for (size_t at = 0; at < token.n;) {
        uint32_t cp;
        int width = text_decode(&cp, (const uint8_t *)token.data + at, token.n - at);
        int byte = width ? byte_of(cp) : -1;
        if (byte < 0)
            return -1;
        out[n++] = (char)byte;
        at += (size_t)width;
    }
    return n;
}

static uint64_t hash_pair(uint64_t pair)
{
    pair ^= pair >> 29; /* the ids fill the low bits of both halves */
    pair *= 0x9e3779b97f4a7c15U;
    return pair ^ (pair >> 32);
}

bpe_text bpe_bytes(const bpe *b, int32_t id)
{
    return (bpe_text){b->blob + b->offset[id], (size_t)(b->offset[id + 1] - b->offset[id])};
}

/* The place of these bytes in the table: taken or empty. */
static uint64_t slot_of(const bpe *b, const char *bytes, size_t n)
{
    uint64_t s = digest_64(bytes, n) & b->slot_mask;
    while (b->slot[s] >= 0) {
        bpe_text have = bpe_bytes(b, b->slot[s]);
        if (have.n == n && memcmp(have.data, bytes, n) == 0)
            break;
        s = (s + 1) & b->slot_mask;
    }
    return s;
}

int32_t bpe_find(const bpe *b, const char *bytes, size_t n)
{
    return b->slot[slot_of(b, n ? bytes : "", n)];
}

static const merge *find_merge(const bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | (uint32_t)right;
    uint64_t s = hash_pair(pair) & b->merge_mask;
    while (b->merge[s].pair != pair) {
        if (b->merge[s].pair == NO_PAIR)
            return NULL;
        s = (s + 1) & b->merge_mask;
    }
    return &b->merge[s];
}

/* A mask for a table that is at most half full with n entries. */
static uint64_t mask_for(int64_t n)
{
    uint64_t size = 64;
    while (size < 2 * (uint64_t)n)
        size *= 2;
    return size - 1;
}

static kvt_code add_tokens(bpe *b, const bpe_text *token, const bool *literal, int64_t n_token,
                           kvt_err *err)
{
    size_t total = 0;
    for (int64_t i = 0; i < n_token; i++) {
        if (!token[i].data)
            return kvt_fail(err, KVT_FORMAT, "tokens: no token for id %lld (a hole)",
                            (long long)i);
        total += token[i].n;
    }
    b->n_token = n_token;
    b->slot_mask = mask_for(n_token);
    b->blob = kvt_alloc((int64_t)total + 1, 1);
    b->offset = kvt_alloc(n_token + 1, sizeof *b->offset);
    b->slot = kvt_alloc((int64_t)b->slot_mask + 1, sizeof *b->slot);
    if (!b->blob || !b->offset || !b->slot)
        return kvt_fail_memory(err, total);
    memset(b->slot, 0xff, (b->slot_mask + 1) * sizeof *b->slot);

    for (int32_t i = 0; i < (int32_t)n_token; i++) {
        char *to = b->blob + b->offset[i];
        int64_t n = literal && literal[i] ? -1 : decode(to, token[i]);
        bool encodes = n >= 0;
        if (!encodes) {
            n = (int64_t)token[i].n;
            memcpy(to, token[i].data, token[i].n);
        }
        b->offset[i + 1] = b->offset[i] + n;
        if (encodes) {
            uint64_t s = slot_of(b, to, (size_t)n);
            if (b->slot[s] < 0) /* of equal tokens the first one stays */
                b->slot[s] = i;
        }
    }
    for (int k = 0; k < 256; k++) {
        char byte = (char)k;
        b->byte_id[k] = bpe_find(b, &byte, 1);
    }
    return KVT_OK;
}

static kvt_code bad_merge(const bpe_text *m, int64_t rank, const char *what, kvt_err *err)
{
    char shown[64];
    text_safe_cut(shown, sizeof shown, (const uint8_t *)m->data, m->n, 40, true);
    return kvt_fail(err, KVT_FORMAT, "merges: entry %lld ('%s') %s", (long long)rank, shown,
                    what);
}

/* `joined` has room for the bytes of the longest merge. */
static kvt_code add_merge(bpe *b, const bpe_text *m, int64_t rank, char *joined, kvt_err *err)
{
    const char *space = m->n > 1 ? memchr(m->data + 1, ' ', m->n - 1) : NULL;
    if (!space)
        return bad_merge(m, rank, "has no space between two tokens", err);
    size_t at = (size_t)(space - m->data);
    int64_t n_left = decode(joined, (bpe_text){m->data, at});
    int64_t n_right =
        n_left < 0 ? -1 : decode(joined + n_left, (bpe_text){space + 1, m->n - at - 1});
    if (n_right < 0)
        return bad_merge(m, rank, "is outside the byte-level alphabet", err);
    int32_t left = bpe_find(b, joined, (size_t)n_left);
    int32_t right = bpe_find(b, joined + n_left, (size_t)n_right);
    int32_t both = bpe_find(b, joined, (size_t)(n_left + n_right));
    if (left < 0 || right < 0 || both < 0 || n_left == 0 || n_right == 0)
        return bad_merge(m, rank, "joins what are no tokens", err);

    uint64_t pair = (uint64_t)left << 32 | (uint32_t)right;
    uint64_t s = hash_pair(pair) & b->merge_mask;
    while (b->merge[s].pair != NO_PAIR) {
        if (b->merge[s].pair == pair)
            return KVT_OK; /* listed before, with a lower rank */
        s = (s + 1) & b->merge_mask;
    }
    b->merge[s] = (merge){pair, (int32_t)rank, both};
    return KVT_OK;
}

static kvt_code add_merges(bpe *b, const bpe_text *list, int64_t n, kvt_err *err)
{
    size_t longest = 0;
    for (int64_t i = 0; i < n; i++)
        longest = list[i].n > longest ? list[i].n : longest;
    b->merge_mask = mask_for(n);
    b->merge = kvt_alloc((int64_t)b->merge_mask + 1, sizeof *b->merge);
    char *joined = kvt_alloc((int64_t)longest + 1, 1);
    kvt_code code = KVT_OK;
    if (!b->merge || !joined) {
        code = kvt_fail_memory(err, (b->merge_mask + 1) * sizeof *b->merge);
        goto out;
    }
    for (uint64_t s = 0; s <= b->merge_mask; s++)
        b->merge[s].pair = NO_PAIR;
    for (int64_t i = 0; i < n && !code; i++)
        code = add_merge(b, &list[i], i, joined, err);
out:
    kvt_free(joined);
    return code;
}

kvt_code bpe_new(bpe **out, const bpe_text *token, const bool *literal, int64_t n_token,
                 const bpe_text *merge_list, int64_t n_merge, kvt_err *err)
{
    if (n_token < 1 || n_token >= INT32_MAX || n_merge < 0 || n_merge >= INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "vocabulary: %lld tokens, %lld merges",
                        (long long)n_token, (long long)n_merge);
    bpe *b = kvt_alloc(1, sizeof *b);
    if (!b)
        return kvt_fail_memory(err, sizeof *b);
    kvt_code code = add_tokens(b, token, literal, n_token, err);
    if (!code)
        code = add_merges(b, merge_list, n_merge, err);
    if (code) {
        bpe_free(b);
        return code;
    }
    *out = b;
    return KVT_OK;
}

static void free_scratch(bpe *b)
{
    kvt_free(b->sym);
    kvt_free(b->heap);
    b->sym = NULL;
    b->heap = NULL;
    b->cap = 0;
}

void bpe_free(bpe *b)
{
    if (!b)
        return;
    free_scratch(b);
    kvt_free(b->blob);
    kvt_free(b->offset);
    kvt_free(b->slot);
    kvt_free(b->merge);
    kvt_free(b);
}

/* Room for a word of n bytes. */
static kvt_code reserve(bpe *b, int64_t n, kvt_err *err)
{
    if (n <= b->cap)
        return KVT_OK;
    int64_t cap = n < 256 ? 256 : n;
    free_scratch(b);
    b->sym = kvt_alloc(cap, sizeof *b->sym);
    b->heap = kvt_alloc(2 * cap, sizeof *b->heap);
    if (!b->sym || !b->heap) {
        free_scratch(b);
        return kvt_fail_memory(err, (size_t)cap * (sizeof *b->sym + 2 * sizeof *b->heap));
    }
    b->cap = cap;
    return KVT_OK;
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

static void push(bpe *b, uint64_t key)
{
    int64_t at = b->n_heap++;
    while (at > 0) {
        int64_t up = (at - 1) / 4;
        if (b->heap[up] <= key)
            break;
        b->heap[at] = b->heap[up];
        at = up;
    }
    b->heap[at] = key;
}

static uint64_t pop(bpe *b)
{
    uint64_t key = b->heap[0];
    b->heap[0] = b->heap[--b->n_heap];
    if (b->n_heap > 0)
        sift_down(b->heap, b->n_heap, 0);
    return key;
}

/* The merge of the symbol at `at` with the one behind it, or NULL. */
static const merge *merge_at(const bpe *b, int32_t at)
{
    int32_t right = b->sym[at].next;
    return right < 0 ? NULL : find_merge(b, b->sym[at].id, b->sym[right].id);
}

static uint64_t key_of(const merge *m, int32_t at)
{
    return (uint64_t)m->rank << 32 | (uint32_t)at;
}

static void merge_all(bpe *b)
{
    while (b->n_heap > 0) {
        uint64_t key = pop(b);
        int32_t at = (int32_t)(key & UINT32_MAX), rank = (int32_t)(key >> 32);
        symbol *left = &b->sym[at];
        const merge *m = left->size > 0 ? merge_at(b, at) : NULL;
        if (!m || m->rank != rank)
            continue;
        symbol *right = &b->sym[left->next];
        int32_t before = left->prev;
        left->id = m->id;
        left->size += right->size;
        right->size = 0;
        left->next = right->next;
        if (left->next >= 0)
            b->sym[left->next].prev = at;
        if ((m = merge_at(b, at)))
            push(b, key_of(m, at));
        if (before >= 0 && (m = merge_at(b, before)))
            push(b, key_of(m, before));
    }
}

/* Makes a symbol of each byte: how many. A byte without a token adds to the size of its
 * neighbour; the reference library drops it and merges across its place. */
static int32_t load(bpe *b, const char *word, int32_t n, int64_t *n_lost)
{
    int32_t count = 0, lead = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = b->byte_id[(uint8_t)word[i]];
        if (id < 0) {
            *(count ? &b->sym[count - 1].size : &lead) += 1;
            *n_lost += 1;
            continue;
        }
        b->sym[count] = (symbol){id, 1 + lead, count - 1, count + 1};
        lead = 0;
        count++;
    }
    if (count)
        b->sym[count - 1].next = -1;
    return count;
}

kvt_code bpe_word(bpe *b, int32_t *id, int64_t *size, int64_t *n_id, int64_t *n_lost,
                  const char *word, size_t n, bool whole, kvt_err *err)
{
    *n_id = 0;
    if (n == 0)
        return KVT_OK;
    if (n >= INT32_MAX / 2)
        return kvt_fail(err, KVT_FORMAT, "a word of %zu bytes is too long", n);
    int32_t found = whole ? bpe_find(b, word, n) : -1;
    if (found >= 0) {
        id[0] = found;
        size[0] = (int64_t)n;
        *n_id = 1;
        return KVT_OK;
    }
    if (reserve(b, (int64_t)n, err))
        return err->code;
    int32_t count = load(b, word, (int32_t)n, n_lost);
    b->n_heap = 0;
    for (int32_t i = 0; i + 1 < count; i++) {
        const merge *m = merge_at(b, i);
        if (m)
            b->heap[b->n_heap++] = key_of(m, i);
    }
    for (int64_t i = b->n_heap / 4; i >= 0 && b->n_heap > 1; i--)
        sift_down(b->heap, b->n_heap, i);
    merge_all(b);
    for (int32_t i = 0; i >= 0 && count; i = b->sym[i].next) {
        id[*n_id] = b->sym[i].id;
        size[(*n_id)++] = b->sym[i].size;
    }
    return KVT_OK;
}
