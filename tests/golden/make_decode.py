#!/usr/bin/env python3
"""Writes decode/NAME.csv for policies that act while decoding and for oracles: kept slots after every
token on the traces of lanes.py.

Written from the papers' formulae and the published code (the sources are named at each function),
without a look at the C files; numpy in double. Run: python3 make_decode.py, in this folder. CI never
runs it. Of equal scores the lower position is kept; a cut that rounding could move is refused.
"""
import math

import numpy as np

from lanes import FILTER, MEAN, MAGNITUDE, Lanes, best, f32, runs, softmax, write

A, B2 = Lanes("1/2/2/4/2/48/12/8"), Lanes("2/3/5/6/2/35/9/8/20")


def lanes(t):
    return [(l, g) for l in range(t.L) for g in range(t.G)]


def top(pos, score, k, fixed=()):
    """Of the slots `pos` those of `fixed` and the best k of the others by score[pos]."""
    fixed = set(fixed)
    free = [p for p in pos if p not in fixed]
    kept = best([score[p] for p in free], k - len(fixed & set(pos)))
    return sorted([free[i] for i in kept] + [p for p in pos if p in fixed])


def steps(t, l, g, budget, decide, attend=None, every=1, limit=None, first=True):
    """One lane: decide(m, pos) -> what stays, at the end of the prompt (m = 0) and every `every`
    tokens where there are more slots than `limit` (the budget); attend(m, pos) sees the slots of
    row m - 1, its own among them, before that."""
    pos = list(range(t.N))
    for m in range(t.M + 1):
        if m:
            pos = pos + [t.N + m - 1]
            if attend:
                attend(m, pos)
        if len(pos) > (limit or budget) and (m % every == 0 if m else first):
            pos = decide(m, pos)
            assert len(pos) <= budget
        yield m, l, g, pos


def each_lane(t, make):
    for l, g in lanes(t):
        yield from make(l, g)


# ---- StreamingLLM: Xiao et al. 2023, arXiv 2309.17453; mit-han-lab/streaming-llm 2e50426 ---------

def streaming(t, budget, sinks):
    """It drops before the row attends: what row m saw, from m = 1 on."""
    for l, g in lanes(t):
        for m in range(1, t.M + 1):
            T = t.N + m
            yield m, l, g, list(range(sinks)) + list(range(T - budget + sinks, T))


# ---- Scissorhands: Liu et al. 2023, arXiv 2305.17118, algorithm 2; no code. cold-compress'
# ---- heavy hitter; Zefan-Cai/KVCache-Factory c97f9d7 scissorhands.py ------------------------------

def scissorhands(t, budget, form="count", rows=64, recent=10, sinks=0, drop=0.5, decay=1.0):
    """A row finds a token unimportant where it gives less than 1 / (tokens it sees). The most
    often unimportant of the last `rows` rows go, floor(drop budget) at once while decoding."""
    def lane(l, g):
        history = []  # of {position: (unimportant, attention)} summed over the heads, oldest first

        def note(i, pos):
            row = {p: [0, 0.0, 0] for p in pos}
            for h in t.heads(g):
                for p, a in zip(pos, t.row(l, h, i, pos)):
                    assert a * len(pos) == 1 or abs(a * len(pos) - 1) > 1e-6
                    row[p][0] += a < 1 / len(pos)
                    row[p][1] += a
                    row[p][2] += 1
            history.append(row)
            if form != "sum":  # where all rows of the response stay, with those of the prompt
                del history[:-rows]

        for i in range(max(0, t.N - rows), t.N):
            note(i, list(range(i + 1)))

        def score(p):
            seen = [r[p] for r in history if p in r]
            if form == "count":  # largest counter goes
                return -sum(r[0] for r in seen)
            if form == "mean":   # mean of A >= 1/t over the rows that saw it
                return 1 - sum(r[0] for r in seen) / sum(r[2] for r in seen)
            return sum(r[p][1] * decay ** age for age, r in enumerate(reversed(history)) if p in r)

        def decide(m, pos):
            keep = budget if m == 0 else len(pos) - max(1, math.floor(drop * budget + 1e-9))
            fixed = pos[:sinks] + (pos[-recent:] if recent else [])
            return top(pos, {p: score(p) for p in pos}, keep, fixed)

        return steps(t, l, g, budget, decide, lambda m, pos: note(pos[-1], pos))
    return each_lane(t, lane)


# ---- Keyformer: Adnan et al. 2024, arXiv 2403.09054, algorithm 1 without noise; d-matrix-ai/
# ---- keyformer-llm f327831 (tau + 0.01 a step; the slot that leaves the newest goes) --------------

def keyformer(t, budget, recent=0.3, start=1.0, end=2.0, step=0.0, rows=0, blind=False):
    def tau(m):
        return start + step * m if step else start + (end - start) * m / t.M

    def lane(l, g):
        score = {p: 0.0 for p in range(t.T)}

        def note(i, pos, m):
            for h in t.heads(g):
                for p, a in zip(pos, softmax(t.z[l, h, i, pos] / tau(m))):
                    score[p] += a

        for i in range(max(0, t.N - rows), t.N):
            note(i, list(range(i + 1)), 0)

        def decide(m, pos):
            R = math.floor(recent * budget + 1e-9)
            if blind:  # of the next row's R newest one is its own; slot n - R is in neither part
                old, new = pos[:len(pos) - R], pos[len(pos) - R + 1:] if R else []
            else:
                old, new = pos[:len(pos) - R], pos[len(pos) - R:]
            return top(old, score, budget - len(new)) + new

        return steps(t, l, g, budget, decide, lambda m, pos: note(pos[-1], pos, m))
    return each_lane(t, lane)


# ---- MorphKV: Ghadia et al. 2025, arXiv 2503.00979; ghadiaravi13/MorphKV 8903d2a ------------------

def morphkv(t, budget, window=32, fuse="sum", after=1.0, every=1):
    """Last `window` queries, softmax over what is older than they are, maximum over the group. The
    code decides in front of the next row, whose token counts: T >= after (1 + budget)."""
    def lane(l, g):
        def decide(m, pos):
            old, new = pos[:-window], pos[-window:]
            if not old:
                return pos[-budget:]
            a = np.max([[softmax(t.z[l, h, i, old]) for i in new] for h in t.heads(g)], axis=0)
            fused = a.sum(0) if fuse == "sum" else a.max(0)
            return top(old, dict(zip(old, fused)), budget - window) + new

        return steps(t, l, g, budget, decide, every=every, limit=math.ceil(after * (budget + 1)) - 2)
    return each_lane(t, lane)


# ---- R-KV: Cai et al. 2025, arXiv 2505.24133; Zefan-Cai/R-KV d15c976 r1_kv.py --------------------

def rkv(t, budget, window=8, pool=7, lam=0.1, similar=0.5, retain="last", column_zero=False, every=128):
    def redundancy(key):
        u = key / (np.linalg.norm(key, axis=1, keepdims=True) + 1e-8)
        c = u @ u.T
        np.fill_diagonal(c, 0)
        assert (np.abs(c - similar) > 1e-6).all()
        for i in range(len(c)):
            hits = np.flatnonzero(c[i] > similar)
            if len(hits):
                c[i, hits[-1] if retain == "last" else hits[0]] = 0
            elif column_zero:
                c[i, 0] = 0
        return softmax(c.mean(0))

    def lane(l, g):
        def decide(m, pos):
            old, new = pos[:-window], pos[-window:]
            if not old:
                return pos[-budget:]
            z = np.max([t.z[l, h][np.ix_(new, old)] for h in t.heads(g)], axis=0)
            imp = softmax(z).mean(0)
            r = pool // 2
            imp = np.array([imp[max(0, i - r):i + r + 1].max() for i in range(len(imp))])
            s = lam * imp - (1 - lam) * redundancy(t.k[l, g, pos])[:len(old)]
            return top(old, dict(zip(old, s)), budget - window) + new

        return steps(t, l, g, budget, decide, every=every)
    return each_lane(t, lane)


# ---- H2O: Zhang et al. 2023, arXiv 2306.14048: FMInference/H2O ac75c2a (h2o_hf/utils_real_drop,
# ---- h2o_flexgen), llama-cookbook (the first head of each group), awslabs/keys_values a34f07d (h2o.py: normalised
# ---- scores, grace, values), RUCAIBox/ForesightKV fdb541f (its baseline) --------------------------

def h2o(t, budget, window=0, lifetime=False, values=False, every=1, at_prompt=None, heads_of=None):
    """window: newest tokens that stay, at the end of the prompt `at_prompt`."""
    def lane(l, g):
        heads = heads_of(g) if heads_of else t.heads(g)
        score = {p: 0.0 for p in range(t.T)}
        length = np.linalg.norm(t.v[l, g], axis=1)

        def add(pos, rows, n_query):
            """rows [len(pos)], mean over the heads."""
            if values:
                rows = rows * length[pos]
                rows = n_query * rows / rows.sum()
            for p, a in zip(pos, rows):
                score[p] += a

        add(list(range(t.N)), t.columns[l, heads].mean(0), t.N)

        def decide(m, pos):
            now = t.N - 1 + m
            s = {p: score[p] / (now + 1 - max(p, t.N - 1)) if lifetime else score[p] for p in pos}
            newest = window if m or at_prompt is None else at_prompt
            return top(pos, s, budget, pos[-newest:] if newest else [])

        def attend(m, pos):
            add(pos, np.mean([t.row(l, h, pos[-1], pos) for h in heads], axis=0), 1)

        return steps(t, l, g, budget, decide, attend, every)
    return each_lane(t, lane)


# ---- H2O's masks: FMInference/H2O ac75c2a, h2o_hf/utils_hh (mask simulation) ---------------------

def h2o_mask(t, budget, recent=0.5, by_head=False):
    """What each row sees: `budget` slots, the last R of which one is its own, and of those in front of
    slot n - R the heaviest; that slot keeps its score, other hidden ones lose theirs (not with R = 0,
    where "the last 0" is everything)."""
    for l in range(t.L):
        for lane in range(t.H if by_head else t.G):
            heads = [lane] if by_head else t.heads(lane)
            score = np.zeros(t.T)
            score[:t.N] = t.columns[l, heads].sum(0)
            R = math.floor(recent * budget + 1e-9)
            for m in range(t.M):
                n = t.N + m  # slots before this row's own
                heavy = best(score[:n - R], budget - R)
                row = heavy + list(range(n + 1 - R, n + 1))
                yield m + 1, l, lane, row
                hidden = np.ones(t.T, bool)
                hidden[row] = False
                if n - R >= 0 and R:
                    hidden[n - R] = False
                if R:
                    score[hidden] = 0
                for h in heads:
                    score[row] += t.row(l, h, n, row)


# ---- H2O's evaluation harness: h2o_hf/utils_lm_eval (active, greedy); LESS: hdong920/LESS 0e0cf98 --

def h2o_lm_eval(t, budget, mask="active", recent=0.5, by_head=False):
    for l in range(t.L):
        for lane in range(t.H if by_head else t.G):
            heads = [lane] if by_head else list(t.heads(lane))
            R = math.floor(recent * budget + 1e-9)
            hh = budget - R if mask != "greedy" else budget
            a = t.a[l, heads].sum(0)
            if mask == "active":  # columns of all rows, later ones included, and a band
                heavy = set(best(a.sum(0), hh, 1e-4))  # a trace has sums of exact rows
                for m in range(t.M):
                    i = t.N + m
                    yield m + 1, l, lane, sorted(p for p in range(i + 1) if p in heavy or i - p <= R)
                continue
            score = np.zeros(t.T)
            for i in range(t.T):
                if mask == "greedy":  # the best heavy - 1 so far and its own; the first rows are dense
                    row = list(range(i + 1)) if i < hh else best(score[:i], hh - 1) + [i]
                else:
                    old = max(0, i - R)
                    row = best(score[:old], hh) + list(range(old, i + 1))
                if i >= t.N:
                    yield i - t.N + 1, l, lane, row
                hidden = np.ones(t.T, bool)
                hidden[row] = False
                score += a[i]  # the full row, then nothing is left of what was hidden
                score[hidden] = 0


# ---- Quest: Tang et al. 2024, arXiv 2406.10774; mit-han-lab/Quest 01c1623; sparse-frontier --------

def quest(t, budget, page=16, last=False, least=1, dense=0, shared=False):
    for l in range(t.L):
        lanes_ = range(t.G) if shared else range(t.H)
        for lane in lanes_:
            heads = t.heads(lane) if shared else [lane]
            key = t.k[l, lane if shared else lane // t.R]
            for m in range(t.M):
                n = t.N + m + 1
                pages = [range(i, min(i + page, n)) for i in range(0, n, page)]
                if t.layer_id[l] < dense or n <= budget + 1:  # a row may see its own token beside B
                    yield m + 1, l, lane, list(range(n))
                    continue
                bound = [sum(np.maximum(t.q[l, h, n - 1] * key[p].min(0), t.q[l, h, n - 1] * key[p].max(0)).sum()
                             for h in heads) for p in pages]
                k = min(max(least, budget // page), len(pages))
                kept = top(range(len(pages)), bound, k, [len(pages) - 1] if last else [])
                yield m + 1, l, lane, [s for i in kept for s in pages[i]]


# ---- TriAttention: Mao et al. 2026, arXiv 2604.04921; WeianMao/triattention c3744ee --------------

def triattention(t, budget, reach=65536, znorm=False, keep_prompt=False, every=128):
    half = t.D // 2
    mean, magnitude = t.x(MEAN, t.L, t.H, t.D), 2 + t.x(MAGNITUDE, t.L, t.H, half)
    raw = t.before_rope(t.k)
    offset = [2 ** i for i in range(int(math.log2(reach)) + 1)]

    def score(l, g, pos, now):
        k = raw[l, g, pos, :half] + 1j * raw[l, g, pos, half:]
        out = []
        for h in t.heads(g):
            q = mean[l, h, :half] + 1j * mean[l, h, half:]
            pair = q * np.conj(k)
            s = np.mean([(pair * np.exp(1j * (now - np.array(pos) + d)[:, None] * t.freq)).real.sum(1)
                         for d in offset], axis=0)
            s = s + ((magnitude[l, h] - np.abs(q)) * np.abs(k)).sum(1)
            if znorm:
                s = (s - s.mean()) / s.std(ddof=1)
            out.append(s)
        return np.max(out, axis=0)

    def lane(l, g):
        def decide(m, pos):
            s = score(l, g, pos, t.N - 1 + m)
            return top(pos, dict(zip(pos, s)), budget, [p for p in pos if p < t.N] if keep_prompt else [])

        return steps(t, l, g, budget, decide, every=every)
    return each_lane(t, lane)


# ---- SnapKV (arXiv 2404.14469) and KeyDiff (arXiv 2504.15364) anew every K tokens ----------------

def snapkv(t, budget, window, every, pool=7):
    """Rows of the last `window` queries over the slots that are left, each up to itself."""
    def lane(l, g):
        def decide(m, pos):
            old, new = pos[:-window], pos[-window:]
            votes = np.zeros(len(old))
            for h in t.heads(g):
                for i in new:
                    sees = [p for p in pos if p <= i]
                    votes += t.row(l, h, i, sees)[:len(old)]
            votes = np.array([votes[max(0, s - pool // 2):s + pool // 2 + 1].max() for s in range(len(votes))])
            return top(old, dict(zip(old, votes)), budget - window) + new

        return steps(t, l, g, budget, decide, every=every)
    return each_lane(t, lane)


def keydiff(t, budget, every):
    def lane(l, g):
        def decide(m, pos):
            u = t.k[l, g, pos] / np.linalg.norm(t.k[l, g, pos], axis=1, keepdims=True)
            anchor = u.mean(0)
            return top(pos, dict(zip(pos, -(u @ anchor) / np.linalg.norm(anchor))), budget)

        return steps(t, l, g, budget, decide, every=every)
    return each_lane(t, lane)


# ---- Q-Filters: Godey et al. 2025, arXiv 2503.02812; NathanGodey/qfilters cda5c38 hf_cache.py -----

def qfilters(t, budget, recent, decode=True):
    u = t.x(FILTER, t.L, t.G, t.D)

    def lane(l, g):
        s = -t.k[l, g] @ u[l, g]  # kept is the largest -(u.k)

        def decide(m, pos):
            return top(pos, s, budget, pos[-recent:] if recent else [])

        for m, *kept in steps(t, l, g, budget, decide):
            if decode or m == 0:
                yield (m, *kept)
    return each_lane(t, lane)


# ---- the tables ---------------------------------------------------------------------------------

def cells():
    """policy as typed, lanes, budget, act, sets"""
    # vector 14.6 of the specification: 8 slots, hh = 2, R = 2: 7 and 8 are recent, 6 is blind once
    eight = Lanes("3/1/1/2/1/8/4/8")
    rows = list(h2o_mask(eight, 4))
    assert {7, 8} <= set(rows[0][3]) and 6 not in rows[0][3]
    yield "h2o-mask", eight, 4, "own", rows
    for B in (3, 6, 7):  # a prompt no longer than the window: the latest
        yield "morphkv", eight, B, "own", morphkv(eight, B)
        yield "r-kv:window=16,every=1", eight, B, "own", rkv(eight, B, 16, every=1)
    long = Lanes("9/1/1/2/1/80/5/8")  # longer than the 64 rows of the default
    for B in (30, 70):
        yield "scissorhands", long, B, "own", scissorhands(long, B)
        yield "scissorhands:compat=published", long, B, "own", scissorhands(long, B, rows=400)
    for t in (A, B2):
        yield "streaming:compat=official", t, 9, "own", streaming(t, 9, 4)
        yield "streaming:compat=official-ppl", t, 9, "own", streaming(t, 9, 1)
        for B in (12, 20, 25):
            yield "scissorhands", t, B, "own", scissorhands(t, B)
            yield "scissorhands:rows=6,recent=3,drop=0.25", t, B, "own", scissorhands(t, B, rows=6, recent=3, drop=0.25)
            yield "scissorhands:rows=5,recent=2,drop=0,sinks=1", t, B, "own", scissorhands(t, B, rows=5, recent=2, drop=0, sinks=1)
            yield "scissorhands:compat=published", t, B, "own", scissorhands(t, B, rows=400)
            yield "scissorhands:compat=cold-compress,sinks=0,recent=2", t, B, "own", scissorhands(t, B, "mean", recent=2, drop=0)
            yield "scissorhands:compat=kvcf,sinks=0,recent=2", t, B, "own", scissorhands(t, B, "sum", recent=2, drop=0)
            if B > 14:
                yield "scissorhands:compat=cold-compress", t, B, "own", scissorhands(t, B, "mean", sinks=4, drop=0)
                yield "scissorhands:compat=kvcf", t, B, "own", scissorhands(t, B, "sum", sinks=4, drop=0)
                yield "scissorhands:compat=kvcf,decay=0.9,rows=16", t, B, "own", scissorhands(t, B, "sum", sinks=4, drop=0, decay=0.9, rows=16)
        for B in (5, 10, 24):
            yield "keyformer:noise=false", t, B, "own", keyformer(t, B)
            yield "keyformer:noise=false,rows=20,tau_end=3,recent=0.5", t, B, "own", keyformer(t, B, 0.5, end=3, rows=20)
            yield "keyformer:compat=official,noise=false", t, B, "own", keyformer(t, B, step=0.01, rows=10000, blind=True)
        for B in (1, t.N - 1, t.N, t.N + 4):  # edges: one slot, one too many, none before the response
            B4 = max(B, 4)  # 0.3 of it is a token
            yield "keyformer:noise=false", t, B4, "own", keyformer(t, B4)
            yield "keyformer:compat=official,noise=false", t, B4, "own", keyformer(t, B4, step=0.01, rows=10000, blind=True)
            yield "scissorhands:recent=0,rows=8", t, B, "own", scissorhands(t, B, rows=8, recent=0)
            yield "morphkv:window=1", t, B, "own", morphkv(t, B, 1)
            yield "r-kv:window=1,every=1", t, B, "own", rkv(t, B, 1, every=1)
            yield "h2o:compat=keys-values", t, B, "own", h2o(t, B, lifetime=True)
            yield "triattention:every=1", t, B, "own", triattention(t, B, every=1)
            if B > 1:  # two keys lie equally far from their mean
                yield "keydiff:every=1", t, B, "own", keydiff(t, B, 1)
            yield "snapkv:window=1,every=1", t, B, "own", snapkv(t, B, 1, 1)
            yield "quest:page=1", t, B, "own", quest(t, B, 1)
        for B in (9, 20):
            yield "morphkv:window=8", t, B, "own", morphkv(t, B, 8)
            yield "morphkv:window=5,fuse=max", t, B, "own", morphkv(t, B, 5, "max")
            yield "morphkv:window=8,evict_after=1.2", t, B, "own", morphkv(t, B, 8, after=1.2)
            yield "morphkv:window=8,every=4", t, B, "own", morphkv(t, B, 8, every=4)
            yield "r-kv:every=1", t, B, "own", rkv(t, B, every=1)
            yield "r-kv:every=4", t, B, "own", rkv(t, B, every=4)
            yield "r-kv", t, B, "own", rkv(t, B)
            yield "r-kv:compat=official,every=4", t, B, "own", rkv(t, B, lam=0.07, column_zero=True, every=4)
            yield "r-kv:compat=official,every=4,similar=0.85", t, B, "own", rkv(t, B, lam=0.07, column_zero=True, every=4, similar=0.85)
            yield "r-kv:compat=snapkv,every=4", t, B, "own", rkv(t, B, lam=1, every=4)
            yield "r-kv:every=2,retain=first,window=3,pool=3,lambda=0.5", t, B, "own", rkv(t, B, 3, 3, 0.5, retain="first", every=2)
        for B in (6, 20):
            yield "h2o", t, B, "own", h2o(t, B, B // 2)
            yield "h2o:recent=0", t, B, "own", h2o(t, B)
            yield "h2o:every=5", t, B, "own", h2o(t, B, B // 2, every=5)
            yield "h2o:compat=flexgen", t, B, "own", h2o(t, B, (B + 1) // 2, at_prompt=(B + 1) // 2 - 1)
            yield "h2o:compat=cookbook", t, B, "own", h2o(t, B, B // 2, heads_of=lambda g: [g * t.R])
            yield "h2o:compat=keys-values", t, B, "own", h2o(t, B, lifetime=True)
            yield "h2o:compat=keys-values,window=3", t, B, "own", h2o(t, B, 3, lifetime=True)
            yield "h2o:compat=keys-values,values=true,window=3", t, B, "own", h2o(t, B, 3, lifetime=True, values=True)
            yield "h2o:compat=foresightkv,window=4,every=4", t, B, "own", h2o(t, B, 4, every=4)
            yield "h2o-mask", t, B, "own", h2o_mask(t, B)
            yield "h2o-mask:recent=0.25", t, B, "own", h2o_mask(t, B, 0.25)
            yield "h2o-mask:recent=0", t, B, "own", h2o_mask(t, B, 0)
            yield "h2o-mask:compat=official", t, B, "own", h2o_mask(t, B, by_head=True)
            yield "h2o-lm-eval", t, B, "own", h2o_lm_eval(t, B)
            yield "h2o-lm-eval:recent=0.2", t, B, "own", h2o_lm_eval(t, B, recent=0.2)
            yield "h2o-lm-eval:compat=official", t, B, "own", h2o_lm_eval(t, B, by_head=True)
            yield "h2o-lm-eval:mask=greedy", t, B, "own", h2o_lm_eval(t, B, "greedy")
            yield "h2o-lm-eval:mask=less", t, B, "own", h2o_lm_eval(t, B, "less")
            yield "h2o-lm-eval:compat=less", t, B, "own", h2o_lm_eval(t, B, "less", by_head=True)
            yield "quest:page=4", t, B, "own", quest(t, B, 4)
            yield "quest:page=3,compat=official", t, B, "own", quest(t, B, 3, True)
            yield "quest:compat=official-eval,page=3", t, B, "own", quest(t, B, 3, least=3, dense=2)
            yield "quest:compat=sparse-frontier,page=4", t, B, "own", quest(t, B, 4, True, shared=True)
            yield "quest:page=2,least=4", t, B, "own", quest(t, B, 2, least=4)
            yield "triattention:every=1", t, B, "own", triattention(t, B, every=1)
            yield "triattention:every=4,reach=16", t, B, "own", triattention(t, B, 16, every=4)
            yield "triattention:every=3,znorm=true", t, B, "own", triattention(t, B, znorm=True, every=3)
            yield "triattention:compat=official,every=2", t, t.N + B // 4, "own", triattention(t, t.N + B // 4, keep_prompt=True, every=2)
            yield "snapkv:window=4,every=3", t, B, "own", snapkv(t, B, 4, 3)
            yield "snapkv:window=4,every=8", t, B, "own", snapkv(t, B, 4, 8)
            yield "keydiff:every=8", t, B, "own", keydiff(t, B, 8)
            yield "keydiff:every=2", t, B, "own", keydiff(t, B, 2)
            yield "qfilters:compat=official,recent=4", t, B, "own", qfilters(t, B, 4)
            yield "qfilters", t, B, "own", qfilters(t, B, 0, False)


if __name__ == "__main__":
    write(cells(), "decode", ("h2o-mask", "h2o-lm-eval", "quest"))
