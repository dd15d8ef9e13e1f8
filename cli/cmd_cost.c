/* cmd_cost.c - kvt cost: time to first token, eviction, time per token and memory of policies
 * at budgets, lengths and batches, on machines, with and without a trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cost_calibrate.h"
#include "cli/cost_choose.h"
#include "cli/cost_run.h"
#include "cli/files.h"
#include "kvt/arena.h"

typedef struct cost_options {
    cli_list policy, budget, plugin;
    const char *geometry, *machine, *length, *batch, *rule, *draft;
    const char *results, *slo, *axis, *csv, *calibrate, *save;
    int64_t response, prefill_batch, page, tensor, chunk, draft_tokens;
    double weight_bits, fragmentation;
    const char *list;
    int kv_bits, profile, act;
    bool shared_pages, full_windows, all_logits, masked, published;
} cost_options;

static const char *const kv_bits[] = {"16", "8", "4", NULL};
static const char *const profiles[] = {"fused", "as-published", "paper-lkv", NULL};
static const char *const acts[] = {"own", "prefill", "decode", NULL};

/* clang-format off */
static const cli_option options[] = {
    {"geometry", 0, CLI_TEXT, CLI_OPT(cost_options, geometry), .arg = "NAME", .complete = "geometry",
     .help = "model: a built-in name (--list geometries), a JSON file, a model file or folder, a trace; default: that of the trace"},
    {"machine", 0, CLI_TEXT, CLI_OPT(cost_options, machine), .arg = "LIST", .complete = "machine",
     .help = "devices: built-in names (--list machines), JSON files, here (measured by kvt doctor --bench); default: here where it was measured, else h100-sxm"},
    {"policy", 'p', CLI_LIST, CLI_OPT(cost_options, policy), .arg = "NAME[:k=v,...]", .complete = "policy",
     .help = "policies, a comma list or repeated; evictions are compared with the first one; all: every one (default)"},
    {"budget", 'b', CLI_LIST, CLI_OPT(cost_options, budget), .arg = "LIST",
     .help = "slots a lane may hold: 256, 10% of the prompt (kept), 64MiB of the model, 5%..40%x2; default 10%"},
    {"length", 0, CLI_TEXT, CLI_OPT(cost_options, length), .arg = "LIST",
     .help = "prompt tokens: 4Ki,8Ki or 4Ki..128Kix2; default: of the trace, without one 4Ki..32Kix2"},
    {"response", 0, CLI_INT, CLI_OPT(cost_options, response), .arg = "N", .min = 1, .max = 1 << 30,
     .help = "tokens that are decoded; default: as many as the trace has, without one 256"},
    {"batch", 0, CLI_TEXT, CLI_OPT(cost_options, batch), .arg = "LIST", .def = "1",
     .help = "requests that are decoded together: 1,8,64"},
    {"prefill-batch", 0, CLI_INT, CLI_OPT(cost_options, prefill_batch), .arg = "N", .min = 1, .max = 1 << 30,
     .help = "requests whose prompts are read together, at most; the others decode meanwhile; default: all of the batch; a server reads them one by one: 1"},
    {"kv-bits", 0, CLI_CHOICE, CLI_OPT(cost_options, kv_bits), .arg = "BITS", .def = "16", .choices = kv_bits,
     .help = "of a channel in the cache; 8 and 4 with their scales"},
    {"weight-bits", 0, CLI_REAL, CLI_OPT(cost_options, weight_bits), .arg = "BITS", .min = 1, .max = 32,
     .help = "of the weights inside the layers; default 16, or what the model file has"},
    {"page", 0, CLI_INT, CLI_OPT(cost_options, page), .arg = "N", .min = 1, .max = 1 << 20,
     .help = "tokens of a page of the cache; default: one allocation a lane"},
    {"shared-pages", 0, CLI_FLAG, CLI_OPT(cost_options, shared_pages),
     .help = "a page holds all kv heads of a layer, as long as its longest lane needs it"},
    {"tensor", 0, CLI_INT, CLI_OPT(cost_options, tensor), .arg = "N", .def = "1", .min = 1, .max = 1024,
     .help = "devices that share each layer; what is printed is of one"},
    {"chunk", 0, CLI_INT, CLI_OPT(cost_options, chunk), .arg = "N", .min = 1, .max = 1 << 30,
     .help = "tokens of a chunk of the prefill; default: in one piece"},
    {"full-windows", 0, CLI_FLAG, CLI_OPT(cost_options, full_windows),
     .help = "layers with a sliding window store every token, too"},
    {"all-logits", 0, CLI_FLAG, CLI_OPT(cost_options, all_logits),
     .help = "logits of all prompt positions are kept, as in some published code"},
    {"masked", 0, CLI_FLAG, CLI_OPT(cost_options, masked),
     .help = "evicted slots are masked and stay in memory, as in training frameworks"},
    {"fragmentation", 0, CLI_REAL, CLI_OPT(cost_options, fragmentation), .arg = "SHARE", .min = 0, .max = 10,
     .help = "of what is allocated, added to it: 0.05"},
    {"profile", 0, CLI_CHOICE, CLI_OPT(cost_options, profile), .arg = "NAME", .def = "fused", .choices = profiles,
     .help = "whose times and memory are shown: fused (every policy implemented equally well), as-published, paper-lkv; the eviction is shown under the first two"},
    {"draft", 0, CLI_TEXT, CLI_OPT(cost_options, draft), .arg = "NAME", .complete = "geometry",
     .help = "model that drafts for policies with a draft model; default: the usual one of the geometry"},
    {"draft-tokens", 0, CLI_INT, CLI_OPT(cost_options, draft_tokens), .arg = "N", .min = 1, .max = 1 << 16,
     .help = "that policies with a draft write; default: the policy's own number, under as-published what was measured"},
    {"act", 0, CLI_CHOICE, CLI_OPT(cost_options, act), .arg = "WHEN", .def = "own", .choices = acts,
     .help = "when policies decide that can do both: own (their habit), prefill, decode"},
    {"budget-rule", 0, CLI_TEXT, CLI_OPT(cost_options, rule), .arg = "RULE", .def = "floor_exact",
     .help = "how a fraction becomes slots, see kvt replay"},
    {"plugin", 0, CLI_LIST, CLI_OPT(cost_options, plugin), .arg = "FILE.so", .complete = "file",
     .help = "load policies from a shared object"},
    {"results", 0, CLI_TEXT, CLI_OPT(cost_options, results), .arg = "DIR", .complete = "file",
     .help = "slots as a replay counted them (kvt replay): every cell there"},
    {"slo", 0, CLI_TEXT, CLI_OPT(cost_options, slo), .arg = "LIMITS",
     .help = "with --results: which policy and budget loses least within ttft=2s,tpot=15ms,peak=24GiB,lost=5% (also evict, request, steady)"},
    {"axis", 0, CLI_TEXT, CLI_OPT(cost_options, axis), .arg = "NAME", .complete = "axis",
     .help = "with --results: cost that the loss is drawn against: request (default), ttft, tpot, peak, steady"},
    {"csv", 0, CLI_TEXT, CLI_OPT(cost_options, csv), .arg = "DIR", .complete = "file",
     .help = "write every row and part as DIR/cost.csv with its metadata (and DIR/selection.csv with --slo or --axis); -: rows on standard output"},
    {"calibrate", 0, CLI_TEXT, CLI_OPT(cost_options, calibrate), .arg = "FILE.csv", .complete = "file",
     .help = "fit the constants of the machine to measured points: columns quantity (prefill, decode, evict), geometry, prompt_tokens, seconds; batch, kv_bits, weight_bits, policy, rows where they matter"},
    {"save", 0, CLI_TEXT, CLI_OPT(cost_options, save), .arg = "FILE.json", .complete = "file",
     .help = "write the machine for --machine FILE.json: as it was fitted, with --calibrate; else as it is, to be edited"},
    {"published", 0, CLI_FLAG, CLI_OPT(cost_options, published),
     .help = "print figures that were published beside what the formulae give"},
    {"list", 0, CLI_TEXT, CLI_OPT(cost_options, list), .arg = "WHAT", .complete = "costs",
     .help = "print what is built in: geometries or machines"},
    {0},
};
/* clang-format on */

/* ---- what was asked for --------------------------------------------------------------------
 */

/* Options that mean nothing without another one, or beside it. */
static kvt_code check_options(const cli *c, const cost_options *o, int n_arg, kvt_err *err)
{
    bool choose = o->slo || o->axis;
    int apart = (o->list != NULL) + o->published + (o->calibrate || o->save);
    bool predicts = n_arg || o->results || o->csv || o->geometry || o->length || o->policy.n ||
                    o->budget.n || choose;
    if (apart > 1 || (apart && predicts))
        return kvt_fail(err, KVT_USAGE,
                        "--list, --published and --calibrate or --save each stand alone");
    if (choose && !o->results)
        return kvt_fail(err, KVT_USAGE,
                        "%s needs --results DIR: what is lost is known from a replay",
                        o->slo ? "--slo" : "--axis");
    if (o->results && n_arg)
        return kvt_fail(err, KVT_USAGE,
                        "expected traces or --results DIR, got both: the results name theirs");
    if (o->results && (o->policy.n || o->budget.n || o->act))
        return kvt_fail(
            err, KVT_USAGE,
            "--results brings its policies and budgets along: %s does not go with it",
            o->policy.n   ? "--policy"
            : o->budget.n ? "--budget"
                          : "--act");
    if (o->shared_pages && !o->page)
        return kvt_fail(err, KVT_USAGE, "--shared-pages needs --page N");
    if (c->json && o->csv && strcmp(o->csv, "-") == 0)
        return kvt_fail(err, KVT_USAGE, "--json and --csv - both want standard output");
    return KVT_OK;
}

/* The policy that evictions are compared with: the first of several. */
static const char *first_policy(char *out, size_t cap, const char *list)
{
    size_t n = kvt_use_length(list);
    snprintf(out, cap, "%.*s", (int)strcspn(list, ":,"), list);
    bool costs = strcmp(out, "all") != 0 && strcmp(out, "full") != 0;
    return list[n] == ',' && costs ? out : NULL;
}

static kvt_code read_batches(cost_request *r, const char *text, kvt_err *err)
{
    if (kvt_lengths_parse(r->batch, COST_LENGTHS_MAX, &r->spec.n_batch, text, err))
        return kvt_fail(err, KVT_USAGE,
                        "--batch: '%.40s' is no list of whole numbers of 1 or more (1,8,64)",
                        text);
    r->spec.batch = r->batch;
    return KVT_OK;
}

static kvt_code read_policies(cost_request *r, const cost_options *o, kvt_err *err)
{
    if (cli_join(&r->policies, &o->policy, err) || cli_join(&r->budgets, &o->budget, err) ||
        kvt_rule_parse(&r->spec.rule, o->rule, err) || kvt_registry_new(&r->registry, err))
        return err->code;
    for (int i = 0; i < o->plugin.n; i++)
        if (kvt_registry_plugin(r->registry, o->plugin.item[i], err))
            return err->code;
    r->spec.registry = r->registry;
    r->spec.policies = o->policy.n ? buf_get(&r->policies) : NULL;
    r->spec.budgets = o->budget.n ? buf_get(&r->budgets) : NULL;
    return KVT_OK;
}

static void read_setting(cost_request *r, const cost_options *o)
{
    static const double bits[] = {16, 8, 4};
    r->spec.setting = (kvt_cost_setting){.prefill_batch = o->prefill_batch,
                                         .kv_bits = bits[o->kv_bits],
                                         .weight_bits = o->weight_bits,
                                         .page_tokens = o->page,
                                         .shared_pages = o->shared_pages,
                                         .tensor = o->tensor,
                                         .chunk = o->chunk,
                                         .full_windows = o->full_windows,
                                         .all_logits = o->all_logits,
                                         .masked = o->masked,
                                         .fragmentation = o->fragmentation};
    r->spec.act = (kvt_act)o->act;
    r->spec.draft_tokens = o->draft_tokens;
    r->spec.n_response = o->response > 0 ? o->response : -1;
    r->spec.weights_must_fit = true;
    /* The eviction is always shown under both. */
    r->profile[r->spec.n_profile++] = KVT_PROFILE_FUSED;
    r->profile[r->spec.n_profile++] = KVT_PROFILE_AS_PUBLISHED;
    if (o->profile == KVT_PROFILE_PAPER_LKV)
        r->profile[r->spec.n_profile++] = KVT_PROFILE_PAPER_LKV;
    r->spec.profile = r->profile;
}

/* ---- printing ------------------------------------------------------------------------------
 */

/* Rows of one profile: a choice is made under one. The rows stay those of the table. */
static kvt_code choose(cli *c, const cost_request *r, const cost_options *o, kvt_err *err)
{
    const char *profile = kvt_cost_profile_name((kvt_cost_profile)o->profile);
    kvt_cost_table shown = {0};
    shown.row = kvt_alloc(r->table.n, sizeof *shown.row);
    if (!shown.row)
        return kvt_fail_memory(err, (size_t)r->table.n * sizeof *shown.row);
    for (int64_t i = 0; i < r->table.n; i++)
        if (strcmp(r->table.row[i].profile, profile) == 0)
            shown.row[shown.n++] = r->table.row[i];
    kvt_code code = cli_cost_choose(c, r->results, &shown, o->slo, o->axis, o->csv, err);
    kvt_cost_table_free(&shown);
    return code;
}

static kvt_code print(cli *c, cost_request *r, const cost_options *o, kvt_err *err)
{
    const char *list = r->spec.policies ? r->spec.policies : "all";
    const cli_cost_view view = {.profile = (kvt_cost_profile)o->profile,
                                .setting = &r->spec.setting,
                                .reference =
                                    first_policy(r->reference, sizeof r->reference, list)};
    const kvt_table table = kvt_cost_table_of(&r->table);
    if (o->csv && cli_cost_csv(c, &table, o->csv, err))
        return err->code;
    if (o->csv && strcmp(o->csv, "-") == 0)
        return KVT_OK;
    if (o->slo || o->axis)
        return choose(c, r, o, err);
    if (c->json) {
        cli_cost_json(&r->table);
        return KVT_OK;
    }
    return cli_cost_table(c, &r->table, &view, err);
}

/* ---- the verb ------------------------------------------------------------------------------
 */

static kvt_code print_list(cli *c, const char *what, kvt_err *err)
{
    if (strcmp(what, "geometries") == 0)
        return cli_cost_list_geometries(c, err);
    if (strcmp(what, "machines") == 0)
        return cli_cost_list_machines(c, err);
    return kvt_fail(err, KVT_USAGE, "--list: expected geometries or machines, got '%.40s'",
                    what);
}

static kvt_code run(cli *c, const void *options_, int n_arg, char **arg, kvt_err *err)
{
    const cost_options *o = options_;
    if (check_options(c, o, n_arg, err))
        return err->code;
    if (o->list)
        return print_list(c, o->list, err);
    if (o->published)
        return cli_cost_figures(c, err);
    if (o->calibrate || o->save)
        return cli_cost_machine(c, o->machine, o->calibrate, o->save, err);
    cost_request *r;
    kvt_code code = cost_open(&r, err);
    if (code)
        return code;
    read_setting(r, o);
    code = cost_read_models(c, r, o->geometry, o->draft, o->machine, err);
    if (!code)
        code = read_batches(r, o->batch, err);
    if (!code)
        code = read_policies(r, o, err);
    if (!code && o->length)
        code = cost_read_lengths(r, o->length, err);
    if (!code)
        code = cost_predict(c, r, o->results, n_arg, arg, err);
    if (!code)
        code = print(c, r, o, err);
    cost_close(r);
    return code;
}

const cli_command cli_command_cost = {
    .name = "cost",
    .group = "replay",
    .line = "predict time and memory of policies on a machine",
    .usage = "[OPTIONS] [TRACE...]",
    .about =
        "Predicts what a policy costs at a budget: time to first token, what the eviction "
        "takes of it, time per output token, memory at its peak and while decoding, and what "
        "fits. A "
        "roofline with a handful of constants a machine; each number comes with its parts (in "
        "the CSV), what it waits for and how far it may be off.\n\n"
        "The eviction is always shown twice: fused, every policy implemented equally well, and "
        "as published, at the cost of its published implementation where that was measured. "
        "Which of two policies is cheaper often differs between the two.\n\n"
        "Without a trace, slots follow from each policy's own rule (assumed). --results DIR "
        "takes the slots that a replay counted; with --geometry they are those of another "
        "model (mapped), with --length those of another length (scaled). A TRACE gives its "
        "model and its lengths, and nothing is replayed. With --slo the policy and the budget "
        "are named that lose least within the limits.",
    .options = options,
    .options_size = sizeof(cost_options),
    .examples =
        {"kvt cost --geometry llama-3.1-8b --machine h100 -p lookaheadkv,snapkv,laq -b "
         "128 --length 4Ki..32Kix2 --profile as-published",
         "kvt cost --geometry qwen3-8b --machine l4,rtx-4090 -b 5%..20%x2 --batch 1,8",
         "kvt cost --results kvt-results --geometry llama-3.1-8b --slo ttft=2s,tpot=15ms",
         "kvt cost --machine h100 --calibrate points.csv --save my-h100.json",
         "kvt cost --published", "kvt cost --list machines"},
    .min_args = 0,
    .max_args = -1,
    .complete = "trace",
    .run = run,
};
