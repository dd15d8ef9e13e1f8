/* run_prompt.h - what probes see while a prompt is captured. */
#ifndef CAPTURE_RUN_PROMPT_H
#define CAPTURE_RUN_PROMPT_H

#include "capture/recorder.h"
#include "kvt/capture.h"

typedef struct run_prompt {
    const forward *f;
    const recorder *r;
    const kvt_geometry *g;
    int64_t n_prompt, n_response;
    const int32_t *id;
    const uint8_t *flag;
    int32_t first; /* likeliest token behind the prompt */
} run_prompt;

/* Borrows *r. */
kvt_prompt run_prompt_of(run_prompt *r);

#endif
