/* hard_traces.c - traces that are hard on policies. */
#include "tests/property/hard_traces.h"

#include "tests/check.h"
#include "tests/runs.h"

#include <stdio.h>

/* ---- numbers -------------------------------------------------------------------------------
 */

/* From -1 to 1, of a place. */
static float random_at(const synth_spec *s, synth_kind kind, int64_t i)
{
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + ((uint64_t)kind << 40) + s->seed;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((double)(x >> 11) / 4503599627370496.0 - 1);
}

static int64_t token_of(const synth_spec *s, int64_t i)
{
    return i / s->head_dim % (s->n_prompt + s->n_response);
}

/* Head of all layers: of queries where kind is SYNTH_Q, else of keys. */
static int64_t head_of(const synth_spec *s, int64_t i)
{
    return i / s->head_dim / (s->n_prompt + s->n_response);
}

/* The keys of the first kv head of the first layer are 0: all its scores are the same. */
static float flat_lane(const synth_spec *s, synth_kind kind, int64_t i)
{
    return kind == SYNTH_K && head_of(s, i) == 0 ? 0 : random_at(s, kind, i);
}

/* C014's toy: the keys of the second kv head are 0. */
static float second_head_zero(const synth_spec *s, synth_kind kind, int64_t i)
{
    return kind == SYNTH_K && head_of(s, i) % s->n_kv_head == 1 ? 0 : random_at(s, kind, i);
}

static float zero_keys(const synth_spec *s, synth_kind kind, int64_t i)
{
    return kind == SYNTH_K ? 0 : random_at(s, kind, i);
}

static float zero_values(const synth_spec *s, synth_kind kind, int64_t i)
{
    return kind == SYNTH_V ? 0 : random_at(s, kind, i);
}

static float all_zero(const synth_spec *s, synth_kind kind, int64_t i)
{
    (void)s, (void)kind, (void)i;
    return 0;
}

/* Every token is the same token. */
static float all_equal(const synth_spec *s, synth_kind kind, int64_t i)
{
    return kind == SYNTH_K || kind == SYNTH_V ? random_at(s, kind, i % s->head_dim)
                                              : random_at(s, kind, i);
}

/* Tokens 3, 4 and 5 have one key and one value (14b: two would penalise each other to zero). */
static float three_equal(const synth_spec *s, synth_kind kind, int64_t i)
{
    int64_t t = token_of(s, i), D = s->head_dim;
    bool one = (kind == SYNTH_K || kind == SYNTH_V) && (t == 4 || t == 5);
    return random_at(s, kind, one ? i - (t - 3) * D : i);
}

/* Logits of some 10,000: rows are one token, and halves hold nothing else. */
static float huge(const synth_spec *s, synth_kind kind, int64_t i)
{
    float x = random_at(s, kind, i);
    return kind == SYNTH_Q || kind == SYNTH_K ? 200 * x : x;
}

/* The largest halves; logits stay finite in floats. */
static float largest(const synth_spec *s, synth_kind kind, int64_t i)
{
    float x = random_at(s, kind, i);
    return kind == SYNTH_WO ? x : x > 0 ? 65000.0F : -65000.0F;
}

/* The smallest halves that are not 0. */
static float smallest(const synth_spec *s, synth_kind kind, int64_t i)
{
    return random_at(s, kind, i) > 0 ? 6e-8F : -6e-8F;
}

/* Rows of the response see the response only: their mass on the prompt is exactly 0. */
static float no_mass(const synth_spec *s, synth_kind kind, int64_t i)
{
    if (kind == SYNTH_WO || kind == SYNTH_V || i % s->head_dim != s->head_dim - 1)
        return random_at(s, kind, i);
    bool response = token_of(s, i) >= s->n_prompt;
    return kind == SYNTH_K ? (response ? 100 : -100) : (response ? 100 : 0);
}

/* Only the last prompt token is ever looked at: sums of all others are exactly 0. */
static float one_token(const synth_spec *s, synth_kind kind, int64_t i)
{
    if (kind == SYNTH_WO || kind == SYNTH_V || i % s->head_dim != s->head_dim - 1)
        return random_at(s, kind, i);
    return kind == SYNTH_Q ? 100 : (float)(token_of(s, i) == s->n_prompt - 1 ? 100 : -100);
}

/* ---- traces --------------------------------------------------------------------------------
 */

static synth_spec base_spec(int64_t n_prompt)
{
    synth_spec s = synth_default();
    s.n_prompt = n_prompt;
    s.last_queries = -1;
    s.level = KVT_FULL;
    s.decision_policy = "dms";
    s.decision_shift = 1;
    s.draft_budget[0] = 1;
    s.draft_budget[1] = n_prompt > 3 ? n_prompt / 2 : 0;
    s.draft_budget[2] = n_prompt > 7 ? 3 : 0;
    s.force = true;
    return s;
}

static synth_spec *put(hard_trace *out, int *n, const char *name, int64_t n_prompt)
{
    hard_trace *t = &out[(*n)++];
    assert_true(*n <= HARD_TRACES_MAX);
    *t = (hard_trace){.name = name, .spec = base_spec(n_prompt)};
    return &t->spec;
}

/* Prompts around windows: 4 (typed), 32 and 64 (published). */
static void put_lengths(hard_trace *out, int *n)
{
    static const struct {
        const char *name;
        int64_t n_prompt;
    } lengths[] = {{"one-token", 1},   {"two-tokens", 2},  {"three-tokens", 3},
                   {"four-tokens", 4}, {"five-tokens", 5}, {"tokens-31", 31},
                   {"tokens-32", 32},  {"tokens-33", 33},  {"tokens-63", 63},
                   {"tokens-64", 64},  {"tokens-65", 65}};
    for (int i = 0; i < CHECK_COUNT(lengths); i++)
        put(out, n, lengths[i].name, lengths[i].n_prompt);
    put(out, n, "no-response", 12)->n_response = 0;
    put(out, n, "one-and-none", 1)->n_response = 0;
    put(out, n, "one-response", 12)->n_response = 1;
    put(out, n, "one-and-one", 1)->n_response = 1;
    put(out, n, "long-response", 6)->n_response = 40;
}

static void put_numbers(hard_trace *out, int *n)
{
    static const struct {
        const char *name;
        float (*draw)(const synth_spec *, synth_kind, int64_t);
    } numbers[] = {
        {"flat-lane", flat_lane}, {"zero-keys", zero_keys},     {"zero-values", zero_values},
        {"all-zero", all_zero},   {"all-equal", all_equal},     {"three-equal", three_equal},
        {"huge", huge},           {"largest", largest},         {"smallest", smallest},
        {"no-mass", no_mass},     {"one-token-mass", one_token}};
    for (int i = 0; i < CHECK_COUNT(numbers); i++)
        put(out, n, numbers[i].name, 16)->draw = numbers[i].draw;
}

static synth_spec *put_heads(hard_trace *out, int *n, const char *name, int64_t n_prompt,
                             int n_head, int n_kv_head)
{
    synth_spec *s = put(out, n, name, n_prompt);
    s->n_head = n_head, s->n_kv_head = n_kv_head;
    return s;
}

static void put_shapes(hard_trace *out, int *n)
{
    put(out, n, "one-layer", 14)->n_layer = 1;
    put_heads(out, n, "one-kv-head", 14, 4, 1);
    put_heads(out, n, "as-many-heads", 14, 3, 3);
    put_heads(out, n, "eight-to-one", 3, 8, 1); /* C013 */
    put_heads(out, n, "seven-to-one", 2, 28, 4);
    put_heads(out, n, "eight-on-two", 9, 8, 2)->draw = second_head_zero; /* C014 */
    put(out, n, "sliding", 20)->window = 4;
    put(out, n, "sliding-one", 12)->window = 1;
    put(out, n, "sliding-exact", 12)->window = 12; /* C015 */
    put(out, n, "some-layers", 14)->model_layers = 7;
}

/* Levels that store no decisions. */
static void put_level(hard_trace *out, int *n, const char *name, kvt_level level)
{
    synth_spec *s = put(out, n, name, 14);
    s->level = level;
    s->decision_policy = NULL;
}

static void put_levels(hard_trace *out, int *n)
{
    put_level(out, n, "summary", KVT_SUMMARY);
    put(out, n, "replay", 14)->level = KVT_REPLAY;
    put_level(out, n, "train", KVT_TRAIN);
    put(out, n, "few-queries", 14)->last_queries = 2;
    put(out, n, "no-queries", 14)->last_queries = 0;
    put(out, n, "no-rows", 14)->no_rows = true;
    put(out, n, "other-decisions", 14)->decision_policy = "kvpop";
    put(out, n, "no-decisions", 14)->decision_policy = NULL;
}

int hard_traces(hard_trace *out)
{
    int n = 0;
    put_lengths(out, &n);
    put_numbers(out, &n);
    put_shapes(out, &n);
    put_levels(out, &n);
    return n;
}

static void write_trace(char path[400], const synth_spec *spec, const char *name,
                        const char *end)
{
    kvt_err err;
    snprintf(path, 400, "%s/%s%s.h5", runs_dir, name, end);
    synth *s = synth_new(spec);
    if (spec->level == KVT_FULL)
        synth_probes(s);
    CHECK_OK(synth_write(s, path, &err), &err);
    synth_free(s);
}

void hard_files_make(hard_files *f, const hard_trace *t)
{
    synth_spec twin = t->spec;
    kvt_err err;
    twin.seed++;
    *f = (hard_files){.n_scorer = 0};
    write_trace(f->trace, &t->spec, t->name, "");
    write_trace(f->twin, &twin, t->name, "-twin");
    for (int i = 0; synth_scorers[i]; i++) {
        assert_true(i < HARD_SCORERS_MAX);
        snprintf(f->path[i], sizeof f->path[i], "%s/%s.%s.h5", runs_dir, t->name,
                 synth_scorers[i]);
        CHECK_OK(synth_scorer(synth_scorers[i], &t->spec, f->path[i], &err), &err);
        f->scorer[f->n_scorer++] = f->path[i];
    }
}
