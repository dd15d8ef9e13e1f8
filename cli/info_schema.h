/* info_schema.h - kvt info --schema: the datasets and attributes that a trace may hold. */
#ifndef CLI_INFO_SCHEMA_H
#define CLI_INFO_SCHEMA_H

#include "cli/cli.h"

/* Two tables, or with --json an object of the schema kvt-trace-schema-1. */
KVT_CHECKED kvt_code cli_info_schema(cli *c, kvt_err *err);

#endif
