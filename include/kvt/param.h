/* param.h - parameters that describe themselves.
 *
 * A table of kvt_param, ended by {0}, gives the parser, the canonical text, the help, the
 * manual and the range tests. The type is taken from the field, so that a table that
 * contradicts its struct does not compile: int64_t, double and bool here, an int must be a
 * choice. */
#ifndef KVT_PARAM_H
#define KVT_PARAM_H

#include "kvt/err.h"

/* KVT_TEXT is for the engine's own parameters (weights, probe, base, file): the field is a
 * char [KVT_PARAM_TEXT_MAX]. */
typedef enum kvt_param_type {
    KVT_INT,
    KVT_REAL,
    KVT_BOOL,
    KVT_CHOICE,
    KVT_TEXT
} kvt_param_type;
enum { KVT_PARAM_TEXT_MAX = 256 };

/* One value that a choice may take. `sets` holds parameters that come with it; they apply
 * before anything that was typed. */
typedef struct kvt_choice {
    const char *name; /* [a-z0-9-]+, as typed */
    const char *sets; /* "window=64,pool=5", or "" */
    const char *help; /* for a compat variant: whose code, which commit */
} kvt_choice;

/* One field of a parameter struct. A table of these ends with {0}. */
typedef struct kvt_param {
    const char *name;
    kvt_param_type type;
    size_t offset;
    double def, min, max;      /* inclusive bounds; of a choice, its index */
    const kvt_choice *choices; /* NULL unless the type is KVT_CHOICE */
    const char *unit;          /* "tokens", "frac", "" */
    const char *help;          /* one sentence, no full stop */
} kvt_param;

/* clang-format off */
#define KVT_PARAM(S, field, def_, min_, max_, unit_, help_)                           \
    {                                                                                 \
        .name = #field, .offset = offsetof(S, field),                                 \
        .type = _Generic(((S *)0)->field,                                             \
                         int64_t: KVT_INT, double: KVT_REAL, bool: KVT_BOOL),         \
        .def = (def_), .min = (min_), .max = (max_), .unit = (unit_), .help = (help_) \
    }

/* `choices_` is an array of kvt_choice; the field holds an index into it. */
#define KVT_PARAM_CHOICE(S, field, def_, choices_, help_)                             \
    {                                                                                 \
        .name = #field, .offset = offsetof(S, field),                                 \
        .type = _Generic(((S *)0)->field, int: KVT_CHOICE), .choices = (choices_),    \
        .def = (def_), .max = (double)(sizeof(choices_) / sizeof(choices_)[0] - 1),   \
        .unit = "", .help = (help_)                                                   \
    }
/* clang-format on */

KVT_API void kvt_param_defaults(const kvt_param *table, void *out);

/* Reads "window=32,pool=7" over the values already in `out`. What a choice sets is applied
 * first, so that order does not matter and what was typed wins: "window=16,compat=kvpress" has
 * a window of 16. Fails with USAGE: "no parameter 'windw' (did you mean 'window'?)", "window: 0
 * is not a whole number from 1 to 4096 tokens", "compat: 'hf' is not one of paper, kvpress". */
KVT_API KVT_CHECKED kvt_code kvt_param_parse(const kvt_param *table, void *out,
                                             const char *text, kvt_err *err);

/* Writes the canonical form, every parameter in table order: "window=32,pool=7,kind=max".
 * Numbers read back equal. Returns the length that the whole text needs, like snprintf. */
KVT_API size_t kvt_param_print(const kvt_param *table, char *out, size_t cap, const void *in);

/* The line of that name, or NULL. */
KVT_API const kvt_param *kvt_param_find(const kvt_param *table, const char *name);

/* "whole number from 1 to 4096 tokens": for help and messages. */
KVT_API const char *kvt_param_range(const kvt_param *p, char *out, size_t cap);

#endif
