/* figures.h - what the files figures*.c share: cases by names, and rows of the list.
 *
 *   figures.c            the list, cases by names
 *   figures_geometry.c   sizes that follow from shapes: caches, pools, parameters, files
 *   figures_theory.c     LookaheadKV's theory table
 *   figures_lkv.c        LookaheadKV's measured table
 *   figures_prefill.c    measured prefills, and evictions behind them
 *   figures_memory.c     measured peaks
 *   figures_decode.c     measured decode steps
 *   figures_foreign.c    decode steps that nothing was fitted to
 *   figures_vectors.c    regression vectors of the default machines
 *
 * Every predicted number comes from the public functions of kvt/cost.h with models, machines,
 * profiles and policies found by name: what a user gets. */
#ifndef REPLAY_COST_FIGURES_H
#define REPLAY_COST_FIGURES_H

#include "replay/cost/cost_priv.h"

typedef struct figure_list {
    kvt_figure *out;
    int cap, n; /* n goes on beyond cap */
} figure_list;

/* Whether a constant was fitted to a published value. */
enum { FITTED = false, HELD_OUT = true };

/* What the rows of a table have in common. */
typedef struct figure_group {
    const char *id, *group, *unit, *profile, *source;
    double tolerance; /* of the published value, each side */
    bool held_out;
} figure_group;

/* Appends a row that must lie within the group's tolerance, or within [least, most]. */
void figure_put(figure_list *list, const figure_group *g, const char *what, double published,
                double predicted);
void figure_put_within(figure_list *list, const figure_group *g, const char *what,
                       double published, double predicted, double least, double most);

/* A prediction by names. Zeroes: no draft, the setting's defaults, nothing decoded. */
typedef struct figure_case {
    const char *geometry, *draft;
    const char *machine; /* of a machine or of a fitted profile */
    kvt_cost_profile profile;
    const char *policy; /* text form; NULL: full */
    int64_t n_prompt, n_response, budget;
    kvt_cost_setting setting;
    void (*adjust)(kvt_published *constants); /* changes constants; NULL: none */
} figure_case;

/* What a case is made of, for the functions that take parts. `work` and `load` are filled. */
typedef struct figure_parts {
    kvt_cost_geometry geometry, draft;
    kvt_machine machine;
    kvt_published constants;
    kvt_cost_work work;
    kvt_cost_load load;
    kvt_cost_setting setting;
    kvt_cost_case c; /* points into this struct */
} figure_parts;

/* Whether all names are known; the error is the program's own, rows become NAN. */
bool figure_open(figure_parts *out, const figure_case *f);
/* The prediction; `out` is NAN in its totals where a name is not known. */
void figure_predict(kvt_cost *out, const figure_case *f);
/* Seconds of one decode step of the whole batch that reads `slots` of every lane; NAN. The
 * longest lane of a layer holds `longest` times as many. */
double figure_step(const figure_case *f, double slots, double longest);

/* One for each file. */
void figures_geometry(figure_list *list);
void figures_theory(figure_list *list);
void figures_lkv(figure_list *list);
void figures_prefill(figure_list *list);
void figures_memory(figure_list *list);
void figures_decode(figure_list *list);
void figures_foreign(figure_list *list);
void figures_vectors(figure_list *list);

/* A cell of LookaheadKV's tables: what was published of a prompt of n tokens. */
typedef struct figure_cell {
    const char *what;
    double published;
    int64_t n;
} figure_cell;
#define FIGURE_LOOKAHEADKV_SOURCE "LookaheadKV, arXiv 2603.10899, table 15"
/* Their setting; machine and profile are the caller's. */
figure_case figure_lookaheadkv(const char *policy, int64_t n);
/* The four lengths of these tables: four cells. */
#define FIGURE_LENGTHS 4
#define FIGURE_AT_LENGTHS(name, a, b, c, d)                             \
    {name ", 4,096 tokens", a, 4096}, {name ", 8,192 tokens", b, 8192}, \
        {name ", 16,384 tokens", c, 16384},                             \
    {                                                                   \
        name ", 32,768 tokens", d, 32768                                \
    }

#endif
