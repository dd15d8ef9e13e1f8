/* cost_legend.h - what the columns and marks of the tables of costs mean. */
#ifndef CLI_COST_LEGEND_H
#define CLI_COST_LEGEND_H

#include "cli/cost_columns.h"

/* Fills shared and varied. */
void cost_marks_find(cost_view *v, const cost_lines *lines);
/* Columns, settings, marks and drafts, once below all tables. */
void cost_legend_print(const cost_view *v, const cost_lines *lines);

#endif
