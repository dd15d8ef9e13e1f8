/* hand.c - a small world for the browser. */
#include "tests/check.h"
#include "tests/tui/hand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "kvt/metric.h"

static const char prompt_text[] =
    "You are given a supply contract. Answer with the clause number only.\n"
    "4. Liability.\n"
    "4.1 The Supplier's total liability under this Agreement, whether in contract or tort, "
    "shall not exceed 2,000,000 EUR in any calendar year, except in the case of wilful "
    "misconduct or gross negligence, where liability is unlimited by operation of law.\n"
    "4.2 Neither party is liable for indirect loss, loss of profit or loss of data.\n"
    "5. Term.\n"
    "5.1 This Agreement starts on 1 March 2024 and continues for thirty-six (36) months.\n"
    "\xe7\xac\xac\xe5\x9b\x9b\xe6\x9d\xa1 \xe8\xb4\xa3\xe4\xbb\xbb na\xc3\xafve caf\xc3\xa9\n"
    "Which clause limits liability?\n";
static const char response_text[] =
    "Clause 4 limits the Supplier's total liability to 2,000,000 EUR, except for wilful "
    "misconduct.";

/* C062, C063, C069 and what else a prompt may hold. */
static const struct {
    const char *bytes;
    int n;
} hostile[] = {
    {"%s", 2},
    {"%n", 2},
    {"%1000000d", 9},
    {"%", 1},
    {"\x1b[31m", 5},
    {"\x1b]0;title\x07", 10},
    {"\x1b[2J", 4},
    {"\x9b"
     "5A",
     3},
    {"\r", 1},
    {"\b\b\b", 3},
    {"\xe2\x80\xae", 3},
    {"\xe2\x80\x8b", 3},
    {"\0", 1},
    {"\t", 1},
    {"\n\n", 2},
    {"a\nb", 3},
    {"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb", 11},
    {"\xe2\x9d\xa4\xef\xb8\x8f", 6},
    {"\xf0\x9f\xab\xa8", 4},
    {"\xcc\x81", 2},
    {"\xe6\xbc\xa2\xe5\xad\x97", 6},
    {"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", 8},
    {"\xe2\x8a", 2},
    {"\x95", 1},
    {"\xff\xfe", 2},
    {"", 0},
    {"e\xcc\x81\xcc\x82\xcc\x83\xcc\x84", 9},
    {" ", 1},
    {"\xe4\xbd", 2},
    {"\xa0", 1},
    {"x", 1},
    {"\xd8\xa7\xd9\x84", 4},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], LONG = 200 };

struct hand {
    hand_spec spec;
    tui_data data;
    float *rows; /* f32 [L A M T] */
};

static void *need(void *p)
{
    if (!p) {
        fputs("hand: out of memory\n", stderr);
        abort();
    }
    return p;
}

/* ---- text -------------------------------------------------------------------------------- */

typedef struct text {
    uint8_t *bytes;
    int64_t *offset, n_byte, n_token;
} text;

static void add_token(text *t, const char *bytes, int64_t n)
{
    if (n)
        memcpy(t->bytes + t->n_byte, bytes, (size_t)n);
    t->n_byte += n;
    t->offset[++t->n_token] = t->n_byte;
}

/* A word with the blank in front of it, three letters of a number, a sign, a newline; a
 * character of three bytes is split after its second one. */
static void add_text(text *t, const char *s)
{
    while (*s) {
        size_t n = 1;
        if ((uint8_t)s[0] >= 0xe0)
            n = s[3] == ' ' ? 3 : 2;
        else if ((uint8_t)s[0] >= 0x80 && (uint8_t)s[0] < 0xc0)
            n = 1;
        else if (*s != '\n' && *s != ',' && *s != '.')
            while (s[n] && (uint8_t)s[n] < 0xe0 && !strchr(" \n,.'", s[n]) && n < 14)
                n++;
        add_token(t, s, (int64_t)n);
        s += n;
    }
}

static void make_text(hand *h)
{
    tui_data *d = &h->data;
    int64_t room = 4096 * (h->spec.repeat + 1) + 8192;
    text t = {.bytes = need(kvt_alloc(room, 1)),
              .offset = need(kvt_alloc(room, sizeof(int64_t)))};
    for (int i = 0; i < h->spec.repeat; i++)
        add_text(&t, prompt_text);
    if (h->spec.hostile) {
        char many[LONG];
        memset(many, ' ', sizeof many);
        for (int i = 0; i < N_HOSTILE; i++)
            add_token(&t, hostile[i].bytes, hostile[i].n);
        add_token(&t, many, 128);
        memset(many, 'w', sizeof many);
        add_token(&t, many, LONG);
    }
    d->n_prompt = t.n_token;
    if (!h->spec.no_response)
        add_text(&t, response_text);
    d->n_token = t.n_token;
    d->n_response = d->n_token - d->n_prompt;
    d->text = t.bytes;
    d->offset = t.offset;
    d->no_text = h->spec.no_text;
    d->id = need(kvt_alloc(d->n_token, sizeof *d->id));
    for (int64_t i = 0; i < d->n_token; i++)
        d->id[i] = (int32_t)(i * 37 % 1000);
}

/* ---- attention --------------------------------------------------------------------------- */

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t x = a * 2654435761u ^ b * 2246822519u ^ c * 3266489917u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

/* A sink, a decay over distance, and for each lane a few words that it keeps coming back to. */
static void make_rows(hand *h)
{
    const tui_data *d = &h->data;
    int64_t M = d->n_response, T = d->n_token, n_lane = h->spec.n_layer * h->spec.n_kv_head;
    h->rows = need(kvt_alloc(n_lane * M * T, sizeof *h->rows));
    for (int64_t a = 0; a < n_lane; a++) {
        double longing = (hash((uint32_t)a, 7, 1) % 100) / 100.0;
        for (int64_t m = 0; m < M; m++) {
            float *row = h->rows + (a * M + m) * T;
            double sum = 0;
            for (int64_t t = 0; t <= d->n_prompt + m; t++) {
                double x = 1.0 / (1 + (double)(d->n_prompt + m - t)) + (t == 0);
                if (hash((uint32_t)a, (uint32_t)t, 3) % 23 == 0)
                    x += longing * 4 * (1 + hash((uint32_t)t, (uint32_t)m, 5) % 8) / 8.0;
                row[t] = (float)x;
                sum += x;
            }
            for (int64_t t = 0; t <= d->n_prompt + m; t++)
                row[t] = (float)(row[t] / sum);
        }
    }
}

double hand_attention(const hand *h, int layer, int lane, int64_t m, int64_t t)
{
    const tui_data *d = &h->data;
    return (double)
        h->rows[(((int64_t)layer * h->spec.n_kv_head + lane) * d->n_response + m) * d->n_token +
                t];
}

static kvt_code give_rows(void *user, int layer_id, int lane, bool by_query_head,
                          const float **rows, kvt_err *err)
{
    hand *h = user;
    (void)by_query_head;
    if (h->spec.no_rows)
        return kvt_fail(err, KVT_NOTFOUND, "no rows");
    int64_t size = h->data.n_response * h->data.n_token;
    *rows = h->rows + ((int64_t)layer_id * h->spec.n_kv_head + lane) * size;
    return KVT_OK;
}

static kvt_code give_future(void *user, int layer_id, int lane, bool by_query_head, double *out,
                            kvt_err *err)
{
    hand *h = user;
    (void)by_query_head;
    (void)err;
    for (int64_t t = 0; t < h->data.n_prompt; t++) {
        out[t] = 0;
        for (int64_t m = 0; m < h->data.n_response; m++)
            out[t] += hand_attention(h, layer_id, lane, m, t);
    }
    return KVT_OK;
}

/* ---- results ----------------------------------------------------------------------------- */

static const struct {
    const char *name, *text, *exactness;
    bool inside, control;
} policies[] = {
    {"h2o", "h2o:recent=0.5", "open-loop", true, false},
    {"oracle", "oracle", "exact", false, true},
    {"snapkv", "snapkv:pool=7,window=8", "exact", false, false},
    {"tova", "tova", "open-loop", false, false},
    {"window", "window:size=32", "exact", false, false},
};
enum { H2O, ORACLE, SNAPKV, TOVA, WINDOW, N_POLICY };

static double score_of(const hand *h, int policy, int l, int a, int64_t t)
{
    double mass = 0;
    const tui_data *d = &h->data;
    for (int64_t m = 0; m < d->n_response; m++)
        mass += hand_attention(h, l, a, m, t);
    if (policy == ORACLE)
        return mass;
    /* A guess: the same, spoiled for every third token; sinks and the last eight are pinned. */
    if (t < 2 || t >= d->n_prompt - 8)
        return 1e6;
    return hash((uint32_t)t, (uint32_t)(l * 64 + a), (uint32_t)policy + 11) % 3 == 0
               ? (hash((uint32_t)t, 5, 6) % 100) / 2000.0
               : mass;
}

static void new_result(kvt_result *r, const hand *h, int policy)
{
    const tui_data *d = &h->data;
    int n_cell = policy == TOVA ? 1 : 2, L = h->spec.n_layer, A = h->spec.n_kv_head;
    snprintf(r->trace_digest, sizeof r->trace_digest, "%s", d->digest);
    snprintf(r->trace_id, sizeof r->trace_id, "%s", d->name);
    snprintf(r->policy_text, sizeof r->policy_text, "%s", policies[policy].text);
    r->is_control = policies[policy].control;
    r->n_layer = L;
    r->n_lane = A;
    r->n_prompt = d->n_prompt;
    r->n_response = d->n_response;
    for (int l = 0; l < L; l++)
        r->layer_id[l] = l;
    r->n_cell = n_cell;
    r->cell = need(kvt_alloc(n_cell, sizeof *r->cell));
    r->lane = need(kvt_alloc((int64_t)n_cell * L * A, sizeof *r->lane));
    r->score = need(kvt_alloc(L * A * d->n_prompt, sizeof *r->score));
    r->lost = need(kvt_alloc(n_cell * L * A * d->n_response, sizeof *r->lost));
    r->pinned = need(kvt_alloc(L * A * d->n_prompt, 1));
    if (policies[policy].inside) {
        r->evict_step = need(kvt_alloc(n_cell * L * A * d->n_token, sizeof *r->evict_step));
    } else {
        r->rank = need(kvt_alloc(L * A * d->n_prompt, sizeof *r->rank));
        r->cut = need(kvt_alloc(n_cell * L * A, sizeof *r->cut));
    }
    for (int c = 0; c < n_cell; c++) {
        kvt_cell *cell = &r->cell[c];
        int64_t budget = c == 1 || policy == TOVA ? d->n_prompt / 4 : d->n_prompt / 10;
        for (int v = 0; v < KVT_VALUES_MAX; v++)
            cell->value[v] = (double)NAN;
        snprintf(cell->policy, sizeof cell->policy, "%s", policies[policy].name);
        snprintf(cell->exactness, sizeof cell->exactness, "%s", policies[policy].exactness);
        snprintf(cell->budget_asked, sizeof cell->budget_asked, "%s",
                 c == 1 || policy == TOVA ? "25%" : "10%");
        snprintf(cell->act, sizeof cell->act, "%s",
                 policies[policy].inside ? "decode" : "prefill");
        snprintf(cell->status, sizeof cell->status, "ok");
        if (policy == WINDOW && c == 0) {
            snprintf(cell->status, sizeof cell->status, "skipped");
            snprintf(cell->error, sizeof cell->error,
                     "it protects 32 tokens, the budget is %lld", (long long)budget);
        }
        cell->budget_tokens = (double)budget;
        cell->budget_frac = cell->budget_tokens / (double)d->n_prompt;
        cell->kept_tokens_min = cell->kept_tokens_max = budget;
        cell->seed = KVT_EMPTY_INT;
    }
}

/* Ranks by falling score, the lower position first among equals. */
static void rank_lane(const kvt_result *r, int64_t at, int32_t *rank)
{
    int64_t n = r->n_prompt;
    for (int64_t t = 0; t < n; t++) {
        rank[t] = 0;
        for (int64_t u = 0; u < n; u++)
            rank[t] += r->score[at * n + u] > r->score[at * n + t] ||
                       (r->score[at * n + u] == r->score[at * n + t] && u < t);
    }
}

static double lose(const hand *h, kvt_result *r, int c, int l, int a)
{
    double sum = 0;
    int64_t lane = (int64_t)l * r->n_lane + a, n_lane = (int64_t)r->n_layer * r->n_lane;
    kvt_lane_row *row = &r->lane[c * n_lane + lane];
    row->worst_lost_frac = -1;
    for (int64_t m = 0; m < r->n_response; m++) {
        double lost = 0;
        for (int64_t t = 0; t < h->data.n_token; t++) {
            int32_t e = kvt_result_evict_step(r, c, l, a, t);
            if (e >= 0 && e <= m)
                lost += hand_attention(h, l, a, m, t);
        }
        r->lost[(c * n_lane + lane) * r->n_response + m] = (float)lost;
        sum += lost;
        if (lost > row->worst_lost_frac) {
            row->worst_lost_frac = lost;
            row->worst_step = m;
        }
    }
    return r->n_response ? sum / (double)r->n_response : (double)NAN;
}

static void make_lane(const hand *h, kvt_result *r, int policy, int l, int a)
{
    int64_t lane = (int64_t)l * r->n_lane + a, n = r->n_prompt, T = h->data.n_token;
    int64_t n_lane = (int64_t)r->n_layer * r->n_lane;
    int at = kvt_metric_value("lost_mass_mean_frac"),
        kl = kvt_metric_value("attn_kl_mean_nats");
    int32_t *rank = need(kvt_alloc(n, sizeof *rank));
    for (int64_t t = 0; t < n; t++) {
        r->score[lane * n + t] = (float)score_of(h, policy, l, a, t);
        r->pinned[lane * n + t] = policy != ORACLE && (t < 2 || t >= n - 8);
    }
    rank_lane(r, lane, rank);
    for (int c = 0; c < r->n_cell; c++) {
        int64_t budget = (int64_t)r->cell[c].budget_tokens;
        kvt_lane_row *row = &r->lane[c * n_lane + lane];
        row->layer = l;
        row->kv_head = a;
        row->kept_prefill_tokens = budget;
        snprintf(row->flag, sizeof row->flag, "ok");
        if (r->cut)
            r->cut[c * n_lane + lane] = (int32_t)budget;
        for (int64_t t = 0; t < T && r->evict_step; t++) {
            int32_t *e = &r->evict_step[(c * n_lane + lane) * T + t];
            *e = t >= n || rank[t] < budget ? -1 : 0;
            /* Each step takes the last of the ranking that is left. */
            if (t < n && rank[t] < budget && rank[t] >= 2 && budget - rank[t] < r->n_response)
                *e = (int32_t)(budget - rank[t]);
        }
    }
    if (r->rank)
        memcpy(r->rank + lane * n, rank, (size_t)n * sizeof *rank);
    kvt_free(rank);
    for (int c = 0; c < r->n_cell; c++) {
        kvt_lane_row *row = &r->lane[c * n_lane + lane];
        double lost = lose(h, r, c, l, a);
        for (int v = 0; v < KVT_VALUES_MAX; v++)
            row->value[v] = (double)NAN;
        row->value[at] = lost;
        row->value[kl] = -log(1 - lost);
        row->regret_mean_frac = row->oracle_lost_mass_mean_frac = (double)NAN;
    }
}

static void make_result(hand *h, int policy)
{
    kvt_err err;
    kvt_result *r = need(kvt_result_new());
    int at = kvt_metric_value("lost_mass_mean_frac");
    new_result(r, h, policy);
    for (int l = 0; l < r->n_layer; l++)
        for (int a = 0; a < r->n_lane; a++)
            make_lane(h, r, policy, l, a);
    for (int c = 0; c < r->n_cell; c++) {
        double sum = 0;
        for (int a = 0; a < r->n_layer * r->n_lane; a++)
            sum += tui_data_lane(r, c, 0, a)->value[at];
        r->cell[c].value[at] = sum / (r->n_layer * r->n_lane);
    }
    if (policy == H2O)
        snprintf(r->lane[1].flag, sizeof r->lane[1].flag, "over");
    CHECK_OK(kvt_results_add(h->data.results, r, &err), &err);
}

/* Regret: lost minus the oracle's at the same budget; of tova, none. */
static void make_regret(hand *h)
{
    const kvt_result *oracle = NULL;
    int at = kvt_metric_value("lost_mass_mean_frac");
    for (int64_t i = 0; i < h->data.results->n; i++)
        if (strcmp(h->data.results->result[i]->policy_text, "oracle") == 0)
            oracle = h->data.results->result[i];
    for (int64_t i = 0; i < h->data.results->n && oracle; i++) {
        kvt_result *r = h->data.results->result[i];
        if (r->n_cell != oracle->n_cell)
            continue;
        for (int64_t a = 0; a < (int64_t)r->n_cell * r->n_layer * r->n_lane; a++) {
            r->lane[a].oracle_lost_mass_mean_frac = oracle->lane[a].value[at];
            r->lane[a].regret_mean_frac = r->lane[a].value[at] - oracle->lane[a].value[at];
        }
    }
}

hand *hand_new(const hand_spec *spec)
{
    hand *h = need(kvt_alloc(1, sizeof *h));
    tui_data *d = &h->data;
    h->spec = *spec;
    h->spec.repeat = spec->repeat ? spec->repeat : 1;
    snprintf(d->path, sizeof d->path, "traces/contract-07.h5");
    snprintf(d->name, sizeof d->name, "contract-07");
    snprintf(d->model, sizeof d->model, "smollm2-135m");
    snprintf(d->digest, sizeof d->digest, "%032d", 7);
    d->n_head = spec->n_head;
    d->n_kv_head = spec->n_kv_head;
    make_text(h);
    make_rows(h);
    d->results = need(kvt_alloc(1, sizeof *d->results));
    for (int p = 0; p < N_POLICY; p++)
        if (!spec->no_results && (p != ORACLE || !spec->no_oracle))
            make_result(h, p);
    make_regret(h);
    d->source = (tui_source){.user = h, .rows = give_rows, .future = give_future};
    tui_data_index(d);
    return h;
}

void hand_free(hand *h)
{
    if (!h)
        return;
    tui_data_fini(&h->data);
    kvt_free(h->rows);
    kvt_free(h);
}

tui_data *hand_data(hand *h)
{
    return &h->data;
}
