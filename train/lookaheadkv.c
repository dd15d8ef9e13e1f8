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

static const kvt_choice overs[] = {
    {"sequence", "", "rows are a softmax over prompt and soft tokens, as published"},
    {"prompt", "", "over the prompt alone: rows weigh the same, an ablation"},
};

/* clang-format off */
static const kvt_param params[] = {
    KVT_PARAM(lookahead_params, tokens, 32, 1, 1024, "tokens", "soft tokens behind the prompt"),
    KVT_PARAM(lookahead_params, rank, 8, 0, 256, "", "rank of the LoRA; 0: embeddings only"),
    KVT_PARAM(lookahead_params, scale, 4, 1e-3, 1e3, "", "alpha / rank: factor of the LoRA"),
    KVT_PARAM_CHOICE(lookahead_params, maps, LOOK_MAPS_ALL, maps, "linear maps that have a LoRA"),
    KVT_PARAM_CHOICE(lookahead_params, init, LOOK_INIT_RESPONSE, look_inits, "where the embeddings begin"),
    KVT_PARAM_CHOICE(lookahead_params, target, LOOK_TARGET_MEAN, look_targets, "attention that is predicted"),
    KVT_PARAM_CHOICE(lookahead_params, over, LOOK_OVER_SEQUENCE, overs, "columns of a soft token's attention"),
    KVT_PARAM(lookahead_params, rate_embed, 3e-3, 0, 1, "", "rate of the embeddings"),
    KVT_PARAM(lookahead_params, rate_lora, 3e-3, 0, 1, "", "rate of the LoRA"),
    LOOK_RUN_PARAMS,
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
    .paper = "Ahn et al., LookaheadKV, ICLR 2026, arXiv:2603.10899",
    .about =
        "The published training: p is the mean attention of the model's own response over "
        "the prompt, q that of the lookahead tokens, for each layer and query head, both "
        "divided by their sum over the prompt; loss = mean of KL(p || q). Adam (0.9, 0.95) "
        "without decay, clipped to norm 1, cosine to 0 with 2 % warm-up, rate 1e-3 or 2e-4, "
        "7,600 steps of 32 prompts; n = 32, rank 8, alpha 32, all linear maps (in the last "
        "layer only those of queries and keys reach a score).\n\n"
        "Here the prompt's keys and values and p come from the traces: a step runs forward "
        "and backward over the lookahead rows only, so that it costs what 32 tokens cost. "
        "The backward pass is written by hand, B of the LoRA starts at 0, A as usual. The "
        "curve is printed with loss, and, on held-out traces, loss and recall and lost mass "
        "at 10 % kept without a pool.",
    .differs =
        "Not specified there and chosen here: embeddings begin with the tokens of a response "
        "(init=random: normal numbers of deviation 0.02); where a model multiplies its "
        "embeddings "
        "(Gemma 3), they begin multiplied, and are trained as what the first layer reads. "
        "Chosen "
        "for short runs: rates of 3e-3 and 5 % warm-up. The prompt's keys and values are the "
        "stored halves",
    .file = "adapter",
    .reads = "level train, all layers",
    .needs_model = true,
    .params_size = sizeof(lookahead_params),
    .params = params,
    .run = run,
    .plan = plan,
};
