/* strings.c - a seeded generator: words, code, digits, white space, scripts, any code point. */
#include "strings.h"

#include <string.h>

typedef struct maker {
    uint64_t state;
    char *out;
    size_t n;
} maker;

static uint64_t bits(maker *m)
{
    uint64_t z = (m->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t below(maker *m, uint32_t n)
{
    return (uint32_t)(bits(m) % n);
}

static void add_bytes(maker *m, const char *s, size_t n)
{
    if (m->n + n > GOLDEN_STRING_MAX)
        return;
    memcpy(m->out + m->n, s, n);
    m->n += n;
}

static void add(maker *m, const char *s)
{
    add_bytes(m, s, strlen(s));
}

static void add_point(maker *m, uint32_t c)
{
    char s[4];
    size_t n;
    if (c == 0 || (c >= 0xd800 && c < 0xe000))
        c = 'x';
    if (c < 0x80) {
        s[0] = (char)c;
        n = 1;
    } else if (c < 0x800) {
        s[0] = (char)(0xc0 | c >> 6);
        n = 2;
    } else if (c < 0x10000) {
        s[0] = (char)(0xe0 | c >> 12);
        n = 3;
    } else {
        s[0] = (char)(0xf0 | c >> 18);
        n = 4;
    }
    for (size_t k = 1; k < n; k++)
        s[k] = (char)(0x80 | ((c >> (6 * (n - 1 - k))) & 0x3f));
    add_bytes(m, s, n);
}

/* First and last code point of ranges that patterns treat differently. */
static const uint32_t blocks[][2] = {
    {0x20, 0x7e},       {0x80, 0xff},       {0x100, 0x24f},     {0x2b0, 0x36f},
    {0x370, 0x3ff},     {0x400, 0x4ff},     {0x530, 0x58f},     {0x590, 0x5ff},
    {0x600, 0x6ff},     {0x900, 0x97f},     {0xe00, 0xe7f},     {0x1100, 0x11ff},
    {0x1e00, 0x1eff},   {0x2000, 0x206f},   {0x2070, 0x209f},   {0x20a0, 0x20bf},
    {0x2150, 0x218b},   {0x2190, 0x21ff},   {0x2200, 0x22ff},   {0x2460, 0x24ff},
    {0x3000, 0x303f},   {0x3040, 0x30ff},   {0x4e00, 0x9fff},   {0xac00, 0xd7a3},
    {0xe000, 0xe0ff},   {0xfb00, 0xfb4f},   {0xfe00, 0xfe0f},   {0xff00, 0xffef},
    {0x10000, 0x100ff}, {0x1d400, 0x1d7ff}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff},
    {0x20000, 0x2a6df}, {0xe0100, 0xe01ef},
};

static const char *const words[] = {
    "the",
    "cache",
    "of",
    "a",
    "model",
    "Attention",
    "is",
    "evicted",
    "token",
    "don't",
    "I'll",
    "we've",
    "they're",
    "it's",
    "she'd",
    "I'm",
    "DON'T",
    "IT'S",
    "caf\u00e9",
    "na\u00efve",
    "e\u0301te\u0301",
    "stra\u00dfe",
    "\u0130stanbul",
    "hello",
    "world",
    "GPU",
    "KV",
    "snapkv",
    "2024",
    "3.14159",
    "1e-5",
    "0xFF",
    "x86_64",
    "foo_bar",
    "camelCase",
    "UPPER",
    "http://x.org/a?b=c&d=1",
    "user@mail.com",
    "#tag",
    "$100",
    "100%",
    "C++",
    "C#",
    "->",
    "=>",
    "!=",
    "...",
    "--",
    "\u2014",
    "\u201cquote\u201d",
    "\u2019s",
    "(x):",
    "[1,2]",
    "{a: b}",
    "<b>",
    "</b>",
    "Vi\u1ec7t",
    "\u043f\u0440\u0438\u0432\u0435\u0442",
    "\u4f60\u597d",
    "\u3053\u3093\u306b\u3061\u306f",
    "\uc548\ub155",
    "\u0645\u0631\u062d\u0628\u0627",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001f999",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u00bd",
    "\u2167",
    "\u00b2",
    "\u0663\u0664",
    "\u2460",
    "<|im_end|>",
};
enum { N_WORD = sizeof words / sizeof words[0], N_BLOCK = sizeof blocks / sizeof blocks[0] };

static const uint32_t spaces[] = {' ',    ' ',    ' ',    ' ',    '\t',   '\n',   '\n',
                                  '\r',   0x0b,   0x0c,   0x1c,   0x85,   0xa0,   0x1680,
                                  0x180e, 0x2003, 0x200b, 0x2028, 0x202f, 0x3000, 0xfeff};
enum { N_SPACE = sizeof spaces / sizeof spaces[0] };

static const char *const code[] = {
    "for (int i = 0; i < n; i++) {\n",
    "    return x + y;\n",
    "\t\tif (!p)\n",
    "def f(a, b=None):\n",
    "        self.w = [0] * 128\n",
    "}\n\n\n",
    "/* why */ ",
    "// TODO: 42\r\n",
    "#include <stdio.h>\n",
    "std::vector<int> v{1,2,3};",
    "print(f\"{x:>8.3f}\")\n",
    "SELECT * FROM t WHERE id=17;\n",
    "x = {'a': 1, 'b': [2, 3]}\n",
    "a+=b;;c--&&d||!e",
    "\\n\\t\\\"",
    "<div class=\"x\">&nbsp;</div>\n",
};
enum { N_CODE = sizeof code / sizeof code[0] };

static void any_point(maker *m)
{
    add_point(m, below(m, 0x110000));
}

static void block_point(maker *m)
{
    const uint32_t *b = blocks[below(m, N_BLOCK)];
    add_point(m, b[0] + below(m, b[1] - b[0] + 1));
}

static void space(maker *m)
{
    add_point(m, spaces[below(m, N_SPACE)]);
}

static void digit(maker *m)
{
    static const uint32_t zero[] = {'0', '0', '0', 0x660, 0x966, 0xff10, 0x1d7ce};
    if (below(m, 12) == 0)
        add(m, below(m, 2) ? "\u00bd" : "\u2167");
    else
        add_point(m, zero[below(m, sizeof zero / sizeof zero[0])] + below(m, 10));
}

size_t golden_string(char *out, int i)
{
    maker m = {.state = (uint64_t)i * 0x2545f4914f6cdd1du + 20240726u, .out = out};
    int kind = i % 10;
    uint32_t length = 1 + below(&m, kind == 7 ? 200 : 40);
    uint32_t one = below(&m, 4) ? 'a' + below(&m, 26) : spaces[below(&m, N_SPACE)];
    for (uint32_t k = 0; k < length; k++) {
        switch (kind) {
        case 0: add_point(&m, 0x20 + below(&m, 0x5f)); break;
        case 1:
        case 2:
            add(&m, words[below(&m, N_WORD)]);
            if (below(&m, 8))
                add(&m, " ");
            break;
        case 3: block_point(&m); break;
        case 4: any_point(&m); break;
        case 5: below(&m, 3) ? space(&m) : add(&m, words[below(&m, N_WORD)]); break;
        case 6: below(&m, 4) ? digit(&m) : add_point(&m, 0x20 + below(&m, 0x5f)); break;
        case 7: add_point(&m, one); break;
        case 8: add(&m, code[below(&m, N_CODE)]); break;
        default: /* some of everything */
            switch (below(&m, 6)) {
            case 0: space(&m); break;
            case 1: digit(&m); break;
            case 2: block_point(&m); break;
            case 3: add_point(&m, 1 + below(&m, 0x1f)); break;
            case 4: add(&m, "'"); break;
            default: add(&m, words[below(&m, N_WORD)]);
            }
        }
    }
    return m.n;
}

uint64_t golden_add(uint64_t fnv, int32_t id)
{
    uint32_t u = (uint32_t)id;
    for (int k = 0; k < 4; k++) {
        fnv ^= (u >> (8 * k)) & 0xff;
        fnv *= 0x100000001b3u;
    }
    return fnv;
}
