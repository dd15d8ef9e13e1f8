/* machine.c - machines and profiles: their fields, their files, names and aliases. */
#include "replay/cost/cost_priv.h"

#include <string.h>

static const kvt_machine_field_info fields[] = {
#define X(field, unit, least, most, help) \
    {#field, unit, help, least, most, offsetof(kvt_machine, field)},
    KVT_MACHINE_FIELDS(X)
#undef X
};

static const char *const origins[] = {
#define X(id, text, help) text,
    KVT_ORIGINS(X)
#undef X
};
enum { N_ORIGIN = sizeof origins / sizeof origins[0] };

static const char *const engines[] = {"fused", "eager", "paper"};
enum { N_ENGINE = sizeof engines / sizeof engines[0] };

const kvt_machine_field_info *kvt_machine_fields(void)
{
    return fields;
}

const char *kvt_origin_name(kvt_origin o)
{
    return origins[o];
}

const char *kvt_engine_name(kvt_engine_kind e)
{
    return engines[e];
}

static double *field_of(kvt_machine *m, int i)
{
    return (double *)(void *)((char *)m + fields[i].offset);
}

/* A second: of bytes, of products. Less is a rate in other units. */
static const double RATE_LEAST = 1e6;

/* "field": [value, "origin"]. */
static kvt_code read_field(kvt_machine *m, int i, const json_t *o, kvt_err *err)
{
    const kvt_machine_field_info *f = &fields[i];
    const json_t *pair = json_object_get(o, f->name);
    if (!pair)
        return kvt_fail(err, KVT_FORMAT, "'%s' is missing", f->name);
    const json_t *value = json_array_get(pair, 0), *origin = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_number(value) || !json_is_string(origin))
        return kvt_fail(err, KVT_FORMAT, "'%s': expected [number, \"origin\"]", f->name);
    double x = json_number_value(value);
    if (!(x >= f->least && x <= f->most))
        return kvt_fail(err, KVT_FORMAT, "'%s': expected %g to %g%s%s, got %g", f->name,
                        f->least, f->most, strcmp(f->unit, "1") ? " " : "",
                        strcmp(f->unit, "1") ? f->unit : "", x);
    if (x > 0 && x < RATE_LEAST && strstr(f->unit, "/s"))
        return kvt_fail(err, KVT_FORMAT, "'%s': expected %g %s or more, not G%s or T%s, got %g",
                        f->name, RATE_LEAST, f->unit, f->unit, f->unit, x);
    int at = 0;
    while (at < N_ORIGIN && strcmp(origins[at], json_string_value(origin)))
        at++;
    if (at == N_ORIGIN)
        return kvt_fail(err, KVT_FORMAT,
                        "'%s': expected the origin vendor, kernel-fit, calibrated or default",
                        f->name);
    *field_of(m, i) = x;
    m->origin[i] = (unsigned char)at;
    return KVT_OK;
}

static kvt_code read_engine(kvt_machine *m, const json_t *o, kvt_err *err)
{
    char text[sizeof m->name] = "";
    if (cost_text(o, "engine", true, text, sizeof text, err))
        return err->code;
    for (int i = 0; i < N_ENGINE; i++)
        if (!strcmp(engines[i], text)) {
            m->engine = (kvt_engine_kind)i;
            return KVT_OK;
        }
    return kvt_fail(err, KVT_FORMAT, "'engine': expected fused, eager or paper, got '%s'",
                    text);
}

/* Names that a built-in file is found by, too; of a user's file they say nothing. */
static kvt_code check_aliases(const json_t *o, kvt_err *err)
{
    const json_t *list = json_object_get(o, "aliases");
    bool good = !list || json_is_array(list);
    for (size_t i = 0; good && i < json_array_size(list); i++)
        good = json_is_string(json_array_get(list, i));
    return good ? KVT_OK : kvt_fail(err, KVT_FORMAT, "'aliases': expected an array of texts");
}

/* What no prediction can do without: rates that something is divided by. */
static kvt_code check_rates(const kvt_machine *m, kvt_err *err)
{
    static const kvt_machine_field shares[] = {KVT_MACHINE_e_lin,       KVT_MACHINE_e_att,
                                               KVT_MACHINE_hd64_factor, KVT_MACHINE_e_w,
                                               KVT_MACHINE_e_kv,        KVT_MACHINE_e_m};
    if (!(m->peak_flops_16 > 0) && !(m->peak_flops_32 > 0))
        return kvt_fail(err, KVT_FORMAT,
                        "'peak_flops_16', 'peak_flops_32': expected one above 0");
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        const kvt_machine_field_info *f = &fields[shares[i]];
        double x;
        memcpy(&x, (const char *)m + f->offset, sizeof x);
        if (!(x > 0))
            return kvt_fail(err, KVT_FORMAT, "'%s': expected above 0, got 0", f->name);
    }
    if (m->range_from > m->range_to)
        return kvt_fail(err, KVT_FORMAT,
                        "'range_from' %g: expected at most 'range_to', which is %g",
                        m->range_from, m->range_to);
    return KVT_OK;
}

static kvt_code read_object(kvt_machine *m, const json_t *o, kvt_err *err)
{
    static const char *const known[] = {
#define X(field, unit, least, most, help) #field,
        KVT_MACHINE_FIELDS(X)
#undef X
            "name",
        "title",
        "aliases",
        "engine",
        "calibrated_on",
        NULL};
    if (json_only(o, known, err) || cost_text(o, "name", true, m->name, sizeof m->name, err) ||
        cost_text(o, "title", false, m->title, sizeof m->title, err) ||
        read_engine(m, o, err) || check_aliases(o, err) ||
        cost_text(o, "calibrated_on", false, m->calibrated_on, sizeof m->calibrated_on, err))
        return err->code;
    for (int i = 0; i < KVT_MACHINE_N; i++)
        if (read_field(m, i, o, err))
            return err->code;
    return check_rates(m, err);
}

static kvt_code find(kvt_machine *out, const cost_file *list, const char *kind,
                     const char *name, kvt_err *err)
{
    json_t *o;
    memset(out, 0, sizeof *out);
    if (cost_file_read(&o, list, kind, name, err))
        return err->code;
    kvt_code code = read_object(out, o, err);
    if (code)
        code = cost_file_within(kind, name, err);
    json_decref(o);
    return code;
}

kvt_code kvt_machine_find(kvt_machine *out, const char *name, kvt_err *err)
{
    return find(out, cost_machines, "machine", name, err);
}

kvt_code kvt_cost_profile_find(kvt_machine *out, const char *name, kvt_err *err)
{
    return find(out, cost_profiles, "profile", name, err);
}

const char *const *kvt_machine_names(void)
{
    return cost_machines_names;
}

const char *const *kvt_cost_profile_names(void)
{
    return cost_profiles_names;
}

const char *const *kvt_machine_aliases(const char *name)
{
    static const char *const none[] = {NULL};
    const cost_file *f = cost_file_find(cost_machines, name);
    return f ? f->aliases : none;
}
