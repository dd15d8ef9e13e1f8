/* info_schema.c - kvt info --schema: the datasets and attributes that a trace may hold. */
#include "cli/info_schema.h"

#include "cli/about.h"
#include "cli/table.h"
#include "traces/dataset.h"

static const char *kind_name(attr_kind kind)
{
    static const char *const name[] = {"text", "i64", "u64", "u8", "text", "f64"};
    return name[kind];
}

static kvt_code schema_json(kvt_err *err)
{
    json_t *top = json_object(), *sets = json_object(), *attrs = json_array();
    int n;
    const trace_attr *a = trace_attrs(&n);
    json_object_set_new(top, "schema", json_string("kvt-trace-schema-1"));
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        json_object_set_new(sets, d->path,
                            json_pack("{s:s, s:s, s:s, s:s, s:b, s:s}", "type",
                                      kvt_dtype_name(d->dtype), "axes", d->axes, "unit",
                                      d->unit, "level", kvt_level_name(d->level), "required",
                                      (int)d->required, "help", d->help));
    }
    for (int k = 0; k < n; k++)
        json_array_append_new(attrs,
                              json_pack("{s:s, s:s, s:s, s:s, s:b, s:s}", "group", a[k].group,
                                        "name", a[k].name, "type", kind_name(a[k].kind), "unit",
                                        a[k].unit, "run", (int)a[k].run, "help", a[k].help));
    json_object_set_new(top, "datasets", sets);
    json_object_set_new(top, "attributes", attrs);
    return cli_json_print(top, err);
}

kvt_code cli_info_schema(cli *c, kvt_err *err)
{
    static const char *const head[] = {"DATASET", "TYPE", "AXES", "UNIT",
                                       "LEVEL",   "",     "WHAT", NULL};
    static const char *const attr_head[] = {"ATTRIBUTE", "TYPE", "UNIT", "", "WHAT", NULL};
    int n;
    const trace_attr *a = trace_attrs(&n);
    if (c->json)
        return schema_json(err);
    cli_table *t = cli_table_new(c, head, NULL), *u = cli_table_new(c, attr_head, NULL);
    kvt_code code = t && u ? KVT_OK : kvt_fail_memory(err, 4096);
    for (int ds = 0; ds < KVT_DS_COUNT && !code; ds++) {
        const kvt_dataset *d = kvt_dataset_of((kvt_ds)ds);
        if (d->level != KVT_NEVER)
            code = cli_table_row(
                t,
                (const char *const[]){d->path, kvt_dtype_name(d->dtype), d->axes, d->unit,
                                      kvt_level_name(d->level),
                                      d->required ? "always" : "may be", d->help, NULL},
                err);
    }
    for (int k = 0; k < n && !code; k++) {
        char name[64];
        snprintf(name, sizeof name, "/%s %s", a[k].group, a[k].name);
        code =
            cli_table_row(u,
                          (const char *const[]){name, kind_name(a[k].kind), a[k].unit,
                                                a[k].run ? "run" : "content", a[k].help, NULL},
                          err);
    }
    if (!code && !(code = cli_table_print(t, stdout, err))) {
        fputc('\n', stdout);
        code = cli_table_print(u, stdout, err);
    }
    cli_table_free(t);
    cli_table_free(u);
    return code;
}
