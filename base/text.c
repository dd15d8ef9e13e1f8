/* text.c - UTF-8 as hostile input, and the only door to utf8proc.
 *
 * What is safe to show is decided by the category of a code point: controls, formats,
 * surrogates, private and unassigned ones get a visible name; so a text cannot move the cursor,
 * turn the direction of a line or hide. */
#include "base/text.h"

#include "kvt/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <wchar.h>

int text_decode(uint32_t *cp, const uint8_t *s, size_t n)
{
    if (s[0] < 0x80) {
        *cp = s[0];
        return 1;
    }
    int len = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 0;
    len = s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : len;
    if (!len || (size_t)len > n)
        return 0;
    uint32_t x = s[0] & (0x7fu >> len);
    for (int i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        x = x << 6 | (s[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (x < least[len] || x > 0x10ffff || (x >= 0xd800 && x <= 0xdfff))
        return 0;
    *cp = x;
    return len;
}

int text_encode(char out[4], uint32_t cp)
{
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
        return 0;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00u >> len & 0xffu) | cp);
    return len;
}

bool text_valid(const uint8_t *s, size_t n, size_t *bad_at)
{
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        int len = text_decode(&cp, s + i, n - i);
        if (!len) {
            if (bad_at)
                *bad_at = i;
            return false;
        }
        i += (size_t)len;
    }
    return true;
}

kvt_code text_nfc(buf *out, const uint8_t *s, size_t n, kvt_err *err)
{
    if (!n)
        return KVT_OK;
    utf8proc_uint8_t *done = NULL;
    utf8proc_ssize_t len =
        utf8proc_map(s, (utf8proc_ssize_t)n, &done, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (len == UTF8PROC_ERROR_NOMEM)
        return kvt_fail_memory(err, n);
    if (len < 0)
        return kvt_fail(err, KVT_FORMAT, "normal form: %s", utf8proc_errmsg(len));
    buf_add(out, done, (size_t)len);
    free(done);
    return buf_check(out, err);
}

int text_width(uint32_t cp)
{
    int w = wcwidth((wchar_t)cp);
    return cp == 0 || w < 0 ? 1 : w;
}

enum { ZWJ = 0x200d, N_MARK = 2 };

static bool is_pictograph(uint32_t cp)
{
    return utf8proc_get_property((utf8proc_int32_t)cp)->boundclass ==
           UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC;
}

static bool is_skin_tone(uint32_t cp)
{
    return cp >= 0x1f3fb && cp <= 0x1f3ff;
}

/* Has no cell of its own. Formats have no width either, but must not hide behind a character.
 */
static bool is_mark(uint32_t cp)
{
    char name[16];
    return cp >= 0x300 && text_width(cp) == 0 && text_classify(cp, name) != TEXT_NAMED;
}

/* The base character decides the width of a cell; what terminals may or may not join to it (a
 * second emoji behind a joiner, a skin tone) is not drawn, so that no terminal can disagree. */
size_t text_cell(const char *text, size_t n, uint32_t cp[3], int *width)
{
    const uint8_t *s = (const uint8_t *)text;
    uint32_t next;
    int len = text_decode(&cp[0], s, n);
    cp[1] = cp[2] = 0;
    if (!len) {
        cp[0] = 0xfffd;
        *width = 1;
        return 1;
    }
    bool pictograph = is_pictograph(cp[0]), joined = false;
    int n_mark = 0;
    *width = text_width(cp[0]) > 1 ? 2 : 1;
    size_t at = (size_t)len;
    while (at < n && (len = text_decode(&next, s + at, n - at)) > 0) {
        bool drop = next == ZWJ || (joined && is_pictograph(next)) ||
                    (pictograph && is_skin_tone(next));
        if (!drop && !is_mark(next))
            break;
        if (!drop && n_mark < N_MARK)
            cp[++n_mark] = next;
        joined = pictograph && next == ZWJ;
        at += (size_t)len;
    }
    return at;
}

int text_columns(const char *s)
{
    size_t n = strlen(s), at = 0;
    int columns = 0, width;
    uint32_t cp[3];
    while (at < n) {
        at += text_cell(s + at, n - at, cp, &width);
        columns += width;
    }
    return columns;
}

/* clang-format off */
static const char *const controls[] = {
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS",  "TAB", "LF",  "VT",  "FF",
    "CR",  "SO",  "SI",  "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM",
    "SUB", "ESC", "FS",  "GS",  "RS",  "US",
};

static const struct {
    uint32_t cp;
    const char *name;
} named[] = {
    {0x7f, "DEL"},   {0x85, "NEL"},   {0x9b, "CSI"},   {0x61c, "ALM"},  {0x200e, "LRM"},
    {0x200f, "RLM"}, {0x2028, "LS"},  {0x2029, "PS"},  {0x202a, "LRE"}, {0x202b, "RLE"},
    {0x202c, "PDF"}, {0x202d, "LRO"}, {0x202e, "RLO"}, {0x2066, "LRI"}, {0x2067, "RLI"},
    {0x2068, "FSI"}, {0x2069, "PDI"},
};
/* clang-format on */

static void name_of(uint32_t cp, char name[16])
{
    if (cp < 0x20) {
        snprintf(name, 16, "%s", controls[cp]);
        return;
    }
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (named[i].cp == cp) {
            snprintf(name, 16, "%s", named[i].name);
            return;
        }
    }
    snprintf(name, 16, "%04X", (unsigned)cp);
}

text_kind text_classify(uint32_t cp, char name[16])
{
    name[0] = 0;
    if (cp >= 0x20 && cp < 0x7f)
        return TEXT_PLAIN;
    if (cp == '\n')
        return TEXT_NEWLINE;
    if (cp == '\t')
        return TEXT_TAB;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: name_of(cp, name); return TEXT_NAMED;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME: return TEXT_COMBINING;
    default: return TEXT_PLAIN;
    }
}

/* What stands around a code point: a mark needs a base, a joiner needs emoji on both sides. */
typedef struct around {
    bool has_base;
    bool after_pictograph; /* the base is one */
    uint32_t next;         /* 0: none */
} around;

/* The visible form of one code point into out, ended by NUL; it moves `a` on. */
static void show(char out[32], uint32_t cp, bool ascii, around *a)
{
    char name[16], raw[5] = {0};
    text_kind kind = text_classify(cp, name);
    raw[text_encode(raw, cp)] = 0;
    bool joins = cp == ZWJ && a->after_pictograph && a->next && is_pictograph(a->next);
    bool has_base = a->has_base;
    a->has_base = kind == TEXT_PLAIN || joins || (kind == TEXT_COMBINING && !ascii);
    a->after_pictograph =
        kind == TEXT_PLAIN ? is_pictograph(cp) : kind == TEXT_COMBINING && a->after_pictograph;
    if (kind == TEXT_NEWLINE)
        snprintf(out, 32, "%s", ascii ? "\\n" : "\u00b6");
    else if (kind == TEXT_TAB)
        snprintf(out, 32, "%s", ascii ? "\\t" : "\u2192");
    else if (kind == TEXT_NAMED && !(joins && !ascii))
        snprintf(out, 32, ascii ? "<%s>" : "\u27e8%s\u27e9", name);
    else if (ascii && cp >= 0x80)
        snprintf(out, 32, cp > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)cp);
    else if (kind == TEXT_COMBINING && !has_base)
        snprintf(out, 32, " %s", raw);
    else
        snprintf(out, 32, "%s", raw);
}

/* The next piece of [s, s + n) as safe text: one code point, or up to three bytes in a row that
 * are no character. Returns the bytes taken. */
static size_t show_next(char out[32], const uint8_t *s, size_t n, bool ascii, around *a)
{
    uint32_t cp;
    int len = text_decode(&cp, s, n);
    if (len) {
        size_t at = (size_t)len;
        if (at >= n || !text_decode(&a->next, s + at, n - at))
            a->next = 0;
        show(out, cp, ascii, a);
        return at;
    }
    size_t at = 0, used = 0;
    used += (size_t)snprintf(out, 32, "%s", ascii ? "<" : "\u27e8");
    do
        used += (size_t)snprintf(out + used, 32 - used, "%s%02x", at ? " " : "", s[at]);
    while (++at < n && at < 3 && !text_decode(&cp, s + at, n - at));
    snprintf(out + used, 32 - used, "%s", ascii ? ">" : "\u27e9");
    *a = (around){0};
    return at;
}

void text_safe(buf *out, const uint8_t *s, size_t n, bool ascii)
{
    char piece[32];
    around a = {0};
    for (size_t i = 0; i < n;) {
        i += show_next(piece, s + i, n - i, ascii, &a);
        buf_text(out, piece);
    }
}

/* Columns that a piece adds behind what is shown so far; the rules are those of text_cell(). */
typedef struct shown {
    bool any, pictograph, joiner;
} shown_state;

static int piece_columns(const char *piece, shown_state *s)
{
    uint32_t cp = 0;
    size_t n = strlen(piece);
    int len = text_decode(&cp, (const uint8_t *)piece, n);
    if ((size_t)len < n) { /* a name, or a mark on its own space */
        *s = (shown_state){.any = true};
        return text_columns(piece);
    }
    bool joined = s->any && (cp == ZWJ || (s->joiner && is_pictograph(cp)) ||
                             (s->pictograph && is_skin_tone(cp)));
    if (joined || (s->any && is_mark(cp))) {
        s->joiner = s->pictograph && cp == ZWJ;
        return 0;
    }
    *s = (shown_state){.any = true, .pictograph = is_pictograph(cp)};
    return text_width(cp) > 1 ? 2 : 1;
}

const char *text_safe_cut(char *out, size_t cap, const uint8_t *s, size_t n, int columns,
                          bool ascii)
{
    const char *mark = ascii ? "..." : "\u2026";
    int n_mark = ascii ? 3 : 1, used = 0, cut_used = 0;
    size_t at = 0, cut_at = 0; /* cut: the last place where the mark still fits behind */
    char piece[32];
    around a = {0};
    shown_state shown = {0};
    if (!cap)
        return out;
    for (size_t i = 0; i < n;) {
        i += show_next(piece, s + i, n - i, ascii, &a);
        size_t len = strlen(piece);
        if (used + n_mark <= columns && at + strlen(mark) < cap) {
            cut_at = at;
            cut_used = used;
        }
        int width = piece_columns(piece, &shown);
        if (used + width > columns || at + len >= cap) {
            at = cut_at;
            if (cut_used + n_mark <= columns && cut_at + strlen(mark) < cap) {
                memcpy(out + at, mark, strlen(mark));
                at += strlen(mark);
            }
            break;
        }
        memcpy(out + at, piece, len);
        at += len;
        used += width;
    }
    out[at] = 0;
    return out;
}

int text_distance(const char *a, const char *b)
{
    enum { MOST = 64 };
    size_t na = strlen(a), nb = strlen(b);
    if (na > MOST || nb > MOST)
        return (int)(na > nb ? na : nb);
    int d[3][MOST + 1]; /* rows i - 2, i - 1 and i of the table */
    for (size_t j = 0; j <= nb; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *row = d[i % 3], *above = d[(i + 2) % 3], *above2 = d[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = above2[j - 2] + 1 < best ? above2[j - 2] + 1 : best;
            row[j] = best;
        }
    }
    return d[na % 3][nb];
}

const char *text_nearest(const char *word, const char *const *list)
{
    int most = 1 + (int)strlen(word) / 4; /* one slip in a short word, more in a long one */
    const char *best = NULL;
    for (; *list; list++) {
        int d = text_distance(word, *list);
        if (d <= most && d < (int)strlen(word)) {
            best = *list;
            most = d - 1;
        }
    }
    return best;
}
