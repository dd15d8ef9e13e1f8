"""A trace of level full with every query against the model that made it: check_weights.py TRACE.h5 MODEL.gguf.
The weights are dequantised by the gguf package and the whole model is run here, in numpy, from the trace's
token ids alone; then every dataset that needs the weights is compared: keys, values, hidden states, queries
before RoPE with their moments, norms of W_O v, log-sum-exp, logits. Run by hand and by test_check_trace.sh
where $KVT_PYTHON has the package."""
import sys

import gguf
import h5py
import numpy as np

worst = {}


HALF, SINGLE = 2.0**-11 * 1.1, 3e-5  # limits of what is stored as halves and as f32


def compare(what, got, want, limit, each=False):
    """Largest difference over the largest value (each: over its own), and its limit."""
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    size = np.abs(want) if each else np.abs(want).max()
    off = float((np.abs(got - want) / size).max())
    worst[what] = max(worst.get(what, (0, 0))[0], off), limit


def byte_of_character():
    """The byte-level alphabet of GPT-2: printable bytes stand for themselves, the others follow U+0100."""
    itself = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    others = [b for b in range(256) if b not in itself]
    return {chr(b): b for b in itself} | {chr(256 + n): b for n, b in enumerate(others)}


class Model:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensor = {t.name: t for t in self.reader.tensors}

    def __getitem__(self, name):
        t = self.tensor[name]
        return gguf.quants.dequantize(t.data, t.tensor_type).astype("f4")

    def heads(self, name, n_head):
        """Rows of q or k, from the file's interleaved pairs to halves."""
        w = self[name]
        d = w.shape[0] // n_head
        return w.reshape(n_head, d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)

    def texts(self):
        field, byte = self.reader.fields["tokenizer.ggml.tokens"], byte_of_character()
        for i in field.data:
            token = bytes(field.parts[i]).decode()
            yield token.encode() if token.startswith("<|") else bytes(byte[c] for c in token)


def norm(x, gain, eps):
    return x / np.sqrt((x.astype("f8") ** 2).mean(-1, keepdims=True) + eps).astype("f4") * gain


def rope(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def moments(before):
    mean = before.mean(-2)
    centred = before - mean[:, None]
    a, b = np.split(before, 2, axis=-1)
    return mean, centred.swapaxes(-1, -2) @ centred / before.shape[1], np.hypot(a, b).mean(-2)


def compare_layer(f, at, n, x, y, q, k, v, wo, group):
    """q before RoPE [H T D]; x: residual, y: behind the norm."""
    compare("hidden/norm", f["hidden/norm"][at], np.linalg.norm(x.astype("f8"), axis=-1), SINGLE, each=True)
    compare("hidden/x", f["hidden/x"][at], y, HALF)
    compare("kv/k", f["kv/k"][at], k, HALF)
    compare("kv/v", f["kv/v"][at], v, HALF)
    for name, want in zip(("mean", "cov", "freq_abs"), moments(q[:, 4:n].astype("f8"))):
        compare("query/" + name, f["query/" + name][at], want, SINGLE)
    d = q.shape[-1]
    for h in range(q.shape[0]):
        out = v[h // group].astype("f8") @ wo[:, h * d: (h + 1) * d].T.astype("f8")
        compare("value/wo_l1", f["value/wo_l1"][at, h], np.abs(out).sum(-1), SINGLE, each=True)
        compare("value/wo_l2", f["value/wo_l2"][at, h], np.linalg.norm(out, axis=-1), SINGLE, each=True)


def run(f, m):
    """The forward pass; what the trace holds is compared on the way."""
    g, ids = f["model"].attrs, f["token/id"][...]
    H, G, D, eps = (g[k] for k in ("n_head", "n_kv_head", "head_dim", "norm_eps"))
    n, T, here = int(f["token"].attrs["n_prompt"]), len(ids), list(f["layer/id"])
    angle = np.arange(T)[:, None] * float(g["rope_theta"]) ** (-2 * np.arange(D // 2) / D)[None, :]
    cos, sin = np.cos(angle).astype("f4"), np.sin(angle).astype("f4")
    hidden = np.where(np.arange(T)[None, :] > np.arange(T)[:, None], -np.inf, 0).astype("f4")
    embedding = m["token_embd.weight"]
    x = embedding[ids]
    for layer in range(g["n_layer"]):
        b = f"blk.{layer}."
        y = norm(x, m[b + "attn_norm.weight"], eps)
        q = (y @ m.heads(b + "attn_q.weight", H).T).reshape(T, H, D).swapaxes(0, 1)
        k = rope((y @ m.heads(b + "attn_k.weight", G).T).reshape(T, G, D).swapaxes(0, 1), cos, sin)
        v = (y @ m[b + "attn_v.weight"].T).reshape(T, G, D).swapaxes(0, 1)
        wo = m[b + "attn_output.weight"]
        z = rope(q, cos, sin) @ np.repeat(k, H // G, 0).swapaxes(-1, -2) * D**-0.5 + hidden
        top = z.max(-1, keepdims=True)
        lse = top + np.log(np.exp(z - top).sum(-1, keepdims=True))
        if layer in here:
            at = here.index(layer)
            compare_layer(f, at, n, x, y, q, k, v, wo, H // G)
            compare("query/q", f["query/q"][at], rope(q, cos, sin)[:, f["query/pos"][...]], HALF)
            compare("attn/lse", f["attn/lse"][at], lse[..., 0], SINGLE)
        out = np.exp(z - lse) @ np.repeat(v, H // G, 0)
        x = x + out.swapaxes(0, 1).reshape(T, H * D) @ wo.T
        y = norm(x, m[b + "ffn_norm.weight"], eps)
        gate = y @ m[b + "ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ m[b + "ffn_up.weight"].T)) @ m[b + "ffn_down.weight"].T
    # Row m of the logits is behind position N + m - 1: the first is that of the last prompt token.
    head = m["output.weight"] if "output.weight" in m.tensor else embedding
    z = (norm(x[n - 1: T - 1], m["output_norm.weight"], eps) @ head.T).astype("f8")
    logp = z - z.max(-1, keepdims=True)
    logp -= np.log(np.exp(logp).sum(-1, keepdims=True))
    rows, top = np.arange(T - n)[:, None], f["logit/id"][...]
    compare("logit/logp", f["logit/logp"], logp[rows, top], SINGLE)
    compare("logit/id", logp[rows, top], -np.sort(-logp, -1)[:, : top.shape[1]], SINGLE)
    compare("logit/nll", f["logit/nll"], -logp[rows[:, 0], ids[n:]], SINGLE)
    compare("logit/entropy", f["logit/entropy"], -(np.exp(logp) * logp).sum(-1), SINGLE)


def main(trace, model):
    f, m = h5py.File(trace, "r"), Model(model)
    run(f, m)
    texts, offset, said = list(m.texts()), f["token/offset"][...], f["text/bytes"][...].tobytes()
    wrong = [i for i, t in enumerate(f["token/id"][...]) if texts[t] != said[offset[i]: offset[i + 1]]]
    worst["token texts"] = len(wrong), 0
    for what, (off, limit) in worst.items():
        print(f"{what:14} {off:.2e} of {limit:g}{'' if off <= limit else '   TOO MUCH'}")
    sys.exit(any(not off <= limit for off, limit in worst.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
