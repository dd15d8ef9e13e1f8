#!/usr/bin/env python3
"""Writes kvpress_kvzip.csv: what kvpress's own KVzipPress keeps on the lanes of probes.py.

  pip install kvpress==0.5.5 torch==2.15.0 transformers==5.2.0;  python3 make_kvpress_kvzip.py [FOLDER]

(FOLDER: where kvpress lies when it is not installed.)

score_kvzip() scores chunk after chunk and compress_post() selects; the model around them is a
stand-in that hands over the queries (RoPE by zero), keys and norms of probes.py. Values are unit
vectors times ||W_O v||, the rows' inputs one number, their norm. kvpress gives the first four
tokens the highest score of all, kvt's sinks=four scores them 1: the same set wherever the cut is
below 1, which is checked, as is that no cut lies between scores that rounding could swap.
"""
import csv
import sys
import types

import torch

for name in sys.argv[1:]:
    sys.path.insert(0, name)
from kvpress import KVzipPress

from make_policies import runs
from probes import CHUNK, D, H_NORM, LEAD, PROBE_KEY, PROBE_QUERY, PROMPT_KEY, WO_NORM, Probes

TOYS = Probes("1/2/4/2/100/8"), Probes("2/2/6/2/61/5")


def tensor(x):
    return torch.tensor(x, dtype=torch.float32)


def attention(t, l):
    """A stand-in for layer l's self_attn."""
    weight = torch.zeros(t.R, t.G, t.R, D)
    for r in range(t.R):
        weight[r, :, r, r] = 1  # head r of a group reads channel r of a value, alone
    config = types.SimpleNamespace(num_attention_heads=t.H, num_key_value_heads=t.G, hidden_size=t.R,
                                   _attn_implementation="sdpa")
    return types.SimpleNamespace(layer_idx=l, head_dim=D, config=config,
                                 o_proj=types.SimpleNamespace(weight=weight.reshape(t.R, -1)))


def score(press, t, module):
    l, own = module.layer_idx, 0
    for begin in range(0, t.N, CHUNK):
        press.start_idx, press.end_idx = begin, min(begin + CHUNK, t.N)
        n = LEAD + press.end_idx - begin
        rows = range(own, own + n)
        q = torch.stack([tensor(t.x(PROBE_QUERY, l, h, rows)) for h in range(t.H)], 1)
        module.q_proj = lambda hidden: q.reshape(1, n, -1)
        hidden = tensor(t.norm(H_NORM, l, 0, own + n)[own:])[None, :, None]
        keys = torch.stack([torch.cat([tensor(t.x(PROMPT_KEY, l, g, range(t.N))),
                                       tensor(t.x(PROBE_KEY, l, g, rows))]) for g in range(t.G)])[None]
        values = torch.zeros(1, t.G, t.N + n, D)
        for h in range(t.H):
            values[0, h // t.R, :t.N, h % t.R] = tensor(t.norm(WO_NORM, l, h, t.N))
        turn = torch.ones(1, n, D), torch.zeros(1, n, D)
        press.score_kvzip(module, hidden, keys, values, None, {"position_embeddings": turn})
        own += n


def kept(t, plus, budget):
    press = KVzipPress(compression_ratio=(t.N - budget + 1e-6) / t.N, kvzip_plus_normalization=plus)
    layers = [types.SimpleNamespace(self_attn=attention(t, l)) for l in range(t.L)]
    press.context_length = t.N
    press.score_val = torch.zeros(t.L, 1, t.G, t.N)
    for layer in layers:
        score(press, t, layer.self_attn)
    plain = press.score_val[..., press.n_sink:].flatten().sort(descending=True).values
    press.compress_post(types.SimpleNamespace(model=types.SimpleNamespace(layers=layers)))
    gone = torch.zeros(t.L, t.G, t.N, dtype=torch.bool)
    for l, layer in enumerate(layers):
        gone[l][layer.self_attn.masked_key_indices[1:]] = True
    assert (~gone).sum() == t.L * t.G * budget
    n = t.L * t.G * (budget - press.n_sink)
    assert plain[n] < plain[n - 1] * (1 - 1e-5) and plain[n - 1] < 1, plain[n - 1:n + 1]
    return ~gone


def main():
    with open("kvpress_kvzip.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["lanes", "params", "budget", "layer", "lane", "kept"])
        for t in TOYS:
            for plus in (False, True):
                for budget in (48, 52, 57) if plus else (6, 13, 25, 41):
                    keep = kept(t, plus, budget)
                    for l in range(t.L):
                        for g in range(t.G):
                            out.writerow([t.name, f"scope=model,sinks=four,plus={str(plus).lower()}", budget, l, g,
                                          runs(torch.nonzero(keep[l, g]).flatten().tolist())])


if __name__ == "__main__":
    main()
