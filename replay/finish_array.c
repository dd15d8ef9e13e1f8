/* finish_array.c - the arrays of a result, and its note. */
#include "replay/finish_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"

enum { NOTE_MAX = 1000, NOTE_CELL = 72 }; /* what a result file reads back; room for a cell's */

/* ---- arrays --------------------------------------------------------------------------------
 */

/* Copies the replayed layers of an array [outer L inner]. */
static void *pick(const finisher *f, const void *from, int64_t outer, int64_t inner,
                  size_t size)
{
    int64_t L = f->r->n_layer, all = f->p->n_layer;
    if (!from)
        return NULL;
    char *out = kvt_alloc(outer * L * inner, size);
    for (int64_t o = 0; out && o < outer; o++)
        for (int64_t i = 0; i < L; i++)
            memcpy(out + (size_t)((o * L + i) * inner) * size,
                   (const char *)from + (size_t)((o * all + f->layer[i]) * inner) * size,
                   (size_t)inner * size);
    return out;
}

/* Lost mass of each row, mean over the heads of its lane. */
static float *lane_lost(const finisher *f)
{
    const pass *p = f->p;
    int per = p->n_head / p->n_lane;
    int64_t M = p->n_response, n = (int64_t)f->r->n_layer * p->n_lane;
    float *out = p->lost ? kvt_alloc(p->n_cell * n * M, sizeof *out) : NULL;
    for (int c = 0; out && c < p->n_cell; c++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t from =
                pass_head(p, c, f->layer[i / p->n_lane], (int)(i % p->n_lane) * per) * M;
            for (int64_t m = 0; m < M; m++) {
                double sum = 0;
                for (int h = 0; h < per; h++)
                    sum += (double)p->lost[from + h * M + m];
                out[(c * n + i) * M + m] = (float)(sum / per);
            }
        }
    }
    return out;
}

/* The step at which each token left. */
static int32_t *evict_steps(const finisher *f)
{
    const pass *p = f->p;
    int64_t L = f->r->n_layer, inner = p->n_lane * (p->n_prompt + p->n_response);
    int32_t *out = p->evict_step ? kvt_alloc(p->n_cell * L * inner, sizeof *out) : NULL;
    for (int64_t i = 0; out && i < p->n_cell * L; i++) {
        const uint16_t *from = p->evict_step + (i / L * p->n_layer + f->layer[i % L]) * inner;
        for (int64_t t = 0; t < inner; t++)
            out[i * inner + t] = from[t] == STAYS ? -1 : from[t];
    }
    return out;
}

bool finish_arrays(finisher *f)
{
    const pass *p = f->p;
    kvt_result *r = f->r;
    int64_t A = p->n_lane, N = p->n_prompt, M = p->n_response;
    bool scored = false;
    for (int i = 0; i < r->n_layer; i++)
        scored |= p->layer_scored[f->layer[i]];
    r->score = scored ? pick(f, p->score, 1, A * N, sizeof *r->score) : NULL;
    r->pinned = scored ? pick(f, p->pinned, 1, A * N, sizeof *r->pinned) : NULL;
    r->rank = pick(f, p->rank, 1, A * N, sizeof *r->rank);
    r->cut = pick(f, p->cut, p->n_cell, A, sizeof *r->cut);
    r->evict_step = evict_steps(f);
    r->kept_count = pick(f, p->seen, p->n_cell, A * M, sizeof *r->kept_count);
    bool loses = p->lost && !pass_is_apart(p); /* nothing leaves: no row lost anything */
    r->lost = loses ? lane_lost(f) : NULL;
    return (r->score || !scored) && (r->rank || !p->rank) && (r->cut || !p->cut) &&
           (r->evict_step || !p->evict_step) && (r->kept_count || !p->seen) &&
           (r->lost || !loses);
}

/* Whether a lane of a cell let every new token go in the decision behind its own row, so that
 * it still holds what it held when the response began. */
static bool is_frozen(const finisher *f, int cell)
{
    const pass *p = f->p;
    int64_t N = p->n_prompt, M = p->n_response;
    for (int i = 0; i < f->r->n_layer && M >= 8 && p->evict_step; i++) {
        for (int a = 0; a < p->n_lane; a++) {
            const uint16_t *gone =
                p->evict_step + pass_lane(p, cell, f->layer[i], a) * (N + M) + N;
            int64_t m = 0;
            while (m < M && gone[m] != STAYS && gone[m] <= m + 1)
                m++;
            if (m == M)
                return true;
        }
    }
    return false;
}

/* "mean 49.3, longest lane 120" of a cell. */
static void add_counts(char *out, size_t cap, const kvt_cell *c)
{
    size_t n = strlen(out);
    if (n < cap)
        snprintf(out + n, cap - n, "mean %.1f, longest lane %lld", c->kept_tokens_mean,
                 (long long)c->kept_tokens_max);
}

/* A policy without a budget of its own: what its threshold gave where a budget was asked for.
 */
static void note_threshold(const finisher *f, char *out, size_t cap)
{
    const pass *p = f->p;
    bool matched = threshold_is_matched(p->use);
    const char *gap = "";
    if (matched)
        snprintf(out, cap, "matched mean: ");
    for (int c = 0; c < p->n_cell; c++) {
        const kvt_cell *cell = &f->r->cell[c];
        size_t n = strlen(out);
        if (strcmp(cell->status, "ok") != 0 || cap - n < NOTE_CELL)
            continue;
        if (matched)
            snprintf(out + n, cap - n, "%sasked %lld (%.1f on the others), ", gap,
                     (long long)p->cell[c].tokens, p->cell[c].matched);
        else
            snprintf(out + n, cap - n, "threshold %.6g: the same set at every budget, ",
                     p->cell[c].threshold);
        add_counts(out, cap, cell);
        gap = "; ";
        if (!matched)
            return;
    }
}

static void note_joins(const finisher *f, char *out, size_t cap)
{
    const pass *p = f->p;
    for (int c = 0; c < p->n_cell; c++) {
        if (strcmp(f->r->cell[c].status, "ok") != 0)
            continue;
        snprintf(out, cap,
                 "keeps what its model decided, whatever the budget: %.3f of the prompt, ",
                 f->r->cell[c].kept_tokens_mean / (double)p->n_prompt);
        add_counts(out, cap, &f->r->cell[c]);
        return;
    }
}

/* How many channels each budget leaves the keys. */
static void note_channels(const finisher *f, char *out, size_t cap)
{
    const pass *p = f->p;
    const char *gap = "channels of a key: ";
    for (int c = 0; c < p->n_cell; c++) {
        size_t n = strlen(out);
        if (strcmp(f->r->cell[c].status, "ok") != 0 || cap - n < NOTE_CELL)
            continue;
        snprintf(out + n, cap - n, "%s%d of %lld at %s (%.3f of the full bytes)", gap,
                 (int)p->lane_channels[pass_lane(p, c, f->layer[0], 0)],
                 (long long)f->info->facts.model.head_dim, p->cell[c].asked->text,
                 (double)f->r->cell[c].kept_bytes / (double)f->r->cell[c].full_bytes);
        gap = ", ";
    }
    size_t n = strlen(out);
    if (p->by_head && n > 0 && cap - n >= NOTE_CELL)
        snprintf(out + n, cap - n, "; keys and values are stored for each query head");
}

/* How much better another sharing out could be, as the allocator says, at the worst budget. */
static void note_gap(const finisher *f, char *out, size_t cap)
{
    const pass *p = f->p;
    double worst = NAN;
    for (int c = 0; p->engine && c < p->n_cell; c++) {
        double gap = kvt_engine_gap(p->engine, c);
        bool ok = strcmp(f->r->cell[c].status, "ok") == 0 && !isnan(gap);
        worst = ok && !(worst > gap) ? gap : worst;
    }
    size_t n = strlen(out);
    if (!isnan(worst) && cap - n > 2 * NOTE_CELL)
        snprintf(out + n, cap - n,
                 "%s%s%s: any other sharing out keeps at most %.4f more of the mass",
                 n ? "; " : "", p->use->share->name,
                 p->use->share->needs & KVT_NEED_FUTURE ? ", which knows the response" : "",
                 worst);
}

static void note_pass(const finisher *f, char *text, size_t cap)
{
    const pass *p = f->p;
    int64_t acted = 0;
    bool recent = false, frozen = false;
    if (p->knows_response && !p->reason[0])
        snprintf(text, cap, "knows the response: a bound, no policy");
    else if (p->joins && !p->reason[0])
        note_joins(f, text, cap);
    else if (p->channels && !p->reason[0])
        note_channels(f, text, cap);
    else if (p->use->traits.by_threshold && !p->reason[0])
        note_threshold(f, text, cap);
    if (text[0])
        return;
    for (int c = 0; c < p->n_cell; c++) {
        acted = kvt_max(acted, f->r->cell[c].acted_count);
        frozen |= p->inside && is_frozen(f, c);
        for (int i = 0; p->engine && i < f->r->n_layer; i++)
            recent |= kvt_engine_kept_latest(p->engine, c, f->layer[i]);
    }
    if (p->inside && acted > 0)
        snprintf(text, cap, "acted %lld times%s", (long long)acted,
                 frozen ? "; frozen: every new token left at once" : "");
    else if (recent)
        snprintf(
            text, cap,
            "the prompt is no longer than the observation window: the latest tokens are kept");
    else if (!p->lost && p->n_response > 0 && !p->reason[0])
        snprintf(text, cap, "level summary: mean mass only, from future/mean");
}

/* Adds that a plan took more memory than it may: the best of its lanes is not known. */
static void note_greedy(const finisher *f, char *out, size_t cap)
{
    const pass *p = f->p;
    size_t n = strlen(out);
    double gap = 0;
    bool greedy = false;
    for (int i = 0; i < f->r->n_layer; i++) {
        gap = fmax(gap, p->plan_gap[f->layer[i]]);
        greedy |= p->plan_greedy[f->layer[i]];
    }
    if (!greedy || n >= cap)
        return;
    if (p->use->traits.needs & KVT_NEED_PLAN)
        snprintf(out + n, cap - n,
                 "%sgreedy, for the best schedule needs more than --oracle-limit: a lane keeps "
                 "at most %.3g%% less mass than it could",
                 n ? "; " : "", 100 * gap);
    else
        snprintf(out + n, cap - n,
                 "%sno regret: the best schedule needs more than --oracle-limit",
                 n ? "; " : "");
}

/* What a reader of the table must know besides its numbers. */
char *finish_note(const finisher *f)
{
    char text[NOTE_MAX] = "";
    note_pass(f, text, sizeof text);
    note_gap(f, text, sizeof text);
    note_greedy(f, text, sizeof text);
    return text[0] ? kvt_copy_text(text) : NULL;
}
