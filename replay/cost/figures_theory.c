/* figures_theory.c - LookaheadKV's theory table (arXiv 2603.10899, appendix B) under the
 * conventions that it was computed with (profile paper-lkv). */
#include "replay/cost/figures.h"

#include <math.h>

#define SOURCE FIGURE_LOOKAHEADKV_SOURCE

static figure_case of(const char *policy, int64_t n)
{
    figure_case f = figure_lookaheadkv(policy, n);
    f.machine = "paper-lkv";
    f.profile = KVT_PROFILE_PAPER_LKV;
    return f;
}

static void forward(figure_list *list)
{
    static const figure_group math = {
        "G5", "Theory: FLOP of a forward pass", "2^40", "paper-lkv", SOURCE, 0, FITTED};
    static const figure_group time = {
        "G6", "Theory: a forward pass", "ms", "paper-lkv", SOURCE, 0.005, FITTED};
    static const figure_cell flops[] = {FIGURE_AT_LENGTHS("Llama-3.1-8B", 60, 136, 336, 928)};
    static const figure_cell ms[] = {FIGURE_AT_LENGTHS("Llama-3.1-8B", 113, 257, 635, 1754)};
    kvt_cost_geometry g;
    kvt_err err;
    bool known = kvt_cost_geometry_find(&g, "llama-3.1-8b", &err) == KVT_OK;
    for (int i = 0; i < FIGURE_LENGTHS; i++)
        figure_put(list, &math, flops[i].what, flops[i].published,
                   known ? (kvt_cost_linear_flops(&g, flops[i].n) +
                            kvt_cost_attention_flops(&g, flops[i].n, true)) /
                               0x1p40
                         : NAN);
    for (int i = 0; i < FIGURE_LENGTHS; i++) {
        kvt_cost cost;
        figure_case f = of("full", ms[i].n);
        figure_predict(&cost, &f);
        figure_put(list, &time, ms[i].what, ms[i].published, cost.prefill.total * 1e3);
    }
}

static double overhead(const char *policy, int64_t n)
{
    kvt_cost cost;
    figure_case f = of(policy, n);
    figure_predict(&cost, &f);
    return cost.evict.total * 1e3;
}

static void overheads(figure_list *list)
{
    static const figure_group g = {
        "G7", "Theory: overhead of an eviction", "ms", "paper-lkv", SOURCE, 0.01, FITTED};
    static const figure_group copy = {
        "G8", "Theory: overhead of an eviction", "ms", "paper-lkv", SOURCE, 0, FITTED};
    static const struct {
        const char *policy;
        figure_cell at[FIGURE_LENGTHS];
    } rows[] = {
        {"lookaheadkv", {FIGURE_AT_LENGTHS("LookaheadKV", 0.92, 1.03, 1.27, 1.74)}},
        {"speckv", {FIGURE_AT_LENGTHS("SpecKV", 52.10, 79.53, 157.05, 402.80)}},
        {"laq", {FIGURE_AT_LENGTHS("LAQ", 233.81, 234.59, 236.15, 239.26)}},
    };
    static const figure_cell snap[] = {FIGURE_AT_LENGTHS("SnapKV", 0.01, 0.01, 0.01, 0.01)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < FIGURE_LENGTHS; k++)
            figure_put(list, &g, rows[i].at[k].what, rows[i].at[k].published,
                       overhead(rows[i].policy, rows[i].at[k].n));
    for (int k = 0; k < FIGURE_LENGTHS; k++) /* printed with two decimals */
        figure_put_within(list, &copy, snap[k].what, snap[k].published,
                          overhead("snapkv", snap[k].n), 0.005, 0.015);
}

/* The columns of math and traffic are printed as whole numbers. */
#define FLOPS(name, a, b, c, d)                      \
    {                                                \
        FIGURE_AT_LENGTHS(name ", FLOP", a, b, c, d) \
    }
#define BYTES(name, a, b, c, d)                       \
    {                                                 \
        FIGURE_AT_LENGTHS(name ", bytes", a, b, c, d) \
    }

static void columns(figure_list *list)
{
    static const figure_group math = {
        "G9", "Theory: FLOP with the policy", "2^40", "paper-lkv", SOURCE, 0, FITTED};
    static const figure_group traffic = {
        "G9", "Theory: bytes moved with the policy", "GiB", "paper-lkv", SOURCE, 0, FITTED};
    static const struct {
        const char *policy;
        figure_cell flops[FIGURE_LENGTHS], bytes[FIGURE_LENGTHS];
    } rows[] = {
        {"full", FLOPS("forward only", 60, 136, 336, 928),
         BYTES("forward only", 13, 13, 13, 13)},
        {"lookaheadkv", FLOPS("LookaheadKV", 60, 137, 337, 929),
         BYTES("LookaheadKV", 13, 13, 13, 13)},
        {"snapkv", FLOPS("SnapKV", 60, 136, 336, 928), BYTES("SnapKV", 13, 13, 13, 13)},
        {"speckv", FLOPS("SpecKV", 70, 159, 398, 1115), BYTES("SpecKV", 77, 81, 89, 106)},
        {"laq", FLOPS("LAQ", 61, 137, 337, 930), BYTES("LAQ", 444, 445, 447, 451)},
    };
    enum { N_POLICY = sizeof rows / sizeof rows[0] };
    for (size_t i = 0; i < 2 * N_POLICY; i++) {
        bool bytes = i >= N_POLICY;
        for (int k = 0; k < FIGURE_LENGTHS; k++) {
            const figure_cell *at = bytes ? &rows[i - N_POLICY].bytes[k] : &rows[i].flops[k];
            figure_parts parts;
            figure_case f = of(rows[i % N_POLICY].policy, at->n);
            double got = NAN, room = 1;
            if (figure_open(&parts, &f))
                got = bytes ? cost_paper_bytes(&parts.c) / 0x1p30
                            : cost_paper_flops(&parts.c) / 0x1p40;
            if (at->published == 106)
                room = 0.015 * at->published; /* 104.8: the one cell that does not come out */
            figure_put_within(list, bytes ? &traffic : &math, at->what, at->published, got,
                              at->published - room, at->published + room);
        }
    }
}

/* What the table's own cells say about the paper's headline at 32K. */
static void ratios(figure_list *list)
{
    static const figure_group times = {
        "G18", "Theory at 32,768 tokens", "1", "paper-lkv", SOURCE, 0.015, FITTED};
    static const figure_group share = {
        "G18", "Theory at 32,768 tokens", "%", "paper-lkv", SOURCE, 0.015, FITTED};
    kvt_cost cost;
    figure_case f = of("lookaheadkv", 32768);
    figure_predict(&cost, &f);
    figure_put(list, &times, "overhead of LAQ / of LookaheadKV", 239.26 / 1.74,
               overhead("laq", 32768) / (cost.evict.total * 1e3));
    figure_put(list, &share, "overhead of LookaheadKV, of the forward pass", 100 * 1.74 / 1754,
               100 * cost.evict_frac);
}

void figures_theory(figure_list *list)
{
    forward(list);
    overheads(list);
    columns(list);
    ratios(list);
}
