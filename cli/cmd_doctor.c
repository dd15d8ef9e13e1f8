/* cmd_doctor.c - kvt doctor: what works here. */
#include "cli/about.h"
#include "cli/help.h"
#include "cli/selftest.h"

enum { NAME_COLUMN = 22 };

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

static kvt_code run(cli *c, const void *options, int n_arg, char **arg, kvt_err *err)
{
    cli_fact versions[CLI_FACTS_MAX], machine[CLI_FACTS_MAX], environment[CLI_FACTS_MAX];
    int n_versions = cli_about_versions(versions), n_machine = cli_about_machine(c, machine),
        n_environment = cli_about_environment(environment), failed;

    (void)options;
    (void)n_arg;
    (void)arg;
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
        "known. Exit status 3: one of them failed.",
    .options_size = 0,
    .examples = {"kvt doctor", "kvt doctor --json | jq .selftest"},
    .run = run,
};
