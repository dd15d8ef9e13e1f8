/* table - slots in the proportions of a file.
 *
 * With s_i the file's number for lane i (tensor share LG, of which only the proportions count),
 * P_i what lane i pins, S_i its slots and B the average budget of n lanes,
 *
 *   budget[i] = x s_i within max(1, P_i, floor B) and S_i, sum over i = n B
 *
 * in whole slots (largest remainders). A trace of some layers of the model shares the total of
 * these layers out. An s_i of 0 gets its least. Cost: O(n) for each bit of x. */
#include "kvt/pieces.h"
#include "kvt/share.h"

#include <math.h>

typedef struct table {
    double floor;
} table;

static const kvt_param params[] = {
    KVT_PARAM(table, floor, 0, 0, 1, "frac",
              "share of the budget that each lane gets in any case"),
    {0},
};

static const kvt_weight weights[] = {
    {"share", "LG", "budget of each kv head, in proportion to the others'"}, {0}};

static void split(const void *params_, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    const table *p = params_;
    kvt_shares_out s;
    (void)score;
    if (!kvt_share_begin(&s, budget, lane, n_lane, n_pinned, total))
        return;
    double *part = kvt_arena_array(lane->scratch, n_lane, sizeof *part);
    double sum = 0;
    for (int i = 0; part && i < n_lane; i++) {
        part[i] = (double)*(const float *)lane[i].share_weights[0].data;
        sum += part[i];
        s.least[i] = kvt_max(
            s.least[i],
            kvt_min((int64_t)floor(p->floor * (double)s.total / n_lane + 1e-9), s.most[i]));
        budget[i] = 0;
    }
    for (int i = 0; part && sum > 0 && i < n_lane; i++)
        part[i] /= sum;
    if (!part)
        return;
    if (sum > 0)
        kvt_share_fill(&s, part);
    kvt_share_round(budget, &s);
}

const kvt_share kvt_share_table = {
    .abi = KVT_POLICY_ABI,
    .name = "table",
    .title = "slots in the proportions of a file",
    .paper = "no paper",
    .differs = "",
    .scope = KVT_BY_MODEL,
    .weights = weights,
    .weights_kind = "shares",
    .params_size = sizeof(table),
    .params = params,
    .split = split,
};
