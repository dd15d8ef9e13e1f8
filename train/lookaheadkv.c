/* lookaheadkv.c - LookaheadKV: soft tokens with LoRA whose attention predicts the response's.
 *
 * arXiv 2603.10899 (ICLR 2026), equations 1-4: n embeddings behind the prompt, LoRA on their
 * rows, KL of the response's mean attention to theirs, both normalised over the prompt. */
#include "train/lookahead_train.h"

static const kvt_choice maps[] = {
    {"all", "", "q, k, v, o, gate, up and down, of the last layer q and k"},
    {"qv", "", "q and v"},
    {"qk", "", "q and k"},
    {"qkv", "", "q, k and v"},
    {"none", "", "embeddings only"},
};

/* clang-format off */
static const kvt_param params[] = {
    KVT_PARAM(lookahead_params, tokens, 32, 1, 1024, "tokens", "soft tokens behind the prompt"),
    KVT_PARAM(lookahead_params, rank, 8, 0, 256, "", "rank of the LoRA; 0: embeddings only"),
    KVT_PARAM(lookahead_params, scale, 4, 1e-3, 1e3, "", "alpha / rank: factor of the LoRA"),
    KVT_PARAM_CHOICE(lookahead_params, maps, LOOK_MAPS_ALL, maps, "linear maps that have a LoRA"),
    KVT_PARAM_CHOICE(lookahead_params, init, LOOK_INIT_RESPONSE, look_inits, "where the embeddings begin"),
    KVT_PARAM_CHOICE(lookahead_params, target, LOOK_TARGET_MEAN, look_targets, "attention that is predicted"),
    KVT_PARAM(lookahead_params, rate_embed, 3e-3, 0, 1, "", "rate of the embeddings"),
    KVT_PARAM(lookahead_params, rate_lora, 3e-3, 0, 1, "", "rate of the LoRA"),
    KVT_PARAM(lookahead_params, batch, 4, 1, 1024, "prompts", "prompts of a step"),
    KVT_PARAM(lookahead_params, epochs, 3, 1, 1000, "", "passes over the traces, where steps is 0"),
    KVT_PARAM(lookahead_params, steps, 0, 0, 1e7, "steps", "steps; 0: as many as the epochs need"),
    KVT_PARAM(lookahead_params, warmup, 0.05, 0, 1, "frac", "share of the steps in which the rate rises"),
    KVT_PARAM(lookahead_params, clip, 1, 0, 1e6, "", "largest norm of the gradient; 0: any"),
    KVT_PARAM(lookahead_params, eval_every, 50, 1, 1e7, "steps", "steps between rows of the curve"),
    KVT_PARAM(lookahead_params, eval_traces, 16, 0, 1e5, "prompts", "held-out prompts of a row, in order of digests"),
    KVT_PARAM(lookahead_params, half, false, 0, 1, "", "store halves"),
    {0},
};
/* clang-format on */

static kvt_code run(train_run *r, kvt_err *err)
{
    return lookahead_run(r, LOOK_KL, "lookaheadkv", err);
}

static kvt_code plan(train_run *r, kvt_err *err)
{
    return lookahead_plan(r, LOOK_KL, err);
}

const kvt_trainer kvt_trainer_lookaheadkv = {
    .name = "lookaheadkv",
    .title = "soft tokens with LoRA that predict the response's attention",
    .paper = "LookaheadKV (arXiv 2603.10899, ICLR 2026)",
    .differs = "embeddings begin with tokens of a response, rates of short runs (3e-3), prompt "
               "keys and values are the stored halves",
    .file = "adapter",
    .reads = "level train, all layers",
    .needs_model = true,
    .params_size = sizeof(lookahead_params),
    .params = params,
    .run = run,
    .plan = plan,
};
