/* The state machine of the browser: thousands of random commands keep it whole, every key does
 * or says something on every screen, and a log leads to the same picture again. */
#include "tests/check.h"
#include "tests/tui/hand.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "kvt/arena.h"
#include "tui/layout.h"
#include "tui/model.h"

static const struct world {
    const char *name;
    hand_spec spec;
} worlds[] = {
    {"plain", {.n_layer = 4, .n_kv_head = 3, .n_head = 9}},
    {"many heads", {.n_layer = 3, .n_kv_head = 40, .n_head = 40}},
    {"many layers", {.n_layer = 70, .n_kv_head = 1, .n_head = 2}},
    {"no oracle", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_oracle = true}},
    {"no rows", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_rows = true}},
    {"no text", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_text = true}},
    {"no response", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_response = true}},
    {"no results", {.n_layer = 2, .n_kv_head = 2, .n_head = 2, .no_results = true}},
    {"hostile", {.n_layer = 2, .n_kv_head = 2, .n_head = 4, .hostile = true}},
};

static const tui_file files[] = {
    {.path = "a.h5", .name = "a", .n_layer = 3},
    {.path = "b.h5", .name = "b", .problem = "b.h5: file is cut short"},
    {.path = "c%n.h5", .name = "c%n", .n_layer = 30},
};

static const tui_start anywhere = {
    .layer = -1, .lane = -1, .step = -1, .token = -1, .colour = true};

static void begin(tui_model *m, hand *h, const tui_start *start)
{
    kvt_err err;
    CHECK_OK(tui_model_init(m, h ? hand_data(h) : NULL, start, &err), &err);
    tui_resize(m, 100, 30);
}

static void say(tui_model *m, const char *text)
{
    kvt_err err;
    tui_command c;
    CHECK_OK(tui_command_parse(&c, text, &err), &err);
    tui_update(m, &c);
}

/* ---- what always holds ---------------------------------------------------------------------
 */

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

/* ---- keys ----------------------------------------------------------------------------------
 */

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

static void keys_are_told_apart(void **state)
{
    (void)state;
    for (int i = 0; i < TUI_KEY_COUNT; i++) {
        const tui_key_info *k = &tui_keys()[i];
        kvt_err err;
        tui_command c;
        char text[TUI_TEXT_MAX];
        assert_true(k->help[0] && k->group[0] && k->name[0]);
        for (const char *at = k->keys; *at;) {
            size_t n = strcspn(at, " ");
            int key = tui_key_read(at, n);
            if (key < 0 || tui_key_command(key) != (tui_do)i)
                fail_msg("key '%.*s' of '%s' is unknown or another's", (int)n, at, k->name);
            at += n + (at[n] == ' ');
        }
        /* A name parses to its command and is printed back. */
        CHECK_OK(tui_command_parse(&c, k->name, &err), &err);
        assert_int_equal(c.what, i);
        tui_command_print(&c, text, sizeof text);
        assert_string_equal(text, k->name);
    }
}

static const struct command_row {
    const char *in, *out; /* out NULL: refused */
    const char *says;
} commands[] = {
    {"step 12", "step 12", NULL},
    {"  token 5", "token 5", NULL},
    {"L13G2", "L13G2", NULL},
    {"lane 13:2", "L13G2", NULL},
    {"L13 G2", "L13G2", NULL},
    {"policy snapkv:window=8", "policy snapkv:window=8", NULL},
    {"budget 10%", "budget 10%", NULL},
    {"find  a b", "find a b", NULL},
    {"resize 80x24", "resize 80x24", NULL},
    {"q", "back", NULL},
    {"step x", NULL, "is not a whole number"},
    {"step -3", NULL, "is not a whole number"},
    {"stpe 3", NULL, "did you mean 'step'"},
    {"frobnicate", NULL, "no command"},
    {"%s%n", NULL, "no command '%s%n'"},
};

static void command_is_read(void **state)
{
    const struct command_row *r = *state;
    kvt_err err;
    tui_command c;
    char text[TUI_TEXT_MAX + 16];
    if (!r->out) {
        CHECK_FAILS(tui_command_parse(&c, r->in, &err), KVT_USAGE, r->says, &err);
        return;
    }
    CHECK_OK(tui_command_parse(&c, r->in, &err), &err);
    tui_command_print(&c, text, sizeof text);
    assert_string_equal(text, r->out);
}

/* ---- single rules --------------------------------------------------------------------------
 */

static void opens_on_the_worst_lane(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[0].spec);
    tui_model m;
    begin(&m, h, &anywhere);
    double worst = tui_lane_value(m.r, m.cell, m.layer, m.lane, TUI_REGRET);
    for (int a = 0; a < m.r->n_layer * m.r->n_lane; a++)
        assert_true(tui_lane_value(m.r, m.cell, 0, a, TUI_REGRET) <= worst);
    for (int64_t s = 0; s < m.data->n_response; s++)
        assert_true(m.view.lost[s] <= m.view.lost[m.step]);
    assert_int_equal(tui_at(&m), TUI_ON_overview);
    assert_int_equal(m.token, m.view.top_regret);
    tui_model_fini(&m);
    /* Without an oracle, by loss. */
    hand_free(h);
    h = hand_new(&worlds[3].spec);
    begin(&m, h, &anywhere);
    assert_true(m.by_loss);
    worst = tui_lane_value(m.r, m.cell, m.layer, m.lane, TUI_LOST);
    for (int a = 0; a < m.r->n_layer * m.r->n_lane; a++)
        assert_true(tui_lane_value(m.r, m.cell, 0, a, TUI_LOST) <= worst);
    tui_model_fini(&m);
    hand_free(h);
}

/* The marks of a lane against their definition, by plain loops: of the evicted tokens that the
 * oracle keeps, those with most attention still to come, until 90 % of the regret is carried.
 */
static void regret_is_what_it_says(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[0].spec);
    tui_model m;
    begin(&m, h, &anywhere);
    const lane_view *v = &m.view;
    double all = 0, carried = 0, least = 1e9, most_left = 0;
    for (int64_t t = 0; t < v->n_token; t++) {
        double mass = 0;
        for (int64_t s = v->evict[t] > 0 ? v->evict[t] : 0; s < v->n_response; s++)
            mass += hand_attention(h, m.layer, m.lane, s, t);
        CHECK_NEAR(v->mass[t], mass, 1e-9 * (1 + mass));
        bool missing = v->evict[t] >= 0 && v->judged[t] == 1;
        bool vain = v->evict[t] < 0 && v->judged[t] == 0;
        all += missing ? mass : vain ? -mass : 0;
        carried += v->regretted[t] ? mass : 0;
        assert_true(!v->regretted[t] || missing);
        if (v->regretted[t] && mass < least)
            least = mass;
        if (missing && !v->regretted[t] && mass > most_left)
            most_left = mass;
    }
    assert_true(v->sum.regretted > 0);
    assert_true(carried >= 0.9 * all - 1e-9);
    assert_true(carried - least < 0.9 * all); /* none of them could be left out */
    assert_true(most_left <= least + 1e-12);
    tui_model_fini(&m);
    hand_free(h);
}

static void context_stays_and_esc_returns(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[0].spec);
    tui_model m;
    begin(&m, h, &anywhere);
    int layer = m.layer, lane = m.lane;
    int64_t step = m.step;
    say(&m, "into");
    assert_int_equal(tui_at(&m), TUI_ON_lane);
    say(&m, "policy snapkv");
    say(&m, "help");
    say(&m, "out");
    assert_int_equal(tui_at(&m), TUI_ON_lane);
    say(&m, "find liab");
    assert_true(m.n_match > 2);
    int64_t first = m.token;
    say(&m, "next");
    assert_true(m.token > first);
    say(&m, "out"); /* ends the search */
    assert_int_equal(tui_at(&m), TUI_ON_lane);
    assert_int_equal(m.n_match, 0);
    say(&m, "out");
    assert_int_equal(tui_at(&m), TUI_ON_overview);
    assert_int_equal(m.layer, layer);
    assert_int_equal(m.lane, lane);
    assert_int_equal(m.step, step);
    say(&m, "back");
    assert_int_equal(m.want, TUI_WANT_QUIT);
    tui_model_fini(&m);
    hand_free(h);
}

static void missing_results_are_asked_for(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[0].spec);
    tui_model m;
    begin(&m, h, &anywhere);
    say(&m, "policy pyramidkv");
    assert_non_null(strstr(m.message, "R computes it"));
    assert_non_null(m.r); /* what was seen stays */
    say(&m, "run");
    assert_int_equal(m.want, TUI_WANT_RUN);
    assert_string_equal(m.asked_policy, "pyramidkv");
    assert_string_equal(m.asked_budget, "10%");
    m.want = TUI_WANT_NOTHING;
    tui_model_fini(&m);
    begin(&m, h, &anywhere);
    say(&m, "run");
    assert_int_equal(m.want, TUI_WANT_NOTHING);
    assert_non_null(strstr(m.message, "is computed"));
    say(&m, "policy tova"); /* at 25 % only */
    assert_null(m.r);
    say(&m, "run");
    assert_int_equal(m.want, TUI_WANT_RUN);
    m.want = TUI_WANT_NOTHING;
    say(&m, "policy window");
    assert_non_null(strstr(m.message, "it protects 32 tokens"));
    say(&m, "budget +1");
    assert_non_null(m.r);
    tui_model_fini(&m);
    hand_free(h);
}

static void without_colours_markers_stay(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[0].spec);
    tui_model m;
    tui_start s = anywhere;
    s.colour = false;
    begin(&m, h, &s);
    say(&m, "markers");
    assert_true(m.markers);
    assert_true(m.message[0]);
    tui_model_fini(&m);
    begin(&m, h, &anywhere);
    say(&m, "markers");
    assert_false(m.markers);
    tui_model_fini(&m);
    hand_free(h);
}

static void keys(tui_model *m, const char *text)
{
    for (; *text; text++)
        tui_key_pressed(m, *text == '\n' ? TUI_KEY_ENTER : (unsigned char)*text);
}

static void lines_are_typed(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[0].spec);
    tui_model m;
    begin(&m, h, &anywhere);
    keys(&m, ":L2G1\n");
    assert_int_equal(m.layer, 2);
    assert_int_equal(m.lane, 1);
    keys(&m, ":step 4\n");
    assert_int_equal(m.step, 4);
    keys(&m, ":nonsense\n");
    assert_non_null(strstr(m.message, "no command"));
    keys(&m, "3/wilful\n");
    assert_int_equal(tui_at(&m), TUI_ON_lane);
    assert_true(m.n_match == 2);
    keys(&m, "/2,q");
    assert_int_equal(tui_at(&m), TUI_ON_lane); /* typed, not pressed */
    tui_key_pressed(&m, TUI_KEY_ESC);
    assert_int_equal(tui_at(&m), TUI_ON_lane);
    assert_int_equal(m.input_kind, 0);
    tui_model_fini(&m);
    hand_free(h);
}

static void a_resize_keeps_the_token_in_its_row(void **state)
{
    (void)state;
    hand_spec spec = worlds[0].spec;
    spec.repeat = 8;
    hand *h = hand_new(&spec);
    tui_model m;
    begin(&m, h, &anywhere);
    say(&m, "lane");
    say(&m, "token 400");
    int64_t row = flow_line_of(&m.text, m.token) - m.top;
    tui_resize(&m, 140, 30);
    assert_int_equal(m.token, 400);
    assert_int_equal(flow_line_of(&m.text, m.token) - m.top, row);
    tui_resize(&m, 36, 8);
    tui_resize(&m, 100, 30);
    assert_int_equal(m.token, 400);
    check(&m);
    tui_model_fini(&m);
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

static void the_command_that_makes_a_view(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[0].spec);
    tui_model m;
    char text[512];
    begin(&m, h, &anywhere);
    say(&m, "L1G2");
    say(&m, "step 3");
    say(&m, "token 7");
    say(&m, "lane");
    say(&m, "policy snapkv");
    tui_show_command(&m, text, sizeof text);
    assert_string_equal(text,
                        "kvt show traces/contract-07.h5 --screen lane --lane 1:2 -p snapkv "
                        "-b 10% --step 3 --token 7");
    tui_model_fini(&m);
    hand_free(h);
}

/* The n-th allocation fails, for each n: an error or a message, nothing else. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char *const session[] = {"lane", "find the", "policy snapkv", "layer +1",
                                          "resize 60x15"};
    hand *h = hand_new(&worlds[8].spec);
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
    struct CMUnitTest tests[80];
    int n = 0;
    if (!setlocale(LC_ALL, "C.UTF-8"))
        return CHECK_SKIP;
    CHECK_ROWS(tests, &n, worlds, random_commands_keep_it_whole);
    CHECK_ROWS(tests, &n, worlds, every_key_acts_or_explains);
    CHECK_ROWS(tests, &n, worlds, a_log_leads_to_the_same_picture);
    CHECK_ROWS(tests, &n, commands, command_is_read);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(keys_are_told_apart);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(opens_on_the_worst_lane);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(regret_is_what_it_says);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(context_stays_and_esc_returns);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(missing_results_are_asked_for);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(without_colours_markers_stay);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lines_are_typed);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_resize_keeps_the_token_in_its_row);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_command_that_makes_a_view);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(memory_may_run_out);
    return CHECK_RUN("model", tests, n);
}
