#!/usr/bin/env python3
"""Writes attention/NAME.csv: kept positions of policies of the prompt that read attention.

Written from the published formulae and code (named at each function, with the commit), without a
look at the C files; plain loops in double, numpy only, on the tensors of toy.py and scored.h. Run:
python3 make_attention.py, in this folder. CI never runs it. Of equal scores the lower position is
kept; a cut between scores that differ by rounding only is refused, so that no two right programs
disagree.
"""
import csv
import math
import os

import numpy as np

from make_policies import best, pyramid_kvcf, runs
from make_scorers import Scored
from toy import Toy

WO_L1, WO_L2, WEIGHTS = 6, 7, 8
FORMS = {"headkv": 7, "duo": 8, "lukv": 9}
TABLE = 99  # shares in lukv's table


class Lanes(Scored):
    """Scored, with norms of W_O v and the tables of headkv, duo and lukv."""

    def __init__(self, name):
        super().__init__(name)
        norm = lambda kind: [np.array([[1.5 + self.v(kind, l, h, i, 0) for i in range(self.T)] for h in range(self.H)],
                                      dtype=np.float32).astype(float) for l in range(self.L)]
        self.wo_l1, self.wo_l2 = norm(WO_L1), norm(WO_L2)
        f32 = lambda x: np.float32(x).astype(float)
        draw = lambda form, n: self.v(WEIGHTS + FORMS[form], 0, 0, n // 4096, n % 4096)
        each = [(l, g) for l in range(self.L) for g in range(self.G)]
        self.importance = {a: f32((1 + draw("headkv", n)) / 2) for n, a in enumerate(each)}
        self.gate = {a: f32((1 + draw("duo", n)) / 2) for n, a in enumerate(each)}
        share = [(o + 1) / (TABLE + 1) for o in range(TABLE)]
        self.curve = {a: [f32(x + 0.9 * draw("lukv", n) * x * (1 - x)) for x in share] for n, a in enumerate(each)}

    def rows(self, l, h, first, last=None):
        """Causal attention of prompt rows first.. over the prompt: [rows N], exact."""
        return self.block(l, h, range(first, self.N if last is None else last), range(self.N))

    def heads(self, g):
        return range(g * self.R, g * self.R + self.R)

    def lanes(self, by_head=False):
        return [(l, a) for l in range(self.L) for a in range(self.H if by_head else self.G)]


def near(a, b):
    return a != b and not np.isinf([a, b]).any() and abs(a - b) <= 1e-5 * max(abs(a), abs(b))


def firm(score, k, ties=True):
    """best(), where no rounding can swap what lies at the cut; ties: may be equal (equal in any
    arithmetic, that is), within a head only if it is the number of a head's scores."""
    score = np.asarray(score, float)
    order = np.sort(score)[::-1]
    if 0 < k < len(order):
        a, b = order[k - 1], order[k]
        assert not near(a, b), ("the cut is not firm", k, a, b)
        at = np.flatnonzero(score == a)
        assert a != b or ties is True or (ties and len(set(at // ties)) == 1), ("equal at the cut", k, a)
    return best(score, k)


def whole(x):
    """floor, where x is not a hair below a whole number."""
    n = math.floor(x + 1e-9)
    assert x - n < 1 - 1e-6
    return n


def largest_remainder(want, total):
    """Rounded down, then one more for the largest remainders, of equal ones for the first."""
    n = [math.floor(w + 1e-9) for w in want]
    left = total - sum(n)
    assert 0 <= left <= len(n)
    rest = [round(w - k, 9) for w, k in zip(want, n)]
    for i in firm(rest, left):
        n[i] += 1
    return n


# ---- pools: stride 1, as many values as before (page 1.4) ---------------------------------------

def pool_max(s, k):
    r = k // 2
    return np.array([s[max(0, i - r):i + r + 1].max() for i in range(len(s))])


def pool_mean(s, k, inside=False):
    """What lies outside counts as 0; inside: the mean of what there is."""
    r, out = k // 2, []
    for i in range(len(s)):
        near_i = s[max(0, i - r):i + r + 1]
        out.append(near_i.sum() / (len(near_i) if inside else 2 * r + 1))
    return np.array(out)


def pooled(s, k, kind, inside=False):
    return pool_max(s, k) if kind == "max" else pool_mean(s, k, inside)


# ---- observation windows ------------------------------------------------------------------------

def latest(t, lanes, budget):
    """The prompt is no longer than the window: the latest stay (case C005)."""
    for l, a in lanes:
        yield 0, l, a, list(range(t.N - budget, t.N))


def votes(t, l, a, W, k, kind, order="sum", by_head=False, rows="sum"):
    """What the last W queries give to the tokens in front of them, [N - W]."""
    heads = [a] if by_head else t.heads(a)
    n = t.N - W
    per = [t.rows(l, h, n)[:, :n] for h in heads]
    per = [x.max(0) if rows == "max" else x.sum(0) for x in per]
    if order == "pool":
        return sum(pooled(x, k, kind) for x in per)
    return pooled(np.max(per, 0) if order == "max" else sum(per), k, kind)


def windowed(t, budgets, score, W, by_head=False, ties=True):
    """The last W, and the best of `score` in front of them; budgets: one, or one of each lane."""
    for i, (l, a) in enumerate(t.lanes(by_head)):
        B = budgets if isinstance(budgets, int) else budgets[i]
        kept = list(range(t.N)) if B >= t.N else firm(score(l, a), B - W, ties) + list(range(t.N - W, t.N))
        yield 0, l, a, kept


# SnapKV: Li et al. 2024, FasterDecoding/SnapKV e216ddc (window 32, pool 5, mean: what its patch
# installs); FFY0/AdaKV 0ae8e19 with fixed budgets (means over rows and heads of 32 rows, max of 7)
def snapkv(t, B, W=32, k=7, kind="max", order="sum", by_head=False):
    if t.N <= W:
        return latest(t, t.lanes(by_head), B)
    return windowed(t, B, lambda l, a: votes(t, l, a, W, k, kind, order, by_head), W, by_head,
                    ties=kind == "max" or order != "pool")


def snapkv_all(t, B, W, k, local, prefix, inside):
    """PiotrNawrot/sparse-frontier (SnapKVCompression: 256 rows, mean of 7 over all tokens, 128 and 4
    kept) and AnswerDotAI/cold-compress 11db56e (16 rows, mean of 5 without padding): the rows'
    attention to all tokens is pooled, then the last and the first are set above all."""
    for l, a in t.lanes():
        s = pool_mean(sum(t.rows(l, h, t.N - W).sum(0) for h in t.heads(a)), k, inside)
        s[:prefix] = np.inf
        s[t.N - local:] = np.inf
        yield 0, l, a, firm(s, B)


# PyramidKV: Cai et al. 2024, Zefan-Cai/KVCache-Factory c97f9d7, kv_head mode: votes are reduced to
# kv heads before the pool; the integer steps of make_policies.py
def pyramidkv(t, B, W=8, k=7, by_head=False, beta=20):
    n = [min(b, t.N) for b in pyramid_kvcf(t, B, W, beta)]
    budgets = [n[t.layer_id[l]] for l, _ in t.lanes(by_head)]
    return windowed(t, budgets, lambda l, a: votes(t, l, a, W, k, "max", "sum", by_head), W, by_head)


# ---- Ada-KV: Feng et al. 2024; FFY0/AdaKV 0ae8e19; kvpress 8bb29b9; KVCF c97f9d7 ----------------

def head_counts(scores, C, alpha, rule, normalise=False):
    """Tokens of each head beside its window. scores: [heads][n]."""
    scores = [np.asarray(s, float) for s in scores]
    if normalise:  # a head's best C as a share of all it has
        scores = [s * (np.sort(s)[::-1][:C].sum() / s.sum()) for s in scores]
    n, flat = len(scores[0]), np.concatenate(scores)
    H = len(scores)
    counts = [0] * H
    for at in firm(flat, H * C, ties=n if normalise else True):
        counts[at // n] += 1
    if rule == "official":  # half to even; the total may drift
        floor = int(C * alpha)
        return [round(float(np.float32(c) * np.float32(1 - alpha) + np.float32(floor))) for c in counts]
    return largest_remainder([c * (1 - alpha) + alpha * C for c in counts], H * C)


def adakv(t, B, W=32, k=7, kind="max", order="sum", rule="exact", alpha=0.2, normalise=False, by_head=False):
    if t.N <= W:
        yield from latest(t, t.lanes(by_head), B)
        return
    C = B - W
    for l in range(t.L):
        heads = range(t.H if by_head else t.G)
        s = [votes(t, l, a, W, k, kind, order, by_head) for a in heads]
        n = head_counts(s, C, alpha, rule, normalise) if C <= t.N - W else [t.N - W] * len(s)
        for a in heads:
            yield 0, l, a, firm(s[a], n[a]) + list(range(t.N - W, t.N))


def raised(t, l, scores, B, safe):
    """kvpress AdaKVPress: the best `safe` of each head first, then the best of all heads, G B in all.
    scores [heads][N], infinite where protected."""
    top = [firm(s, safe) for s in scores]
    s = [np.array(x, float) for x in scores]
    for a, at in enumerate(top):
        s[a][at] = np.inf
    flat = np.concatenate(s)
    for a, kept in enumerate(split(firm(flat, len(s) * B), len(s), t.N)):
        yield 0, l, a, kept


def split(flat, n_head, n):
    return [[i - a * n for i in flat if a * n <= i < (a + 1) * n] for a in range(n_head)]


def adakv_kvpress(t, B, W=64, k=5, alpha=0.2, order="pool"):
    """AdaKVPress around SnapKVPress: window above all, the safe ones count it."""
    for l in range(t.L):
        s = [np.concatenate([votes(t, l, a, W, k, "mean", order), np.full(W, np.inf)]) for a in range(t.G)]
        yield from raised(t, l, s, B, int(B * alpha))


def adakv_frontier(t, B, W=256, k=21, local=128, prefix=4, alpha=0.2):
    """PiotrNawrot/sparse-frontier AdaSnapKVCompression, pool 21 as its runs have: maximum over rows,
    then heads, mean pool over all tokens; the safe ones of each head are max(int(0.2 B), protected)."""
    for l in range(t.L):
        s = []
        for a in range(t.G):
            x = pool_mean(np.max([t.rows(l, h, t.N - W).max(0) for h in t.heads(a)], 0), k)
            x[:prefix] = np.inf
            x[t.N - local:] = np.inf
            s.append(x)
        yield from raised(t, l, s, B, max(int(B * alpha), local + prefix))


def adakv_counts(t, B, W, alpha):
    """Any ranking under the allocator's rule kvpress: its own order, the press's counts."""
    for l in range(t.L):
        s = [votes(t, l, a, W, 7, "max") for a in range(t.G)]
        for a, n in enumerate(kvpress_counts(s, W, B, alpha)):
            yield 0, l, a, firm(s[a], n) + list(range(t.N - W, t.N))


# ---- CriticalKV: Feng et al. 2025; NVIDIA/kvpress 8bb29b9, criticalkv_press.py ------------------

def two_stages(t, l, a, s, W, B, first, eps=1e-4):
    """`first` slots, the window's included, by s; the rest of B by (s + eps) |W_O v|_1."""
    n = t.N - W
    one = firm(s, min(max(first - W, 0), B - W))
    norm = np.mean([t.wo_l1[l][h][:n] for h in t.heads(a)], 0)
    two = (s + eps) * norm
    two[one] = -np.inf
    return sorted(one + firm(two, B - W - len(one), ties=False)) + list(range(n, t.N))


def kvpress_counts(scores, W, B, alpha):
    """Tokens of each head beside its window under AdaKVPress: the best int(alpha B) of each first."""
    n, safe = len(scores[0]), max(int(B * alpha) - W, 0)
    s = [np.array(x, float) for x in scores]
    for x in s:
        x[firm(x, safe)] = np.inf
    kept = firm(np.concatenate(s), len(s) * (B - W))
    return [sum(i // n == a for i in kept) for a in range(len(s))]


def criticalkv(t, B, W=32, k=7, kind="max", order="sum", share=0.5, of="budget", least=1, eps=1e-4, mean=False):
    for l, a in t.lanes():
        s = votes(t, l, a, W, k, kind, order) / (t.R * W if mean else 1)
        first = max(whole(B * share), least) if of == "budget" else W + max(whole((B - W) * share), least)
        yield 0, l, a, two_stages(t, l, a, s, W, B, first, eps)


def critical_ada(t, B, W=32, k=7, alpha=0.2, share=0.5, rule="exact"):
    """CriticalAdaKV: budgets of the heads by the base's score, then both stages in each."""
    for l in range(t.L):
        s = [votes(t, l, a, W, k, "max") for a in range(t.G)]
        n = kvpress_counts(s, W, B, alpha) if rule == "kvpress" else head_counts(s, B - W, alpha, rule)
        for a in range(t.G):
            yield 0, l, a, two_stages(t, l, a, s[a], W, W + n[a], max(whole((W + n[a]) * share), 1))


# ---- DefensiveKV: Feng et al. 2025, FFY0/DefensiveKV 9251b95 ------------------------------------

def defensive_scores(t, l, W, k, kind, cover, cap, cut_first):
    """Scores [G][N - W] and how many of each head come first."""
    n = t.N - W
    worst, mean, bias = [], [], 0.0
    for g in range(t.G):
        rows = [t.rows(l, h, n) for h in t.heads(g)]
        front = np.stack([r[:, :n] for r in rows])  # [R W n]
        late = front[:, :, max(0, n - W):] if cut_first else np.stack([r[:, n:] for r in rows])
        bias += late.sum(-1).mean() / t.G
        p = np.stack([[pooled(row, k, kind) for row in head] for head in front])
        total = p.sum(-1, keepdims=True)  # a row that looks at its window only adds nothing
        p = p / np.where(total > 0, total, 1) * front.sum(-1, keepdims=True)
        w = p.max((0, 1))
        worst.append(np.maximum(w, w.mean()))
        mean.append(front.mean((0, 1)))
    size = np.stack([np.mean([t.wo_l1[l][h][:n] for h in t.heads(g)], 0) for g in range(t.G)])
    score = np.stack(worst) * size / size.sum(0)
    first = []
    for m in mean:
        order = sorted(range(n), key=lambda j: (-m[j], j))
        total = np.cumsum(m[order] / m.sum())
        reach = np.flatnonzero(total >= cover - bias)
        assert np.abs(total - (cover - bias)).min() > 1e-6
        first.append(order[:min(int(reach[0]) if len(reach) else 0, cap)])
    return score, first


def defensivekv(t, B, W=32, k=5, kind="max", cover=0.9, scope="layer", cut_first=False):
    if t.N <= W:
        yield from latest(t, t.lanes(), B)
        return
    n, all_ = t.N - W, []
    for l in range(t.L):
        score, first = defensive_scores(t, l, W, k, kind, cover, B - W, cut_first)
        for g in range(t.G):
            score[g][first[g]] = np.inf
        all_.append(list(score))
    groups = [[s for x in all_ for s in x]] if scope == "model" else all_
    kept = []
    for g in groups:
        kept += split(firm(np.concatenate(g), len(g) * (B - W), ties=False if B > W else True), len(g), n)
    for (l, a), at in zip(t.lanes(), kept):
        yield 0, l, a, at + list(range(n, t.N))


# ---- DropKV: NVIDIA/kvpress pull request 285 ----------------------------------------------------

def dropkv(t, B, W=32, k=7, eps=1e-6):
    """(p / (1 - p + eps))^2 |v - o|^2, summed over rows, mean over heads; pooled over all tokens."""
    if t.N <= W:
        yield from latest(t, t.lanes(), B)
        return
    for l, a in t.lanes():
        v, s = t.val[l][a][:t.N], np.zeros(t.N)
        for h in t.heads(a):
            p = t.rows(l, h, t.N - W)
            o = p @ v
            s += ((p / (1 - p + eps)) ** 2 * ((v[None] - o[:, None]) ** 2).sum(-1)).sum(0) / t.R
        s = pool_mean(s, k)[:t.N - W]
        yield 0, l, a, firm(s, B - W, ties=False) + list(range(t.N - W, t.N))


# ---- CAKE: Qin et al. 2025, antgroup/cakekv c4675ce ---------------------------------------------

def spread(a):
    """Variance over rows, by their number - 1; 0 of one row."""
    return a.var(0, ddof=1) if len(a) > 1 else np.zeros(a.shape[1])


def cake_parts(t, W, tau1, tau2):
    part = []
    for l in range(t.L):
        disp = shift = 0.0
        for h in range(t.H):
            a = t.rows(l, h, t.N - W)[:, :t.N - W]
            disp -= (a * np.log(a + 1e-10)).sum()
            shift += spread(a).sum()
        part.append(disp ** (1 / tau1) * shift ** (1 / tau2))
    return part if max(part) > 0 else [1] * t.L


def layer_counts(part, total, most):
    """floor(x P) of each layer, from 1 to `most`, with the largest x that the total has room for; what
    is left over, where equal ones cross at it, to the first."""
    steps = sorted({(k + 1) / p for p in part for k in range(most)})
    assert len(set(part)) == 1 or all(b - a > 1e-9 * b for a, b in zip(steps, steps[1:]))
    at = lambda x: [min(max(math.floor(x * p * (1 + 1e-12)), int(total >= len(part))), most) for p in part]
    x = max([x for x in steps if sum(at(x)) <= total], default=0)
    n = at(x)
    while sum(n) < total:
        nxt = [(n[i] + 1) / part[i] if n[i] < most else math.inf for i in range(len(part))]
        n[nxt.index(min(nxt))] += 1
    return n


def cake(t, B, W=32, k=5, gamma=200, tau1=1, tau2=1, no_op=0):
    if t.N <= no_op * (B + W):
        for l, a in t.lanes():
            yield 0, l, a, list(range(t.N))
        return
    if t.N <= W:
        yield from latest(t, t.lanes(), B)
        return
    n = t.N - W
    count = [c for c in layer_counts(cake_parts(t, W, tau1, tau2), t.L * (B - W), n) for _ in range(t.G)]
    for i, (l, g) in enumerate(t.lanes()):
        s = 0
        for h in t.heads(g):
            a = t.rows(l, h, n)[:, :n]
            s = s + pool_mean(a.mean(0) + gamma * spread(a), k) / t.R
        yield 0, l, g, firm(s, count[i], ties=W == 1) + list(range(n, t.N))


# ---- FINCH: Corallo and Papotti 2024, giulio98/context-compression e20715f; kvpress 8bb29b9 -----

def finch(t, B, W=32, heads="layer", keys=False):
    n = t.N - W
    if n <= 0:
        yield from latest(t, t.lanes(), B)
        return
    weight = np.arange(n, t.N)[:, None] if keys else 1  # T - W + i, i from 0
    for l, a in t.lanes():
        s = sum((t.rows(l, h, n)[:, :n] * weight).sum(0) for h in (range(t.H) if heads == "layer" else t.heads(a)))
        yield 0, l, a, firm(s, B - W) + list(range(n, t.N))


# ---- ChunkKV: Liu et al. 2025; NVIDIA/kvpress 8bb29b9 -------------------------------------------

def chunkkv(t, B, chunk=10, W=32, k=7, reduce="mean"):
    """Paper: chunks by what the base scores in them (what it pins stays and is not scored); the last
    one is cut, its first tokens stay."""
    n = t.N - W
    for l in range(t.L):
        s = sum(votes(t, l, a, W, k, "max") for a in range(t.G))
        parts = [range(c, min(c + chunk, n)) for c in range(0, n, chunk)]
        worth = [s[list(p)].mean() if reduce == "mean" else s[list(p)].sum() for p in parts]
        kept, left = [], B - W
        order = sorted(range(len(parts)), key=lambda c: (-worth[c], c))
        for at, c in enumerate(order):
            if left <= 0:
                break
            assert at + 1 == len(order) or not near(worth[c], worth[order[at + 1]])
            take = list(parts[c])[:left]
            kept += take
            left -= len(take)
        for a in range(t.G):
            yield 0, l, a, sorted(kept) + list(range(n, t.N))


def chunkkv_kvpress(t, B, chunk=20, W=64, k=5):
    """max(1, int(chunks (1 - cr))) whole chunks; the window scores the maximum over heads + 1."""
    n = t.N - W
    for l in range(t.L):
        s = [votes(t, l, a, W, k, "mean", "pool") / (W * t.R) for a in range(t.G)]
        top = max(x.max() for x in s) + 1
        s = sum(np.concatenate([x, np.full(W, top)]) for x in s)
        parts = [list(range(c, min(c + chunk, t.N))) for c in range(0, t.N, chunk)]
        m = max(1, len(parts) * B // t.N)
        worth = [s[p].mean() for p in parts]
        full = [p for c in firm(np.round(worth, 12), m) for p in parts[c]]
        for a in range(t.G):
            yield 0, l, a, full


# ---- SimLayerKV: Zhang et al. 2024, sail-sg/SimLayerKV 1fb6bda; NVIDIA/kvpress 8bb29b9 ----------

def lazy_mass(row, sinks, recent):
    return row[:sinks].sum() + row[len(row) - recent:].sum()


def simlayerkv_fixed(t, sinks, window, lazy, official):
    """kvpress: last prompt row without its own column, sinks and window - 1 stay; official: first
    response row, sinks and window stay."""
    for l in range(t.L):
        if official:
            row = np.mean([t.row(l, h, t.N, list(range(t.N + 1))) for h in range(t.H)], 0)
        else:
            row = np.mean([t.rows(l, h, t.N - 1)[0][:t.N - 1] for h in range(t.H)], 0)
        mass = lazy_mass(row, sinks, window)
        assert abs(mass - lazy) > 1e-5
        recent = window if official else window - 1
        kept = list(range(sinks)) + list(range(t.N - recent, t.N)) if mass > lazy else list(range(t.N))
        for a in range(t.G):
            yield 0, l, a, kept


def simlayerkv(t, B, sinks=4, recent=0.5):
    """As few lazy layers as the budget needs, the laziest; each holds sinks, and what is left of the
    total evenly as newest tokens, recent * B at least."""
    R, lanes = whole(recent * B), t.L * t.G
    row = [np.mean([t.rows(l, h, t.N - 1)[0][:t.N - 1] for h in range(t.H)], 0) for l in range(t.L)]
    mass = [lazy_mass(row[l], sinks, R) for l in range(t.L)]
    k = next(k for k in range(t.L + 1) if (t.L - k) * t.N + k * (sinks + R) <= t.L * B)
    order = firm(mass, k)
    assert k in (0, t.L) or not any(near(mass[i], mass[j]) for i in order for j in range(t.L) if j not in order)
    total = lanes * B - (t.L - k) * t.G * t.N
    n = largest_remainder([total / (k * t.G)] * (k * t.G), total) if k else []
    i = 0
    for l in range(t.L):
        for a in range(t.G):
            kept = list(range(t.N))
            if l in order:
                kept = list(range(sinks)) + list(range(t.N - n[i] + sinks, t.N))
                i += 1
            yield 0, l, a, kept


# ---- NACL: Chen et al. 2024, PaddlePaddle/Research NLP/ACL2024-NACL; KVCF c97f9d7 ---------------

def nacl(t, B, proxies=0.01, random=0.35, sinks=0.025, recent=0.025, by_head=False, causal=True):
    """With random = 0 the kept set; else what is kept for any draws, and how many beside it."""
    P, S, R = max(1, whole(proxies * t.N)), whole(sinks * B), whole(recent * B)
    n_random = whole(random * B)
    for l, a in t.lanes(by_head):
        s = np.zeros(t.N)
        for h in ([a] if by_head else t.heads(a)):
            if causal:
                s += t.rows(l, h, t.N - P).sum(0)
            else:
                z = t.q[l][h][t.N - P:t.N] @ t.k[l][h // t.R][:t.N].T / 2
                w = np.exp(z - z.max(1, keepdims=True))
                s += (w / w.sum(1, keepdims=True)).sum(0)
        s[:S] = -np.inf
        s[t.N - R:] = -np.inf
        top = firm(s, B - S - R - n_random, ties=causal)
        yield 0, l, a, sorted(list(range(S)) + top + list(range(t.N - R, t.N)))


# ---- observed: NVIDIA/kvpress 8bb29b9, ObservedAttentionPress -----------------------------------

def observed(t, B):
    for l, g in t.lanes():
        s = sum(t.rows(l, h, 0).sum(0) for h in t.heads(g)) / np.arange(t.N, 0, -1)
        yield 0, l, g, firm(s, B, ties=False)


# ---- H2O: awslabs/keys_values a34f07d, h2o.py; RUCAIBox/ForesightKV fdb541f ---------------------

def h2o_keys_values(t, B, steps, grace=0, values=False, decode=True):
    """Sums over the lifetime next - max(pos, N - 1); the last `grace` slots stay; values: attention
    times |v|, scaled to as much as there were queries."""
    for l, g in t.lanes():
        size = np.sqrt((t.val[l][g] ** 2).sum(1))
        add = (lambda a, pos, n: a * size[pos] / (a * size[pos]).sum() * n) if values else (lambda a, pos, n: a)
        pos = list(range(t.N))
        acc = add(np.mean([t.rows(l, h, 0).sum(0) for h in t.heads(g)], 0), pos, t.N)
        for m in range(t.M + 1 if decode else 1):
            if m:
                pos.append(t.N + m - 1)
                acc = np.append(acc, 0.0)
                acc = acc + add(np.mean([t.row(l, h, pos[-1], pos) for h in t.heads(g)], 0), pos, 1)
            n = len(pos) - grace
            if len(pos) > B:
                life = t.N + m - np.maximum(pos[:n], t.N - 1)
                keep = firm(acc[:n] / life, B - grace, ties=m == 0) + list(range(n, len(pos)))
                pos, acc = [pos[i] for i in keep], acc[keep]
            if m in steps:
                yield m, l, g, list(pos)


def h2o_foresight(t, B, steps, every=128, recent=128):
    """Sums, mean over the group; every 128 tokens the best of what is older than 128 stay."""
    for l, g in t.lanes():
        pos = list(range(t.N))
        acc = np.mean([t.rows(l, h, 0).sum(0) for h in t.heads(g)], 0)
        for m in range(t.M + 1):
            if m:
                pos.append(t.N + m - 1)
                acc = np.append(acc, 0.0) + np.mean([t.row(l, h, pos[-1], pos) for h in t.heads(g)], 0)
            n = len(pos) - recent
            if m % every == 0 and len(pos) > B:
                keep = firm(acc[:n], B - recent, ties=m == 0) + list(range(n, len(pos)))
                pos, acc = [pos[i] for i in keep], acc[keep]
            if m in steps:
                yield m, l, g, list(pos)


# ---- HeadKV: Fu et al. 2024, FYYFU/HeadKV 3ec9653; KVCF c97f9d7 ---------------------------------

def headkv(t, B, W=32, k=7, beta=1.01, temp=1, form="paper", by_head=False):
    """Floor C - C // beta of each head, the rest is one pool that importance shares out."""
    lanes = t.lanes(by_head)
    C = (B if form == "kvcf" else B - W)
    imp = np.array([t.importance[l, a // t.R if by_head else a] for l, a in lanes])
    imp = imp / imp.sum()
    imp = imp ** temp / (imp ** temp).sum()
    part, n = C // beta, t.N - W
    want = imp * part * len(lanes) + (C - part)
    if form == "paper":
        count = largest_remainder(capped(C - part, imp, n, len(lanes) * C), len(lanes) * C)
    else:
        count = [min(round(float(w)), n) for w in want]
    return windowed(t, [W + c for c in count], lambda l, a: votes(t, l, a, W, k, "max", "sum", by_head), W, by_head)


def capped(floor, part, most, total):
    """floor + x part, at most `most`, with the x that gives the total."""
    open_ = set(range(len(part)))
    while True:
        x = (total - most * (len(part) - len(open_)) - floor * len(open_)) / sum(part[i] for i in open_)
        over = {i for i in open_ if floor + x * part[i] > most}
        if not over:
            return [floor + x * part[i] if i in open_ else float(most) for i in range(len(part))]
        open_ -= over


# ---- DuoAttention: Xiao et al. 2024, mit-han-lab/duo-attention 03dca84; kvpress 8bb29b9 ---------

def duo(t, B, sink=0.1, recent=0.4):
    """As few streaming heads as the budget needs, those with the smallest gates; what is left of the
    total is theirs evenly, as newest tokens."""
    S, R, lanes = whole(sink * B), whole(recent * B), t.lanes()
    k = next(k for k in range(len(lanes) + 1) if (len(lanes) - k) * t.N + k * (S + R) <= len(lanes) * B)
    stream = sorted(lanes, key=lambda a: t.gate[a])[:k]
    total = len(lanes) * B - (len(lanes) - k) * t.N
    n = largest_remainder([total / k] * k, total)
    order = [a for a in lanes if a in stream]
    for a in lanes:
        kept = list(range(t.N))
        if a in stream:
            m = n[order.index(a)]
            kept = list(range(S)) + list(range(t.N - m + S, t.N))
        yield 0, *a, kept


def duo_fixed(t, sinks, window, ratio, official):
    """official: full where the gate is the quantile or more; kvpress: round(heads ratio) stream."""
    lanes = t.lanes()
    gates = np.array([t.gate[a] for a in lanes])
    if official:
        stream = gates < (np.quantile(gates, ratio) if ratio < 1 else 2)
    else:
        stream = np.argsort(np.argsort(gates)) < round(len(lanes) * ratio)
    for a, s in zip(lanes, stream):
        yield 0, *a, list(range(sinks)) + list(range(t.N - window, t.N)) if s else list(range(t.N))


# ---- LU-KV: Tang et al. 2026, NVIDIA/kvpress 04af3dc, lukv_press.py -----------------------------

def lukv_kept(t, count, W, k, sinks=4, window=1):
    """What the base pins, and the ends, stay in any case."""
    for (l, a), n in zip(t.lanes(), count):
        s = np.concatenate([votes(t, l, a, W, k, "max"), np.full(W, np.inf)])
        s[:sinks] = np.inf
        s[t.N - window:] = np.inf
        yield 0, l, a, firm(s, n)


def lukv_kvpress(t, B, W=8, k=7):
    """The table's nearest row; in each layer rounded down, then one more for the largest remainders."""
    row = max(0, min(98, round((1 - B / t.N) * 100) - 1))
    count = []
    for l in range(t.L):
        keep = [t.curve[l, g][TABLE - 1 - row] * t.N for g in range(t.G)]
        total = max(t.G, min(t.G * t.N, round(sum(keep))))
        n = [math.floor(x) for x in keep]
        for i in firm([x - m for x, m in zip(keep, n)], total - sum(n)):
            n[i] += 1
        count += [max(4 + W, min(t.N, m)) for m in n]
    return lukv_kept(t, count, W, k)


def lukv(t, B, W=8, k=7):
    """Shares of the total in proportion to the table, between its points."""
    x = B / t.N * (TABLE + 1) - 1
    at = [np.interp(x, [-1, *range(TABLE), TABLE], [0, *t.curve[a], 1]) for a in t.lanes()]
    total, low, high = len(at) * B, 0.0, 1e6
    fill = lambda x: [min(max(x * v * t.N, 4 + W), t.N) for v in at]
    for _ in range(200):
        x = (low + high) / 2
        low, high = (x, high) if sum(fill(x)) < total else (low, x)
    want = fill(high)
    return lukv_kept(t, largest_remainder(want, total), W, k)


# ---- the tables ---------------------------------------------------------------------------------

def observation_windows(b, s, long_):
    for B in (33, 40, 64, 99):
        yield "snapkv", b, "order=max", "", B, snapkv(b, B, order="max")
        yield "snapkv", b, "compat=official-installed", "", B, snapkv(b, B, 32, 5, "mean", by_head=True)
        yield "snapkv", b, "compat=adakv", "", B, snapkv(b, B)
        yield "snapkv", b, "compat=adakv,order=max", "", B, snapkv(b, B, order="max")
    for B in (16, 17, 40, 99):
        yield "snapkv", b, "compat=cold-compress", "", B, snapkv_all(b, B, 16, 5, 16, 0, True)
    for B in (133, 150, 299):
        yield "snapkv", long_, "compat=sparse-frontier", "", B, snapkv_all(long_, B, 256, 7, 128, 4, False)
        yield "snapkv", long_, "compat=sparse-frontier,pool=21", "", B, snapkv_all(long_, B, 256, 21, 128, 4, False)
    for B in (65, 99):
        yield "snapkv", b, "compat=kvpress", "", B, snapkv(b, B, 64, 5, "mean", "pool")
    yield "snapkv", s, "window=39", "", 39, snapkv(s, 39, 39)
    yield "snapkv", s, "compat=cold-compress,window=40", "", 7, snapkv(s, 7, 40)
    for B in (9, 16, 40, 57, 58, 59, 99):
        yield "pyramidkv", b, "compat=kvcf-kv", "", B, pyramidkv(b, B)
    for B in (99, 57, 59):
        yield "pyramidkv", b, "compat=kvcf", "", B, pyramidkv(b, B, by_head=True)
    for B in (8, 33, 40, 60, 99):
        yield "finch", b, "window=8", "", B, finch(b, B, 8)
        yield "finch", b, "window=8,compat=kvpress", "", B, finch(b, B, 8, "lane", True)
    for B in (33, 50):
        yield "finch", b, "", "", B, finch(b, B)
        yield "finch", b, "compat=kvpress", "", B, finch(b, B, 32, "lane", True)
        yield "finch", b, "heads=lane", "", B, finch(b, B, 32, "lane")
        yield "finch", b, "rows=keys", "", B, finch(b, B, 32, "layer", True)
    yield "finch", s, "window=39", "", 39, finch(s, 39, 39)
    yield "finch", s, "window=40", "", 5, finch(s, 5, 40)


def allocators(b, s, long_):
    for B in (33, 40, 64, 90, 99):
        yield "adakv", b, "", "", B, adakv(b, B)
        yield "adakv", b, "compat=official", "", B, adakv(b, B, rule="official", alpha=0.5)
        yield "adakv", b, "", "floor=0", B, adakv(b, B, alpha=0)
        yield "adakv", b, "", "floor=1", B, adakv(b, B, alpha=1)
        yield "snapkv", b, "", "/ada", B, adakv(b, B)
        yield "snapkv", b, "", "/ada:rule=official", B, adakv(b, B, rule="official", alpha=0.5)
    for B in (9, 17, 40, 70, 99):
        yield "adakv", b, "compat=kvcf", "", B, adakv(b, B, 8, rule="official", normalise=True, by_head=True)
        yield "adakv", b, "window=8", "normalise=true", B, adakv(b, B, 8, normalise=True)
        yield "snapkv", b, "window=8", "/ada:rule=kvcf", B, adakv(b, B, 8, rule="official", normalise=True)
    for B in (65, 70, 80, 99):
        yield "adakv", b, "compat=kvpress", "", B, adakv_kvpress(b, B)
    for B in (9, 30, 60, 99):
        yield "adakv", b, "compat=kvpress,window=8", "", B, adakv_kvpress(b, B, 8)
        B = min(B, 96)
        yield "adakv", b, "compat=kvpress,window=8", "floor=0.5", B, adakv_kvpress(b, B, 8, alpha=0.5)
    for B in (133, 150, 220, 299):
        yield "adakv", long_, "compat=sparse-frontier", "", B, adakv_frontier(long_, B)
    yield "adakv", s, "window=39", "", 39, adakv(s, 39, 39)
    yield "adakv", s, "window=40", "", 5, adakv(s, 5, 40)
    for B in (41, 50, 80, 99):
        yield "headkv", b, "", "", B, headkv(b, B)
        yield "headkv", b, "compat=official", "", B, headkv(b, B, form="official", by_head=True)
    for B in (12, 20, 30):
        yield "headkv", b, "window=8,split=2,temp=2", "", B, headkv(b, B, 8, beta=2, temp=2)
        o = {"beta": 2, "form": "official", "by_head": True}
        yield "headkv", b, "compat=official,window=8,split=2", "", B, headkv(b, B, 8, **o)
        yield "headkv", b, "compat=kvcf,split=1.5", "", B, headkv(b, B, 8, beta=1.5, form="kvcf", by_head=True)
        yield "headkv", b, "compat=kvcf-kv,split=1.5", "", B, headkv(b, B, 8, beta=1.5, form="kvcf")
    for B in (21, 40, 60, 99):
        yield "duo", b, "", "", B, duo(b, B)
        yield "duo", b, "sink=0.2,recent=0.2", "", B, duo(b, B, 0.2, 0.2)
    for ratio in (0.3, 0.5, 0.7, 1):
        yield "duo", b, f"compat=official,sinks=6,window=20,ratio={ratio}", "", 60, duo_fixed(b, 6, 20, ratio, True)
        yield "duo", b, f"compat=kvpress,sinks=6,window=20,ratio={ratio}", "", 60, duo_fixed(b, 6, 20, ratio, False)
    for B in (13, 25, 40, 70):
        yield "lukv", b, "base=snapkv,base.window=8", "", B, lukv(b, B)
        yield "lukv", b, "compat=kvpress,base=snapkv,base.window=8", "", B, lukv_kvpress(b, B)
    for B in (30, 50, 75, 99):
        yield "simlayerkv", b, "", "", B, simlayerkv(b, B)
        yield "simlayerkv", b, "recent=0.25,sinks=2", "", B, simlayerkv(b, B, 2, 0.25)
    for lazy in (0.15, 0.2, 0.25, 0.3):
        for w in (12, 24):
            text = f"sinks=2,window={w},lazy={lazy}"
            yield "simlayerkv", b, "compat=kvpress," + text, "", 60, simlayerkv_fixed(b, 2, w, lazy, False)
            yield "simlayerkv", b, "compat=official," + text, "", 60, simlayerkv_fixed(b, 2, w, lazy, True)


def values_and_rows(b, s, long_, grown):
    for B in (33, 40, 64, 80, 99):
        yield "criticalkv", b, "", "", B, criticalkv(b, B)
        yield "criticalkv", b, "of=open", "", B, criticalkv(b, B, of="open")
        yield "criticalkv", b, "share=0.8", "", B, criticalkv(b, B, share=0.8)
        yield "criticalkv", b, "", "/ada", B, critical_ada(b, B)
        yield "dropkv", b, "", "", B, dropkv(b, B)
        yield "defensivekv", b, "", "", B, defensivekv(b, B)
        yield "defensivekv", b, "compat=official", "", B, defensivekv(b, B, kind="mean", cut_first=True)
        yield "defensivekv", b, "scope=model", "", B, defensivekv(b, B, scope="model")
        yield "cake", b, "", "", B, cake(b, B)
        yield "cake", b, "compat=official", "", B, cake(b, B, no_op=1)
    for B in (9, 17, 30, 60):
        yield "criticalkv", b, "base=snapkv,base.window=8", "", B, criticalkv(b, B, 8)
        yield "criticalkv", b, "base.window=8,epsilon=0.01,share=0.3", "", B, criticalkv(b, B, 8, eps=0.01, share=0.3)
        yield "criticalkv", b, "base.window=8", "/ada:floor=0.5", B, critical_ada(b, B, 8, alpha=0.5)
        yield "defensivekv", b, "window=8,cover=0.5", "", B, defensivekv(b, B, 8, cover=0.5)
        yield "defensivekv", b, "window=8,cover=0.7,scope=model", "", B, defensivekv(b, B, 8, cover=0.7, scope="model")
        yield "dropkv", b, "window=8,pool=1", "", B, dropkv(b, B, 8, 1)
        yield "cake", b, "window=8,tau1=1.6,tau2=0.4,gamma=20", "", B, cake(b, B, 8, 5, 20, 1.6, 0.4)
        yield "cake", b, "window=8,tau2=0.1", "", B, cake(b, B, 8, tau2=0.1)
    for B in (65, 80, 99):
        yield ("criticalkv", b, "compat=kvpress,base=snapkv,base.compat=kvpress", "", B,
               criticalkv(b, B, 64, 5, "mean", "pool", least=0, mean=True))
        yield ("criticalkv", b, "epsilon=0.01,share=0,compat=kvpress,base.compat=kvpress", "", B,
               criticalkv(b, B, 64, 5, "mean", "pool", share=0, least=0, mean=True, eps=0.01))
        yield "chunkkv", b, "compat=kvpress,base.compat=kvpress", "", B, chunkkv_kvpress(b, B)
    for B in (20, 39, 40, 41, 60):
        yield "chunkkv", b, "compat=kvpress,base.compat=kvpress,base.window=8", "", B, chunkkv_kvpress(b, B, W=8)
    for B in (33, 42, 45, 64, 99):
        yield "chunkkv", b, "", "", B, chunkkv(b, B)
        yield "chunkkv", b, "chunk=7,reduce=sum", "", B, chunkkv(b, B, 7, reduce="sum")
        yield "chunkkv", b, "chunk=1", "", B, chunkkv(b, B, 1)
    for policy, form in (("dropkv", dropkv), ("defensivekv", defensivekv), ("cake", cake)):
        yield policy, s, "window=39", "", 39, form(s, 39, 39)
        yield policy, s, "window=40", "", 5, form(s, 5, 40)
    for B in (10, 40, 41, 80, 99):
        yield "observed", b, "", "", B, observed(b, B)
        for text, o in (("", {}), ("compat=kvcf", {"by_head": True}),
                        ("compat=official", {"by_head": True, "causal": False})):
            yield "nacl", b, ",".join(x for x in (text, "random=0") if x), "", B, nacl(b, B, random=0, **o)
            some = 95 if B == 99 else B  # a firm cut
            yield "nacl", b, text, "", some, nacl(b, some, **o), "at least"
            yield ("nacl", b, ",".join(x for x in (text, "proxies=0.1,random=0,sinks=0.1,recent=0.2") if x), "", B,
                   nacl(b, B, 0.1, 0, 0.1, 0.2, **o))
    for B in (8, 41, 99):
        steps = (0, 1, 6, 12)
        for text, o in (("", {}), ("window=4", {"grace": 4}), ("values=true", {"values": True})):
            text = ",".join(x for x in ("compat=keys-values", text) if x)
            yield "h2o", b, text, "", B, h2o_keys_values(b, B, steps, **o), "decode"
    for B in (129, 140):
        yield "h2o", grown, "compat=foresightkv", "", B, h2o_foresight(grown, B, (0, 1, 127, 128, 129)), "decode"


def edges(b, s, one):
    """One token voting, one slot, one layer; shares whose product with C is a hair below a number."""
    for B in (2, 20, 99):
        yield "finch", b, "window=1", "", B, finch(b, B, 1)
        yield "snapkv", b, "window=1", "", B, snapkv(b, B, 1)
        yield "cake", b, "window=1", "", B, cake(b, B, 1)
        yield "defensivekv", b, "window=1", "", B, defensivekv(b, B, 1)
        yield "criticalkv", b, "base.window=1", "", B, criticalkv(b, B, 1)
        yield "dropkv", b, "window=1,pool=3", "", B, dropkv(b, B, 1, 3)
        yield "adakv", b, "window=1", "", B, adakv(b, B, 1)
    for B in (20, 60):
        yield "defensivekv", b, "window=8,cover=0", "", B, defensivekv(b, B, 8, cover=0)
        yield "defensivekv", b, "window=8,cover=1", "", B, defensivekv(b, B, 8, cover=1)
        yield "nacl", b, "proxies=1,random=0", "", B, nacl(b, B, 1, 0)
        yield "snapkv", b, "window=8", "/ada:rule=kvpress", B, adakv_counts(b, B, 8, 0.2)
        yield "snapkv", b, "window=8", "/ada:rule=kvpress,floor=0.9", B, adakv_counts(b, B, 8, 0.9)
        yield "criticalkv", b, "base.window=8", "/ada:rule=kvpress", B, critical_ada(b, B, 8, rule="kvpress")
        yield "cake", one, "window=8", "", B // 2, cake(one, B // 2, 8)
        yield "adakv", one, "window=8", "", B // 2, adakv(one, B // 2, 8)
        few = 8 + B // 20
        yield "defensivekv", one, "window=8,scope=model", "", few, defensivekv(one, few, 8, scope="model")
        yield "duo", one, "", "", B // 2, duo(one, B // 2)
        yield "simlayerkv", one, "", "", B // 2, simlayerkv(one, B // 2)
        yield "headkv", one, "window=8", "", B // 2, headkv(one, B // 2, 8)
        yield "finch", one, "window=8", "", B // 2, finch(one, B // 2, 8)
    for W, B in ((8, 25), (16, 32), (20, 35)):  # where T - W + i and one more differ
        yield "finch", s, f"compat=kvpress,window={W}", "", B, finch(s, B, W, "lane", True)
    for W, B in ((16, 25), (34, 37)):
        yield "finch", s, f"rows=keys,window={W}", "", B, finch(s, B, W, "layer", True)
    yield "adakv", b, "window=8", "rule=official,floor=0.58", 58, adakv(b, 58, 8, rule="official", alpha=0.58)
    yield "observed", b, "", "", 1, observed(b, 1)
    yield "nacl", b, "random=0", "", 1, nacl(b, 1, random=0)
    yield "h2o", b, "compat=keys-values", "", 1, h2o_keys_values(b, 1, (0, 1, 6, 12)), "decode"
    yield "snapkv", b, "compat=kvcf", "", 9, snapkv(b, 9, 8, by_head=True)
    yield "snapkv", b, "compat=official-longbench", "", 33, snapkv(b, 33, by_head=True)


def cells():
    """policy, toy, params, share, budget, sets; "decode", or "at least" these"""
    b, s = Lanes("1/3/8/4/2/100/12"), Lanes("2/2/2/4/2/40/3")
    long_, grown = Lanes("3/2/4/4/2/300/1"), Lanes("4/2/2/2/1/150/130")
    yield from observation_windows(b, s, long_)
    yield from allocators(b, s, long_)
    yield from values_and_rows(b, s, long_, grown)
    yield from edges(b, s, Lanes("5/1/1/2/1/40/2"))


def rows_of(cell):
    policy, t, params, share, B, sets, *how = cell
    act = "decode" if "decode" in how else "prefill"
    for m, l, lane, kept in sets:
        assert len(set(kept)) == len(kept)
        least = ">=" if "at least" in how else ""
        yield [t.name, params, share, B, act, m, l, lane, least + runs(sorted(kept))]


def main():
    files = {}
    for cell in cells():
        try:
            files.setdefault(cell[0], []).extend(rows_of(cell))
        except AssertionError:
            print("choose another budget or toy:", cell[0], *cell[2:5])
            raise
    os.makedirs("attention", exist_ok=True)
    for policy, rows in files.items():
        with open(f"attention/{policy}.csv", "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["toy", "params", "share", "budget", "act", "tokens", "layer", "lane", "kept"])
            out.writerows(rows)
        print(policy, len(rows))


if __name__ == "__main__":
    main()
