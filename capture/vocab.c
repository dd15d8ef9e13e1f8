/* vocab.c - tokens in one block of bytes, found by a hash table with open places. */
#include "capture/vocab.h"

#include "base/digest.h"
#include "base/text.h"
#include "kvt/arena.h"

#include <string.h>

static const char SPACE[] = "\xe2\x96\x81"; /* U+2581 */
enum { SPACE_BYTES = sizeof SPACE - 1 };

struct vocab {
    vocab_script script;
    char *blob;      /* the bytes of all tokens, one behind the other */
    int64_t *offset; /* [n + 1] */
    int64_t n;
    int32_t *slot; /* [mask + 1] ids by hash of their bytes, -1: empty */
    uint64_t mask; /* a power of two less one */
    int32_t byte_id[256];
    size_t longest;
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

static int64_t read_alphabet(char *out, token_text text)
{
    int64_t n = 0;
    for (size_t at = 0; at < text.n;) {
        uint32_t cp;
        int width = text_decode(&cp, (const uint8_t *)text.data + at, text.n - at);
        int byte = width ? byte_of(cp) : -1;
        if (byte < 0)
            return -1;
        out[n++] = (char)byte;
        at += (size_t)width;
    }
    return n;
}

static int64_t read_spaces(char *out, token_text text)
{
    int64_t n = 0;
    for (size_t at = 0; at < text.n;) {
        bool space =
            text.n - at >= SPACE_BYTES && memcmp(text.data + at, SPACE, SPACE_BYTES) == 0;
        out[n++] = space ? ' ' : text.data[at];
        at += space ? SPACE_BYTES : 1;
    }
    return n;
}

int64_t vocab_read(vocab_script script, char *out, token_text text)
{
    if (script == VOCAB_ALPHABET)
        return read_alphabet(out, text);
    if (text.n && memchr(text.data, ' ', text.n))
        return -1;
    return read_spaces(out, text);
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of "<0xHH>", or -1. */
static int named_byte(token_text t)
{
    if (t.n != 6 || memcmp(t.data, "<0x", 3) != 0 || t.data[5] != '>')
        return -1;
    int high = hex(t.data[3]), low = hex(t.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

int64_t vocab_count(const vocab *v)
{
    return v->n;
}
vocab_script vocab_script_of(const vocab *v)
{
    return v->script;
}
size_t vocab_longest(const vocab *v)
{
    return v->longest;
}
int32_t vocab_byte(const vocab *v, uint8_t byte)
{
    return v->byte_id[byte];
}

token_text vocab_bytes(const vocab *v, int32_t id)
{
    return (token_text){v->blob + v->offset[id], (size_t)(v->offset[id + 1] - v->offset[id])};
}

/* The place of these bytes in the table: taken or empty. */
static uint64_t slot_of(const vocab *v, const char *bytes, size_t n)
{
    uint64_t s = digest_64(bytes, n) & v->mask;
    while (v->slot[s] >= 0) {
        token_text have = vocab_bytes(v, v->slot[s]);
        if (have.n == n && memcmp(have.data, bytes, n) == 0)
            break;
        s = (s + 1) & v->mask;
    }
    return s;
}

int32_t vocab_find(const vocab *v, const char *bytes, size_t n)
{
    return v->slot[slot_of(v, n ? bytes : "", n)];
}

/* The bytes of token i, behind those of the others; *found: whether it can be looked up. */
static kvt_code add_bytes(vocab *v, int32_t i, token_text token, vocab_sort sort, bool *found,
                          kvt_err *err)
{
    char *to = v->blob + v->offset[i];
    int64_t n = -1;
    *found = sort == VOCAB_WRITTEN || sort == VOCAB_PLAIN;
    if (sort == VOCAB_BYTE) {
        int byte = named_byte(token);
        if (byte < 0)
            return kvt_fail(err, KVT_FORMAT,
                            "tokens: token %d is a byte: expected '<0x00>' to '<0xFF>'",
                            (int)i);
        *to = (char)byte;
        n = 1;
        if (v->byte_id[byte] < 0)
            v->byte_id[byte] = i;
    } else if (sort == VOCAB_WRITTEN) {
        n = vocab_read(v->script, to, token);
        *found = n >= 0;
    } else if (sort == VOCAB_PLAIN && v->script == VOCAB_SPACES) {
        *found = !token.n || !memchr(token.data, ' ', token.n);
    }
    if (n < 0) {
        n = (int64_t)token.n;
        memcpy(to, token.data, token.n);
    }
    v->offset[i + 1] = v->offset[i] + n;
    return KVT_OK;
}

static kvt_code add_token(vocab *v, int32_t i, token_text token, vocab_sort sort, kvt_err *err)
{
    bool found;
    if (add_bytes(v, i, token, sort, &found, err))
        return err->code;
    if (!found)
        return KVT_OK;
    token_text bytes = vocab_bytes(v, i);
    uint64_t s = slot_of(v, bytes.data, bytes.n);
    if (v->slot[s] < 0) /* of equal tokens the first one stays */
        v->slot[s] = i;
    v->longest = bytes.n > v->longest ? bytes.n : v->longest;
    return KVT_OK;
}

static kvt_code fill(vocab *v, const token_text *token, const uint8_t *sort, int64_t n,
                     kvt_err *err)
{
    size_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!token[i].data)
            return kvt_fail(err, KVT_FORMAT, "tokens: no token for id %lld (a hole)",
                            (long long)i);
        total += token[i].n;
    }
    v->n = n;
    v->mask = 63;
    while (v->mask < 2 * (uint64_t)n)
        v->mask = 2 * v->mask + 1;
    v->blob = kvt_alloc((int64_t)total + 1, 1);
    v->offset = kvt_alloc(n + 1, sizeof *v->offset);
    v->slot = kvt_alloc((int64_t)v->mask + 1, sizeof *v->slot);
    if (!v->blob || !v->offset || !v->slot)
        return kvt_fail_memory(err, total);
    memset(v->slot, 0xff, (v->mask + 1) * sizeof *v->slot);
    memset(v->byte_id, 0xff, sizeof v->byte_id);
    for (int32_t i = 0; i < (int32_t)n; i++)
        if (add_token(v, i, token[i], sort ? (vocab_sort)sort[i] : VOCAB_WRITTEN, err))
            return err->code;
    for (int k = 0; k < 256 && v->script == VOCAB_ALPHABET; k++)
        v->byte_id[k] = vocab_find(v, (const char[]){(char)k}, 1);
    return KVT_OK;
}

kvt_code vocab_new(vocab **out, vocab_script script, const token_text *token,
                   const uint8_t *sort, int64_t n, kvt_err *err)
{
    if (n < 1 || n >= INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "tokens: expected 1 to %d, got %lld", INT32_MAX - 1,
                        (long long)n);
    vocab *v = kvt_alloc(1, sizeof *v);
    if (!v)
        return kvt_fail_memory(err, sizeof *v);
    v->script = script;
    if (fill(v, token, sort, n, err)) {
        vocab_free(v);
        return err->code;
    }
    *out = v;
    return KVT_OK;
}

void vocab_free(vocab *v)
{
    if (!v)
        return;
    kvt_free(v->blob);
    kvt_free(v->offset);
    kvt_free(v->slot);
    kvt_free(v);
}
