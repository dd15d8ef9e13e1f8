#!/usr/bin/env python3
"""Writes NAME.csv for policies with a learned score: kept positions on the tensors of scored.h.

Written from the published formulae (docs beside each function), without a look at the C files;
plain loops in double, numpy only. Run: python3 make_scorers.py, in this folder. CI never runs it.
Of equal scores the lower position is kept; a cut between scores that nearly tie is refused.
"""
import csv
import math

import numpy as np

from make_policies import runs
from toy import Toy, mix

D, E = 4, 6
KEY, VALUE, HIDDEN, DECISION, QUERY, GAMMA, WEIGHTS = 0, 1, 2, 3, 4, 5, 8
NETWORK = [("in/weight", "LGKW"), ("in/bias", "LGK"), ("out/weight", "LGK"), ("out/bias", "LG")]
NUMBERS = [("decay/log_gamma", "LG"), ("sinks", ""), ("window", ""), ("decay_step", "")]
FORMS = {  # kind: K, O, tensors
    "kvpop-mlp": (6, 0, NETWORK + NUMBERS),
    "kvpop": (0, D // 2, [("query/weight", "LGOW"), ("query/bias", "LGO"), ("key/weight", "LGOW"), ("key/bias", "LGO"),
                          ("value/weight", "LGOW"), ("value/bias", "LGO"), ("gate_i/weight", "LGW"), ("gate_i/bias", "LG"),
                          ("gate_f/weight", "LGW"), ("gate_f/bias", "LG"), ("norm/gain", "LGO"), ("out/weight", "LGO"),
                          ("out/bias", "LG")] + NUMBERS + [("read_delay", "")]),
    "kvzap": (0, 0, [("weight", "LGE"), ("bias", "LG")]),
    "kvp-supervised": (5, 0, NETWORK),
    "locret": (7, 0, [("in/weight", "LKW"), ("in/bias", "LK"), ("out/weight", "LGK"), ("out/bias", "LG")]),
    "fast-kvzip": (3, 4, [("query/weight", "LHOE"), ("query/bias", "LHO"), ("query/gain", "LO"), ("key/weight", "LGOE"),
                          ("key/gain", "LO"), ("base", "LGKO"), ("logit/bias", "LH")]),
    "foresightkv": (4, 0, NETWORK),
}


def u64(x):
    return np.asarray(x, dtype=np.uint64)


class Scored(Toy):
    def __init__(self, name):
        super().__init__(name)
        self.seed = int(name.split("/")[0])
        G, H, T = range(self.G), range(self.H), range(self.T)

        def grid(kind, l, heads, width, scale=1):
            return np.array([[[self.v(kind, l, h, i, d) * scale for d in range(width)] for i in T] for h in heads],
                            dtype=np.float32).astype(float)
        self.k = [grid(KEY, l, G, D) for l in range(self.L)]
        self.val = [grid(VALUE, l, G, D) for l in range(self.L)]
        self.q = [grid(QUERY, l, H, D) for l in range(self.L)]
        self.hidden = [grid(HIDDEN, l, [0], E)[0] for l in range(self.L)]
        self.decision = [grid(DECISION, l, G, 1, 3)[:, :, 0] for l in range(self.L)]
        self.gamma = [[float(np.float32(0.95 + self.v(GAMMA, l, g, 0, 0) / 50)) for g in G] for l in range(self.L)]

    def v(self, kind, l, h, i, d):
        key = ((self.seed * 32 + kind) * 64 + l) * 64 + h
        return (int(mix(u64((key * 4096 + i) * 4096 + d))) % 2001 - 1000) / 1000

    def weights(self, kind):
        K, O, lines = FORMS[kind]
        W = {"locret": (self.H + 2 * self.G) * D, "kvp-supervised": 2 * D + 1, "foresightkv": 2 * D + 8 * self.R}.get(kind, 2 * D)
        size = {"L": self.L, "H": self.H, "G": self.G, "E": E, "K": K, "O": O, "W": W}
        form, out = list(FORMS).index(kind), {}
        for at, (name, axes) in enumerate(lines):
            shape = [size[a] for a in axes]
            last = shape[-1] if shape else 1
            x = np.zeros(int(np.prod(shape)) if shape else 1)
            for n in range(len(x)):
                v = self.v(WEIGHTS + form, at, 0, n // 4096, n % 4096)
                if not axes:
                    x[n] = {"sinks": 2, "window": 5, "decay_step": 1 if self.seed % 2 else 4,
                            "read_delay": 0 if self.seed % 3 == 0 else 5}[name]
                elif "gain" in name:
                    x[n] = 1 + v / 4
                elif "gamma" in name:
                    x[n] = -(2 + v) / 50
                else:
                    x[n] = v * 2 / math.sqrt(last)
            out[name] = x.astype(np.float32).astype(float).reshape(shape)
        return out


# ---- networks -----------------------------------------------------------------------------------

def silu(u):
    return u / (1 + np.exp(-u))


def gelu(u):
    return np.array([0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in u])


def network(w, at, x, unit, shared=False):
    """at = (layer, kv head)."""
    first = at[0] if shared else at
    return float(w["out/weight"][at] @ unit(w["in/weight"][first] @ x + w["in/bias"][first]) + w["out/bias"][at])


def best(score, k):
    """The k largest of {position: score}, of equals the lowest; refuses cuts that rounding could move."""
    order = sorted(score, key=lambda p: (-score[p], p))
    if 0 < k < len(order):
        a, b = score[order[k - 1]], score[order[k]]
        assert a - b > 1e-5 * (1 + abs(a)), "near tie: take another seed"
    return order[:max(k, 0)]


def reaching(score, threshold):
    """Equal is kept; nearly equal could be moved across by rounding."""
    assert all(s == threshold or abs(s - threshold) > 1e-5 for s in score.values()), "near the threshold: take another seed"
    return [p for p in score if score[p] >= threshold]


# ---- KVpop: arXiv 2607.05061v1, 4.1 and appendices B.3, E ----------------------------------------

def mlp_scores(t, l, g):
    w = t.weights("kvpop-mlp")
    return [network(w, (l, g), np.concatenate([t.k[l][g, i], t.val[l][g, i]]), silu) for i in range(t.T)]


def hedgehog(u):
    a, b = np.exp(u - u.max()), np.exp(-u - (-u).max())
    return np.concatenate([a / a.sum(), b / b.sum()])


def mlstm_scores(t, l, g):
    """Without the stabiliser: C and z as the paper prints them. NaN where the read-out is not due yet."""
    w = {k: (v[l, g] if v.ndim > 1 else v) for k, v in t.weights("kvpop").items()}
    delay, d_v = int(w["read_delay"]), D // 2
    C, z = np.zeros((D, d_v)), np.zeros(D)
    q, r = [], [math.nan] * t.T
    for i in range(t.T):
        x = np.concatenate([t.k[l][g, i], t.val[l][g, i]])
        q.append(hedgehog(w["query/weight"] @ x + w["query/bias"]))
        key, value = hedgehog(w["key/weight"] @ x + w["key/bias"]), w["value/weight"] @ x + w["value/bias"]
        gate = math.exp(w["gate_i/weight"] @ x + w["gate_i/bias"])
        forget = 1 / (1 + math.exp(-(w["gate_f/weight"] @ x + w["gate_f/bias"])))
        C, z = forget * C + gate * np.outer(key, value), forget * z + gate * key
        if i >= delay:
            y = (q[i - delay] @ C) / (q[i - delay] @ z)
            y = w["norm/gain"] * y / math.sqrt((y * y).mean() + 1e-6)
            r[i - delay] = float(w["out/weight"] @ silu(y) + w["out/bias"])
    return r


def kvpop(t, budget, score, log_gamma, S=2, w=5, step=1, decode=True):
    """Every query sees sinks, window and the best of the rest; it drops before the row attends."""
    for l in range(t.L):
        for g in range(t.G):
            r, lg = score(t, l, g), log_gamma(l, g)
            held = []
            for q in range(t.T if decode else t.N):
                held.append(q)
                if q < t.N - 1 and step == 1:
                    continue  # a heap: the end of the prompt says it all
                fixed = [p for p in held if p < S or q - p < w]
                rest = {p: r[p] + (q - p) // step * lg for p in held if p not in fixed}
                if len(held) > budget:
                    held = sorted(fixed + best(rest, budget - len(fixed)))
                if q < t.N - 1:
                    continue
                if decode:  # exactly min(q + 1, B)
                    assert len(held) == min(q + 1, budget)
                yield q + 1 - t.N, l, g, list(held)


# ---- thresholds ---------------------------------------------------------------------------------

def thresholded(t, threshold, score, window, sinks=0):
    """score(l, g)[p] of each token. Kept: the first `sinks`, the last `window` and what is above."""
    for l in range(t.L):
        for g in range(t.G):
            s, held = score(l, g), []
            for q in range(t.T):
                held.append(q)
                if q < t.N - 1:
                    continue
                old = {p: s[p] for p in held if q - p >= window and p >= sinks}
                held = sorted([p for p in held if p not in old] + reaching(old, threshold))
                yield q + 1 - t.N, l, g, list(held)


def marks(logit):
    """Below 0: the token goes. A logit of 0 marks nothing."""
    return -logit


def kvzap(t, l, g):
    w = t.weights("kvzap")
    return [float(w["weight"][l, g] @ t.hidden[l][i] + w["bias"][l, g]) for i in range(t.T)]


# ---- rankings of the prompt ---------------------------------------------------------------------

def one_shot(t, budget, score, first, last):
    for l in range(t.L):
        for g in range(t.G):
            fixed = [p for p in range(t.N) if p < first or p >= t.N - last]
            rest = {p: score(l, g, p) for p in range(t.N) if p not in fixed}
            yield 0, l, g, sorted(fixed + best(rest, budget - len(fixed)))


def kvp(t):
    """arXiv 2602.10238 as the trainer's form has it."""
    w = t.weights("kvp-supervised")
    return lambda l, g, p: network(w, (l, g), np.concatenate([t.k[l][g, p], t.val[l][g, p], [math.log2(t.N - p)]]), silu)


def locret(t):
    """arXiv 2410.01805: all queries, all keys, all values of the token."""
    w = t.weights("locret")
    return lambda l, g, p: network(w, (l, g), np.concatenate([t.q[l][:, p].ravel(), t.k[l][:, p].ravel(), t.val[l][:, p].ravel()]),
                                   silu, True)


def fast_kvzip(t, budget, first, last):
    """arXiv 2601.17668, Janghyun1230/FastKVzip 7d78b34 (inference): the best of all lanes together."""
    w, out = t.weights("fast-kvzip"), {}
    norm = lambda x, gain: gain * x / math.sqrt((x * x).mean() + 1e-6)
    fixed = [p for p in range(t.N) if p < first or p >= t.N - last]
    rest = {}
    for l in range(t.L):
        for g in range(t.G):
            for p in range(t.N):
                kk = norm(w["key/weight"][l, g] @ t.hidden[l][p], w["key/gain"][l])
                share = []
                for h in range(g * t.R, g * t.R + t.R):
                    q = norm(w["query/weight"][l, h] @ t.hidden[l][p] + w["query/bias"][l, h], w["query/gain"][l])
                    a = q @ kk / math.sqrt(len(q)) + w["logit/bias"][l, h]
                    share.append(1 / (1 + sum(math.exp(q @ b / math.sqrt(len(q)) - a) for b in w["base"][l, g])))
                if p not in fixed:
                    rest[(l, g, p)] = sum(share) / len(share)
    kept = best(rest, (budget - len(fixed)) * t.L * t.G)
    for l in range(t.L):
        for g in range(t.G):
            yield 0, l, g, sorted(fixed + [p for a, b, p in kept if (a, b) == (l, g)])


# ---- ForesightKV: arXiv 2602.03203, RUCAIBox/ForesightKV fdb541f ----------------------------------

def foresightkv(t, budget, block):
    w = t.weights("foresightkv")
    for l in range(t.L):
        for g in range(t.G):
            heads = range(g * t.R, g * t.R + t.R)
            held = list(range(t.N))
            rows = [{h: t.row(l, h, i, held) for h in heads} for i in range(t.N - block, t.N)]
            blocks = [{h: {p: [r[h][p] for r in rows] for p in held} for h in heads}]
            running = {h: {} for h in heads}
            for m in range(t.M + 1):
                if m > 0:
                    q = t.N + m - 1
                    held.append(q)
                    for h in heads:
                        for p, a in zip(held, t.row(l, h, q, held)):
                            running[h].setdefault(p, []).append(a)
                if m > 0 and m % block == 0:
                    blocks.append(running)
                    running = {h: {} for h in heads}
                if m % block == 0 and len(held) > budget:
                    q, drop = t.N + m - 1, {}
                    for p in held:
                        if q - p < block:
                            continue
                        x = list(t.k[l][g, p]) + list(t.val[l][g, p])
                        for h in heads:
                            a = np.array(blocks[-1][h][p])
                            sums = [sum(b[h].get(p, [])) for b in blocks]
                            decayed = 0
                            for s in sums:
                                decayed = 0.9 * decayed + s
                            x += [a.max(), a.min(), a.sum(), a[-16:].sum(), a[-8:].sum(), a[-32:].sum(), sum(sums), decayed]
                        drop[p] = network(w, (l, g), np.array(x), gelu)
                    new = [p for p in held if q - p < block]
                    held = sorted(new + best({p: -s for p, s in drop.items()}, budget - len(new)))
                yield m, l, g, list(held)


# ---- TRIM-KV: arXiv 2512.03324, ngocbh/trimkv 0456bc4 ---------------------------------------------

def trim_kv(t, budget, every, recent=0):
    for l in range(t.L):
        for g in range(t.G):
            beta = [1 / (1 + math.exp(-a)) for a in t.decision[l][g]]
            held = list(range(t.N))
            for m in range(t.M + 1):
                q = t.N + m - 1
                if m > 0:
                    held.append(q)
                if m % every == 0 and len(held) > budget:
                    fixed = [p for p in held if q - p < recent]
                    rest = {p: (q + 1 - p) * math.log(beta[p]) for p in held if p not in fixed}
                    held = sorted(fixed + best(rest, budget - len(fixed)))
                yield m, l, g, list(held)


# ---- the tables ---------------------------------------------------------------------------------

def cells():
    """policy, toy, params, budget or threshold, act, sets"""
    a, b, c = Scored("1/2/2/4/2/40/16"), Scored("2/2/2/4/2/40/16"), Scored("3/2/2/4/2/40/16")
    for t in (a, b):
        w, step = t.weights("kvpop-mlp"), 1 if t.seed % 2 else 4
        yield "kvpop-mlp", t, "", 13, "decode", kvpop(t, 13, mlp_scores, lambda l, g: w["decay/log_gamma"][l, g], step=step)
    yield "kvpop-mlp", a, "", 20, "prefill", kvpop(a, 20, mlp_scores, lambda l, g: a.weights("kvpop-mlp")["decay/log_gamma"][l, g],
                                                   decode=False)
    for t in (a, b, c):
        w, step = t.weights("kvpop"), 1 if t.seed % 2 else 4
        for B in (8, 14):
            yield "kvpop", t, "", B, "decode", kvpop(t, B, mlstm_scores, lambda l, g: w["decay/log_gamma"][l, g], step=step)
    yield ("kvpop", a, "from=decisions,sinks=1,window=3,decay_step=2", 9, "decode",
           kvpop(a, 9, lambda t, l, g: t.decision[l][g], lambda l, g: math.log(a.gamma[l][g]), 1, 3, 2))
    for th in (0.2, -0.4):
        yield "dms", a, "window=6", th, "decode", thresholded(a, th, lambda l, g: mlp_scores(a, l, g), 6, 2)
    yield "dms", a, "from=decisions,window=6", 0, "decode", thresholded(a, 0, lambda l, g: marks(a.decision[l][g]), 6)
    yield "kvzap", a, "window=7", 0.1, "decode", thresholded(a, 0.1, lambda l, g: kvzap(a, l, g), 7)
    yield "wg-kv", a, "window=7", 0.6, "decode", thresholded(a, 0.6, lambda l, g: 1 / (1 + np.exp(-a.decision[l][g])), 7)
    yield "kvp-supervised", a, "sinks=2,recent=3", 12, "prefill", one_shot(a, 12, kvp(a), 2, 3)
    yield "kvp-supervised", b, "", 24, "prefill", one_shot(b, 24, kvp(b), 4, 16)
    yield "locret", a, "", 12, "prefill", one_shot(a, 12, locret(a), 0, 4)
    yield "locret", b, "recent=2", 12, "prefill", one_shot(b, 12, locret(b), 0, 2)
    yield "fast-kvzip", a, "", 12, "prefill", fast_kvzip(a, 12, 4, 0)
    yield "fast-kvzip", b, "sinks=1,recent=0.1", 15, "prefill", fast_kvzip(b, 15, 1, 4)
    for t in (a, b):
        yield "foresightkv", t, "block=4", 10, "decode", foresightkv(t, 10, 4)
    yield "trim-kv", a, "", 12, "decode", trim_kv(a, 12, 128)
    yield "trim-kv", b, "recent=3", 12, "decode", trim_kv(b, 12, 128, 3)


def main():
    files = {}
    for policy, t, params, limit, act, sets in cells():
        rows = files.setdefault(policy, [])
        for m, l, lane, kept in sets:
            if m in (0, 1, t.M // 2, t.M):
                rows.append([t.name, params, limit, act, m, l, lane, runs(kept)])
    for policy, rows in files.items():
        with open(f"{policy.replace('-', '_')}.csv", "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["toy", "params", "limit", "act", "tokens", "layer", "lane", "kept"])
            out.writerows(rows)
        print(policy, len(rows))


if __name__ == "__main__":
    main()
