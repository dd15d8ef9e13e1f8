/* predict.c - one prediction: times, memory, what fits, what binds, how far off it may be. */
#include "replay/cost/time_priv.h"

/* Half width where a measured floor is what an eager eviction takes; limits of s_impl 2 to 4
 * around the default 3. */
static const double floor_band = 0.20, default_band = 1.0 / 3;
enum { FAR = 4 }; /* times outside of what was calibrated */

/* ---- bands ---------------------------------------------------------------------------------
 */

static bool out_of_range(const kvt_cost_case *c)
{
    const kvt_machine *m = &c->constants->machine;
    double n = (double)c->n_prompt;
    if (!(m->range_from > 0))
        return false;
    return n * FAR < m->range_from || n > m->range_to * FAR ||
           (m->range_head_dim > 0 && (double)c->geometry->g.head_dim != m->range_head_dim);
}

static kvt_band band(double total, double lo, double hi, bool wide)
{
    if (total != total)
        return (kvt_band){NAN, NAN};
    double by = wide ? 2 : 1;
    return (kvt_band){lo * by < 1 ? lo * by : 1, hi * by};
}

static double evict_width(const kvt_cost_case *c)
{
    const kvt_published *k = c->constants;
    bool drafts = c->work->draft != KVT_DRAFT_NONE;
    bool eager = k->machine.engine == KVT_ENGINE_EAGER;
    if (eager && k->is_default)
        return default_band;
    double width = drafts ? k->machine.band_draft : k->machine.band_evict;
    if (eager && !drafts && cost_eager_floored(c) && width < floor_band)
        width = floor_band;
    return width;
}

static void add_bands(kvt_cost *out, const kvt_cost_case *c, const kvt_cost_case *prompt)
{
    const kvt_machine *m = &c->constants->machine;
    bool wide = out->out_of_range = out_of_range(c);
    double prefill = m->band_prefill, evict = evict_width(prompt), bytes = m->band_bytes;
    out->ttft_band = band(out->ttft, prefill, prefill, wide);
    out->evict_band = band(out->evict.total, evict, evict, wide);
    out->step_band = band(out->step_mean.total, m->band_decode_lo, m->band_decode_hi, wide);
    out->memory_band = band(out->peak.total, bytes, bytes, false);
}

/* ---- the whole -----------------------------------------------------------------------------
 */

static void add_sums(kvt_cost *out)
{
    out->ttft = out->prefill.total + out->evict.total;
    out->evict_frac = out->evict.total / out->prefill.total;
    out->request = out->ttft + out->decode;
}

/* `prompt`: the case with the requests whose prompts are read together. */
static void predict(kvt_cost *out, const kvt_cost_case *c, const kvt_cost_case *prompt)
{
    cost_bound by = {0}, evict = {0};
    cost_prefill(&out->prefill, &by, c->geometry, &c->constants->machine, prompt->setting,
                 c->n_prompt);
    cost_evict_by(&out->evict, &evict, prompt);
    out->evict_bound = cost_bound_name(&evict);
    out->ttft_bound = cost_bound_name(
        &(cost_bound){by.math + evict.math, by.memory + evict.memory, by.host + evict.host});
    out->draft_tokens = cost_draft_tokens(c);
    cost_decode(out, c);
    cost_memory(out, c);
    cost_capacity(out, c);
}

void cost_undefine(kvt_cost *out)
{
#define X(name, help) .name = NAN,
    const kvt_prefill_cost prefill = {.total = NAN, KVT_PREFILL_PARTS(X)};
    const kvt_evict_cost evict = {.total = NAN, KVT_EVICT_PARTS(X)};
    const kvt_decode_cost step = {.total = NAN, KVT_DECODE_PARTS(X)};
    const kvt_memory_cost memory = {.total = NAN, KVT_MEMORY_PARTS(X)};
#undef X
    const kvt_band unknown = {NAN, NAN};
    *out = (kvt_cost){.prefill = prefill,
                      .evict = evict,
                      .ttft = NAN,
                      .evict_frac = NAN,
                      .step_first = step,
                      .step_mean = step,
                      .step_last = step,
                      .decode = NAN,
                      .request = NAN,
                      .peak = memory,
                      .steady = memory,
                      .peak_layer = -1,
                      .kv_mean = NAN,
                      .max_batch = -1,
                      .max_context = -1,
                      .short_bytes = NAN,
                      .ttft_band = unknown,
                      .evict_band = unknown,
                      .step_band = unknown,
                      .memory_band = unknown};
}

void kvt_cost_predict(kvt_cost *out, const kvt_cost_case *c)
{
    const kvt_cost_setting together = cost_prompt_setting(c->setting);
    kvt_cost_case prompt = *c;
    prompt.setting = &together;
    if (c->constants->machine.engine == KVT_ENGINE_PAPER) { /* nothing but the prompt */
        cost_undefine(out);
        cost_paper(out, &prompt);
    } else {
        *out = (kvt_cost){0};
        predict(out, c, &prompt);
    }
    add_sums(out);
    add_bands(out, c, &prompt);
}

/* ---- names ---------------------------------------------------------------------------------
 */

const char *kvt_memory_phase_name(kvt_memory_phase p)
{
    static const char *const names[] = {
#define X(id, text) text,
        KVT_PHASES(X)
#undef X
    };
    return (size_t)p < sizeof names / sizeof *names ? names[p] : "";
}

const char *kvt_bottleneck_name(kvt_bottleneck b)
{
    static const char *const names[] = {"math", "memory", "host"};
    return (size_t)b < sizeof names / sizeof *names ? names[b] : "";
}

const char *kvt_cost_profile_name(kvt_cost_profile p)
{
    static const char *const names[] = {"fused", "as-published", "paper-lkv"};
    return (size_t)p < sizeof names / sizeof *names ? names[p] : "";
}
