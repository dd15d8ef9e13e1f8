/* figures_prefill.c - prefills that were measured elsewhere, and evictions behind them. */
#include "replay/cost/figures.h"

#include <math.h>

static double seconds(const char *geometry, const char *machine, int64_t n)
{
    kvt_cost cost;
    figure_case f = {.geometry = geometry, .machine = machine, .n_prompt = n, .budget = n};
    figure_predict(&cost, &f);
    return cost.prefill.total;
}

static void h20(figure_list *list)
{
    static const figure_group fitted = {
        "G19",
        "Time to first token of Llama-3.1-8B on an H20, fitted to 8K and 128K",
        "s",
        "h20-dapq",
        "DapQ, arXiv 2603.11564",
        0.01,
        FITTED};
    static const figure_group held = {
        "G19",
        "Time to first token of Llama-3.1-8B on an H20, fitted to 8K and 128K",
        "s",
        "h20-dapq",
        "DapQ, arXiv 2603.11564",
        0.01,
        HELD_OUT};
    static const struct {
        const char *what;
        double published;
        int64_t n;
        bool held;
    } rows[] = {{"8,192 tokens", 1.1106, 8192, false},
                {"16,384 tokens", 2.5607, 16384, true},
                {"32,768 tokens", 6.5718, 32768, true},
                {"65,536 tokens", 18.9441, 65536, true},
                {"131,072 tokens", 60.8399, 131072, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        figure_put(list, rows[i].held ? &held : &fitted, rows[i].what, rows[i].published,
                   seconds("llama-3.1-8b", "h20-dapq", rows[i].n));
}

static void pro6000(figure_list *list)
{
    static const figure_group g = {
        "G25",
        "Time to first token on an RTX PRO 6000, two constants fitted to all four",
        "s",
        "pro6000-fastdms",
        "shisa-ai/FastDMS c602b0e",
        0.08,
        FITTED};
    static const struct {
        const char *what, *geometry;
        double published;
        int64_t n;
    } rows[] = {
        {"Llama-3.2-1B, 8,192 tokens", "llama-3.2-1b", 8192 / 123098.0, 8192},
        {"Qwen3-8B, 8,192 tokens", "qwen3-8b", 8192 / 17143.6, 8192},
        {"Llama-3.2-1B, 130,944 tokens", "llama-3.2-1b", 130944 / 22906.4, 130944},
        {"Qwen3-8B, 40,832 tokens", "qwen3-8b", 40832 / 9614.8, 40832},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        figure_put(list, &g, rows[i].what, rows[i].published,
                   seconds(rows[i].geometry, "pro6000-fastdms", rows[i].n));
}

/* What nothing was fitted to: SnapKV on a device without a measured implementation. The table's
 * difference at 131,072 tokens, 662 ms, follows from no traffic (docs/cost.md). */
static void default_overheads(figure_list *list)
{
    static const figure_group g = {
        "X6",           "Overhead of SnapKV on an H20, nothing fitted (default)", "ms",
        "as-published", "differences of times in DapQ, arXiv 2603.11564",         0.33,
        HELD_OUT};
    static const struct {
        const char *what;
        double full, snapkv; /* s */
        int64_t n;
    } rows[] = {{"8,192 tokens", 1.1106, 1.1278, 8192},
                {"16,384 tokens", 2.5607, 2.5909, 16384},
                {"32,768 tokens", 6.5718, 6.6242, 32768},
                {"65,536 tokens", 18.9441, 19.0318, 65536}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kvt_cost cost;
        figure_case f = {.geometry = "llama-3.1-8b",
                         .machine = "h20",
                         .profile = KVT_PROFILE_AS_PUBLISHED,
                         .policy = "snapkv",
                         .n_prompt = rows[i].n,
                         .budget = 1024};
        figure_predict(&cost, &f);
        figure_put(list, &g, rows[i].what, 1e3 * (rows[i].snapkv - rows[i].full),
                   1e3 * cost.evict.total);
    }
}

void figures_prefill(figure_list *list)
{
    h20(list);
    default_overheads(list);
    pro6000(list);
}
