/* load_path.c - slots of a lane over the decode steps, and their sums in closed form. */
#include "replay/cost/load_priv.h"

#include <math.h>

static const double EPS = 1e-9; /* slots: kept fractions times lengths are not quite whole */

static double whole(double slots, double page)
{
    return page > 0 ? ceil(slots / page - EPS) * page : slots;
}

double load_held(const load_shape *shape, double slots)
{
    return whole(slots, (double)shape->page);
}

/* How many of the rows 1 .. n of x + a s are not above the cap. */
static double below(double x, double a, double cap, double n)
{
    if (x + a * n <= cap)
        return n;
    if (a <= 0 || x > cap)
        return 0;
    return fmin(fmax(floor((cap - x) / a + EPS), 0), n);
}

/* Sum of ceil(j / page) page over j = 1 .. n. */
static double stairs(double n, double page)
{
    double q = floor(n / page), r = n - q * page;
    return page * (page * q * (q + 1) / 2 + r * (q + 1));
}

/* Sum over s = 1 .. n of x + a s in whole pages, page by page. */
static double slope_in_pages(double x, double a, double page, double n)
{
    double sum = 0, done = 0;
    for (double top = whole(x + a, page); done < n; top += page) {
        double upto = fmin(floor((top - x) / a + EPS), n);
        sum += top * fmax(upto - done, 0);
        done = fmax(upto, done);
    }
    return sum;
}

/* Sum over s = 1 .. n of min(x + a s, cap) in whole pages. */
static double ramp(double x, double a, double cap, double page, double n)
{
    double under = below(x, a, cap, n);
    double rest = n > under ? (n - under) * whole(cap, page) : 0;
    if (page <= 0)
        return under * x + a * under * (under + 1) / 2 + rest;
    if (a == 0)
        return under * whole(x, page) + rest;
    if (a == 1) {
        double from = ceil(x - EPS);
        return stairs(from + under, page) - stairs(from, page) + rest;
    }
    return slope_in_pages(x, a, page, under) + rest;
}

/* Rows that see a lane which nothing was dropped from since the prompt. */
static double growing(const load_path *p)
{
    if (isinf(p->budget))
        return INFINITY;
    double room = fmax(p->budget - p->start, 0);
    return p->every * (floor(room / p->every + EPS) + 1) - (p->drop_first ? 1 : 0);
}

double load_path_sum(const load_path *p, double cap, double page, double steps)
{
    double n = fmin(growing(p), steps), rest = steps - n;
    double sum = ramp(p->start, p->slope, cap, page, n);
    if (rest <= 0)
        return sum;
    double base = p->budget - (p->drop_first ? 1 : 0), times = floor(rest / p->every);
    if (times > 0)
        sum += times * ramp(base, 1, cap, page, p->every);
    return sum + ramp(base, 1, cap, page, rest - times * p->every);
}

double load_path_top(const load_path *p, double steps)
{
    double n = growing(p), base = p->budget - (p->drop_first ? 1 : 0);
    if (n >= steps)
        return steps;
    double at = fmin(n + p->every, steps);
    return n > 0 && p->start + p->slope * n >= base + at - n ? n : at;
}
