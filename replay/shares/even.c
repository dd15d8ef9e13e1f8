/* even - the same number of slots for every lane.
 *
 *   budget[i] = total / n, the first (total mod n) lanes one more
 *
 * What a lane cannot use, since it holds fewer slots, goes to the others in turn. */
#include "kvt/pieces.h"
#include "kvt/share.h"

static void split(const void *params, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    (void)params, (void)score, (void)n_pinned;
    int64_t left = kvt_max(total, n_lane); /* each lane gets at least 1 */
    int n_open = n_lane;
    for (int i = 0; i < n_lane; i++)
        budget[i] = 0;
    while (left > 0 && n_open > 0) {
        int64_t each = left / n_open, more = left % n_open;
        n_open = 0;
        for (int i = 0; i < n_lane; i++) {
            int64_t room = kvt_max(lane[i].n_slot, 1) - budget[i];
            if (room == 0)
                continue;
            int64_t give = kvt_min(room, each + (more > 0));
            more -= more > 0;
            budget[i] += give;
            left -= give;
            n_open += give < room;
        }
    }
}

const kvt_share kvt_share_even = {
    .abi = KVT_POLICY_ABI,
    .name = "even",
    .title = "the same number of slots for every lane",
    .paper = "no paper",
    .differs = "",
    .scope = KVT_BY_LANE,
    .split = split,
};
