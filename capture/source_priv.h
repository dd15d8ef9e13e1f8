/* source_priv.h - a source: source.c (what is asked), source_folder.c (folders). */
#ifndef CAPTURE_SOURCE_PRIV_H
#define CAPTURE_SOURCE_PRIV_H

#include "capture/source.h"
#include "traces/tensors.h"

struct source {
    const arch *arch;
    kvt_geometry geometry;
    gguf *owned;    /* closed with the source */
    const gguf *g;  /* NULL: a folder */
    char *folder;   /* of a folder */
    tensors **part; /* [n_part] of a folder, by name */
    int n_part;
    source_tensor *tensor; /* [n_tensor] by name */
    int64_t n_tensor;
    int64_t bytes;
    const char *prefix; /* of a folder: before "model.layers", "" or "language_model." */
    bool is_inside;     /* "model.language_model.layers" in place of "model.layers" */
};

/* Fills a source from a folder: geometry first, then its files and tensors. */
KVT_CHECKED kvt_code source_folder(source *s, const char *path, kvt_err *err);
/* Room for n tensors. */
KVT_CHECKED kvt_code source_reserve(source *s, int64_t n, kvt_err *err);
const source_tensor *source_named(const source *s, const char *name); /* NULL: none */
void source_sort(source *s);

#endif
