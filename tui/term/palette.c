/* palette.c - the table of roles and colours. Every role differs from the others by its letter,
 * too; tests hold the distances of the colours. */
#include "tui/term/palette.h"

#define D       PALETTE_DEFAULT
#define BOLD    PALETTE_BOLD
#define DIM     PALETTE_DIM
#define UNDER   PALETTE_UNDERLINE
#define REVERSE PALETTE_REVERSE

/* clang-format off */
/* Ramp of 256 colours, dark to light: navy, grey, sand, yellow; black or white digits, whichever
 * contrasts more. Eight steps serve ten levels; the digits tell neighbours apart. */
#define HEAT_256                                                                         \
    [GRID_HEAT_0] = {231, 17, 0},      [GRID_HEAT_0 + 1] = {231, 17, 0},                 \
    [GRID_HEAT_0 + 2] = {231, 237, 0}, [GRID_HEAT_0 + 3] = {231, 24, 0},                 \
    [GRID_HEAT_0 + 4] = {231, 242, 0}, [GRID_HEAT_0 + 5] = {16, 246, 0},                 \
    [GRID_HEAT_0 + 6] = {16, 246, 0},  [GRID_HEAT_0 + 7] = {16, 179, 0},                 \
    [GRID_HEAT_0 + 8] = {16, 222, 0},  [GRID_HEAT_0 + 9] = {16, 227, 0}
/* With fewer colours the ramp is the characters', and only its top has a colour. */
#define HEAT_PLAIN                                                                       \
    [GRID_HEAT_0] = {D, D, 0},     [GRID_HEAT_0 + 1] = {D, D, 0},                        \
    [GRID_HEAT_0 + 2] = {D, D, 0}, [GRID_HEAT_0 + 3] = {D, D, 0},                        \
    [GRID_HEAT_0 + 4] = {D, D, 0}, [GRID_HEAT_0 + 5] = {D, D, 0},                        \
    [GRID_HEAT_0 + 6] = {D, D, 0}, [GRID_HEAT_0 + 7] = {D, D, 0},                        \
    [GRID_HEAT_0 + 8] = {D, D, 0}
#define SAME                                                                             \
    [GRID_PLAIN] = {D, D, 0},      [GRID_BOLD] = {D, D, BOLD},                           \
    [GRID_REVERSE] = {D, D, REVERSE}, [GRID_TITLE] = {D, D, BOLD},                       \
    [GRID_PINNED] = {D, D, BOLD}

static const palette_entry of_256[GRID_STYLE_COUNT] = {
    SAME, HEAT_256,
    [GRID_DIM] = {244, D, 0},         [GRID_VAIN] = {33, D, UNDER}, [GRID_HARMLESS] = {244, D, 0},
    [GRID_SHOULD] = {16, 208, 0},     [GRID_NOW] = {D, D, REVERSE}, [GRID_SECOND] = {33, D, 0},
    [GRID_WARN] = {208, D, BOLD},     [GRID_SPECIAL] = {244, D, 0},
};
static const palette_entry of_16[GRID_STYLE_COUNT] = {
    SAME, HEAT_PLAIN, [GRID_HEAT_9] = {11, D, BOLD},
    [GRID_DIM] = {8, D, 0},           [GRID_VAIN] = {14, D, UNDER}, [GRID_HARMLESS] = {8, D, 0},
    [GRID_SHOULD] = {0, 11, 0},       [GRID_NOW] = {D, D, REVERSE}, [GRID_SECOND] = {14, D, 0},
    [GRID_WARN] = {11, D, BOLD},      [GRID_SPECIAL] = {8, D, 0},
};
static const palette_entry of_8[GRID_STYLE_COUNT] = {
    SAME, HEAT_PLAIN, [GRID_HEAT_9] = {3, D, BOLD},
    [GRID_DIM] = {D, D, DIM},         [GRID_VAIN] = {6, D, UNDER},  [GRID_HARMLESS] = {D, D, DIM},
    [GRID_SHOULD] = {0, 3, 0},        [GRID_NOW] = {D, D, REVERSE}, [GRID_SECOND] = {6, D, 0},
    [GRID_WARN] = {3, D, BOLD},       [GRID_SPECIAL] = {D, D, DIM},
};
/* Dim is not trusted where it would be the only thing. */
static const palette_entry of_none[GRID_STYLE_COUNT] = {
    SAME, HEAT_PLAIN, [GRID_HEAT_9] = {D, D, BOLD},
    [GRID_DIM] = {D, D, 0},           [GRID_VAIN] = {D, D, UNDER},  [GRID_HARMLESS] = {D, D, 0},
    [GRID_SHOULD] = {D, D, REVERSE},  [GRID_NOW] = {D, D, REVERSE | BOLD}, [GRID_SECOND] = {D, D, 0},
    [GRID_WARN] = {D, D, BOLD},       [GRID_SPECIAL] = {D, D, 0},
};
/* clang-format on */

const palette_entry *palette_of(int colours)
{
    return colours >= 256 ? of_256 : colours >= 16 ? of_16 : colours >= 8 ? of_8 : of_none;
}

uint8_t palette_selected(uint8_t attributes)
{
    return attributes & PALETTE_REVERSE
               ? (uint8_t)((attributes & ~PALETTE_REVERSE) | PALETTE_BOLD | PALETTE_UNDERLINE)
               : (uint8_t)(attributes | PALETTE_REVERSE);
}
