/* machine_write.c - a machine as a data file that reads back equal. */
#include "replay/cost/cost_priv.h"

#include <string.h>

#include "base/file.h"
#include "base/size.h"

enum { LIMIT = 1 << 16, NUMBER = 32 };

static void put_text(buf *out, const char *key, const char *text)
{
    buf_printf(out, "  \"%s\": ", key);
    json_quote(out, text, strlen(text));
    buf_text(out, ",\n");
}

/* What would not read back: a number that JSON has no word for, or one beyond its range. */
static kvt_code check_field(const kvt_machine_field_info *f, double x, int origin, kvt_err *err)
{
    if (!(x >= f->least && x <= f->most))
        return kvt_fail(err, KVT_USAGE, "%s: expected %g to %g, got %g", f->name, f->least,
                        f->most, x);
    if (origin > KVT_ORIGIN_DEFAULT)
        return kvt_fail(err, KVT_USAGE, "%s: no origin %d", f->name, origin);
    return KVT_OK;
}

static kvt_code put_fields(buf *out, const kvt_machine *m, kvt_err *err)
{
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        const kvt_machine_field_info *f = &kvt_machine_fields()[i];
        char number[NUMBER];
        double x;
        memcpy(&x, (const char *)m + f->offset, sizeof x);
        if (check_field(f, x, m->origin[i], err))
            return err->code;
        buf_printf(out, "  \"%s\": [%s, \"%s\"]%s\n", f->name,
                   real_print(x, number, sizeof number),
                   kvt_origin_name((kvt_origin)m->origin[i]), i + 1 < KVT_MACHINE_N ? "," : "");
    }
    return KVT_OK;
}

kvt_code kvt_machine_save(const kvt_machine *m, const char *path, kvt_err *err)
{
    buf text;
    buf_init(&text, LIMIT);
    buf_text(&text, "{\n");
    put_text(&text, "name", m->name);
    put_text(&text, "title", m->title);
    put_text(&text, "engine", kvt_engine_name(m->engine));
    put_text(&text, "calibrated_on", m->calibrated_on);
    kvt_code code = put_fields(&text, m, err);
    buf_text(&text, "}\n");
    if (!code)
        code = buf_check(&text, err);
    if (!code)
        code = file_write(path, buf_get(&text), text.n, err);
    buf_fini(&text);
    return code ? kvt_within(err, "machine '%s'", m->name) : KVT_OK;
}
