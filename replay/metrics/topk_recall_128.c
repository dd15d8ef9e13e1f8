/* topk_recall_128 - recall of the true top 128, as topk_recall.
 *
 *   |held and Top_128| / min(128, tokens that have arrived) */
#include "kvt/metric.h"

KVT_METRIC_TOPK(128);
