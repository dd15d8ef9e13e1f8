#!/usr/bin/env python3
"""Writes kvpress.csv: what kvpress's own presses keep on the tensors of toy.py.

  pip install kvpress==0.5.5 torch==2.6.0 transformers==5.24.0;  python3 make_kvpress.py [FOLDER]

(FOLDER: where kvpress lies when it is not installed.)

The presses are given the attention tensor (as with eager attention) and asked for scores; PyramidKV
for its layer's budget, too. Removed ratios are 1 - budget / N with products that are whole.
kvpress takes torch's topk, which has no rule for equal scores: `kept` is what lies above the
score at the cut, `tied` what lies on it up to the rounding of its f32 means, n how many are kept.
"""
import csv
import sys
import types

import numpy as np
import torch

for name in sys.argv[1:]:
    sys.path.insert(0, name)
from kvpress import (ObservedAttentionPress, PyramidKVPress, SnapKVPress, StreamingLLMPress, TOVAPress)

from make_policies import runs
from toy import Toy

CASES = [
    ("snapkv", "compat=kvpress", "", SnapKVPress, {}, (70, 80, 90)),
    ("snapkv", "compat=kvpress,window=16,pool=7", "", SnapKVPress, {"window_size": 16, "kernel_size": 7}, (20, 50)),
    ("tova", "compat=kvpress", "", TOVAPress, {}, (1, 10, 40)),
    ("streaming", "compat=kvpress", "", StreamingLLMPress, {}, (5, 40)),
    ("h2o", "compat=kvpress", "", ObservedAttentionPress, {}, (10, 40)),
    ("pyramidkv", "compat=kvpress", "", PyramidKVPress, {}, (70, 80)),
    ("pyramidkv", "compat=kvpress,window=8", "beta=4", PyramidKVPress, {"window_size": 8, "beta": 4}, (32, 40)),
]


def main():
    t = Toy("1/3/8/4/2/100/12")
    with open("kvpress.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["toy", "policy", "params", "share_params", "budget", "layer", "lane", "n", "kept", "tied"])
        for policy, params, share, press_class, args, budgets in CASES:
            for B in budgets:
                for l in range(t.L):
                    A = torch.tensor(np.stack([t.block(l, h, range(t.N), range(t.N)) for h in range(t.H)]), dtype=torch.float32)
                    module = types.SimpleNamespace(
                        head_dim=4, layer_idx=t.layer_id[l],
                        config=types.SimpleNamespace(num_attention_heads=t.H, num_key_value_heads=t.G,
                                                     num_hidden_layers=t.model))
                    keys = torch.zeros(1, t.G, t.N, 4)
                    press = press_class(compression_ratio=1 - B / t.N, **args)
                    scores = press.score(module, torch.zeros(1, t.N, 4), keys, keys, A[None], {})[0]
                    n = B
                    if press_class is PyramidKVPress:
                        n = press.get_layer_budget(module, t.N)
                    for lane in range(t.G):
                        s = scores[lane]
                        cut = torch.sort(s, descending=True).values[n - 1]
                        near = 1e-6 * abs(cut.item())  # a few roundings of f32 means
                        out.writerow([t.name, policy, params, share, B, l, lane, n,
                                      runs(torch.nonzero(s - cut > near).flatten().tolist()),
                                      runs(torch.nonzero((s - cut).abs() <= near).flatten().tolist())])


if __name__ == "__main__":
    main()
