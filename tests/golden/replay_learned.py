"""replay_learned.py - policies that look ahead or read learned weights, for replay_reference.py.

Probes lie in the trace (/probe/NAME), scorers in files of their own; formulae are those of the papers and of
the authors' code, by numpy in double. Rows of probes are made as attention rows are: the softmax over what is
seen of the stored halves, rounded to half.
"""
import math

import h5py
import numpy as np

from replay_reference import Policy, pool


class Probe:
    def __init__(self, group):
        self.kind, self.budget = str(group.attrs["kind"]), int(group.attrs["budget"])
        self.q, self.k = group["q"][:].astype(np.float32), group["k"][:].astype(np.float32)
        self.n = self.q.shape[2]
        self.segment = group["segment"][:] if "segment" in group else np.zeros(self.n, int)
        self.chunks = [x[:] for x in (group["chunk/begin"], group["chunk/end"], group["chunk/from"])] \
            if "chunk" in group else None
        self.rows = {}


def probes(path):
    """By kind and budget; budget 0 is the full cache."""
    with h5py.File(path, "r") as f:
        return {(p.kind, p.budget): p for p in map(Probe, f["probe"].values())} if "probe" in f else {}


def text_of(f, name):
    x = f.attrs[name]
    return x.decode() if isinstance(x, bytes) else str(x)


class Scorer:
    """A scorer file; tensors by name, layer ids of the model on the axis L."""

    def __init__(self, path):
        self.path, self.tensor = path, {}
        with h5py.File(path, "r") as f:
            self.kind = text_of(f, "kind")
            self.layer = [int(x) for x in f["layer/id"]]
            f.visititems(lambda n, d: self.tensor.update({n: d[()]}) if isinstance(d, h5py.Dataset) else None)

    def __call__(self, name, layer=None, g=None):
        x = np.asarray(self.tensor[name], float)
        return x if layer is None else x[self.layer.index(layer)] if g is None else x[self.layer.index(layer), g]


def probe_rows(t, p, l, h):
    """[P N] of a probe on the full cache, in one segment."""
    if (l, h) not in p.rows:
        out, g = np.zeros((p.n, t.N)), h // t.R
        k = np.concatenate([t.k[l, g, :t.N], p.k[l, g]])
        width = t.window[t.layer_id[l]]
        for i in range(p.n):
            first = max(0, t.N + i - width + 1) if width else 0
            z = np.float32(t.scale) * (k[first:t.N + i + 1] @ p.q[l, h, i])
            e = np.exp(z - z.max())
            out[i, first:] = (e / e.sum(dtype=np.float32)).astype(np.float16)[:t.N - first]
        p.rows[l, h] = out
    return p.rows[l, h]


class ExtraRows(Policy):
    """LookaheadKV (arXiv 2603.10899, algorithm 2): mean over rows, mean over the lane's heads, max pool 7."""
    def __init__(self, kind, width=7, reduce=np.mean, pool_first=False):
        self.kind, self.width, self.reduce, self.pool_first = kind, width, reduce, pool_first
        self.rests_on = "response" if kind is None else kind

    def rows(self, t, l, h):
        return t.response(l, h)[:, :t.N] if self.kind is None else probe_rows(t, t.probes[self.kind, 0], l, h)

    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        s = [self.rows(t, l, h).mean(0) for h in heads]
        if self.pool_first:
            s = [pool(x, self.width, "max") for x in s]
        s = self.reduce(s, axis=0)
        return s if self.pool_first else pool(s, self.width, "max"), np.zeros(len(slots), bool)


class SpecKV(Policy):
    """The last 33 prompt rows and the draft's, largest of all heads and rows, max pool 7; the 33 stay."""
    observes, rests_on = 33, "specdraft"

    def fits(self, budget, n=None):
        return n is None or n <= self.observes or budget > self.observes

    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        old, p = t.N - self.observes, t.probes["specdraft", 0]
        s = np.max([np.concatenate([[t.row(l, h, q)[:old] for q in range(old, t.N)],
                                    probe_rows(t, p, l, h)[:, :old]]).max(0) for h in heads], axis=0)
        return np.concatenate([pool(s, 7, "max"), np.zeros(self.observes)]), slots >= old


class LAQ(Policy):
    """noforit/Lookahead_Q-Cache 74612bd: softmax over the prompt of the last w2 prompt queries and the draft's, a
    triangle on the last R columns, sum over rows, max pool 7, the last w2 stay; a set for each query head."""
    by_head, exactness = True, "budget-exact"

    def __init__(self, w2, official=True):
        self.w2, self.official = w2, official

    def needs(self, t, budget):
        return ("draft", budget) in t.probes

    def protects(self, n):
        return min(self.w2, n)

    def score(self, t, lane, slots, state, budget):
        l, (h,), _ = lane
        p = t.probes["draft", budget]
        q = np.concatenate([[t.q[l, h, t.at[i]] for i in range(t.N - self.w2, t.N)], p.q[l, h]]) if self.w2 else p.q[l, h]
        R, k = len(q), t.k[l, h // t.R, :t.N].astype(float)
        z = t.scale * (q.astype(float) @ k.T)
        for r in range(R):
            if self.official:
                z[r, t.N - R + r + 1:] = -math.inf
            elif r < self.w2:
                z[r, t.N - self.w2 + r + 1:] = -math.inf
        e = np.exp(z - z.max(1, keepdims=True))
        s = (e / e.sum(1, keepdims=True)).sum(0)[:t.N - self.w2]
        return np.concatenate([pool(s, 7, "max"), np.zeros(self.w2)]), slots >= t.N - self.w2


class KVzip(Policy):
    """snu-mllab/KVzip 5d84729: while a chunk is repeated, its largest weight of any head and repeating row, in the
    softmax over prefix, chunk and the segment's own rows. The template's prefix stays."""
    rests_on = "repeat"

    def protects(self, n):
        return min(self.prefix, n)

    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        p, s = t.probes["repeat", 0], np.zeros(t.N)
        for r, (begin, end, first) in enumerate(zip(*p.chunks)):
            own = np.flatnonzero(p.segment == r)
            keys = sorted(set(range(self.prefix)) | set(range(begin, end)))
            at = [keys.index(j) for j in range(begin, end)]
            for h in heads:
                k = np.concatenate([t.k[l, h // t.R, keys], p.k[l, h // t.R, own]]).astype(float)
                for i in own[own >= first]:
                    z = t.scale * (k[:len(keys) + i - own[0] + 1] @ p.q[l, h, i].astype(float))
                    e = np.exp(z - z.max())
                    s[begin:end] = np.maximum(s[begin:end], (e / e.sum())[at])
        return s, slots < self.prefix


def silu(u):
    return u / (1 + np.exp(-u))


class KVpop(Policy):
    """arXiv 2607.05061: sinks, the last w, and of what has left the window the k best by r_t - t log gamma."""
    drop_first, exactness = True, "surrogate"
    scored = False  # scores are logarithms, up to a term that all tokens share

    def __init__(self, scorer):
        self.s = scorer
        self.sinks, self.w = int(scorer("sinks")), int(scorer("window"))
        self.r = {}

    def fits(self, budget, n=None):
        return budget > self.sinks + self.w

    def begin(self, t, lane):
        l, _, g = lane
        if (id(t), l, g) not in self.r:
            x = np.concatenate([t.k[l, g].astype(float), t.v[l, g]], axis=1)
            gamma = float(self.s("decay/log_gamma", t.layer_id[l], g))
            self.r[id(t), l, g] = self.find(x, t.layer_id[l], g) - np.arange(t.T) * gamma
        return self.r[id(t), l, g]

    def score(self, t, lane, slots, state, budget):
        return state[slots], (slots < self.sinks) | (slots > slots[-1] - self.w)


class KVpopMLP(KVpop):
    def find(self, x, l, g):
        s = self.s
        hidden = silu(x @ s("in/weight", l, g).T + s("in/bias", l, g))
        return hidden @ s("out/weight", l, g) + s("out/bias", l, g)


class KVpopMemory(KVpop):
    """The mLSTM: read for a token when it leaves the window."""
    def find(self, x, l, g):
        def project(n):
            return x @ self.s(n + "/weight", l, g).T + self.s(n + "/bias", l, g)

        def phi(u):
            a, b = np.exp(u), np.exp(-u)
            return np.concatenate([a / a.sum(1, keepdims=True), b / b.sum(1, keepdims=True)], axis=1)
        q, k, v = phi(project("query")), phi(project("key")), project("value")
        i, f = np.exp(project("gate_i")), 1 / (1 + np.exp(-project("gate_f")))
        delay, T = int(self.s("read_delay")), len(x)
        C, z, r = np.zeros((k.shape[1], v.shape[1])), np.zeros(k.shape[1]), np.zeros(T)
        for now in range(T):
            C = f[now] * C + i[now] * np.outer(k[now], v[now])
            z = f[now] * z + i[now] * k[now]
            if now < delay:
                continue
            y = (q[now - delay] @ C) / (q[now - delay] @ z)
            y = y / math.sqrt((y * y).mean() + 1e-6) * self.s("norm/gain", l, g)
            r[now - delay] = self.s("out/weight", l, g) @ silu(y) + self.s("out/bias", l, g)
        return r


def policies(t, scorers):
    """Those that this trace and these files answer, in the form of replay_reference.policies()."""
    kinds = {k for k, _ in t.probes}
    for kind, name in (("lookaheadkv", "lookaheadkv"), ("judgeq", "judgeq"), ("suffix", "suffix"), (None, "lookahead-oracle")):
        if kind and kind not in kinds or not kinds:
            continue
        yield name, "own", ExtraRows(kind), False, 1
        if name in ("lookaheadkv", "lookahead-oracle"):
            yield name + ":pool=0", "own", ExtraRows(kind, 1), False, 1
            yield name + ":reduce=max", "own", ExtraRows(kind, 7, np.max), False, 1
            yield name + ":order=pool-reduce", "own", ExtraRows(kind, 7, np.mean, True), False, 1
    if "specdraft" in kinds:
        yield "speckv", "own", SpecKV(), False, 1
    if "draft" in kinds:
        yield "laq", "own", LAQ(0), False, 1
        yield "laq:mask=causal", "own", LAQ(0, False), False, 1
        yield "laq-plus", "own", LAQ(8), False, 1
    if "repeat" in kinds:
        p = KVzip()
        p.prefix = t.prefix
        yield "kvzip", "own", p, False, 1
    for s in scorers:
        made = {"kvpop-mlp": KVpopMLP, "kvpop": KVpopMemory}.get(s.kind)
        if made:
            yield "%s:weights=%s" % (s.kind, s.path), "own", made(s), True, 1
            yield "%s:weights=%s" % (s.kind, s.path), "prefill", made(s), False, 1
