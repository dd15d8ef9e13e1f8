/* bpe.c - byte-pair merging: a table of pairs of ids, and how a word begins. */
#include "capture/bpe.h"

#include "base/text.h"
#include "capture/merger.h"
#include "kvt/arena.h"

#include <string.h>

typedef struct merge {
    uint64_t pair; /* left << 32 | right; NO_PAIR: an empty place */
    int32_t rank, id;
} merge;

static const uint64_t NO_PAIR = UINT64_MAX;

struct bpe {
    const vocab *vocab;
    bpe_rules rules; /* but for the merges */
    merge *merge;    /* [mask + 1] by hash of the pair */
    uint64_t mask;   /* a power of two less one */
    merger merger;
};

static uint64_t hash_pair(uint64_t pair)
{
    pair ^= pair >> 29; /* the ids fill the low bits of both halves */
    pair *= 0x9e3779b97f4a7c15U;
    return pair ^ (pair >> 32);
}

/* A merge_find. */
static bool find_merge(const void *rules, const char *text, const merge_symbol *left,
                       const merge_symbol *right, merge_rule *out)
{
    const bpe *b = rules;
    (void)text;
    uint64_t pair = (uint64_t)left->id << 32 | (uint32_t)right->id;
    uint64_t s = hash_pair(pair) & b->mask;
    while (b->merge[s].pair != pair) {
        if (b->merge[s].pair == NO_PAIR)
            return false;
        s = (s + 1) & b->mask;
    }
    *out = (merge_rule){b->merge[s].rank, b->merge[s].id};
    return true;
}

static kvt_code bad_merge(token_text m, int64_t rank, const char *what, kvt_err *err)
{
    char shown[64];
    text_safe_cut(shown, sizeof shown, (const uint8_t *)m.data, m.n, 40, true);
    return kvt_fail(err, KVT_FORMAT, "merges: entry %lld ('%s') %s", (long long)rank, shown,
                    what);
}

/* The two parts of an entry. */
static kvt_code split(token_text part[2], const bpe_rules *r, int64_t rank, kvt_err *err)
{
    token_text m = r->merge[rank];
    part[0] = m;
    if (r->right) {
        part[1] = r->right[rank];
        return KVT_OK;
    }
    const char *space = m.n > 1 ? memchr(m.data + 1, ' ', m.n - 1) : NULL;
    if (!space)
        return bad_merge(m, rank, "has no space between two tokens", err);
    part[0].n = (size_t)(space - m.data);
    part[1] = (token_text){space + 1, m.n - part[0].n - 1};
    return KVT_OK;
}

/* `joined` has room for the bytes of the longest merge. */
static kvt_code add_merge(bpe *b, const bpe_rules *r, int64_t rank, char *joined, kvt_err *err)
{
    token_text part[2];
    const vocab *v = b->vocab;
    if (split(part, r, rank, err))
        return err->code;
    int64_t n_left = vocab_read(vocab_script_of(v), joined, part[0]);
    int64_t n_right =
        n_left < 0 ? -1 : vocab_read(vocab_script_of(v), joined + n_left, part[1]);
    if (n_right < 0)
        return bad_merge(r->merge[rank], rank,
                         vocab_script_of(v) == VOCAB_ALPHABET
                             ? "is outside the byte-level alphabet"
                             : "holds a space: expected two tokens",
                         err);
    int32_t left = vocab_find(v, joined, (size_t)n_left);
    int32_t right = vocab_find(v, joined + n_left, (size_t)n_right);
    int32_t both = vocab_find(v, joined, (size_t)(n_left + n_right));
    if (left < 0 || right < 0 || both < 0 || n_left == 0 || n_right == 0)
        return bad_merge(r->merge[rank], rank, "joins what are no tokens", err);

    uint64_t pair = (uint64_t)left << 32 | (uint32_t)right;
    uint64_t s = hash_pair(pair) & b->mask;
    while (b->merge[s].pair != NO_PAIR) {
        if (b->merge[s].pair == pair)
            return KVT_OK; /* listed before, with a lower rank */
        s = (s + 1) & b->mask;
    }
    b->merge[s] = (merge){pair, (int32_t)rank, both};
    return KVT_OK;
}

static kvt_code add_merges(bpe *b, const bpe_rules *r, kvt_err *err)
{
    size_t longest = 0;
    for (int64_t i = 0; i < r->n_merge; i++) {
        size_t n = r->merge[i].n + (r->right ? r->right[i].n : 0);
        longest = n > longest ? n : longest;
    }
    b->mask = 63;
    while (b->mask < 2 * (uint64_t)r->n_merge)
        b->mask = 2 * b->mask + 1;
    b->merge = kvt_alloc((int64_t)b->mask + 1, sizeof *b->merge);
    char *joined = kvt_alloc((int64_t)longest + 1, 1);
    kvt_code code = KVT_OK;
    if (!b->merge || !joined) {
        code = kvt_fail_memory(err, (b->mask + 1) * sizeof *b->merge);
        goto out;
    }
    for (uint64_t s = 0; s <= b->mask; s++)
        b->merge[s].pair = NO_PAIR;
    for (int64_t i = 0; i < r->n_merge && !code; i++)
        code = add_merge(b, r, i, joined, err);
out:
    kvt_free(joined);
    return code;
}

kvt_code bpe_new(bpe **out, const vocab *v, const bpe_rules *rules, kvt_err *err)
{
    if (rules->n_merge < 0 || rules->n_merge >= INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "merges: %lld of them", (long long)rules->n_merge);
    bpe *b = kvt_alloc(1, sizeof *b);
    if (!b)
        return kvt_fail_memory(err, sizeof *b);
    b->vocab = v;
    b->rules = *rules;
    b->rules.merge = b->rules.right = NULL;
    if (add_merges(b, rules, err)) {
        bpe_free(b);
        return err->code;
    }
    *out = b;
    return KVT_OK;
}

void bpe_free(bpe *b)
{
    if (!b)
        return;
    merger_fini(&b->merger);
    kvt_free(b->merge);
    kvt_free(b);
}

/* A symbol of each byte. One without a token is `unk`, or adds to the size of its neighbour;
 * the reference library drops it and merges across its place. */
static void begin_with_bytes(bpe *b, token_room *room, const char *word, int32_t n)
{
    merger *m = &b->merger;
    int32_t lead = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = vocab_byte(b->vocab, (uint8_t)word[i]);
        room->n_lost += id < 0;
        bool fused = b->rules.fuse_unk && m->n && m->sym[m->n - 1].id == b->rules.unk;
        if (id < 0 && b->rules.unknown && !fused)
            id = b->rules.unk;
        if (id >= 0) {
            merger_add(m, id, i - lead, 1 + lead);
            lead = 0;
            continue;
        }
        *(m->n ? &m->sym[m->n - 1].size : &lead) += 1;
    }
}

/* The bytes of a character that is no token: byte tokens, else `unk`, else it is left out.
 * Returns what leads the next symbol. */
static int32_t add_unknown(bpe *b, token_room *room, const char *word, int32_t at, int32_t n,
                           int32_t lead)
{
    merger *m = &b->merger;
    bool bytes = true;
    for (int32_t k = 0; k < n; k++)
        bytes = bytes && vocab_byte(b->vocab, (uint8_t)word[at + k]) >= 0;
    if (bytes) {
        for (int32_t k = 0; k < n; k++, lead = 0)
            merger_add(m, vocab_byte(b->vocab, (uint8_t)word[at + k]), at + k - lead, 1 + lead);
        return 0;
    }
    room->n_lost += n;
    merge_symbol *last = m->n ? &m->sym[m->n - 1] : NULL;
    bool fused = b->rules.unknown && b->rules.fuse_unk && last && last->id == b->rules.unk;
    if (b->rules.unknown && !fused) {
        merger_add(m, b->rules.unk, at - lead, n + lead);
        return 0;
    }
    if (!last)
        return lead + n;
    last->size += n;
    return 0;
}

static void begin_with_characters(bpe *b, token_room *room, const char *word, int32_t n)
{
    int32_t lead = 0;
    for (int32_t at = 0, size; at < n; at += size) {
        uint32_t cp;
        size = text_decode(&cp, (const uint8_t *)word + at, (size_t)(n - at));
        size = size ? size : 1;
        int32_t id = vocab_find(b->vocab, word + at, (size_t)size);
        if (id < 0) {
            lead = add_unknown(b, room, word, at, size, lead);
            continue;
        }
        merger_add(&b->merger, id, at - lead, size + lead);
        lead = 0;
    }
}

kvt_code bpe_word(bpe *b, token_room *room, const char *word, size_t n, kvt_err *err)
{
    merger *m = &b->merger;
    room->n = 0;
    if (n == 0)
        return KVT_OK;
    int32_t found = b->rules.whole ? vocab_find(b->vocab, word, n) : -1;
    if (found >= 0) {
        room->id[0] = found;
        room->size[0] = (int64_t)n;
        room->n = 1;
        return KVT_OK;
    }
    if (merger_begin(m, n, err))
        return err->code;
    if (vocab_script_of(b->vocab) == VOCAB_ALPHABET)
        begin_with_bytes(b, room, word, (int32_t)n);
    else
        begin_with_characters(b, room, word, (int32_t)n);
    merger_run(m, word, b, find_merge);
    for (int32_t i = m->n ? 0 : -1; i >= 0; i = m->sym[i].next) {
        room->id[room->n] = m->sym[i].id;
        room->size[room->n++] = m->sym[i].size;
    }
    return KVT_OK;
}
