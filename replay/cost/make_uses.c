/* make_uses.c - the models and the policies of a table of costs, each once. */
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"
#include "replay/cost/make_priv.h"

/* ---- models --------------------------------------------------------------------------------
 */

kvt_code make_add_model(make *m, const kvt_cost_geometry *given, const char *trace_path,
                        kvt_err *err)
{
    const kvt_cost_spec *spec = m->spec;
    make_model **grown = kvt_resize(m->model, m->n_model, m->n_model + 1, sizeof *grown);
    make_model *x = kvt_alloc(1, sizeof *x);
    if (grown)
        m->model = grown;
    if (!grown || !x) {
        kvt_free(x);
        return kvt_fail_memory(err, sizeof *x);
    }
    grown[m->n_model++] = x;
    x->trace_path = trace_path;
    if (given)
        x->geometry = *given;
    else if (!spec->trace_geometry)
        return kvt_fail(err, KVT_USAGE,
                        "the model of '%s' is not known: a geometry must be named", trace_path);
    else if (spec->trace_geometry(spec->user, trace_path, &x->geometry, err))
        return err->code;
    kvt_err ignored; /* a draft that is not known is said where a policy needs one */
    x->has_draft =
        spec->draft || (x->geometry.draft[0] &&
                        !kvt_cost_geometry_find(&x->draft, x->geometry.draft, &ignored));
    if (spec->draft)
        x->draft = *spec->draft;
    return KVT_OK;
}

/* The model of a result's trace: results come sorted by trace. */
kvt_code make_find_model(const make_model **out, make *m, const kvt_result *r, kvt_err *err)
{
    for (int i = m->n_model - 1; i >= 0; i--) {
        *out = m->model[i];
        if (m->spec->geometry || strcmp(m->model[i]->trace_path, r->trace_path) == 0)
            return KVT_OK;
    }
    if (make_add_model(m, NULL, r->trace_path, err))
        return err->code;
    *out = m->model[m->n_model - 1];
    return KVT_OK;
}

/* ---- policies ------------------------------------------------------------------------------
 */

/* Adds a policy unless it is there: *at is its place. One of a result that cannot be read any
 * more keeps the reason. */
kvt_code make_add_use(int *at, make *m, const char *text, bool of_result, kvt_err *err)
{
    make_use x = {.text = of_result ? text : NULL};
    kvt_err why;
    kvt_code code = kvt_use_parse(&x.use, m->spec->registry, text, &why);
    if (code && (!of_result || code == KVT_NOMEM)) {
        *err = why;
        return code;
    }
    if (code)
        snprintf(x.why, sizeof x.why, "%.255s", why.text);
    for (int i = 0; i < m->n_use && x.use; i++)
        if (m->use[i].use && strcmp(m->use[i].use->text, x.use->text) == 0) {
            kvt_use_free(x.use);
            *at = i;
            return KVT_OK;
        }
    make_use *grown = kvt_resize(m->use, m->n_use, m->n_use + 1, sizeof *grown);
    if (!grown) {
        kvt_use_free(x.use);
        return kvt_fail_memory(err, sizeof *grown);
    }
    m->use = grown;
    *at = m->n_use++;
    grown[*at] = x;
    return KVT_OK;
}

/* Every policy that is no control and that some trace can answer, those that read weights or a
 * probe, too: their cost needs no file. Left out is what another program scores. */
static kvt_code add_all(make *m, kvt_err *err)
{
    const kvt_registry *r = m->spec->registry;
    const kvt_policy *const *p = r ? kvt_registry_policies(r) : kvt_policies();
    for (; *p; p++) {
        int at, before = m->n_use;
        if ((*p)->traits.control || ((*p)->traits.needs & KVT_NEED_SCORES))
            continue;
        if (make_add_use(&at, m, (*p)->name, false, err))
            return err->code;
        if (m->n_use > before && kvt_use_why_not(m->use[at].use))
            kvt_use_free(m->use[--m->n_use].use);
    }
    return KVT_OK;
}

kvt_code make_add_list(make *m, const char *text, kvt_err *err)
{
    int at;
    if (!*text)
        return kvt_fail(err, KVT_USAGE, "policies: expected at least one, got none");
    while (*text) {
        char piece[512];
        size_t n = kvt_use_length(text);
        if (n >= sizeof piece)
            return kvt_fail(err, KVT_USAGE, "policy '%.60s...': too long", text);
        memcpy(piece, text, n);
        piece[n] = 0;
        if (strcmp(piece, "all") == 0 ? add_all(m, err)
                                      : make_add_use(&at, m, piece, false, err))
            return err->code;
        text += n + (text[n] == ',');
    }
    return KVT_OK;
}
