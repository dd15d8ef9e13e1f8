/* cmd_tui.c - kvt tui: the browser. */
#include <string.h>

#include "cli/browse.h"
#include "tui/app.h"

typedef struct tui_options {
    const char *screen, *lane, *policy, *budget, *results, *script, *size, *dump, *log;
    int64_t step, token;
    bool no_mouse;
} tui_options;

/* clang-format off */
static const cli_option table[] = {
    {"lane", 0, CLI_TEXT, CLI_OPT(tui_options, lane), .arg = "LAYER:HEAD", .help = "lane to begin with, such as 13:2 (default: the one with most regret)"},
    {"step", 0, CLI_INT, CLI_OPT(tui_options, step), .arg = "N", .def = "-1", .min = -1, .max = 1e9,
     .help = "step of the response, from 0 (-1: the lane's worst)"},
    {"token", 0, CLI_INT, CLI_OPT(tui_options, token), .arg = "N", .def = "-1", .min = -1, .max = 1e9,
     .help = "token under the cursor (-1: the most regretted one)"},
    {"policy", 'p', CLI_TEXT, CLI_OPT(tui_options, policy), .arg = "NAME[:k=v,...]", .complete = "policy",
     .help = "policy to begin with; replayed first where it has no result"},
    {"budget", 'b', CLI_TEXT, CLI_OPT(tui_options, budget), .arg = "BUDGET", .help = "budget to begin with, such as 10% or 256"},
    {"screen", 0, CLI_TEXT, CLI_OPT(tui_options, screen), .arg = "NAME", .help = "overview or lane"},
    {"results", 0, CLI_TEXT, CLI_OPT(tui_options, results), .arg = "DIR", .complete = "file",
     .help = "folder of result files (default kvt-results beside the trace)"},
    {"no-mouse", 0, CLI_FLAG, CLI_OPT(tui_options, no_mouse), .help = "leave the mouse to the terminal"},
    {"script", 0, CLI_TEXT, CLI_OPT(tui_options, script), .arg = "FILE", .complete = "file",
     .help = "run these commands, one a line, without a terminal"},
    {"size", 0, CLI_TEXT, CLI_OPT(tui_options, size), .arg = "CxR", .help = "columns and rows without a terminal (default 100x30)"},
    {"dump", 0, CLI_TEXT, CLI_OPT(tui_options, dump), .arg = "FILE", .complete = "file",
     .help = "write the last screen as text, without a terminal; -: to standard output"},
    {"log", 0, CLI_TEXT, CLI_OPT(tui_options, log), .arg = "FILE", .complete = "file",
     .help = "write the commands of this session; --script replays them"},
    {0},
};
/* clang-format on */

static void note(void *user, const char *text)
{
    cli_note(user, "%s", text);
}

static void ready(void *user)
{
    cli_progress_end(user);
}

static kvt_code run(cli *c, const void *given, int n_arg, char **arg, kvt_err *err)
{
    const tui_options *o = given;
    browse_lane lane;
    tui_app_spec s = {.path = (const char *const *)arg,
                      .n_path = n_arg,
                      .results = o->results,
                      .policy = o->policy,
                      .budget = o->budget,
                      .no_mouse = o->no_mouse,
                      .ascii = !cli_utf8(c),
                      .script = o->script,
                      .dump = o->dump,
                      .log = o->log,
                      .headless = o->script || o->dump || o->size,
                      .width = 100,
                      .height = 30,
                      .note = note,
                      .ready = ready,
                      .user = c};
    if (o->screen && strcmp(o->screen, "overview") != 0 && strcmp(o->screen, "lane") != 0)
        return kvt_fail(err, KVT_USAGE, "--screen: '%.40s' is none of overview, lane",
                        o->screen);
    if (browse_lane_parse(&lane, o->lane, err) ||
        browse_size_parse(&s.width, &s.height, o->size, err))
        return err->code;
    s.colour = !s.headless && cli_color(c, stdout);
    s.start = (tui_start){.screen = o->screen,
                          .layer = lane.layer,
                          .lane = lane.lane,
                          .step = o->step,
                          .token = o->token};
    return tui_run(&s, &c->ctx, err);
}

const cli_command cli_command_tui = {
    .name = "tui",
    .group = "look",
    .line = "browse decisions in the terminal",
    .usage = "[OPTIONS] TRACE...",
    .about =
        "Opens traces and their results: a map of layers and heads that begins with the lane "
        "of "
        "most regret, and the prompt as one lane kept it, step by step. What has no result yet "
        "is replayed and kept like by kvt replay. ? lists the keys, q leaves. With --script, "
        "--dump or --size it runs without a terminal.",
    .options = table,
    .options_size = sizeof(tui_options),
    .examples = {"kvt tui a.h5", "kvt tui a.h5 -p snapkv -b 10% --lane 13:2",
                 "kvt tui a.h5 --script keys.txt --size 80x24 --dump -"},
    .min_args = 1,
    .max_args = -1,
    .complete = "trace",
    .no_json = true,
    .run = run,
};
