/* model.h - the parts of an open model, for the layers above capture/: borrowed until
 * kvt_model_close(). */
#ifndef CAPTURE_MODEL_H
#define CAPTURE_MODEL_H

#include "capture/device_weights.h"
#include "capture/tokenizer.h"
#include "capture/weights.h"
#include "kvt/backend.h"
#include "kvt/capture.h"

const kvt_weights *model_weights(const kvt_model *m);
const kvt_backend *model_backend(const kvt_model *m);
tokenizer *model_tokenizer(const kvt_model *m);
/* The weights on the back end's device; NULL: the processor runs the model. */
const device_weights *model_device(const kvt_model *m);
const char *model_asked(const kvt_model *m); /* where it was to run: "auto", "cuda:1" */
bool model_header_only(const kvt_model *m);  /* no weights were loaded */

#endif
