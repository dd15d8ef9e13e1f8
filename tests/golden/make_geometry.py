#!/usr/bin/env python3
"""Writes geometry/NAME.csv for policies of the prompt that read keys, values and moments of queries, on
the traces of lanes.py.

Written from the papers' formulae and the published code (the sources are named at each function),
without a look at the C files; numpy in double. Run: python3 make_geometry.py, in this folder. CI never runs it. Of equal scores the lower position is kept; a cut that rounding
could move is refused.
"""
import math

import numpy as np

from lanes import Lanes, best, softmax, write, write_values

A, B2, C = Lanes("4/2/2/4/2/48/4/8"), Lanes("5/3/5/6/2/35/3/8"), Lanes("6/2/9/4/4/61/2/16")


def rest(n, score, k, fixed=()):
    """The fixed ones and the best of the others, k in all."""
    fixed = sorted(set(fixed))
    free = [p for p in range(n) if p not in fixed]
    return sorted([free[i] for i in best([score[p] for p in free], k - len(fixed))] + fixed)


def one_set(t, score, budget, fixed=()):
    for l in range(t.L):
        for g in range(t.G):
            yield 0, l, g, rest(t.N, score(l, g), budget, fixed)


# ---- L2 norm: Devoto et al. 2024, arXiv 2406.11430; alessiodevoto/l2compress f93d6ca; kvpress Knorm -

def l2norm(t, budget, layers=0, above=0, by_head=False):
    for l in range(t.L):
        for lane in range(t.H if by_head else t.G):
            whole = t.layer_id[l] < layers or t.N <= above
            score = -np.linalg.norm(t.k[l, lane // t.R if by_head else lane, :t.N], axis=1)
            yield 0, l, lane, best(score, t.N if whole else budget)


# ---- KeyDiff: Park et al. 2025, arXiv 2504.15364; NVIDIA/kvpress 8bb29b9 keydiff_press, block_press -

def keydiff(t, budget, sinks=0, block=0):
    for l in range(t.L):
        for g in range(t.G):
            # block press: the first `budget` tokens, then block by block
            held = list(range(budget)) if block else []
            for i in range(len(held), t.N, block or t.N):
                held = held + list(range(i, min(i + (block or t.N), t.N)))
                u = t.k[l, g, held] / np.linalg.norm(t.k[l, g, held], axis=1, keepdims=True)
                anchor = u.mean(0)
                s = -(u @ anchor) / np.linalg.norm(anchor)
                held = [held[i] for i in rest(len(held), s, budget, [i for i, p in enumerate(held) if p < sinks])]
            yield 0, l, g, held


# ---- CUR: Sengupta et al. 2025, arXiv 2509.15038; NVIDIA/kvpress 8bb29b9 cur_press ------------------

def cur(t, budget, sinks=4, local=16, of="product", by_size=True):
    def share(x):
        square, out = (x * x).sum(1), np.zeros(t.N)
        step = local or t.N
        for i in range(0, t.N, step):
            w = square[i:i + step]
            out[i:i + step] = w / w.sum() * (len(w) / step if by_size else 1)
        return out

    def score(l, g):
        a, b = share(t.k[l, g, :t.N]), share(t.v[l, g, :t.N])
        return {"product": a * b, "key": a, "value": b, "average": (a + b) / 2}[of]
    return one_set(t, score, budget, range(sinks))


# ---- Compactor: Chari, Van Durme 2025, arXiv 2507.08143; kvpress 8bb29b9 leverage, non_causal_attn,
# ---- compactor presses ----------------------------------------------------------------------------

def leverage(t, l, g, tokens):
    """Without a sketch: ridge leverage of centred keys before RoPE."""
    x = t.before_rope(t.k[l, g])[tokens]
    x = x - x.mean(0)
    m = x.T @ x + 0.01 * np.eye(t.D)
    return np.maximum(0, np.einsum("td,de,te->t", x, np.linalg.inv(m), x))


def noncausal(t, l, g, tokens, chunk, padded):
    out = np.zeros(len(tokens))
    for h in t.heads(g):
        for i in range(0, len(tokens), chunk):
            at = tokens[i:i + chunk]
            q, k = t.q[l, h, at], t.k[l, g, at]
            pad = chunk - len(at) if padded else 0
            q, k = np.pad(q, ((0, pad), (0, 0))), np.pad(k, ((0, pad), (0, 0)))
            out[i:i + chunk] += softmax(q @ k.T).sum(0)[:len(at)] / t.R
    out = out * np.linalg.norm(t.v[l, g, tokens], axis=1)
    edge = np.pad(out, 1)
    return (edge[:-2] + edge[1:-1] + edge[2:]) / 3


def compactor(t, budget, first=8, last=4, chunk=256, blend=-1, padded=False):
    """Standardised over all kv heads of the layer; b is what is removed of the prompt."""
    mid = list(range(first, t.N - last))
    b = 1 - budget / t.N if blend < 0 else blend

    def z(x):
        return (x - x.mean()) / x.std(ddof=1)
    for l in range(t.L):
        s = z(np.array([noncausal(t, l, g, mid, chunk, padded) for g in range(t.G)]))
        s = s + b * z(np.array([leverage(t, l, g, mid) for g in range(t.G)]))
        for g in range(t.G):
            score = dict(zip(mid, s[g]))
            yield 0, l, g, rest(t.N, score, budget, [p for p in range(t.N) if p not in score])


# ---- Expected Attention: Devoto et al. 2025, arXiv 2510.00636; kvpress 8bb29b9 ----------------------

def turn(t, position):
    """The rotation by that position, [D D]."""
    return t.turned(np.eye(t.D)[:, None, :], [position])[:, 0].T


def future_turn(t, future):
    return np.mean([turn(t, t.N + i) for i in range(future)], axis=0)


def moments(t, l, h, sinks=4):
    """Of queries before RoPE, the first four positions left out; divided by their count."""
    q = t.before_rope(t.q[l, h])[4:t.N]
    mean = q.mean(0)
    return mean, (q - mean).T @ (q - mean) / len(q)


def expected_attention(t, budget, future=512, sinks=4, eps=0.0, norm="v2", covariance=True):
    R = future_turn(t, future)

    def score(l, g):
        key, v, out = t.k[l, g, :t.N], t.v[l, g, :t.N], np.zeros(t.N)
        for h in t.heads(g):
            mean, cov = moments(t, l, h)
            e = key @ (R @ mean) / np.sqrt(t.D)
            if covariance:
                e = e + np.einsum("td,de,te->t", key, R @ cov @ R.T, key) / (2 * t.D)
            p = np.zeros(t.N)
            p[sinks:] = softmax(e[sinks:])
            y = v @ t.wo[l, h]
            size = {"v2": np.linalg.norm(v, axis=1), "v1": np.abs(v).sum(1), "none": 1,
                    "wo1": np.abs(y).sum(1), "wo2": np.linalg.norm(y, axis=1)}[norm]
            out += (p + eps) * size / t.R
        return out
    return one_set(t, score, budget, range(sinks))


# ---- CAPKV: 2026, arXiv 2604.25975; kvpress 8bb29b9 cap_press ---------------------------------------

def capkv(t, budget, tau=5.0, future=512, sinks=4):
    R = future_turn(t, future)

    def score(l, g):
        key, v, out = t.k[l, g, sinks:t.N], t.v[l, g, sinks:t.N], np.zeros(t.N)
        for h in t.heads(g):
            q = R @ moments(t, l, h)[0]
            cos = key @ q / np.linalg.norm(q) / np.linalg.norm(key, axis=1)
            w = np.exp(tau * (cos - cos.max()))
            m = np.eye(t.D) + (v * (w + 1e-6)[:, None]).T @ v
            out[sinks:] += w * np.einsum("td,de,te->t", v, np.linalg.inv(m), v) / t.R
        return out
    return one_set(t, score, budget, range(sinks))


# ---- LagKV: Liang et al. 2025, arXiv 2504.04704; AI-Lab-China-Merchants-Bank/LagKV 2a9d19e;
# ---- kvpress 8bb29b9 lagkv_press --------------------------------------------------------------------

def lag_scores(t, l, g, at, lag, value):
    """Of the partition at..at + lag, by the ends of the next one."""
    out = np.zeros(lag)
    for x, weight in ((t.k[l, g], 1), (t.v[l, g], value)):
        this, after = x[at:at + lag], x[at + lag:at + 2 * lag]
        low, high = after.min(0), after.max(0)
        d = ((this - low) / (high - low)).std(1, ddof=1)
        out += weight * softmax(d)
    return out


def lagkv(t, budget, sinks, lag, value=1.0):
    """Sinks, the last partition and what is behind it stay; what is left of the budget is shared
    evenly by the other partitions, and what that leaves goes to the best of the next rank."""
    n = (t.N - sinks) // lag
    each, left = divmod(budget - sinks - lag - (t.N - sinks) % lag, n - 1)
    assert 0 <= each and each + (left > 0) <= lag
    for l in range(t.L):
        for g in range(t.G):
            kept = list(range(sinks)) + list(range(sinks + (n - 1) * lag, t.N))
            following = {}
            for at in range(sinks, sinks + (n - 1) * lag, lag):
                x = lag_scores(t, l, g, at, lag, value)
                kept += [at + s for s in best(x, each)]
                if left:
                    s = (set(best(x, each + 1)) - set(best(x, each))).pop()
                    following[at + s] = x[s]
            kept += [list(following)[i] for i in best(list(following.values()), left)]
            yield 0, l, g, sorted(kept)


def lagkv_kvpress(t, budget, sinks=4, lag=128, value=1.0):
    """(K + V) / 2, the rank in the partition / lag; sinks and the tail 1; below sinks + 2 lag the sinks
    and the latest."""
    for l in range(t.L):
        for g in range(t.G):
            s = np.ones(t.N)
            n = (t.N - sinks) // lag
            if t.N < sinks + 2 * lag:
                s[sinks:] = np.arange(t.N - sinks) / (t.N - sinks)
            for i in range(n - 1):
                at = sinks + i * lag
                x = lag_scores(t, l, g, at, lag, value)
                s[at:at + lag] = np.argsort(np.argsort(x)) / lag
            yield 0, l, g, best(s, budget)


# ---- ThinK: Xu et al. 2024, arXiv 2407.21018; SalesforceAIResearch/ThinK d200577; kvpress 8bb29b9 ----

def think(t, budget, window=32, recent=0, shared=False, prune=0.0):
    """Mean relative error of the response's outputs without the channels that go: those with the least
    mean_T k^2 mean_window q^2. A budget is bytes: D (2 budget - N) / N channels, rounded down."""
    n = t.D - int(t.D * prune) if prune else t.D * (2 * budget - t.N) // t.N
    errors = []
    for l in range(t.L):
        for h in range(t.H):
            g = h // t.R
            heads = list(t.heads(g)) if shared else [h]
            score = (t.k[l, g, :t.N] ** 2).mean(0) * (t.q[l, heads, t.N - min(window, t.N):t.N] ** 2).mean((0, 1))
            key, kept = t.k[l, g].copy(), best(score, min(n, t.D))
            gone = [c for c in range(t.D) if c not in kept]
            key[np.ix_(range(t.N - recent), gone)] = 0
            for i in range(t.N, t.T):
                thin = softmax(key[:i + 1] @ t.q[l, h, i] / np.sqrt(t.D)) @ t.v[l, g, :i + 1]
                full = t.exact[l, h, i, :i + 1] @ t.v[l, g, :i + 1]
                errors.append(np.linalg.norm(thin - full) / np.linalg.norm(full))
    return np.mean(errors)


def values():
    """policy as typed, lanes, budget, column, from, to"""
    for t in (A, B2, C):
        for B in (t.N * 10 // 16 + 1, t.N * 13 // 16 + 1):
            for typed, o in (("", {}), (":window=5", {"window": 5}), (":compat=official,recent=6", {"recent": 6}),
                             (":compat=kvpress", {"shared": True}), (":prune=0.4", {"prune": 0.4}),
                             (":prune=0.4,compat=kvpress,window=9", {"prune": 0.4, "shared": True, "window": 9})):
                x = think(t, B, **o)
                yield "think" + typed, t, B, "out_err_mean_rel", x, x


# ---- the tables -------------------------------------------------------------------------------------

def cells():
    """policy as typed, lanes, budget, act, sets"""
    for t in (A, B2, C):
        n = t.N
        for B in (6, 17, n - 3):
            yield "l2norm", t, B, "prefill", l2norm(t, B)
            yield "l2norm:compat=official,above=30", t, B, "prefill", l2norm(t, B, 2, 30)
            yield "l2norm:layers=4", t, B, "prefill", l2norm(t, B, 4)
            yield "l2norm:compat=kvcf,layers=3", t, B, "prefill", l2norm(t, B, 3, by_head=True)
            yield "keydiff", t, B, "prefill", keydiff(t, B)
            yield "keydiff:compat=mlx", t, B, "prefill", keydiff(t, B, 4)
            yield "keydiff:compat=official,block=8", t, B, "prefill", keydiff(t, B, 0, 8)
            yield "keydiff:block=11,sinks=2", t, B, "prefill", keydiff(t, B, 2, 11)
            yield "cur", t, B, "prefill", cur(t, B)
            yield "cur:compat=kvpress", t, B, "prefill", cur(t, B, by_size=False)
            for of in ("key", "value", "average"):
                yield f"cur:of={of},local=9,sinks=1", t, B, "prefill", cur(t, B, 1, 9, of)
            yield "cur:local=0", t, B, "prefill", cur(t, B, local=0)
            # a sketch that is wider than the keys leaves their span, and so (but for the ridge) the leverage
            yield "leverage", t, B, "prefill", one_set(t, lambda l, g: leverage(t, l, g, list(range(n))), B)
            yield "leverage:sketch=0", t, B, "prefill", one_set(t, lambda l, g: leverage(t, l, g, list(range(n))), B)
            for o, padded in (("chunk=16", False), ("", False), ("compat=kvpress,chunk=16", True), ("compat=kvpress", True)):
                chunk = 16 if "chunk" in o else 256
                yield f"noncausal:{o}".rstrip(":"), t, B, "prefill", one_set(
                    t, lambda l, g: noncausal(t, l, g, list(range(n)), chunk, padded), B)
            if B > 12:
                yield "compactor:sketch=0", t, B, "prefill", compactor(t, B)
                yield "compactor:sketch=0,chunk=16", t, B, "prefill", compactor(t, B, chunk=16)
                yield "compactor:sketch=0,compat=kvpress,chunk=16", t, B, "prefill", compactor(t, B, chunk=16, padded=True)
                yield "compactor:sketch=0,first=2,last=1,blend=0.35", t, B, "prefill", compactor(t, B, 2, 1, blend=0.35)
            yield "expected-attention", t, B, "prefill", expected_attention(t, B)
            yield "expected-attention:compat=kvpress-adakv", t, B, "prefill", expected_attention(t, B, eps=0.01)
            yield "expected-attention:compat=kvpress-lukv", t, B, "prefill", expected_attention(t, B, eps=0.02)
            yield "expected-attention:covariance=false,future=20,sinks=2", t, B, "prefill", expected_attention(
                t, B, 20, 2, covariance=False)
            for norm in ("v1", "wo1", "wo2", "none"):
                yield f"expected-attention:norm={norm}", t, B, "prefill", expected_attention(t, B, norm=norm)
            yield "capkv", t, B, "prefill", capkv(t, B)
            yield "capkv:tau=1,future=9,sinks=1", t, B, "prefill", capkv(t, B, 1, 9, 1)
            for lag in (5, 8):
                if B < 4 + lag + (n - 4) % lag:
                    continue  # fewer slots than scores of 1: refused
                yield f"lagkv:compat=kvpress,lag={lag}", t, B, "prefill", lagkv_kvpress(t, B, lag=lag)
            yield "lagkv:compat=kvpress", t, B, "prefill", lagkv_kvpress(t, B)
        for sinks, lag, value in ((4, 7, 1), (0, 6, 0.5), (3, 8, 0)):
            parts = (n - sinks) // lag
            for each in (0, 1, 3, lag - 1):
                B = sinks + lag + (n - sinks) % lag + each * (parts - 1)
                for more in (0, 1) if each < lag - 1 else (0,):
                    yield (f"lagkv:compat=official,sinks={sinks},lag={lag},value={value}", t, B + more, "prefill",
                           lagkv(t, B + more, sinks, lag, value))
        for B in range(16, 40):  # partitions of floor(B / 4), sinks of floor(B / 8)
            sinks, lag = min(16, B // 8), min(1024, B // 4)
            parts = (n - sinks) // lag
            if parts > 1 and B >= sinks + lag + (n - sinks) % lag and B < n:
                yield "lagkv", t, B, "prefill", lagkv(t, B, sinks, lag)
    # vector 14.10 of the specification: 16 + 3 x 512 + 1,024 of 4,112
    assert 16 + 3 * int(0.5 * 1024) + 1024 + (4112 - 16) % 1024 == 2576


if __name__ == "__main__":
    write(cells(), "geometry")
    write_values(values(), "think")
