/* support_90 - how many keys hold 0.9 of a row: its effective support.
 *
 *   the smallest n whose largest n weights sum to at least 0.9 of the row
 *
 * over all tokens that the row of the full cache sees, generated ones included. Of the row's
 * own sum: halves that are stored may add up to a little less than 1. */
#include "kvt/metric.h"

KVT_METRIC_SUPPORT(90, "0.9", 0);
