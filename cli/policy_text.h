/* policy_text.h - what policies say of themselves, for people and as JSON: the parts of `kvt
 * policy`.
 *
 *   policy_list.c   the list, its filters, the table of published variants
 *   policy_show.c   one policy or allocator, and what a trace lacks for it
 *   policy_costs.c  what one keeps, reads and runs
 *   policy_check.c  the laws of kvt/check.h on a plug-in
 */
#ifndef CLI_POLICY_TEXT_H
#define CLI_POLICY_TEXT_H

#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "kvt/replay.h"

/* Its traits as it runs by default: parameters may ask for less. */
kvt_traits policy_usual_traits(const kvt_policy *p);
/* What its numbers are worth as it runs by default: what acts in decode meets queries of the
 * full cache. The engine finds the same. */
kvt_exactness policy_usual_class(const kvt_traits *t);

/* The parameter whose choices are published implementations: compat, or of an allocator form or
 * rule, which name the arithmetic. NULL: there is one form only. */
const kvt_param *policy_variants_param(const kvt_param *params);
/* "tokens that are not kept are gone" */
const char *policy_effect_text(kvt_effect effect);

/* A line "name          value", wrapped; nothing where the value is empty. */
void policy_label(FILE *out, const char *name, const char *value);
/* What it keeps beside slots, and what it costs, on a usual model with its usual parameters. */
void policy_show_costs(FILE *out, const kvt_registry *r, const kvt_policy *p);

json_t *policy_json(const kvt_policy *p);

/* What the list is narrowed to; NULL: everything. */
typedef struct policy_filter {
    const char *class, *need, *phase;
} policy_filter;

/* USAGE where a filter names nothing, with what there is. */
KVT_CHECKED kvt_code policy_list(cli *c, const kvt_registry *r, const policy_filter *f,
                                 kvt_err *err);
/* One line for each value of a compat parameter: whose code, at which commit, what it changes.
 */
KVT_CHECKED kvt_code policy_variants(cli *c, const kvt_registry *r, kvt_err *err);
/* trace NULL: nothing is said of one. */
KVT_CHECKED kvt_code policy_show(cli *c, const kvt_registry *r, const char *name,
                                 const char *trace, const cli_list *plugin, kvt_err *err);
/* Tries the policies of a plug-in, every value of every choice; NO where one breaks a law. */
KVT_CHECKED kvt_code policy_check(const char *path, kvt_err *err);

#endif
