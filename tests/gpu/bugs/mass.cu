/* mass.cu - the kernel of mass.h, right and with each of its bugs. */
#include "tests/gpu/bugs/mass.h"

#include "compute/cuda/kernel.h"

enum { MASS_TILE = 32, MASS_THREADS = 128 };

#define BUG     BUG_NONE
#define MASS(x) none_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_NO_BARRIER_LOADED
#define MASS(x) no_barrier_loaded_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_NO_BARRIER_USED
#define MASS(x) no_barrier_used_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_SHARED_END
#define MASS(x) shared_end_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_MASK
#define MASS(x) mask_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_NO_GUARD
#define MASS(x) no_guard_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_DIVERGENT
#define MASS(x) divergent_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_SHUFFLE
#define MASS(x) shuffle_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_UNSET
#define MASS(x) unset_##x
#include "tests/gpu/bugs/mass_body.h"

#define BUG     BUG_BLOCKS
#define MASS(x) blocks_##x
#include "tests/gpu/bugs/mass_body.h"

mass_launch *const mass_of_bug[N_BUG] = {
    [BUG_NONE] = none_launch,
    [BUG_NO_BARRIER_LOADED] = no_barrier_loaded_launch,
    [BUG_NO_BARRIER_USED] = no_barrier_used_launch,
    [BUG_SHARED_END] = shared_end_launch,
    [BUG_MASK] = mask_launch,
    [BUG_NO_GUARD] = no_guard_launch,
    [BUG_DIVERGENT] = divergent_launch,
    [BUG_SHUFFLE] = shuffle_launch,
    [BUG_UNSET] = unset_launch,
    [BUG_BLOCKS] = blocks_launch,
};
