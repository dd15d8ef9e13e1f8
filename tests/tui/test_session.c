/* The state machine of the browser as a whole: thousands of random commands keep it whole,
 * every key does or says something on every screen, a log leads to the same picture again, and
 * memory may run out anywhere. */
#include "tests/tui/drive.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "kvt/arena.h"
#include "tui/layout.h"

static const tui_file files[] = {
    {.path = "a.h5", .name = "a", .n_layer = 3},
    {.path = "b.h5", .name = "b", .problem = "b.h5: file is cut short"},
    {.path = "c%n.h5", .name = "c%n", .n_layer = 30},
};

/* ---- what always holds ------------------------------------------------------------------- */

static void check_rows(const grid *g)
{
    for (int y = 0; y < g->height; y++)
        for (int x = 0; x < g->width; x++) {
            const grid_cell *c = &g->cell[(int64_t)y * g->width + x];
            assert_true(c->cp[0] >= 0x20 || c->cp[0] == 0);
            assert_true(c->cp[0] != 0 || x > 0); /* the right half of something */
            assert_true(c->style < GRID_STYLE_COUNT);
        }
}

static void draw(const tui_model *m, buf *out)
{
    kvt_err err;
    grid g;
    CHECK_OK(grid_init(&g, m->width, m->height, m->ascii, &err), &err);
    tui_draw(m, &g);
    check_rows(&g);
    if (out)
        grid_dump(&g, out, true);
    grid_fini(&g);
}

static void check(const tui_model *m)
{
    const tui_data *d = m->data;
    assert_in_range(m->depth, 1, TUI_STACK);
    for (int i = 0; i < m->depth; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(m->stack[i], m->stack[k]);
    assert_non_null(memchr(m->message, 0, sizeof m->message));
    assert_non_null(memchr(m->input, 0, sizeof m->input));
    if (!d)
        return;
    assert_true(m->token >= 0 && m->token < d->n_token);
    assert_true(m->step >= 0 && (m->step < d->n_response || m->step == 0));
    assert_true(m->policy >= 0 && (m->policy < d->n_policy || d->n_policy == 0));
    assert_true(m->budget >= 0 && (m->budget < d->n_budget || d->n_budget == 0));
    assert_true(!m->n_match || m->search[0]);
    if (m->text.n_line && tui_fits(m)) {
        int64_t line = flow_line_of(&m->text, m->token);
        assert_true(m->top >= 0 && line >= m->top && line < m->top + layout_lines(m));
    }
    if (!m->r) {
        assert_null(m->view.r);
        return;
    }
    assert_true(tui_data_shows(m->r, m->cell));
    assert_true(m->layer >= 0 && m->layer < m->r->n_layer);
    assert_true(m->lane >= 0 && m->lane < m->r->n_lane);
    assert_int_equal(m->n_order, m->r->n_layer * m->r->n_lane);
    assert_ptr_equal(m->view.r, m->r);
    assert_int_equal(m->view.layer, m->layer);
    assert_int_equal(m->view.lane, m->lane);
    assert_int_equal(m->view.step, m->step);
    int64_t regretted = 0;
    for (int64_t t = 0; t < d->n_token; t++)
        regretted += m->view.regretted[t];
    assert_int_equal(regretted, m->view.sum.regretted);
}

static void random_command(tui_model *m, uint64_t rng[RNG_WORDS])
{
    static const char *const texts[] = {
        "step 3",        "step 999999",  "token 0",       "token 20",     "token 99999",
        "budget 25%",    "budget 7",     "policy h2o",    "policy xyz",   "policy window",
        "L1G0",          "L999G9",       "find the",      "find [",       "find zzz",
        "find .",        "metric kl",    "metric x",      "click 5:12",   "click 0:0",
        "click 29:99",   "resize 80x24", "resize 60x15",  "resize 40x10", "resize 36x8",
        "resize 200x60", "resize 1x1",   "resize 100x30", "lane",         "policy tova"};
    tui_command c;
    kvt_err err;
    double dice = rng_real(rng);
    if (dice < 0.6) {
        c = (tui_command){.what = (tui_do)(rng_real(rng) * TUI_KEY_COUNT)};
        tui_update(m, &c);
    } else if (dice < 0.85) {
        const char *text = texts[(int)(rng_real(rng) * CHECK_COUNT(texts))];
        CHECK_OK(tui_command_parse(&c, text, &err), &err);
        tui_update(m, &c);
    } else if (dice < 0.95) {
        tui_key_pressed(m, 0x20 + (int)(rng_real(rng) * 0x60));
    } else {
        tui_key_pressed(m, TUI_KEY_UP + (int)(rng_real(rng) * 12));
    }
    m->want = TUI_WANT_NOTHING;
}

static void random_commands_keep_it_whole(void **state)
{
    const struct world *w = *state;
    hand *h = hand_new(&w->spec);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        uint64_t rng[RNG_WORDS];
        tui_model m;
        tui_start s = anywhere;
        s.ascii = seed % 2;
        s.colour = seed > 2;
        s.file = files;
        s.n_file = seed == 3 ? 3 : 1;
        rng_init(rng, &seed, sizeof seed);
        begin(&m, h, &s);
        for (int i = 0; i < 700; i++) {
            random_command(&m, rng);
            check(&m);
            if (i % 7 == 0)
                draw(&m, NULL);
        }
        tui_model_fini(&m);
    }
    hand_free(h);
}

/* ---- keys -------------------------------------------------------------------------------- */

static const char *const places[] = {"overview", "lane", "card", "help", "traces"};

static void go(tui_model *m, const char *place)
{
    say(m, strcmp(place, "card") == 0 ? "lane" : place);
    if (strcmp(place, "card") == 0)
        say(m, "into");
    m->message[0] = 0;
}

/* Each key on each screen: the picture or the state changes, or there are words. */
static void every_key_acts_or_explains(void **state)
{
    const struct world *w = *state;
    hand *h = hand_new(&w->spec);
    for (int p = 0; p < CHECK_COUNT(places); p++)
        for (int i = 0; i < TUI_KEY_COUNT; i++) {
            tui_model m;
            buf before, after;
            tui_start s = anywhere;
            s.file = files;
            s.n_file = 3;
            begin(&m, h, &s);
            go(&m, places[p]);
            buf_init(&before, 1 << 22);
            buf_init(&after, 1 << 22);
            draw(&m, &before);
            tui_update(&m, &(tui_command){.what = (tui_do)i});
            check(&m);
            draw(&m, &after);
            if (strcmp(buf_get(&before), buf_get(&after)) == 0 && !m.message[0] && !m.want)
                fail_msg("%s on %s: nothing happened and nothing was said", tui_keys()[i].name,
                         places[p]);
            buf_fini(&before);
            buf_fini(&after);
            tui_model_fini(&m);
        }
    hand_free(h);
}

static void a_log_leads_to_the_same_picture(void **state)
{
    const struct world *w = *state;
    hand *h = hand_new(&w->spec);
    uint64_t rng[RNG_WORDS];
    tui_model a, b;
    buf want, got;
    kvt_err err;
    rng_init(rng, "log", 3);
    begin(&a, h, &anywhere);
    for (int i = 0; i < 300; i++)
        random_command(&a, rng);
    a.input_kind = 0;
    begin(&b, h, &anywhere);
    char *text = kvt_copy_text(buf_get(&a.log));
    assert_non_null(text);
    for (char *line = text, *end; *line; line = end + 1) {
        tui_command c;
        end = strchr(line, '\n');
        *end = 0;
        CHECK_OK(tui_command_parse(&c, line, &err), &err);
        tui_update(&b, &c);
        b.want = TUI_WANT_NOTHING;
    }
    a.message[0] = b.message[0] = 0;
    buf_init(&want, 1 << 22);
    buf_init(&got, 1 << 22);
    draw(&a, &want);
    draw(&b, &got);
    assert_string_equal(buf_get(&got), buf_get(&want));
    buf_fini(&want);
    buf_fini(&got);
    kvt_free(text);
    tui_model_fini(&a);
    tui_model_fini(&b);
    hand_free(h);
}

/* The n-th allocation fails, for each n: an error or a message, nothing else. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char *const session[] = {"lane", "find the", "policy snapkv", "layer +1",
                                          "resize 60x15"};
    hand *h = hand_new(&worlds[HOSTILE].spec);
    for (int64_t n = 1; n < 500; n++) {
        kvt_err err = {0};
        tui_model m;
        tui_command c;
        grid g;
        CHECK_OK(grid_init(&g, 60, 15, false, &err), &err);
        kvt_alloc_fail_at(n, false);
        kvt_code code = tui_model_init(&m, hand_data(h), &anywhere, &err);
        if (!code)
            tui_resize(&m, 100, 30);
        for (int i = 0; !code && i < CHECK_COUNT(session); i++)
            if (!tui_command_parse(&c, session[i], &err))
                tui_update(&m, &c);
        bool done = !code && kvt_alloc_count() < n;
        kvt_alloc_fail_at(0, false);
        if (!code)
            tui_draw(&m, &g);
        else
            assert_int_equal(code, KVT_NOMEM);
        tui_model_fini(&m);
        grid_fini(&g);
        if (done) {
            hand_free(h);
            return;
        }
    }
    fail_msg("still failing after 500 allocations");
}

int main(void)
{
    struct CMUnitTest tests[40];
    int n = 0;
    if (!setlocale(LC_ALL, "C.UTF-8"))
        return CHECK_SKIP;
    CHECK_ROWS(tests, &n, worlds, random_commands_keep_it_whole);
    CHECK_ROWS(tests, &n, worlds, every_key_acts_or_explains);
    CHECK_ROWS(tests, &n, worlds, a_log_leads_to_the_same_picture);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(memory_may_run_out);
    return CHECK_RUN("session", tests, n);
}
