/* document_cost.c - the parts of docs/cost.md that list data files: models, machines, and the
 * profiles that were fitted. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/document.h"
#include "kvt/arena.h"
#include "kvt/cost.h"

enum { CELL = 64, TEXT = 256, COLUMNS = KVT_MACHINE_N + 1 };

/* ---- models --------------------------------------------------------------------------------
 */

/* 1234567 as "1,234,567". */
static const char *count(char *out, int64_t x)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRId64, x), used = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

/* "1,024, none in every 6th layer": how many tokens a layer sees. */
static const char *window(char *out, const kvt_geometry *g)
{
    char tokens[CELL];
    int every = 0;
    int64_t most = 0;
    for (int l = 0; l < g->n_layer; l++) {
        most = g->window[l] > most ? g->window[l] : most;
        if (!g->window[l] && !every)
            every = l + 1;
    }
    if (!most)
        snprintf(out, TEXT, "none");
    else if (every)
        snprintf(out, TEXT, "%s, none in every %dth layer", count(tokens, most), every);
    else
        snprintf(out, TEXT, "%s", count(tokens, most));
    return out;
}

static void geometry_row(FILE *out, const kvt_cost_geometry *c)
{
    const kvt_geometry *g = &c->g;
    char at[10][CELL], seen[TEXT];
    const int64_t shape[] = {g->n_layer,  g->n_hidden, g->n_head, g->n_kv_head,
                             g->head_dim, g->n_ff,     g->n_vocab};
    for (int i = 0; i < 7; i++)
        count(at[i], shape[i]);
    count(at[7], c->theta_all);
    count(at[8], c->theta_lin);
    snprintf(at[9], CELL, "%.4g", kvt_cost_token_bytes(c, 16, 0) * (double)g->n_layer / 1024);
    document_row(out,
                 (const char *const[]){g->name, at[0], at[1], at[2], at[3], at[4], at[5], at[6],
                                       g->tied ? "yes" : "no", at[7], at[8], at[9],
                                       window(seen, g), c->draft, c->title},
                 15);
}

void document_cost_geometries(FILE *out)
{
    kvt_cost_geometry c;
    kvt_err err;
    document_header(out,
                    (const char *const[]){"model", "layers", "width", "query heads", "kv heads",
                                          "head", "feed-forward", "vocabulary", "tied",
                                          "weights", "in the layers", "KiB a token", "window",
                                          "drafts", "what it is"},
                    15);
    for (const char *const *name = kvt_cost_geometry_names(); *name; name++)
        if (!kvt_cost_geometry_find(&c, *name, &err))
            geometry_row(out, &c);
}

/* ---- machines and profiles -----------------------------------------------------------------
 */

typedef struct machines {
    kvt_machine *at;
    int n;
} machines;

static bool load(machines *out, const char *const *names,
                 kvt_code (*find)(kvt_machine *, const char *, kvt_err *))
{
    kvt_err err;
    int n = 0;
    while (names[n])
        n++;
    *out = (machines){.at = kvt_alloc(n, sizeof *out->at)};
    for (int i = 0; out->at && i < n; i++)
        if (!find(&out->at[out->n], names[i], &err))
            out->n++;
    return out->at != NULL;
}

static double value(const kvt_machine *m, int i)
{
    double x;
    memcpy(&x, (const char *)m + kvt_machine_fields()[i].offset, sizeof x);
    return x;
}

/* The unit that a table shows, and how many of the field's own it is. */
static const char *shown_unit(const kvt_machine_field_info *f, double *scale)
{
    static const struct {
        const char *own, *shown;
        double scale;
    } units[] = {{"FLOP/s", "TFLOP/s", 1e12}, {"B/s", "GB/s", 1e9}, {"s", "\u00b5s", 1e-6}};
    bool large = !strcmp(f->unit, "B") && f->most > 1e9;
    *scale = large ? 1 << 20 : 1;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (!strcmp(f->unit, units[i].own)) {
            *scale = units[i].scale;
            return units[i].shown;
        }
    return large ? "MiB" : !strcmp(f->unit, "1") ? "" : f->unit;
}

/* "989 v": a value with the first letter of its origin; a default has none. */
static const char *marked(char *out, const kvt_machine *m, int i)
{
    double scale;
    shown_unit(&kvt_machine_fields()[i], &scale);
    kvt_origin o = (kvt_origin)m->origin[i];
    double x = value(m, i) / scale;
    snprintf(out, CELL, fabs(x - round(x)) <= 1e-9 * x ? "%.0f%s%.1s" : "%.4g%s%.1s", x,
             o == KVT_ORIGIN_DEFAULT ? "" : " ",
             o == KVT_ORIGIN_DEFAULT ? "" : kvt_origin_name(o));
    return out;
}

static const char *heading(char *out, int i)
{
    const kvt_machine_field_info *f = &kvt_machine_fields()[i];
    double scale;
    const char *unit = shown_unit(f, &scale);
    snprintf(out, CELL, "%s%s%s", f->name, unit[0] ? ", " : "", unit);
    return out;
}

static bool differs(const machines *list, int i)
{
    for (int k = 1; k < list->n; k++)
        if (value(&list->at[k], i) != value(&list->at[0], i))
            return true;
    return false;
}

/* Machines down, fields first..last across: those that differ. */
static void across(FILE *out, const machines *list, int first, int last)
{
    char text[COLUMNS][CELL];
    const char *cell[COLUMNS];
    int n = 0;
    cell[n++] = "machine";
    for (int i = first; i <= last; i++)
        if (differs(list, i)) {
            cell[n] = heading(text[n], i);
            n++;
        }
    document_header(out, cell, n);
    for (int k = 0; k < list->n; k++) {
        n = 0;
        cell[n++] = list->at[k].name;
        for (int i = first; i <= last; i++)
            if (differs(list, i)) {
                cell[n] = marked(text[n], &list->at[k], i);
                n++;
            }
        document_row(out, cell, n);
    }
}

static void common(FILE *out, const machines *list)
{
    char name[CELL], text[CELL];
    fputs("\nThe same on all of them: ", out);
    const char *between = "";
    for (int i = 0; i < KVT_MACHINE_N; i++)
        if (!differs(list, i)) {
            document_put(out, between);
            document_put(out, heading(name, i));
            document_put(out, " ");
            document_put(out, marked(text, &list->at[0], i));
            between = "; ";
        }
    fputs(".\n", out);
}

/* Fields down, profiles across, all of them. */
static void down(FILE *out, const machines *list)
{
    char text[COLUMNS][CELL], name[CELL];
    const char *cell[COLUMNS];
    cell[0] = "constant";
    for (int k = 0; k < list->n; k++)
        cell[k + 1] = list->at[k].name;
    document_header(out, cell, list->n + 1);
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        cell[0] = heading(name, i);
        for (int k = 0; k < list->n; k++)
            cell[k + 1] = marked(text[k], &list->at[k], i);
        document_row(out, cell, list->n + 1);
    }
}

static void titles(FILE *out, const machines *list, bool aliases)
{
    char text[TEXT];
    document_header(out,
                    (const char *const[]){aliases ? "machine" : "profile",
                                          aliases ? "also" : "engine", "what it is",
                                          "fitted to"},
                    4);
    for (int k = 0; k < list->n; k++) {
        const kvt_machine *m = &list->at[k];
        size_t n = 0;
        text[0] = 0;
        for (const char *const *a = kvt_machine_aliases(m->name); *a && n < sizeof text; a++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", *a);
        document_row(out,
                     (const char *const[]){m->name, aliases ? text : kvt_engine_name(m->engine),
                                           m->title, m->calibrated_on},
                     4);
    }
}

static void origin(FILE *out, kvt_origin o, const char *help)
{
    char mark[2] = {o == KVT_ORIGIN_DEFAULT ? 0 : kvt_origin_name(o)[0], 0};
    document_row(out, (const char *const[]){kvt_origin_name(o), mark, help}, 3);
}

static void meanings(FILE *out)
{
    document_header(out, (const char *const[]){"constant", "unit", "from", "to", "what it is"},
                    5);
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        const kvt_machine_field_info *f = &kvt_machine_fields()[i];
        char least[CELL], most[CELL];
        snprintf(least, sizeof least, "%g", f->least);
        snprintf(most, sizeof most, "%g", f->most);
        document_row(out, (const char *const[]){f->name, f->unit, least, most, f->help}, 5);
    }
    fputc('\n', out);
    document_header(out, (const char *const[]){"origin", "mark", "where the number is from"},
                    3);
#define X(id, text, help) origin(out, KVT_ORIGIN_##id, help);
    KVT_ORIGINS(X)
#undef X
}

void document_cost_machines(FILE *out)
{
    machines machine, profile;
    bool good = load(&machine, kvt_machine_names(), kvt_machine_find);
    good = load(&profile, kvt_cost_profile_names(), kvt_cost_profile_find) && good;
    if (good) {
        fputs("### Constants\n\n", out);
        meanings(out);
        fputs("\n### Machines\n\n", out);
        titles(out, &machine, true);
        fputc('\n', out);
        across(out, &machine, 0, KVT_MACHINE_link_bw);
        fputc('\n', out);
        across(out, &machine, KVT_MACHINE_link_bw + 1, KVT_MACHINE_N - 1);
        common(out, &machine);
        fputs("\n### Profiles\n\n", out);
        titles(out, &profile, false);
        fputc('\n', out);
        down(out, &profile);
    }
    kvt_free(machine.at);
    kvt_free(profile.at);
}
