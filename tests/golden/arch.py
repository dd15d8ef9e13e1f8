#!/usr/bin/env python3
"""Every architecture in transformers, f32, on tiny models with random weights (arch_models.py).

    python3 tests/golden/arch.py tests/golden/arch.h5 FOLDER

Made with torch 2.15.0, transformers 5.2.0, gguf 0.19.0, h5py 3.16.0, numpy 2.4.6 and xxhash 4.1.0 on a CPU. Read by
test_golden_arch.c. FOLDER gets each model as a GGUF file, written by the gguf package, for arch_llamacpp.py. A group
a model:

    id        i32 [24]             layer i32 [3], pos i32 [4]
    config    text                 config.json as transformers writes it
    divisor   f32 [D / 2]          of llama3's frequency factors, else absent
    q         f32 [3 4 H D]        after RoPE      k, v  f32 [3 4 G D]
    rows      f32 [3 4 H 24]       eager attention, softmax in f32
    top_id    i32 [4 64], top_logp f32 [4 64]    log-softmax of the logits behind each position
"""
import os
import sys

import gguf
import h5py
import numpy as np
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import arch_models as own

POS = [1, 5, 13, 23]
torch.set_num_threads(1)


def config_of(m):
    base = dict(vocab_size=own.N_VOCAB, hidden_size=m["n_hidden"], intermediate_size=m["n_ff"],
                num_hidden_layers=m["n_layer"], num_attention_heads=m["n_head"], num_key_value_heads=m["n_kv_head"],
                max_position_embeddings=m["n_context"], rms_norm_eps=1e-5, tie_word_embeddings=bool(m["tied"]),
                bos_token_id=1, eos_token_id=2, pad_token_id=0)
    rope = {"rope_type": "default", "rope_theta": m["theta"], **m.get("rope", {})}
    if m["arch"] == "gemma3":
        base |= dict(head_dim=m["head_dim"], sliding_window=m["window"], query_pre_attn_scalar=m["head_dim"],
                     rope_parameters={"full_attention": rope, "sliding_attention": {"rope_type": "default",
                                                                                    "rope_theta": 1e4}},
                     layer_types=["full_attention" if l % 6 == 5 else "sliding_attention"
                                  for l in range(m["n_layer"])])
        kind = transformers.Gemma3TextConfig
    else:
        base |= dict(rope_parameters=rope)
        if m["arch"] != "qwen2":
            base |= dict(head_dim=m["head_dim"])
        kind = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config,
                "qwen3": transformers.Qwen3Config}[m["arch"]]
    return kind(**(base | m.get("config", {})), attn_implementation="eager")


def divisors(config):
    """What a GGUF file stores of llama3's scaling: how much slower each pair turns."""
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    d = config.head_dim
    plain = 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    return (plain / scaled.double()).numpy().astype(np.float32)


def write_gguf(path, m, config, w, divisor):
    a, out = m["arch"], gguf.GGUFWriter(path, m["arch"])
    out.add_name("tiny")
    out.add_block_count(m["n_layer"])
    out.add_context_length(m["n_context"])
    out.add_embedding_length(m["n_hidden"])
    out.add_feed_forward_length(m["n_ff"])
    out.add_head_count(m["n_head"])
    out.add_head_count_kv(m["n_kv_head"])
    out.add_key_length(m["head_dim"])
    out.add_value_length(m["head_dim"])
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(m["head_dim"])
    out.add_rope_freq_base(m["theta"])
    out.add_vocab_size(own.N_VOCAB)
    rope = m.get("rope", {})
    if rope.get("rope_type") in ("linear", "yarn"):
        out.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        out.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            out.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if a == "gemma3":
        out.add_sliding_window(m["window"])
    text = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    text += [f"filler{i}" for i in range(own.N_VOCAB - len(text))]
    out.add_tokenizer_model("llama")
    out.add_token_list(text)
    out.add_token_scores([0.0] * len(text))
    out.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(text) - 259))
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    if divisor is not None:
        out.add_tensor("rope_freqs.weight", divisor)
    for name, x in w.items():
        out.add_tensor(name, x)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def run(m, config, state):
    """Q, K after RoPE, V and rows of each layer [heads T .], logits [T V]"""
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    missing, unknown = model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
    assert not unknown and set(missing) <= {"lm_head.weight"} and (not missing or m["tied"]), (missing, unknown)
    model.tie_weights()
    module = sys.modules[type(model).__module__]
    eager, seen = module.eager_attention_forward, []

    def keep(layer, q, k, v, *args, **kwargs):
        out, rows = eager(layer, q, k, v, *args, **kwargs)
        seen.append([x[0].detach().numpy() for x in (q, k, v, rows)])
        return out, rows

    module.eager_attention_forward = keep
    with torch.no_grad():
        logits = model(torch.tensor([own.ids()]), use_cache=False).logits[0]
    module.eager_attention_forward = eager
    assert len(seen) == m["n_layer"]
    return seen, logits


def main(out, folder):
    os.makedirs(folder, exist_ok=True)
    with h5py.File(out, "w", libver="latest") as f:
        for name, m in own.MODELS.items():
            config, w = config_of(m), own.weights(m)
            divisor = divisors(config) if m.get("rope", {}).get("rope_type") == "llama3" else None
            seen, logits = run(m, config, own.folder_form(m, w))
            layer = [0, 1, m["n_layer"] - 1] if m["n_layer"] < 6 else [0, 5, 6]
            logp = torch.log_softmax(logits[POS].double(), -1)
            top = torch.topk(logp, 64)
            if "config" not in m:
                write_gguf(os.path.join(folder, name.replace(" ", "-") + ".gguf"), m, config, w, divisor)
            group = f.create_group(name)

            def put(key, x):
                group.create_dataset(key, data=x)

            put("id", np.array(own.ids(), np.int32))
            put("layer", np.array(layer, np.int32))
            put("pos", np.array(POS, np.int32))
            config.architectures = [type(transformers.AutoModelForCausalLM.from_config(config)).__name__]
            put("config", np.frombuffer(config.to_json_string(use_diff=False).encode(), np.uint8))
            if divisor is not None:
                put("divisor", divisor)
            for i, key in enumerate(("q", "k", "v", "rows")):
                put(key, np.stack([seen[l][i][:, POS].transpose(1, 0, 2) for l in layer]))
            put("top_id", top.indices.numpy().astype(np.int32))
            put("top_logp", top.values.numpy().astype(np.float32))
            print(f"{name}: entropy of the last row of attention "
                  f"{-(seen[0][3][:, -1] * np.log(seen[0][3][:, -1] + 1e-30)).sum(-1).mean():.2f}, "
                  f"best log-probability {float(top.values[:, 0].mean()):.2f}")


main(sys.argv[1], sys.argv[2])
