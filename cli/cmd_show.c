/* cmd_show.c - kvt show: a screen of the browser as plain text. */
#include <stdio.h>
#include <string.h>

#include "cli/browse.h"
#include "kvt/arena.h"
#include "tui/show.h"

typedef struct show_options {
    const char *screen, *lane, *policy, *budget, *results, *tokens, *metric;
    int64_t step, token, width, height;
    bool markers, minus;
} show_options;

/* clang-format off */
static const cli_option table[] = {
    {"screen", 0, CLI_TEXT, CLI_OPT(show_options, screen), .arg = "NAME",
     .help = "overview (default) or lane; lane where --tokens is given"},
    {"lane", 0, CLI_TEXT, CLI_OPT(show_options, lane), .arg = "LAYER:HEAD", .help = "lane to select, such as 13:2 (default: the one with most regret)"},
    {"step", 0, CLI_INT, CLI_OPT(show_options, step), .arg = "N", .def = "-1", .min = -1, .max = 1e9,
     .help = "step of the response, from 0 (-1: the lane's worst)"},
    {"token", 0, CLI_INT, CLI_OPT(show_options, token), .arg = "N", .def = "-1", .min = -1, .max = 1e9,
     .help = "token under the cursor (-1: the most regretted one)"},
    {"policy", 'p', CLI_TEXT, CLI_OPT(show_options, policy), .arg = "NAME[:k=v,...]", .complete = "policy",
     .help = "policy to show; replayed first where it has no result"},
    {"budget", 'b', CLI_TEXT, CLI_OPT(show_options, budget), .arg = "BUDGET", .help = "budget to show, such as 10% or 256"},
    {"metric", 0, CLI_TEXT, CLI_OPT(show_options, metric), .arg = "NAME", .def = "lost", .help = "of the map: lost, regret, kl"},
    {"minus", 0, CLI_FLAG, CLI_OPT(show_options, minus), .help = "minus the oracle at the same budget"},
    {"tokens", 0, CLI_TEXT, CLI_OPT(show_options, tokens), .arg = "A-B", .help = "only the text of these tokens"},
    {"markers", 0, CLI_FLAG, CLI_OPT(show_options, markers), .help = "with --tokens: a line of states below each line of text"},
    {"width", 0, CLI_INT, CLI_OPT(show_options, width), .arg = "N", .def = "100", .min = 40, .max = 1000, .help = "columns"},
    {"height", 0, CLI_INT, CLI_OPT(show_options, height), .arg = "N", .def = "30", .min = 10, .max = 1000, .help = "rows"},
    {"results", 0, CLI_TEXT, CLI_OPT(show_options, results), .arg = "DIR", .complete = "file",
     .help = "folder of result files (default kvt-results beside the trace)"},
    {0},
};
/* clang-format on */

/* Where a result is missing it is replayed, and that is said. */
static kvt_code load(cli *c, const show_options *o, const char *path, tui_loaded **out,
                     tui_lack *lack, kvt_err *err)
{
    if (tui_load(out, path, o->results, err) ||
        tui_lacks(lack, *out, o->policy, o->budget, err))
        return err->code;
    if (tui_loaded_problem(*out)[0])
        cli_warn(c, "%s", tui_loaded_problem(*out));
    if (!lack->any)
        return KVT_OK;
    cli_note(c, "no results for this: replaying %s at %s", lack->said, lack->budgets);
    kvt_code code = tui_compute(*out, lack->policies, lack->budgets, &c->ctx, err);
    cli_progress_end(c);
    return code;
}

static kvt_code say(tui_model *m, const char *text, kvt_err *err)
{
    tui_command command;
    if (tui_command_parse(&command, text, err))
        return err->code;
    tui_update(m, &command);
    return KVT_OK;
}

static kvt_code select_view(tui_model *m, const show_options *o, const browse_lane *lane,
                            kvt_err *err)
{
    char text[64];
    tui_resize(m, (int)o->width, (int)o->height);
    snprintf(text, sizeof text, "metric %.40s", o->metric);
    if (say(m, text, err))
        return err->code;
    if (strncmp(m->message, "no metric", 9) == 0)
        return kvt_fail(err, KVT_USAGE, "--metric: %.400s", m->message);
    if (m->r && lane->layer >= 0 &&
        (m->r->layer_id[m->layer] != lane->layer || m->lane != lane->lane))
        return kvt_fail(err, KVT_USAGE,
                        "--lane %lld:%lld: not in this result: layers %d to %d, heads 0 to %d",
                        (long long)lane->layer, (long long)lane->lane, (int)m->r->layer_id[0],
                        (int)m->r->layer_id[m->r->n_layer - 1], m->r->n_lane - 1);
    if (o->step > 0 && o->step >= m->data->n_response)
        return kvt_fail(err, KVT_USAGE, "--step %lld: this trace has steps 0 to %lld",
                        (long long)o->step, (long long)m->data->n_response - 1);
    if (o->token >= m->data->n_token)
        return kvt_fail(err, KVT_USAGE, "--token %lld: this trace has tokens 0 to %lld",
                        (long long)o->token, (long long)m->data->n_token - 1);
    if (o->minus && say(m, "minus", err))
        return err->code;
    m->message[0] = 0;
    return KVT_OK;
}

static kvt_code print(const tui_model *m, const show_options *o, kvt_err *err)
{
    long long from, to;
    int end = 0;
    buf out;
    kvt_code code;
    buf_init(&out, (size_t)1 << 30);
    if (!o->tokens)
        code = tui_show_screen(&out, m, err);
    else if (sscanf(o->tokens, "%lld-%lld%n", &from, &to, &end) != 2 || o->tokens[end])
        code = kvt_fail(err, KVT_USAGE, "--tokens: expected A-B such as 100-160, got '%.40s'",
                        o->tokens);
    else
        code = tui_show_tokens(&out, m, from, to, o->markers, err);
    if (!code)
        fwrite(buf_get(&out), 1, out.n, stdout);
    buf_fini(&out);
    return code;
}

static kvt_code run(cli *c, const void *given, int n_arg, char **arg, kvt_err *err)
{
    const show_options *o = given;
    browse_lane lane;
    tui_loaded *loaded = NULL;
    tui_lack lack;
    (void)n_arg;
    if (o->screen && strcmp(o->screen, "overview") != 0 && strcmp(o->screen, "lane") != 0)
        return kvt_fail(err, KVT_USAGE, "--screen: '%.40s' is none of overview, lane",
                        o->screen);
    kvt_code code = browse_lane_parse(&lane, o->lane, err);
    if (!code)
        code = load(c, o, arg[0], &loaded, &lack, err);
    if (!code) {
        tui_model *m = kvt_alloc(1, sizeof *m);
        tui_start start = {.policy = lack.policy[0] ? lack.policy : NULL,
                           .budget = o->budget,
                           .screen = o->screen   ? o->screen
                                     : o->tokens ? "lane"
                                                 : "overview",
                           .layer = lane.layer,
                           .lane = lane.lane,
                           .step = o->step,
                           .token = o->token,
                           .ascii = !cli_utf8(c)};
        code = m ? tui_model_init(m, tui_loaded_data(loaded), &start, err)
                 : kvt_fail_memory(err, sizeof *m);
        if (!code)
            code = select_view(m, o, &lane, err);
        if (!code)
            code = print(m, o, err);
        if (m)
            tui_model_fini(m);
        kvt_free(m);
    }
    tui_loaded_free(loaded);
    return code;
}

const cli_command cli_command_show = {
    .name = "show",
    .group = "look",
    .line = "a screen of the browser as plain text",
    .usage = "[OPTIONS] TRACE",
    .about =
        "Prints what kvt tui shows, without a terminal: the map of layers and heads, or the "
        "text "
        "as one lane kept it, with a letter for the state of each token (= kept, # pinned, "
        ". evicted, ! should be kept, - kept in vain, < evicted now). It begins with the lane "
        "of most regret. What has no result yet is replayed and kept like by kvt replay.",
    .options = table,
    .options_size = sizeof(show_options),
    .examples = {"kvt show a.h5", "kvt show a.h5 --screen lane --lane 13:2 -p snapkv -b 10%",
                 "kvt show a.h5 --lane 13:2 --tokens 100-160 --markers"},
    .min_args = 1,
    .max_args = 1,
    .complete = "trace",
    .no_json = true,
    .run = run,
};
