"""The trace of lanes.h, in numpy. Run by make_decode.py and make_geometry.py only."""
import csv
import os

import numpy as np

from make_policies import runs
from toy import mix

Q, K, V, WO, FILTER, MEAN, MAGNITUDE = range(7)


def f16(x):
    return np.asarray(x).astype(np.float32).astype(np.float16).astype(float)


def f32(x):
    return np.asarray(x).astype(np.float32).astype(float)


def softmax(z):
    """A row that sees nothing is 0."""
    most = z.max(-1, keepdims=True)
    w = np.exp(z - np.where(np.isinf(most), 0, most))
    return w / np.maximum(w.sum(-1, keepdims=True), 1e-300)


class Lanes:
    """q [L H T D], k, v [L G T D]; z [L H T T] scaled logits, -inf where not seen; exact, its
    softmax; a, the same as half precision holds it, which is what a trace has."""

    def __init__(self, name):
        self.name = name
        self.seed, self.L, self.model, self.H, self.G, self.N, self.M, self.D, *window = map(int, name.split("/"))
        self.window = window[0] if window else 0
        self.R, self.T = self.H // self.G, self.N + self.M
        self.layer_id = list(range(self.model - self.L, self.model))
        L, H, G, T, D = self.L, self.H, self.G, self.T, self.D
        self.q, self.k, self.v = self.x(Q, L, H, T, D), self.x(K, L, G, T, D), self.x(V, L, G, T, D)
        self.wo = self.x(WO, L, H, D, H * D)
        self.freq = 10000.0 ** (-2.0 * np.arange(D // 2) / D)
        key = np.repeat(self.k, self.R, axis=1)
        self.z = np.einsum("lhqd,lhkd->lhqk", self.q, key) / np.sqrt(D)
        self.z[:, :, np.triu(np.ones((T, T), bool), 1)] = -np.inf
        if self.window:  # of the odd layers, the query itself included
            self.z[1::2, :, np.tril(np.ones((T, T), bool), -self.window)] = -np.inf
        self.exact = softmax(self.z)
        self.a = f16(self.exact)
        self.columns = f32(self.exact[:, :, :self.N].sum(2))[..., :self.N]

    def x(self, kind, *shape):
        i = np.arange(np.prod(shape), dtype=np.uint64)
        with np.errstate(over="ignore"):
            r = mix(np.uint64((self.seed * 16 + kind) << 32) + i) % np.uint64(4001)
        return ((r.astype(float) - 2000) / 1024).reshape(shape)

    def turned(self, x, position):
        """Pairs (i, i + D/2) of [.. T D] turned by those positions [T]."""
        angle = np.asarray(position, float)[:, None] * self.freq
        c, s, half = np.cos(angle), np.sin(angle), self.D // 2
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    def before_rope(self, x):
        return self.turned(x, -np.arange(x.shape[-2]))

    def heads(self, g):
        return range(g * self.R, (g + 1) * self.R)

    def row(self, l, h, i, pos):
        """Attention of row i over the slots that are left; the stored halves where all are."""
        a = self.a[l, h, i, pos]
        return a if len(pos) == i + 1 or a.sum() == 0 else a / a.sum()


def best(score, k, tie=1e-6):
    """Indices of the k largest, of equals the lowest, rising; a cut between scores that rounding
    could swap is refused."""
    score = np.asarray(score, float)
    assert not np.isnan(score).any()
    order = sorted(range(len(score)), key=lambda s: (-score[s], s))
    if 0 < k < len(order):
        a, b = score[order[k - 1]], score[order[k]]
        assert a == b or np.isinf(a) or abs(a - b) > tie * max(abs(a), abs(b)), (k, a, b, "near tie: another seed")
    return sorted(order[:max(k, 0)])


def write(cells, folder, whole=()):
    """cells: policy text, lanes, budget, act, sets of (tokens, layer, lane, kept). A line is a lane: the
    set after `from` tokens, then after each further one what has left; of the policies in `whole` the
    whole set each time."""
    files = {}
    for use, t, budget, act, sets in cells:
        name = use.split(":")[0]
        found, rows = {}, files.setdefault(name.replace("/", "_"), [])
        for m, l, lane, kept in sets:
            assert list(kept) == sorted(set(kept)), (use, kept)
            found.setdefault((l, lane), []).append((m, kept))
        assert found, use
        for (l, lane), steps in sorted(found.items()):
            text, first = [], steps[0][0]
            for i, (m, kept) in enumerate(steps):
                assert m == first + i
                if i and name not in whole:
                    came = set(steps[i - 1][1]) | {t.N + m - 1}
                    assert set(kept) <= came
                    text.append(runs(sorted(came - set(kept))))
                else:
                    text.append(runs(kept))
            rows.append([t.name, use, budget, act, l, lane, first, ";".join(text)])
    os.makedirs(folder, exist_ok=True)
    for name, rows in files.items():
        with open(f"{folder}/{name.replace('-', '_')}.csv", "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["lanes", "use", "budget", "act", "layer", "lane", "from", "kept"])
            out.writerows(rows)
        print(name, len(rows), "lines")


def write_values(cells, name):
    """cells: policy text, lanes, budget, column of cells.csv, from, to."""
    os.makedirs("values", exist_ok=True)
    with open(f"values/{name}.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["lanes", "use", "budget", "column", "from", "to"])
        n = 0
        for use, t, budget, column, low, high in cells:
            out.writerow([t.name, use, budget, column, f"{low:.9g}", f"{high:.9g}"])
            n += 1
    print(name, n, "values")
