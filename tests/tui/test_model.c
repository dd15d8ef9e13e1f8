/* The state machine of the browser: keys and commands as text, and single rules. */
#include "tests/tui/drive.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "kvt/replay.h"

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

/* ---- single rules ------------------------------------------------------------------------ */

static void opens_on_the_worst_lane(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[PLAIN].spec);
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
    h = hand_new(&worlds[NO_ORACLE].spec);
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
    hand *h = hand_new(&worlds[PLAIN].spec);
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
    hand *h = hand_new(&worlds[PLAIN].spec);
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
    hand *h = hand_new(&worlds[PLAIN].spec);
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
    hand *h = hand_new(&worlds[PLAIN].spec);
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
    hand *h = hand_new(&worlds[PLAIN].spec);
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
    hand_spec spec = worlds[PLAIN].spec;
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
    tui_model_fini(&m);
    hand_free(h);
}

static void the_command_that_makes_a_view(void **state)
{
    (void)state;
    hand *h = hand_new(&worlds[PLAIN].spec);
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

/* Two settings of one policy are told apart by what has to be typed for them, and found by it.
 */
static void settings_have_names_of_their_own(void **state)
{
    (void)state;
    static const char *const uses[] = {"snapkv", "snapkv:window=8,pool=1", "tova"};
    kvt_err err;
    tui_data d = {.digest = "of-this-trace", .results = kvt_alloc(1, sizeof *d.results)};
    for (int i = 0; i < 3; i++) {
        kvt_result *r = kvt_result_new();
        kvt_use *use;
        CHECK_OK(kvt_use_parse(&use, NULL, uses[i], &err), &err);
        size_t name = strcspn(use->text, ":");
        r->n_cell = 1;
        r->cell = kvt_alloc(1, sizeof *r->cell);
        r->cell[0].seed = KVT_EMPTY_INT;
        snprintf(r->trace_digest, sizeof r->trace_digest, "%s", d.digest);
        snprintf(r->policy_text, sizeof r->policy_text, "%s", use->text);
        snprintf(r->cell[0].policy, sizeof r->cell[0].policy, "%.*s", (int)name, use->text);
        snprintf(r->cell[0].policy_params, sizeof r->cell[0].policy_params, "%s",
                 use->text + name + (use->text[name] == ':'));
        kvt_use_free(use);
        CHECK_OK(kvt_results_add(d.results, r, &err), &err);
    }
    tui_data_index(&d);
    assert_int_equal(d.n_policy, 3);
    assert_string_equal(d.policy[0].label, "snapkv");
    assert_string_equal(d.policy[1].label, "snapkv:window=8,pool=1");
    assert_string_equal(d.policy[2].label, "tova");
    for (int i = 0; i < 3; i++)
        assert_int_equal(tui_data_find_policy(&d, d.policy[i].label), i);
    tui_data_fini(&d);
}

int main(void)
{
    struct CMUnitTest tests[40];
    int n = 0;
    if (!setlocale(LC_ALL, "C.UTF-8"))
        return CHECK_SKIP;
    CHECK_ROWS(tests, &n, commands, command_is_read);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(keys_are_told_apart);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(settings_have_names_of_their_own);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(opens_on_the_worst_lane);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(regret_is_what_it_says);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(context_stays_and_esc_returns);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(missing_results_are_asked_for);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(without_colours_markers_stay);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lines_are_typed);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_resize_keeps_the_token_in_its_row);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_command_that_makes_a_view);
    return CHECK_RUN("model", tests, n);
}
