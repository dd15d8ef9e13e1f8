#!/usr/bin/env python3
"""Writes NAME.csv for every policy that reads a probe: kept prompt tokens on the lanes of probes.py.

Written from the published formulae (the sources are named at each function), without a look at the
C files; needs numpy only. Run: python3 make_probes.py, in this folder. CI never runs it.
Of equal scores the lower position is kept. A cell whose cut lies between scores that differ by less
than 1e-5 of the larger is refused: no two ways to round may disagree on it.
"""
import csv

import numpy as np

from make_policies import best, f32, runs
from probes import (CHUNK, H_NORM, LEAD, PREFIX, PROBE_KEY, PROBE_QUERY, PROMPT_KEY, PROMPT_QUERY, WO_NORM,
                    Probes, softmax)

BIG, SMALL = Probes("1/2/4/2/100/8"), Probes("2/2/6/2/61/5")


def firm(score, k):
    """best(), where the cut is clear or an exact tie."""
    order = np.sort(np.asarray(score))[::-1]
    if 0 < k < len(order):
        gap = order[k - 1] - order[k]
        assert gap == 0 or gap > 1e-5 * abs(order[k - 1]), gap
    return best(score, k)


def maxpool(s, width):
    r = width // 2
    return np.array([s[max(0, i - r):i + r + 1].max() for i in range(len(s))])


def avgpool(s, width):
    r = width // 2
    return f32([s[max(0, i - r):i + r + 1].sum() / (2 * r + 1) for i in range(len(s))])


def pooled(s, width, kind):
    return s if width <= 1 else maxpool(s, width) if kind == "max" else avgpool(s, width)


# ---- LookaheadKV: arXiv 2603.10899v1, algorithm 2 and appendix F; Judge Q, a suffix: the same ---

def lookahead(t, budget, reduce="mean", pool=7, kind="max", order="reduce-pool", recent=0):
    for l in range(t.L):
        for g in range(t.G):
            s = [f32(t.probe_rows(l, g * t.R + r, t.M).sum(0)) for r in range(t.R)]
            fold = (lambda x: f32(np.mean(x, 0))) if reduce == "mean" else (lambda x: np.max(x, 0))
            if order == "reduce-pool":
                s = pooled(fold(s), pool, kind)
            else:
                s = fold([pooled(x, pool, kind) for x in s])
            n = t.N - recent
            yield l, g, firm(s[:n], budget - recent) + list(range(n, t.N))


# ---- LAQ, LAQ++: noforit/Lookahead_Q-Cache 74612bd, stage 2 -------------------------------------

def laq(t, budget, w2=0, mask="official", group="query", pool=7):
    def votes(l, h):
        rows = np.concatenate([t.x(PROMPT_QUERY, l, h, range(t.N - w2, t.N)),
                               t.x(PROBE_QUERY, l, h, range(t.M))])
        R = len(rows)
        z = t.z(l, h, rows, t.x(PROMPT_KEY, l, h // t.R, range(t.N)))
        if mask == "official":  # the triangle on the last R columns
            z[:, t.N - R:][np.triu_indices(R, 1)] = -np.inf
        else:
            z[np.arange(t.N)[None, :] > np.arange(t.N - w2, t.N + t.M)[:, None]] = -np.inf
        return softmax(z).sum(0)[:t.N - w2]

    for l in range(t.L):
        if group == "query":
            sets = [votes(l, h) for h in range(t.H)]
        else:
            fold = np.mean if group == "mean" else np.max
            sets = [fold([votes(l, g * t.R + r) for r in range(t.R)], 0) for g in range(t.G)]
        for lane, s in enumerate(sets):
            yield l, lane, firm(pooled(s, pool, "max"), budget - w2) + list(range(t.N - w2, t.N))


# ---- SpecKV: furiosa-ai/draft-based-approx-llm d79e404; B - 33 and the last 33 ------------------

def speckv(t, budget, tokens=0, reduce="max", pool=7, kind="max"):
    m = tokens or t.M
    for l in range(t.L):
        for g in range(t.G):
            rows = np.concatenate([np.concatenate([t.prompt_rows(l, g * t.R + r, 33),
                                                   t.probe_rows(l, g * t.R + r, t.M)[:m]])
                                   for r in range(t.R)])[:, :t.N - 33]
            s = rows.max(0) if reduce == "max" else f32(rows.sum(0))
            yield l, g, firm(pooled(s, pool, kind), budget - 33) + list(range(t.N - 33, t.N))


# ---- KVzip: snu-mllab/KVzip 5d84729; KVzip+: NVIDIA/kvpress 8bb29b9 -----------------------------

def kvzip_scores(t, l, g, sinks, plus):
    key, own = t.x(PROMPT_KEY, l, g, range(t.N)), 0
    score = np.zeros(t.N)
    for begin in range(0, t.N, CHUNK):
        end = min(begin + CHUNK, t.N)
        n = LEAD + end - begin
        rows = range(own, own + n)
        front = np.concatenate([key[:min(sinks, begin)], key[begin:end]])
        keys = np.concatenate([front, t.x(PROBE_KEY, l, g, rows)])
        at = len(front) - (end - begin)
        for r in range(t.R):
            h = g * t.R + r
            z = t.z(l, h, t.x(PROBE_QUERY, l, h, rows), keys)
            z[np.arange(len(keys))[None, :] > len(front) + np.arange(n)[:, None]] = -np.inf
            a = softmax(z)[:, at:at + end - begin]
            if plus:
                a = a * t.norm(WO_NORM, l, h, t.N)[begin:end]
                a = a / t.norm(H_NORM, l, 0, own + n)[own:own + n, None]
            score[begin:end] = np.maximum(score[begin:end], a.max(0))
        own += n
    return score


def kvzip(t, budget, scope="lane", sinks="prefix", plus=False, ties="lower"):
    n_sink = PREFIX if sinks == "prefix" else 4
    lanes = [(l, g) for l in range(t.L) for g in range(t.G)]
    scores = [kvzip_scores(t, l, g, n_sink, plus) for l, g in lanes]
    for s in scores:
        s[:n_sink] = np.inf if sinks == "prefix" else 1
    each = len(lanes) if scope == "model" else 1
    for i in range(0, len(lanes), each):
        all_ = np.concatenate(scores[i:i + each])
        kept = firm(all_, budget * each)
        if ties == "drop":
            kept = [k for k in kept if all_[k] > min(all_[kept])]
        for j in range(each):
            yield *lanes[i + j], [k - j * t.N for k in kept if j * t.N <= k < (j + 1) * t.N]


# ---- the tables ---------------------------------------------------------------------------------

def text(options):
    def value(v):
        return str(v).lower() if isinstance(v, bool) else str(v)
    return ",".join(f"{k}={value(v)}" for k, v in options.items())


def cells():
    """policy, lanes, options, budget, sets"""
    for B in (5, 12, 40):
        for t in (BIG, SMALL):
            for o in ({}, {"reduce": "max"}, {"pool": 0}, {"kind": "avg"}, {"order": "pool-reduce"},
                      {"reduce": "max", "order": "pool-reduce", "pool": 5}, {"recent": 4, "pool": 3},
                      {"order": "pool-reduce", "kind": "avg"}):
                yield "lookaheadkv", t, o, B, lookahead(t, B, **o)
            for name in ("judgeq", "suffix"):
                for o in ({}, {"pool": 0}):
                    yield name, t, o, B, lookahead(t, B, **o)
            for o in ({}, {"mask": "causal"}, {"group": "mean"}, {"group": "max"}, {"pool": 0}):
                yield "laq", t, o, B, laq(t, B, **o)
            B8 = B + 5
            for o in ({}, {"mask": "causal"}, {"group": "mean"}, {"group": "max", "pool": 5}, {"window": 3}):
                args = {("w2" if k == "window" else k): v for k, v in {"window": 8, **o}.items()}
                yield "laq-plus", t, o, B8, laq(t, B8, **args)
            if B < 40 or t is BIG:
                for o in ({}, {"reduce": "mean"}, {"tokens": 3}, {"pool": 0}, {"kind": "avg"}):
                    yield "speckv", t, o, B + 33 - 4, speckv(t, B + 33 - 4, **o)
            for o in ({}, {"sinks": "four"}, {"scope": "model"}, {"plus": True}, {"ties": "drop"},
                      {"scope": "model", "sinks": "four", "plus": True, "ties": "drop"}):
                yield "kvzip", t, o, B + 1, kvzip(t, B + 1, **o)


def main():
    files = {}
    for policy, t, options, budget, sets in cells():
        for l, lane, kept in sets:
            files.setdefault(policy, []).append([t.name, text(options), budget, l, lane, runs(sorted(kept))])
    for policy, rows in files.items():
        with open(f"{policy.replace('-', '_')}.csv", "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["lanes", "params", "budget", "layer", "lane", "kept"])
            out.writerows(rows)
        print(policy, len(rows))


if __name__ == "__main__":
    main()
