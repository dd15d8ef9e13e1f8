/* solve.c - relative least squares of up to four unknowns, within bounds. */
#include "replay/cost/calibrate_priv.h"

#include <math.h>
#include <string.h>

enum { SWEEPS = 40 };

typedef struct square {
    double at[FIT_MAX][FIT_MAX];
} square;

/* Normal equations of the rows over their scales, columns brought to length 1 (length[k] is
 * what they had). */
static void normal(square *m, double b[FIT_MAX], double length[FIT_MAX], const fit_row *row,
                   int64_t n, int k)
{
    *m = (square){0};
    memset(b, 0, FIT_MAX * sizeof *b);
    for (int64_t r = 0; r < n; r++)
        for (int i = 0; i < k; i++) {
            double x = row[r].x[i] / row[r].scale;
            b[i] += x * row[r].y / row[r].scale;
            for (int j = 0; j < k; j++)
                m->at[i][j] += x * row[r].x[j] / row[r].scale;
        }
    for (int i = 0; i < k; i++)
        length[i] = sqrt(m->at[i][i]);
    for (int i = 0; i < k; i++) {
        b[i] = length[i] > 0 ? b[i] / length[i] : 0;
        for (int j = 0; j < k; j++) {
            double both = length[i] * length[j];
            m->at[i][j] = both > 0 ? m->at[i][j] / both : 0;
        }
    }
}

/* Turns rows and columns p, q so that m[p][q] is 0 (Jacobi). */
static void rotate(square *m, int k, int p, int q)
{
    double angle = 0.5 * atan2(2 * m->at[p][q], m->at[q][q] - m->at[p][p]);
    double c = cos(angle), s = sin(angle);
    for (int i = 0; i < k; i++) {
        double x = m->at[i][p], y = m->at[i][q];
        m->at[i][p] = c * x - s * y;
        m->at[i][q] = s * x + c * y;
    }
    for (int i = 0; i < k; i++) {
        double x = m->at[p][i], y = m->at[q][i];
        m->at[p][i] = c * x - s * y;
        m->at[q][i] = s * x + c * y;
    }
}

/* Largest by smallest eigenvalue of a symmetric matrix. */
static double condition(square m, int k)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int p = 0; p < k; p++)
            for (int q = p + 1; q < k; q++)
                rotate(&m, k, p, q);
    double least = m.at[0][0], most = m.at[0][0];
    for (int i = 1; i < k; i++) {
        least = fmin(least, m.at[i][i]);
        most = fmax(most, m.at[i][i]);
    }
    return least > 0 ? most / least : (double)INFINITY;
}

/* m x = b by elimination with pivots; false: m is singular. Both are used up. */
static bool eliminate(square *m, double b[FIT_MAX], int k)
{
    for (int i = 0; i < k; i++) {
        int best = i;
        for (int r = i + 1; r < k; r++)
            if (fabs(m->at[r][i]) > fabs(m->at[best][i]))
                best = r;
        if (fabs(m->at[best][i]) < 1e-14)
            return false;
        for (int j = 0; j < k; j++) {
            double kept = m->at[i][j];
            m->at[i][j] = m->at[best][j];
            m->at[best][j] = kept;
        }
        double kept = b[i];
        b[i] = b[best];
        b[best] = kept;
        for (int r = 0; r < k; r++) {
            double share = r == i ? 0 : m->at[r][i] / m->at[i][i];
            for (int j = i; j < k; j++)
                m->at[r][j] -= share * m->at[i][j];
            b[r] -= share * b[i];
        }
    }
    for (int i = 0; i < k; i++)
        b[i] /= m->at[i][i];
    return true;
}

/* Solves for the unknowns that `fixed` leaves free; the others are in value[] already. */
static bool solve_free(double value[FIT_MAX], const bool fixed[FIT_MAX], const square *m,
                       const double b[FIT_MAX], const double length[FIT_MAX], int k)
{
    square part = {0};
    double right[FIT_MAX] = {0};
    int at[FIT_MAX], n = 0;
    for (int i = 0; i < k; i++)
        if (!fixed[i])
            at[n++] = i;
    for (int i = 0; i < n; i++) {
        right[i] = b[at[i]];
        for (int j = 0; j < k; j++)
            if (fixed[j])
                right[i] -= m->at[at[i]][j] * value[j] * length[j];
        for (int j = 0; j < n; j++)
            part.at[i][j] = m->at[at[i]][at[j]];
    }
    if (!eliminate(&part, right, n))
        return false;
    for (int i = 0; i < n; i++)
        value[at[i]] = right[i] / length[at[i]];
    return true;
}

static double squares(const fit_row *row, int64_t n, int k, const double value[FIT_MAX])
{
    double sum = 0;
    for (int64_t r = 0; r < n; r++) {
        double error = -row[r].y;
        for (int i = 0; i < k; i++)
            error += row[r].x[i] * value[i];
        sum += error / row[r].scale * error / row[r].scale;
    }
    return sum;
}

/* Whether the free ones lie within their bounds; what is outside by rounding is put on them. */
static bool within(double value[FIT_MAX], const bool fixed[FIT_MAX], const fit_bound *bound,
                   const double length[FIT_MAX], int k)
{
    for (int i = 0; i < k; i++) {
        double room = 1e-9 / length[i]; /* a billionth of what is fitted */
        if (fixed[i])
            continue;
        if (!(value[i] >= bound[i].lo - room && value[i] <= bound[i].hi + room))
            return false;
        value[i] = fmin(fmax(value[i], bound[i].lo), bound[i].hi);
    }
    return true;
}

/* Which unknowns a case of the search holds at a bound: a digit of `code` in base 3 is free, lo
 * or hi. False: a bound that is none. */
static bool case_of(double value[FIT_MAX], bool fixed[FIT_MAX], int code,
                    const fit_bound *bound, int k)
{
    for (int i = 0; i < k; i++, code /= 3) {
        fixed[i] = code % 3 != 0;
        value[i] = code % 3 == 1 ? bound[i].lo : code % 3 == 2 ? bound[i].hi : 0;
        if (!isfinite(value[i]))
            return false;
    }
    return true;
}

void fit_solve(fit *out, const fit_row *row, int64_t n, int k, const fit_bound *bound)
{
    square m;
    double b[FIT_MAX], length[FIT_MAX], best = (double)INFINITY;
    normal(&m, b, length, row, n, k);
    *out = (fit){.condition = condition(m, k)};
    int n_case = 1;
    for (int i = 0; i < k; i++)
        n_case *= 3;
    /* The least within a box lies where some unknowns are on their bounds and the others are
     * free: all of these cases are few. */
    for (int code = 0; code < n_case; code++) {
        double value[FIT_MAX];
        bool fixed[FIT_MAX];
        if (!case_of(value, fixed, code, bound, k) ||
            !solve_free(value, fixed, &m, b, length, k) ||
            !within(value, fixed, bound, length, k))
            continue;
        double sum = squares(row, n, k, value);
        if (!(sum < best))
            continue;
        best = sum;
        memcpy(out->value, value, sizeof value);
        memcpy(out->clamped, fixed, sizeof fixed);
        if (code == 0)
            return; /* free of all bounds: nothing is less */
    }
}
