#!/usr/bin/env python3
"""Writes oracles/NAME.csv: what bounds keep on the traces of lanes.py.

Written from the definitions of the bounds, without a look at the C files: assignment by the Hungarian
method (checked against exhaustive search here), budgets by dynamic programming, elimination by making
every output anew; numpy in double. Run: python3 make_oracles.py, in this folder. CI never runs it.
Of equal scores the lower position is kept; a cut that rounding could move is refused.
"""
import functools

import numpy as np

from lanes import Lanes, best, write, write_values
from make_decode import steps, top

A, B2, S = Lanes("11/2/2/4/2/30/10/8"), Lanes("12/3/5/6/2/23/7/8"), Lanes("13/1/1/2/2/14/5/8")


def lanes_of(t, by_head=False):
    """layer, lane, its query heads"""
    return [(l, i, [i] if by_head else list(t.heads(i))) for l in range(t.L) for i in range(t.H if by_head else t.G)]


# ---- one decision at the end of the prompt: the best sum of future attention ---------------------

def oracle(t, budget, scope="lane", by_head=False, sinks=0, recent=0):
    """The objective is a sum over slots, so that the best ones are the optimum."""
    all_ = lanes_of(t, by_head)
    fixed = sorted(set(range(min(sinks, t.N))) | set(range(t.N - recent, t.N)))
    free = [p for p in range(t.N) if p not in fixed]
    mass = [t.a[l, h, t.N:, :t.N].sum((0, 1)) for l, _, h in all_]
    per = {"lane": 1, "layer": len(all_) // t.L, "model": len(all_)}[scope]
    for i in range(0, len(all_), per):
        flat = np.concatenate([mass[j][free] for j in range(i, i + per)])
        # no lane is left empty: its best slot stays beside what is fixed (case C007)
        first = [j * len(free) + int(np.argmax(mass[i + j][free])) for j in range(per)] if not fixed else []
        other = [k for k in range(len(flat)) if k not in first]
        kept = first + [other[k] for k in best(flat[other], per * (budget - len(fixed)) - len(first))]
        for j in range(per):
            own = [free[k - j * len(free)] for k in kept if j * len(free) <= k < (j + 1) * len(free)]
            yield 0, all_[i + j][0], all_[i + j][1], sorted(own + fixed)


# ---- decisions at every step that know the future ------------------------------------------------

def greedy(t, budget, every=1):
    for l, g, heads in lanes_of(t):
        a = t.a[l, heads].sum(0)
        yield from steps(t, l, g, budget, lambda m, pos: top(pos, a[t.N + m:].sum(0), budget), every=every)


def belady(t, budget, theta=0.05, every=1):
    """Next row that gives it more than theta, mean over the heads; never is farthest."""
    for l, g, heads in lanes_of(t):
        a = t.a[l, heads].mean(0)
        assert (np.abs(a - theta) > 1e-6).all()

        def decide(m, pos):
            def wait(p):
                rows = np.flatnonzero(a[t.N + m:, p] > theta)
                return rows[0] if len(rows) else t.T
            return top(pos, {p: -wait(p) for p in pos}, budget)

        yield from steps(t, l, g, budget, decide, every=every)


# ---- the best schedule of irreversible eviction: drop times x keys --------------------------------

def hungarian(cost):
    """Column of each row, minimum sum; rows <= columns. Shortest augmenting paths with potentials."""
    n, m = cost.shape
    u, v, match, way = np.zeros(n + 1), np.zeros(m + 1), np.zeros(m + 1, int), np.zeros(m + 1, int)
    for i in range(1, n + 1):
        match[0], j = i, 0
        least, done = np.full(m + 1, np.inf), np.zeros(m + 1, bool)
        while True:
            done[j] = True
            row = cost[match[j] - 1] - u[match[j]] - v[1:]
            better = ~done[1:] & (row < least[1:])
            least[1:][better], way[1:][better] = row[better], j
            k = int(np.argmin(np.where(done, np.inf, least)))
            delta = least[k]
            u[match[done]] += delta
            v[done] -= delta
            least[~done] -= delta
            j = k
            if match[j] == 0:
                break
        while j:
            match[j], j = match[way[j]], way[j]
    out = np.zeros(n, int)
    for j in range(1, m + 1):
        if match[j]:
            out[match[j] - 1] = j - 1
    return out


def schedule(a, N, budget, every=1):
    """a [T T] of a lane. Step after which each key goes (0: end of the prompt; large: never). What
    goes after the last row costs nothing, so that step is left out."""
    T = len(a)
    M = T - N
    left = np.cumsum(a[N:][::-1], axis=0)[::-1]  # [M T] of the rows m..
    left = np.vstack([left, np.zeros(T)])
    times = [0] * max(0, N - budget)
    for m in range(every, M, every):  # down to the budget again
        times += [m] * max(0, N + m - budget - len(times))
    cost = np.full((len(times), T), 1e9)
    for i, m in enumerate(times):
        cost[i, :N + m] = left[m, :N + m]
    gone = np.full(T, 10 ** 6)
    for i, j in enumerate(hungarian(cost)):
        assert cost[i, j] < 1e9
        gone[j] = times[i]
    return gone, sum(left[gone[j], j] for j in range(T) if gone[j] < M)


def exhaustive(a, N, budget):
    """Least lost mass of all schedules."""
    T = len(a)

    @functools.lru_cache(None)
    def after(m, held):
        """Lost by the rows m.. where `held` was kept behind decision m."""
        if m == T - N:
            return 0.0
        row = a[N + m]
        seen = held | {N + m}
        lost = row[:N + m + 1].sum() - row[sorted(seen)].sum()
        return lost + min(after(m + 1, seen - {p}) for p in (seen if len(seen) > budget else [None]))

    import itertools
    return min(after(0, frozenset(k)) for k in itertools.combinations(range(N), min(budget, N)))


def assign(t, budget, by_head=False, every=1):
    for l, lane, heads in lanes_of(t, by_head):
        a = t.a[l, heads].sum(0)
        gone, _ = schedule(a, t.N, budget, every)
        rng = np.random.default_rng(1)
        for _ in range(8):  # halves may tie: a lane with two best schedules is refused
            assert (schedule(a * (1 + 1e-9 * rng.standard_normal(a.shape)), t.N, budget, every)[0] == gone).all()
        for m in range(t.M):  # what goes after the last row is anyone's
            yield m, l, lane, [p for p in range(t.N + m) if gone[p] > m]


def check_schedules():
    """Vector 14.11: the assignment is the best of all schedules, at least as good as the greedy one
    and no better than the best B + 1 of each row."""
    for seed in range(40):
        t = Lanes(f"{100 + seed}/1/1/1/1/5/5/8")
        a = t.a[0, 0]
        for B in (1, 2, 3, 4):
            lost = schedule(a, 5, B)[1]
            assert abs(lost - exhaustive(a, 5, B)) < 1e-9, (seed, B)
            held = {m: kept for m, _, _, kept in greedy(t, B)}
            assert lost <= sum(a[5 + m].sum() - a[5 + m, held[m] + [5 + m]].sum() for m in range(5)) + 1e-12
            assert lost >= sum(a[5 + m].sum() - np.sort(a[5 + m])[-(B + 1):].sum() for m in range(5)) - 1e-12


# ---- greedy elimination by the output's error ----------------------------------------------------

def output(t, budget, total=True):
    """Rows of the response over what is left of the prompt and all of the response; squared error of
    the output against the full one (or against the one before the removal), before W_O."""
    for l, g, heads in lanes_of(t):
        value, kept = t.v[l, g], list(range(t.N))
        a = t.a[l, heads][:, t.N:].copy()

        def out(pos):
            pos = pos + list(range(t.N, t.T))
            w = a[:, :, pos]
            return (w @ value[pos]) / w.sum(-1, keepdims=True)

        full = out(kept)
        while len(kept) > budget:
            base = full if total else out(kept)
            error = [((out(kept[:i] + kept[i + 1:]) - base) ** 2).sum() for i in range(len(kept))]
            i = min(range(len(kept)), key=lambda i: (error[i], -kept[i]))
            assert sorted(error)[1] - sorted(error)[0] > 2e-5 * sorted(error)[1]
            kept = kept[:i] + kept[i + 1:]
        yield 0, l, g, kept


# ---- the best budgets for a ranking: all of them by dynamic programming --------------------------

def budgets(curves, total):
    """curves [lane][b] for b = 0..; at least 1 each. The best sum of exactly `total`, and its budgets."""
    best_, back = {0: 0.0}, []
    for c in curves:
        new, from_ = {}, {}
        for used, value in best_.items():
            for b in range(1, len(c)):
                x = value + c[b]
                if used + b <= total and x > new.get(used + b, -1):
                    new[used + b], from_[used + b] = x, b
        best_ = new
        back.append(from_)
    out, used = [], total
    for from_ in reversed(back):
        out.append(from_[used])
        used -= out[-1]
    return best_[total], out[::-1]


def oracle_budget(t, budget, score, lost=False):
    """score(l, g) ranks the prompt; lanes of the whole trace share. Kept slots; with `lost` the mean
    lost mass of the best budgets and that of even ones."""
    order, curves = [], []
    for l, g, heads in lanes_of(t):
        s = score(l, g)
        order.append(sorted(range(t.N), key=lambda p: (-s[p], p)))
        curves.append(np.concatenate([[0], np.cumsum(t.a[l, heads][:, t.N:, :t.N].sum((0, 1))[order[-1]])]))
    most, share = budgets(curves, budget * len(curves))
    if lost:
        rows = t.L * t.H * t.M
        return [(sum(c[-1] for c in curves) - x) / rows for x in (most, sum(c[budget] for c in curves))]
    return kept_of(t, order, share)


def kept_of(t, order, share):
    for (l, g, _), o, n in zip(lanes_of(t), order, share):
        yield 0, l, g, sorted(o[:n])


# ---- the tables ----------------------------------------------------------------------------------

def cells():
    """policy as typed, lanes, budget, act, sets"""
    check_schedules()
    for t in (A, B2, S):
        for B in (1, 4, 9, t.N - 2, t.N + 2):
            inside = B < t.N
            if inside:
                for o in ({}, {"scope": "layer"}, {"scope": "model"}, {"by_head": True},
                          {"by_head": True, "scope": "layer"}, {"sinks": 2, "recent": 3}, {"scope": "model", "sinks": 1}):
                    if B >= o.get("sinks", 0) + o.get("recent", 0):
                        typed = ",".join(f"{k}={v}" for k, v in o.items()).replace("by_head=True", "heads=query")
                        yield f"oracle:{typed}".rstrip(":"), t, B, "prefill", oracle(t, B, **o)
                yield "oracle-output", t, B, "prefill", output(t, B)
            yield "oracle-greedy", t, B, "own", greedy(t, B)
            yield "belady", t, B, "own", belady(t, B)
            yield "belady:theta=0.2", t, B, "own", belady(t, B, 0.2)
            yield "oracle-assign", t, B, "own", assign(t, B)
            yield "oracle-greedy:every=3", t, B, "own", greedy(t, B, 3)
            yield "belady:every=4", t, B, "own", belady(t, B, every=4)
            yield "oracle-assign:every=3", t, B, "own", assign(t, B, every=3)
            yield "oracle-assign:heads=query", t, B, "own", assign(t, B, True)
        for B in (2, 5, 11):
            # its curves are concave, so that hulls are the optimum
            yield "oracle/oracle-budget", t, B, "prefill", oracle_budget(
                t, B, lambda l, g: t.a[l, list(t.heads(g))][:, t.N:, :t.N].sum((0, 1)))


def values():
    """policy as typed, lanes, budget, column, from, to: hulls lose no less than the best budgets, and
    no more than even ones"""
    for t in (A, B2, S):
        for B in (2, 3, 5, 8, 11):
            yield ("l2norm/oracle-budget", t, B, "lost_mass_mean_frac",
                   *oracle_budget(t, B, lambda l, g: -np.linalg.norm(t.k[l, g, :t.N], axis=1), True))


if __name__ == "__main__":
    write(cells(), "oracles")
    write_values(values(), "oracle_budget")
