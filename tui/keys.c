/* keys.c - keys and commands, read and printed. */
#include "tui/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const tui_key_info infos[TUI_KEY_COUNT] = {
#define KEY(id, keys, name, group, screens, place, foot, help) \
    {keys, name, group, screens, place, foot, help},
#include "tui/keys.def"
#undef KEY
};

const tui_key_info *tui_keys(void)
{
    return infos;
}

/* ---- keys -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int key;
} named[] = {
    {"Up", TUI_KEY_UP},
    {"Down", TUI_KEY_DOWN},
    {"Left", TUI_KEY_LEFT},
    {"Right", TUI_KEY_RIGHT},
    {"PgUp", TUI_KEY_PAGE_UP},
    {"PgDn", TUI_KEY_PAGE_DOWN},
    {"Home", TUI_KEY_HOME},
    {"End", TUI_KEY_END},
    {"Enter", TUI_KEY_ENTER},
    {"Esc", TUI_KEY_ESC},
    {"Space", ' '},
    {"F1", TUI_KEY_F1},
    {"Backspace", TUI_KEY_BACKSPACE},
};

int tui_key_read(const char *name, size_t n)
{
    uint32_t cp;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strlen(named[i].name) == n && memcmp(named[i].name, name, n) == 0)
            return named[i].key;
    if (n == 2 && name[0] == '^' && name[1] >= '@' && name[1] <= '_')
        return name[1] - '@';
    if (n > 0 && (size_t)text_decode(&cp, (const uint8_t *)name, n) == n)
        return (int)cp;
    return -1;
}

tui_do tui_key_command(int key)
{
    for (int i = 0; i < TUI_KEY_COUNT; i++)
        for (const char *at = infos[i].keys; *at;) {
            size_t n = strcspn(at, " ");
            if (tui_key_read(at, n) == key)
                return (tui_do)i;
            at += n + (at[n] == ' ');
        }
    return TUI_NOTHING;
}

/* ---- commands ---------------------------------------------------------------------------- */

static const struct {
    const char *word;
    tui_do what;
    bool is_number;
} words[] = {
    {"step", TUI_TO_STEP, true},      {"token", TUI_TO_TOKEN, true},
    {"budget", TUI_TO_BUDGET, false}, {"policy", TUI_TO_POLICY, false},
    {"metric", TUI_TO_METRIC, false}, {"find", TUI_FIND_TEXT, false},
};
enum { N_WORD = sizeof words / sizeof words[0] };

static kvt_code unknown(const char *text, kvt_err *err)
{
    const char *list[TUI_KEY_COUNT + N_WORD + 1] = {0};
    char word[64];
    for (int i = 0; i < TUI_KEY_COUNT; i++)
        list[i] = infos[i].name;
    for (int i = 0; i < N_WORD; i++)
        list[TUI_KEY_COUNT + i] = words[i].word;
    snprintf(word, sizeof word, "%.60s", text);
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(word, " "), word);
    const char *near = text_nearest(word, list);
    near = near ? near : text_nearest(first, list);
    if (near)
        return kvt_fail(err, KVT_USAGE, "no command '%s' (did you mean '%s'?)", word, near);
    return kvt_fail(
        err, KVT_USAGE,
        "no command '%s'; try step N, token N, budget X, policy NAME, L13G2, find RE", word);
}

static bool parse_lane(tui_command *out, const char *text)
{
    long long layer, lane;
    int end = 0;
    if ((sscanf(text, "L%lldG%lld%n", &layer, &lane, &end) != 2 &&
         sscanf(text, "L%lld G%lld%n", &layer, &lane, &end) != 2 &&
         sscanf(text, "lane %lld:%lld%n", &layer, &lane, &end) != 2) ||
        text[end] != 0)
        return false;
    *out = (tui_command){.what = TUI_TO_LANE, .n = layer, .n2 = lane};
    return true;
}

static bool parse_pair(tui_command *out, const char *text)
{
    long long a, b;
    int end = 0;
    if (sscanf(text, "resize %lldx%lld%n", &a, &b, &end) == 2 && text[end] == 0)
        *out = (tui_command){.what = TUI_RESIZE, .n = a, .n2 = b};
    else if (end = 0, sscanf(text, "click %lld:%lld%n", &a, &b, &end) == 2 && text[end] == 0)
        *out = (tui_command){.what = TUI_CLICK, .n = a, .n2 = b};
    else
        return false;
    return true;
}

static kvt_code parse_value(tui_command *out, int i, const char *value, kvt_err *err)
{
    if (strlen(value) >= sizeof out->text)
        return kvt_fail(err, KVT_USAGE, "%s: too long", words[i].word);
    *out = (tui_command){.what = words[i].what};
    snprintf(out->text, sizeof out->text, "%s", value);
    if (!words[i].is_number)
        return KVT_OK;
    char *end;
    out->n = strtoll(value, &end, 10);
    if (*end || end == value || out->n < 0)
        return kvt_fail(err, KVT_USAGE, "%s: '%.40s' is not a whole number from 0",
                        words[i].word, value);
    out->text[0] = 0;
    return KVT_OK;
}

kvt_code tui_command_parse(tui_command *out, const char *text, kvt_err *err)
{
    static const struct {
        const char *name;
        tui_do what;
    } also[] = {{"q", TUI_BACK}, {"q!", TUI_QUIT}, {"open", TUI_ENTER}};
    while (*text == ' ')
        text++;
    *out = (tui_command){.what = TUI_NOTHING};
    if (!*text)
        return KVT_OK;
    for (int i = 0; i < TUI_KEY_COUNT; i++)
        if (strcmp(infos[i].name, text) == 0) {
            out->what = (tui_do)i;
            return KVT_OK;
        }
    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++)
        if (strcmp(also[i].name, text) == 0) {
            out->what = also[i].what;
            return KVT_OK;
        }
    if (parse_lane(out, text) || parse_pair(out, text))
        return KVT_OK;
    size_t n = strcspn(text, " ");
    for (int i = 0; i < N_WORD; i++)
        if (strlen(words[i].word) == n && memcmp(words[i].word, text, n) == 0)
            return parse_value(out, i, text + n + strspn(text + n, " "), err);
    return unknown(text, err);
}

void tui_command_print(const tui_command *c, char *out, size_t cap)
{
    out[0] = 0;
    if (c->what < TUI_KEY_COUNT)
        snprintf(out, cap, "%s", infos[c->what].name);
    else if (c->what == TUI_TO_LANE)
        snprintf(out, cap, "L%lldG%lld", (long long)c->n, (long long)c->n2);
    else if (c->what == TUI_RESIZE)
        snprintf(out, cap, "resize %lldx%lld", (long long)c->n, (long long)c->n2);
    else if (c->what == TUI_CLICK)
        snprintf(out, cap, "click %lld:%lld", (long long)c->n, (long long)c->n2);
    for (int i = 0; i < N_WORD; i++) {
        if (words[i].what != c->what)
            continue;
        if (words[i].is_number)
            snprintf(out, cap, "%s %lld", words[i].word, (long long)c->n);
        else
            snprintf(out, cap, "%s %s", words[i].word, c->text);
    }
}
