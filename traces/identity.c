/* identity.c - when two things are of one model. */
#include <string.h>

#include "kvt/scorer.h"

kvt_model_id kvt_model_id_of(const kvt_trace_facts *f)
{
    kvt_model_id id;
    memcpy(id.weights, f->weights_digest, sizeof id.weights);
    memcpy(id.file, f->file_digest, sizeof id.file);
    return id;
}

kvt_model_id kvt_scorer_model(const kvt_scorer_info *s)
{
    kvt_model_id id = {"", ""};
    memcpy(id.weights, s->weights_digest, sizeof id.weights);
    return id;
}

static bool equal(const char *a, const char *b)
{
    return a[0] && strcmp(a, b) == 0;
}

bool kvt_model_id_same(const kvt_model_id *a, const kvt_model_id *b)
{
    if (!a->weights[0] && !a->file[0] && !b->weights[0] && !b->file[0])
        return true; /* nothing is known of either: other facts decide */
    return equal(a->weights, b->weights) || equal(a->file, b->file) ||
           equal(a->weights, b->file) || equal(a->file, b->weights);
}
