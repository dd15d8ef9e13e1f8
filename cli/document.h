/* document.h - the generated parts of the pages in docs.
 *
 *   document.c            the parts by name; datasets, metrics, tables
 *   document_models.c     architectures, types, tokenizers, what was checked
 *   document_cost.c       models, machines and profiles of the cost model
 *   document_policies.c   policies, allocators, their published variants
 *   document_figures.c    the cost model beside other people's numbers
 *   document_equal.c      policies implemented equally well, beside published ones
 */
#ifndef CLI_DOCUMENT_H
#define CLI_DOCUMENT_H

#include <stdio.h>

#include "kvt/result.h"

/* The tables that are written as CSV, by number: name and columns; false past the last. */
bool document_table(int i, const char **name, kvt_schema *out);

/* Text as Markdown: what would be read as a border or markup is escaped. */
void document_put(FILE *out, const char *text);
/* A row of a table with `n` cells, and the first row of one. */
void document_row(FILE *out, const char *const *cell, int n);
void document_header(FILE *out, const char *const *cell, int n);
/* "- name: text", nothing without a text. */
void document_line(FILE *out, const char *name, const char *text);

/* Four digits, or all in front of the point; "-": not known. Returns `out` [n]. */
const char *document_number(char *out, size_t n, double x);

void document_models(FILE *out);
void document_policies(FILE *out);
void document_variants(FILE *out);
void document_cost_geometries(FILE *out);
void document_cost_machines(FILE *out);
void document_figures_summary(FILE *out);
void document_figures(FILE *out);
void document_equal(FILE *out);

#endif
