/* cmd_info.c - kvt info: everything about one trace, and the schema of all of them. */
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "cli/about.h"
#include "cli/help.h"
#include "cli/info_adapter.h"
#include "cli/info_parts.h"
#include "cli/info_schema.h"
#include "cli/info_scorer.h"
#include "cli/pager.h"
#include "kvt/arena.h"
#include "kvt/engine.h"
#include "kvt/replay.h"
#include "kvt/scorer.h"
#include "traces/dataset.h"

typedef struct info_options {
    bool all, schema;
} info_options;

/* clang-format off */
static const cli_option options[] = {
    {"all", 0, CLI_FLAG, CLI_OPT(info_options, all), .help = "every attribute and every dataset with its extents"},
    {"schema", 0, CLI_FLAG, CLI_OPT(info_options, schema), .help = "the datasets and attributes that a trace may hold; takes no TRACE"},
    {0},
};
/* clang-format on */

/* ---- values --------------------------------------------------------------------------------
 */

/* Attributes of /decision are there only with decisions. */
static bool left_out(const trace_attr *a, const kvt_trace_facts *f)
{
    return !f->decision_policy[0] && !strcmp(a->group, "decision");
}

static void print_attr(const trace_attr *a, const kvt_trace_facts *f, char *out, size_t cap)
{
    const char *at = (const char *)f + a->offset;
    int64_t i;
    double r;
    out[0] = 0;
    switch (a->kind) {
    case ATTR_TEXT: snprintf(out, cap, "%s", at); break;
    case ATTR_LEVEL: snprintf(out, cap, "%s", kvt_level_name(f->level)); break;
    case ATTR_BOOL: snprintf(out, cap, "%s", *(const bool *)at ? "true" : "false"); break;
    case ATTR_REAL:
        memcpy(&r, at, sizeof r);
        real_print(r, out, cap);
        break;
    case ATTR_INT:
        memcpy(&i, at, sizeof i);
        snprintf(out, cap, "%lld", (long long)i);
        break;
    case ATTR_U64:
        memcpy(&i, at, sizeof i);
        snprintf(out, cap, "%llu", (unsigned long long)i);
        break;
    }
}

static json_t *attr_json(const trace_attr *a, const kvt_trace_facts *f)
{
    const char *at = (const char *)f + a->offset;
    int64_t i;
    double r;
    switch (a->kind) {
    case ATTR_TEXT: {
        json_t *j = json_string(at); /* NULL where it is no UTF-8 */
        return j ? j : json_null();
    }
    case ATTR_LEVEL: return json_string(kvt_level_name(f->level));
    case ATTR_BOOL: return json_boolean(*(const bool *)at);
    case ATTR_REAL: memcpy(&r, at, sizeof r); return json_real(r);
    default: memcpy(&i, at, sizeof i); return json_integer(i);
    }
}

static int64_t bytes_of(const kvt_trace *t, kvt_ds ds)
{
    int64_t dim[KVT_RANK_MAX], n = (int64_t)kvt_dtype_size(kvt_dataset_of(ds)->dtype);
    int rank = kvt_trace_shape(t, ds, dim);
    for (int i = 0; i < rank; i++)
        n *= dim[i];
    return rank ? n : 0;
}

static const char *print_shape(const kvt_trace *t, kvt_ds ds, char *out, size_t cap)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    int64_t dim[KVT_RANK_MAX];
    int rank = kvt_trace_shape(t, ds, dim);
    kvt_view v = kvt_view_of(NULL, d->dtype, d->axes, (size_t)rank, dim);
    return kvt_view_print(&v, out, cap);
}

/* ---- the summary ---------------------------------------------------------------------------
 */

static void line(FILE *out, const cli *c, const char *name, const char *text)
{
    info_line(out, c, 12, name, text);
}

static void sizes(const kvt_trace *t, char *out, size_t cap)
{
    static const struct {
        const char *name, *prefix;
    } part[] = {
        {"k v", "kv/"}, {"q", "query/"}, {"blocks", "attn/block"}, {"rows", "attn/rows"}};
    int64_t sum[4] = {0}, rest = 0, total = 0;
    char number[32];
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        int64_t n = bytes_of(t, (kvt_ds)ds);
        int at = 4;
        for (int i = 3; i >= 0; i--)
            if (!strncmp(kvt_dataset_of((kvt_ds)ds)->path, part[i].prefix,
                         strlen(part[i].prefix)))
                at = i;
        *(at < 4 ? &sum[at] : &rest) += n;
        total += n;
    }
    const kvt_trace_info *i = kvt_trace_info_of(t);
    size_t n = (size_t)snprintf(out, cap, "%s in the file, ",
                                size_print(i->file_bytes, number, sizeof number));
    n += (size_t)snprintf(out + n, cap - n, "%s of values (",
                          size_print(total, number, sizeof number));
    for (int k = 0; k < 4; k++)
        if (sum[k])
            n += (size_t)snprintf(out + n, cap - n, "%s %s, ", part[k].name,
                                  size_print(sum[k], number, sizeof number));
    snprintf(out + n, cap - n, "rest %s)", size_print(rest, number, sizeof number));
}

static bool has_probe(const kvt_trace *t, const char *kind)
{
    for (int p = 0; p < kvt_trace_probe_count(t); p++)
        if (!strcmp(kvt_probe_kind_name(kvt_trace_probe_info(t, p)->kind), kind))
            return true;
    return false;
}

/* The class that a policy has on this trace with its defaults; `why` says what is missing. One
 * that decides while decoding sees later queries of the full cache: open-loop at best. */
static kvt_exactness class_of(const kvt_trace *t, const kvt_registry *r, const kvt_policy *p,
                              char *why, size_t cap)
{
    kvt_use *use = NULL;
    kvt_err ignored; /* a policy that needs a parameter (scores:file=) has no default use */
    kvt_traits traits = p->traits;
    const char *never = NULL;
    const kvt_trace_info *info = kvt_trace_info_of(t);
    int64_t window = 0, before = info->n_query - info->facts.token.n_response;
    if (kvt_use_parse(&use, r, p->name, &ignored) == KVT_OK) {
        traits = use->traits;
        never = kvt_use_why_not(use);
        window = kvt_use_window(use, info->facts.token.n_prompt);
    }
    kvt_use_free(use);
    if (never) {
        snprintf(why, cap, "%s", never);
        return KVT_NOT_REPLAYABLE;
    }
    if (traits.probe && !has_probe(t, traits.probe)) {
        snprintf(why, cap, "needs a probe of kind %s, which this trace lacks", traits.probe);
        return KVT_NOT_REPLAYABLE;
    }
    if (kvt_trace_lacks(t, traits.needs, why, cap))
        return KVT_NOT_REPLAYABLE;
    if ((traits.needs &
         (KVT_NEED_ATTN | KVT_NEED_LOGITS | KVT_NEED_QUERIES | KVT_NEED_LAYER)) &&
        window > before) {
        snprintf(why, cap, "needs the last %lld prompt queries, which this trace lacks",
                 (long long)window);
        return KVT_NOT_REPLAYABLE;
    }
    bool decodes = (traits.phases & KVT_DECODE) && info->facts.token.n_response > 0;
    return decodes && traits.exactness < KVT_OPEN_LOOP ? KVT_OPEN_LOOP : traits.exactness;
}

/* Policies by the best class that they can have on this trace, a class a paragraph. */
static void replayable(FILE *out, const kvt_trace *t, const kvt_registry *r)
{
    enum { AT = 13, WIDTH = 80 };
    const kvt_policy *const *all = kvt_policies();
    char text[2048], why[200];
    const char *head = "replayable";
    for (int e = 0; e <= KVT_NOT_REPLAYABLE; e++) {
        size_t n = 0;
        for (int i = 0; all[i] && n < sizeof text; i++)
            if ((int)class_of(t, r, all[i], why, sizeof why) == e)
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s",
                                      n ? ", " : kvt_exactness_name((kvt_exactness)e),
                                      n ? "" : ": ", all[i]->name);
        if (n == 0)
            continue;
        fprintf(out, "%-*s", AT, head);
        cli_wrap(out, text, AT, AT, WIDTH);
        head = "";
    }
}

/* Results of this trace in the folder where kvt replay puts them. */
static void results(const kvt_trace *t, char *out, size_t cap)
{
    const kvt_trace_info *i = kvt_trace_info_of(t);
    char dir[1024], path[1100];
    kvt_schema cells = {0}, lanes = {0};
    kvt_results *s;
    kvt_err why;
    out[0] = 0;
    file_dir(dir, sizeof dir, i->path);
    snprintf(path, sizeof path, "%s/kvt-results", dir);
    if (!file_is_dir(path))
        return;
    kvt_cell_schema(&cells);
    kvt_lane_schema(&lanes);
    if (kvt_results_load(&s, &cells, &lanes, path, false, &why)) {
        snprintf(out, cap, "%.100s cannot be read: %s", path, why.text);
        return;
    }
    int64_t n_pass = 0, n_cell = 0;
    for (int64_t k = 0; k < s->n; k++)
        if (!strcmp(s->result[k]->trace_digest, i->digest)) {
            n_pass++;
            n_cell += s->result[k]->n_cell;
        }
    kvt_results_free(s);
    if (n_pass)
        snprintf(out, cap, "%lld cells of %lld passes in %s", (long long)n_cell,
                 (long long)n_pass, path);
}

/* "laq-22  draft tokens=8: 8 rows on a cache of 22 slots a kv head; digest 1a2b3c4d". */
static void print_probe(const kvt_probe_info *p, char *out, size_t cap)
{
    char where[96] = "the full cache", segments[48] = "";
    if (p->budget)
        snprintf(where, sizeof where, "a cache of %lld slots in each of %d lanes",
                 (long long)p->budget, p->n_keep);
    if (p->n_segment > 1)
        snprintf(segments, sizeof segments, " in %d segments", p->n_segment);
    snprintf(out, cap, "%s  %s%s%s: %lld rows%s on %s; digest %.8s", p->name,
             kvt_probe_kind_name(p->kind), p->args[0] ? " " : "", p->args, (long long)p->n_row,
             segments, where, p->digest);
}

static void summary(FILE *out, const cli *c, const kvt_trace *t, const kvt_registry *r)
{
    const kvt_trace_info *i = kvt_trace_info_of(t);
    const kvt_trace_facts *f = &i->facts;
    const kvt_geometry *g = &f->model;
    char text[2048];
    snprintf(text, sizeof text, "%s  format kvt-trace %d.%d, digest %.8s", i->name,
             i->version[0], i->version[1], i->digest);
    line(out, c, "trace", text);
    snprintf(text, sizeof text,
             "%s  %s  %lld layers, %lld query heads, %lld kv heads, head dim %lld", g->name,
             f->weights_type, (long long)g->n_layer, (long long)g->n_head,
             (long long)g->n_kv_head, (long long)g->head_dim);
    line(out, c, "model", text);
    snprintf(text, sizeof text, "%lld prompt + %lld response (%s)%s",
             (long long)f->token.n_prompt, (long long)f->token.n_response, f->token.stop_reason,
             f->no_text ? ", text left out" : "");
    line(out, c, "tokens", text);
    snprintf(text, sizeof text,
             "level %s, %d of %lld layers; %lld queries; %lld blocks of %lld; rows %s",
             kvt_level_name(f->level), i->n_layer, (long long)g->n_layer, (long long)i->n_query,
             (long long)i->n_block, (long long)f->block_tokens,
             i->has[KVT_DS_ROWS] ? "stored" : "computed when asked for");
    line(out, c, "captured", text);
    for (int p = 0; p < kvt_trace_probe_count(t); p++) {
        print_probe(kvt_trace_probe_info(t, p), text, sizeof text);
        line(out, c, "probe", text);
    }
    if (f->decision_policy[0]) {
        snprintf(text, sizeof text, "of %s, shift %lld, %s cache%s%s", f->decision_policy,
                 (long long)f->decision_shift, f->decision_cache,
                 i->has[KVT_DS_DECISION_W] ? ", with weights" : "",
                 i->has[KVT_DS_DECISION_G] ? ", with a decay" : "");
        line(out, c, "decisions", text);
    }
    sizes(t, text, sizeof text);
    line(out, c, "size", text);
    snprintf(text, sizeof text, "%s by %s (commit %s), seed %llu, %s%s%s", f->created,
             f->writer, f->commit, (unsigned long long)f->seed, f->sampling,
             f->device[0] ? ", on " : "", f->device);
    line(out, c, "made", text);
    replayable(out, t, r);
    results(t, text, sizeof text);
    if (text[0])
        line(out, c, "results", text);
}

static void details(FILE *out, const cli *c, const kvt_trace *t)
{
    const kvt_trace_info *i = kvt_trace_info_of(t);
    const kvt_geometry *g = &i->facts.model;
    int n;
    const trace_attr *a = trace_attrs(&n);
    char text[1200], name[64];
    fputs("\nattributes\n", out);
    for (int k = 0; k < n; k++) {
        if (left_out(&a[k], &i->facts))
            continue;
        print_attr(&a[k], &i->facts, text, sizeof text);
        snprintf(name, sizeof name, "  /%s%s%s", a[k].group, a[k].group[0] ? " " : "",
                 a[k].name);
        info_line(out, c, 26, name, text);
    }
    for (int64_t l = 0; l < g->n_layer; l++)
        if (g->window[l])
            fprintf(out, "  layer %lld: window of %d tokens\n", (long long)l, g->window[l]);
    for (int k = 0; k < i->facts.n_span; k++) {
        const kvt_span *s = &i->facts.span[k];
        snprintf(text, sizeof text, "%lld to %lld: %s", (long long)s->begin, (long long)s->end,
                 s->name);
        info_line(out, c, 26, "  span", text);
    }
    fputs("\ndatasets\n", out);
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        if (i->has[ds])
            fprintf(out, "  %-18s %-34s %-6s %s\n", d->path,
                    print_shape(t, (kvt_ds)ds, text, sizeof text), d->unit, d->help);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------
 */

static json_t *sets_json(const kvt_trace *t)
{
    json_t *sets = json_object();
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        int64_t dim[KVT_RANK_MAX];
        int rank = kvt_trace_shape(t, (kvt_ds)ds, dim);
        if (!rank)
            continue;
        json_t *s = json_object(), *shape = json_array();
        for (int k = 0; k < rank; k++)
            json_array_append_new(shape, json_integer(dim[k]));
        json_object_set_new(s, "type", json_string(kvt_dtype_name(d->dtype)));
        json_object_set_new(s, "axes", json_string(d->axes));
        json_object_set_new(s, "shape", shape);
        json_object_set_new(s, "unit", json_string(d->unit));
        json_object_set_new(s, "bytes", json_integer(bytes_of(t, (kvt_ds)ds)));
        json_object_set_new(sets, d->path, s);
    }
    return sets;
}

static json_t *probes_json(const kvt_trace *t)
{
    json_t *all = json_object();
    for (int k = 0; k < kvt_trace_probe_count(t); k++) {
        const kvt_probe_info *p = kvt_trace_probe_info(t, k);
        json_t *args = json_string(p->args); /* NULL where it is no UTF-8 */
        json_t *source = json_string(p->source_digest);
        json_t *x = json_object();
        json_object_set_new(x, "kind", json_string(kvt_probe_kind_name(p->kind)));
        json_object_set_new(x, "args", args ? args : json_null());
        json_object_set_new(x, "source_digest", source ? source : json_null());
        json_object_set_new(x, "digest", json_string(p->digest));
        json_object_set_new(x, "rows", json_integer(p->n_row));
        json_object_set_new(x, "segments", json_integer(p->n_segment));
        json_object_set_new(x, "budget", p->budget ? json_integer(p->budget) : json_null());
        json_object_set_new(all, p->name, x);
    }
    return all;
}

static json_t *policies_json(const kvt_trace *t, const kvt_registry *r)
{
    json_t *out = json_object();
    const kvt_policy *const *all = kvt_policies();
    for (int k = 0; all[k]; k++) {
        char why[200];
        kvt_exactness e = class_of(t, r, all[k], why, sizeof why);
        json_t *p = json_object();
        json_object_set_new(p, "exactness", json_string(kvt_exactness_name(e)));
        json_object_set_new(p, "why", e == KVT_NOT_REPLAYABLE ? json_string(why) : json_null());
        json_object_set_new(out, all[k]->name, p);
    }
    return out;
}

static kvt_code print_json(const kvt_trace *t, const kvt_registry *r, kvt_err *err)
{
    const kvt_trace_info *i = kvt_trace_info_of(t);
    const kvt_geometry *g = &i->facts.model;
    int n;
    const trace_attr *a = trace_attrs(&n);
    json_t *top = json_object(), *window = json_array(), *freq = json_array(),
           *spans = json_object();
    json_object_set_new(top, "schema", json_string("kvt-info-1"));
    json_object_set_new(top, "path", json_string(i->path));
    json_object_set_new(top, "trace_id", json_string(i->name));
    json_object_set_new(top, "digest", json_string(i->digest));
    json_object_set_new(top, "version", json_pack("[i, i]", i->version[0], i->version[1]));
    json_object_set_new(top, "bytes", json_integer(i->file_bytes));
    for (int k = 0; k < n; k++) {
        json_t *group = top;
        if (left_out(&a[k], &i->facts))
            continue;
        if (a[k].group[0] && !(group = json_object_get(top, a[k].group))) {
            group = json_object();
            json_object_set_new(top, a[k].group, group);
        }
        json_object_set_new(group, a[k].name, attr_json(&a[k], &i->facts));
    }
    for (int64_t l = 0; l < g->n_layer; l++)
        json_array_append_new(window, json_integer(g->window[l]));
    for (int64_t f = 0; f < g->head_dim / 2; f++)
        json_array_append_new(freq, json_real(g->rope_freq[f]));
    for (int k = 0; k < i->facts.n_span; k++)
        json_object_set_new(spans, i->facts.span[k].name,
                            json_pack("[I, I]", (json_int_t)i->facts.span[k].begin,
                                      (json_int_t)i->facts.span[k].end));
    json_object_set_new(json_object_get(top, "model"), "window", window);
    json_object_set_new(json_object_get(top, "model"), "rope_freq", freq);
    json_object_set_new(json_object_get(top, "token"), "spans", spans);
    json_object_set_new(top, "datasets", sets_json(t));
    json_object_set_new(top, "probes", probes_json(t));
    json_object_set_new(top, "policies", policies_json(t, r));
    return cli_json_print(top, err);
}

static kvt_code run(cli *c, const void *parsed, int n_arg, char **arg, kvt_err *err)
{
    const info_options *o = parsed;
    kvt_trace *t;
    if (o->schema)
        return n_arg ? kvt_fail(err, KVT_USAGE, "--schema takes no trace")
                     : cli_info_schema(c, err);
    if (!n_arg)
        return kvt_fail(err, KVT_USAGE, "info needs a trace");
    if (kvt_is_scorer(arg[0]))
        return cli_info_scorer(c, arg[0], err);
    if (cli_is_adapter(arg[0]))
        return cli_info_adapter(c, arg[0], err);
    if (kvt_trace_open(&t, arg[0], 0, err))
        return err->code;
    kvt_registry *r = NULL;
    kvt_code code = kvt_registry_new(&r, err);
    if (!code && c->json) {
        code = print_json(t, r, err);
    } else if (!code) {
        FILE *out = cli_pager_open(c);
        summary(out, c, t, r);
        if (o->all)
            details(out, c, t);
        cli_pager_close(out);
    }
    kvt_registry_free(r);
    kvt_trace_close(t);
    return code;
}

const cli_command cli_command_info = {
    .name = "info",
    .group = "traces",
    .line = "everything about a trace or learned file: shape, origin, answers",
    .usage = "[OPTIONS] TRACE|SCORER|ADAPTER",
    .about = "Prints what a trace holds and where it comes from, and which policies it can "
             "answer: the "
             "best class each can have on it. Of a file of learned weights, a scorer or an "
             "adapter: its model, how it was "
             "made, its tensors. --json always prints everything.",
    .options = options,
    .options_size = sizeof(info_options),
    .examples = {"kvt info a.h5", "kvt info a.h5 --all", "kvt info a.h5 --json | jq .datasets",
                 "kvt info --schema"},
    .min_args = 0,
    .max_args = 1,
    .complete = "trace",
    .run = run,
};
