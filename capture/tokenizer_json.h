/* tokenizer_json.h - tokenizer.json as the parts of a tokenizer, for tokenizer_folder.c.
 *
 * What a tokenizer.json describes is a pipeline of any parts; what is accepted are the shapes
 * that the known models have, listed in tokenizer_shape.c. Everything else is refused by the
 * name of its field, for it would give other ids than the model learned. */
#ifndef CAPTURE_TOKENIZER_JSON_H
#define CAPTURE_TOKENIZER_JSON_H

#include "base/json.h"
#include "capture/pre.h"
#include "capture/tokenizer.h"

/* What normalizer, pre_tokenizer and post_processor say. */
typedef struct tokenizer_shape {
    bool byte_level;      /* else spaces are written as U+2581 */
    const pre_form *form; /* byte level: how words are cut; NULL: by a pattern unknown here */
    char pattern[160];    /* that one, cut, safe to print */
    bool nfc;
    tokenizer_space space;
    bool space_once;
    const char *bos; /* a token that is put in front, borrowed from the JSON; NULL: none */
} tokenizer_shape;

/* FORMAT names the field. */
KVT_CHECKED kvt_code tokenizer_shape_read(tokenizer_shape *out, const json_t *root,
                                          kvt_err *err);

/* Texts are borrowed from the JSON. */
typedef struct tokenizer_parts {
    token_text *token; /* [n_token] */
    int32_t *type;
    int64_t n_token;
    token_text *merge, *right; /* [n_merge]; right NULL: "left right" in merge */
    int64_t n_merge;
    int32_t unk;
    bool fuse_unk, ignore_merges;
} tokenizer_parts;

/* "model" and "added_tokens". FORMAT names the field; nothing is left behind then. */
KVT_CHECKED kvt_code tokenizer_parts_read(tokenizer_parts *out, const json_t *root,
                                          const tokenizer_shape *shape, kvt_err *err);
void tokenizer_parts_free(tokenizer_parts *p);

/* The id of a token by its text, -1: none. */
int32_t tokenizer_json_id(const json_t *root, const char *text);

/* From bytes of a tokenizer.json alone; `config` is tokenizer_config.json, or NULL. For
 * tokenizer_open_folder and tests. stop [n_stop] are ends of text. */
typedef struct tokenizer_config {
    const json_t *config, *model, *generation; /* the folder's other files, or NULL */
    const char *chat;                          /* chat_template.jinja, or NULL */
} tokenizer_config;
KVT_CHECKED kvt_code tokenizer_from_json(tokenizer **out, const json_t *root,
                                         const tokenizer_config *more, const char *pre,
                                         kvt_err *err);

#endif
