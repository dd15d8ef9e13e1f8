/* cost_calibrate.c - kvt cost --calibrate, --save: constants before and after, residuals, a
 * file. */
#include "cli/cost_calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "cli/cost_models.h"
#include "cli/table.h"
#include "kvt/arena.h"

enum { CELL = 48 };

static double field(const kvt_machine *m, int i)
{
    double x;
    memcpy(&x, (const char *)m + kvt_machine_fields()[i].offset, sizeof x);
    return x;
}

/* Whether the fit set it: its value or where it comes from is another. */
static bool is_new(const kvt_machine *before, const kvt_machine *after, int i)
{
    return field(before, i) != field(after, i) || before->origin[i] != after->origin[i];
}

static const char *origin(const kvt_machine *m, int i)
{
    return kvt_origin_name((kvt_origin)m->origin[i]);
}

/* ---- for people ----------------------------------------------------------------------------
 */

static kvt_code print_constants(cli *c, const kvt_machine *before, const kvt_machine *after,
                                kvt_err *err)
{
    static const char *const names[] = {"constant", "unit",   "before", "origin",
                                        "after",    "origin", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_LEFT,  CLI_RIGHT,
                                      CLI_LEFT, CLI_RIGHT, CLI_LEFT};
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    for (int i = 0; i < KVT_MACHINE_N && !code; i++) {
        char x[CELL], y[CELL];
        const kvt_machine_field_info *f = &kvt_machine_fields()[i];
        if (field(before, i) == field(after, i)) /* its origin alone is another */
            continue;
        snprintf(x, sizeof x, "%.6g", field(before, i));
        snprintf(y, sizeof y, "%.6g", field(after, i));
        code = cli_table_row(
            t,
            (const char *[]){f->name, f->unit, x, origin(before, i), y, origin(after, i), NULL},
            err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static const char *percent(char out[CELL], double x)
{
    snprintf(out, CELL, isnan(x) ? "-" : "%+.2f %%", 100 * x);
    return out;
}

static const char *milliseconds(char out[CELL], double s)
{
    snprintf(out, CELL, isnan(s) ? "-" : "%.4g ms", 1e3 * s);
    return out;
}

static kvt_code print_points(cli *c, const kvt_calibration *made, kvt_err *err)
{
    static const char *const names[] = {"line",     "quantity", "geometry", "tokens",
                                        "batch",    "kv bits",  "measured", "predicted",
                                        "residual", "left out", NULL};
    static const cli_align align[] = {CLI_RIGHT, CLI_LEFT,  CLI_LEFT,  CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_RIGHT, CLI_RIGHT, CLI_RIGHT, CLI_RIGHT};
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    for (int64_t i = 0; i < made->n_point && !code; i++) {
        const kvt_cost_point *p = &made->point[i];
        char line[CELL], tokens[CELL], batch[CELL], bits[CELL];
        char measured[CELL], predicted[CELL], residual[CELL], left[CELL];
        snprintf(line, sizeof line, "%lld", (long long)p->line);
        snprintf(tokens, sizeof tokens, "%lld", (long long)p->prompt_tokens);
        snprintf(batch, sizeof batch, "%lld", (long long)p->batch);
        snprintf(bits, sizeof bits, "%g", p->kv_bits);
        const char *const cell[] = {line,
                                    p->quantity,
                                    p->geometry,
                                    tokens,
                                    batch,
                                    bits,
                                    milliseconds(measured, p->measured_s),
                                    milliseconds(predicted, p->predicted_s),
                                    percent(residual, p->residual_frac),
                                    percent(left, p->left_out_frac),
                                    NULL};
        code = cli_table_row(t, cell, err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static void print_quality(const char *name, double rms, double lo, double hi)
{
    if (isnan(rms))
        printf("%-8s left as it was\n", name);
    else
        printf("%-8s residuals %.2f %% (root mean square); band -%.3g %% +%.3g %%\n", name,
               100 * rms, 100 * lo, 100 * hi);
}

static void print_sentences(const kvt_calibration *made, const char *save)
{
    const kvt_machine *m = &made->machine;
    printf("\n");
    print_quality("prefill", made->rms_prefill, m->band_prefill, m->band_prefill);
    print_quality("decode", made->rms_decode, m->band_decode_lo, m->band_decode_hi);
    print_quality("eviction", made->rms_evict, m->band_evict, m->band_evict);
    if (made->note[0])
        printf("note     %s\n", made->note);
    if (save)
        printf("written  %s; use it with --machine %s\n", save, save);
    else
        printf("hint     nothing is written; --save FILE.json keeps it for --machine "
               "FILE.json\n");
}

static kvt_code print_text(cli *c, const kvt_machine *base, const kvt_calibration *made,
                           const char *save, kvt_err *err)
{
    printf("%s, calibrated: %s\n", base->name, made->machine.calibrated_on);
    if (print_constants(c, base, &made->machine, err))
        return err->code;
    printf("\n");
    if (print_points(c, made, err))
        return err->code;
    print_sentences(made, save);
    return KVT_OK;
}

/* ---- for programs --------------------------------------------------------------------------
 */

static void add_text(buf *b, const char *key, const char *text)
{
    buf_printf(b, "\"%s\": ", key);
    json_quote(b, text, strlen(text));
}

static void add_number(buf *b, const char *key, double x)
{
    char text[CELL];
    real_print(x, text, sizeof text);
    buf_printf(b, "\"%s\": %s", key, text[0] ? text : "null");
}

static void add_constants(buf *b, const kvt_machine *before, const kvt_machine *after)
{
    const char *comma = "";
    buf_text(b, "\"constants\": [");
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        if (!is_new(before, after, i))
            continue;
        buf_printf(b, "%s\n  {", comma);
        comma = ",";
        add_text(b, "name", kvt_machine_fields()[i].name);
        buf_text(b, ", ");
        add_text(b, "unit", kvt_machine_fields()[i].unit);
        buf_text(b, ", ");
        add_number(b, "before", field(before, i));
        buf_text(b, ", ");
        add_text(b, "before_origin", origin(before, i));
        buf_text(b, ", ");
        add_number(b, "after", field(after, i));
        buf_text(b, ", ");
        add_text(b, "after_origin", origin(after, i));
        buf_char(b, '}');
    }
    buf_text(b, "],\n ");
}

static kvt_code print_json(const kvt_machine *base, const kvt_calibration *made,
                           const char *save, kvt_err *err)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_text(&b, "{\"schema\": \"kvt-calibration-1\",\n ");
    add_text(&b, "machine", made->machine.name);
    buf_text(&b, ", ");
    add_text(&b, "calibrated_on", made->machine.calibrated_on);
    buf_text(&b, ",\n ");
    add_constants(&b, base, &made->machine);
    add_number(&b, "rms_prefill_frac", made->rms_prefill);
    buf_text(&b, ", ");
    add_number(&b, "rms_decode_frac", made->rms_decode);
    buf_text(&b, ", ");
    add_number(&b, "rms_evict_frac", made->rms_evict);
    buf_printf(&b, ",\n \"host_bound\": %s, ", made->host_bound ? "true" : "false");
    add_text(&b, "note", made->note);
    buf_text(&b, ", ");
    if (save)
        add_text(&b, "written", save);
    else
        buf_text(&b, "\"written\": null");
    kvt_code code = buf_check(&b, err);
    kvt_table t = kvt_calibration_table(made);
    if (!code) {
        printf("%s,\n \"points\": ", buf_get(&b));
        cli_json_rows(stdout, &t);
        printf("}\n");
    }
    buf_fini(&b);
    return code;
}

static kvt_code calibrate(cli *c, const kvt_machine *base, const char *csv, const char *save,
                          kvt_err *err)
{
    kvt_calibration made;
    if (kvt_calibrate(&made, base, csv, err))
        return err->code;
    kvt_code code = save ? kvt_machine_save(&made.machine, save, err) : KVT_OK;
    if (!code)
        code = c->json ? print_json(base, &made, save, err)
                       : print_text(c, base, &made, save, err);
    kvt_calibration_free(&made);
    return code;
}

/* As it is, for somebody who edits it. */
static kvt_code save_plain(cli *c, const kvt_machine *machine, const char *path, kvt_err *err)
{
    buf b;
    if (kvt_machine_save(machine, path, err))
        return err->code;
    cli_note(c, "wrote %s, the machine %s", path, machine->name);
    if (!c->json)
        return KVT_OK;
    buf_init(&b, 1 << 16);
    buf_text(&b, "{\"schema\": \"kvt-machine-1\", ");
    add_text(&b, "machine", machine->name);
    buf_text(&b, ", ");
    add_text(&b, "written", path);
    kvt_code code = buf_check(&b, err);
    if (!code)
        printf("%s}\n", buf_get(&b));
    buf_fini(&b);
    return code;
}

kvt_code cli_cost_machine(cli *c, const char *name, const char *csv, const char *save,
                          kvt_err *err)
{
    kvt_machine *machine = kvt_alloc(CLI_MACHINES_MAX, sizeof *machine);
    int n;
    if (!machine)
        return kvt_fail_memory(err, CLI_MACHINES_MAX * sizeof *machine);
    kvt_code code = cli_cost_machines(machine, &n, name, err);
    if (!code && n > 1)
        code = kvt_fail(err, KVT_USAGE, "%s: expected one --machine, got %d",
                        csv ? "--calibrate" : "--save", n);
    if (!code)
        code = csv ? calibrate(c, machine, csv, save, err) : save_plain(c, machine, save, err);
    kvt_free(machine);
    return code;
}
