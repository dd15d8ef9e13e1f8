/* capture.c - prompts to traces: one, or a set that can be resumed. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "capture/prepare.h"

static const kvt_ctx quiet; /* of a caller that gives none */

void kvt_capture_defaults(kvt_capture_spec *spec)
{
    *spec = (kvt_capture_spec){.max_new = -1,
                               .top_p = 1.0,
                               .level = KVT_REPLAY,
                               .delay = 256,
                               .rows_limit = 256LL << 20,
                               .block_limit = 512LL << 20,
                               .record = true};
}

/* What stands for a default in the public struct becomes the default. */
static kvt_code settle(kvt_capture_spec *s, const kvt_capture_spec *spec, kvt_err *err)
{
    kvt_capture_spec d;
    kvt_capture_defaults(&d);
    *s = *spec;
    s->delay = s->delay ? s->delay : d.delay;
    s->rows_limit = s->rows_limit < 0 ? d.rows_limit : s->rows_limit;
    s->block_limit = s->block_limit < 0 ? d.block_limit : s->block_limit;
    s->top_p = s->top_p == 0 ? 1.0 : s->top_p;
    if (s->delay < 0)
        return kvt_fail(err, KVT_USAGE, "delay %lld: expected at least 1", (long long)s->delay);
    if (s->level < KVT_SUMMARY || s->level > KVT_TRAIN)
        return kvt_fail(err, KVT_USAGE, "level %d: expected summary, replay, full or train",
                        (int)s->level);
    if (!!s->prompt + !!s->prompts != 1)
        return kvt_fail(err, KVT_USAGE, "expected one prompt or one set of prompts, got %s",
                        s->prompt ? "both" : "neither");
    if (s->probes && s->level == KVT_SUMMARY)
        return kvt_fail(err, KVT_USAGE,
                        "level summary holds no keys, which probes need; expected replay, full "
                        "or train");
    if (s->record && !s->out)
        return kvt_fail(err, KVT_USAGE, "no output file");
    return KVT_OK;
}

kvt_code kvt_capture_planned(kvt_model *m, const kvt_capture_spec *spec, kvt_capture_plan *out,
                             const kvt_ctx *ctx, kvt_err *err)
{
    kvt_capture_spec s;
    if (settle(&s, spec, err))
        return err->code;
    return capture_plan_all(out, m, &s, ctx ? ctx : &quiet, err);
}

/* NO: the file is there, whole and from the same prompt, model and options. */
static kvt_code resumed(const prepared *p, const kvt_capture_spec *spec, const char *path,
                        kvt_err *err)
{
    char there[KVT_DIGEST_TEXT];
    kvt_err peek;
    if (!spec->record || !file_exists(path))
        return KVT_OK;
    if (!file_is_regular(path)) /* a rename would put the trace in a device's place */
        return kvt_fail(err, KVT_USAGE, "'%s' is there and no regular file", path);
    kvt_code code = kvt_trace_peek(path, there, &peek);
    if (code == KVT_OK &&
        (strcmp(there, p->digest) == 0 || strcmp(there, p->digest_of_file) == 0))
        return spec->force ? KVT_OK : KVT_NO;
    if (spec->force)
        return KVT_OK;
    if (code)
        return kvt_fail(err, KVT_IO, "'%s' is there and no whole trace; --force replaces it",
                        path);
    return kvt_fail(err, KVT_USAGE,
                    "'%s' is there, of another prompt, model or options; --force replaces it",
                    path);
}

static kvt_code capture_item(kvt_model *m, const kvt_capture_spec *spec, const prompt *item,
                             const char *path, kvt_capture_counts *counts, const kvt_ctx *ctx,
                             kvt_err *err)
{
    prepared p;
    if (prepare(&p, m, spec, item, ctx, err))
        return err->code;
    kvt_code code = resumed(&p, spec, path, err);
    if (code == KVT_NO) {
        counts->skipped++;
        snprintf(counts->path, sizeof counts->path, "%s", path);
        code = spec->present ? spec->present(spec->probes_user, path, ctx, err) : KVT_OK;
    } else if (!code) {
        code = capture_one(m, spec, &p, path, counts, ctx, err);
        if (!code) {
            counts->captured++;
            counts->file_bytes += spec->record ? file_size(path) : 0;
        }
    }
    prepared_fini(&p);
    return code;
}

static kvt_code capture_set(kvt_model *m, const kvt_capture_spec *spec, const prompts *set,
                            kvt_capture_counts *counts, const kvt_ctx *ctx, kvt_err *err)
{
    kvt_code last = KVT_OK;
    if (spec->record && file_mkdirs(spec->out, err))
        return err->code;
    for (int64_t i = 0; i < set->n; i++) {
        const prompt *item = &set->item[i];
        char path[1024] = "", name[PROMPT_ID_MAX + 4];
        snprintf(name, sizeof name, "%s.h5", item->id);
        kvt_code code = kvt_progress(ctx, "prompts", i, set->n, err);
        if (!code && spec->record)
            code = file_join(path, sizeof path, spec->out, name, err);
        if (!code)
            code = capture_item(m, spec, item, path, counts, ctx, err);
        if (code == KVT_STOPPED)
            return code;
        if (code) {
            kvt_within(err, "prompt '%s'", item->id);
            kvt_log(ctx, KVT_LOG_ERROR, "capture", "%s", err->text);
            counts->failed++;
            last = code;
        }
    }
    if (counts->failed == 0)
        return KVT_OK;
    if (counts->failed == set->n)
        return kvt_fail(err, last, "none of %lld prompts could be captured", (long long)set->n);
    return kvt_fail(err, KVT_PARTLY, "%lld of %lld prompts failed, the rest is written",
                    (long long)counts->failed, (long long)set->n);
}

kvt_code kvt_capture(kvt_model *m, const kvt_capture_spec *spec, kvt_capture_counts *counts,
                     const kvt_ctx *ctx, kvt_err *err)
{
    kvt_capture_spec s;
    memset(counts, 0, sizeof *counts);
    counts->load_s = m->weights->seconds;
    ctx = ctx ? ctx : &quiet;
    if (settle(&s, spec, err))
        return err->code;
    if (m->header_only)
        return kvt_fail(err, KVT_USAGE, "the model was opened without its weights");
    kvt_model_id id; /* prepare() and capture_facts() find it in the model */
    if ((s.record || s.temperature > 0) && kvt_model_digest(m, &id, ctx, err))
        return err->code;
    prepare_warn(m, &s, ctx);
    if (s.prompts) {
        prompts *set;
        if (prompts_read(&set, s.prompts, err))
            return err->code;
        kvt_code code = capture_set(m, &s, set, counts, ctx, err);
        prompts_free(set);
        return code;
    }
    prompt item;
    template_message message[2];
    if (s.record && file_is_dir(s.out))
        return kvt_fail(err, KVT_USAGE, "'%s' is a folder; one prompt gives one file", s.out);
    if (prepare_single(&item, message, &s, err))
        return err->code;
    return capture_item(m, &s, &item, s.out, counts, ctx, err);
}
