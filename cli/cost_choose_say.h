/* cost_choose_say.h - what follows from a choice, in sentences. */
#ifndef CLI_COST_CHOOSE_SAY_H
#define CLI_COST_CHOOSE_SAY_H

#include "kvt/analyze.h"

/* Of the rows [first, next) of one group: the winner with its margin, or which comes nearest to
 * the limits (NULL: there are none), the front, and what to know of the rows. */
void cli_choose_say(const kvt_selection *c, const kvt_winner *w, int64_t first, int64_t next,
                    const kvt_slo *limits, const char *axis);

#endif
