#!/usr/bin/env python3
"""Two traces of the same tokens by two programs: compare_traces.py A.h5 B.h5 [ROOM].

Every dataset that both hold must agree within ROOM (1e-3) of the largest absolute value of its layer; what is
stored as log-probabilities, and lse, within ROOM absolute; ids and flags are equal. Facts of /model that follow
from the model are compared, too. Rows of rank 2 and more are layers; where scores near a half's step decide the
order of logits, ids may swap, so that log-probabilities are compared by rank and ids only where the gap is clear.
"""
import sys

import h5py
import numpy as np

a, b = (h5py.File(p) for p in sys.argv[1:3])
room = float(sys.argv[3]) if len(sys.argv) > 3 else 1e-3
bad = []
EXACT = ("layer/id", "token/id", "token/flag", "token/offset", "text/bytes", "query/pos", "attn/block_start")
ABSOLUTE = ("attn/lse", "logit/logp", "logit/nll", "logit/entropy", "future/delayed")
FACTS = ("arch n_layer n_head n_kv_head head_dim n_hidden n_ff n_vocab n_context norm_eps tied attn_scale embed_scale "
         "rope_type rope_theta rope_theta_local rope_factor rope_attn_factor rope_original rope_freq window").split()


def datasets(f):
    out = []
    f.visititems(lambda name, o: out.append(name) if isinstance(o, h5py.Dataset) and "axis_" not in name else None)
    return set(out)


def worst(path, x, y):
    x, y = x.astype("f8"), y.astype("f8")
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return np.inf
    deep = path == "future/delayed"  # a logarithm of what may be next to nothing: compared as shares
    x, y = (np.exp(np.nan_to_num(z, nan=-np.inf)) for z in (x, y)) if deep else (x, y)
    off = np.abs(x - y).max() if x.size else 0.0
    return off if path in ABSOLUTE else max(
        (np.abs(i - j).max() / max(np.abs(i).max(), 1e-30) for i, j in zip(x, y)), default=0.0)


def main():
    for name in sorted(datasets(a) & datasets(b)):
        x, y = a[name][...], b[name][...]
        if x.shape != y.shape:
            bad.append(f"{name}: shapes {x.shape} and {y.shape}")
        elif name in EXACT:
            if not np.array_equal(x, y):
                bad.append(f"{name}: differ in {int((x != y).sum())} of {x.size}")
        elif name == "logit/id":
            gap = -np.diff(a["logit/logp"][...], axis=1)[:, :1]
            clear = (gap > 2 * room)[:, 0]
            if not np.array_equal(x[clear, 0], y[clear, 0]):
                bad.append("logit/id: other best tokens")
        elif name not in ("text/raw",):
            off = worst(name, x, y)
            print(f"{name:18} {off:.2e}")
            if not off <= room:
                bad.append(f"{name}: off by {off:.3g}, at most {room:g}")
    for fact in FACTS:
        x, y = np.asarray(a["model"].attrs[fact]), np.asarray(b["model"].attrs[fact])
        same = np.allclose(x, y, rtol=1e-6, atol=0) if x.dtype.kind in "if" else np.array_equal(x, y)
        if not same:
            bad.append(f"/model {fact}: {x} and {y}")
    missing = datasets(a) ^ datasets(b)
    print("not in both:", ", ".join(sorted(missing)) or "nothing")
    for line in bad:
        print("compare_traces:", line)
    return 1 if bad else 0


sys.exit(main())
