/* cost_legend.c - see cost_legend.h. */
#include "cli/cost_legend.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/wrap.h"

enum { LABEL = 256, INDENT = 9, WIDTH = 80 };

/* ---- marks ---------------------------------------------------------------------------------
 */

void cost_marks_find(cost_view *v, const cost_lines *lines)
{
    unsigned any = 0, all = ~0u;
    for (int64_t i = 0; i < lines->n; i++)
        for (int64_t k = 0; k < lines->block[i].n; k++) {
            const cost_line *l = &lines->block[i].line[k];
            if (strcmp(l->row->policy, "full") == 0)
                continue;
            any |= l->marks;
            all &= l->marks;
        }
    v->shared = any & all;
    v->varied = any & ~all;
}

/* A name and its sentence, wrapped. */
static void say(const char *name, const char *text)
{
    printf("%-*s", INDENT, name);
    cli_wrap(stdout, text, INDENT, INDENT, WIDTH);
}

static void print_marks(const cost_view *v)
{
    static const char *const text[] = {
#define X(id, letter, text) text,
        COST_MARKS(X)
#undef X
    };
    for (int i = 0; i < COST_MARKS_N; i++) {
        char name[INDENT + 1], line[LABEL];
        bool varied = v->varied >> i & 1;
        if (!varied && !(v->shared >> i & 1))
            continue;
        snprintf(name, sizeof name, varied ? "MARK %c" : "NOTE", cost_mark_letter(i));
        snprintf(line, sizeof line, "%s%s.", varied ? "" : "all rows: ", text[i]);
        say(name, line);
    }
}

/* ---- columns -------------------------------------------------------------------------------
 */

/* Whether a budget stands in the table as what was asked for and what that is. */
static bool has_two_budgets(const cost_lines *lines)
{
    for (int64_t i = 0; i < lines->n; i++)
        for (int64_t k = 0; k < lines->block[i].n; k++) {
            char slots[32];
            const cost_line *l = &lines->block[i].line[k];
            snprintf(slots, sizeof slots, "%.0f", l->slots);
            if (strcmp(l->row->policy, "full") != 0 && strcmp(slots, l->row->budget_asked) != 0)
                return true;
        }
    return false;
}

static bool has_batches(const cost_lines *lines)
{
    for (int64_t i = 0; i < lines->n; i++)
        if (lines->block[i].row->batch > 1)
            return true;
    return false;
}

/* Whose prompts TTFT and PEAK are of; what would fit if they were read one by one. */
static void print_batches(const cost_view *v, const cost_lines *lines)
{
    const kvt_cost_setting *s = v->asked->setting;
    char line[LABEL];
    if (s && s->prefill_batch > 0) {
        snprintf(
            line, sizeof line,
            "at most %lld prompt%s read together: TTFT is of %s, and PEAK counts the cache "
            "of the other requests, too, which decode meanwhile.",
            (long long)s->prefill_batch, s->prefill_batch > 1 ? "s are" : " is",
            s->prefill_batch > 1 ? "those" : "that one");
        say("BATCH", line);
    } else {
        say("BATCH",
            "all prompts are read together, and TTFT and PEAK are of all of them; "
            "with --prefill-batch 1 they are read one by one while the others decode.");
    }
    int64_t lack = 0, fit = 0;
    for (int64_t i = 0; i < lines->n; i++)
        for (int64_t k = 0; k < lines->block[i].n; k++) {
            const kvt_cost_row *r = lines->block[i].line[k].worst;
            lack += r && r->fits == 0;
            fit += r && r->fits == 0 && r->max_batch_apart >= r->batch;
        }
    if (fit > 0) {
        snprintf(line, sizeof line,
                 "%lld of %lld row%s whose batch does not fit would with --prefill-batch 1.",
                 (long long)fit, (long long)lack, lack > 1 ? "s" : "");
        say("NOTE", line);
    }
}

static void print_machine_columns(bool brief)
{
    if (!brief)
        say("BOUND",
            "what prefill, eviction and a decode step wait for: c math, m memory, h host.");
    say("PEAK", brief ? "of the memory of one device, in GiB (2^30 bytes)."
                      : "of the memory of one device, STEADY at the last step, KV MEAN keys "
                        "and values over the steps: all in GiB (2^30 bytes). FITS: the most "
                        "requests together, and GiB that are missing where this batch does "
                        "not fit.");
}

static void print_columns(const cost_view *v, const cost_lines *lines)
{
    char ratio[LABEL];
    if (has_two_budgets(lines))
        say("BUDGET",
            "as it was asked for = slots that a lane keeps of the prompt, in the mean "
            "(layers with a window hold no more than that).");
    printf("FUSED, PUBLISHED  the eviction in ms, its share of the dense prefill (full):\n"
           "         every policy implemented equally well; as its published code.\n");
    if (v->reference) {
        snprintf(ratio, sizeof ratio, "of the eviction %s to that of %s at the same budget.",
                 v->profile, v->reference);
        say("RATIO", ratio);
    }
    say("TTFT", "to the first token, eviction included; TPOT mean over the response.");
    if (has_batches(lines))
        print_batches(v, lines);
    if (v->asked->profile == KVT_PROFILE_PAPER_LKV)
        say("THEORY",
            "the eviction, TTFT and RATIO by the theory of LookaheadKV's paper, at the "
            "rates of an H100 PCIe whatever the machine is; it knows neither a decode "
            "step nor memory.");
    else
        print_machine_columns(v->asked->brief);
    say("BAND %", "how far off each may be: the widest of its rows.");
}

/* ---- settings ------------------------------------------------------------------------------
 */

/* Everything that is not as it is without an option. */
static void print_setting(const kvt_cost_setting *s)
{
    buf b;
    buf_init(&b, 1 << 12);
    if (s->tensor > 1)
        buf_printf(&b, "one of %lld devices, ", (long long)s->tensor);
    if (s->kv_bits > 0 && s->kv_bits < 16)
        buf_printf(&b, "%g-bit keys and values, ", s->kv_bits);
    if (s->weight_bits > 0)
        buf_printf(&b, "%g-bit weights, ", s->weight_bits);
    if (s->prefill_batch > 0)
        buf_printf(&b, "prompts read %lld at a time, ", (long long)s->prefill_batch);
    if (s->chunk > 0)
        buf_printf(&b, "prefill in chunks of %lld tokens, ", (long long)s->chunk);
    if (s->page_tokens > 0)
        buf_printf(&b, "pages of %lld tokens%s, ", (long long)s->page_tokens,
                   s->shared_pages ? " of all kv heads" : "");
    buf_text(&b, s->full_windows ? "windows that store every token, " : "");
    buf_text(&b, s->all_logits ? "logits of all positions, " : "");
    buf_text(&b, s->masked ? "masks that free no memory, " : "");
    if (s->fragmentation > 0)
        buf_printf(&b, "%g %% of memory on top for fragmentation, ", 100 * s->fragmentation);
    if (b.n > 2 && !b.failed) {
        b.data[b.n - 2] = '.'; /* the last comma */
        b.data[b.n - 1] = 0;
        say("SETTING", buf_get(&b));
    }
    buf_fini(&b);
}

/* ---- drafts --------------------------------------------------------------------------------
 */

/* "laq: 8 fused, 32 published, by the model itself" */
static void print_draft(const cost_block *b, const cost_line *l)
{
    char label[LABEL];
    const kvt_cost_row *r = l->row;
    bool itself = strcmp(r->draft_geometry, r->geometry) == 0;
    printf("DRAFT    %s: ", cost_label(label, sizeof label, b, r));
    if (l->n_of[0] && l->n_of[1] && l->draft_of[0] != l->draft_of[1])
        printf("%lld tokens fused, %lld published", (long long)l->draft_of[0],
               (long long)l->draft_of[1]);
    else
        printf("%lld tokens", (long long)r->draft_tokens);
    printf(", by %s.\n", itself ? "the model itself" : r->draft_geometry);
}

/* Whether an earlier line of the block is of the same use. */
static bool is_known(const cost_block *b, int64_t line)
{
    const kvt_cost_row *r = b->line[line].row;
    for (int64_t i = 0; i < line; i++)
        if (strcmp(b->line[i].row->policy, r->policy) == 0 &&
            strcmp(b->line[i].row->policy_params, r->policy_params) == 0)
            return true;
    return false;
}

/* Once a policy: the blocks have the same ones. */
static void print_drafts(const cost_lines *lines)
{
    for (int64_t k = 0; lines->n > 0 && k < lines->block[0].n; k++)
        if (lines->block[0].line[k].row->draft_geometry[0] && !is_known(&lines->block[0], k))
            print_draft(&lines->block[0], &lines->block[0].line[k]);
}

void cost_legend_print(const cost_view *v, const cost_lines *lines)
{
    if (v->asked->setting)
        print_setting(v->asked->setting);
    print_columns(v, lines);
    print_marks(v);
    print_drafts(lines);
}
