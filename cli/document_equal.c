/* document_equal.c - the part of docs/cost.md with evictions that are implemented equally well,
 * beside published and measured ones. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/document.h"
#include "kvt/arena.h"
#include "kvt/cost.h"

enum { SLOTS = 128, N_LENGTH = 4 };

static const int64_t lengths[N_LENGTH] = {4096, 8192, 16384, 32768};

/* Policies of the table. */
static const struct {
    const char *title, *policy;
    int64_t draft_tokens; /* 0: the policy's own number */
    bool as_published;    /* that is how it was published */
    const char *figure;   /* what was measured of it, at each length; NULL: nothing */
} entries[] = {
    {"StreamingLLM", "streaming", 0, true, NULL},
    {"SnapKV", "snapkv", 0, true, "G13"},
    {"TOVA", "tova", 0, true, NULL},
    {"LookaheadKV", "lookaheadkv", 0, true, "G12"},
    {"H2O", "h2o", 0, true, NULL},
    {"LAQ, 8 drafts", "laq", 8, false, NULL},
    {"LAQ, 32 drafts", "laq", 32, true, "G14"},
    {"SpecKV, 32 drafts", "speckv", 32, true, "G15"},
};
enum { N_ENTRY = sizeof entries / sizeof entries[0], LOOKAHEAD = 3, LAQ_8 = 5, LAQ_32 = 6 };
static const char figure_prefill[] = "G11";

/* The published figures (kvt_cost_figures()). */
typedef struct published {
    kvt_figure *figure;
    int n;
} published;

/* Ms of the figure at the length of that number: its cells stand in this order; NAN: none. */
static double measured(const published *p, const char *id, int at)
{
    for (int i = 0; i < p->n && id; i++)
        if (!strcmp(p->figure[i].id, id) && at-- == 0)
            return p->figure[i].published;
    return NAN;
}

/* Llama-3.1-8B on an H100; false: a name is not known. is_default: nothing was measured. */
static bool predict(kvt_cost *out, bool *is_default, const char *policy,
                    kvt_cost_profile profile, int64_t draft_tokens, int64_t n)
{
    kvt_cost_geometry g, draft;
    kvt_machine m;
    kvt_published constants;
    kvt_cost_work work;
    kvt_cost_load load;
    kvt_cost_setting setting = {0};
    kvt_use *use;
    kvt_err err;
    if (kvt_cost_geometry_find(&g, "llama-3.1-8b", &err) ||
        kvt_cost_geometry_find(&draft, g.draft, &err) ||
        kvt_machine_find(&m, "h100-sxm", &err) || kvt_use_parse(&use, NULL, policy, &err))
        return false;
    kvt_cost_work_of(&work, use, &g, n, SLOTS, KVT_ACT_OWN);
    kvt_cost_load_assume(&load, use, &work, &g, &setting, n, 0, SLOTS);
    kvt_cost_constants(&constants, &m, profile, use->policy->name);
    if (draft_tokens > 0)
        constants.draft_tokens = draft_tokens;
    *is_default = constants.is_default;
    kvt_use_free(use);
    kvt_cost_predict(out, &(kvt_cost_case){.geometry = &g,
                                           .draft = &draft,
                                           .constants = &constants,
                                           .work = &work,
                                           .load = &load,
                                           .setting = &setting,
                                           .n_prompt = n,
                                           .budget = SLOTS});
    return true;
}

/* "38.04 (2.2 %)" */
static const char *share(char *out, size_t n, double ms, double prefill_ms)
{
    char a[32];
    double percent = 100 * ms / prefill_ms;
    if (!(ms > 0))
        snprintf(out, n, "-");
    else
        snprintf(out, n, "%s (%.*f %%)", document_number(a, sizeof a, ms),
                 percent < 1    ? 2
                 : percent < 10 ? 1
                                : 0,
                 percent);
    return out;
}

static void put_entry(FILE *out, const published *p, int e, int at)
{
    kvt_cost fused, theirs;
    char text[32], a[64], b[96], c[64];
    bool is_default;
    if (!predict(&fused, &is_default, entries[e].policy, KVT_PROFILE_FUSED,
                 entries[e].draft_tokens, lengths[at]) ||
        !predict(&theirs, &is_default, entries[e].policy, KVT_PROFILE_AS_PUBLISHED, 0,
                 lengths[at]))
        return;
    snprintf(text, sizeof text, "%" PRId64, lengths[at]);
    share(a, sizeof a, 1e3 * fused.evict.total, 1e3 * fused.prefill.total);
    share(b, sizeof b, entries[e].as_published ? 1e3 * theirs.evict.total : 0,
          1e3 * theirs.prefill.total);
    if (entries[e].as_published && is_default)
        snprintf(b + strlen(b), sizeof b - strlen(b), ", default");
    if (entries[e].as_published && theirs.short_bytes > 0)
        snprintf(b + strlen(b), sizeof b - strlen(b), ", does not fit");
    document_row(out,
                 (const char *const[]){text, entries[e].title, a, b,
                                       share(c, sizeof c, measured(p, entries[e].figure, at),
                                             measured(p, figure_prefill, at))},
                 5);
}

static void put_prefill(FILE *out, const published *p, int at)
{
    kvt_cost fused, theirs;
    char text[32], a[32], b[32], c[32];
    bool is_default;
    if (!predict(&fused, &is_default, "full", KVT_PROFILE_FUSED, 0, lengths[at]) ||
        !predict(&theirs, &is_default, "full", KVT_PROFILE_AS_PUBLISHED, 0, lengths[at]))
        return;
    snprintf(text, sizeof text, "%" PRId64, lengths[at]);
    document_row(
        out,
        (const char *const[]){text, "dense prefill",
                              document_number(a, sizeof a, 1e3 * fused.prefill.total),
                              document_number(b, sizeof b, 1e3 * theirs.prefill.total),
                              document_number(c, sizeof c, measured(p, figure_prefill, at))},
        5);
}

static double times(kvt_cost_profile profile, int laq, int at)
{
    kvt_cost look, drafts;
    bool is_default;
    if (!predict(&look, &is_default, "lookaheadkv", profile, 0, lengths[at]) ||
        !predict(&drafts, &is_default, "laq", profile, entries[laq].draft_tokens, lengths[at]))
        return NAN;
    return drafts.evict.total / look.evict.total;
}

/* How many times LookaheadKV's overhead LAQ's is. */
static void put_ratios(FILE *out, const published *p)
{
    document_header(out,
                    (const char *const[]){"prompt", "fused, 8 drafts", "fused, 32 drafts",
                                          "as published, 32 drafts", "measured, 32 drafts"},
                    5);
    for (int at = 0; at < N_LENGTH; at++) {
        char text[32], a[32], b[32], c[32], d[32];
        snprintf(text, sizeof text, "%" PRId64, lengths[at]);
        document_row(
            out,
            (const char *const[]){
                text, document_number(a, sizeof a, times(KVT_PROFILE_FUSED, LAQ_8, at)),
                document_number(b, sizeof b, times(KVT_PROFILE_FUSED, LAQ_32, at)),
                document_number(c, sizeof c, times(KVT_PROFILE_AS_PUBLISHED, LAQ_32, at)),
                document_number(d, sizeof d,
                                measured(p, entries[LAQ_32].figure, at) /
                                    measured(p, entries[LOOKAHEAD].figure, at))},
            5);
    }
}

void document_equal(FILE *out)
{
    published p = {.n = kvt_cost_figures(NULL, 0)};
    p.figure = kvt_alloc(p.n, sizeof *p.figure);
    p.n = p.figure ? kvt_cost_figures(p.figure, p.n) : 0;
    document_header(out,
                    (const char *const[]){"prompt", "policy", "fused, ms", "as published, ms",
                                          "measured, ms"},
                    5);
    for (int at = 0; at < N_LENGTH; at++) {
        put_prefill(out, &p, at);
        for (int e = 0; e < N_ENTRY; e++)
            put_entry(out, &p, e, at);
    }
    fputs("\nHow many times LookaheadKV's overhead LAQ's is:\n\n", out);
    put_ratios(out, &p);
    kvt_free(p.figure);
}
