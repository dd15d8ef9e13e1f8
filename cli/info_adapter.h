/* info_adapter.h - what kvt info says of an adapter: lookahead tokens with a LoRA, or without.
 */
#ifndef CLI_INFO_ADAPTER_H
#define CLI_INFO_ADAPTER_H

#include "cli/cli.h"

/* Whether the file is safetensors with the metadata of an adapter. */
bool cli_is_adapter(const char *path);
/* Prints what it is, how it was made and which maps it adapts; with --json as an object.
 * FORMAT: a number that is not finite. */
KVT_CHECKED kvt_code cli_info_adapter(cli *c, const char *path, kvt_err *err);
/* "kind lookaheadkv, 32 tokens, rank 2": where every tensor is whole and finite. */
KVT_CHECKED kvt_code cli_check_adapter(const char *path, char *out, size_t cap, kvt_err *err);

#endif
