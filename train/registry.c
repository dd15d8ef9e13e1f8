/* registry.c - what can be trained. */
#include <string.h>

#include "train/train_priv.h"

static const kvt_trainer *const list[] = {
#define KVT_TRAINER(id) &kvt_trainer_##id,
#include "train/trainers.def"
#undef KVT_TRAINER
    NULL,
};

const kvt_trainer *const *kvt_trainers(void)
{
    return list;
}

const kvt_trainer *kvt_trainer_find(const char *name)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    return NULL;
}
