/* document_cost.c - the generated parts of docs/cost.md. */
#include "cli/cli.h"
