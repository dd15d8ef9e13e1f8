/* policy_template.h - the file that `kvt policy new NAME` writes. */
#ifndef CLI_POLICY_TEMPLATE_H
#define CLI_POLICY_TEMPLATE_H

#include "base/buf.h"

/* A whole policy in one file, as text: it builds with the command in its first lines. `name` is
 * of a-z, 0-9 and '-'; `flags` is what the compiler needs to find kvt's headers. */
void policy_template(buf *out, const char *name, const char *flags);

/* Those flags, here and now: of the installed headers where they are there, else of the source
 * tree. NOTFOUND where neither is. */
KVT_CHECKED kvt_code policy_header_flags(buf *out, kvt_err *err);

#endif
