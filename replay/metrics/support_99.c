/* support_99 - how many keys hold 0.99 of a row: as support_90. */
#include "kvt/metric.h"

KVT_METRIC_SUPPORT(99, "0.99", 2);
