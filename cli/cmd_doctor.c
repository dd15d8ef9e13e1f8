/* cmd_doctor.c - kvt doctor: what works here. */
#include "cli/about.h"
#include "cli/doctor_bench.h"
#include "cli/help.h"
#include "cli/selftest.h"

enum { NAME_COLUMN = 22 };

typedef struct options {
    bool bench;
    doctor_bench_options how;
} options;

/* clang-format off */
static const cli_option table[] = {
    {.name = "bench", .type = CLI_FLAG, CLI_OPT(options, bench),
     .help = "measure this machine for kvt cost --machine here: products, attention, memory, decode; a minute or two with a model"},
    {.name = "model", .type = CLI_TEXT, CLI_OPT(options, how.model), .arg = "MODEL", .complete = "file",
     .help = "with --bench: measure the shapes of this model, then its prefill and decode beside their prediction (default: shapes of SmolLM2-135M)"},
    {.name = "lengths", .type = CLI_TEXT, CLI_OPT(options, how.lengths), .arg = "LIST", .def = "512..4Kix2",
     .help = "with --model: prompts of so many tokens, those that its context holds"},
    {.name = "save", .type = CLI_TEXT, CLI_OPT(options, how.save), .arg = "FILE", .complete = "file",
     .help = "with --bench: where the machine is written (default: kvt/machine-here.json in the cache folder)"},
    {.name = "device", .type = CLI_TEXT, CLI_OPT(options, how.device), .arg = "DEVICE", .def = "cpu",
     .help = "with --bench: what is measured: cpu, cuda or cuda:N"},
    {.name = "seconds", .type = CLI_REAL, CLI_OPT(options, how.seconds), .arg = "S", .def = "0.5", .min = 1e-4, .max = 60,
     .help = "with --bench: how long each measurement is repeated"},
    {0},
};
/* clang-format on */

static void print_facts(const char *title, const cli_fact *fact, int n)
{
    printf("%s\n", title);
    for (int i = 0; i < n; i++)
        printf("  %-*s%s\n", NAME_COLUMN, fact[i].name, fact[i].value[0] ? fact[i].value : "-");
}

/* What the environment holds need not be UTF-8. */
static json_t *value_json(const char *value)
{
    json_t *j = value[0] ? json_string(value) : NULL;
    return j ? j : json_null();
}

static json_t *facts_json(const cli_fact *fact, int n)
{
    json_t *j = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(j, fact[i].name, value_json(fact[i].value));
    return j;
}

/* Runs every self test and says how it went. Returns how many failed. */
static int run_selftests(json_t *out)
{
    int failed = 0;
    for (const cli_selftest *t = cli_selftests(); t->name; t++) {
        kvt_err why = {0};
        kvt_code code = t->run(&why);
        failed += code != KVT_OK;
        if (out) {
            json_t *j = json_object();
            json_object_set_new(j, "name", json_string(t->name));
            json_object_set_new(j, "ok", json_boolean(!code));
            json_object_set_new(j, "text", json_string(code ? why.text : t->line));
            json_array_append_new(out, j);
        } else {
            printf("  %-*s%s%s\n", NAME_COLUMN, t->name,
                   code ? "FAILED: " : "ok: ", code ? why.text : t->line);
        }
    }
    return failed;
}

static kvt_code look(cli *c, kvt_err *err)
{
    cli_fact versions[CLI_FACTS_MAX], machine[CLI_FACTS_MAX], environment[CLI_FACTS_MAX];
    int n_versions = cli_about_versions(versions), n_machine = cli_about_machine(c, machine),
        n_environment = cli_about_environment(environment), failed;

    if (c->json) {
        json_t *top = json_object(), *tests = json_array();
        failed = run_selftests(tests);
        json_object_set_new(top, "schema", json_string("kvt-doctor-1"));
        json_object_set_new(top, "ok", json_boolean(!failed));
        json_object_set_new(top, "versions", facts_json(versions, n_versions));
        json_object_set_new(top, "machine", facts_json(machine, n_machine));
        json_object_set_new(top, "environment", facts_json(environment, n_environment));
        json_object_set_new(top, "selftest", tests);
        kvt_code code = cli_json_print(top, err);
        if (code)
            return code;
    } else {
        print_facts("versions", versions, n_versions);
        print_facts("machine", machine, n_machine);
        print_facts("environment", environment, n_environment);
        printf("self test\n");
        failed = run_selftests(NULL);
    }
    if (failed)
        return kvt_fail(err, KVT_NO,
                        "%d self test%s failed: results of this program on this machine "
                        "cannot be trusted",
                        failed, failed == 1 ? "" : "s");
    return KVT_OK;
}

static kvt_code run(cli *c, const void *parsed, int n_arg, char **arg, kvt_err *err)
{
    const options *o = parsed;
    (void)n_arg;
    (void)arg;
    if (o->bench)
        return cli_doctor_bench(c, &o->how, err);
    if (o->how.model || o->how.save)
        return kvt_fail(err, KVT_USAGE, "--%s goes with --bench",
                        o->how.model ? "model" : "save");
    return look(c, err);
}

const cli_command cli_command_doctor = {
    .name = "doctor",
    .group = "start",
    .line = "say what works here: versions, threads, terminal, self test",
    .usage = "[OPTIONS]",
    .about =
        "Prints the versions of the libraries as they are at run time, the BLAS kernel, "
        "whether a "
        "GPU can be used or why not, memory, locale, terminal, the environment variables that "
        "kvt "
        "reads, and where models are kept. Then it runs small computations whose answers are "
        "known. Exit status 3: one of them failed.\n\n"
        "With --bench it measures instead what kvt's own passes are made of, and writes that "
        "as "
        "a machine of kvt cost; with --model it also runs the model's prefill and decode and "
        "prints them beside what the machine predicts. Nothing else should run meanwhile: the "
        "best of the repetitions counts, and the spread says by how much the middle one is "
        "slower.",
    .options = table,
    .options_size = sizeof(options),
    .examples = {"kvt doctor", "kvt doctor --json | jq .selftest",
                 "kvt doctor --bench --model smollm2.gguf",
                 "kvt doctor --bench --save laptop.json --seconds 2"},
    .run = run,
};
