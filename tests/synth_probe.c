/* synth_probe.c - probes of every kind on a synthetic trace, by plain loops in double. */
#include "tests/synth_more.h"

#include "base/half.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

static void *room(int64_t n, size_t size)
{
    void *p = kvt_alloc(n ? n : 1, size);
    if (!p) {
        fputs("synth: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

static float normal(uint64_t rng[RNG_WORDS])
{
    double x = -6;
    for (int i = 0; i < 12; i++)
        x += rng_real(rng);
    return (float)x;
}

static int64_t model_layers(const synth *s)
{
    return s->out.facts.model.n_layer;
}

static int group_of(const synth *s, int head)
{
    return head / (s->spec.n_head / s->spec.n_kv_head);
}

/* ---- what a row sees -----------------------------------------------------------------------
 */

static const void *set_of(const kvt_probe_data *p, kvt_probe_set set)
{
    return p->data[set];
}

static int64_t pos_of(const kvt_probe_data *p, int64_t i)
{
    return ((const int32_t *)set_of(p, KVT_PROBE_SET_POS))[i];
}

static double dot_halves(const uint16_t *a, const uint16_t *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)half_to_float(a[i]) * (double)half_to_float(b[i]);
    return sum;
}

static const uint16_t *query_of(const synth *s, const kvt_probe_data *p, int layer, int head,
                                int64_t i)
{
    int64_t D = s->spec.head_dim, lh = (int64_t)s->out.layer_id[layer] * s->spec.n_head + head;
    return (const uint16_t *)set_of(p, KVT_PROBE_SET_Q) + (lh * p->info.n_row + i) * D;
}

bool synth_probe_sees(const synth *s, const kvt_probe_data *p, int layer, int head, int64_t i,
                      int64_t j)
{
    int model_layer = s->out.layer_id[layer];
    if (!kvt_geometry_sees(&s->out.facts.model, model_layer, pos_of(p, i), j))
        return false;
    const uint8_t *keep = set_of(p, KVT_PROBE_SET_KEEP);
    if (!keep)
        return true;
    int A = p->info.n_keep, lane = A == s->spec.n_head ? head : group_of(s, head);
    return keep[((int64_t)model_layer * A + lane) * s->spec.n_prompt + j];
}

bool synth_probe_sees_own(const synth *s, const kvt_probe_data *p, int layer, int64_t i,
                          int64_t k)
{
    const int32_t *segment = set_of(p, KVT_PROBE_SET_SEGMENT);
    return k <= i && (!segment || segment[k] == segment[i]) &&
           kvt_geometry_sees(&s->out.facts.model, s->out.layer_id[layer], pos_of(p, i),
                             pos_of(p, k));
}

double synth_probe_logit(const synth *s, const kvt_probe_data *p, int layer, int head,
                         int64_t i, int64_t j)
{
    int64_t T = s->spec.n_prompt + s->spec.n_response, D = s->spec.head_dim;
    int64_t lg = (int64_t)layer * s->spec.n_kv_head + group_of(s, head);
    const uint16_t *key = (const uint16_t *)s->data[KVT_DS_KEYS] + (lg * T + j) * D;
    return s->out.facts.model.attn_scale *
           dot_halves(query_of(s, p, layer, head, i), key, (int)D);
}

double synth_probe_own(const synth *s, const kvt_probe_data *p, int layer, int head, int64_t i,
                       int64_t k)
{
    int64_t D = s->spec.head_dim;
    int64_t lg = (int64_t)s->out.layer_id[layer] * s->spec.n_kv_head + group_of(s, head);
    const uint16_t *key =
        (const uint16_t *)set_of(p, KVT_PROBE_SET_K) + (lg * p->info.n_row + k) * D;
    return s->out.facts.model.attn_scale *
           dot_halves(query_of(s, p, layer, head, i), key, (int)D);
}

/* ---- making them ---------------------------------------------------------------------------
 */

static kvt_probe_data *begin_probe(synth *s, kvt_probe_kind kind, const char *name,
                                   int64_t n_row)
{
    kvt_probe_data *p = &s->probe[s->n_probe++];
    kvt_probe_info *i = &p->info;
    *p = (kvt_probe_data){.info = {.kind = kind, .n_row = n_row, .n_segment = 1}};
    snprintf(i->name, sizeof i->name, "%s", name);
    snprintf(i->args, sizeof i->args, "tokens=%lld", (long long)n_row);
    snprintf(i->source_digest, sizeof i->source_digest, "%032x", (unsigned)kind + 1);
    int32_t *pos = room(n_row, sizeof *pos);
    for (int64_t k = 0; k < n_row; k++)
        pos[k] = (int32_t)(s->spec.n_prompt + k);
    p->data[KVT_PROBE_SET_POS] = pos;
    return p;
}

static void add_ids(const synth *s, kvt_probe_data *p, uint64_t rng[RNG_WORDS])
{
    int32_t *id = room(p->info.n_row, sizeof *id);
    for (int64_t i = 0; i < p->info.n_row; i++)
        id[i] = (int32_t)rng_below(rng, s->out.facts.model.n_vocab);
    p->data[KVT_PROBE_SET_ID] = id;
}

static uint16_t *random_halves(uint64_t rng[RNG_WORDS], int64_t n, double factor)
{
    uint16_t *x = room(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = half_from_float((float)factor * normal(rng));
    return x;
}

/* The sink of synth_spec: a last channel that only key 0 answers. */
static void add_sink(const synth *s, uint16_t *q, int64_t n_q, uint16_t *k, int64_t n_k)
{
    int64_t D = s->spec.head_dim;
    for (int64_t i = 0; i < n_q && s->spec.sink > 0; i++)
        q[i * D + D - 1] = half_from_float((float)s->spec.sink);
    for (int64_t i = 0; i < n_k && s->spec.sink > 0; i++)
        k[i * D + D - 1] = 0;
}

/* A row's log-sum-exp over all that it sees; row by row, largest logit first taken out. */
static double row_lse(const synth *s, const kvt_probe_data *p, int layer, int head, int64_t i)
{
    double most = -INFINITY, sum = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t j = 0; j < s->spec.n_prompt; j++) {
            if (!synth_probe_sees(s, p, layer, head, i, j))
                continue;
            double z = synth_probe_logit(s, p, layer, head, i, j);
            most = turn ? most : fmax(most, z);
            sum += turn ? exp(z - most) : 0;
        }
        for (int64_t k = 0; k <= i; k++) {
            if (!synth_probe_sees_own(s, p, layer, i, k))
                continue;
            double z = synth_probe_own(s, p, layer, head, i, k);
            most = turn ? most : fmax(most, z);
            sum += turn ? exp(z - most) : 0;
        }
    }
    return most + log(sum);
}

/* Queries, keys, norms, and with them the lse of the layers that the trace holds. */
static void end_probe(synth *s, kvt_probe_data *p, uint64_t rng[RNG_WORDS])
{
    int64_t L = model_layers(s), H = s->spec.n_head, G = s->spec.n_kv_head,
            D = s->spec.head_dim;
    int64_t P = p->info.n_row;
    uint16_t *q = random_halves(rng, L * H * P * D, s->spec.sharpness);
    uint16_t *k = random_halves(rng, L * G * P * D, 1);
    float *norm = room(L * P, sizeof *norm), *lse = room(L * H * P, sizeof *lse);
    add_sink(s, q, L * H * P, k, L * G * P);
    for (int64_t i = 0; i < L * P; i++)
        norm[i] = (float)(1 + rng_real(rng) * 10);
    p->data[KVT_PROBE_SET_Q] = q, p->data[KVT_PROBE_SET_K] = k;
    p->data[KVT_PROBE_SET_NORM] = norm, p->data[KVT_PROBE_SET_LSE] = lse;
    for (int l = 0; l < s->spec.n_layer; l++)
        for (int h = 0; h < H; h++)
            for (int64_t i = 0; i < P; i++)
                lse[((int64_t)s->out.layer_id[l] * H + h) * P + i] =
                    (float)row_lse(s, p, l, h, i);
}

/* A cache of `budget` slots for each query head: any tokens, and always the last. */
static void add_keep(const synth *s, kvt_probe_data *p, int64_t budget, uint64_t rng[RNG_WORDS])
{
    int64_t N = s->spec.n_prompt, L = model_layers(s), A = s->spec.n_head;
    uint8_t *keep = room(L * A * N, 1);
    for (int64_t a = 0; a < L * A; a++) {
        uint8_t *of = keep + a * N;
        of[N - 1] = 1;
        for (int64_t left = (budget < N ? budget : N) - 1; left > 0;) {
            int64_t j = rng_below(rng, N);
            left -= !of[j];
            of[j] = 1;
        }
    }
    p->info.budget = budget;
    p->info.n_keep = (int)A;
    p->data[KVT_PROBE_SET_KEEP] = keep;
}

static void add_draft(synth *s, int64_t budget, uint64_t rng[RNG_WORDS])
{
    char name[32];
    int64_t n = s->spec.probe_rows < 3 ? s->spec.probe_rows : 3;
    snprintf(name, sizeof name, "draft-%lld", (long long)budget);
    kvt_probe_data *p = begin_probe(s, KVT_PROBE_DRAFT, name, n);
    add_ids(s, p, rng);
    add_keep(s, p, budget, rng);
    end_probe(s, p, rng);
}

/* The prompt in chunks of a third, each behind an instruction of two rows. */
static void add_repeat(synth *s, uint64_t rng[RNG_WORDS])
{
    enum { LEAD = 2 };
    int64_t N = s->spec.n_prompt, chunk = (N + 2) / 3, R = (N + chunk - 1) / chunk;
    int64_t n = N + LEAD * R, at = 0;
    kvt_probe_data *p = begin_probe(s, KVT_PROBE_REPEAT, "repeat", n);
    int32_t *segment = room(n, sizeof *segment), *pos = room(n, sizeof *pos);
    int32_t *begin = room(R, sizeof *begin), *end = room(R, sizeof *end);
    int32_t *from = room(R, sizeof *from);
    for (int64_t r = 0; r < R; r++) {
        begin[r] = (int32_t)(r * chunk);
        end[r] = (int32_t)(r * chunk + chunk < N ? r * chunk + chunk : N);
        from[r] = (int32_t)(at + LEAD);
        for (int64_t i = 0; i < LEAD + end[r] - begin[r]; i++, at++) {
            segment[at] = (int32_t)r;
            pos[at] = (int32_t)(N + i);
        }
    }
    kvt_free((void *)(uintptr_t)p->data[KVT_PROBE_SET_POS]);
    p->data[KVT_PROBE_SET_POS] = pos, p->data[KVT_PROBE_SET_SEGMENT] = segment;
    p->data[KVT_PROBE_SET_BEGIN] = begin, p->data[KVT_PROBE_SET_END] = end;
    p->data[KVT_PROBE_SET_FROM] = from;
    p->info.n_segment = (int)R;
    add_ids(s, p, rng);
    end_probe(s, p, rng);
}

static kvt_code write_probes(const synth *s, kvt_writer *w, kvt_err *err)
{
    for (int i = 0; i < s->n_probe; i++)
        if (kvt_writer_put_probe(w, &s->probe[i], err))
            return err->code;
    return KVT_OK;
}

void synth_probes(synth *s)
{
    static const kvt_probe_kind plain[] = {KVT_PROBE_LOOKAHEADKV, KVT_PROBE_JUDGEQ,
                                           KVT_PROBE_SPECDRAFT, KVT_PROBE_SUFFIX};
    uint64_t rng[RNG_WORDS], key = s->spec.seed + 0x70726f62;
    rng_init(rng, &key, sizeof key);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        kvt_probe_data *p =
            begin_probe(s, plain[i], kvt_probe_kind_name(plain[i]), s->spec.probe_rows);
        if (plain[i] == KVT_PROBE_SPECDRAFT || plain[i] == KVT_PROBE_SUFFIX)
            add_ids(s, p, rng);
        end_probe(s, p, rng);
    }
    for (int i = 0; i < SYNTH_DRAFTS && s->spec.draft_budget[i] > 0; i++)
        add_draft(s, s->spec.draft_budget[i], rng);
    add_repeat(s, rng);
    s->write_probes = write_probes;
}

const kvt_probe_data *synth_probe_of(const synth *s, kvt_probe_kind kind, int64_t budget)
{
    const kvt_probe_data *found = NULL;
    for (int i = 0; i < s->n_probe; i++)
        if (s->probe[i].info.kind == kind && (!found || s->probe[i].info.budget == budget))
            found = &s->probe[i];
    return found;
}
