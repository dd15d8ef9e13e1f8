/* find.c - search over the joined text. The bytes of a trace may be no UTF-8; what is none is
 * searched as '?', so that places stay. */
#include "tui/find.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/regex.h"
#include "base/text.h"
#include "kvt/arena.h"

enum { MATCHES_MAX = 100000 };

void tui_find_end(tui_model *m)
{
    kvt_free(m->match);
    m->match = NULL;
    m->n_match = 0;
    m->search[0] = 0;
    m->match_more = false;
}

static char *valid_copy(const tui_data *d)
{
    size_t n = (size_t)d->offset[d->n_token];
    char *copy = kvt_alloc((int64_t)n + 1, 1);
    for (size_t i = 0; copy && i < n;) {
        uint32_t cp;
        int len = text_decode(&cp, d->text + i, n - i);
        if (len)
            memcpy(copy + i, d->text + i, (size_t)len);
        else
            copy[i] = '?';
        i += len ? (size_t)len : 1;
    }
    return copy;
}

/* The token that holds a byte; tokens without bytes hold none. */
static int64_t token_at(const tui_data *d, int64_t byte)
{
    int64_t lo = 0, hi = d->n_token - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (d->offset[mid + 1] > byte)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* One entry a match, at the token in which it begins. */
static kvt_code collect(tui_model *m, regex *re, const char *text, size_t n, kvt_err *err)
{
    int64_t room = 0;
    size_t from = 0;
    kvt_code code = KVT_OK;
    while (from < n) {
        size_t begin, end;
        code = regex_find(re, text, n, from, &begin, &end, err);
        if (code)
            break;
        if (m->n_match == MATCHES_MAX) {
            m->match_more = true;
            break;
        }
        if (m->n_match == room) {
            int64_t more = room ? 2 * room : 64;
            int64_t *bigger = kvt_resize(m->match, room, more, sizeof *m->match);
            if (!bigger)
                return kvt_fail_memory(err, (size_t)more * sizeof *m->match);
            m->match = bigger;
            room = more;
        }
        m->match[m->n_match++] = token_at(m->data, (int64_t)begin);
        from = end > begin ? end : end + 1;
        while (from < n && ((uint8_t)text[from] & 0xc0) == 0x80)
            from++;
    }
    return code == KVT_NO ? KVT_OK : code;
}

static bool has_capital(const char *pattern)
{
    for (; *pattern; pattern++)
        if (isupper((unsigned char)*pattern))
            return true;
    return false;
}

static void tell(tui_model *m, int64_t at)
{
    tui_say(m, "match %lld of %lld%s; n and N go on, Esc ends the search", (long long)at + 1,
            (long long)m->n_match, m->match_more ? " or more" : "");
}

void tui_find(tui_model *m, const char *pattern)
{
    kvt_err err = {0};
    regex *re = NULL;
    tui_find_end(m);
    if (!pattern[0]) {
        tui_say(m, "nothing to find");
        return;
    }
    if (m->data->no_text) {
        tui_say(m, "this trace holds no text to search (it was captured with --no-text)");
        return;
    }
    char *text = valid_copy(m->data);
    kvt_code code =
        text ? regex_new(&re, pattern, !has_capital(pattern), &err) : kvt_fail_memory(&err, 1);
    if (!code)
        code = collect(m, re, text, (size_t)m->data->offset[m->data->n_token], &err);
    regex_free(re);
    kvt_free(text);
    if (code) {
        tui_find_end(m);
        tui_say(m, "find: %.400s", err.text);
        return;
    }
    if (!m->n_match) {
        tui_say(m, "no match for %.200s", pattern);
        return;
    }
    snprintf(m->search, sizeof m->search, "%s", pattern);
    int64_t at = 0;
    while (at < m->n_match && m->match[at] < m->token)
        at++;
    at = at < m->n_match ? at : 0;
    tui_select_token(m, m->match[at]);
    tell(m, at);
}

void tui_find_next(tui_model *m, int dir)
{
    int64_t at = -1;
    for (int64_t i = 0; i < m->n_match; i++) {
        if (dir > 0 && m->match[i] > m->token) {
            at = i;
            break;
        }
        if (dir < 0 && m->match[i] < m->token)
            at = i;
    }
    if (at < 0) {
        tui_say(m, "no match of %.100s %s here", m->search, dir > 0 ? "behind" : "in front of");
        return;
    }
    tui_select_token(m, m->match[at]);
    tell(m, at);
}
