#!/usr/bin/env python3
"""replay_schedule.py - the best schedule of irreversible eviction of a lane, at every budget, by plain numpy.

    replay_schedule.py    holds it to exhaustive search on small lanes; exit status 1: something differs

Written from the problem, not from the C files: a key that is dropped at time c collected what the rows
before c gave it; behind drop c at most B keys are left; a key that left never returns. From budget B to
B + 1 one key fewer is dropped, and others may change places: the longest path between drop times, found
anew each time by Bellman and Ford's relaxation over all pairs.
"""
import itertools
import sys

import numpy as np


class Lane:
    """rows [heads M T] f64: attention of each response row to each token. Drops come every K tokens, in
    front of the row of that token (drop_first) or behind it, and at the end of the prompt."""

    def __init__(self, rows, n_prompt, every=1, drop_first=False):
        self.rows, self.N, self.K, self.first = rows, n_prompt, every, int(drop_first)
        self.M, self.T = rows.shape[1], rows.shape[2]
        self.C = -(-(self.M + self.first) // every)  # drop times 0..C-1; C: never
        self.block = (np.arange(self.M) + self.first) // every  # drops 1..block are over when the row attends
        self.home = np.concatenate([np.zeros(n_prompt, int), np.arange(self.M) // every + 1])  # first time it may go
        per = np.zeros((self.T, self.C))
        for m in range(self.M):
            per[:, self.block[m]] += rows[:, m].sum(0)
        self.value = np.concatenate([np.zeros((self.T, 1)), per.cumsum(1)], 1)  # [T C+1] collected when dropped at c
        for j in range(self.T):
            self.value[j, :self.home[j]] = -np.inf

    def solve(self):
        """columns [B][T]: when each key goes, at budgets 0, 1, ... until nothing is dropped."""
        at = self.home.copy()
        gain = np.full((self.C + 1, self.C + 1), -np.inf)
        changed, out = range(self.C), [at.copy()]
        while True:
            start = next((c for c in range(self.C) if (at == c).any()), None)
            if start is None:
                return out
            for c in changed:
                keys = np.flatnonzero(at == c)
                gain[c] = (self.value[keys] - self.value[keys, c][:, None]).max(0) if len(keys) else -np.inf
                gain[c, [0, c]] = -np.inf  # nobody goes back to the end of the prompt
            path = self.longest(gain, start)
            for a, b in zip(path, path[1:]):
                keys = np.flatnonzero(at == a)
                at[keys[np.argmax(self.value[keys, b] - self.value[keys, a])]] = b
            changed = [c for c in path if c < self.C]
            out.append(at.copy())

    def longest(self, gain, start):
        """Columns from `start` to C; there is no way round in which anything is gained."""
        best, back = np.full(self.C + 1, -np.inf), np.full(self.C + 1, -1)
        best[start] = 0
        for _ in range(self.C + 1):
            over = best[:, None] + gain
            better = over.max(0) > best
            if not better.any():
                break
            back[better], best = over.argmax(0)[better], np.maximum(best, over.max(0))
        path = [self.C]
        while path[-1] != start:
            path.append(back[path[-1]])
        return path[::-1]

    def lost(self, at):
        """[heads M] mass that rows lose under a schedule, no row more than 1."""
        sees = at[None] > self.block[:, None]
        return np.minimum(1.0, np.where(sees[None], 0, self.rows).sum(2))

    def kept(self, at):
        return self.value[np.arange(self.T), at].sum()

    def holds(self, at, budget):
        """Whether no more than `budget` keys are left behind any drop."""
        return all(((at > c) & (self.home <= c)).sum() <= budget for c in range(self.C))

    def exhaustive(self, budget):
        """The most that any schedule keeps."""
        choices = [range(h, self.C + 1) for h in self.home]
        every = (np.array(at) for at in itertools.product(*choices))
        return max(self.kept(at) for at in every if self.holds(at, budget))


def main():
    rng, wrong = np.random.default_rng(5), 0
    for n_prompt, m, every, first in ((3, 3, 1, False), (3, 3, 1, True), (4, 3, 2, False), (3, 4, 2, True), (1, 4, 1, False),
                                      (2, 4, 3, True), (5, 2, 1, False), (2, 3, 8, True)):
        rows = rng.integers(0, 6, (2, m, n_prompt + m)) / 16.0  # small integers: many ties
        rows *= np.arange(n_prompt + m) <= n_prompt + np.arange(m)[:, None]
        lane = Lane(rows, n_prompt, every, first)
        for budget, at in enumerate(lane.solve()):
            best = lane.exhaustive(budget)
            if not lane.holds(at, budget) or lane.kept(at) != best:
                wrong += 1
                print("DIFFERS N=%d M=%d every=%d drop_first=%s B=%d: keeps %g, the best %g" %
                      (n_prompt, m, every, first, budget, lane.kept(at), best))
    print("best schedules of small lanes: %d differences" % wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
