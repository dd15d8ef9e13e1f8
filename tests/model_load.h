/* model_load.h - weights of a GGUF file that a test has open. */
#ifndef TESTS_MODEL_LOAD_H
#define TESTS_MODEL_LOAD_H

#include "capture/weights.h"

static inline kvt_code load_gguf(kvt_weights **out, const gguf *g,
                                 const kvt_weights_options *options, const kvt_ctx *ctx,
                                 kvt_err *err)
{
    checkpoint *s = NULL;
    *out = NULL;
    if (checkpoint_of_gguf(&s, g, err) || kvt_weights_load(out, s, options, ctx, err)) {
        checkpoint_close(s);
        return err->code;
    }
    checkpoint_close(s);
    return KVT_OK;
}

#endif
