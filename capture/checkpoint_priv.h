/* checkpoint_priv.h - a checkpoint: checkpoint.c (what is asked), checkpoint_folder.c
 * (folders). */
#ifndef CAPTURE_CHECKPOINT_PRIV_H
#define CAPTURE_CHECKPOINT_PRIV_H

#include <string.h>

#include "capture/checkpoint.h"
#include "traces/tensors.h"

struct checkpoint {
    const arch *arch;
    kvt_geometry geometry;
    gguf *owned;    /* closed with the checkpoint */
    const gguf *g;  /* NULL: a folder */
    char *folder;   /* of a folder */
    tensors **part; /* [n_part] of a folder, by name */
    int n_part;
    checkpoint_tensor *tensor; /* [n_tensor] by name */
    int64_t n_tensor;
    int64_t bytes;
    const char *prefix; /* of a folder: before "model.layers", "" or "language_model." */
    bool is_inside;     /* "model.language_model.layers" in place of "model.layers" */
};

static inline bool checkpoint_ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Fills a checkpoint from a folder: geometry first, then its files and tensors. */
KVT_CHECKED kvt_code checkpoint_folder(checkpoint *s, const char *path, kvt_err *err);
/* Room for n tensors. */
KVT_CHECKED kvt_code checkpoint_reserve(checkpoint *s, int64_t n, kvt_err *err);
const checkpoint_tensor *checkpoint_named(const checkpoint *s,
                                          const char *name); /* NULL: none */
void checkpoint_sort(checkpoint *s);

#endif
