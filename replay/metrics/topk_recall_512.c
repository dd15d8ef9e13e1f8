/* topk_recall_512 - recall of the true top 512, as topk_recall.
 *
 *   |held and Top_512| / min(512, tokens that have arrived) */
#include "kvt/metric.h"

KVT_METRIC_TOPK(512);
