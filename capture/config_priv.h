/* config_priv.h - fields of config.json, for config*.c. A field that is null counts as missing;
 * whole numbers may be written as reals. */
#ifndef CAPTURE_CONFIG_PRIV_H
#define CAPTURE_CONFIG_PRIV_H

#include "base/json.h"
#include "capture/config.h"

const json_t *config_member(const json_t *o, const char *key); /* NULL: missing or null */
/* A whole number of [least, most]; def < 0: the field must be there. */
KVT_CHECKED kvt_code config_whole(int64_t *out, const json_t *o, const char *key, int64_t def,
                                  int64_t least, int64_t most, kvt_err *err);
/* A finite number above 0; NAN as `def`: it must be there. */
KVT_CHECKED kvt_code config_positive(double *out, const json_t *o, const char *key, double def,
                                     kvt_err *err);
KVT_CHECKED kvt_code config_flag(bool *out, const json_t *o, const char *key, bool def,
                                 kvt_err *err);
/* NULL where it is missing. */
KVT_CHECKED kvt_code config_word(const char **out, const json_t *o, const char *key,
                                 kvt_err *err);

/* Rotary base, scaling and frequencies; heads and windows are known. */
KVT_CHECKED kvt_code config_rope(kvt_geometry *g, const arch *a, const json_t *o, kvt_err *err);
/* What is not computed here: quantised weights, experts, biases, other activations, ... */
KVT_CHECKED kvt_code config_refuse(const arch *a, const char *type, const json_t *top,
                                   const json_t *text, kvt_err *err);

#endif
