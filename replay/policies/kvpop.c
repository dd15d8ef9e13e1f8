/* kvpop - keep what a memory of the tokens that followed says will be looked at.
 *
 *   Hauzenberger et al., "KVpop - Key-Value Cache Compression with Predictive Online Pruning",
 *   2026, arXiv:2607.05061 (version 1). No code was published.
 *
 * B = S + w + k slots a lane. The query q sees S sinks, the last w tokens, itself among them,
 * and the best k of E_q = { t : S <= t <= q - w } by
 *
 *   r_t(q) = r_t + floor((q - t) / n_d) log gamma
 *
 * (kvpop-mlp says more of order, heap and budget). A token is scored when it leaves the window:
 * a memory for each lane (mLSTM) takes up every token,
 *
 *   x_t = [k_t ; v_t]                  phi(u) = [softmax(u) ; softmax(-u)]
 *   q~_t = phi(W_q x_t + b_q)          k~_t = phi(W_k x_t + b_k)       v~_t = W_v x_t + b_v
 *   i_t = exp(a^i_t)                   f_t = sigma(a^f_t)              a = w . x_t + b
 *   C_q = f_q C_{q-1} + i_q k~_q v~_q^T            z_q = f_q z_{q-1} + i_q k~_q
 *
 * and is read with the query of the token that leaves, t = q - w, so that w tokens of its
 * future are in it:
 *
 *   y = (q~_t^T C_q) / (q~_t^T z_q)    r_t = a . SiLU(g y / rms(y)) + b'
 *
 * A file with read_delay = 0 reads at insertion (C_t): the paper's static ablation. The state
 * is f32 and holds C exp(-mu), z exp(-mu) with mu_q = max(log f_q + mu_{q-1}, a^i_q), whose
 * factor cancels in y (the paper uses a stabilised form and does not print it).
 *
 * from=decisions reads r_t of a retrofitted model's own trace (/decision/logit of policy kvpop,
 * gamma of each lane) instead of a file: the set at the end of the prompt is then what that
 * model keeps, provided that the trace was captured with the cache evicted; later ones are
 * open-loop. S, w and n_d are parameters then.
 *
 * Not specified, and chosen here: v~ has the width D/2 of q~ before phi; the norm is on (RMS,
 * eps 1e-6), the soft cap off; k is B - S - w, whatever the file was trained for.
 *
 * Differs: the paper trains the whole model to live with the policy; here the model is frozen
 * (surrogate; the paper's tables do not apply). A budget below S + w + 1 is skipped. Cost for
 * each lane and token: O(D^2) for projections and memory; D^2/2 + D floats a lane, one a slot.
 */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct kvpop {
    int from;
    int64_t sinks, window, decay_step;
} kvpop;

enum { FROM_WEIGHTS, FROM_DECISIONS };
/* Tokens whose features are computed at a time. */
enum { TILE = 128 };

static const kvt_choice froms[] = {
    [FROM_WEIGHTS] = {"weights", "", "the scorer of weights=FILE on a frozen model"},
    [FROM_DECISIONS] = {"decisions", "", "scores that the trace of a retrofitted model holds"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(kvpop, from, FROM_WEIGHTS, froms, "where the scores come from"),
    KVT_PARAM(kvpop, sinks, 4, 0, 65536, "tokens",
              "from=decisions: first tokens that are always kept (a file says its own)"),
    KVT_PARAM(kvpop, window, 256, 1, 1048576, "tokens",
              "from=decisions: last tokens that are always kept (a file says its own)"),
    KVT_PARAM(kvpop, decay_step, 1, 1, 1048576, "tokens",
              "from=decisions: age that counts as one step of decay (a file says its own)"),
    {0},
};

/* clang-format off */
enum { Q_WEIGHT, Q_BIAS, K_WEIGHT, K_BIAS, V_WEIGHT, V_BIAS, I_WEIGHT, I_BIAS, F_WEIGHT, F_BIAS,
       GAIN, OUT_WEIGHT, OUT_BIAS, GAMMA, SINKS, WINDOW, STEP, DELAY };
/* clang-format on */

static const kvt_weight weights[] = {
    [Q_WEIGHT] = {"query/weight", "LGOW", "W_q, of [k; v]"},
    [Q_BIAS] = {"query/bias", "LGO", "b_q"},
    [K_WEIGHT] = {"key/weight", "LGOW", "W_k"},
    [K_BIAS] = {"key/bias", "LGO", "b_k"},
    [V_WEIGHT] = {"value/weight", "LGOW", "W_v"},
    [V_BIAS] = {"value/bias", "LGO", "b_v"},
    [I_WEIGHT] = {"gate_i/weight", "LGW", "input gate"},
    [I_BIAS] = {"gate_i/bias", "LG", "its bias"},
    [F_WEIGHT] = {"gate_f/weight", "LGW", "forget gate"},
    [F_BIAS] = {"gate_f/bias", "LG", "its bias"},
    [GAIN] = {"norm/gain", "LGO", "gain of the norm of what was read"},
    [OUT_WEIGHT] = {"out/weight", "LGO", "read-out"},
    [OUT_BIAS] = {"out/bias", "LG", "its bias"},
    [GAMMA] = {"decay/log_gamma", "LG", "decay of a score with age"},
    [SINKS] = {"sinks", "", "first tokens that are always kept"},
    [WINDOW] = {"window", "", "last tokens that are always kept"},
    [STEP] = {"decay_step", "", "tokens of age that count as one step of decay"},
    [DELAY] = {"read_delay", "", "tokens between insertion and read-out"},
    {0},
};

/* The memory of a lane; data holds z [d_m], then C [d_m d_v]. */
typedef struct memory {
    int64_t seen; /* position of the next token that it takes up */
    double mu;
    float data[];
} memory;

/* What a tile of tokens is projected to. */
typedef struct features {
    float *x, *u;           /* [n 2D], [n O] working rows */
    float *query;           /* [n 2O] of the tokens that are read */
    float *key, *value;     /* [n 2O], [n O] of those that are taken up */
    float *gate_i, *gate_f; /* [n] before their activations */
} features;

static void vary(const void *params_, kvt_traits *traits)
{
    const kvpop *p = params_;
    if (p->from == FROM_DECISIONS) {
        traits->needs &= ~(unsigned)(KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_WEIGHTS);
    } else {
        traits->needs &= ~(unsigned)KVT_NEED_DECISION;
        traits->exactness = KVT_SURROGATE;
    }
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const kvpop *p = params_;
    int64_t need = p->sinks + p->window + 1;
    if (p->from == FROM_WEIGHTS || budget >= n_token || budget >= need)
        return true; /* what a file pins is known when it scores */
    snprintf(why, cap,
             "%lld sinks and a window of %lld need a budget of %lld or more, got %lld",
             (long long)p->sinks, (long long)p->window, (long long)need, (long long)budget);
    return false;
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    const kvpop *p = params_;
    size_t d_v = (size_t)seq->geometry->head_dim / 2, d_m = 2 * d_v;
    (void)budget;
    *slot_width = p->from == FROM_WEIGHTS;
    if (p->from == FROM_WEIGHTS)
        *state_size = sizeof(memory) + (d_m * d_v + d_m) * sizeof(float);
}

/* ---- features ------------------------------------------------------------------------------
 */

static void softmax(float *out, const float *u, int64_t n, float sign)
{
    float most = sign * u[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = sign * u[i] > most ? sign * u[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += out[i] = expf(sign * u[i] - most);
    for (int64_t i = 0; i < n; i++)
        out[i] /= sum;
}

/* phi of n projected rows: [n 2O]. */
static void project(float *out, const kvt_lane *lane, const features *f, int64_t n, int weight)
{
    int64_t n_in = lane->weights[weight].dim[1], width = lane->weights[weight].dim[0];
    kvt_affine(f->u, f->x, n_in, n, n_in, lane->weights[weight].data,
               lane->weights[weight + 1].data, width);
    for (int64_t i = 0; i < n; i++) {
        softmax(out + 2 * i * width, f->u + i * width, width, 1);
        softmax(out + (2 * i + 1) * width, f->u + i * width, width, -1);
    }
}

static bool make_features(features *f, const kvt_lane *lane, int64_t n)
{
    int64_t n_in = lane->weights[Q_WEIGHT].dim[1], width = lane->weights[Q_WEIGHT].dim[0];
    kvt_arena *a = lane->scratch;
    f->x = kvt_arena_array(a, n * n_in, sizeof *f->x);
    f->u = kvt_arena_array(a, n * width, sizeof *f->u);
    f->query = kvt_arena_array(a, 2 * n * width, sizeof *f->query);
    f->key = kvt_arena_array(a, 2 * n * width, sizeof *f->key);
    f->value = kvt_arena_array(a, n * width, sizeof *f->value);
    f->gate_i = kvt_arena_array(a, n, sizeof *f->gate_i);
    f->gate_f = kvt_arena_array(a, n, sizeof *f->gate_f);
    return f->x && f->u && f->query && f->key && f->value && f->gate_i && f->gate_f;
}

/* Of the tokens in slots at..at + n - 1, which are taken up. */
static void find_inputs(features *f, const kvt_lane *lane, int64_t at, int64_t n)
{
    const kvt_view *w = lane->weights;
    int64_t n_in = w[Q_WEIGHT].dim[1];
    kvt_key_value(f->x, lane, at, n);
    project(f->key, lane, f, n, K_WEIGHT);
    kvt_affine(f->value, f->x, n_in, n, n_in, w[V_WEIGHT].data, w[V_BIAS].data,
               w[V_WEIGHT].dim[0]);
    kvt_affine(f->gate_i, f->x, n_in, n, n_in, w[I_WEIGHT].data, w[I_BIAS].data, 1);
    kvt_affine(f->gate_f, f->x, n_in, n, n_in, w[F_WEIGHT].data, w[F_BIAS].data, 1);
}

/* ---- the memory ----------------------------------------------------------------------------
 */

/* Takes up one token: k~ [2 d_v], v~ [d_v]. */
static void take_up(memory *m, const float *key, const float *value, float a_i, float a_f,
                    int64_t d_v)
{
    double log_f = a_f < -30 ? (double)a_f : -log1p(exp(-(double)a_f)), was = log_f + m->mu;
    double mu = m->seen > 0 && was > (double)a_i ? was : (double)a_i;
    float in = (float)exp((double)a_i - mu), keep = m->seen > 0 ? (float)exp(was - mu) : 0;
    float *z = m->data, *C = z + 2 * d_v;
    for (int64_t i = 0; i < 2 * d_v; i++, C += d_v) {
        float k = in * key[i];
        z[i] = keep * z[i] + k;
        for (int64_t j = 0; j < d_v; j++)
            C[j] = keep * C[j] + k * value[j];
    }
    m->mu = mu;
    m->seen++;
}

/* r of the token with the query q~ [2 d_v]; y [d_v] is working memory. */
static float read_out(const memory *m, const float *query, const kvt_lane *lane, float *y)
{
    const kvt_view *w = lane->weights;
    int64_t d_v = w[Q_WEIGHT].dim[0];
    const float *z = m->data, *C = z + 2 * d_v, *gain = w[GAIN].data, *out = w[OUT_WEIGHT].data;
    float mass = 0;
    double square = 0, r = (double)kvt_weight_number(lane, OUT_BIAS);
    memset(y, 0, (size_t)d_v * sizeof *y);
    for (int64_t i = 0; i < 2 * d_v; i++, C += d_v) {
        mass += query[i] * z[i];
        for (int64_t j = 0; j < d_v; j++)
            y[j] += query[i] * C[j];
    }
    for (int64_t j = 0; j < d_v; j++) {
        y[j] = mass > 0 ? y[j] / mass : 0; /* features so far apart that nothing is read */
        square += (double)y[j] * (double)y[j];
    }
    double scale = 1 / sqrt(square / (double)d_v + 1e-6);
    for (int64_t j = 0; j < d_v; j++) {
        double u = (double)gain[j] * (double)y[j] * scale;
        r += (double)out[j] * (u / (1 + exp(-u)));
    }
    return (float)r;
}

/* Takes up the slots at..at + n - 1 and reads, after each, the token `delay` before it. The
 * window between them is whole, so that it lies as many slots before. */
static void learn_tile(kvt_lane *lane, features *f, int64_t at, int64_t n, int64_t delay)
{
    memory *m = lane->state;
    int64_t width = lane->weights[Q_WEIGHT].dim[0];
    int64_t first = kvt_max(at - delay, 0), n_read = kvt_max(at + n - delay - first, 0);
    find_inputs(f, lane, at, n);
    kvt_key_value(f->x, lane, first, n_read);
    project(f->query, lane, f, n_read, Q_WEIGHT);
    for (int64_t i = 0; i < n; i++) {
        int64_t slot = at + i - delay;
        take_up(m, f->key + 2 * i * width, f->value + i * width, f->gate_i[i], f->gate_f[i],
                width);
        if (slot >= 0)
            lane->mark[slot] = read_out(m, f->query + 2 * (slot - first) * width, lane, f->u);
    }
}

/* Whether the file is what the state and the read-out are made for. */
static bool is_sound(const kvt_lane *lane)
{
    float delay = kvt_weight_number(lane, DELAY);
    return 2 * lane->weights[Q_WEIGHT].dim[0] == lane->keys.dim[1] && delay >= 0 &&
           delay <= kvt_weight_number(lane, WINDOW);
}

/* What was not taken up yet: the whole prompt at once, then one token after the other. A score
 * that cannot be had is NaN, which is refused. */
static void learn(kvt_lane *lane)
{
    memory *m = lane->state;
    features f;
    int64_t from = kvt_slot_from(lane, m->seen);
    size_t start = kvt_arena_mark(lane->scratch);
    if (from == lane->n_slot)
        return; /* the decision in front of this row has taken it up */
    bool good = is_sound(lane) && make_features(&f, lane, kvt_min(TILE, lane->n_slot - from));
    for (int64_t at = from; good && at < lane->n_slot; at += TILE)
        learn_tile(lane, &f, at, kvt_min(TILE, lane->n_slot - at),
                   (int64_t)kvt_weight_number(lane, DELAY));
    if (!good)
        kvt_no_score(lane->mark, lane->n_slot);
    kvt_arena_rewind(lane->scratch, start);
}

/* ---- hooks ---------------------------------------------------------------------------------
 */

static void step(const void *params_, kvt_lane *lane)
{
    const kvpop *p = params_;
    if (p->from == FROM_WEIGHTS)
        learn(lane);
}

/* The decision lies in front of the row, so that the newest token is taken up here. */
static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const kvpop *p = params_;
    kvt_lane own = *lane;
    kvt_pop rule = {p->sinks, p->window, p->decay_step, log((double)lane->decision_gamma)};
    if (p->from == FROM_WEIGHTS) {
        rule = (kvt_pop){.sinks = (int64_t)kvt_weight_number(lane, SINKS),
                         .window = (int64_t)kvt_weight_number(lane, WINDOW),
                         .step = kvt_max((int64_t)kvt_weight_number(lane, STEP), 1),
                         .log_gamma = (double)kvt_weight_number(lane, GAMMA)};
        learn(&own);
    }
    kvt_pop_score(&rule, p->from == FROM_WEIGHTS ? lane->mark : lane->decision.data, out,
                  pinned, lane);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->state_bytes_slot = sizeof(float);
    work->state_bytes_lane =
        (work->head_dim * (work->head_dim / 2) + work->head_dim) * (int64_t)sizeof(float);
    work->more_bytes_slot = sizeof(int32_t); /* positions: a new token takes any slot */
    double half = (double)work->head_dim / 2, n_in = 2 * (double)work->head_dim;
    /* q~, k~, v~ of half the width, two gates, gain and read-out */
    work->network_params = 3 * half * (n_in + 1) + 2 * (n_in + 1) + 2 * half + 1;
}

const kvt_policy kvt_policy_kvpop = {
    .abi = KVT_POLICY_ABI,
    .name = "kvpop",
    .title = "keep what a memory of the tokens that followed says will be looked at",
    .paper = "Hauzenberger et al., KVpop, 2026, arXiv:2607.05061 (version 1)",
    .about =
        "Past attention says too late which token will matter. KVpop predicts it: a scorer "
        "for each kv head is trained on future attention, and is asked about a token at the "
        "moment when it leaves the window of recent ones.\n\n"
        "A lane holds B = S + w + k tokens: the first S (4), the last w (256), the row's own "
        "among them, and the k best of the others by r_t(q) = r_t + floor((q - t) / n_d) log "
        "gamma, a score that fades with age, gamma learned for each kv head between 0.999 "
        "and 0.999999. It drops before the row attends, so that every row sees exactly min(q "
        "+ 1, B) tokens, prompt and response alike; what went never returns. With n_d = 1 "
        "the order by r_t - t log gamma is the same at every query: a heap of k is enough "
        "while decoding, and a whole sequence is masked in O(T log T).\n\n"
        "The scorer of this policy is a memory (mLSTM). Of x = [key; value] of each token it "
        "makes a query, a key and a value of half a head; query and key pass through "
        "[softmax(u); softmax(-u)]. Key and value are added to a matrix with an exponential "
        "input gate and a sigmoid forget gate. The token that leaves at q reads the memory "
        "of time q with its own query, so that w tokens of its near future speak for it "
        "(delayed read-out); norm, SiLU and a linear map give r_t. kvpop-mlp is the scorer "
        "without memory.\n\n"
        "Target: the log of the mean attention that a token gets from queries at distance w "
        "or more, the maximum over the query heads of the group. Loss (boundary-aware): at "
        "sampled queries the token that leaves is compared with the last one that the target "
        "would keep, softplus(-y (r_new - r_bnd) / tau), weighted by how far the targets lie "
        "apart. The whole model is trained with it, by the KL to its dense self (AdamW, "
        "2,000 steps of 128 sequences of up to 16,384 tokens); the scorers see the boundary "
        "loss only.\n\n"
        "Published, share of the dense score on AIME and HMMT with 4,096 / 2,048 of 16,384 "
        "tokens, Qwen3-4B: KVpop .98 / .97, kvpop-mlp .98 / .93, DMS .96 / .89, TOVA .73 / "
        ".58. 81 % of the target's top k are recalled (a quarter kept); without the delay "
        "token accuracy falls by 0.2 points. No code was published.\n\n"
        "Here kvt train kvpop:scorer=mlstm makes the file for weights=FILE; from=decisions "
        "reads r_t from the trace of a retrofitted model.",
    .differs =
        "the model is frozen instead of trained with it: its class is surrogate, and the "
        "published figures do not apply. k is B - S - w, whatever the scorer was trained for "
        "(the printed k do not add up to the printed budgets); a budget below S + w + 1 is "
        "skipped. Not specified there and chosen here: the width of what is stored (half a "
        "head), the norm before the read-out is on (RMS, eps 1e-6), no soft cap on the "
        "gates. Of the training: kvt train show kvpop",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_WEIGHTS | KVT_NEED_DECISION,
               .exactness = KVT_EXACT,
               .drop_first = true,
               .decision = "kvpop"},
    .params_size = sizeof(kvpop),
    .params = params,
    .weights = weights,
    .vary = vary,
    .fits = fits,
    .size = size,
    .step = step,
    .score = score,
    .work = work,
};
