/* test_golden_cost - times of the cost model against a second calculator (make_cost.py): every
 * part of a prefill, a decode step and an eviction, to 1e-9.
 *
 * A line of cost.csv is a kind, key=value cells, and behind '>' the parts to be found. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/cost.h"
#include "replay/cost/cost_priv.h"

enum { CELLS = 64, KNOWN = 8, LINE = 2048 };

typedef struct cells {
    char *kind, *key[CELLS], *value[CELLS];
    int n, want; /* cells; the first one behind '>' */
} cells;

/* Cuts the line into cells. */
static void split(cells *out, char *line)
{
    *out = (cells){.kind = strtok(line, ",\n"), .want = CELLS};
    for (char *at; (at = strtok(NULL, ",\n"));) {
        char *is = strchr(at, '=');
        if (!is) {
            out->want = out->n;
            continue;
        }
        *is = 0;
        if (out->n == CELLS)
            fail_msg("more than %d cells", CELLS);
        out->key[out->n] = at;
        out->value[out->n++] = is + 1;
    }
    if (out->want > out->n)
        out->want = out->n;
}

static const char *text(const cells *c, const char *key)
{
    for (int i = 0; i < c->want; i++)
        if (!strcmp(c->key[i], key))
            return c->value[i];
    return "";
}

static double number(const cells *c, const char *key)
{
    const char *t = text(c, key);
    return *t ? strtod(t, NULL) : 0;
}

static int64_t whole(const cells *c, const char *key)
{
    return (int64_t)number(c, key);
}

/* Place of a name in a list. */
static int place(const cells *c, const char *key, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(text(c, key), names[i]))
            return i;
    return 0;
}

/* ---- inputs --------------------------------------------------------------------------------
 */

static kvt_cost_geometry models[KNOWN];
static kvt_machine machines[KNOWN];
static int n_model, n_machine;

static void add_model(const cells *c)
{
    kvt_cost_geometry *g = &models[n_model++];
    snprintf(g->title, sizeof g->title, "%s", text(c, "name"));
    g->g.n_layer = whole(c, "n_layer");
    g->g.n_hidden = whole(c, "n_hidden");
    g->g.n_head = whole(c, "n_head");
    g->g.n_kv_head = whole(c, "n_kv_head");
    g->g.head_dim = whole(c, "head_dim");
    g->g.n_ff = whole(c, "n_ff");
    g->g.n_vocab = whole(c, "n_vocab");
    g->theta_lin = whole(c, "theta_lin");
    g->theta_head = whole(c, "theta_head");
    int64_t period = whole(c, "period");
    for (int l = 0; l < g->g.n_layer; l++)
        g->g.window[l] = period && (l + 1) % period ? (int32_t)whole(c, "window") : 0;
}

static void add_machine(const cells *c)
{
    static const char *const engines[] = {"fused", "eager", "paper"};
    kvt_machine *m = &machines[n_machine++];
    snprintf(m->name, sizeof m->name, "%s", text(c, "name"));
    m->engine = (kvt_engine_kind)place(c, "engine", engines, CHECK_COUNT(engines));
#define X(field, unit, least, most, help) m->field = number(c, #field);
    KVT_MACHINE_FIELDS(X)
#undef X
}

static const kvt_cost_geometry *model(const char *name)
{
    for (int i = 0; i < n_model; i++)
        if (!strcmp(models[i].title, name))
            return &models[i];
    fail_msg("no model '%s'", name);
    return NULL;
}

static const kvt_machine *machine(const char *name)
{
    for (int i = 0; i < n_machine; i++)
        if (!strcmp(machines[i].name, name))
            return &machines[i];
    fail_msg("no machine '%s'", name);
    return NULL;
}

static kvt_cost_setting setting(const cells *c)
{
    return (kvt_cost_setting){
        .batch = whole(c, "batch"),
        .kv_bits = number(c, "kv_bits"),
        .weight_bits = number(c, "weight_bits"),
        .tensor = whole(c, "tensor"),
        .chunk = whole(c, "chunk"),
        .full_windows = number(c, "full_windows") > 0,
        .all_logits = number(c, "all_logits") > 0,
    };
}

static kvt_cost_work work(const cells *c)
{
    static const char *const scores[] = {"none",    "rows",    "columns", "keys",
                                         "moments", "network", "repeat"};
    static const char *const drafts[] = {"", "self", "model"};
    kvt_cost_work w = {
        .when = strcmp(text(c, "when"), "never") ? KVT_WHEN_IN_LAYER : KVT_WHEN_NEVER,
        .score = (kvt_score_kind)place(c, "score", scores, CHECK_COUNT(scores)),
        .draft = (kvt_draft_kind)place(c, "draft", drafts, CHECK_COUNT(drafts)),
        .k_passes = (int)whole(c, "k_passes"),
    };
#define INT(field)  w.field = whole(c, #field)
#define REAL(field) w.field = number(c, #field)
#define FLAG(field) w.field = number(c, #field) > 0
    INT(every), INT(rows), INT(decode_rows), INT(extra_tokens), INT(draft_tokens);
    REAL(rows_frac), REAL(lora_params), REAL(embed_params), REAL(network_flops);
    REAL(network_params), REAL(decode_state_moves), REAL(state_lane);
    FLAG(in_decode), FLAG(reads_values), FLAG(first_stage), FLAG(selects), FLAG(by_query_head);
    FLAG(keeps_all), FLAG(joins), FLAG(in_place), FLAG(whole_rows), FLAG(decode_reads_keys);
    FLAG(decode_reads_values);
#undef INT
#undef REAL
#undef FLAG
    return w;
}

/* ---- lines ---------------------------------------------------------------------------------
 */

static int line_no;

static void is(const cells *c, const char *part, double got, double scale)
{
    for (int i = c->want; i < c->n; i++) {
        if (strcmp(c->key[i], part))
            continue;
        double want = strtod(c->value[i], NULL);
        /* a rest of a subtraction is as exact as what it was taken from */
        if (!(fabs(got - want) <= 1e-9 * fabs(want) + 1e-12 * fabs(scale)))
            fail_msg("cost.csv:%d: %s: expected %.17g, got %.17g", line_no, part, want, got);
        return;
    }
    fail_msg("cost.csv:%d: no %s", line_no, part);
}

static void prefill(const cells *c)
{
    kvt_cost_setting s = setting(c);
    kvt_prefill_cost got;
    kvt_cost_prefill(&got, model(text(c, "model")), machine(text(c, "machine")), &s,
                     whole(c, "n_prompt"));
#define X(name, help) is(c, #name, got.name, got.total);
    KVT_PREFILL_PARTS(X)
#undef X
    is(c, "total", got.total, 0);
}

static void step(const cells *c)
{
    kvt_cost_setting s = setting(c);
    kvt_cost_work w = work(c);
    kvt_published p = {.machine = *machine(text(c, "machine"))};
    kvt_cost_run run = {.slots = number(c, "slots"),
                        .busiest = number(c, "busiest"),
                        .held = number(c, "held")};
    kvt_decode_cost got;
    kvt_cost_step(
        &got,
        &(kvt_cost_case){
            .geometry = model(text(c, "model")), .constants = &p, .work = &w, .setting = &s},
        &run);
#define X(name, help) is(c, #name, got.name, got.total);
    KVT_DECODE_PARTS(X)
#undef X
    is(c, "total", got.total, 0);
}

static void evict(const cells *c)
{
    kvt_cost_setting s = setting(c);
    kvt_cost_work w = work(c);
    kvt_published p = {.machine = *machine(text(c, "machine")),
                       .draft_tokens = whole(c, "published_draft_tokens"),
                       .draft_step = number(c, "published_draft_step"),
                       .draft_step_tokens = whole(c, "published_draft_step_tokens")};
    kvt_evict_cost got;
    cost_evict(&got,
               &(kvt_cost_case){.geometry = model(text(c, "model")),
                                .draft = model("1b"),
                                .constants = &p,
                                .work = &w,
                                .setting = &s,
                                .n_prompt = whole(c, "n_prompt"),
                                .budget = whole(c, "budget")},
               NULL);
#define X(name, help) is(c, #name, got.name, got.total);
    KVT_EVICT_PARTS(X)
#undef X
    is(c, "total", got.total, 0);
}

static void paper(const cells *c)
{
    kvt_cost_setting s = {0};
    kvt_cost_work w = work(c);
    kvt_published p = {.machine = *machine(text(c, "machine"))};
    kvt_cost got;
    kvt_cost_predict(&got, &(kvt_cost_case){.geometry = model(text(c, "model")),
                                            .draft = model("1b"),
                                            .constants = &p,
                                            .work = &w,
                                            .setting = &s,
                                            .n_prompt = whole(c, "n_prompt"),
                                            .budget = whole(c, "budget")});
#define X(name, help) is(c, #name, got.evict.name, got.evict.total);
    KVT_EVICT_PARTS(X)
#undef X
    is(c, "total", got.evict.total, 0);
}

static void every_line_agrees(void **state)
{
    (void)state;
    char line[LINE];
    int n[4] = {0};
    FILE *f = fopen(KVT_SOURCE_DIR "/tests/golden/cost.csv", "r");
    assert_non_null(f);
    for (line_no = 1; fgets(line, sizeof line, f); line_no++) {
        cells c;
        split(&c, line);
        if (!strcmp(c.kind, "model"))
            add_model(&c);
        else if (!strcmp(c.kind, "machine"))
            add_machine(&c);
        else if (!strcmp(c.kind, "prefill"))
            prefill(&c), n[0]++;
        else if (!strcmp(c.kind, "step"))
            step(&c), n[1]++;
        else if (!strcmp(c.kind, "evict"))
            evict(&c), n[2]++;
        else if (!strcmp(c.kind, "paper"))
            paper(&c), n[3]++;
        else
            fail_msg("cost.csv:%d: kind '%s'", line_no, c.kind);
    }
    fclose(f);
    assert_true(n[0] > 100 && n[1] > 100 && n[2] > 300 && n[3] > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_line_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
