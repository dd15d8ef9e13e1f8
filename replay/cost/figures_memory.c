/* figures_memory.c - peaks of memory that were measured elsewhere. */
#include "replay/cost/figures.h"

#include <math.h>

static const double MI = 1024.0 * 1024, GI = 1024.0 * 1024 * 1024;

static double peak(const figure_case *f)
{
    kvt_cost cost;
    figure_predict(&cost, f);
    return cost.peak.total;
}

/* ---- kvpress: layers are cut as they are done ----------------------------------------------
 */

static void kvpress(figure_list *list)
{
    static const figure_group g = {
        "G20",
        "Peak of Llama-3.1-8B on an A100, 100 tokens generated",
        "GiB",
        "a100-kvpress",
        "NVIDIA/kvpress 8bb29b9, notebook speed_and_memory (read off a figure)",
        0.01,
        HELD_OUT};
    static const struct {
        const char *what;
        double published;
        int64_t n, kept;
    } rows[] = {
        {"8,000 tokens, all kept", 16.85, 8000, 8000},
        {"16,000 tokens, all kept", 18.7, 16000, 16000},
        {"32,000 tokens, all kept", 22.45, 32000, 32000},
        {"64,000 tokens, all kept", 29.9, 64000, 64000},
        {"128,000 tokens, all kept", 44.8, 128000, 128000},
        {"32,000 tokens, half kept", 20.5, 32000, 16000},
        {"64,000 tokens, half kept", 26, 64000, 32000},
        {"128,000 tokens, half kept", 37, 128000, 64000},
        {"32,000 tokens, a fifth kept", 19.3, 32000, 6400},
        {"64,000 tokens, a fifth kept", 23.65, 64000, 12800},
        {"128,000 tokens, a fifth kept", 32.35, 128000, 25600},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        figure_case f = {.geometry = "llama-3.1-8b",
                         .machine = "a100-kvpress",
                         .policy = rows[i].kept < rows[i].n ? "l2norm:compat=kvpress" : "full",
                         .n_prompt = rows[i].n,
                         .n_response = 100,
                         .budget = rows[i].kept};
        figure_put(list, &g, rows[i].what, rows[i].published, peak(&f) / GI);
    }
}

/* ---- KVCache-Factory: logits of every position, sets by query head -------------------------
 */

static double factory(const char *policy, int64_t budget)
{
    figure_case f = {.geometry = "llama-3.1-8b",
                     .machine = "a100-kvpress",
                     .policy = policy,
                     .n_prompt = 9000,
                     .budget = budget,
                     .setting = {.all_logits = true}};
    return peak(&f);
}

static void layouts(figure_list *list)
{
#define SOURCE "Zefan-Cai/KVCache-Factory c97f9d7, issue 49"
    static const figure_group peaks = {
        "G21",   "Peak of Llama-3-8B under SnapKV, 9,000 tokens, logits of all of them",
        "GiB",   "a100-kvpress",
        SOURCE,  0.01,
        HELD_OUT};
    static const figure_group gaps = {
        "G21",   "What a set for each query head takes beyond one for each kv head",
        "MiB",   "a100-kvpress",
        SOURCE,  0,
        HELD_OUT};
#undef SOURCE
    static const char query[] = "snapkv:compat=kvcf", kv[] = "snapkv:compat=kvcf-kv";
    double by_query = factory(query, 2048), by_kv = factory(kv, 2048);
    figure_put(list, &peaks, "a set for each query head, 2,048 slots", 22.49, by_query / GI);
    figure_put(list, &peaks, "a set for each kv head, 2,048 slots", 21.74, by_kv / GI);
    figure_put(list, &gaps, "2,048 slots (difference of those peaks)", 768,
               (by_query - by_kv) / MI);
    figure_put(list, &gaps, "128 slots", 48, (factory(query, 128) - factory(kv, 128)) / MI);
}

/* ---- KVpop ---------------------------------------------------------------------------------
 */

enum { START = 128 }; /* prompt of a long generation */

static double generated(const char *policy, int64_t n, int64_t budget)
{
    figure_case f = {.geometry = "qwen3-8b",
                     .machine = "a100-kvpress",
                     .policy = policy,
                     .n_prompt = START,
                     .n_response = n - START,
                     .budget = budget};
    return peak(&f) / GI;
}

/* Slots of KVpop that take, with what it keeps beside them, the memory of so many without: its
 * paper matches memory. */
static int64_t matched(int64_t slots)
{
    figure_parts parts;
    figure_case f = {.geometry = "qwen3-8b",
                     .machine = "a100-kvpress",
                     .policy = "kvpop",
                     .n_prompt = START,
                     .budget = slots};
    if (!figure_open(&parts, &f))
        return slots;
    double slot =
        kvt_cost_token_bytes(&parts.geometry, 16, 0) / (double)parts.geometry.g.n_kv_head;
    return (int64_t)(((double)slots * slot - parts.work.state_lane) /
                     (slot + parts.work.state_slot));
}

static void kvpop(figure_list *list)
{
#define SOURCE "KVpop, arXiv 2607.05061"
    static const figure_group dense = {
        "G22",   "Peak of Qwen3-8B, framework, all kept (printed as GB)",
        "GiB",   "a100-kvpress",
        SOURCE,  0.02,
        HELD_OUT};
    static const figure_group small = {
        "G23",   "Peak of Qwen3-8B with KVpop, two readings of its budget (printed as GB)",
        "GiB",   "a100-kvpress",
        SOURCE,  0,
        HELD_OUT};
    static const figure_group ratio = {"G23",   "Peak of Qwen3-8B with KVpop, of the dense one",
                                       "1",     "a100-kvpress",
                                       SOURCE,  0,
                                       HELD_OUT};
    static const figure_group bare = {
        "X5",    "Peak of Qwen3-8B with caches of KVpop's budgets, without its state",
        "GiB",   "a100-kvpress",
        SOURCE,  0.17,
        HELD_OUT};
#undef SOURCE
    double full = generated("full", 131072, 131072);
    double fixed = generated("kvpop", 131072, 4096);
    double quarter = generated("kvpop", 131072, matched(32768));
    figure_put(list, &dense, "16,384 tokens", 18, generated("full", 16384, 16384));
    figure_put(list, &dense, "131,072 tokens", 36, full);
    figure_put_within(list, &small, "131,072 tokens, 4,096 slots", 19, fixed, 15.8, 20.4);
    figure_put_within(list, &small, "131,072 tokens, a quarter of the cache's bytes", 19,
                      quarter, 15.8, 20.4);
    figure_put_within(list, &ratio, "131,072 tokens, 4,096 slots", 19.0 / 36, fixed / full,
                      0.44, 0.58);
    figure_put_within(list, &ratio, "131,072 tokens, a quarter of the cache's bytes", 19.0 / 36,
                      quarter / full, 0.44, 0.58);
    figure_put(list, &bare, "4,096 slots", 19, generated("full", 4096, 4096));
    figure_put(list, &bare, "32,768 slots", 19, generated("full", 32768, 32768));
}

void figures_memory(figure_list *list)
{
    kvpress(list);
    layouts(list);
    kvpop(list);
}
