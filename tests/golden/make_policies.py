#!/usr/bin/env python3
"""Writes NAME.csv for every policy: kept positions on the tensors of toy.py.

Written from the published formulae (the sources are named at each function), without a look at the
C files; needs numpy only. Run: python3 make_policies.py, in this folder. CI never runs it.
Of equal scores the lower position is kept.
"""
import csv
import math

import numpy as np

from toy import Toy

BIG, SHORT = Toy("1/3/8/4/2/100/12"), Toy("2/2/2/4/2/40/3")


def best(score, k):
    """Indices of the k largest, of equals the lowest, rising."""
    return sorted(sorted(range(len(score)), key=lambda s: (-score[s], s))[:max(k, 0)])


def f32(x):
    return np.float32(x).astype(float)


# ---- recency: Xiao et al. 2023, mit-han-lab/streaming-llm 2e50426, kv_cache.py ------------------

def sinks_and_recent(t, budget, sinks, decode):
    """[0, S) and [T - R, T) with S + R = budget, for every lane alike."""
    def kept(T):
        return list(range(T)) if T <= budget else list(range(sinks)) + list(range(T - budget + sinks, T))
    for m in range(t.M + 1 if decode else 1):
        for l in range(t.L):
            for lane in range(t.G):
                yield m, l, lane, kept(t.N + m)


def first_and_recent(t, budget, window):
    """KVCache-Factory c97f9d7 StreamingLLM: the first budget - W, the last W; K/V by query head."""
    for l in range(t.L):
        for lane in range(t.H):
            yield 0, l, lane, list(range(budget - window)) + list(range(t.N - window, t.N))


# ---- H2O: Zhang et al. 2023, FMInference/H2O ac75c2a --------------------------------------------

def h2o(t, budget, heads_of, recent_prompt, recent_decode, decode):
    """heads_of(lane): whose attention counts. Accumulated attention; the last R are kept."""
    for l in range(t.L):
        for lane in range(t.G):
            heads = heads_of(lane)
            pos = list(range(t.N))
            acc = {j: 0.0 for j in pos}
            for h in heads:
                for j, a in enumerate(t.block(l, h, range(t.N), range(t.T))[:, :t.N].sum(0)):
                    acc[j] += a
            for m in range(t.M + 1 if decode else 1):
                if m > 0:
                    pos.append(t.N + m - 1)
                    acc[pos[-1]] = 0.0
                    for h in heads:
                        for j, a in zip(pos, t.row(l, h, pos[-1], pos)):
                            acc[j] += a
                R = recent_decode if m else recent_prompt
                if len(pos) > budget:
                    old = pos[:len(pos) - R]
                    heavy = best([acc[j] for j in old], budget - R)
                    pos = [old[s] for s in heavy] + pos[len(pos) - R:]
                yield m, l, lane, pos


def h2o_prompt(t, budget, window):
    """KVCache-Factory c97f9d7 H2O: column sums of all rows, top (B - W) + last W, by query head."""
    for l in range(t.L):
        for h in range(t.H):
            s = t.block(l, h, range(t.N), range(t.N)).sum(0)[:t.N - window]
            yield 0, l, h, best(s, budget - window) + list(range(t.N - window, t.N))


def observed(t, budget):
    """kvpress 8bb29b9 ObservedAttentionPress: sum / number of queries that see it, mean over group."""
    for l in range(t.L):
        for g in range(t.G):
            s = sum(t.block(l, g * t.R + r, range(t.N), range(t.N)).sum(0) / np.arange(t.N, 0, -1)
                    for r in range(t.R)) / t.R
            yield 0, l, g, best(f32(s), budget)


# ---- TOVA: Oren et al. 2024, schwartz-lab-NLP/TOVA 9c7d09b --------------------------------------

def tova(t, budget, keep_last, decode):
    for l in range(t.L):
        pos = list(range(t.N))
        for m in range(t.M + 1 if decode else 1):
            if m > 0:
                pos.append(t.N + m - 1)
            if len(pos) > budget:
                w = np.mean([t.row(l, h, pos[-1], pos) for h in range(t.H)], axis=0)
                if keep_last:
                    w[-1] = np.inf
                pos = [pos[s] for s in best(w, budget)]
            for lane in range(t.G):
                yield m, l, lane, pos


# ---- SnapKV: Li et al. 2024, FasterDecoding/SnapKV e216ddc --------------------------------------

def pool(s, k, kind):
    r = k // 2
    if kind == "max":
        return np.array([s[max(0, i - r):i + r + 1].max() for i in range(len(s))])
    return f32([s[max(0, i - r):i + r + 1].sum() / (2 * r + 1) for i in range(len(s))])


def votes(t, l, h, W):
    """Sum over the window's rows, of the keys in front of it."""
    return t.block(l, h, range(t.N - W, t.N), range(t.N)).sum(0)[:t.N - W]


def snapkv_sets(t, l, W, k, kind, order, by_head, budget_of):
    for lane in range(t.H if by_head else t.G):
        if t.N <= W:  # case C005: the latest are kept
            yield lane, list(range(t.N - budget_of(l), t.N))
            continue
        heads = [lane] if by_head else [lane * t.R + r for r in range(t.R)]
        v = [votes(t, l, h, W) for h in heads]
        if order == "sum":
            s = pool(sum(v), k, kind)
        else:
            s = f32(sum(f32(pool(x, k, kind) / len(v)) for x in v))
        n = budget_of(l)
        yield lane, best(s, n - W) + list(range(t.N - W, t.N)) if n < t.N else list(range(t.N))


def snapkv(t, budget, W, k, kind, order="sum", by_head=False):
    for l in range(t.L):
        for lane, kept in snapkv_sets(t, l, W, k, kind, order, by_head, lambda _: budget):
            yield 0, l, lane, kept


# ---- PyramidKV: Cai et al. 2024, Zefan-Cai/KVCache-Factory c97f9d7; kvpress 8bb29b9 -------------

def pyramid_exact(t, B, W, beta):
    C, L = B - W, t.model
    low = C / beta
    high = 2 * C - low
    if high >= t.N - W:
        high, low = t.N - W, 2 * C - (t.N - W)
    x = [high - l * (high - low) / (L - 1) for l in range(L)]
    n = [math.floor(v + 1e-9) for v in x]
    for l in sorted(range(L), key=lambda l: (-round(x[l] - n[l], 9), l))[:L * C - sum(n)]:
        n[l] += 1
    while W == 0 and min(n) < 1:  # case C003: one slot at least, taken from the longest
        n[max(l for l in range(L) if n[l] == max(n))] -= 1
        n[max(l for l in range(L) if n[l] < 1)] += 1
    assert sum(n) == L * C
    return [W + v for v in n]


def pyramid_kvcf(t, B, W, beta):
    C, L, T = B - W, t.model, t.N
    low = C // beta
    high = 2 * C - low
    if high >= T - W:
        high = T - W
        low = 2 * C - high
    if T < 2 * C:
        return [B] * L
    step = (high - low) // (L - 1)
    return [W + high - l * step for l in range(L)]


def pyramid_kvpress(t, B, W, beta):
    L, T = t.model, t.N
    low = B / beta
    high = B * 2 - low
    if high >= T - W:
        high = T - W
        low = B * 2 - high
    if not T >= high >= low >= W:
        return [B] * L
    return [round(high - l * (high - low) / (L - 1)) for l in range(L)]


def pyramidkv(t, budget, W, k, kind, form, beta=20, by_head=False):
    n = [min(b, t.N) for b in form(t, budget, W if t.N > W else 0, beta)]
    for l in range(t.L):
        for lane, kept in snapkv_sets(t, l, W, k, kind, "sum", by_head, lambda l: n[t.layer_id[l]]):
            yield 0, l, lane, kept


# ---- bounds and controls ------------------------------------------------------------------------

def oracle(t, budget, reduce):
    for l in range(t.L):
        for g in range(t.G):
            rows = np.concatenate([t.block(l, g * t.R + r, range(t.N, t.T), range(t.T))[:, :t.N]
                                   for r in range(t.R)])
            yield 0, l, g, best(reduce(rows), budget)


def lookahead_oracle(t, budget, reduce="mean", k=7, kind="max", order="reduce-pool", recent=0):
    """LookaheadKV, arXiv 2603.10899v1 algorithm 2, with the response's own rows."""
    for l in range(t.L):
        for g in range(t.G):
            s = [f32(t.block(l, g * t.R + r, range(t.N, t.T), range(t.T))[:, :t.N].sum(0)) for r in range(t.R)]
            fold = (lambda x: f32(np.mean(x, 0))) if reduce == "mean" else (lambda x: np.max(x, 0))
            if k == 0:
                s = fold(s)
            elif order == "reduce-pool":
                s = pool(fold(s), k, kind)
            else:
                s = fold([pool(x, k, kind) for x in s])
            n = t.N - recent
            yield 0, l, g, best(s[:n], budget - recent) + list(range(n, t.N))


def oracle_step(t, budget):
    for l in range(t.L):
        for g in range(t.G):
            yield 0, l, g, list(range(t.N))
            for m in range(t.M):
                row = sum(t.row(l, g * t.R + r, t.N + m, list(range(t.N + m + 1))) for r in range(t.R))
                yield m + 1, l, g, best(row, budget + 1)


def position(t, budget):
    """mass[l, g, bin] = ((7 l + 5 g + 3 bin) mod 11) / 16, as the test hands it in."""
    def bin_of(j):
        return j if j < 8 else 8 + min(23, math.floor(2 * math.log2(1 + t.N - 1 - j)))
    for l in range(t.L):
        for g in range(t.G):
            yield 0, l, g, best([((7 * l + 5 * g + 3 * bin_of(j)) % 11) / 16 for j in range(t.N)], budget)


# ---- the tables ---------------------------------------------------------------------------------

def group(t):
    return lambda lane: range(lane * t.R, lane * t.R + t.R)


def first(t):
    return lambda lane: [lane * t.R]


def cells():
    """policy, toy, params, share params, budget, act, sets"""
    b, s = BIG, SHORT
    for B in (5, 40):
        yield "window", b, "", "", B, "decode", sinks_and_recent(b, B, 0, True)
        yield "streaming", b, "", "", B, "decode", sinks_and_recent(b, B, 4, True)
        yield "tova", b, "", "", B, "decode", tova(b, B, False, True)
        yield "tova", b, "keep_last=true", "", B, "decode", tova(b, B, True, True)
        yield "tova", b, "compat=kvpress", "", B, "prefill", tova(b, B, True, False)
        yield "oracle", b, "", "", B, "prefill", oracle(b, B, lambda rows: rows.sum(0))
        yield "oracle-max", b, "", "", B, "prefill", oracle(b, B, lambda rows: rows.max(0))
        yield "oracle-step", b, "", "", B, "decode", oracle_step(b, B)
        yield "position", b, "", "", B, "prefill", position(b, B)
        for kw, text in (({}, ""), ({"k": 0}, "pool=0"), ({"reduce": "max"}, "reduce=max"),
                         ({"kind": "mean"}, "kind=avg"), ({"order": "pool-reduce"}, "order=pool-reduce"),
                         ({"recent": 3}, "recent=3")):
            yield "lookahead-oracle", b, text, "", B, "prefill", lookahead_oracle(b, B, **kw)
    yield "window", b, "", "", 40, "prefill", sinks_and_recent(b, 40, 0, False)
    yield "streaming", b, "sinks=0", "", 9, "decode", sinks_and_recent(b, 9, 0, True)
    yield "streaming", b, "", "", 40, "prefill", sinks_and_recent(b, 40, 4, False)
    yield "streaming", b, "compat=kvpress", "", 40, "prefill", sinks_and_recent(b, 40, 4, False)
    yield "streaming", b, "compat=kvcf", "", 40, "prefill", first_and_recent(b, 40, 36)
    yield "streaming", b, "compat=kvcf-needle", "", 40, "prefill", first_and_recent(b, 40, 32)
    yield "tova", b, "", "", 40, "prefill", tova(b, 40, False, False)
    for B in (8, 41):
        hh = (B + 1) // 2
        yield "h2o", b, "", "", B, "decode", h2o(b, B, group(b), B // 2, B // 2, True)
        yield "h2o", b, "recent=0.25", "", B, "decode", h2o(b, B, group(b), B // 4, B // 4, True)
        yield "h2o", b, "recent=0", "", B, "decode", h2o(b, B, group(b), 0, 0, True)
        yield "h2o", b, "compat=cookbook", "", B, "decode", h2o(b, B, first(b), B // 2, B // 2, True)
        yield "h2o", b, "compat=flexgen", "", B, "decode", h2o(b, B, group(b), hh - 1, hh, True)
        yield "h2o", b, "compat=kvcf", "", B, "prefill", h2o_prompt(b, B, 8)
        yield "h2o", b, "compat=kvpress", "", B, "prefill", observed(b, B)
    yield "h2o", b, "", "", 41, "prefill", h2o(b, 41, group(b), 20, 20, False)
    for B in (32, 64, 80):
        yield "snapkv", b, "", "", B, "prefill", snapkv(b, B, 32, 7, "max")
        yield "snapkv", b, "order=pool", "", B, "prefill", snapkv(b, B, 32, 7, "max", "pool")
        yield "snapkv", b, "kind=mean", "", B, "prefill", snapkv(b, B, 32, 7, "mean")
        yield "snapkv", b, "compat=official-longbench", "", B, "prefill", snapkv(b, B, 32, 7, "max", by_head=True)
        yield "snapkv", b, "compat=kvcf", "", B, "prefill", snapkv(b, B, 8, 7, "max", by_head=True)
        yield "snapkv", b, "compat=kvcf-kv", "", B, "prefill", snapkv(b, B, 8, 7, "max")
    for B in (65, 80):
        yield "snapkv", b, "compat=official", "", B, "prefill", snapkv(b, B, 64, 5, "mean", by_head=True)
        yield "snapkv", b, "compat=kvpress", "", B, "prefill", snapkv(b, B, 64, 5, "mean", "pool")
    yield "snapkv", s, "compat=official", "", 7, "prefill", snapkv(s, 7, 64, 5, "mean", by_head=True)
    yield "snapkv", s, "window=40", "", 7, "prefill", snapkv(s, 7, 40, 7, "max")
    for B in (9, 20, 40):
        yield "pyramidkv", b, "", "", B, "prefill", pyramidkv(b, B, 8, 7, "max", pyramid_exact)
        yield "pyramidkv", b, "compat=kvcf", "", B, "prefill", pyramidkv(b, B, 8, 7, "max", pyramid_kvcf, by_head=True)
    for B in (60, 70):
        yield "pyramidkv", b, "compat=kvcf", "", B, "prefill", pyramidkv(b, B, 8, 7, "max", pyramid_kvcf, by_head=True)
        yield "pyramidkv", b, "", "", B, "prefill", pyramidkv(b, B, 8, 7, "max", pyramid_exact)
    yield "pyramidkv", b, "", "beta=3", 30, "prefill", pyramidkv(b, 30, 8, 7, "max", pyramid_exact, 3)
    yield "pyramidkv", b, "compat=kvpress", "", 70, "prefill", pyramidkv(b, 70, 64, 5, "mean", pyramid_kvpress)
    yield "pyramidkv", b, "compat=kvpress,window=8", "beta=4", 40, "prefill", pyramidkv(b, 40, 8, 5, "mean", pyramid_kvpress, 4)
    yield "pyramidkv", s, "window=40", "", 7, "prefill", pyramidkv(s, 7, 40, 7, "max", pyramid_exact)


def runs(positions):
    """3,4,5,9 as "3-5 9"."""
    positions, out, start = [int(p) for p in positions], [], None
    for a, b in zip(positions, positions[1:] + [None]):
        start = a if start is None else start
        if b != a + 1:
            out.append(str(a) if start == a else f"{start}-{a}")
            start = None
    return " ".join(out)


def main():
    files = {}
    for policy, t, params, share, budget, act, sets in cells():
        rows = files.setdefault(policy, [])
        seen = 0
        for m, l, lane, kept in sets:
            kept = sorted(kept)
            seen += 1
            if m in (0, 1, t.M // 2, t.M):
                rows.append([t.name, params, share, budget, act, m, l, lane, runs(kept)])
        assert seen, (policy, params)
    for policy, rows in files.items():
        with open(f"{policy.replace('-', '_')}.csv", "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["toy", "params", "share_params", "budget", "act", "tokens", "layer", "lane", "kept"])
            out.writerows(rows)
        print(policy, len(rows))


if __name__ == "__main__":
    main()
