/* info_parts.h - what kvt info says in the same way of every kind of file: a line of text, and
 * the head of a learned file, which a scorer and an adapter share. */
#ifndef CLI_INFO_PARTS_H
#define CLI_INFO_PARTS_H

#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"

/* "name         text", the text made safe; `width` columns of name. */
void info_line(FILE *out, const cli *c, int width, const char *name, const char *text);

/* The first digits of a digest; "not named" where a file has none. */
const char *info_short(const char *digest, char out[16]);

/* What a learned file says of itself; "" where it does not. */
typedef struct info_head {
    const char *path, *kind, *digest, *weights_digest, *model;
} info_head;

/* An object that begins with the schema and the head; the caller's. */
json_t *info_head_json(const char *schema, const info_head *h);
/* Text as JSON, null where it is no UTF-8; a recipe, null where it is no JSON. */
json_t *info_text_json(const char *text);
json_t *info_recipe_json(const char *recipe);

#endif
