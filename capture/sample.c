/* sample.c - choosing a token and describing the distribution that it came from.
 *
 * With z_i = logit_i - max and Z = sum exp(z_i):
 *   logp_i  = z_i - ln Z
 *   entropy = ln Z - sum exp(z_i) z_i / Z
 * A logit of -inf is a token that cannot come: it adds nothing to either sum. */
#include "capture/sample.h"

#include "base/rng.h"
#include "base/select.h"
#include "kvt/arena.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct sampler {
    sample_spec spec; /* its digest is in key */
    char key[128];    /* what names the random stream, but for the step */
    int64_t n_vocab;
    int32_t *order;  /* [n_vocab] ids by falling logit */
    double *weight;  /* [n_vocab] in that order */
    kvt_arena *work; /* of the ranking */
};

kvt_code sampler_new(sampler **out, const sample_spec *spec, int64_t n_vocab, kvt_err *err)
{
    if (!(spec->temperature >= 0 && isfinite(spec->temperature)))
        return kvt_fail(err, KVT_USAGE, "temperature: expected 0 (greedy) or more, got %g",
                        spec->temperature);
    if (!(spec->top_p > 0 && spec->top_p <= 1))
        return kvt_fail(err, KVT_USAGE, "top-p: expected above 0 and at most 1, got %g",
                        spec->top_p);
    if (spec->top_k < 0)
        return kvt_fail(err, KVT_USAGE, "top-k: expected 0 (all) or more, got %lld",
                        (long long)spec->top_k);
    if (n_vocab < 1 || n_vocab > INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "vocabulary: %lld tokens", (long long)n_vocab);
    sampler *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    s->spec = *spec;
    s->spec.digest = NULL;
    s->n_vocab = n_vocab;
    snprintf(s->key, sizeof s->key, "sample|%" PRIu64 "|%.64s", spec->seed,
             spec->digest ? spec->digest : "");
    if (spec->temperature > 0) {
        s->order = kvt_alloc(n_vocab, sizeof *s->order);
        s->weight = kvt_alloc(n_vocab, sizeof *s->weight);
        s->work = kvt_arena_new((size_t)n_vocab * 64 + (1 << 20));
        if (!s->order || !s->weight || !s->work) {
            sampler_free(s);
            return kvt_fail_memory(err, (size_t)n_vocab * 12);
        }
    }
    *out = s;
    return KVT_OK;
}

void sampler_free(sampler *s)
{
    if (!s)
        return;
    kvt_free(s->order);
    kvt_free(s->weight);
    kvt_arena_free(s->work);
    kvt_free(s);
}

/* The lowest id of the largest logit. */
static kvt_code best(int32_t *id, const float *logit, int64_t n, kvt_err *err)
{
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logit[i]) || logit[i] == INFINITY)
            return kvt_fail(err, KVT_FORMAT, "logits: token %lld: expected a number, got %g",
                            (long long)i, (double)logit[i]);
        if (logit[i] > logit[at])
            at = i;
    }
    if (logit[at] == -INFINITY)
        return kvt_fail(err, KVT_FORMAT, "logits: all are -inf");
    *id = (int32_t)at;
    return KVT_OK;
}

/* How many of the first n weights, in falling order, reach the fraction p of their sum. */
static int64_t nucleus(const double *weight, int64_t n, double p)
{
    double sum = 0, sofar = 0;
    if (p >= 1)
        return n;
    for (int64_t i = 0; i < n; i++)
        sum += weight[i];
    for (int64_t i = 0; i < n; i++)
        if ((sofar += weight[i]) >= p * sum)
            return i + 1;
    return n;
}

kvt_code sampler_pick(sampler *s, int32_t *id, const float *logit, int64_t step, kvt_err *err)
{
    int32_t top = 0;
    if (best(&top, logit, s->n_vocab, err))
        return err->code;
    *id = top;
    if (s->spec.temperature <= 0)
        return KVT_OK;

    size_t mark = kvt_arena_mark(s->work);
    bool ranked = select_rank(s->order, logit, s->n_vocab, s->work);
    kvt_arena_rewind(s->work, mark);
    if (!ranked)
        return kvt_fail_memory(err, (size_t)s->n_vocab * 64);
    int64_t n = s->spec.top_k > 0 && s->spec.top_k < s->n_vocab ? s->spec.top_k : s->n_vocab;
    for (int64_t i = 0; i < n; i++) {
        double below = (double)logit[s->order[i]] - (double)logit[top]; /* at most 0 */
        s->weight[i] = exp(below / s->spec.temperature);
    }
    n = nucleus(s->weight, n, s->spec.top_p);

    char key[160];
    uint64_t rng[RNG_WORDS];
    int length = snprintf(key, sizeof key, "%s|%" PRId64, s->key, step);
    rng_init(rng, key, (size_t)length);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s->weight[i];
    double left = rng_real(rng) * sum;
    for (int64_t i = 0; i < n; i++) {
        if (s->weight[i] > 0)
            *id = s->order[i]; /* rounding may leave a rest behind the last one */
        if ((left -= s->weight[i]) < 0)
            break;
    }
    return KVT_OK;
}

/* The SAMPLE_TOP largest, the lower id first among equals: insertion into a short sorted list.
 */
static int top_ids(int32_t *id, const float *logit, int64_t n)
{
    int count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (count == SAMPLE_TOP && logit[i] <= logit[id[count - 1]])
            continue;
        int at = count < SAMPLE_TOP ? count++ : count - 1;
        for (; at > 0 && logit[id[at - 1]] < logit[i]; at--)
            id[at] = id[at - 1];
        id[at] = (int32_t)i;
    }
    return count;
}

kvt_code sampler_describe(sampler *s, sample_row *row, const float *logit, int32_t id,
                          kvt_err *err)
{
    int32_t top = 0;
    if (id < 0 || id >= s->n_vocab)
        return kvt_fail(err, KVT_FORMAT, "token: expected an id below %lld, got %d",
                        (long long)s->n_vocab, (int)id);
    if (best(&top, logit, s->n_vocab, err))
        return err->code;
    double max = (double)logit[top], sum = 0, moment = 0;
    for (int64_t i = 0; i < s->n_vocab; i++) {
        double z = (double)logit[i] - max, e = exp(z);
        sum += e;
        if (e > 0)
            moment += e * z;
    }
    double log_sum = log(sum);
    int n = top_ids(row->id, logit, s->n_vocab);
    for (int i = 0; i < SAMPLE_TOP; i++) {
        if (i >= n)
            row->id[i] = -1;
        row->logp[i] = i < n ? (float)((double)logit[row->id[i]] - max - log_sum) : -INFINITY;
    }
    row->nll = (float)(log_sum - ((double)logit[id] - max));
    row->entropy = (float)(log_sum - moment / sum);
    return KVT_OK;
}
