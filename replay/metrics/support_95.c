/* support_95 - how many keys hold 0.95 of a row: as support_90. */
#include "kvt/metric.h"

KVT_METRIC_SUPPORT(95, "0.95", 1);
