"""What replay_reference.py holds beside mass, recall and output error: metrics of policies-training-free.md 10,
from their formulae with numpy. A lane is (layer, heads, number); saw[m] the tokens that row m attended to."""
import math

import numpy as np


def outputs(a, v, seen):
    """Per row of one head: (relative L1, cosine, unnormalised, |o|) of the output over `seen` [M T]."""
    part = np.where(seen, a, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        full = a @ v / a.sum(1, keepdims=True)
        left = part @ v / part.sum(1, keepdims=True)
        masked = part @ v / a.sum(1, keepdims=True)
        norm = lambda x: np.sqrt((x ** 2).sum(1))
        l1 = np.abs(left - full).sum(1) / np.abs(full).sum(1)
        turn = 1 - (left * full).sum(1) / norm(left) / norm(full)
        return l1, turn, norm(masked - full) / norm(full), norm(full)


def support(row, share):
    """The fewest keys that hold a share of a row."""
    down = np.sort(row)[::-1].cumsum()
    return int(np.searchsorted(down, share * down[-1])) + 1


def overlap(saw, n_prompt):
    """Jaccard of consecutive sets, the rows' own tokens left out: [(both, any)]."""
    sets = [set(np.asarray(s).tolist()) - {n_prompt + m} for m, s in enumerate(saw)]
    return [(len(a & b), len(a | b)) for a, b in zip(sets, sets[1:])]


def tau_b(x, y):
    sx, sy = np.sign(x[:, None] - x[None]), np.sign(y[:, None] - y[None])
    below = math.sqrt((sx != 0).sum()) * math.sqrt((sy != 0).sum())
    return float((sx * sy).sum()) / below if below else math.nan


def ranks(x):
    return np.array([(x > v).sum() + ((x == v).sum() + 1) / 2 for v in x])


def rho(x, y):
    a, b = ranks(x), ranks(y)
    below = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean()) / below if below > 0 else math.nan


def ndcg(score, mass, k):
    """Equal scores share the mean discount of their places."""
    if k < 1 or len(score) < 2 or np.ptp(score) == 0 or np.ptp(mass) == 0:
        return math.nan
    discount = np.where(np.arange(len(score)) < k, 1 / np.log2(np.arange(len(score)) + 2.0), 0)
    got = sum(mass[score == s].sum() * discount[(score > s).sum():(score >= s).sum()].mean() for s in set(score.tolist()))
    best = (np.sort(mass)[::-1] * discount).sum()
    return got / best if best > 0 else math.nan
