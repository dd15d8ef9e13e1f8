/* Screens as text, at every size and in both sets of characters: the files of tests/tui/screens
 * are what a person has read and found right, line by line, against the rules of the pages;
 * beside them the rules that can be computed are checked on every picture.
 *
 * test_tui_screens --update writes the files anew; what changed is then to be read again. */
#include "tests/check.h"
#include "tests/tui/hand.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/text.h"
#include "kvt/arena.h"
#include "tui/layout.h"
#include "tui/model.h"
#include "tui/show.h"

static bool updating;

static const struct size {
    int width, height;
} sizes[] = {{100, 30}, {80, 24}, {60, 15}, {40, 10}, {36, 8}, {200, 60}};

static const struct picture {
    const char *name;
    const char *command[4];
} pictures[] = {
    {"overview", {NULL}},
    {"overview-minus", {"policy snapkv", "minus", "metric regret"}},
    {"missing", {"policy window"}},
    {"lane", {"lane", "token 60"}},
    {"lane-first-step", {"lane", "policy snapkv", "step 0", "token 116"}},
    {"card", {"lane", "token 60", "into"}},
    {"help", {"help"}},
};

static const hand_spec contract = {.n_layer = 16, .n_kv_head = 3, .n_head = 9};

static void begin(tui_model *m, hand *h, bool ascii, int width, int height)
{
    kvt_err err;
    tui_start s = {.layer = -1, .lane = -1, .step = -1, .token = -1, .ascii = ascii};
    CHECK_OK(tui_model_init(m, hand_data(h), &s, &err), &err);
    tui_resize(m, width, height);
}

static void say(tui_model *m, const char *text)
{
    kvt_err err;
    tui_command c;
    CHECK_OK(tui_command_parse(&c, text, &err), &err);
    tui_update(m, &c);
}

/* ---- rules ------------------------------------------------------------------------------- */

static void check_lines(const char *text, int width, int height, bool ascii, const char *what)
{
    int n = 0;
    for (const char *at = text; *at; n++) {
        char line[4096];
        size_t len = strcspn(at, "\n");
        assert_true(len < sizeof line);
        memcpy(line, at, len);
        line[len] = 0;
        if (text_columns(line) > width)
            fail_msg("%s: line %d is %d columns wide, not %d", what, n + 1, text_columns(line),
                     width);
        if (!text_valid((const uint8_t *)line, len, NULL))
            fail_msg("%s: line %d is no UTF-8", what, n + 1);
        for (size_t i = 0; i < len; i++)
            if ((uint8_t)line[i] < 0x20 || (uint8_t)line[i] == 0x7f ||
                (ascii && (uint8_t)line[i] >= 0x80))
                fail_msg("%s: byte %02x in line %d", what, (uint8_t)line[i], n + 1);
        at += len + 1;
    }
    assert_int_equal(n, height);
}

/* Under every column of a token stands the letter of its state, and that is the state by its
 * definition. */
static void check_marks(const tui_model *m)
{
    kvt_err err;
    grid g;
    const lane_view *v = &m->view;
    lane_layout l = layout_lane(m);
    CHECK_OK(grid_init(&g, m->width, m->height, m->ascii, &err), &err);
    tui_draw(m, &g);
    for (int64_t p = m->text.line[m->top]; p < m->text.n_piece; p++) {
        const flow_piece *piece = &m->text.piece[p];
        int64_t line = m->top, t = piece->token;
        while (line + 1 < m->text.n_line && m->text.line[line + 1] <= p)
            line++;
        if (line >= m->top + layout_lines(m))
            break;
        int y = l.text_y + (int)(line - m->top) * 2 + 1, x = l.text_x + piece->column;
        char want = v->evict[t] < 0 || v->evict[t] > m->step ? (t > v->n_prompt + m->step ? ' '
                                                                : v->pinned[t]            ? '#'
                                                                : v->judged[t] == 0       ? '-'
                                                                                          : '=')
                    : v->evict[t] == m->step && m->step > 0  ? '<'
                    : v->regretted[t]                        ? '!'
                                                             : '.';
        for (int i = 0; i < piece->width && x + i < m->width; i++) {
            uint32_t got = g.cell[(int64_t)y * m->width + x + i].cp[0];
            if (got != (uint32_t)want)
                fail_msg("token %lld at step %lld: expected '%c', got '%c'", (long long)t,
                         (long long)m->step, want, (char)got);
        }
    }
    grid_fini(&g);
}

/* ---- pictures ---------------------------------------------------------------------------- */

static void compare(const char *text, const char *name)
{
    char path[1024];
    kvt_err err;
    buf want;
    snprintf(path, sizeof path, "%s/tests/tui/screens/%s.screen", KVT_SOURCE_DIR, name);
    if (updating) {
        CHECK_OK(file_write(path, text, strlen(text), &err), &err);
        return;
    }
    buf_init(&want, 1 << 20);
    CHECK_OK(file_read(&want, path, 1 << 20, &err), &err);
    if (strcmp(buf_get(&want), text) != 0)
        fail_msg("%s differs; it is\n%s", name, text);
    buf_fini(&want);
}

static void picture_is_right(void **state)
{
    const struct picture *p = *state;
    for (int i = 0; i < CHECK_COUNT(sizes); i++)
        for (int ascii = 0; ascii < 2; ascii++) {
            hand *h = hand_new(&contract);
            tui_model m;
            buf out;
            kvt_err err;
            char name[128];
            begin(&m, h, ascii, sizes[i].width, sizes[i].height);
            for (int c = 0; c < 4 && p->command[c]; c++)
                say(&m, p->command[c]);
            m.message[0] = 0;
            buf_init(&out, 1 << 20);
            CHECK_OK(tui_show_screen(&out, &m, &err), &err);
            snprintf(name, sizeof name, "%s-%dx%d-%s", p->name, sizes[i].width, sizes[i].height,
                     ascii ? "ascii" : "utf8");
            check_lines(buf_get(&out), sizes[i].width, sizes[i].height, ascii, name);
            /* The largest and the smallest say nothing new: only the rules are checked there.
             */
            bool small = sizes[i].width == 36 && strcmp(p->name, "overview") != 0;
            if (sizes[i].width != 200 && !small)
                compare(buf_get(&out), name);
            buf_fini(&out);
            tui_model_fini(&m);
            hand_free(h);
        }
}

static void marks_are_the_states(void **state)
{
    static const char *const policies[] = {"policy h2o", "policy snapkv", "policy oracle"};
    (void)state;
    for (int hostile = 0; hostile < 2; hostile++) {
        hand_spec spec = contract;
        spec.n_layer = 2;
        spec.hostile = hostile;
        hand *h = hand_new(&spec);
        for (int p = 0; p < CHECK_COUNT(policies); p++)
            for (int i = 0; i < CHECK_COUNT(sizes); i++) {
                tui_model m;
                begin(&m, h, false, sizes[i].width, sizes[i].height);
                if (!tui_fits(&m)) {
                    tui_model_fini(&m);
                    continue;
                }
                say(&m, "lane");
                say(&m, policies[p]);
                for (int s = 0; s < m.data->n_response; s += 5)
                    for (int64_t t = 0; t < m.data->n_token; t += 30) {
                        tui_select_step(&m, s);
                        tui_select_token(&m, t);
                        check_marks(&m);
                    }
                tui_model_fini(&m);
            }
        hand_free(h);
    }
}

static void states_differ_without_attributes(void **state)
{
    (void)state;
    for (int a = 0; a < MARK_COUNT; a++) {
        const mark_kind *k = mark_kind_of((mark)a);
        assert_true(k->letter >= 0x20 && k->letter < 0x7f && k->name[0] && k->help[0]);
        for (int b = 0; b < a; b++) {
            assert_int_not_equal(k->letter, mark_kind_of((mark)b)->letter);
            assert_string_not_equal(k->css, mark_kind_of((mark)b)->css);
        }
    }
    for (int i = 1; i < MARK_LEVELS; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(mark_ramp(i), mark_ramp(k));
}

static const struct state_row {
    const char *name;
    mark_facts facts;
    int64_t step;
    mark want;
} states[] = {
    {"not written", {.evict = -1, .judged = -1}, 3, MARK_UNWRITTEN},
    {"evicted now", {.evict = 3, .judged = 1, .written = true, .regretted = true}, 3, MARK_NOW},
    {"the prompt's end is no now",
     {.evict = 0, .judged = 0, .written = true},
     0,
     MARK_HARMLESS},
    {"regretted at once",
     {.evict = 0, .judged = 1, .written = true, .regretted = true},
     0,
     MARK_SHOULD},
    {"not yet evicted",
     {.evict = 4, .judged = 1, .written = true, .regretted = true},
     3,
     MARK_KEPT},
    {"pinned", {.evict = -1, .judged = 0, .written = true, .pinned = true}, 3, MARK_PINNED},
    {"in vain", {.evict = -1, .judged = 0, .written = true}, 3, MARK_VAIN},
    {"no judge", {.evict = -1, .judged = -1, .written = true}, 3, MARK_KEPT},
    {"pinned, then gone",
     {.evict = 2, .judged = 1, .written = true, .pinned = true},
     3,
     MARK_HARMLESS},
};

static void state_is_told(void **state)
{
    const struct state_row *r = *state;
    assert_int_equal(mark_of(&r->facts, r->step), r->want);
}

static void levels_are_tenths(void **state)
{
    (void)state;
    assert_int_equal(mark_level(0), 0);
    assert_int_equal(mark_level(0.3), 3); /* 0.3 * 10 is 2.9999... in doubles */
    assert_int_equal(mark_level(0.99), 9);
    assert_int_equal(mark_level(1), 9);
    assert_int_equal(mark_level(-0.5), 0);
    assert_int_equal(mark_level((double)NAN), -1);
    assert_int_equal(mark_level_root(0.09), 3);
    assert_int_equal(mark_level_root(0.0899), 2);
    assert_int_equal(mark_level_root((double)NAN), -1);
}

/* C045, C063: joined, cut and odd characters; every token has its place, none is wider than the
 * window, and what a token holds is never lost from its line. */
static void text_flows(void **state)
{
    static const int widths[] = {1, 2, 3, 7, 38, 90, 300};
    (void)state;
    hand_spec spec = contract;
    spec.hostile = true;
    hand *h = hand_new(&spec);
    for (int ascii = 0; ascii < 2; ascii++)
        for (int i = 0; i < CHECK_COUNT(widths); i++) {
            flow f = {0};
            kvt_err err;
            const tui_data *d = hand_data(h);
            CHECK_OK(flow_make(&f, d, widths[i], ascii, &err), &err);
            for (int64_t t = 0; t < d->n_token; t++) {
                assert_true(f.first[t] < f.first[t + 1]);
                assert_int_equal(f.piece[f.first[t]].token, t);
            }
            for (int64_t l = 0; l < f.n_line; l++) {
                int column = 0;
                for (int64_t p = f.line[l]; p < f.line[l + 1]; p++) {
                    assert_int_equal(f.piece[p].column, column);
                    assert_true(f.piece[p].width >= 1);
                    column += f.piece[p].width;
                    bool last = p + 1 == f.line[l + 1];
                    assert_true(column <= widths[i] ||
                                (f.piece[p].newline && column == widths[i] + 1));
                    assert_true(!f.piece[p].newline || last);
                }
            }
            flow_fini(&f);
        }
    hand_free(h);
}

/* What kvt show --tokens prints. */
static void tokens_as_text(void **state)
{
    (void)state;
    hand *h = hand_new(&contract);
    tui_model m;
    buf out;
    kvt_err err;
    begin(&m, h, true, 80, 24);
    say(&m, "policy snapkv");
    say(&m, "L0G0");
    say(&m, "step 2");
    buf_init(&out, 1 << 20);
    CHECK_OK(tui_show_tokens(&out, &m, 15, 17, true, &err), &err);
    /* "You are given a supply contract." are 7 tokens, " Answer ... only.\n" 8: "4" is the
     * 16th. */
    assert_non_null(strstr(buf_get(&out), "L00 G0  snapkv (exact)  10%  step 2/21  lost 0."));
    assert_non_null(strstr(buf_get(&out), "   15 |4. Liability\n      |"));
    CHECK_FAILS(tui_show_tokens(&out, &m, 5, 9999, true, &err), KVT_USAGE, "tokens 0 to", &err);
    CHECK_FAILS(tui_show_tokens(&out, &m, 9, 5, true, &err), KVT_USAGE, "--tokens 9-5", &err);
    buf_fini(&out);
    tui_model_fini(&m);
    hand_free(h);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[40];
    int n = 0;
    updating = argc > 1 && strcmp(argv[1], "--update") == 0;
    if (!setlocale(LC_ALL, "C.UTF-8"))
        return CHECK_SKIP;
    CHECK_ROWS(tests, &n, pictures, picture_is_right);
    CHECK_ROWS(tests, &n, states, state_is_told);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(levels_are_tenths);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(marks_are_the_states);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(states_differ_without_attributes);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(text_flows);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(tokens_as_text);
    return CHECK_RUN("screens", tests, n);
}
