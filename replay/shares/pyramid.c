/* pyramid - more slots in the lower layers, falling in a straight line.
 *
 *   Cai et al., "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information
 *   Funneling", 2024, arXiv:2406.02069.
 *
 * With B the average budget, W what each lane pins, T the prompt, L the layers of the model and
 * C = B - W, layer l selects n_l beside what is pinned:
 *
 *   min = C / beta, max = 2C - min     (max is at most T - W; then min = 2C - max)
 *   n_l = max - l (max - min) / (L - 1)
 *
 *   exact    n_l rounded so that they add up to L C (largest remainders); each lane 1 at least
 *   kvcf     min and step (max - min) / (L - 1) rounded down, C everywhere where T < 2C: layers
 *            may add up to twice the total
 *   kvpress  the line is drawn for W + n_l, with min = C' / beta of C' = B: C' everywhere
 * unless T >= max >= min >= W; rounded half to even
 *
 * A layer's slots depend on its place in the whole model only, so that a trace of some layers
 * gets the numbers of the whole one, and lanes need not be seen together. One layer gets the
 * average. Differs: kvpress draws its line for the product of fraction and length before
 * rounding. */
#include "kvt/pieces.h"
#include "kvt/share.h"

#include <math.h>

typedef struct pyramid {
    double beta;
    int form;
} pyramid;

enum { FORM_EXACT, FORM_KVCF, FORM_KVPRESS };

static const kvt_choice forms[] = {
    [FORM_EXACT] = {"exact", "", "adds up to the total"},
    [FORM_KVCF] =
        {"kvcf", "",
         "integer steps of Zefan-Cai/KVCache-Factory c97f9d7, may hold more than the total"},
    [FORM_KVPRESS] = {"kvpress", "", "rounding and uniform fallback of NVIDIA/kvpress 8bb29b9"},
};

static const kvt_param params[] = {
    KVT_PARAM(pyramid, beta, 20, 1, 1e6, "",
              "steepness: the last layer selects 1/beta of the average"),
    KVT_PARAM_CHOICE(pyramid, form, FORM_EXACT, forms, "arithmetic"),
    {0},
};

/* A straight line from layer 0 to the last, with mean C. */
typedef struct line {
    double max, min;
} line;

static line draw(double C, double room, double low)
{
    line n = {.max = 2 * C - low, .min = low};
    if (n.max >= room)
        n = (line){.max = room, .min = 2 * C - room};
    return n;
}

static double at(line n, int l, int n_layer)
{
    return n.max - (double)l * (n.max - n.min) / (double)(n_layer - 1);
}

/* Layers of equal fraction are served from the top. Since the line falls, so does the result.
 */
static int64_t exact(line n, int l, int n_layer, int64_t total, int64_t least)
{
    int64_t part[KVT_LAYERS_MAX], sum = 0;
    double rest[KVT_LAYERS_MAX];
    for (int i = 0; i < n_layer; i++) {
        double x = at(n, i, n_layer);
        part[i] = (int64_t)floor(x + 1e-9);
        rest[i] = x - (double)part[i];
        sum += part[i];
    }
    for (; sum < total; sum++) {
        int best = 0;
        for (int i = 1; i < n_layer; i++)
            if (rest[i] > rest[best] + 1e-9)
                best = i;
        part[best]++;
        rest[best] -= 1;
    }
    for (int i = n_layer - 1; i > 0; i--)
        for (; part[i] < least; part[i]++) { /* from the last of the longest */
            int from = 0;
            while (from + 1 < i && part[from + 1] == part[0])
                from++;
            part[from]--;
        }
    return part[l];
}

static int64_t layer_budget(const pyramid *p, int64_t B, int64_t W, int64_t T, int l,
                            int n_layer)
{
    int64_t C = B - W;
    if (n_layer < 2 || C < 0 || T <= B)
        return B;
    if (p->form == FORM_EXACT) {
        line n = draw((double)C, (double)(T - W), (double)C / p->beta);
        return W + exact(n, l, n_layer, C * n_layer, W > 0 ? 0 : 1);
    }
    if (p->form == FORM_KVCF) {
        if (T < 2 * C)
            return B;
        line n = draw((double)C, (double)(T - W), floor((double)C / p->beta));
        return W +
               (int64_t)(n.max - (double)l * floor((n.max - n.min) / (double)(n_layer - 1)));
    }
    line n = draw((double)B, (double)(T - W), (double)B / p->beta);
    bool good = (double)T >= n.max && n.max >= n.min && n.min >= (double)W;
    return good ? (int64_t)nearbyint(at(n, l, n_layer)) : B;
}

static void split(const void *params_, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    (void)score;
    for (int i = 0; i < n_lane; i++) {
        int64_t B = total / n_lane + (i < total % n_lane);
        int64_t n = layer_budget(params_, B, n_pinned[i], lane[i].seq->n_prompt,
                                 lane[i].model_layer, lane[i].n_layer);
        budget[i] = kvt_max(kvt_min(n, lane[i].n_slot), 1);
    }
}

const kvt_share kvt_share_pyramid = {
    .abi = KVT_POLICY_ABI,
    .name = "pyramid",
    .title = "more slots in the lower layers, falling in a straight line",
    .paper = "Cai et al., PyramidKV, 2024, arXiv:2406.02069",
    .differs = "the default adds up to the total exactly, the published integer steps do not; "
               "kvpress draws its line for the product of fraction and length, here for the "
               "budget in whole tokens",
    .scope = KVT_BY_LANE,
    .may_exceed = true,
    .params_size = sizeof(pyramid),
    .params = params,
    .split = split,
};
