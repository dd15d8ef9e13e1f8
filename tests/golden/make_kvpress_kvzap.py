#!/usr/bin/env python3
"""Writes kvpress_kvzap.csv: what kvpress's own KVzapPress inside its DMSPress keeps on the lanes of make_scorers.py.

  pip install kvpress==0.5.5 torch==2.15.0 transformers==5.2.0;  python3 make_kvpress_kvzap.py [FOLDER]

(FOLDER: where kvpress lies when it is not installed.)

The hook of DMSPress is called with the prompt, then with one token after the other; the linear maps of KVzap are
those of the lanes, in double. No score lies so near the threshold that rounding could move it across.
"""
import csv
import sys
import types

import torch

for name in sys.argv[1:]:
    sys.path.insert(0, name)
from kvpress import DMSPress, KVzapPress
from transformers import DynamicCache

from make_policies import runs
from make_scorers import Scored


def maps(t):
    """KVzap's linear maps, one a layer."""
    w, layers = t.weights("kvzap"), []
    for l in range(t.L):
        linear = torch.nn.Linear(w["weight"].shape[-1], t.G).double()
        linear.weight.data = torch.tensor(w["weight"][l])
        linear.bias.data = torch.tensor(w["bias"][l])
        layers.append(linear)
    return types.SimpleNamespace(layers=layers)


def kept(t, window, threshold):
    """After the prompt and after each token: (tokens behind the prompt, layer, lane, kept)."""
    press = DMSPress(press=KVzapPress(model_type="linear"), threshold=threshold, sliding_window_size=window, decoding=True)
    press.press.kvzap_model = maps(t)
    modules = [types.SimpleNamespace(layer_idx=l, masked_key_indices=None) for l in range(t.L)]
    cache = DynamicCache()
    for begin, end in [(0, t.N)] + [(q, q + 1) for q in range(t.N, t.T)]:
        for l, module in enumerate(modules):
            hidden = torch.tensor(t.hidden[l][begin:end])[None]
            score = press.press.kvzap_model.layers[l](hidden)
            assert (score - threshold).abs().min() > 1e-5
            keys = torch.zeros(1, t.G, end - begin, 1)
            cache.update(keys, keys, l)
            press.forward_hook(module, [], {"hidden_states": hidden, "past_key_values": cache,
                                            "cache_position": torch.arange(begin, end)}, [None, None])
            keep = torch.ones(t.G, end, dtype=torch.bool)
            if module.masked_key_indices is not None:
                keep[tuple(module.masked_key_indices[1:])] = False
            for g in range(t.G):
                yield end - t.N, l, g, torch.nonzero(keep[g]).flatten().tolist()


def main():
    with open("kvpress_kvzap.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["toy", "params", "limit", "act", "tokens", "layer", "lane", "kept"])
        for toy in ("1/2/2/4/2/40/16", "2/2/2/4/2/40/16"):
            for window, threshold in ((7, 0.1), (12, -0.3)):
                t = Scored(toy)
                for tokens, l, g, list_ in kept(t, window, threshold):
                    if tokens in (0, 1, t.M // 2, t.M):
                        out.writerow([toy, f"window={window}", threshold, "decode", tokens, l, g, runs(list_)])


if __name__ == "__main__":
    main()
