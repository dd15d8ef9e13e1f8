/* fit_mlp.c - trainers whose unit is one small network: run, fold what standardised the inputs
 * into the first layer, write its four tensors. */
#include "train/fit.h"
#include "train/scorer.h"

kvt_code fit_mlp(train_run *run, const fit_spec *spec, const mlp_shape *s,
                 const fit_mlp_text *text, kvt_err *err)
{
    fit f = {0};
    fit_tensor tensor[] = {{"in/weight", text->in_weight, "KW", 0, {s->width, s->n_in}},
                           {"in/bias", "first biases", "K", mlp_in_bias(s), {s->width}},
                           {"out/weight", text->out_weight, "K", mlp_out(s), {s->width}},
                           {"out/bias", "second bias", "", mlp_out_bias(s), {0}}};
    if (text->by_layer) { /* one network a layer, a score for each kv head */
        tensor[2] = (fit_tensor){
            "out/weight", text->out_weight, "GK", mlp_out(s), {s->n_out, s->width}};
        tensor[3] = (fit_tensor){"out/bias", "second biases", "G", mlp_out_bias(s), {s->n_out}};
    }
    kvt_code code = fit_run(&f, run, spec, err);
    for (int64_t u = 0; !code && u < f.n_unit; u++) {
        float *param = f.param + u * spec->n_param;
        fit_fold(&f, u, param, param + mlp_in_bias(s), s->width);
    }
    if (!code)
        code = fit_write(&f, run, text->kind, tensor, 4, NULL, 0, err);
    fit_free(&f);
    return code;
}
