/* scored_run.c - see scored_run.h. */
#include "scored_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"

enum { TENSORS = 24, CAP = 512 };

static void fill(float *x, int64_t n, uint64_t rng[RNG_WORDS], double scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((2 * rng_real(rng) - 1) * scale);
}

lanes *make_lanes(uint64_t seed)
{
    static lanes l;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, &seed, sizeof seed);
    l = (lanes){.geometry = {.n_layer = 1,
                             .n_head = G,
                             .n_kv_head = G,
                             .head_dim = D,
                             .n_hidden = (int64_t)G * D}};
    fill(&l.key[0][0][0], (int64_t)G * T * D, rng, 1);
    fill(&l.value[0][0][0], (int64_t)G * T * D, rng, 1);
    fill(&l.decision[0][0], (int64_t)G * T, rng, 3);
    fill(&l.hidden[0][0], (int64_t)T * G * D, rng, 1);
    for (int g = 0; g < G; g++)
        l.gamma[g] = 1;
    return &l;
}

/* The first n tokens of arrays [G T ...]; a decision lies at the token that it is about. */
static kvt_feed feed_of(const lanes *l, int64_t n)
{
    static float decision[G][T];
    for (int g = 0; g < G; g++)
        for (int64_t t = 0; t < n; t++)
            decision[g][t] = t + l->shift < n ? l->decision[g][t + l->shift] : NAN;
    kvt_feed f = {.keys = kvt_view_of(l->key, KVT_F32, KVT_SHAPE("GTD", G, n, D)),
                  .values = kvt_view_of(l->value, KVT_F32, KVT_SHAPE("GTD", G, n, D)),
                  .hidden = kvt_view_of(l->hidden, KVT_F32, KVT_SHAPE("TE", n, G * D)),
                  .decision = kvt_view_of(decision, KVT_F32, KVT_SHAPE("GT", G, n)),
                  .decision_gamma = kvt_view_of(l->gamma, KVT_F32, KVT_SHAPE("G", G))};
    f.keys.stride[0] = f.values.stride[0] = (int64_t)T * D;
    f.decision.stride[0] = T;
    return f;
}

static void note(run *r, kvt_engine *e, int64_t at)
{
    bool failed = false;
    const char *why = kvt_engine_refused(e, 0, 0, &failed);
    if (why) {
        snprintf(r->why, sizeof r->why, "%s", why);
        r->failed = failed;
        return;
    }
    for (int g = 0; g < G; g++) {
        const int64_t *pos;
        int64_t n;
        kvt_engine_held(e, 0, 0, g, &pos, &n);
        for (int64_t s = 0; s < n; s++)
            r->held[at][g][pos[s]] = true;
    }
}

static void note_scores(run *r, const kvt_engine *e)
{
    for (int g = 0; g < G; g++) {
        const float *score;
        const bool *pinned;
        kvt_engine_ranking(e, 0, 0, g, &score, &pinned);
        r->ranked = score != NULL;
        for (int64_t s = 0; score && s < r->n_prompt; s++)
            r->score[g][s] = pinned[s] ? NAN : score[s];
    }
}

void run_on(run *r, const lanes *l)
{
    kvt_err err;
    kvt_use *use;
    kvt_engine *e = NULL;
    if (kvt_use_parse(&use, NULL, r->policy, &err))
        fail_msg("%s", err.text);
    kvt_sequence seq = {.n_prompt = r->n_prompt,
                        .n_response = T - r->n_prompt,
                        .look_until = r->n_prompt,
                        .geometry = &l->geometry,
                        .layer_id = &l->layer_id,
                        .n_layer = 1};
    kvt_engine_spec spec = {.use = use,
                            .seq = &seq,
                            .budget = &r->budget,
                            .n_budget = 1,
                            .decode = (use->traits.phases & KVT_DECODE) != 0,
                            .every = 1,
                            .weights = r->weights,
                            .threshold = &r->threshold};
    kvt_feed f = feed_of(l, r->n_prompt);
    if (kvt_engine_new(&e, &spec, &err) || kvt_engine_prompt(e, 0, &f, &err))
        fail_msg("%s", err.text);
    if (r->forgets)
        kvt_engine_forget(e, 0);
    if (kvt_engine_decide(e, -1, &err))
        fail_msg("%s", err.text);
    note(r, e, 0);
    note_scores(r, e);
    for (int64_t t = r->n_prompt; t < T && !r->why[0]; t++) {
        f = feed_of(l, t + 1);
        if (kvt_engine_token(e, 0, &f, &err) || kvt_engine_decide(e, -1, &err))
            fail_msg("%s", err.text);
        note(r, e, t + 1 - r->n_prompt);
    }
    kvt_engine_free(e);
    kvt_use_free(use);
}

int64_t run_count(const run *r, int64_t at, int lane)
{
    int64_t n = 0;
    for (int64_t t = 0; t < T; t++)
        n += r->held[at][lane][t];
    return n;
}

/* ---- hand-made scorers ---------------------------------------------------------------------
 */

static kvt_scorer_tensor tensors[TENSORS];
static float store[TENSORS][CAP];
static int n_tensor;

static void add(const char *name, const char *axes, size_t rank, const int64_t *dim)
{
    kvt_scorer_tensor *t = &tensors[n_tensor];
    *t = (kvt_scorer_tensor){.view = kvt_view_of(store[n_tensor], KVT_F32, axes, rank, dim)};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->help, sizeof t->help, "test");
    n_tensor++;
}

static void add_number(const char *name, double value)
{
    store[n_tensor][0] = (float)value;
    add(name, "", 0, NULL);
}

const float *scorer_tensor(const char *name)
{
    for (int i = 0; i < n_tensor; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return store[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void fill_all(int from, uint64_t seed, double gate)
{
    uint64_t rng[RNG_WORDS];
    rng_init(rng, &seed, sizeof seed);
    for (int i = from; i < n_tensor; i++) {
        bool is_gate = strncmp(tensors[i].name, "gate", 4) == 0;
        fill(store[i], CAP, rng, is_gate ? gate : 0.7);
        for (int k = 0; strcmp(tensors[i].name, "decay/log_gamma") == 0 && k < G; k++)
            store[i][k] = -0.01f * (float)(k + 1);
    }
}

static kvt_scorer *save(const char *kind)
{
    char path[64];
    kvt_err err;
    kvt_scorer *s = NULL;
    kvt_scorer_info info = {.n_head = G,
                            .n_kv_head = G,
                            .head_dim = D,
                            .n_hidden = (int64_t)G * D,
                            .model_layers = 1,
                            .n_layer = 1};
    snprintf(path, sizeof path, "test_policies_scored_%d.h5", (int)getpid());
    snprintf(info.kind, sizeof info.kind, "%s", kind);
    snprintf(info.weights_digest, sizeof info.weights_digest, "%032d", 7);
    snprintf(info.model, sizeof info.model, "test");
    snprintf(info.recipe, sizeof info.recipe, "{\"trainer\": \"none\"}");
    snprintf(info.writer, sizeof info.writer, "test");
    snprintf(info.created, sizeof info.created, "2000-01-01T00:00:00Z");
    if (kvt_scorer_write(path, &info, tensors, n_tensor, true, &err) ||
        kvt_scorer_open(&s, path, &err))
        fail_msg("%s", err.text);
    unlink(path);
    return s;
}

static void add_rule(const recipe *r)
{
    add_number("sinks", (double)r->sinks);
    add_number("window", (double)r->window);
    add_number("slots", 1);
    add_number("decay_step", (double)r->step);
    add_number("read_delay", (double)r->delay);
}

kvt_scorer *make_memory(const recipe *r)
{
    static const char *const parts[] = {"query", "key", "value", "gate_i", "gate_f"};
    char name[64];
    n_tensor = 0;
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s/weight", parts[i]);
        if (i < 3)
            add(name, KVT_SHAPE("LGOW", 1, G, O, 2 * D));
        else
            add(name, KVT_SHAPE("LGW", 1, G, 2 * D));
        snprintf(name, sizeof name, "%s/bias", parts[i]);
        if (i < 3)
            add(name, KVT_SHAPE("LGO", 1, G, O));
        else
            add(name, KVT_SHAPE("LG", 1, G));
    }
    add("norm/gain", KVT_SHAPE("LGO", 1, G, O));
    add("out/weight", KVT_SHAPE("LGO", 1, G, O));
    add("out/bias", KVT_SHAPE("LG", 1, G));
    add("decay/log_gamma", KVT_SHAPE("LG", 1, G));
    fill_all(0, 11, r->gate);
    add_rule(r);
    return save("kvpop");
}

kvt_scorer *make_network(const recipe *r, int64_t width)
{
    n_tensor = 0;
    add("in/weight", KVT_SHAPE("LGKW", 1, G, width, 2 * D));
    add("in/bias", KVT_SHAPE("LGK", 1, G, width));
    add("out/weight", KVT_SHAPE("LGK", 1, G, width));
    add("out/bias", KVT_SHAPE("LG", 1, G));
    add("decay/log_gamma", KVT_SHAPE("LG", 1, G));
    fill_all(0, 12, 1);
    add_rule(r);
    return save("kvpop-mlp");
}

kvt_scorer *make_gate(void)
{
    enum { E = G * D, INNER = 4, BASES = 3 };
    n_tensor = 0;
    add("query/weight", KVT_SHAPE("LHOE", 1, G, INNER, E));
    add("query/bias", KVT_SHAPE("LHO", 1, G, INNER));
    add("query/gain", KVT_SHAPE("LO", 1, INNER));
    add("key/weight", KVT_SHAPE("LGOE", 1, G, INNER, E));
    add("key/gain", KVT_SHAPE("LO", 1, INNER));
    add("base", KVT_SHAPE("LGKO", 1, G, BASES, INNER));
    add("logit/bias", KVT_SHAPE("LH", 1, G));
    fill_all(0, 13, 1);
    return save("fast-kvzip");
}
