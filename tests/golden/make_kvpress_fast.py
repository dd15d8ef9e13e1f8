#!/usr/bin/env python3
"""Writes kvpress_fast.csv: what kvpress's own FastKVzipPress keeps on the lanes of make_scorers.py.

  pip install kvpress==0.5.5 torch==2.6.0 transformers==5.2.0;  python3 make_kvpress_fast.py [FOLDER]

(FOLDER: where kvpress lies when it is not installed.)

Its gates get the weights of the lanes, in double; _score_fast() scores each layer, compress_post() selects over all.
At least one last token is kept there, so that recent is a share that gives one or more. No cut lies between scores
that rounding could swap.
"""
import csv
import sys
import types

import torch

for name in sys.argv[1:]:
    sys.path.insert(0, name)
from kvpress import FastKVzipPress
from kvpress.presses.fastkvzip_press import FastKVzipGate

from make_policies import runs
from make_scorers import Scored

CASES = [("1/2/2/4/2/40/16", 4, 0.1, (9, 12, 25)), ("2/2/2/4/2/40/16", 1, 0.05, (4, 15, 30)), ("3/3/3/4/4/61/4", 2, 0.02, (5, 21))]


def gates(t):
    w, out = {k: torch.tensor(v) for k, v in t.weights("fast-kvzip").items()}, []
    for l in range(t.L):
        flat = lambda name: w[name][l].reshape(-1, w[name].shape[-1])
        sink, d = w["base"].shape[-2:]
        gate = FastKVzipGate(l, w["query/weight"].shape[-1], t.G, t.R, torch.float64, d, sink)
        gate.load_state_dict({"q_proj.weight": flat("query/weight"), "q_proj.bias": w["query/bias"][l].reshape(-1),
                              "k_proj.weight": flat("key/weight"), "q_norm.weight": w["query/gain"][l],
                              "k_norm.weight": w["key/gain"][l], "k_base": w["base"][l][:, None],
                              "b": w["logit/bias"][l].reshape(t.G, 1, t.R)})
        out.append(gate.double())
    return out


@torch.no_grad()
def kept(t, first, recent, budget):
    press = FastKVzipPress((t.N - budget + 1e-6) / t.N, n_sink=first, window_ratio=recent)
    press.gates = gates(t)
    for gate in press.gates:
        gate.q_norm.variance_epsilon = gate.k_norm.variance_epsilon = 1e-6
    press.score_val = [None] * t.L
    config = types.SimpleNamespace(_attn_implementation="sdpa")
    layers = [types.SimpleNamespace(self_attn=types.SimpleNamespace(layer_idx=l, config=config)) for l in range(t.L)]
    for l, layer in enumerate(layers):
        press._score_fast(layer.self_attn, torch.tensor(t.hidden[l][:t.N])[None])
    press.score_val = [s.double() for s in press.score_val]
    order = torch.stack(press.score_val).flatten().sort(descending=True).values
    n = t.L * t.G * budget
    assert order[n] < order[n - 1] * (1 - 1e-4), order[n - 1:n + 1]
    press.compress_post(types.SimpleNamespace(model=types.SimpleNamespace(layers=layers)))
    for l, layer in enumerate(layers):
        keep = torch.ones(t.G, t.N, dtype=torch.bool)
        keep[tuple(layer.self_attn.masked_key_indices[1:])] = False
        for g in range(t.G):
            yield l, g, torch.nonzero(keep[g]).flatten().tolist()


def main():
    with open("kvpress_fast.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["toy", "params", "limit", "act", "tokens", "layer", "lane", "kept"])
        for toy, first, recent, budgets in CASES:
            for budget in budgets:
                for l, g, list_ in kept(Scored(toy), first, recent, budget):
                    out.writerow([toy, f"sinks={first},recent={recent}", budget, "prefill", 0, l, g, runs(list_)])


if __name__ == "__main__":
    main()
