/* cur - keep the tokens whose key and value are large beside their neighbours'.
 *
 *   Sengupta et al., "Value-Guided KV Compression for LLMs via Approximated CUR
 *   Decomposition" (CurDKV), 2025, arXiv:2509.15038.
 *
 * The prompt is cut into windows w of `local` = 16 tokens. With n_w tokens in window w,
 *
 *   a_s      = ||k_s||^2 / sum over w of ||k||^2    times n_w / local,   b_s the same of values
 *   score[s] = a_s b_s / sum over S of a b          of=key: a, value: b, average: (a + b) / 2
 *
 * and the first `sinks` tokens are pinned. random=R multiplies keys and values by one Gaussian
 * matrix [D R] / sqrt(R) of the lane's stream first. A window of zeros is shared evenly.
 *
 * Differs: see `differs`. Cost for each lane, once: O(S D). */
#include "kvt/pieces.h"

#include <math.h>

typedef struct cur {
    int64_t sinks, local, random;
    int of, compat;
} cur;

enum { OF_PRODUCT, OF_KEY, OF_VALUE, OF_AVERAGE };
enum { IS_PAPER, IS_KVPRESS };

static const kvt_choice ofs[] = {
    [OF_PRODUCT] = {"product", "", "key times value"},
    [OF_KEY] = {"key", "", "keys alone"},
    [OF_VALUE] = {"value", "", "values alone"},
    [OF_AVERAGE] = {"average", "", "the mean of both"},
};

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "sinks=4,local=16,random=0,of=product",
                  "settings of NVIDIA/kvpress 8bb29b9, a short last window counts by its size"},
    [IS_KVPRESS] =
        {"kvpress", "sinks=4,local=16,random=0,of=product",
         "NVIDIA/kvpress 8bb29b9 CURPress: tokens of a short last window score more"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(cur, compats),
    KVT_PARAM_CHOICE(cur, of, OF_PRODUCT, ofs, "what is scored"),
    KVT_PARAM(cur, sinks, 4, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(cur, local, 16, 0, 65536, "tokens", "window of the shares; 0: the whole lane"),
    KVT_PARAM(cur, random, 0, 0, 512, "channels",
              "width of a random projection of keys and values; 0: none; published: 20"),
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const cur *p = params_;
    return kvt_pinned_fits(p->sinks, "sinks", budget, n_token, why, cap);
}

/* out [S] = squares of the rows, after the projection [D R] where there is one. */
static void squares(double *out, const kvt_view *v, const double *project, int64_t R)
{
    int64_t D = v->dim[1];
    for (int64_t s = 0; s < v->dim[0]; s++) {
        const float *x = kvt_row(v, s);
        out[s] = 0;
        for (int64_t d = 0; !project && d < D; d++)
            out[s] += (double)x[d] * (double)x[d];
        for (int64_t r = 0; project && r < R; r++) {
            double sum = 0;
            for (int64_t d = 0; d < D; d++)
                sum += (double)x[d] * project[d * R + r];
            out[s] += sum * sum / (double)R;
        }
    }
}

/* x [n] becomes each one's share of its window. */
static void shares(double *x, int64_t n, const cur *p)
{
    int64_t width = p->local > 0 ? p->local : n;
    for (int64_t at = 0; at < n; at += width) {
        int64_t m = kvt_min(width, n - at);
        double sum = 0, weight = p->compat == IS_KVPRESS ? 1 : (double)m / (double)width;
        for (int64_t i = at; i < at + m; i++)
            sum += x[i];
        for (int64_t i = at; i < at + m; i++)
            x[i] = weight * (sum > 0 ? x[i] / sum : 1 / (double)m);
    }
}

static double mix(const cur *p, double a, double b)
{
    if (p->of == OF_AVERAGE)
        return (a + b) / 2;
    return (p->of == OF_VALUE ? 1 : a) * (p->of == OF_KEY ? 1 : b);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const cur *p = params_;
    int64_t n = lane->n_slot, D = lane->keys.dim[1], R = p->random;
    double *a = kvt_arena_array(lane->scratch, n, sizeof *a), sum = 0;
    double *b = kvt_arena_array(lane->scratch, n, sizeof *b);
    double *project = R > 0 ? kvt_arena_array(lane->scratch, D * R, sizeof *project) : NULL;
    bool good = a && b && (R == 0 || project);
    if (good && R > 0)
        kvt_random_normal(project, D * R, lane->rng);
    if (good) {
        squares(a, &lane->keys, project, R);
        squares(b, &lane->values, project, R);
        shares(a, n, p);
        shares(b, n, p);
    }
    for (int64_t s = 0; good && s < n; s++)
        sum += a[s] = mix(p, a[s], b[s]);
    for (int64_t s = 0; s < n; s++) { /* NaN, which is refused: no memory */
        out[s] = good ? (float)(sum > 0 ? a[s] / sum : 1 / (double)n) : NAN;
        pinned[s] = lane->pos[s] < p->sinks;
    }
}

const kvt_policy kvt_policy_cur = {
    .abi = KVT_POLICY_ABI,
    .name = "cur",
    .title = "keep the tokens whose key and value are large beside their neighbours'",
    .paper = "Sengupta et al., CurDKV, 2025, arXiv:2509.15038",
    .about =
        "A CUR decomposition keeps rows of a matrix as they are, chosen by their leverage. "
        "CurDKV approximates the leverage of a token by its share of the squared norms in a "
        "window of 16 tokens, for keys and for values, and keeps the largest products: what is "
        "kept should give the attention's output, not its weights alone. No query is read and "
        "nothing is trained.\n\n"
        "Published settings: product of both, windows of 16, the first 4 tokens always kept; "
        "as an option both are projected to 20 random channels first (random=20).",
    .differs =
        "tokens of a last window of fewer than 16 are weighed by its size: as published they "
        "share the same 1 and so score higher (compat=kvpress); sinks are kept by a rule, not "
        "by a score of 1; a window of zeros is shared evenly",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .params_size = sizeof(cur),
    .params = params,
    .fits = fits,
    .score = score,
};
