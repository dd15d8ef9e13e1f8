/* load_priv.h - how slots of lanes move over the decode steps, and the runs that sums of them
 * fill. */
#ifndef REPLAY_COST_LOAD_PRIV_H
#define REPLAY_COST_LOAD_PRIV_H

#include "replay/cost/cost_priv.h"

/* The slots that row t (1, 2, ...) of a lane sees, its own token included:
 *
 *   start + slope t                  until the first decision that finds more than `budget`
 *   budget + 1 ... budget + every    again and again after that (drop_first: one less)
 *
 * A budget of INFINITY drops nothing. Decisions follow each `every`-th row. */
typedef struct load_path {
    double start, slope, budget, every;
    bool drop_first;
} load_path;

/* Sum over the rows 1 .. steps of min(slots, cap), each rounded up to whole pages (0: exact).
 * Closed, but for a slope below 1 with pages, which goes page by page. */
double load_path_sum(const load_path *p, double cap, double page, double steps);
/* The first row after which the path repeats itself, at most `steps`: it holds most there. */
double load_path_top(const load_path *p, double steps);

/* So many equal lanes of a layer: what rows see, and what memory holds. */
typedef struct load_class {
    load_path seen, stored;
    double seen_cap;
    int n;
} load_class;

/* Runs of a load that is being filled: pieces of the steps, then the first, the last and the
 * one that holds most. */
typedef struct load_book {
    kvt_cost_load *out;
    load_shape shape;
    int rows; /* lanes of a layer that rows read; more than are stored where nothing leaves */
    double steps;
    int n;
    double from[KVT_COST_RUNS_MAX + 3], to[KVT_COST_RUNS_MAX + 3];
    kvt_cost_run *run[KVT_COST_RUNS_MAX + 3];
    kvt_cost_layer kept;                       /* of the layer that was added last */
    kvt_cost_run layer[KVT_COST_RUNS_MAX + 3]; /* its part of each run */
} load_book;

enum { LOAD_PIECES = 32 }; /* of steps whose slots are known in closed form */
/* Clears `out` and cuts the steps into `pieces` at most. `top`: the step that holds most; 0:
 * found by load_step(). */
void load_open(load_book *b, kvt_cost_load *out, const load_shape *shape, int rows,
               int64_t steps, int pieces, double top);
/* What a layer holds after the prompt: `slots` of each class at most its window `cap`. */
void load_keep(load_book *b, int layer, const load_class *c, int n_class, double cap);
/* Adds a layer's rows to all runs. */
void load_add(load_book *b, const load_class *c, int n_class, double cap);
/* Keeps and adds a layer that is as the one in front of it. */
void load_same(load_book *b, int layer);
/* Adds all layers of one step (1, 2, ...), in order. */
void load_step(load_book *b, double step, const kvt_cost_run *sum);
/* Joins equal neighbours and takes the means. */
void load_close(load_book *b);

double load_cap(const kvt_cost_geometry *g, const kvt_cost_setting *s, int layer); /* window */
/* Everything stays: memory holds the dense cache, whatever rows see. */
bool load_is_dense(const kvt_cost_work *w, const kvt_cost_setting *s);

/* Lanes of a result that stand for those of a geometry (load_map.c). */
typedef struct load_map {
    int32_t *from; /* [L A] layer x lanes + lane of the result; owned */
    bool mapped;
} load_map;
KVT_CHECKED kvt_code load_map_new(load_map *out, const kvt_result *r, int cell,
                                  const kvt_cost_geometry *g, int n_lane, kvt_err *err);
void load_map_free(load_map *m);

#endif
