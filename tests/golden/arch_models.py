"""The tiny models of arch.py: their options are those of model_make_options (tests/model_make.h), their weights are
drawn here again from the same named streams (base/rng.h), so that no weight is checked in."""
import numpy as np
import xxhash

N_VOCAB, N_TOKEN = 320, 24
BASE = dict(spread=0.2, n_context=256, n_layer=3, n_head=4, n_kv_head=2, head_dim=12, n_hidden=48, n_ff=96, tied=1, theta=1e4, seed=1)
MODELS = {  # tests/golden/test_golden_arch.c has the same table
    "llama": dict(),
    "llama linear": dict(tied=0, rope=dict(rope_type="linear", factor=4.0)),
    "llama factors": dict(head_dim=16, theta=1e4, rope=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64)),
    "qwen2 yarn": dict(theta=1e6, rope=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "qwen2 windows": dict(theta=1e6, tied=0, config=dict(use_sliding_window=True, sliding_window=5,
                                                         max_window_layers=1)),
    "qwen3 yarn": dict(theta=1e6, head_dim=16, tied=0,
                       rope=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    # Smaller weights: llama.cpp's GELU is a table of halves, whose error the others would carry to 2e-3.
    "gemma3": dict(spread=0.1, n_layer=7, n_kv_head=1, head_dim=16, theta=1e6, window=5,
                   rope=dict(rope_type="linear", factor=8.0)),
    "gemma3 scalar": dict(n_layer=4, n_kv_head=1, head_dim=16, theta=1e6, window=5,
                          config=dict(query_pre_attn_scalar=24, layer_types=[
                              "sliding_attention", "full_attention", "sliding_attention", "full_attention"])),
}
for name, own in MODELS.items():
    MODELS[name] = {**BASE, "arch": name.split()[0], **own}


def ids():
    return [(7919 * i * i + 31 * i + 5) % N_VOCAB for i in range(N_TOKEN)]


def tensors(m):
    """(name in a GGUF, name in a folder, shape, mean, spread, heads whose rows lie as pairs)"""
    e, f, d = m["n_hidden"], m["n_ff"], m["head_dim"]
    q, k, a = m["n_head"] * d, m["n_kv_head"] * d, m["arch"]
    out = [("token_embd.weight", "model.embed_tokens.weight", (N_VOCAB, e), 0, 0)]
    for l in range(m["n_layer"]):
        norms = {"attn_norm": "input_layernorm"}
        if a == "gemma3":
            norms |= {"ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm",
                      "post_ffw_norm": "post_feedforward_layernorm"}
        else:
            norms |= {"ffn_norm": "post_attention_layernorm"}
        each = [(g, h, (e,), 0) for g, h in norms.items()]
        if a in ("qwen3", "gemma3"):
            each += [("attn_q_norm", "self_attn.q_norm", (d,), 0), ("attn_k_norm", "self_attn.k_norm", (d,), 0)]
        pairs = a == "llama"
        each += [("attn_q", "self_attn.q_proj", (q, e), m["n_head"] * pairs),
                 ("attn_k", "self_attn.k_proj", (k, e), m["n_kv_head"] * pairs),
                 ("attn_v", "self_attn.v_proj", (k, e), 0), ("attn_output", "self_attn.o_proj", (e, q), 0),
                 ("ffn_gate", "mlp.gate_proj", (f, e), 0), ("ffn_up", "mlp.up_proj", (f, e), 0),
                 ("ffn_down", "mlp.down_proj", (e, f), 0)]
        for g, h, shape, heads in each:
            out.append((f"blk.{l}.{g}.weight", f"model.layers.{l}.{h}.weight", shape, len(shape) == 1, heads))
        if a == "qwen2":
            for x, n in (("q", q), ("k", k), ("v", k)):
                out.append((f"blk.{l}.attn_{x}.bias", f"model.layers.{l}.self_attn.{x}_proj.bias", (n,), 0, 0))
    out.append(("output_norm.weight", "model.norm.weight", (e,), 1, 0))
    if not m["tied"]:
        out.append(("output.weight", "lm_head.weight", (N_VOCAB, e), 0, 0))
    return out


def streams(keys, n):
    """n normal numbers of each key: xoshiro256** filled by SplitMix64 from XXH64, twelve uniform numbers each."""
    state = np.zeros((4, len(keys)), np.uint64)
    x = np.array([xxhash.xxh64_intdigest(k) for k in keys], np.uint64)
    for i in range(4):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        z = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state[i] = z ^ (z >> np.uint64(31))
    s0, s1, s2, s3 = state
    out = np.empty((n, len(keys)))

    def rotate(v, k):
        return v << np.uint64(k) | v >> np.uint64(64 - k)

    for i in range(n):
        total = np.full(len(keys), -6.0)
        for _ in range(12):
            bits = rotate(s1 * np.uint64(5), 7) * np.uint64(9)
            t = s1 << np.uint64(17)
            s2 = s2 ^ s0
            s3 = s3 ^ s1
            s1 = s1 ^ s2
            s0 = s0 ^ s3
            s2 = s2 ^ t
            s3 = rotate(s3, 45)
            total = total + (bits >> np.uint64(11)).astype(np.float64) * 2.0 ** -53
        out[i] = total
    return out.T


def weights(m):
    """{name in a GGUF: f32 array as it lies there}"""
    out, small, large = {}, [], []
    for t in tensors(m):
        (large if np.prod(t[2]) > 5000 else small).append(t)
    for group in (small, large):
        if not group:
            continue
        n = max(int(np.prod(t[2])) for t in group)
        x = streams([f"{m['seed']}|{t[0]}".encode() for t in group], n)
        for t, row in zip(group, x):
            row = row[:int(np.prod(t[2]))]
            out[t[0]] = (1 + 0.1 * row if t[3] else float(np.float32(m["spread"])) * row).astype(np.float32).reshape(t[2])
    return out


def folder_form(m, gguf_form):
    """{name in a folder: array}: rows of rotary pairs become halves, gemma's gains lose their 1."""
    out = {}
    for name, hf, shape, norm, heads in tensors(m):
        x = gguf_form[name]
        if heads:
            x = x.reshape(heads, shape[0] // heads // 2, 2, shape[1]).swapaxes(1, 2).reshape(shape)
        out[hf] = x - 1 if norm and m["arch"] == "gemma3" else x
    return out
