/* facts.h - kvt_trace_facts to and from the attributes of a file; on the thread of io.h. */
#ifndef TRACES_FACTS_H
#define TRACES_FACTS_H

#include "traces/dataset.h"
#include "traces/h5.h"

KVT_CHECKED kvt_code facts_write(hid_t file, const kvt_trace_facts *facts, kvt_err *err);
/* Everything but run facts must be there. The values are those of the file, unchecked beyond
 * type and size: facts_check() is next. */
KVT_CHECKED kvt_code facts_read(hid_t file, kvt_trace_facts *facts, kvt_err *err);

#endif
