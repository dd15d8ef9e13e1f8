/* cost_choose_json.h - the choice as one JSON object. */
#ifndef CLI_COST_CHOOSE_JSON_H
#define CLI_COST_CHOOSE_JSON_H

#include "kvt/analyze.h"

/* begin, a winner for each group, end: {"schema": ..., "rows": [...], "winners": [...]}. */
void cli_choose_json_begin(const kvt_selection *c, const char *axis);
KVT_CHECKED kvt_code cli_choose_json_winner(const kvt_selection *c, const kvt_winner *w,
                                            int64_t first, kvt_err *err);
void cli_choose_json_end(void);

#endif
