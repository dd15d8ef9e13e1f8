/* figures_geometry.c - published sizes that follow from a model's shapes: caches, pools of
 * pages, learned parameters, files. */
#include "replay/cost/figures.h"

#include <math.h>

static const double MI = 1024.0 * 1024, GI = 1024.0 * 1024 * 1024;

static void caches(figure_list *list)
{
    static const figure_group exact = {"G3",       "Full caches of Llama-3.1-70B",  "GiB",
                                       "geometry", "LookaheadKV, arXiv 2603.10899", 0,
                                       HELD_OUT};
    static const figure_group rounded = {"X1",       "Full caches of Llama-3.1-70B",  "GB",
                                         "geometry", "LookaheadKV, arXiv 2603.10899", 0.01,
                                         HELD_OUT};
    kvt_cost_geometry g;
    kvt_err err;
    bool known = kvt_cost_geometry_find(&g, "llama-3.1-70b", &err) == KVT_OK;
    figure_put(list, &exact, "131,072 tokens", 40,
               known ? kvt_cost_cache_bytes(&g, 131072) / GI : NAN);
    figure_put(list, &exact, "1,048,576 tokens", 320,
               known ? kvt_cost_cache_bytes(&g, 1048576) / GI : NAN);
    figure_put(list, &rounded, "1,000,000 tokens", 330,
               known ? kvt_cost_cache_bytes(&g, 1000000) / 1e9 : NAN);
}

/* GiB of a prompt's cache in pages of 16 tokens that hold all kv heads. */
static double pool(const char *geometry, int64_t n)
{
    figure_parts parts;
    figure_case f = {.geometry = geometry,
                     .machine = "rtx-pro-6000",
                     .n_prompt = n,
                     .budget = n,
                     .setting = {.page_tokens = 16, .shared_pages = true}};
    double held = 0;
    if (!figure_open(&parts, &f))
        return NAN;
    for (int l = 0; l < parts.load.n_layer; l++)
        held += parts.load.kept[l].held;
    return held * kvt_cost_token_bytes(&parts.geometry, 16, 0) /
           (double)parts.geometry.g.n_kv_head / GI;
}

static void pools(figure_list *list)
{
    static const figure_group g = {"G4",       "Pools of a server, pages of 16 tokens", "GiB",
                                   "geometry", "vLLM in shisa-ai/FastDMS c602b0e",      0,
                                   HELD_OUT};
    static const struct {
        const char *what, *geometry;
        double published;
        int64_t n;
    } rows[] = {
        {"Llama-3.2-1B, 10,240 tokens", "llama-3.2-1b", 0.3125, 10240},
        {"Llama-3.2-1B, 67,584 tokens", "llama-3.2-1b", 2.0625, 67584},
        {"Qwen3-8B, 10,240 tokens", "qwen3-8b", 1.40625, 10240},
        {"Qwen3-8B, 67,584 tokens", "qwen3-8b", 9.28125, 67584},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        figure_put(list, &g, rows[i].what, rows[i].published,
                   pool(rows[i].geometry, rows[i].n));
}

/* Weights that LookaheadKV learns for a model. */
static double learned(const char *geometry)
{
    figure_parts parts;
    figure_case f = {.geometry = geometry,
                     .machine = "h100-sxm",
                     .policy = "lookaheadkv",
                     .n_prompt = 4096,
                     .budget = 128};
    return figure_open(&parts, &f) ? parts.work.lora_params + parts.work.embed_params : NAN;
}

static void adapters(figure_list *list)
{
    static const figure_group g = {"G10",
                                   "Weights that LookaheadKV learns, rank 8, 32 tokens",
                                   "million",
                                   "geometry",
                                   "LookaheadKV, arXiv 2603.10899",
                                   0.005,
                                   HELD_OUT};
    static const struct {
        const char *what, *geometry;
        double published;
    } rows[] = {
        {"Llama-3.2-1B", "llama-3.2-1b", 5.4},  {"Llama-3.2-3B", "llama-3.2-3b", 11.9},
        {"Llama-3.1-8B", "llama-3.1-8b", 20.6}, {"Qwen3-1.7B", "qwen3-1.7b", 8.5},
        {"Qwen3-4B", "qwen3-4b", 16.2},         {"Qwen3-8B", "qwen3-8b", 21.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        figure_put(list, &g, rows[i].what, rows[i].published, learned(rows[i].geometry) / 1e6);
}

static void files(figure_list *list)
{
    static const figure_group g = {"X2",
                                   "Model files in 16 bits",
                                   "MiB",
                                   "geometry",
                                   "README of the Llama example of pytorch/executorch",
                                   0.001,
                                   HELD_OUT};
    static const struct {
        const char *what, *geometry;
        double published;
    } rows[] = {{"Llama-3.2-1B", "llama-3.2-1b", 2358}, {"Llama-3.2-3B", "llama-3.2-3b", 6129}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kvt_cost_geometry of;
        kvt_err err;
        bool known = kvt_cost_geometry_find(&of, rows[i].geometry, &err) == KVT_OK;
        figure_put(list, &g, rows[i].what, rows[i].published,
                   known ? 2 * (double)of.theta_all / MI : NAN);
    }
}

void figures_geometry(figure_list *list)
{
    caches(list);
    pools(list);
    adapters(list);
    files(list);
}
