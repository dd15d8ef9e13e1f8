/* config.h - the architecture and geometry of a Hugging Face folder, from its config.json.
 *
 *   config_model m;
 *   if (config_read(&m, "folder/config.json", &err)) ...
 *
 * Both dialects of rotary scaling are read (rope_theta and rope_scaling; rope_parameters, as
 * transformers 5 writes it), Gemma's text_config, and the fields that Gemma leaves out. What
 * this build would compute wrongly is refused by its name, before any tensor is looked for. */
#ifndef CAPTURE_CONFIG_H
#define CAPTURE_CONFIG_H

#include "capture/arch.h"

typedef struct config_model {
    const arch *arch;
    kvt_geometry geometry; /* n_vocab is the field's; name is empty */
    bool nested;           /* a text_config: tensors have a prefix */
} config_model;

KVT_CHECKED kvt_code config_read(config_model *out, const char *path, kvt_err *err);
/* The same of bytes. FORMAT names the field with what was expected and got. */
KVT_CHECKED kvt_code config_parse(config_model *out, const char *bytes, size_t n, kvt_err *err);

#endif
