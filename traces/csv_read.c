/* csv_read.c - reading CSV strictly through libcsv.
 *
 * libcsv tells neither where a row began nor where an error is, so it gets one line of the file
 * at a time: a row that goes over several lines is still one row, and the line at hand is
 * known. */
#include "traces/csv.h"

#include "base/buf.h"
#include "base/file.h"

#include <csv.h>
#include <string.h>

#include "kvt/arena.h"

enum { FIELDS_MAX = 4096, ROW_LIMIT = 1 << 28, FILE_LIMIT = 1 << 30 };

typedef struct state {
    kvt_code (*each)(void *user, const csv_row *row, kvt_err *err);
    void *user;
    kvt_err *err;
    kvt_code code;
    buf text; /* the row's fields, each ended by NUL */
    size_t begin[FIELDS_MAX], size[FIELDS_MAX];
    const char *field[FIELDS_MAX];
    int n_field, n_first; /* n_first: of the first row, -1 before it */
    int64_t line, row_line;
} state;

static void on_field(void *bytes, size_t n, void *data)
{
    state *s = data;
    if (s->code)
        return;
    if (s->n_field == FIELDS_MAX) {
        s->code = kvt_fail(s->err, KVT_FORMAT, "line %lld: more than %d fields",
                           (long long)s->row_line, FIELDS_MAX);
        return;
    }
    s->begin[s->n_field] = s->text.n;
    s->size[s->n_field++] = n;
    if (n)
        buf_add(&s->text, bytes, n);
    buf_char(&s->text, 0);
}

static void on_row(int end, void *data)
{
    state *s = data;
    (void)end; /* -1: the file ended without a line end, which is a row like any other */
    if (!s->code)
        s->code = buf_check(&s->text, s->err);
    if (!s->code && s->n_first >= 0 && s->n_field != s->n_first)
        s->code = kvt_fail(s->err, KVT_FORMAT, "line %lld: expected %d fields, got %d",
                           (long long)s->row_line, s->n_first, s->n_field);
    if (!s->code) {
        s->n_first = s->n_field;
        for (int i = 0; i < s->n_field; i++)
            s->field[i] = buf_get(&s->text) + s->begin[i];
        csv_row row = {
            .line = s->row_line, .n_field = s->n_field, .field = s->field, .size = s->size};
        s->code = s->each(s->user, &row, s->err);
    }
    buf_clear(&s->text);
    s->n_field = 0;
    s->row_line = 0;
}

/* Spaces belong to their field; libcsv would trim them. */
static int never(unsigned char c)
{
    (void)c;
    return 0;
}

static const char *explain(struct csv_parser *p)
{
    return csv_error(p) == CSV_EPARSE ? "a quote inside a field, or text behind a closing quote"
                                      : csv_strerror(csv_error(p));
}

/* Bytes up to and with the next line end (LF, CR LF, CR). */
static size_t line_size(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n')
            return i + 1;
        if (s[i] == '\r')
            return i + 1 < n && s[i + 1] == '\n' ? i + 2 : i + 1;
    }
    return n;
}

static void parse(state *s, struct csv_parser *p, const char *bytes, size_t n, size_t piece)
{
    for (size_t at = 0; at < n && !s->code;) {
        size_t end = at + line_size(bytes + at, n - at);
        s->line++;
        if (s->row_line == 0)
            s->row_line = s->line;
        while (at < end && !s->code) {
            size_t step = end - at < piece ? end - at : piece;
            if (csv_parse(p, bytes + at, step, on_field, on_row, s) != step && !s->code)
                s->code = kvt_fail(s->err, KVT_FORMAT, "line %lld: %s", (long long)s->line,
                                   explain(p));
            at += step;
        }
        /* An empty line between rows is no row, and begins none. */
        if (p->pstate == 0)
            s->row_line = 0;
    }
    if (!s->code && csv_fini(p, on_field, on_row, s) != 0 && !s->code)
        s->code =
            kvt_fail(s->err, KVT_FORMAT, "line %lld: a quote is not closed before the end",
                     (long long)(s->row_line ? s->row_line : s->line));
}

kvt_code csv_read_bytes(const char *bytes, size_t n, size_t piece,
                        kvt_code (*each)(void *user, const csv_row *row, kvt_err *err),
                        void *user, kvt_err *err)
{
    struct csv_parser p;
    state *s = kvt_alloc(1, sizeof *s);
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    s->each = each;
    s->user = user;
    s->err = err;
    s->n_first = -1;
    buf_init(&s->text, ROW_LIMIT);
    kvt_code code;
    if (csv_init(&p, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        code = kvt_fail(err, KVT_NOMEM, "out of memory for the CSV parser");
    } else {
        csv_set_space_func(&p, never);
        size_t skip = n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        parse(s, &p, bytes + skip, n - skip, piece ? piece : n);
        code = s->code;
        csv_free(&p);
    }
    buf_fini(&s->text);
    kvt_free(s);
    return code;
}

kvt_code csv_read_file(const char *path,
                       kvt_code (*each)(void *user, const csv_row *row, kvt_err *err),
                       void *user, kvt_err *err)
{
    buf b;
    buf_init(&b, FILE_LIMIT);
    kvt_code code = file_read(&b, path, FILE_LIMIT, err);
    if (!code && csv_read_bytes(buf_get(&b), b.n, 0, each, user, err))
        code = kvt_within(err, "'%s'", path);
    buf_fini(&b);
    return code;
}
