/* constants.c - which constants hold for a policy on a machine under a profile.
 *
 * data/published.csv has a line for each policy that was measured on a machine, and a line "*"
 * for machines on which only the framework under the policies was. Serving measurements
 * (pro6000-fastdms) are of no published policy's code: they have a profile and no line.
 *
 * What a data sheet says (peaks, memory, links) and the runtime are always the machine's, so
 * that two profiles differ in software alone. Where nothing was fitted to the profile, each of
 * its constants is the worse one of its own and the machine's: published code is not faster
 * than fused kernels because a guess says so. */
#include "replay/cost/cost_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "traces/csv.h"

enum { N_FIELD = 9 };

/* The line that was found; "eager" without one. */
typedef struct line {
    const char *machine, *policy; /* asked for */
    int rank;                     /* 0: none, 1: "*", 2: the policy's own */
    char profile[64];
    kvt_published what;
} line;

static kvt_code take(line *x, const char *const *field, kvt_err *err)
{
    kvt_published *p = &x->what;
    if (real_parse(&p->machine.evict_factor, field[3], err) ||
        real_parse(&p->machine.evict_floor, field[4], err) ||
        int_parse(&p->draft_tokens, field[5], err) ||
        real_parse(&p->draft_step, field[6], err) ||
        int_parse(&p->draft_step_tokens, field[7], err))
        return err->code;
    snprintf(x->profile, sizeof x->profile, "%s", field[2]);
    snprintf(p->source, sizeof p->source, "%s", field[8]);
    return KVT_OK;
}

static kvt_code on_row(void *user, const csv_row *row, kvt_err *err)
{
    line *x = user;
    if (row->n_field != N_FIELD)
        return kvt_fail(err, KVT_FORMAT, "expected %d fields, got %d", N_FIELD, row->n_field);
    int rank = !strcmp(row->field[1], x->policy) ? 2 : !strcmp(row->field[1], "*") ? 1 : 0;
    if (strcmp(row->field[0], x->machine) || rank <= x->rank)
        return KVT_OK;
    x->rank = rank;
    return take(x, row->field, err);
}

/* Nothing is known: every number is NAN. */
static void unknown(kvt_published *out)
{
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        double nothing = NAN;
        memcpy((char *)&out->machine + kvt_machine_fields()[i].offset, &nothing,
               sizeof nothing);
    }
    out->is_default = true;
    snprintf(out->source, sizeof out->source, "out of memory");
}

#define TAKE(field)                                                          \
    do {                                                                     \
        to->field = from->field;                                             \
        to->origin[KVT_MACHINE_##field] = from->origin[KVT_MACHINE_##field]; \
    } while (0)
#define LEAST(field)                 \
    do {                             \
        if (from->field < to->field) \
            TAKE(field);             \
    } while (0)
#define MOST(field)                  \
    do {                             \
        if (from->field > to->field) \
            TAKE(field);             \
    } while (0)

static void take_hardware(kvt_machine *to, const kvt_machine *from)
{
    TAKE(peak_flops_16);
    TAKE(peak_flops_32);
    TAKE(peak_flops_w4);
    TAKE(mem_bw);
    TAKE(mem_bytes);
    TAKE(cache_bytes);
    TAKE(cache_gain);
    TAKE(link_bw);
    TAKE(runtime_bytes);
    TAKE(alloc_round);
}

static void take_worse(kvt_machine *to, const kvt_machine *from)
{
    LEAST(e_lin);
    LEAST(e_att);
    LEAST(hd64_factor);
    LEAST(e_w);
    LEAST(e_kv);
    LEAST(e_m);
    MOST(n_half);
    MOST(window_half);
    MOST(t_launch);
    MOST(launches_layer);
    MOST(elementwise);
    MOST(t_layer);
    MOST(t_step);
    MOST(t_req);
    MOST(t_ttft);
    MOST(host_floor_layer);
    MOST(host_floor_step);
    MOST(kv_traffic);
}

/* What was measured on the machine itself, by a user's calibration. */
static void take_measured(kvt_machine *to, const kvt_machine *from)
{
    if (from->origin[KVT_MACHINE_evict_factor] == KVT_ORIGIN_CALIBRATED)
        TAKE(evict_factor);
    if (from->origin[KVT_MACHINE_evict_floor] == KVT_ORIGIN_CALIBRATED)
        TAKE(evict_floor);
}

/* Somebody's framework, measured: as published is what it was measured as. */
static bool is_measured_framework(const line *x, const kvt_machine *m)
{
    return !x->rank && m->engine == KVT_ENGINE_EAGER && m->calibrated_on[0];
}

/* The machine `m` under the profile of the line. */
static kvt_code on_machine(kvt_published *out, const line *x, const kvt_machine *m,
                           kvt_err *err)
{
    kvt_machine *to = &out->machine;
    *out = x->what;
    if (is_measured_framework(x, m)) {
        *to = *m;
        out->is_default = true;
        snprintf(out->source, sizeof out->source, "%.40s; nothing was measured of the policy",
                 m->name);
        return KVT_OK;
    }
    if (kvt_cost_profile_find(to, x->rank ? x->profile : "eager", err))
        return err->code;
    out->is_default = x->rank < 2;
    if (x->rank) {
        to->evict_factor = x->what.machine.evict_factor;
        to->evict_floor = x->what.machine.evict_floor;
        to->origin[KVT_MACHINE_evict_factor] =
            x->rank == 2 ? KVT_ORIGIN_CALIBRATED : KVT_ORIGIN_DEFAULT;
    }
    if (!x->rank)
        take_measured(to, m);
    take_hardware(to, m);
    if (!to->calibrated_on[0])
        take_worse(to, m);
    if (out->is_default) /* here to->name is still the profile's */
        snprintf(out->source, sizeof out->source, "%.40s; nothing was measured of the policy",
                 to->name);
    memcpy(to->name, m->name, sizeof to->name);
    return KVT_OK;
}

static kvt_code as_published(kvt_published *out, const kvt_machine *machine, const char *policy,
                             kvt_err *err)
{
    line x = {.machine = machine->name, .policy = policy};
    const cost_file *f = cost_file_find(cost_tables, "published");
    if (csv_read_bytes(f->bytes, f->size, f->size, on_row, &x, err))
        return err->code;
    return on_machine(out, &x, machine, err);
}

void kvt_cost_constants(kvt_published *out, const kvt_machine *machine,
                        kvt_cost_profile profile, const char *policy)
{
    kvt_err err;
    kvt_code code = KVT_OK;
    memset(out, 0, sizeof *out);
    switch (profile) {
    case KVT_PROFILE_FUSED: out->machine = *machine; break;
    case KVT_PROFILE_AS_PUBLISHED: code = as_published(out, machine, policy, &err); break;
    case KVT_PROFILE_PAPER_LKV:
        code = kvt_cost_profile_find(&out->machine, "paper-lkv", &err);
        break;
    }
    if (code) /* of files that are compiled in: only memory can be short */
        unknown(out);
}
