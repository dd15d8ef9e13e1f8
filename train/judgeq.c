/* judgeq.c - Judge Q: soft tokens alone, whose attention map is fitted by squared error.
 *
 * arXiv 2509.10798 (AAAI 2026). The natural ablation of LookaheadKV: no LoRA, squared error in
 * place of KL. */
#include "train/lookahead_train.h"

/* clang-format off */
static const kvt_param params[] = {
    KVT_PARAM(lookahead_params, tokens, 32, 1, 1024, "tokens", "soft tokens behind the prompt"),
    KVT_PARAM_CHOICE(lookahead_params, init, LOOK_INIT_RESPONSE, look_inits, "where the embeddings begin"),
    KVT_PARAM_CHOICE(lookahead_params, target, LOOK_TARGET_MEAN, look_targets, "attention that is predicted"),
    KVT_PARAM(lookahead_params, rate_embed, 1e-3, 0, 1, "", "rate of the embeddings"),
    LOOK_RUN_PARAMS,
    {0},
};
/* clang-format on */

static kvt_code run(train_run *r, kvt_err *err)
{
    return lookahead_run(r, LOOK_MSE, "judgeq", err);
}

static kvt_code plan(train_run *r, kvt_err *err)
{
    return lookahead_plan(r, LOOK_MSE, err);
}

const kvt_trainer kvt_trainer_judgeq = {
    .name = "judgeq",
    .title = "soft tokens without LoRA, fitted by squared error",
    .paper = "Liu et al., Judge Q, AAAI 2026, arXiv:2509.10798",
    .about = "Embeddings alone are trained, by the squared error between the soft tokens' mean "
             "attention over the prompt and the response's. The run is that of lookaheadkv "
             "without LoRA.",
    .differs =
        "masses are divided by their mean, so that prompts of all lengths weigh the same; "
        "embeddings begin with tokens of a response",
    .file = "adapter",
    .reads = "level train, all layers",
    .needs_model = true,
    .params_size = sizeof(lookahead_params),
    .params = params,
    .run = run,
    .plan = plan,
};
