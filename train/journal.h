/* journal.h - what train.c does with the journal of a run; trainers use train/train_priv.h. */
#ifndef TRAIN_JOURNAL_H
#define TRAIN_JOURNAL_H

#include "train/train_priv.h"

/* IO: the log's path holds something that is no curve, and not `force`. */
KVT_CHECKED kvt_code journal_open(train_run *run, kvt_err *err);
void journal_done(train_run *run);  /* removes the checkpoint */
void journal_close(train_run *run); /* no journal is fine */

#endif
