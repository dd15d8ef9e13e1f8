/* info_scorer.c - kvt info of a scorer file: kind, model, recipe, tensors. */
#include "cli/info_scorer.h"

#include <math.h>
#include <string.h>

#include "cli/about.h"
#include "cli/info_parts.h"
#include "cli/table.h"
#include "kvt/scorer.h"

static void line(FILE *out, const cli *c, const char *name, const char *text)
{
    info_line(out, c, 12, name, text);
}

/* "0-29", "0, 2, 5-7". */
static void print_layers(const kvt_scorer_info *i, char *out, size_t cap)
{
    size_t n = 0;
    for (int l = 0; l < i->n_layer && n < cap;) {
        int last = l;
        while (last + 1 < i->n_layer && i->layer_id[last + 1] == i->layer_id[last] + 1)
            last++;
        n += (size_t)snprintf(out + n, cap - n, last > l ? "%s%d-%d" : "%s%d", l ? ", " : "",
                              i->layer_id[l], i->layer_id[last]);
        l = last + 1;
    }
}

static void summary(FILE *out, const cli *c, const kvt_scorer *s)
{
    const kvt_scorer_info *i = kvt_scorer_info_of(s);
    char text[4200], layers[1024] = "", digits[16];
    snprintf(text, sizeof text, "%s  digest %.8s, %d tensors", i->kind, i->digest,
             kvt_scorer_count(s));
    line(out, c, "scorer", text);
    snprintf(text, sizeof text,
             "%s  %lld layers, %lld query heads, %lld kv heads, head dim %lld, weights %s",
             i->model, (long long)i->model_layers, (long long)i->n_head,
             (long long)i->n_kv_head, (long long)i->head_dim,
             info_short(i->weights_digest, digits));
    line(out, c, "model", text);
    print_layers(i, layers, sizeof layers);
    line(out, c, "layers", layers);
    if (i->recipe[0])
        line(out, c, "recipe", i->recipe);
    snprintf(text, sizeof text, "%s%sby %s", i->created, i->created[0] ? " " : "", i->writer);
    line(out, c, "made", text);
}

/* Least, mean and greatest value; of one number, itself. */
static void print_range(const kvt_view *v, char *out, size_t cap)
{
    const float *x = v->data;
    int64_t n = kvt_view_count(v);
    double lo = (double)x[0], hi = lo, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        lo = fmin(lo, (double)x[i]);
        hi = fmax(hi, (double)x[i]);
        sum += (double)x[i];
    }
    if (v->rank == 0)
        snprintf(out, cap, "%.6g", lo);
    else
        snprintf(out, cap, "%.3g to %.3g, mean %.3g", lo, hi, sum / (double)n);
}

static void print_shape(const kvt_scorer_tensor *t, char *out, size_t cap)
{
    kvt_view v = t->view;
    if (t->half)
        v.dtype = KVT_F16;
    if (v.rank == 0)
        snprintf(out, cap, "%s", kvt_dtype_name(v.dtype));
    else
        kvt_view_print(&v, out, cap);
}

static kvt_code tensors(cli *c, const kvt_scorer *s, kvt_err *err)
{
    static const char *const head[] = {"TENSOR", "SHAPE", "VALUES", "WHAT", NULL};
    cli_table *t = cli_table_new(c, head, NULL);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 4096);
    for (int i = 0; i < kvt_scorer_count(s) && !code; i++) {
        const kvt_scorer_tensor *x = kvt_scorer_at(s, i);
        char shape[160], range[96];
        print_shape(x, shape, sizeof shape);
        print_range(&x->view, range, sizeof range);
        code =
            cli_table_row(t, (const char *const[]){x->name, shape, range, x->help, NULL}, err);
    }
    if (!code) {
        fputc('\n', stdout);
        code = cli_table_print(t, stdout, err);
    }
    cli_table_free(t);
    return code;
}

static json_t *tensors_json(const kvt_scorer *s)
{
    json_t *all = json_object();
    for (int i = 0; i < kvt_scorer_count(s); i++) {
        const kvt_scorer_tensor *t = kvt_scorer_at(s, i);
        json_t *x = json_object(), *shape = json_array();
        for (int k = 0; k < t->view.rank; k++)
            json_array_append_new(shape, json_integer(t->view.dim[k]));
        json_object_set_new(x, "type", json_string(t->half ? "f16" : "f32"));
        json_object_set_new(x, "axes", json_string(t->view.axes));
        json_object_set_new(x, "shape", shape);
        if (t->view.rank == 0)
            json_object_set_new(x, "value", json_real((double)*(const float *)t->view.data));
        json_object_set_new(x, "help", info_text_json(t->help));
        json_object_set_new(all, t->name, x);
    }
    return all;
}

static kvt_code print_json(const kvt_scorer *s, kvt_err *err)
{
    const kvt_scorer_info *i = kvt_scorer_info_of(s);
    const info_head head = {i->path, i->kind, i->digest, i->weights_digest, i->model};
    json_t *top = info_head_json("kvt-info-scorer-1", &head), *layers = json_array();
    for (int l = 0; l < i->n_layer; l++)
        json_array_append_new(layers, json_integer(i->layer_id[l]));
    json_object_set_new(top, "n_head", json_integer(i->n_head));
    json_object_set_new(top, "n_kv_head", json_integer(i->n_kv_head));
    json_object_set_new(top, "head_dim", json_integer(i->head_dim));
    json_object_set_new(top, "n_hidden", json_integer(i->n_hidden));
    json_object_set_new(top, "model_layers", json_integer(i->model_layers));
    json_object_set_new(top, "layers", layers);
    json_object_set_new(top, "recipe", info_recipe_json(i->recipe));
    json_object_set_new(top, "writer", info_text_json(i->writer));
    json_object_set_new(top, "created", info_text_json(i->created));
    json_object_set_new(top, "tensors", tensors_json(s));
    return cli_json_print(top, err);
}

kvt_code cli_info_scorer(cli *c, const char *path, kvt_err *err)
{
    kvt_scorer *s;
    if (kvt_scorer_open(&s, path, err))
        return err->code;
    kvt_code code;
    if (c->json) {
        code = print_json(s, err);
    } else {
        summary(stdout, c, s);
        code = tensors(c, s, err);
    }
    kvt_scorer_close(s);
    return code;
}
