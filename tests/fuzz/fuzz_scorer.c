/* fuzz_scorer.c - whatever bytes a scorer file has: open, read every value, close; no crash, no
 * leak, no answer other than the documented codes. */
#include "kvt/scorer.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

static void set_path(void)
{
    if (!path[0])
        snprintf(path, sizeof path, "%s/kvt-fuzz-%ld.h5",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".", (long)getpid());
}

/* What was taken holds what the header promises. */
static void look(const kvt_scorer *s)
{
    const kvt_scorer_info *info = kvt_scorer_info_of(s);
    for (int i = 0; i < kvt_scorer_count(s); i++) {
        const kvt_view *v = &kvt_scorer_at(s, i)->view;
        for (int k = 0; k < v->rank; k++)
            if (v->axes[k] == 'L' && v->dim[k] != info->n_layer)
                abort();
        for (int64_t n = kvt_view_count(v), k = 0; k < n; k++)
            if (!isfinite(((const float *)v->data)[k]))
                abort();
    }
    for (int l = 0; l < info->n_layer; l++)
        if (kvt_scorer_layer(s, info->layer_id[l]) != l)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    kvt_err err;
    kvt_scorer *s;
    set_path();
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
    bool is = kvt_is_scorer(path);
    kvt_code code = kvt_scorer_open(&s, path, &err);
    if (code == KVT_OK) {
        if (!is)
            abort();
        look(s);
        kvt_scorer_close(s);
    } else if (code != KVT_FORMAT && code != KVT_NOMEM) {
        fprintf(stderr, "%s: %s\n", kvt_code_name(code), err.text);
        abort();
    }
    unlink(path);
    return 0;
}
