/* figures.c - published figures beside what the formulae give: the list, and predictions by
 * names. */
#include "replay/cost/figures.h"

#include <math.h>
#include <string.h>

void figure_put_within(figure_list *list, const figure_group *g, const char *what,
                       double published, double predicted, double least, double most)
{
    if (list->n++ >= list->cap)
        return;
    list->out[list->n - 1] = (kvt_figure){
        .id = g->id,
        .group = g->group,
        .what = what,
        .unit = g->unit,
        .profile = g->profile,
        .source = g->source,
        .published = published,
        .predicted = predicted,
        .least = least,
        .most = most,
        .held_out = g->held_out,
    };
}

void figure_put(figure_list *list, const figure_group *g, const char *what, double published,
                double predicted)
{
    figure_put_within(list, g, what, published, predicted, published * (1 - g->tolerance),
                      published * (1 + g->tolerance));
}

figure_case figure_lookaheadkv(const char *policy, int64_t n)
{
    return (figure_case){.geometry = "llama-3.1-8b",
                         .draft = "llama-3.2-1b",
                         .policy = policy,
                         .n_prompt = n,
                         .budget = 128};
}

static bool find_machine(kvt_machine *out, const char *name)
{
    kvt_err err;
    for (const char *const *p = kvt_cost_profile_names(); *p; p++)
        if (!strcmp(*p, name))
            return kvt_cost_profile_find(out, name, &err) == KVT_OK;
    return kvt_machine_find(out, name, &err) == KVT_OK;
}

/* Work and slots of the policy at this prompt and budget. */
static bool find_work(figure_parts *out, const figure_case *f)
{
    kvt_use *use;
    kvt_err err;
    if (kvt_use_parse(&use, NULL, f->policy ? f->policy : "full", &err))
        return false;
    kvt_cost_work_of(&out->work, use, &out->geometry, f->n_prompt, f->budget, KVT_ACT_OWN);
    kvt_cost_load_assume(&out->load, use, &out->work, &out->geometry, &out->setting,
                         f->n_prompt, f->n_response, f->budget);
    kvt_cost_constants(&out->constants, &out->machine, f->profile, use->policy->name);
    kvt_use_free(use);
    return true;
}

bool figure_open(figure_parts *out, const figure_case *f)
{
    kvt_err err;
    memset(out, 0, sizeof *out);
    out->setting = f->setting;
    if (kvt_cost_geometry_find(&out->geometry, f->geometry, &err) ||
        (f->draft && kvt_cost_geometry_find(&out->draft, f->draft, &err)) ||
        !find_machine(&out->machine, f->machine) || !find_work(out, f))
        return false;
    if (f->adjust)
        f->adjust(&out->constants);
    out->c = (kvt_cost_case){
        .geometry = &out->geometry,
        .draft = f->draft ? &out->draft : NULL,
        .constants = &out->constants,
        .work = &out->work,
        .load = &out->load,
        .setting = &out->setting,
        .n_prompt = f->n_prompt,
        .n_response = f->n_response,
        .budget = f->budget,
    };
    return true;
}

void figure_predict(kvt_cost *out, const figure_case *f)
{
    figure_parts parts;
    memset(out, 0, sizeof *out);
    out->ttft = out->evict_frac = out->prefill.total = out->evict.total = NAN;
    out->step_first.total = out->peak.total = out->steady.total = NAN;
    if (figure_open(&parts, f))
        kvt_cost_predict(out, &parts.c);
}

double figure_step(const figure_case *f, double slots, double longest)
{
    figure_parts parts;
    if (!figure_open(&parts, f))
        return NAN;
    double lanes = (double)(parts.geometry.g.n_layer * parts.geometry.g.n_kv_head);
    kvt_cost_run run = {
        .steps = 1,
        .slots = slots * lanes,
        .busiest = slots * longest * lanes,
        .held = slots * lanes,
    };
    kvt_decode_cost step;
    kvt_cost_step(&step, &parts.c, &run);
    return step.total;
}

int kvt_cost_figures(kvt_figure *out, int cap)
{
    figure_list list = {.out = out, .cap = cap};
    figures_geometry(&list);
    figures_theory(&list);
    figures_lkv(&list);
    figures_prefill(&list);
    figures_memory(&list);
    figures_decode(&list);
    figures_foreign(&list);
    figures_vectors(&list);
    return list.n;
}
