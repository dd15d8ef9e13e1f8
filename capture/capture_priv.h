/* capture_priv.h - an open model, and what prompts of a set share. */
#ifndef CAPTURE_CAPTURE_PRIV_H
#define CAPTURE_CAPTURE_PRIV_H

#include "capture/recorder.h"
#include "compute/backend.h"
#include "capture/tokenizer.h"
#include "kvt/capture.h"

struct kvt_model {
    kvt_weights *weights;
    tokenizer *tokenizer;
    kvt_backend *backend;
    device_weights *device; /* of the back end's device, or NULL */
    char asked[32];         /* where it was to run: "auto", "cpu", "cuda:1" */
    kvt_model_id id;        /* weights "" until it is asked for */
    bool header_only;
    bool f32; /* matrices were decoded when loaded (--weights f32) */
};

/* Puts the weights of an open model on its back end's device, where it has one. */
KVT_CHECKED kvt_code model_upload(kvt_model *m, kvt_err *err);

struct prepared;

/* The recorder's part of a spec, for a prompt of n_prompt tokens. */
KVT_CHECKED kvt_code capture_recorder(recorder_spec *out, const kvt_model *m,
                                      const kvt_capture_spec *spec, const struct prepared *p,
                                      const kvt_ctx *ctx, kvt_err *err);
/* The facts of a file and its extents, with n_response tokens. */
void capture_facts(kvt_writer_spec *out, const kvt_model *m, const kvt_capture_spec *spec,
                   const struct prepared *p, const recorder_spec *r, const kvt_ctx *ctx,
                   int64_t n_response);

/* The plan of a spec whose defaults are settled. */
KVT_CHECKED kvt_code capture_plan_all(kvt_capture_plan *out, kvt_model *m,
                                      const kvt_capture_spec *spec, const kvt_ctx *ctx,
                                      kvt_err *err);

/* Runs one prompt and writes its trace under `path` (record false: runs only). */
KVT_CHECKED kvt_code capture_one(kvt_model *m, const kvt_capture_spec *spec, struct prepared *p,
                                 const char *path, kvt_capture_counts *counts,
                                 const kvt_ctx *ctx, kvt_err *err);

#endif
