/* journal.c - the curve as CSV, one printed line a row, and checkpoints.
 *
 * The curve: step; mean loss since the row before; the learning rate (of embeddings; kvzap: its
 * penalty); of held-out traces loss, recall and lost mass at 10 % kept; seconds. What was not
 * measured is empty.
 *
 * A checkpoint is one file: a text header that says whose it is, the step and the parts; the
 * parts' bytes; the XXH128 of all that in front of it. It is replaced by rename, so that a kill
 * at any moment leaves the one before. */
#include "train/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"

static const char head[] = "step,loss,rate,heldout_loss,heldout_recall,heldout_lost,seconds\n";
static const char magic[] = "kvt-train-checkpoint 1\n";
enum { EVERY_S = 60, HEADER_MAX = 8192, CURVE_MAX = 64 << 20 };

struct train_journal {
    char log[1024], checkpoint[1024];
    double begin, saved; /* clock_now(): the run's begin, the last checkpoint */
    double before;       /* seconds of the runs that this one goes on */
    bool begun;          /* the CSV is there and holds this run's rows only */
};

static kvt_code name(char *out, size_t cap, const char *given, const char *path,
                     const char *suffix, kvt_err *err)
{
    int n = given ? snprintf(out, cap, "%s", given) : snprintf(out, cap, "%s%s", path, suffix);
    if (n < 0 || (size_t)n >= cap)
        return kvt_fail(err, KVT_USAGE, "'%s': the path is too long", given ? given : path);
    return KVT_OK;
}

/* Only a curve is ever written over without being asked. */
static kvt_code check_log(const train_run *run, const char *path, kvt_err *err)
{
    buf old;
    if (run->spec->force || !file_is_regular(path))
        return KVT_OK;
    buf_init(&old, CURVE_MAX);
    kvt_code code = file_read(&old, path, CURVE_MAX, err);
    if (!code && old.n > 0 && strncmp(buf_get(&old), head, strlen(head)) != 0)
        code = kvt_fail(err, KVT_IO,
                        "'%s' is there and no curve of kvt train; --force "
                        "replaces it",
                        path);
    buf_fini(&old);
    return code;
}

kvt_code journal_open(train_run *run, kvt_err *err)
{
    struct train_journal *j = run->journal = kvt_alloc(1, sizeof *j);
    if (!j)
        return kvt_fail_memory(err, sizeof *j);
    j->begin = j->saved = clock_now();
    const kvt_train_spec *s = run->spec;
    kvt_code code = name(j->log, sizeof j->log, s->log, s->out, ".csv", err);
    if (!code)
        code = name(j->checkpoint, sizeof j->checkpoint, s->checkpoint, s->out, ".ckpt", err);
    return code ? code : check_log(run, j->log, err);
}

void journal_done(train_run *run)
{
    if (file_is_regular(run->journal->checkpoint))
        unlink(run->journal->checkpoint);
}

void journal_close(train_run *run)
{
    kvt_free(run->journal);
    run->journal = NULL;
}

/* Keeps the rows up to `step` of a curve that is there: a resumed run writes the others again.
 */
static kvt_code begin_curve(struct train_journal *j, int64_t step, kvt_err *err)
{
    buf old, kept;
    buf_init(&old, CURVE_MAX);
    buf_init(&kept, CURVE_MAX);
    buf_text(&kept, head);
    kvt_code code = KVT_OK;
    if (step > 0 && file_is_regular(j->log))
        code = file_read(&old, j->log, CURVE_MAX, err);
    const char *at = strchr(buf_get(&old), '\n');
    while (!code && at && *++at) {
        int64_t row;
        const char *end = strchr(at, '\n');
        if (!end || sscanf(at, "%" SCNd64, &row) != 1 || row > step)
            break;
        const char *comma = end;
        while (comma > at && *comma != ',')
            comma--;
        char seconds[64];
        kvt_err ignored; /* a curve without seconds is a curve */
        snprintf(seconds, sizeof seconds, "%.*s", (int)(end - comma - 1), comma + 1);
        if (real_parse(&j->before, seconds, &ignored))
            j->before = 0;
        buf_add(&kept, at, (size_t)(end + 1 - at));
        at = end;
    }
    if (!code)
        code = buf_check(&kept, err);
    if (!code)
        code = file_write(j->log, buf_get(&kept), kept.n, err);
    j->begun = !code;
    buf_fini(&old);
    buf_fini(&kept);
    return code;
}

static void report(const train_run *run, const train_row *r)
{
    char heldout[128] = "";
    if (isfinite(r->heldout_loss))
        snprintf(heldout, sizeof heldout, ", held out %.4f", r->heldout_loss);
    size_t n = strlen(heldout);
    if (isfinite(r->recall))
        snprintf(heldout + n, sizeof heldout - n, ", recall %.3f, lost %.4f", r->recall,
                 r->lost);
    if (isfinite(r->loss))
        kvt_log(run->ctx, KVT_LOG_INFO, "train", "step %lld of %lld: loss %.4f%s, %.0f s",
                (long long)r->step, (long long)run->counts->n_step, r->loss, heldout,
                r->seconds);
    else
        kvt_log(run->ctx, KVT_LOG_INFO, "train", "step %lld of %lld%s, %.0f s",
                (long long)r->step, (long long)run->counts->n_step, heldout, r->seconds);
}

kvt_code train_log(train_run *run, const train_row *row, kvt_err *err)
{
    struct train_journal *j = run->journal;
    kvt_code code = j->begun ? KVT_OK : begin_curve(j, 0, err);
    if (code)
        return code;
    train_row r = *row;
    if (!(r.seconds > 0))
        r.seconds = j->before + clock_now() - j->begin;
    double value[] = {r.loss, r.rate, r.heldout_loss, r.recall, r.lost, r.seconds};
    FILE *f = fopen(j->log, "a");
    if (!f)
        return kvt_fail(err, KVT_IO, "cannot append to '%s': %s", j->log, strerror(errno));
    bool ok = fprintf(f, "%" PRId64, r.step) > 0;
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        char text[64];
        ok = fprintf(f, ",%s", real_print(value[i], text, sizeof text)) > 0 && ok;
    }
    ok = fputc('\n', f) != EOF && ok;
    ok = fclose(f) == 0 && ok;
    if (!ok)
        return kvt_fail(err, KVT_IO, "'%s' could not be written", j->log);
    report(run, &r);
    return KVT_OK;
}

/* Whose the checkpoint is: everything that decides the bytes of the result. */
static void identity(const train_run *run, char *out, size_t cap)
{
    snprintf(out, cap, "%s%s:%s\nmodel %s\nset %s\nheld out %s\nseed %llu\n", magic,
             run->trainer->name, run->params_text, run->info.facts.weights_digest,
             run->set_digest, run->heldout_digest,
             (unsigned long long)(run->ctx ? run->ctx->seed : 0));
}

static bool checkpoint_due(const train_run *run, int64_t step)
{
    int64_t every = run->spec->checkpoint_every;
    if (every > 0)
        return step % every == 0;
    return clock_now() - run->journal->saved >= EVERY_S;
}

static bool put(FILE *f, digest *d, const void *bytes, size_t n)
{
    digest_add(d, bytes, n);
    return n == 0 || fwrite(bytes, 1, n, f) == n;
}

static bool put_all(FILE *f, digest *d, const char *header, const train_part *part, int n)
{
    char text[DIGEST_TEXT];
    bool ok = put(f, d, header, strlen(header));
    for (int i = 0; ok && i < n; i++)
        ok = put(f, d, part[i].data, (size_t)part[i].bytes);
    digest_get(d, text);
    return ok && fwrite(text, 1, sizeof text - 1, f) == sizeof text - 1;
}

static kvt_code make_header(const train_run *run, int64_t step, const train_part *part, int n,
                            buf *out, kvt_err *err)
{
    char who[HEADER_MAX / 2];
    identity(run, who, sizeof who);
    buf_init(out, HEADER_MAX);
    buf_printf(out, "%sstep %lld\n", who, (long long)step);
    for (int i = 0; i < n; i++)
        buf_printf(out, "part %s %lld\n", part[i].name, (long long)part[i].bytes);
    buf_text(out, "\n");
    return buf_check(out, err);
}

static kvt_code write_checkpoint(train_run *run, int64_t step, const train_part *part, int n,
                                 kvt_err *err)
{
    struct train_journal *j = run->journal;
    char temp[1200];
    buf header;
    digest *d = NULL;
    FILE *f = NULL;
    kvt_code code = make_header(run, step, part, n, &header, err);
    if (!code)
        code = file_temp_name(temp, sizeof temp, j->checkpoint, err);
    if (!code && !(d = digest_new()))
        code = kvt_fail_memory(err, 1024);
    if (!code && !(f = fopen(temp, "wb")))
        code = kvt_fail(err, KVT_IO, "cannot write '%s': %s", temp, strerror(errno));
    if (f) {
        bool ok = put_all(f, d, buf_get(&header), part, n);
        ok = fclose(f) == 0 && ok;
        if (!ok) {
            code = kvt_fail(err, KVT_IO, "'%s' could not be written", j->checkpoint);
            unlink(temp);
        } else {
            code = file_commit(temp, j->checkpoint, err);
        }
    }
    digest_free(d);
    buf_fini(&header);
    j->saved = clock_now();
    return code;
}

static kvt_code whole(const struct train_journal *j, const buf *file, kvt_err *err)
{
    char text[DIGEST_TEXT];
    size_t tail = sizeof text - 1;
    if (file->n > tail) {
        digest_of(file->data, file->n - tail, text);
        if (memcmp(text, file->data + file->n - tail, tail) == 0)
            return KVT_OK;
    }
    return kvt_fail(err, KVT_FORMAT, "'%s' is no whole checkpoint", j->checkpoint);
}

/* Compares the header and copies the parts. */
static kvt_code load(const train_run *run, const buf *file, int64_t *step,
                     const train_part *part, int n, kvt_err *err)
{
    struct train_journal *j = run->journal;
    char who[HEADER_MAX / 2];
    buf expected;
    long long at_step = -1;
    kvt_code code = whole(j, file, err);
    if (code)
        return code;
    identity(run, who, sizeof who);
    size_t n_who = strlen(who);
    if (file->n < n_who || memcmp(file->data, who, n_who) != 0 ||
        sscanf(file->data + n_who, "step %lld\n", &at_step) != 1)
        return kvt_fail(err, KVT_FORMAT,
                        "'%s' is of other traces, parameters, model or seed: remove it, or "
                        "leave --resume out",
                        j->checkpoint);
    code = make_header(run, at_step, part, n, &expected, err);
    int64_t at = (int64_t)expected.n, total = at + DIGEST_TEXT - 1;
    for (int i = 0; i < n; i++)
        total += part[i].bytes;
    if (!code &&
        (total != (int64_t)file->n || memcmp(file->data, buf_get(&expected), expected.n) != 0))
        code = kvt_fail(err, KVT_FORMAT, "'%s' has other parts: another version wrote it",
                        j->checkpoint);
    for (int i = 0; !code && i < n; i++) {
        memcpy(part[i].data, file->data + at, (size_t)part[i].bytes);
        at += part[i].bytes;
    }
    buf_fini(&expected);
    if (!code)
        *step = at_step;
    return code;
}

kvt_code train_resume(train_run *run, int64_t *step, const train_part *part, int n,
                      kvt_err *err)
{
    struct train_journal *j = run->journal;
    *step = 0;
    if (!run->spec->resume || !file_exists(j->checkpoint))
        return KVT_OK; /* the first row begins the curve: nothing is left where none comes */
    buf file;
    buf_init(&file, (size_t)4 << 30);
    kvt_code code = file_read(&file, j->checkpoint, (size_t)4 << 30, err);
    if (!code)
        code = load(run, &file, step, part, n, err);
    buf_fini(&file);
    if (!code)
        code = begin_curve(j, *step, err);
    if (!code)
        kvt_log(run->ctx, KVT_LOG_INFO, "train", "goes on at step %lld", (long long)*step);
    return code;
}

kvt_code train_step_done(train_run *run, int64_t step, int64_t n_step, const train_part *part,
                         int n, kvt_err *err)
{
    run->counts->step = step;
    kvt_code code = kvt_progress(run->ctx, "train", step, n_step, err);
    if (code == KVT_STOPPED && step == n_step)
        return KVT_OK; /* nothing is left to stop: the file comes next */
    if (code == KVT_STOPPED) {
        kvt_err failure;
        if (write_checkpoint(run, step, part, n, &failure)) {
            *err = failure;
            return failure.code;
        }
        return kvt_fail(err, KVT_STOPPED,
                        "stopped at step %lld of %lld; the same command with "
                        "--resume goes on",
                        (long long)step, (long long)n_step);
    }
    if (!code && step < n_step && checkpoint_due(run, step))
        code = write_checkpoint(run, step, part, n, err);
    return code;
}
