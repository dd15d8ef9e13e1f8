/* test_grid.c - the buffer of terminal cells. */
#include "tests/check.h"

#include "base/grid.h"
#include "base/rng.h"
#include "base/text.h"
#include "kvt/arena.h"

#include <locale.h>
#include <stdio.h>

static grid new_grid(int width, int height, bool ascii)
{
    kvt_err err;
    grid g;
    CHECK_OK(grid_init(&g, width, height, ascii, &err), &err);
    return g;
}

static void expect_dump(const grid *g, bool attributes, const char *want)
{
    buf b;
    buf_init(&b, 100000);
    grid_dump(g, &b, attributes);
    assert_string_equal(buf_get(&b), want);
    buf_fini(&b);
}

static void text_is_drawn_and_cut(void **state)
{
    (void)state;
    grid g = new_grid(10, 3, false);
    assert_int_equal(grid_text(&g, 0, 1, GRID_PLAIN, "abc", -1), 4);
    assert_int_equal(grid_text(&g, 1, 7, GRID_BOLD, "abcdef", -1), 10);
    assert_int_equal(grid_text(&g, 2, 0, GRID_PLAIN, "abcdef", 4), 4);
    assert_int_equal(grid_printf(&g, 2, 5, GRID_DIM, "%d%%", 42), 8);
    expect_dump(&g, true, " abc\n       abc\nabcd 42%\n\n.......bbb\n.....ddd\n");
    grid_fini(&g);
}

static void outside_is_nothing(void **state)
{
    (void)state;
    grid g = new_grid(3, 1, false);
    grid_text(&g, 1, 0, GRID_PLAIN, "x", -1);
    grid_text(&g, -1, 0, GRID_PLAIN, "x", -1);
    grid_text(&g, 0, -2, GRID_PLAIN, "abc", -1);
    grid_put(&g, 0, 3, GRID_PLAIN, 'x');
    grid_fill(&g, 0, 2, 100, GRID_PLAIN, '=');
    grid_select(&g, 5, 0, 2);
    grid_restyle(&g, 0, -5, 2, GRID_BOLD);
    expect_dump(&g, true, "c =\n\n");
    grid_fini(&g);
    g = new_grid(0, 0, false);
    grid_text(&g, 0, 0, GRID_PLAIN, "x", -1);
    grid_box(&g, 0, 0, 3, 3, "t");
    expect_dump(&g, false, "");
    grid_fini(&g);
    g = new_grid(-4, 5, false);
    assert_int_equal(g.width, 0);
    grid_fini(&g);
}

/* Writing over half of a wide character leaves no half behind. */
static void wide_characters_are_whole_or_gone(void **state)
{
    (void)state;
    grid g = new_grid(6, 4, false);
    for (int y = 0; y < 4; y++)
        grid_text(&g, y, 0, GRID_PLAIN, "\u6f22\u5b57\u6f22", -1);
    grid_put(&g, 1, 3, GRID_PLAIN, 'x');
    grid_put(&g, 2, 2, GRID_PLAIN, 'x');
    grid_text(&g, 3, 1, GRID_PLAIN, "\u5b57", -1);
    assert_int_equal(grid_text(&g, 0, 5, GRID_PLAIN, "\u5b57", -1), 5); /* no room for it */
    expect_dump(&g, false,
                "\u6f22\u5b57\u6f22\n\u6f22 x\u6f22\n\u6f22x \u6f22\n \u5b57 \u6f22\n");
    grid_fini(&g);
}

static void marks_share_a_cell(void **state)
{
    (void)state;
    grid g = new_grid(8, 1, false);
    assert_int_equal(grid_text(&g, 0, 0, GRID_PLAIN, "e\u0301\u0302\u0303x", -1), 2);
    assert_int_equal(g.cell[0].cp[1], 0x301);
    assert_int_equal(g.cell[0].cp[2], 0x302);
    assert_int_equal(g.cell[1].cp[0], 'x');
    assert_int_equal(grid_text(&g, 0, 2, GRID_PLAIN, "\U0001f469\u200d\U0001f4bb|", -1), 5);
    assert_int_equal(g.cell[4].cp[0], '|'); /* C063: what follows has not moved */
    grid_fini(&g);
}

/* C062: nothing that moves a cursor gets into a cell, even when a caller forgot text_safe(). */
static void controls_never_reach_a_cell(void **state)
{
    (void)state;
    grid g = new_grid(12, 1, false);
    grid_text(&g, 0, 0, GRID_PLAIN, "a\033b\nc\u202ed\xff%s%n", -1);
    expect_dump(&g, false, "a?b?c?d\ufffd%s%n\n");
    grid_clear(&g);
    grid_put(&g, 0, 0, GRID_PLAIN, 7);
    grid_put(&g, 0, 1, GRID_PLAIN, 0x301);
    expect_dump(&g, false, "??\n");
    grid_fini(&g);
}

/* C064 */
static void ascii_grid_holds_ascii(void **state)
{
    (void)state;
    grid g = new_grid(12, 3, true);
    grid_box(&g, 0, 0, 3, 12, "ti");
    grid_text(&g, 1, 1, GRID_PLAIN, "\u6f22x\u2026", -1);
    expect_dump(&g, false, "+- ti -----+\n|??x.      |\n+----------+\n");
    grid_fini(&g);
}

static void box_right_and_selection(void **state)
{
    (void)state;
    grid g = new_grid(12, 4, false);
    grid_fill(&g, 1, 0, 12, GRID_HEAT_0 + 7, '#');
    grid_box(&g, 0, 1, 3, 10, "title that is long");
    grid_right(&g, 3, GRID_TITLE, "end");
    grid_right(&g, 2, GRID_TITLE, "longer than the line");
    grid_select(&g, 3, 8, 3);
    grid_restyle(&g, 1, 0, 1, GRID_WARN);
    expect_dump(
        &g, true,
        " \u250c\u2500 titl \u2500\u2510\n#\u2502        \u2502#\nlonger than\n         end\n"
        "....tttt\nw..........7\ntttttttttttt\n........#TTt\n");
    grid_fini(&g);
}

static void every_style_has_its_letter(void **state)
{
    (void)state;
    grid g = new_grid(GRID_STYLE_COUNT, 1, true);
    for (int s = 0; s < GRID_STYLE_COUNT; s++)
        grid_put(&g, 0, s, (grid_style)s, 'x');
    buf b;
    buf_init(&b, 1000);
    grid_dump(&g, &b, true);
    const char *letters = strchr(buf_get(&b), '\n') + 1;
    for (int i = 0; i < GRID_STYLE_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(letters[i], letters[j]);
    buf_fini(&b);
    grid_fini(&g);
}

/* Any order of drawing keeps the buffer in order: a right half always has its left one. */
static void halves_always_match(void **state)
{
    (void)state;
    static const char *const texts[] = {"\u6f22",  "a\u6f22b",           "x",
                                        "e\u0301", "\u6f22\u5b57\u6f22", " "};
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "grid", 4);
    grid g = new_grid(9, 2, false);
    for (int i = 0; i < 50000; i++) {
        int x = (int)rng_below(rng, 12) - 2, y = (int)rng_below(rng, 2);
        if (rng_below(rng, 3))
            grid_text(&g, y, x, GRID_PLAIN, texts[rng_below(rng, CHECK_COUNT(texts))],
                      (int)rng_below(rng, 5) - 1);
        else
            grid_fill(&g, y, x, (int)rng_below(rng, 6), GRID_BOLD,
                      rng_below(rng, 2) ? 0x6f22 : '-');
        for (int j = 0; j < 18; j++) {
            bool wide = g.cell[j].cp[0] && text_width(g.cell[j].cp[0]) == 2;
            bool half_follows = j % 9 < 8 && g.cell[j + 1].cp[0] == 0;
            if (wide != half_follows || (j % 9 == 0 && !g.cell[j].cp[0]))
                fail_msg("step %d, cell %d", i, j);
        }
    }
    grid_fini(&g);
}

static void no_memory_is_told(void **state)
{
    (void)state;
    kvt_err err;
    grid g;
    kvt_alloc_fail_at(1, false);
    CHECK_FAILS(grid_init(&g, 10, 10, false, &err), KVT_NOMEM, "out of memory", &err);
    kvt_alloc_fail_at(0, false);
    grid_fini(&g);
}

int main(void)
{
    if (!setlocale(LC_ALL, "C.UTF-8")) {
        fprintf(stderr, "test_grid: no locale C.UTF-8, skipped\n");
        return CHECK_SKIP;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_drawn_and_cut),
        cmocka_unit_test(outside_is_nothing),
        cmocka_unit_test(wide_characters_are_whole_or_gone),
        cmocka_unit_test(marks_share_a_cell),
        cmocka_unit_test(controls_never_reach_a_cell),
        cmocka_unit_test(ascii_grid_holds_ascii),
        cmocka_unit_test(box_right_and_selection),
        cmocka_unit_test(every_style_has_its_letter),
        cmocka_unit_test(halves_always_match),
        cmocka_unit_test(no_memory_is_told),
    };
    return cmocka_run_group_tests_name("grid", tests, NULL, NULL);
}
