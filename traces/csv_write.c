/* csv_write.c - a table as CSV: text fields through libcsv, numbers bare, one kind of line end,
 * and a CSV on the Web description beside it.
 *
 * Text that came from a prompt and begins like a formula gets an apostrophe in front:
 * spreadsheets run what starts with = + - @, a tab or a carriage return. */
#include "kvt/table.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/version.h"

#include <csv.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvt/arena.h"

enum { FLUSH_BYTES = 1 << 16, TEXT_LIMIT = 1 << 30 };

struct kvt_csv {
    char path[1024], temp[1100];
    FILE *file;
    bool own; /* the stream is ours to close */
    kvt_csv_options options;
    char *command;
    const kvt_column *columns;
    char name[64], title[160];
    int n_column;
    int64_t n_row;
    buf out;
    char *text; /* one cell */
    size_t text_cap;
};

/* ---- one field -----------------------------------------------------------------------------
 */

static kvt_code grow(kvt_csv *c, size_t need, kvt_err *err)
{
    if (need <= c->text_cap)
        return KVT_OK;
    size_t cap = need + need / 2 + 64;
    char *more = kvt_resize(c->text, (int64_t)c->text_cap, (int64_t)cap, 1);
    if (!more)
        return kvt_fail_memory(err, cap);
    c->text = more;
    c->text_cap = cap;
    return KVT_OK;
}

/* csv_write() returns the length that it needs, whatever the buffer holds. */
static kvt_code put_text(kvt_csv *c, const char *text, size_t n, kvt_err *err)
{
    char small[256];
    size_t need = csv_write(small, sizeof small, text, n);
    if (need <= sizeof small) {
        buf_add(&c->out, small, need);
        return KVT_OK;
    }
    char *big = kvt_alloc((int64_t)need, 1);
    if (!big)
        return kvt_fail_memory(err, need);
    size_t got = csv_write(big, need, text, n);
    if (got == need)
        buf_add(&c->out, big, need);
    kvt_free(big);
    return got == need ? KVT_OK : kvt_fail(err, KVT_IO, "a field of %zu bytes", n);
}

static bool is_formula(char first)
{
    return first && strchr("=+-@\t\r", first);
}

static kvt_code put_cell(kvt_csv *c, const kvt_table *t, int64_t row, const kvt_column *k,
                         kvt_err *err)
{
    /* One byte in front is room for the guard. */
    size_t n = kvt_cell_print(t, row, k, c->text + 1, c->text_cap - 1);
    if (n + 2 > c->text_cap) {
        if (grow(c, n + 2, err))
            return err->code;
        kvt_cell_print(t, row, k, c->text + 1, c->text_cap - 1);
    }
    if (k->type == KVT_COL_INT || k->type == KVT_COL_REAL) {
        buf_add(&c->out, c->text + 1, n);
        return KVT_OK;
    }
    /* Empty is undefined; the only field of a row must show that there is a row. */
    if (n == 0 && c->n_column > 1)
        return KVT_OK;
    if (k->untrusted && !c->options.raw_text && is_formula(c->text[1])) {
        c->text[0] = '\'';
        return put_text(c, c->text, n + 1, err);
    }
    return put_text(c, c->text + 1, n, err);
}

static void end_line(kvt_csv *c)
{
    buf_text(&c->out, c->options.crlf ? "\r\n" : "\n");
}

static kvt_code flush(kvt_csv *c, kvt_err *err)
{
    if (buf_check(&c->out, err))
        return err->code;
    errno = 0;
    if (c->out.n && fwrite(c->out.data, 1, c->out.n, c->file) != c->out.n)
        return kvt_fail(err, KVT_IO, "'%s': write: %s", c->path,
                        errno ? strerror(errno) : "failed");
    buf_clear(&c->out);
    return KVT_OK;
}

/* ---- the file ------------------------------------------------------------------------------
 */

void kvt_csv_abort(kvt_csv *c)
{
    if (!c)
        return;
    if (c->own && c->file)
        fclose(c->file);
    if (c->temp[0])
        unlink(c->temp);
    buf_fini(&c->out);
    kvt_free(c->text);
    kvt_free(c->command);
    kvt_free(c);
}

static kvt_code open_file(kvt_csv *c, kvt_err *err)
{
    if (strcmp(c->path, "-") == 0) {
        c->file = stdout;
        return KVT_OK;
    }
    if (file_temp_name(c->temp, sizeof c->temp, c->path, err))
        return err->code;
    int fd = open(c->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    c->file = fd < 0 ? NULL : fdopen(fd, "w");
    c->own = c->file != NULL;
    if (c->file)
        return KVT_OK;
    int number = errno;
    if (fd >= 0)
        close(fd);
    return kvt_fail(err, KVT_IO, "'%s': cannot be written: %s", c->path, strerror(number));
}

kvt_code kvt_csv_open(kvt_csv **out, const kvt_table *t, const char *path,
                      const kvt_csv_options *options, kvt_err *err)
{
    *out = NULL;
    if (strlen(path) >= sizeof((kvt_csv *)0)->path)
        return kvt_fail(err, KVT_USAGE, "a path of more than %zu bytes",
                        sizeof((kvt_csv *)0)->path - 1);
    kvt_csv *c = kvt_alloc(1, sizeof *c);
    if (!c)
        return kvt_fail_memory(err, sizeof *c);
    snprintf(c->path, sizeof c->path, "%s", path);
    snprintf(c->name, sizeof c->name, "%s", t->name);
    snprintf(c->title, sizeof c->title, "%s", t->title ? t->title : t->name);
    c->options = *options;
    c->columns = t->columns;
    c->n_column = kvt_table_columns(t->columns);
    buf_init(&c->out, TEXT_LIMIT);
    kvt_code code = grow(c, 512, err);
    if (!code && options->command && !(c->command = kvt_copy_text(options->command)))
        code = kvt_fail_memory(err, 1024);
    if (!code)
        code = open_file(c, err);
    if (!code && options->bom)
        buf_text(&c->out, "\xef\xbb\xbf");
    for (int i = 0; i < c->n_column && !code; i++) {
        buf_text(&c->out, i ? "," : "");
        buf_text(&c->out, c->columns[i].name); /* [a-z0-9_]: needs no quotes */
    }
    if (code) {
        kvt_csv_abort(c);
        return code;
    }
    end_line(c);
    *out = c;
    return KVT_OK;
}

kvt_code kvt_csv_rows(kvt_csv *c, const kvt_table *t, kvt_err *err)
{
    for (int64_t r = 0; r < t->n_row; r++) {
        for (int i = 0; i < c->n_column; i++) {
            buf_text(&c->out, i ? "," : "");
            if (put_cell(c, t, r, &t->columns[i], err))
                return err->code;
        }
        end_line(c);
        if (c->out.n >= FLUSH_BYTES && flush(c, err))
            return err->code;
    }
    c->n_row += t->n_row;
    return KVT_OK;
}

static void member(buf *b, const char *indent, const char *key, const char *text, bool last)
{
    buf_printf(b, "%s\"%s\": ", indent, key);
    json_quote(b, text, strlen(text));
    buf_text(b, last ? "\n" : ",\n");
}

static void describe(const kvt_csv *c, buf *b)
{
    static const char *const type[] = {"string", "integer", "double", "string"};
    buf_text(b, "{\n  \"@context\": \"http://www.w3.org/ns/csvw\",\n");
    member(b, "  ", "url", file_base(c->path), false);
    member(b, "  ", "dc:title", c->title, false);
    member(b, "  ", "dc:creator", version_full(), false);
    if (c->command)
        member(b, "  ", "dc:source", c->command, false);
    buf_printf(b, "  \"schema:numberOfItems\": %lld,\n", (long long)c->n_row);
    buf_text(b, "  \"dialect\": {\"encoding\": \"utf-8\", \"lineTerminators\": ");
    buf_text(b, c->options.crlf ? "\"\\r\\n\"" : "\"\\n\"");
    buf_text(b, ", \"header\": true},\n  \"tableSchema\": {\"columns\": [\n");
    for (int i = 0; i < c->n_column; i++) {
        const kvt_column *k = &c->columns[i];
        buf_text(b, "    {\n");
        member(b, "      ", "name", k->name, false);
        member(b, "      ", "titles", k->name, false);
        member(b, "      ", "datatype", type[k->type], false);
        member(b, "      ", "schema:unitText", k->unit ? k->unit : "", false);
        member(b, "      ", "dc:description", k->help ? k->help : "", true);
        buf_text(b, i + 1 < c->n_column ? "    },\n" : "    }\n");
    }
    buf_text(b, "  ]}\n}\n");
}

static kvt_code write_metadata(const kvt_csv *c, kvt_err *err)
{
    char path[1100];
    buf b;
    snprintf(path, sizeof path, "%s-metadata.json", c->path);
    buf_init(&b, TEXT_LIMIT);
    describe(c, &b);
    kvt_code code = buf_check(&b, err);
    if (!code)
        code = file_write(path, b.data, b.n, err);
    buf_fini(&b);
    return code;
}

kvt_code kvt_csv_close(kvt_csv *c, kvt_err *err)
{
    kvt_code code = flush(c, err);
    errno = 0;
    if (!code && fflush(c->file) != 0)
        code = kvt_fail(err, KVT_IO, "'%s': write: %s", c->path, strerror(errno));
    if (c->own) {
        FILE *f = c->file;
        c->file = NULL;
        if (fclose(f) != 0 && !code)
            code = kvt_fail(err, KVT_IO, "'%s': write: %s", c->path, strerror(errno));
        if (!code && !(code = file_commit(c->temp, c->path, err)))
            c->temp[0] = 0;
        if (!code && c->options.metadata)
            code = write_metadata(c, err);
    }
    kvt_csv_abort(c);
    return code;
}

kvt_code kvt_table_csv(const kvt_table *t, const char *path, const kvt_csv_options *options,
                       kvt_err *err)
{
    kvt_csv *c;
    if (kvt_csv_open(&c, t, path, options, err))
        return err->code;
    if (kvt_csv_rows(c, t, err)) {
        kvt_csv_abort(c);
        return err->code;
    }
    return kvt_csv_close(c, err);
}
