/* doctor_bench.c - see doctor_bench.h. */
#include "cli/doctor_bench.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "cli/about.h"
#include "cli/cost_models.h"
#include "cli/table.h"
#include "kvt/live.h"

enum { LENGTHS_MAX = KVT_BENCH_ROWS_MAX / 2 };

typedef struct bench {
    kvt_machine machine;
    kvt_bench_row row[KVT_BENCH_ROWS_MAX];
    kvt_bench_point point[KVT_BENCH_ROWS_MAX];
    int n_row, n_point;
    int64_t length[LENGTHS_MAX];
    int n_length;
    int device;
    char path[1100];
} bench;

/* ---- what was asked ---- */

static kvt_code device_of(int *out, const char *text, kvt_err *err)
{
    int64_t n = 0;
    *out = -1;
    if (strcmp(text, "cpu") == 0)
        return KVT_OK;
    if (strcmp(text, "cuda") != 0 && (strncmp(text, "cuda:", 5) != 0 ||
                                      int_parse(&n, text + 5, err) || n < 0 || n > INT_MAX))
        return kvt_fail(err, KVT_USAGE, "--device: expected cpu, cuda or cuda:N, got '%s'",
                        text);
    *out = (int)n;
    return KVT_OK;
}

/* A minute of measuring should not end with a file that cannot be written. */
static kvt_code check_path(bench *b, const char *save, kvt_err *err)
{
    char dir[1100];
    int n = save ? snprintf(b->path, sizeof b->path, "%s", save) : 0;
    if (n >= (int)sizeof b->path)
        return kvt_fail(err, KVT_USAGE, "--save: the name is too long");
    if (!save && !cli_machine_here(b->path, sizeof b->path)[0])
        return kvt_fail(err, KVT_USAGE,
                        "nowhere to write the machine: neither XDG_CACHE_HOME nor HOME is set "
                        "(--save FILE)");
    file_dir(dir, sizeof dir, b->path);
    if (!save && file_mkdirs(dir, err))
        return err->code;
    if (!file_is_dir(dir))
        return kvt_fail(err, KVT_NOTFOUND, "'%s': no such folder, for the machine's file", dir);
    if (file_is_dir(b->path))
        return kvt_fail(err, KVT_USAGE, "'%s': expected a file's name, got a folder's",
                        b->path);
    if (access(dir, W_OK) != 0)
        return kvt_fail(err, KVT_IO, "'%s': the machine's file cannot be written there", dir);
    return KVT_OK;
}

/* A file of its own names the machine: several can be compared then. */
static void name_machine(bench *b, const char *save)
{
    if (!save)
        return;
    const char *base = file_base(save), *dot = strrchr(base, '.');
    int n = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    snprintf(b->machine.name, sizeof b->machine.name, "%.*s", n < 63 ? n : 63, base);
}

/* ---- measuring ---- */

/* The bands are at least twice the root of the mean square of the errors that were seen. */
static void widen(bench *b)
{
    double sum[2] = {0}, n[2] = {0};
    for (int i = 0; i < b->n_point; i++) {
        int decode = strcmp(b->point[i].quantity, "decode") == 0;
        sum[decode] += b->point[i].error_frac * b->point[i].error_frac;
        n[decode]++;
    }
    double prefill = n[0] > 0 ? 2 * sqrt(sum[0] / n[0]) : 0,
           decode = n[1] > 0 ? 2 * sqrt(sum[1] / n[1]) : 0;
    kvt_machine *m = &b->machine;
    m->band_prefill = fmin(fmax(m->band_prefill, prefill), 10);
    m->band_decode_lo = fmin(fmax(m->band_decode_lo, decode), 1);
    m->band_decode_hi = fmin(fmax(m->band_decode_hi, decode), 10);
}

static kvt_code measure(cli *c, bench *b, const doctor_bench_options *o, kvt_err *err)
{
    kvt_model *m = NULL;
    kvt_code code = KVT_OK;
    if (o->model)
        code = kvt_model_open(&m, o->model, &(kvt_model_options){.device = o->device}, &c->ctx,
                              err);
    kvt_bench_spec spec = {.device = b->device, .seconds = o->seconds, .model = m};
    if (!code)
        code = kvt_bench_machine(&b->machine, b->row, &b->n_row, &spec, &c->ctx, err);
    if (!code && m)
        code = kvt_bench_model(b->point, KVT_BENCH_ROWS_MAX, &b->n_point, m, &b->machine,
                               b->length, b->n_length, &c->ctx, err);
    kvt_model_close(m);
    cli_progress_end(c);
    return code;
}

/* Passes of seconds do not find the quiet moments that the best of many repetitions is of. */
static void warn_busy(cli *c, const bench *b)
{
    const double busy = 0.3;
    int n = 0;
    for (int i = 0; i < b->n_row; i++)
        n += b->row[i].spread_frac > busy;
    if (2 * n > b->n_row)
        cli_warn(c,
                 "the machine was busy: most measurements vary by more than %.0f %%, and "
                 "predictions may be far off; repeat it when nothing else runs",
                 100 * busy);
}

/* ---- printing ---- */

/* "98.3 GFLOP/s", "6.79 us" */
static const char *amount(double x, const char *unit, char *out, size_t cap)
{
    static const char *const up[] = {"", "k", "M", "G", "T", "P"};
    static const char *const down[] = {"", "m", "u", "n"};
    int i = 0, j = 0;
    for (; x >= 1000 && i < 5; i++)
        x /= 1000;
    for (; x > 0 && x < 1 && j < 3; j++)
        x *= 1000;
    const char *plain = strcmp(unit, "1/s") == 0 ? "/s" : unit;
    snprintf(out, cap, "%.*f %s%s",
             x < 10    ? 2
             : x < 100 ? 1
                       : 0,
             x, j ? down[j] : up[i], plain);
    return out;
}

static kvt_code print_rows(cli *c, const bench *b, kvt_err *err)
{
    static const char *const columns[] = {"measured", "best", "spread", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_RIGHT, CLI_RIGHT};
    cli_table *t = cli_table_new(c, columns, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 1024);
    for (int i = 0; !code && i < b->n_row; i++) {
        char best[48], spread[24];
        amount(b->row[i].value, b->row[i].unit, best, sizeof best);
        snprintf(spread, sizeof spread, "%.0f %%", 100 * b->row[i].spread_frac);
        code = cli_table_row(t, (const char *[]){b->row[i].name, best, spread, NULL}, err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static kvt_code print_points(cli *c, const bench *b, kvt_err *err)
{
    static const char *const columns[] = {"pass",     "tokens", "predicted",
                                          "measured", "error",  NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_RIGHT, CLI_RIGHT, CLI_RIGHT, CLI_RIGHT};
    cli_table *t = cli_table_new(c, columns, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 1024);
    for (int i = 0; !code && i < b->n_point; i++) {
        const kvt_bench_point *p = &b->point[i];
        char tokens[24], predicted[48], measured[48], error[24];
        snprintf(tokens, sizeof tokens, "%lld", (long long)p->tokens);
        amount(p->predicted_s, "s", predicted, sizeof predicted);
        amount(p->measured_s, "s", measured, sizeof measured);
        snprintf(error, sizeof error, "%+.1f %%", 100 * p->error_frac);
        code = cli_table_row(
            t, (const char *[]){p->quantity, tokens, predicted, measured, error, NULL}, err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static kvt_code print_text(cli *c, const bench *b, kvt_err *err)
{
    printf("%s\n%s\n\n", b->machine.title, b->machine.calibrated_on);
    if (print_rows(c, b, err))
        return err->code;
    if (b->n_point) {
        printf("\npredicted from these, and measured without a recording\n");
        if (print_points(c, b, err))
            return err->code;
    }
    char here[sizeof b->path];
    bool is_here = !strcmp(cli_machine_here(here, sizeof here), b->path);
    printf("\nmachine  %s  (kvt cost --machine %s)\n", b->path, is_here ? "here" : b->path);
    return KVT_OK;
}

static json_t *fields_json(const kvt_machine *m)
{
    json_t *j = json_object();
    const kvt_machine_field_info *info = kvt_machine_fields();
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        double value;
        memcpy(&value, (const char *)m + info[i].offset, sizeof value);
        json_t *pair = json_array();
        json_array_append_new(pair, json_real(value));
        json_array_append_new(pair, json_string(kvt_origin_name(m->origin[i])));
        json_object_set_new(j, info[i].name, pair);
    }
    return j;
}

static json_t *rows_json(const bench *b)
{
    json_t *rows = json_array();
    for (int i = 0; i < b->n_row; i++) {
        json_t *j = json_object();
        json_object_set_new(j, "name", json_string(b->row[i].name));
        json_object_set_new(j, "best", json_real(b->row[i].value));
        json_object_set_new(j, "unit", json_string(b->row[i].unit));
        json_object_set_new(j, "spread_frac", json_real(b->row[i].spread_frac));
        json_array_append_new(rows, j);
    }
    return rows;
}

static json_t *points_json(const bench *b)
{
    json_t *points = json_array();
    for (int i = 0; i < b->n_point; i++) {
        const kvt_bench_point *p = &b->point[i];
        json_t *j = json_object();
        json_object_set_new(j, "quantity", json_string(p->quantity));
        json_object_set_new(j, "tokens", json_integer(p->tokens));
        json_object_set_new(j, "predicted_s", json_real(p->predicted_s));
        json_object_set_new(j, "measured_s", json_real(p->measured_s));
        json_object_set_new(j, "error_frac", json_real(p->error_frac));
        json_array_append_new(points, j);
    }
    return points;
}

static kvt_code print_json(const bench *b, kvt_err *err)
{
    json_t *top = json_object();
    json_object_set_new(top, "schema", json_string("kvt-bench-1"));
    json_object_set_new(top, "machine", json_string(b->machine.name));
    json_object_set_new(top, "title", json_string(b->machine.title));
    json_object_set_new(top, "calibrated_on", json_string(b->machine.calibrated_on));
    json_object_set_new(top, "file", json_string(b->path));
    json_object_set_new(top, "measured", rows_json(b));
    json_object_set_new(top, "passes", points_json(b));
    json_object_set_new(top, "fields", fields_json(&b->machine));
    return cli_json_print(top, err);
}

kvt_code cli_doctor_bench(cli *c, const doctor_bench_options *o, kvt_err *err)
{
    bench b = {0};
    if (device_of(&b.device, o->device, err) ||
        kvt_lengths_parse(b.length, LENGTHS_MAX, &b.n_length, o->lengths, err))
        return err->code;
    if (check_path(&b, o->save, err) || measure(c, &b, o, err))
        return err->code;
    name_machine(&b, o->save);
    widen(&b);
    warn_busy(c, &b);
    if (kvt_machine_save(&b.machine, b.path, err))
        return err->code;
    return c->json ? print_json(&b, err) : print_text(c, &b, err);
}
