/* cmd_capture.c - kvt capture: a model run on prompts, recorded. */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/capture_probe.h"
#include "cli/cli.h"
#include "kvt/capture.h"

enum { PROMPT_LIMIT = 256 << 20 };

typedef struct options {
    const char *model, *prompt, *prompt_file, *prompts, *out, *device, *system, *chat,
        *response, *pre;
    const char *layers;
    bool raw, parse_special, compress, no_text, plan, force;
    int64_t max_new, top_k, delay, rows_limit, block_limit;
    double temperature, top_p;
    int level, queries, weights;
    cli_list probe, trace;
} options;

static const char *const levels[] = {"summary", "replay", "full", "train", NULL};
static const char *const queries[] = {"tail", "all", NULL};
static const char *const weights[] = {"file", "f32", NULL};

/* clang-format off */
static const cli_option table[] = {
    {.name = "model", .type = CLI_TEXT, CLI_OPT(options, model), .arg = "MODEL", .complete = "file",
     .help = "the model: a GGUF file, any part of a split set, or a folder of safetensors with its config.json"},
    {.name = "prompt", .type = CLI_TEXT, CLI_OPT(options, prompt), .arg = "TEXT",
     .help = "the prompt"},
    {.name = "prompt-file", .type = CLI_TEXT, CLI_OPT(options, prompt_file), .arg = "FILE", .complete = "file",
     .help = "the prompt, from a file (- for standard input)"},
    {.name = "prompts", .type = CLI_TEXT, CLI_OPT(options, prompts), .arg = "SET.jsonl", .complete = "file",
     .help = "a set of prompts, one JSON object a line with id and prompt or messages"},
    {.name = "out", .letter = 'o', .type = CLI_TEXT, CLI_OPT(options, out), .arg = "OUT", .complete = "file",
     .help = "the trace, or the folder of a set's traces"},
    {.name = "system", .type = CLI_TEXT, CLI_OPT(options, system), .arg = "TEXT",
     .help = "the system prompt, in place of the template's own"},
    {.name = "chat", .type = CLI_TEXT, CLI_OPT(options, chat), .arg = "NAME",
     .help = "a chat template by name, in place of the model's"},
    {.name = "raw", .type = CLI_FLAG, CLI_OPT(options, raw),
     .help = "apply no chat template"},
    {.name = "parse-special", .type = CLI_FLAG, CLI_OPT(options, parse_special),
     .help = "with --raw: special tokens written in the prompt are tokens"},
    {.name = "response", .type = CLI_TEXT, CLI_OPT(options, response), .arg = "FILE", .complete = "file",
     .help = "run on this response in place of a generated one"},
    {.name = "max-new", .type = CLI_INT, CLI_OPT(options, max_new), .arg = "N", .def = "256", .min = 0, .max = 1e9,
     .help = "generate at most so many tokens"},
    {.name = "temperature", .type = CLI_REAL, CLI_OPT(options, temperature), .arg = "X", .def = "0", .min = 0, .max = 1e6,
     .help = "sample at this temperature; 0 takes the likeliest token"},
    {.name = "top-p", .type = CLI_REAL, CLI_OPT(options, top_p), .arg = "X", .def = "1", .min = 0, .max = 1,
     .help = "sample among the likeliest tokens that make up this share"},
    {.name = "top-k", .type = CLI_INT, CLI_OPT(options, top_k), .arg = "N", .def = "0", .min = 0, .max = 1e9,
     .help = "sample among so many likeliest tokens; 0 is all"},
    {.name = "level", .type = CLI_CHOICE, CLI_OPT(options, level), .arg = "LEVEL", .def = "replay", .choices = levels,
     .help = "how much to record"},
    {.name = "layers", .type = CLI_TEXT, CLI_OPT(options, layers), .arg = "LIST",
     .help = "record these layers only, as in 0-3,29"},
    {.name = "queries", .type = CLI_CHOICE, CLI_OPT(options, queries), .arg = "WHICH", .def = "tail", .choices = queries,
     .help = "prompt queries to store: the last 64, or all"},
    {.name = "delay", .type = CLI_INT, CLI_OPT(options, delay), .arg = "W", .def = "256", .min = 1, .max = 1e9,
     .help = "distance in tokens of future/delayed"},
    {.name = "rows-limit", .type = CLI_SIZE, CLI_OPT(options, rows_limit), .arg = "SIZE", .def = "256MiB",
     .help = "store attention rows where they take at most this"},
    {.name = "block-limit", .type = CLI_SIZE, CLI_OPT(options, block_limit), .arg = "SIZE", .def = "512MiB",
     .help = "make blocks of queries so long that their sums take at most this"},
    {.name = "probe", .type = CLI_LIST, CLI_OPT(options, probe), .arg = "NAME=kind:args@budget", .complete = "probe",
     .help = "run a probe on the prompt, extra tokens whose queries are stored with the trace"},
    {.name = "trace", .type = CLI_LIST, CLI_OPT(options, trace), .arg = "FILE", .complete = "trace",
     .help = "add the probes to this trace, or to those below this folder, in place of capturing"},
    {.name = "compress", .type = CLI_FLAG, CLI_OPT(options, compress),
     .help = "write chunks with shuffle, deflate and checksums"},
    {.name = "no-text", .type = CLI_FLAG, CLI_OPT(options, no_text),
     .help = "leave the text out of the trace, token ids stay"},
    {.name = "weights", .type = CLI_CHOICE, CLI_OPT(options, weights), .arg = "HOW", .def = "file", .choices = weights,
     .help = "matrices as they are in the file, or decoded to f32 when they are loaded"},
    {.name = "pre", .type = CLI_TEXT, CLI_OPT(options, pre), .arg = "NAME",
     .help = "split text by the rules of this pre-tokenizer, in place of the one that the model names"},
    {.name = "device", .type = CLI_TEXT, CLI_OPT(options, device), .arg = "DEVICE", .def = "auto",
     .help = "where to run: cpu, cuda, cuda:N, or auto, a GPU that can be used and else the processor"},
    {.name = "plan", .letter = 'n', .type = CLI_FLAG, CLI_OPT(options, plan),
     .help = "print bytes on disk, memory and time, and run nothing"},
    {.name = "force", .type = CLI_FLAG, CLI_OPT(options, force),
     .help = "replace traces, or probes of that name, that are there"},
    {0},
};
/* clang-format on */

/* A file's text, kept in b until the command ends. NUL ends a text for us: it is refused. */
static kvt_code read_text(buf *b, const char *path, const char **out, kvt_err *err)
{
    if (!path)
        return KVT_OK;
    if (file_read(b, path, PROMPT_LIMIT, err))
        return err->code;
    if (memchr(buf_get(b), 0, b->n))
        return kvt_fail(err, KVT_FORMAT, "'%s' is no text: it holds a zero byte", path);
    *out = buf_get(b);
    return KVT_OK;
}

static kvt_code spec_of(kvt_capture_spec *s, const cli *c, const options *o, buf text[2],
                        kvt_err *err)
{
    kvt_capture_defaults(s);
    if (!!o->prompt + !!o->prompt_file + !!o->prompts != 1)
        return kvt_fail(err, KVT_USAGE,
                        "expected one of --prompt, --prompt-file and --prompts, got %d",
                        !!o->prompt + !!o->prompt_file + !!o->prompts);
    if (!o->out && !o->plan)
        return kvt_fail(err, KVT_USAGE, "expected -o OUT, the trace to write");
    if (o->out && !strcmp(o->out, "-"))
        return kvt_fail(err, KVT_USAGE,
                        "-o -: HDF5 cannot be written to a pipe; expected a file's name");
    if (o->parse_special && !o->raw)
        return kvt_fail(err, KVT_USAGE, "--parse-special goes with --raw");
    if (o->raw && o->chat)
        return kvt_fail(err, KVT_USAGE, "--raw applies no template, --chat names one");
    if (o->top_p == 0)
        return kvt_fail(err, KVT_USAGE, "--top-p 0 leaves no token");
    if (o->temperature == 0 && (o->top_p < 1 || o->top_k > 0))
        kvt_log(&c->ctx, KVT_LOG_WARN, "capture",
                "--top-p and --top-k choose nothing without a --temperature above 0: the "
                "likeliest token is taken");
    s->prompt = o->prompt;
    s->prompts = o->prompts;
    if (read_text(&text[0], o->prompt_file, &s->prompt, err) ||
        read_text(&text[1], o->response, &s->response, err))
        return err->code;
    s->system = o->system;
    s->chat = o->chat;
    s->raw = o->raw;
    s->parse_special = o->parse_special;
    s->max_new = o->max_new;
    s->temperature = o->temperature;
    s->top_p = o->top_p;
    s->top_k = o->top_k;
    s->out = o->out ? o->out : "plan.h5"; /* never written */
    s->level = (kvt_level)o->level;
    s->layers = o->layers;
    s->queries_all = o->queries == 1;
    s->delay = o->delay;
    s->rows_limit = o->rows_limit;
    s->block_limit = o->block_limit;
    s->compress = o->compress;
    s->no_text = o->no_text;
    s->force = o->force;
    s->command = c->command_line;
    return KVT_OK;
}

/* A command that adds probes to traces runs no prompt. */
static kvt_code only_probes(const options *o, kvt_err *err)
{
    if (!o->probe.n)
        return kvt_fail(err, KVT_USAGE,
                        "a capture takes no operands and no --trace: expected --probe, what to "
                        "add to traces");
    if (o->prompt || o->prompt_file || o->prompts || o->response || o->out)
        return kvt_fail(
            err, KVT_USAGE,
            "a trace is given: --probe adds to it, and takes neither a prompt nor -o");
    return KVT_OK;
}

static void print_memory(const char *where, int64_t bytes, int64_t weight)
{
    char all[32], file[32], run[32];
    printf("%-10s %s at the peak: %s of weights, %s of the run\n", where,
           size_print(bytes, all, sizeof all), size_print(weight, file, sizeof file),
           size_print(bytes - weight, run, sizeof run));
}

static void print_plan(const cli *c, const kvt_capture_plan *p, int n_probe)
{
    char file[32], seconds[32];
    snprintf(seconds, sizeof seconds, "%.1f", p->seconds);
    if (c->json) {
        printf("{\"schema\": \"kvt-capture-plan-1\", \"prompt_tokens\": %lld, "
               "\"response_tokens_most\": %lld, \"file_bytes\": %lld, \"memory_bytes\": %lld, "
               "\"weight_bytes\": %lld, \"device_bytes\": %lld, "
               "\"device_weight_bytes\": %lld, \"device_free_bytes\": %lld, "
               "\"seconds\": %s, \"probes\": %d, "
               "\"probe_bytes\": %lld, \"probe_seconds\": %.1f}\n",
               (long long)p->n_prompt, (long long)p->n_response, (long long)p->file_bytes,
               (long long)p->memory_bytes, (long long)p->weight_bytes,
               (long long)p->device_bytes, (long long)p->device_weight_bytes,
               (long long)p->device_free_bytes, real_print(p->seconds, seconds, sizeof seconds),
               n_probe, (long long)p->probe_bytes, p->probe_seconds);
        return;
    }
    printf("tokens     %lld of prompt, at most %lld of response\n", (long long)p->n_prompt,
           (long long)p->n_response);
    printf("on disk    %s, uncompressed\n", size_print(p->file_bytes, file, sizeof file));
    print_memory("in memory", p->memory_bytes, p->weight_bytes);
    if (p->device_bytes) {
        print_memory("on the GPU", p->device_bytes, p->device_weight_bytes);
        printf("           of %s free there\n",
               size_print(p->device_free_bytes, file, sizeof file));
    }
    printf("seconds    about %s, besides loading\n", seconds);
    if (n_probe)
        printf("probes     %d for each prompt, a draft for each of its budgets: of this %s and "
               "%.1f seconds\n",
               n_probe, size_print(p->probe_bytes, file, sizeof file), p->probe_seconds);
}

static void json_text_member(buf *b, const char *key, const char *text)
{
    buf_printf(b, ", \"%s\": ", key);
    json_quote(b, text, strlen(text));
}

static kvt_code print_counts(const cli *c, const kvt_capture_plan *p,
                             const kvt_capture_counts *k, kvt_err *err)
{
    double ran = k->prefill_s + k->decode_s + k->future_s + k->probe_s + k->write_s;
    if (c->json) {
        buf b;
        buf_init(&b, 1 << 16);
        buf_printf(&b,
                   "{\"schema\": \"kvt-capture-1\", \"captured\": %lld, \"skipped\": %lld, "
                   "\"failed\": %lld",
                   (long long)k->captured, (long long)k->skipped, (long long)k->failed);
        buf_printf(&b,
                   ", \"file_bytes\": %lld, \"planned\": {\"file_bytes\": %lld, "
                   "\"memory_bytes\": %lld, \"seconds\": %.3f}",
                   (long long)k->file_bytes, (long long)p->file_bytes,
                   (long long)p->memory_bytes, p->seconds);
        buf_printf(&b,
                   ", \"peak_bytes\": %lld, \"last\": {\"prompt_tokens\": %lld, "
                   "\"response_tokens\": %lld, \"prefill_s\": %.3f, \"decode_s\": %.3f, "
                   "\"compute_s\": %.3f, \"probe_s\": %.3f, \"write_s\": %.3f",
                   (long long)k->peak_bytes, (long long)k->n_prompt, (long long)k->n_response,
                   k->prefill_s, k->decode_s, k->future_s, k->probe_s, k->write_s);
        json_text_member(&b, "path", k->path);
        json_text_member(&b, "text", k->text);
        buf_text(&b, "}}\n");
        kvt_code code = buf_check(&b, err);
        if (!code)
            fputs(buf_get(&b), stdout);
        buf_fini(&b);
        return code;
    }
    char got[32], planned[32], peak[32], memory[32];
    if (k->captured == 1 && k->skipped + k->failed == 0) {
        char safe[400];
        text_safe_cut(safe, sizeof safe, (const uint8_t *)k->text, strlen(k->text), 72,
                      !cli_utf8(c));
        printf("response   %s\n", safe);
        printf("tokens     %lld of prompt, %lld of response\n", (long long)k->n_prompt,
               (long long)k->n_response);
        printf(
            "seconds    %.1f (planned %.1f): prefill %.1f, decode %.1f, norms and rows %.1f, "
            "write %.1f; loading %.1f\n",
            ran, p->seconds, k->prefill_s, k->decode_s, k->future_s, k->write_s, k->load_s);
        if (k->probe_s > 0)
            printf("probes     %.1f seconds\n", k->probe_s);
    } else {
        printf("prompts    %lld captured, %lld there already, %lld failed\n",
               (long long)k->captured, (long long)k->skipped, (long long)k->failed);
    }
    if (k->captured) {
        printf("on disk    %s (planned %s at most)\n",
               size_print(k->file_bytes, got, sizeof got),
               size_print(p->file_bytes, planned, sizeof planned));
        printf("in memory  %s at the peak (planned %s)\n",
               size_print(k->peak_bytes, peak, sizeof peak),
               size_print(p->memory_bytes, memory, sizeof memory));
    }
    printf("trace      %s\n", k->path);
    return KVT_OK;
}

/* Captures what the spec asks for, with probes, or prints its plan. */
static kvt_code capture(cli *c, const options *o, kvt_capture_spec *spec, kvt_model *m,
                        kvt_err *err)
{
    kvt_capture_plan plan = {0};
    kvt_capture_counts counts;
    kvt_err no_plan, shown;
    kvt_ctx planning = c->ctx;
    if (!o->plan)
        planning.log = NULL; /* the capture itself will say it */
    /* A set with a prompt that cannot run has no plan, but the rest of it goes on. */
    kvt_code code = kvt_capture_planned(m, spec, &plan, &planning, o->plan ? err : &no_plan);
    if (o->plan) {
        if (!code)
            print_plan(c, &plan, o->probe.n);
        return code;
    }
    code = kvt_capture(m, spec, &counts, &c->ctx, err);
    cli_progress_end(c);
    if (code == KVT_STOPPED && spec->prompts)
        kvt_fail(err, code, "stopped: %lld traces are done and kept; the same command goes on",
                 (long long)(counts.captured + counts.skipped));
    if ((!code || code == KVT_PARTLY) && print_counts(c, &plan, &counts, &shown) && !code) {
        *err = shown;
        code = err->code;
    }
    return code;
}

static kvt_code run(cli *c, const void *opts, int n_arg, char **arg, kvt_err *err)
{
    const options *o = opts;
    kvt_capture_spec spec;
    kvt_model *m = NULL;
    capture_probe probe = {.c = c, .force = o->force, .plan = o->plan};
    buf text[2];
    bool adds = o->trace.n || n_arg;
    if (!o->model)
        return kvt_fail(err, KVT_USAGE, "expected --model MODEL; scripts/fetch-model gets one");
    buf_init(&text[0], PROMPT_LIMIT);
    buf_init(&text[1], PROMPT_LIMIT);
    kvt_model_options mo = {
        .device = o->device, .header_only = o->plan, .f32 = o->weights == 1, .pre = o->pre};
    kvt_code code = adds ? only_probes(o, err) : spec_of(&spec, c, o, text, err);
    if (!code)
        code = kvt_model_open(&m, o->model, &mo, &c->ctx, err);
    if (!code)
        code = capture_probe_open(&probe, m, &o->probe, err);
    if (!code && !adds)
        code = capture_probe_hook(&probe, &spec, err);
    if (!code && !adds)
        code = capture(c, o, &spec, m, err);
    if (!code && adds)
        code = capture_probe_add(&probe, &o->trace, n_arg, arg, err);
    capture_probe_close(&probe);
    kvt_model_close(m);
    buf_fini(&text[0]);
    buf_fini(&text[1]);
    return code;
}

const cli_command cli_command_capture = {
    .name = "capture",
    .group = "traces",
    .line = "run a model on prompts and write traces",
    .usage = "--model MODEL (--prompt TEXT | --prompt-file FILE | --prompts SET.jsonl) -o OUT "
             "[OPTIONS] | --model MODEL --probe NAME=kind:args@budget TRACE...",
    .about =
        "Runs the model on a prompt, lets it answer (greedy unless a temperature is given) or "
        "takes the answer from --response, and records keys, values, queries and what every "
        "query looked at. OUT is a file with one prompt, a folder with a set: there a trace "
        "that is finished and of the same prompt, model and options is skipped, so that a run "
        "that was stopped goes on where it was. A prompt that fails is reported and the rest "
        "go on (exit status 4).\n\n"
        "The model is a GGUF file, any part of a split set, or a folder with config.json, "
        "safetensors and tokenizer.json; llama, mistral, qwen2, qwen3 and gemma3 are run. Its "
        "matrices stay in the type of the file unless --weights f32 is given. --device auto "
        "takes the CPU only where no GPU can be used, never because one is too small.\n\n"
        "The model's chat template is applied unless --raw is given. Text that you write is "
        "never parsed for special tokens unless you ask for it. --plan says what a capture "
        "would take, and the end of a capture what it took.\n\n"
        "--probe NAME=kind:args@budget, which may be repeated, runs extra tokens on the "
        "recorded "
        "prompt and stores their queries and keys with the trace, for policies that look "
        "ahead: "
        "lookaheadkv:ADAPTER and judgeq:ADAPTER run learned tokens; draft:tokens=8@10%,25% "
        "lets "
        "the model write on a cache evicted at each budget (LAQ; of several budgets the probes "
        "are NAME-SLOTS); specdraft:MODEL,tokens=32 takes the draft of a smaller model with "
        "the "
        "same vocabulary, or ids from a .json file (SpecKV); repeat:chunk=2000 repeats the "
        "prompt "
        "(KVzip); suffix:FILE,tokens=32 runs the first tokens of a text, of another trace's "
        "response (FILE.h5) or, as suffix:response, of the trace's own. With traces or folders "
        "of "
        "them as operands (or --trace) nothing is captured: what a trace lacks is added to a "
        "copy that then takes its place, and what is there stays unless --force is given. The "
        "bytes are the same in both ways.",
    .options = table,
    .options_size = sizeof(options),
    .examples = {"kvt capture --model smollm2.gguf --prompt 'Why is the sky blue?' -o sky.h5",
                 "kvt capture --model smollm2.gguf --prompts set.jsonl -o traces --max-new 64",
                 "kvt capture --model smollm2.gguf --prompts set.jsonl -o traces --plan",
                 "kvt capture --model Qwen3-0.6B --prompt 'Why is the sky blue?' -o sky.h5 "
                 "--device cuda:0",
                 "kvt capture --model smollm2.gguf --probe look=lookaheadkv:look.safetensors "
                 "--trace sky.h5",
                 "kvt capture --model smollm2.gguf --probe laq=draft:tokens=8@10%,25% traces"},
    .min_args = 0,
    .max_args = -1,
    .complete = "trace",
    .run = run,
};
