/* columns.c - the columns of cost.csv: who, under what, every time and byte with its parts, and
 * how far each may be off. The parts of a total sum to it. */
#include "kvt/arena.h"
#include "kvt/cost.h"

#include <stddef.h>

/* A member of the prediction inside a row, under a name of its own. */
#define PART(name_, member, unit_, help_)                                        \
    {                                                                            \
        .name = (name_), .unit = (unit_), .help = (help_), .type = KVT_COL_REAL, \
        .offset = offsetof(kvt_cost_row, cost.member), .width = sizeof(double)   \
    }
#define PREFILL(id, text) PART("prefill_" #id "_s", prefill.id, "s", text),
#define EVICT(id, text)   PART("evict_" #id "_s", evict.id, "s", text),
#define TPOT(id, text)    PART("tpot_" #id "_s", step_mean.id, "s", text),
#define PEAK(id, text)    PART("peak_" #id "_bytes", peak.id, "bytes", text),
#define STEADY(id, text)  PART("steady_" #id "_bytes", steady.id, "bytes", text),
#define BAND(id, of)                                                    \
    PART(#id "_band_lo_frac", of.lo, "frac", "it may be so much less"), \
        PART(#id "_band_hi_frac", of.hi, "frac", "and so much more"),
/* Columns with the text of a named bottleneck. */
#define NAMED(name_, field, help_)                                                           \
    {                                                                                        \
        .name = (name_), .unit = "", .help = (help_), .type = KVT_COL_TEXT,                  \
        .offset = offsetof(kvt_cost_row, field), .width = sizeof(((kvt_cost_row *)0)->field) \
    }

/* clang-format off */
static const kvt_column columns[] = {
#define C(field, unit, help) KVT_COLUMN(kvt_cost_row, field, unit, help)
    C(run_id,         "", "of the replayed cell whose kept slots were counted; empty: no replay"),
    C(trace_id,       "", "name of its trace file"),
    C(policy,         "", "policy, with /allocator where one was named"),
    C(policy_params,  "", "its parameters, defaults written out"),
    C(exactness,      "", "what a replay of it would be worth: exact, budget-exact, open-loop, surrogate"),
    C(budget_asked,   "", "budget as typed"),
    C(budget_rule,    "", "how it became whole slots"),
    C(budget_tokens,  "tokens", "slots that a lane may hold, mean over lanes"),
    C(budget_frac,    "frac", "the same as a share of the prompt"),
    C(seed,           "", "seed of the replayed cell; empty where nothing was drawn"),
    C(geometry,       "", "model whose shapes were counted"),
    C(machine,        "", "device"),
    C(profile,        "", "fused: every policy implemented equally well; as-published: at the cost of published implementations; paper-lkv: a paper's theory"),
    C(prompt_tokens,  "tokens", "length of the prompt"),
    C(response_tokens,"tokens", "tokens that are decoded"),
    C(batch,          "1", "requests that are decoded together"),
    C(prefill_batch,  "1", "of them, those whose prompts are read together; the time to first token is theirs"),
    C(kv_bits,        "bits", "of a channel of keys and values in the cache"),
    C(weight_bits,    "bits", "of weights inside the layers; empty: the model file's own"),
    C(page_tokens,    "tokens", "of a page of the cache; 0: one allocation a lane"),
    C(tensor_devices, "1", "devices that share each layer; times and bytes are of one"),
    C(chunk_tokens,   "tokens", "of a chunk of the prefill; 0: in one piece"),
    C(shared_pages,   "", "1: a page holds all kv heads of a layer"),
    C(full_windows,   "", "1: layers with a window store every token, too"),
    C(all_logits,     "", "1: logits of all positions are kept"),
    C(masked,         "", "1: evicted slots are masked and stay in memory"),
    C(fragmentation_frac, "frac", "that is added to what is allocated"),
    C(draft_geometry, "", "model that writes the draft; empty: there is none"),
    C(draft_tokens,   "tokens", "that were drafted before the decision"),
    C(assumed,        "", "1: slots follow from the policy's own rule, no trace was replayed"),
    C(mapped,         "", "1: slots were counted on a trace of another model, or of some of the layers"),
    C(scaled,         "", "1: slots were counted at another length"),
    C(is_default,     "", "1: nothing was measured of this policy on this machine; the profile's defaults stand in"),
    C(is_bound,       "", "1: an oracle: its scoring costs nothing, it is a limit"),
    C(is_control,     "", "1: full, random, position or a bound"),
    PART("ttft_s", ttft, "s", "time to first token: dense prefill and eviction"),
    PART("prefill_s", prefill.total, "s", "of it, the dense prefill; the sum of its parts"),
    KVT_PREFILL_PARTS(PREFILL)
    PART("evict_s", evict.total, "s", "of it, the eviction at the end of the prompt; the sum of its parts"),
    PART("evict_frac", evict_frac, "frac", "the same as a share of the dense prefill"),
    KVT_EVICT_PARTS(EVICT)
    PART("tpot_first_s", step_first.total, "s", "the first decode step"),
    PART("tpot_mean_s", step_mean.total, "s", "mean over the response; the sum of its parts"),
    PART("tpot_last_s", step_last.total, "s", "the last decode step"),
    KVT_DECODE_PARTS(TPOT)
    PART("decode_s", decode, "s", "all decode steps"),
    PART("request_s", request, "s", "time to first token and all decode steps"),
    PART("peak_bytes", peak.total, "bytes", "most memory that is needed at once; the sum of its parts"),
    KVT_MEMORY_PARTS(PEAK)
    C(peak_phase,     "", "when that is"),
    C(peak_layer,     "", "in which layer of the prefill; empty: in none"),
    PART("steady_bytes", steady.total, "bytes", "memory at the last decode step; the sum of its parts"),
    KVT_MEMORY_PARTS(STEADY)
    PART("kv_mean_bytes", kv_mean, "bytes", "keys and values, mean over decode steps"),
    C(max_batch,      "1", "requests that fit into the memory together; empty: its size is not known"),
    C(max_context_tokens, "tokens", "longest prompt that fits, by the same budget rule"),
    C(fits,           "", "1: the peak fits into the memory, 0: it does not; empty: its size is not known"),
    PART("short_bytes", short_bytes, "bytes", "that the memory is too small by"),
    C(ttft_bottleneck,  "", "what the prefill waits for: math, memory or host"),
    C(evict_bottleneck, "", "what the eviction waits for"),
    NAMED("tpot_bottleneck", step_bottleneck, "what a decode step waits for"),
    C(cache_resident, "", "1: weights and cache fit into the last-level cache, whose speed the decode step has"),
    C(out_of_range,   "", "1: far outside of what the machine was calibrated on: bands are twice as wide"),
    BAND(ttft, ttft_band)
    BAND(evict, evict_band)
    BAND(tpot, step_band)
    BAND(memory, memory_band)
    C(kept_tokens_mean, "tokens", "slots after the decision at the prompt's end, mean over lanes of this model"),
    C(end_slots_mean_tokens, "tokens", "slots that rows see in the last decode step, mean over lanes"),
    C(status,         "", "ok or skipped"),
    C(error,          "", "why"),
    {0},
#undef C
};
/* clang-format on */

_Static_assert(sizeof columns / sizeof columns[0] <= KVT_COLUMNS_MAX + 1,
               "a schema holds KVT_COLUMNS_MAX columns");

const kvt_column *kvt_cost_columns(void)
{
    return columns;
}

kvt_table kvt_cost_table_of(const kvt_cost_table *t)
{
    return (kvt_table){
        .name = "cost",
        .title = "what a policy costs at a budget and a length, on a machine, under a profile",
        .columns = columns,
        .rows = t->row,
        .n_row = t->n,
        .row_size = sizeof *t->row};
}

void kvt_cost_table_free(kvt_cost_table *t)
{
    kvt_free(t->row);
    *t = (kvt_cost_table){0};
}
