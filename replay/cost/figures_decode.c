/* figures_decode.c - decode steps that were measured elsewhere, and one order of policies. */
#include "replay/cost/figures.h"

#include <math.h>

/* ---- RTX PRO 6000 --------------------------------------------------------------------------
 */

static void pro6000(figure_list *list)
{
    static const figure_group g = {
        "G24",
        "A decode step on an RTX PRO 6000, three constants fitted to all fourteen",
        "ms",
        "pro6000-fastdms",
        "vLLM in shisa-ai/FastDMS c602b0e",
        0.07,
        FITTED};
#define ONE   "llama-3.2-1b"
#define EIGHT "qwen3-8b"
    static const struct {
        const char *what, *geometry;
        double tokens_s; /* of the whole batch */
        int64_t batch, n;
        double kv_bits;
    } rows[] = {
        {"Llama-3.2-1B, batch 1, 8,256 slots, 16 bits", ONE, 459.4, 1, 8256, 16},
        {"Llama-3.2-1B, batch 1, 8,256 slots, 8 bits", ONE, 489.4, 1, 8256, 8},
        {"Llama-3.2-1B, batch 8, 8,256 slots, 16 bits", ONE, 2357.5, 8, 8256, 16},
        {"Llama-3.2-1B, batch 8, 8,256 slots, 8 bits", ONE, 2888.7, 8, 8256, 8},
        {"Qwen3-8B, batch 1, 8,256 slots, 16 bits", EIGHT, 89.44, 1, 8256, 16},
        {"Qwen3-8B, batch 1, 8,256 slots, 8 bits", EIGHT, 93.12, 1, 8256, 8},
        {"Qwen3-8B, batch 8, 8,256 slots, 16 bits", EIGHT, 444.59, 8, 8256, 16},
        {"Qwen3-8B, batch 8, 8,256 slots, 8 bits", EIGHT, 583.39, 8, 8256, 8},
        {"Llama-3.2-1B, batch 1, 131,008 slots, 16 bits", ONE, 189.1, 1, 131008, 16},
        {"Llama-3.2-1B, batch 1, 131,008 slots, 8 bits", ONE, 265.9, 1, 131008, 8},
        {"Qwen3-8B, batch 1, 40,896 slots, 16 bits", EIGHT, 69.24, 1, 40896, 16},
        {"Qwen3-8B, batch 1, 40,896 slots, 8 bits", EIGHT, 79.46, 1, 40896, 8},
        {"Qwen3-8B, batch 8, 40,896 slots, 16 bits", EIGHT, 161.6, 8, 40896, 16},
        {"Qwen3-8B, batch 8, 40,896 slots, 8 bits", EIGHT, 286.3, 8, 40896, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        figure_case f = {.geometry = rows[i].geometry,
                         .machine = "pro6000-fastdms",
                         .n_prompt = rows[i].n,
                         .budget = rows[i].n,
                         .setting = {.batch = rows[i].batch, .kv_bits = rows[i].kv_bits}};
        figure_put(list, &g, rows[i].what, 1e3 * (double)rows[i].batch / rows[i].tokens_s,
                   1e3 * figure_step(&f, (double)rows[i].n, 1));
    }
}

/* ---- a phone -------------------------------------------------------------------------------
 */

enum { PHONE_PROMPT = 64 };

static void phone(figure_list *list)
{
    static const figure_group g = {
        "G26",
        "Llama-3.2-3B on a phone (Snapdragon 8 Gen 3), fitted to the 1B",
        "token/s",
        "sd8g3-executorch",
        "README of the Llama example of pytorch/executorch",
        0.04,
        HELD_OUT};
    figure_case f = {.geometry = "llama-3.2-3b",
                     .machine = "sd8g3-executorch",
                     .n_prompt = PHONE_PROMPT,
                     .budget = PHONE_PROMPT};
    figure_case four = f;
    four.setting.weight_bits = 4;
    kvt_cost cost, small;
    figure_predict(&cost, &f);
    figure_predict(&small, &four);
    figure_put(list, &g, "decode, 16 bits", 7.6, 1 / figure_step(&f, PHONE_PROMPT, 1));
    figure_put(list, &g, "prefill of 64 tokens, 16 bits", 21.2,
               PHONE_PROMPT / cost.prefill.total);
    figure_put(list, &g, "prefill of 64 tokens, 4-bit weights", 89.7,
               PHONE_PROMPT / small.prefill.total);
}

/* ---- KVpop's order -------------------------------------------------------------------------
 */

static void order(figure_list *list)
{
    static const figure_group g = {
        "G29",
        "Last step of 131,072 tokens of Qwen3-8B, calculated a second time",
        "ms",
        "fused on h100-sxm",
        "a separate calculator; KVpop, arXiv 2607.05061, has the order",
        0.02,
        HELD_OUT};
    static const struct {
        const char *what, *policy;
        double published, slots, longest;
    } rows[] = {
        {"KVpop, 4,096 slots", "kvpop", 6.75, 4096, 1},
        {"DMS, a quarter, its longest lane 1.5 times the mean", "dms", 9.3, 32768, 1.5},
        {"all kept", "full", 13.9, 131072, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        figure_case f = {.geometry = "qwen3-8b",
                         .machine = "h100-sxm",
                         .policy = rows[i].policy,
                         .n_prompt = 131072,
                         .budget = (int64_t)rows[i].slots};
        figure_put(list, &g, rows[i].what, rows[i].published,
                   1e3 * figure_step(&f, rows[i].slots, rows[i].longest));
    }
}

/* ---- a framework's decode ------------------------------------------------------------------
 */

static void framework(figure_list *list)
{
    static const figure_group g = {
        "G30",
        "100 tokens of Llama-3.1-8B on an A100, two constants fitted to all seven",
        "s",
        "a100-kvpress",
        "NVIDIA/kvpress 8bb29b9, notebook speed_and_memory (read off a figure)",
        0.08,
        FITTED};
    static const struct {
        const char *what;
        double published, slots;
    } rows[] = {
        {"8,000 slots", 3.0, 8000},
        {"16,000 slots", 3.1, 16000},
        {"32,000 slots", 3.35, 32000},
        {"64,000 slots", 5.0, 64000},
        {"128,000 slots", 9.0, 128000},
        {"64,000 tokens, half of them kept", 3.45, 32000},
        {"128,000 tokens, half of them kept", 5.55, 64000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        figure_case f = {.geometry = "llama-3.1-8b",
                         .machine = "a100-kvpress",
                         .n_prompt = (int64_t)rows[i].slots,
                         .budget = (int64_t)rows[i].slots};
        figure_put(list, &g, rows[i].what, rows[i].published,
                   100 * figure_step(&f, rows[i].slots, 1));
    }
}

void figures_decode(figure_list *list)
{
    pro6000(list);
    phone(list);
    order(list);
    framework(list);
}
