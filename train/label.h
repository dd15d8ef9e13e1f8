/* label.h - what Fast KVzip and KVzap learn: how much a prompt token is looked at later, by the
 * response or, where the trace has such a probe, while the model repeats the prompt. */
#ifndef TRAIN_LABEL_H
#define TRAIN_LABEL_H

#include "train/targets.h"

typedef enum label_kind { LABEL_FUTURE, LABEL_REPEAT, LABEL_REPEAT_PLUS } label_kind;

/* The first probe of kind repeat; -1: none. */
int label_probe(const tracein *s);

/* FORMAT where the trace lacks what the label wants. */
KVT_CHECKED kvt_code label_check(const tracein *s, label_kind kind, kvt_err *err);

/* out [G N] of one layer. LABEL_FUTURE: the group's maximum of future/max. LABEL_REPEAT:
 * KVzip's score (arXiv 2505.23416), the largest attention of any repeated row and query head in
 * a softmax over the template's prefix, the chunk and the repeated rows. LABEL_REPEAT_PLUS:
 * times |W_O v| of the token over the norm of the row's residual (KVzip+). Tokens of no chunk:
 * 0. */
KVT_CHECKED kvt_code label_layer(double *out, const tracein *s, int layer, label_kind kind,
                                 kvt_arena *work, kvt_err *err);

#endif
