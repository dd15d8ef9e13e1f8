/* The back end on a null device with a fixed TERM: what curses holds is the grid; and the
 * colours of the palette by arithmetic. */
#include "tests/check.h"
#include "tests/tui/hand.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "kvt/arena.h"
#include "tui/model.h"
#include "tui/term/palette.h"
#include "tui/term/term.h"

/* ---- curses ------------------------------------------------------------------------------ */

static const struct terminal {
    const char *name;
    int colours; /* that are used */
} terminals[] = {
    {"xterm-256color", 256}, {"xterm-16color", 16}, {"linux", 8}, {"xterm", 8}, {"vt100", 0}};

/* Rows as curses holds them, without the cells that it leaves to the second pass. */
static void check_row(const term *t, const grid *g, int y)
{
    char row[8192];
    term_row(t, y, row, sizeof row);
    const char *at = row;
    for (int x = 0; x < g->width; x++) {
        const grid_cell *c = &g->cell[(int64_t)y * g->width + x];
        uint32_t got;
        int n = text_decode(&got, (const uint8_t *)at, strlen(at));
        uint32_t want = c->cp[0] ? c->cp[0] : ' ';
        if (!n || (got != want && got != '?'))
            fail_msg("row %d column %d: expected U+%04X, curses has U+%04X", y, x, want,
                     n ? got : 0);
        at += n;
    }
}

static void curses_holds_the_grid(void **state)
{
    const struct terminal *x = *state;
    hand_spec spec = {.n_layer = 4, .n_kv_head = 2, .n_head = 4, .hostile = true};
    static const char *const screens[] = {"overview", "lane", "help"};
    hand *h = hand_new(&spec);
    FILE *in = fopen("/dev/null", "r"), *out = fopen("/dev/null", "w");
    term *t;
    kvt_err err;
    assert_true(in && out);
    CHECK_OK(term_open_on(&t, x->name, in, out, 100, 30, &err), &err);
    assert_int_equal(term_colours(t), x->colours);
    for (int i = 0; i < CHECK_COUNT(screens); i++) {
        tui_model m;
        grid g;
        tui_command c;
        tui_start s = {
            .layer = -1, .lane = -1, .step = -1, .token = 140, .colour = x->colours > 0};
        CHECK_OK(tui_model_init(&m, hand_data(h), &s, &err), &err);
        tui_resize(&m, 100, 30);
        CHECK_OK(tui_command_parse(&c, screens[i], &err), &err);
        tui_update(&m, &c);
        CHECK_OK(grid_init(&g, 100, 30, false, &err), &err);
        tui_draw(&m, &g);
        term_show(t, &g);
        for (int y = 0; y < 30; y++)
            check_row(t, &g, y);
        grid_fini(&g);
        tui_model_fini(&m);
    }
    term_close(t);
    fclose(in);
    fclose(out);
    hand_free(h);
}

static void unknown_terminals_are_refused(void **state)
{
    (void)state;
    FILE *in = fopen("/dev/null", "r"), *out = fopen("/dev/null", "w");
    term *t;
    kvt_err err;
    CHECK_FAILS(term_open_on(&t, "no-such-terminal", in, out, 80, 24, &err), KVT_USAGE,
                "no description of terminal no-such-terminal", &err);
    CHECK_FAILS(term_open_on(&t, "dumb", in, out, 80, 24, &err), KVT_USAGE,
                "cannot place a cursor", &err);
    assert_null(t);
    fclose(in);
    fclose(out);
}

/* ---- palette ----------------------------------------------------------------------------- */

/* Colours of xterm's 256: a cube of 6 x 6 x 6 from 16 on, greys from 232 on. */
static void rgb_of(int index, double out[3])
{
    static const int cube[] = {0, 95, 135, 175, 215, 255};
    if (index >= 232) {
        out[0] = out[1] = out[2] = (8 + 10 * (index - 232)) / 255.0;
        return;
    }
    index -= 16;
    out[0] = cube[index / 36] / 255.0;
    out[1] = cube[index / 6 % 6] / 255.0;
    out[2] = cube[index % 6] / 255.0;
}

static double linear(double c)
{
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

/* Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB. */
static const double vision[4][3][3] = {
    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
    {{0.152286, 1.052583, -0.204868},
     {0.114503, 0.786281, 0.099216},
     {-0.003882, -0.048116, 1.051998}},
    {{0.367322, 0.860646, -0.227968},
     {0.280085, 0.672501, 0.047413},
     {-0.011820, 0.042940, 0.968881}},
    {{1.255528, -0.076749, -0.178779},
     {-0.078411, 0.930809, 0.147602},
     {0.004733, 0.691367, 0.303900}},
};

/* CIE 1976 L*a*b*, D65, of a colour as it is seen. */
static void lab_of(int index, int eyes, double lab[3])
{
    static const double xyz[3][3] = {{0.4124564, 0.3575761, 0.1804375},
                                     {0.2126729, 0.7151522, 0.0721750},
                                     {0.0193339, 0.1191920, 0.9503041}};
    static const double white[3] = {0.95047, 1.0, 1.08883};
    double rgb[3], seen[3], f[3];
    rgb_of(index, rgb);
    for (int i = 0; i < 3; i++) {
        seen[i] = 0;
        for (int k = 0; k < 3; k++)
            seen[i] += vision[eyes][i][k] * linear(rgb[k]);
        seen[i] = fmin(fmax(seen[i], 0), 1);
    }
    for (int i = 0; i < 3; i++) {
        double v = 0;
        for (int k = 0; k < 3; k++)
            v += xyz[i][k] * seen[k];
        v /= white[i];
        f[i] = v > 216.0 / 24389 ? cbrt(v) : (24389.0 / 27 * v + 16) / 116;
    }
    lab[0] = 116 * f[1] - 16;
    lab[1] = 500 * (f[0] - f[1]);
    lab[2] = 200 * (f[1] - f[2]);
}

static double distance(int a, int b)
{
    double least = 1e9;
    for (int eyes = 0; eyes < 4; eyes++) {
        double x[3], y[3], d = 0;
        lab_of(a, eyes, x);
        lab_of(b, eyes, y);
        for (int i = 0; i < 3; i++)
            d += (x[i] - y[i]) * (x[i] - y[i]);
        least = fmin(least, sqrt(d));
    }
    return least;
}

static double luminance(int index)
{
    double rgb[3];
    rgb_of(index, rgb);
    return 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
}

static double contrast(int a, int b)
{
    double x = luminance(a), y = luminance(b);
    return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

/* Floors of the page of the terminal: 12 between neighbours of the ramp, 30 between states, 4.5
 * : 1 for text on a background of our own. */
static void colours_are_told_apart(void **state)
{
    (void)state;
    const palette_entry *p = palette_of(256);
    /* The known bad pair, as a check of the arithmetic: red against green, 10 for deuteranopes.
     */
    CHECK_NEAR(distance(160, 34), 10, 2);
    for (int i = 0; i + 1 < 10; i++) {
        const palette_entry *a = &p[GRID_HEAT_0 + i], *b = &p[GRID_HEAT_0 + i + 1];
        double la[3], lb[3];
        assert_true(contrast(a->fg, a->bg) >= 4.5 && contrast(b->fg, b->bg) >= 4.5);
        if (a->bg == b->bg)
            continue;
        if (distance(a->bg, b->bg) < 12)
            fail_msg("ramp %d to %d: distance %.1f", i, i + 1, distance(a->bg, b->bg));
        lab_of(a->bg, 0, la);
        lab_of(b->bg, 0, lb);
        assert_true(lb[0] > la[0]); /* lightness rises */
    }
    const int kept = 231, gone = p[GRID_HARMLESS].fg, lost = p[GRID_SHOULD].bg,
              vain = p[GRID_VAIN].fg;
    assert_true(distance(kept, gone) >= 30);
    assert_true(distance(lost, vain) >= 30);
    assert_true(distance(gone, vain) >= 30);
    assert_true(distance(kept, lost) >= 30);
    assert_true(contrast(p[GRID_SHOULD].fg, p[GRID_SHOULD].bg) >= 4.5);
}

/* C065: without colours what must not be missed has an attribute, and the selection shows on
 * it. */
static void roles_without_colours(void **state)
{
    (void)state;
    static const int colours[] = {0, 8, 16, 256};
    for (int i = 0; i < CHECK_COUNT(colours); i++) {
        const palette_entry *p = palette_of(colours[i]);
        for (int s = 0; s < GRID_STYLE_COUNT; s++) {
            assert_int_not_equal(palette_selected(p[s].attributes), p[s].attributes);
            assert_true(p[s].bg == PALETTE_DEFAULT || p[s].fg != PALETTE_DEFAULT);
            assert_true(p[s].fg < (colours[i] ? colours[i] : 1));
        }
    }
    const palette_entry *p = palette_of(0);
    assert_true(p[GRID_SHOULD].attributes && p[GRID_NOW].attributes &&
                p[GRID_VAIN].attributes && p[GRID_PINNED].attributes);
    assert_int_not_equal(p[GRID_SHOULD].attributes, p[GRID_NOW].attributes);
}

int main(void)
{
    struct CMUnitTest tests[20];
    int n = 0;
    if (!setlocale(LC_ALL, "C.UTF-8"))
        return CHECK_SKIP;
    CHECK_ROWS(tests, &n, terminals, curses_holds_the_grid);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(unknown_terminals_are_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(colours_are_told_apart);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(roles_without_colours);
    return CHECK_RUN("term", tests, n);
}
