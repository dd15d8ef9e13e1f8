#!/usr/bin/env python3
"""replay_reference.py - what `kvt replay` must find on a trace, by plain numpy.

    replay_reference.py KVT TRACE.h5 [-b LIST] [-p NAME,...] [-v]    exit status 1: something differs

A second opinion, written from the definitions (the design's sections on traces and replay, and the
papers' formulae named at each policy) and not from the C files. It opens the trace with h5py, decides
for every lane and step by loops, and compares sets, masses and metrics with the rows of `--json` and
with the arrays of the result files. Every difference is one line with the cell, the lane and both values.

Sets must be equal, but scores that differ by less than TIE may change places; of scores that are
equal the lower position is kept. After a difference the comparison goes on from kvt's set, so that
one cause is one line.
"""
import argparse
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

TIE = 1e-6      # relative: scores nearer than this may change places
MASS = 1e-6     # absolute: masses, recalls, KL
OUTPUT = 1e-4   # output error
FLIP = 5e-4     # relative step of a half: where rows are computed here, a weight may round otherwise


# ---- the trace ----------------------------------------------------------------------------------

class Trace:
    """Rows are f64 copies of the halves. l: layer of the trace, h: query head, g: kv head."""

    def __init__(self, path):
        with h5py.File(path, "r") as f:
            self.N = int(f["token"].attrs["n_prompt"])
            self.M = int(f["token"].attrs["n_response"])
            self.T = self.N + self.M
            self.scale = float(f["model"].attrs["attn_scale"])
            self.model_layers = int(f["model"].attrs["n_layer"])
            self.window = [int(x) for x in f["model"].attrs["window"]]
            self.layer_id = [int(x) for x in f["layer/id"]]
            self.k = f["kv/k"][:].astype(np.float32)
            self.v = f["kv/v"][:].astype(np.float64)
            self.q = f["query/q"][:].astype(np.float32)
            self.query_pos = [int(x) for x in f["query/pos"]]
            self.col_sum = f["attn/col_sum"][:].astype(np.float64)
            self.future_mean = f["future/mean"][:].astype(np.float64) if self.M else None
            self.has_rows = "attn/rows" in f
            stored = f["attn/rows"][:].astype(np.float64) if self.has_rows else None
        self.L, self.H, self.Q, self.D = self.q.shape
        self.G = self.k.shape[1]
        self.R = self.H // self.G
        self.rows = stored if self.has_rows else self.compute_rows()
        self.at = {p: i for i, p in enumerate(self.query_pos)}

    def compute_rows(self):
        """The softmax over the visible keys of scale x q.k, from the halves, in f32, by its own sum,
        rounded to half."""
        rows = np.zeros((self.L, self.H, self.Q, self.T))
        for l in range(self.L):
            width = self.window[self.layer_id[l]]
            for h in range(self.H):
                for i, p in enumerate(self.query_pos):
                    first = max(0, p - width + 1) if width else 0
                    z = np.float32(self.scale) * (self.k[l, h // self.R, first:p + 1] @ self.q[l, h, i])
                    e = np.exp(z - z.max())
                    rows[l, h, i, first:p + 1] = (e / e.sum(dtype=np.float32)).astype(np.float16)
        return rows

    def row(self, l, h, pos):
        """Attention of the query at this position on every token."""
        return self.rows[l, h, self.at[pos]]

    def response(self, l, h):
        """[M T] the response rows of a head."""
        first = self.at[self.N] if self.M else self.Q
        return self.rows[l, h, first:first + self.M]


# ---- small rules ---------------------------------------------------------------------------------

def best(score, k):
    """Which k are largest; of equals the lowest."""
    order = sorted(range(len(score)), key=lambda s: (-score[s], s))
    return set(order[:max(0, k)])


def pool(s, width, kind):
    """Same length; the maximum nearby, or the mean nearby that counts what is outside as 0."""
    r, out = width // 2, []
    for i in range(len(s)):
        near = s[max(0, i - r):i + r + 1]
        out.append(max(near) if kind == "max" else sum(near) / width)
    return np.array(out)


def quantile(x, p):
    """Type 7. Infinite values stay what they are."""
    x = sorted(x)
    if not x:
        return math.nan
    i = p * (len(x) - 1)
    a = int(math.floor(i))
    b = min(a + 1, len(x) - 1)
    return x[a] if x[a] == x[b] else x[a] + (i - a) * (x[b] - x[a])


def mean(x):
    """Of what is defined; NaN where nothing is."""
    x = [v for v in x if not math.isnan(v)]
    return sum(x) / len(x) if x else math.nan


# ---- policies ------------------------------------------------------------------------------------
# score(trace, lane, slots, state, now): (score, pinned) of each slot. A lane is (l, heads, lane index).

class Policy:
    inside = False       # acts in decode, too
    drop_first = False   # in decode it drops before the row attends
    by_head = False      # a lane for each query head
    observes = 0         # observation window: case C005
    scored = True        # its scores are weights, so that score KL is defined

    def protects(self, n):
        """Of n tokens."""
        return 0

    def fits(self, budget):
        return True

    def begin(self, t, lane):
        return None

    def learn(self, t, lane, slots, state, m):
        """Row m of the response, over the slots."""


class Full(Policy):
    scored = False


class Window(Policy):
    """The newest tokens: StreamingLLM without sinks. Beltagy et al. 2020."""
    scored, drop_first = False, True

    def score(self, t, lane, slots, state, budget):
        return slots.astype(float), np.zeros(len(slots), bool)


class Streaming(Policy):
    """[0, S) and the newest. Xiao et al. 2023; it drops before the row attends."""
    scored, drop_first = False, True

    def protects(self, n):
        return min(4, n)

    def score(self, t, lane, slots, state, budget):
        return np.where(slots < 4, np.inf, slots.astype(float)), slots < 4


class H2O(Policy):
    """Accumulated attention, half of the budget for the newest. Zhang et al. 2023, real-drop; mean
    over the lane's query heads. Decode rows are renormalised over what is left."""
    def fits(self, budget):
        return int(0.5 * budget) > 0  # C080: half of one slot is no slot

    def begin(self, t, lane):
        l, heads, _ = lane
        return {j: sum(t.col_sum[l, h, j] for h in heads) / len(heads) for j in range(t.N)}

    def learn(self, t, lane, slots, state, m):
        l, heads, _ = lane
        for h in heads:
            a = t.response(l, h)[m][slots]
            a = a / a.sum()
            for j, x in zip(slots, a):
                state[j] = state.get(j, 0.0) + x / len(heads)

    def score(self, t, lane, slots, state, budget):
        recent = int(0.5 * budget)
        pinned = np.arange(len(slots)) >= len(slots) - recent
        return np.array([state[j] for j in slots]), pinned


class H2OPrompt(Policy):
    """KVCache-Factory c97f9d7: column sums of all prompt rows, the last 8 kept, by query head."""
    by_head = True

    def protects(self, n):
        return min(8, n)

    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        return t.col_sum[l, heads[0], :t.N].copy(), slots >= t.N - 8


class Tova(Policy):
    """What the newest query looks at: mean over all query heads of the layer, one set a layer. Oren
    et al. 2024; the newest token competes."""
    def score(self, t, lane, slots, state, budget):
        l = lane[0]
        w = np.zeros(len(slots))
        for h in range(t.H):
            a = t.row(l, h, slots[-1])[slots]
            w += a / a.sum() / t.H
        return w, np.zeros(len(slots), bool)


class SnapKV(Policy):
    """Votes of the last W prompt queries for the keys in front of them, pooled. Li et al. 2024."""
    def __init__(self, window, width, kind, order, by_head=False):
        self.observes, self.width, self.kind, self.order = window, width, kind, order
        self.by_head = by_head

    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        old = t.N - self.observes
        votes = [sum(t.row(l, h, p)[:old] for p in range(old, t.N)) for h in heads]
        if self.order == "sum":
            s = pool(sum(votes), self.width, self.kind)
        else:
            s = sum(pool(v, self.width, self.kind) for v in votes) / len(votes)
        return np.concatenate([s, np.zeros(self.observes)]), slots >= old


class Oracle(Policy):
    """Top B by remaining mass, or by the largest attention of any row and head."""
    def __init__(self, take):
        self.take = take

    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        rows = np.concatenate([t.response(l, h)[:, :t.N] for h in heads])
        return self.take(rows), np.zeros(len(slots), bool)


def policies():
    """name as typed, --act, policy, inside."""
    snap = dict(paper=SnapKV(32, 7, "max", "sum"), kvpress=SnapKV(64, 5, "mean", "pool"),
                official=SnapKV(64, 5, "mean", "sum", True))
    yield "full", "own", Full(), False
    for act, inside in (("own", True), ("prefill", False)):
        yield "window", act, Window(), inside
        yield "streaming", act, Streaming(), inside
        yield "h2o", act, H2O(), inside
        yield "tova", act, Tova(), inside
        yield "oracle-step", act, None, inside
    yield "h2o:compat=kvcf", "own", H2OPrompt(), False
    yield "snapkv", "own", snap["paper"], False
    yield "snapkv:compat=kvpress", "own", snap["kvpress"], False
    yield "snapkv:compat=official", "own", snap["official"], False
    yield "pyramidkv", "own", SnapKV(8, 7, "max", "sum"), False
    yield "oracle", "own", Oracle(lambda rows: rows.sum(0)), False
    yield "oracle-max", "own", Oracle(lambda rows: rows.max(0)), False


def tokens_of(text, n):
    """Slots: tokens, or a share of the prompt, rounded down, at least 1."""
    if text.endswith("%"):
        digits = text[:-1].partition(".")
        num, den = int(digits[0] + digits[2]), 100 * 10 ** len(digits[2])
        return max(1, n * num // den)
    return int(text)


# ---- kvt's answer --------------------------------------------------------------------------------

def run_kvt(kvt, trace, names, act, budgets, out):
    done = subprocess.run([kvt, "replay", trace, "-p", ",".join(names), "-b", ",".join(budgets), "--act", act,
                           "--no-controls", "--json", "-q", "-o", out], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit("kvt replay: status %d: %s" % (done.returncode, done.stderr))
    rows = json.loads(done.stdout)["rows"]
    found = {}
    for path in glob.glob(os.path.join(out, "*", "*.kvt-results.h5")):
        with h5py.File(path, "r") as f:
            one = {n: f[n][:] for n in ("keep/evict_step", "keep/cut", "score/rank", "score/pinned", "row/lost",
                                        "row/kept") if n in f}
            lanes = f["lanes"][:]
            for c, cell in enumerate(f["cells"][:]):
                a = one.get("keep/evict_step")
                found[cell["run_id"].decode()] = dict(
                    evict_step=a[c] if a is not None else None,
                    cut=one["keep/cut"][c] if "keep/cut" in one else None,
                    rank=one.get("score/rank"), pinned=one.get("score/pinned"),
                    lost=one["row/lost"][c] if "row/lost" in one else None,
                    saw=one["row/kept"][c] if "row/kept" in one else None,
                    lanes=[x for x in lanes if x["run_id"] == cell["run_id"]])
    return rows, found


class Cell:
    """One row of --json with its arrays."""
    def __init__(self, row, arrays, n_lane):
        self.row, self.arrays, self.n_lane = row, arrays, n_lane

    def evict_step(self, t, l, a):
        x = self.arrays
        if x["evict_step"] is not None:
            return x["evict_step"][l, a]
        gone = np.full(t.T, -1)
        gone[:t.N][x["rank"][l, a] >= x["cut"][l, a]] = 0
        return gone

    def lane(self, l, a):
        return self.arrays["lanes"][l * self.n_lane + a]


# ---- comparing -----------------------------------------------------------------------------------

class Report:
    def __init__(self, verbose=False):
        self.n, self.checks, self.ties, self.cells, self.verbose = 0, 0, 0, 0, verbose
        self.seen = {}

    def differ(self, where, what, mine, theirs):
        self.n += 1
        key = (where.split(" b=")[0], what.split(" [")[0])
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] <= 6 or self.verbose:
            print("DIFFERS %s: %s: expected %s, kvt %s" % (where, what, mine, theirs))

    def number(self, where, what, mine, theirs, tolerance):
        self.checks += 1
        mine = math.nan if mine is None else float(mine)
        theirs = math.nan if theirs is None else float(theirs)
        if math.isinf(mine):  # JSON has none: null, and counted elsewhere
            mine = math.nan
        if math.isnan(mine) and math.isnan(theirs):
            return
        if not abs(mine - theirs) <= tolerance * max(1.0, abs(mine)):
            self.differ(where, what, "%.9g" % mine, "%.9g" % theirs)

    def choice(self, where, slots, score, pinned, mine, theirs, tie):
        """Both are sets of positions."""
        self.checks += 1
        if mine == theirs:
            return
        of = dict(zip(slots, score))
        pin = {j for j, p in zip(slots, pinned) if p}
        missed, extra = sorted(mine - theirs), sorted(theirs - mine)
        near = len(missed) == len(extra) and not (pin & set(missed))
        near = near and all(0 < abs(of[a] - of[b]) <= tie * max(abs(of[a]), abs(of[b]))
                            for a in missed for b in extra)
        if near:
            self.ties += 1
            return
        self.differ(where, "kept set", "%s (scores %s)" % (missed, ["%.9g" % of[j] for j in missed]),
                    "%s (scores %s)" % (extra, ["%.9g" % of.get(j, math.nan) for j in extra]))


def follow(t, policy, inside, budget, cell, lane, where, report, tie):
    """Decides step by step, each time from kvt's own set of the step before. Returns what each row saw
    [M], the set after each step, pinned sets, (slots, score, pinned) of step 0, and the times it acted."""
    l, _, a = lane
    gone = cell.evict_step(t, l, a)
    latest = policy.observes and t.N <= policy.observes  # C005: the latest are kept
    state = policy.begin(t, lane)
    out = dict(saw=[], held=[], pins=[], first=None, acts=0)

    def left(slots, step):
        return {j for j in slots if gone[j] < 0 or gone[j] > step}

    def decide(slots, step):
        """What should stay, and (score, pinned) of the slots."""
        if len(slots) <= budget:
            return set(slots), np.zeros(len(slots)), np.zeros(len(slots), bool)
        out["acts"] += 1
        if latest:
            return set(slots[-budget:]), slots.astype(float), np.zeros(len(slots), bool)
        score, pinned = policy.score(t, lane, slots, state, budget)
        if step == 0 and not out["first"]:
            out["first"] = (slots, score, pinned)
        return {slots[s] for s in best(np.where(pinned, np.inf, score), budget)}, score, pinned

    def check(slots, step, kept, score, pinned):
        theirs = left(slots, step)
        report.choice("%s layer %d lane %d step %d" % (where, l, a, step), slots, score, pinned, kept, theirs, tie)
        out["held"].append(theirs)
        out["pins"].append({j for j, p in zip(slots, pinned) if p})
        return np.array(sorted(theirs), int)

    slots = np.arange(t.N)
    kept, score, pinned = decide(slots, 0)
    out["count"] = len(kept)
    if inside and policy.drop_first and t.M:
        # The token of row 0 comes, too, before anything attends: both drops are step 0.
        slots = np.append(sorted(kept), t.N).astype(int)
        for m in range(t.M):
            kept, score, pinned = decide(slots, m)
            everything = np.arange(t.N + 1) if m == 0 else slots
            full = np.zeros(len(everything))
            slots = check(everything, m, kept, full if m == 0 else score, full.astype(bool) if m == 0 else pinned)
            if m == 0:
                out["pins"][-1] = {j for j, p in zip(sorted(kept | {t.N}), pinned) if p}
            out["saw"].append(slots)
            slots = np.append(slots, t.N + m + 1)
        out["end"] = slots[:-1]
        return out
    slots = check(slots, 0, kept, score, pinned)
    for m in range(t.M):
        slots = np.append(slots, t.N + m)
        out["saw"].append(slots)
        if inside:
            policy.learn(t, lane, slots, state, m)
            slots = check(slots, m + 1, *decide(slots, m + 1))
    out["end"] = slots
    return out


# ---- measures ------------------------------------------------------------------------------------

def remaining(t, l, heads, step):
    """R_j(step) of every token, summed over the lane's heads (the mean has the same order)."""
    return sum(t.response(l, h)[step:].sum(0) for h in heads)


def recalls(t, lane, budget, held, pins, step, arrived):
    """(of the top budget, the same without what is pinned, of the top 32)."""
    l, heads, _ = lane
    r = remaining(t, l, heads, step)[:arrived]
    order = sorted(range(arrived), key=lambda j: (-r[j], j))
    k = min(budget, arrived)
    of = lambda top: len(held & set(top)) / len(top) if top else math.nan
    free = [j for j in order if j not in pins][:max(0, k - len(pins))]
    return of(order[:k]), of(free), of(order[:32])


def rows_of(t, lane, saw):
    """For each head and row: lost mass and output error of what the row saw."""
    l, heads, _ = lane
    lost, error = [], []
    for h in heads:
        for m, slots in enumerate(saw):
            a = t.response(l, h)[m]
            seen = np.zeros(t.T, bool)
            seen[slots] = True
            seen[t.N + m + 1:] = True  # not there yet, and 0
            lost.append(min(1.0, a[~seen].sum()))
            full = a @ t.v[l, h // t.R] / a.sum()
            part = a * seen
            if part.sum() == 0 or np.linalg.norm(full) == 0:
                error.append(math.nan)
            else:
                error.append(np.linalg.norm(part @ t.v[l, h // t.R] / part.sum() - full) / np.linalg.norm(full))
    return np.array(lost).reshape(len(heads), -1), np.array(error).reshape(len(heads), -1)


def score_kl(t, lane, first):
    """KL of group-mean future attention to the score, over what is scored and not pinned."""
    l, heads, _ = lane
    slots, score, pinned = first
    free = ~pinned
    p = sum(t.future_mean[l, h] for h in heads)[slots][free]
    s = score[free]
    if not len(s) or (s < 0).any() or s.sum() <= 0 or p.sum() <= 0:
        return math.nan
    p, s = p / p.sum(), s / s.sum()
    return sum(x * (math.log(x) - (math.log(y) if y > 0 and math.log(y) > -30 else -30.0)) for x, y in zip(p, s) if x > 0)


def oracle_step(t, lane, budget, inside):
    """What each row reads: the best B + 1 of all, or the best B of the prompt and all since."""
    l, heads, _ = lane
    saw = []
    for m in range(t.M):
        a = sum(t.response(l, h)[m] for h in heads)
        if inside:
            saw.append(np.array(sorted(best(a[:t.N + m + 1], budget + 1)), int))
        else:
            saw.append(np.array(sorted(best(a[:t.N], budget) | set(range(t.N, t.N + m + 1))), int))
    return saw


def lost_without(t, lane, kept):
    """Mean lost mass of a lane's rows where only these prompt tokens were kept."""
    l, heads, _ = lane
    gone = np.ones(t.T, bool)
    gone[list(kept)] = False
    gone[t.N:] = False
    return np.mean([np.minimum(1.0, t.response(l, h)[:, gone].sum(1)).mean() for h in heads])


def best_lost(t, lanes, counts):
    """Lost mass (mean over rows, heads, layers) of the oracle with these counts, of the one with the best
    counts of the same total, and by lane of the first."""
    mass = [remaining(t, l, heads, 0)[:t.N] / len(heads) for l, heads, _ in lanes]
    same = [lost_without(t, lane, best(x, c)) for lane, x, c in zip(lanes, mass, counts)]
    pooled = best(np.concatenate(mass), sum(counts))
    free = [lost_without(t, lane, {j for j in range(t.N) if i * t.N + j in pooled}) for i, lane in enumerate(lanes)]
    return np.mean(same), np.mean(free), same


# ---- one cell ------------------------------------------------------------------------------------

def expect_skip(t, policy, budget, inside):
    """The rule itself is impossible, or protects more than the budget holds. C005 comes first."""
    if policy is None:
        return False
    n = t.T if inside else t.N
    if budget >= n:
        return False
    if not policy.fits(budget):
        return True
    if policy.observes:
        return t.N > policy.observes > budget
    return policy.protects(n) > budget


def check_cell(t, name, policy, inside, cell, report, where):
    row = cell.row
    A = t.H if policy and policy.by_head else t.G
    lanes = [(l, [a] if A == t.H else list(range(a * t.R, (a + 1) * t.R)), a) for l in range(t.L) for a in range(A)]
    asked = tokens_of(row["budget_asked"], t.N)
    tie = TIE if t.has_rows else FLIP
    mass = MASS if t.has_rows else 2e-5
    even = not name.startswith("pyramidkv")
    budgets = [asked if even else min(t.N, int(cell.lane(l, a)["asked_tokens"])) for l, _, a in lanes]
    if isinstance(policy, Full):
        budgets = [t.T] * len(lanes)
    if even:
        report.number(where, "budget_tokens", asked, row["budget_tokens"], 0)
    else:
        check_pyramid(t, lanes, budgets, min(asked, t.N), report, where)
    ran = []
    for lane, budget in zip(lanes, budgets):
        if policy is None:
            ran.append(dict(saw=oracle_step(t, lane, budget, inside)))
        elif isinstance(policy, Full):
            ran.append(follow(t, policy, False, budget, cell, lane, where, report, tie))
        else:
            ran.append(follow(t, policy, inside, budget, cell, lane, where, report, tie))
    if policy:
        check_counts(t, inside, lanes, budgets, ran, cell, report, where)
    if t.M:
        check_rows(t, lanes, ran, cell, report, where, mass)
        if policy:
            check_sets(t, policy, inside, lanes, budgets, ran, cell, report, where, mass)


def check_pyramid(t, lanes, budgets, asked, report, where):
    """C004: the layers of the model add up to L x B within 1 a layer, and fall."""
    by_layer = [b for (l, _, a), b in zip(lanes, budgets) if a == 0]
    for (l, _, a), b in zip(lanes, budgets):
        report.number(where, "lane budgets of layer %d" % l, by_layer[l], b, 0)
    if t.L == t.model_layers:
        report.number(where, "sum over layers", t.L * asked, sum(by_layer), t.L / max(1.0, t.L * asked))
    if sorted(by_layer, reverse=True) != by_layer or min(by_layer) < 1 or max(by_layer) > t.N:
        report.differ(where, "layer budgets", "falling from at most N to at least 1", by_layer)
    C, W = asked - 8, 8
    if t.L == t.model_layers and t.L > 1 and t.N > asked and t.N > W and C >= 0:
        low, high = C / 20, 2 * C - C / 20
        if high >= t.N - W:
            high, low = t.N - W, 2 * C - (t.N - W)
        for l, b in enumerate(by_layer):
            line = W + high - l * (high - low) / (t.L - 1)
            if not abs(line - b) <= 1 + 1e-9:
                report.differ(where, "budget of layer %d" % l, "%.3f within 1" % line, b)


def check_counts(t, inside, lanes, budgets, ran, cell, report, where):
    row = cell.row
    kept = [x["count"] for x in ran]
    end = [len(x["end"]) for x in ran]
    new = t.M if not inside else 0
    report.number(where, "kept_tokens_mean", sum(kept) / len(kept), row["kept_tokens_mean"], 1e-12)
    report.number(where, "kept_tokens_min", min(kept), row["kept_tokens_min"], 0)
    report.number(where, "kept_tokens_max", max(kept), row["kept_tokens_max"], 0)
    report.number(where, "end_slots_mean_tokens", sum(end) / len(end), row["end_slots_mean_tokens"], 1e-12)
    report.number(where, "acted_count", max(x["acts"] for x in ran), row["acted_count"], 0)
    report.number(where, "evictions_prefill_count", sum(t.N - k for k in kept), row["evictions_prefill_count"], 0)
    report.number(where, "evictions_decode_count", sum(k + t.M - e for k, e in zip(kept, end)),
                  row["evictions_decode_count"], 0)
    report.number(where, "kept_bytes", sum(end) * 4 * t.D, row["kept_bytes"], 0)
    report.number(where, "full_bytes", t.L * t.G * t.T * 4 * t.D, row["full_bytes"], 0)
    for (l, _, a), b, x in zip(lanes, budgets, ran):
        have, at = cell.lane(l, a), "%s layer %d lane %d" % (where, l, a)
        report.number(at, "kept_prefill_tokens", x["count"], have["kept_prefill_tokens"], 0)
        report.number(at, "kept_end_tokens", len(x["end"]), have["kept_end_tokens"], 0)
        if x["count"] > min(b, t.N) or inside and t.T > b and len(x["end"]) > b:
            report.differ(at, "budget", "at most %d" % b, "%d, at the end %d" % (x["count"], len(x["end"])))
        if x["first"] and x["count"] < t.N:
            report.number(at, "pinned_tokens", int(x["first"][2].sum()), have["pinned_tokens"], 0)


def check_rows(t, lanes, ran, cell, report, where, mass):
    """Lost mass, attention KL, output error: rows, lanes, and over all of them."""
    row, lost, error, kl = cell.row, [], [], []
    for lane, x in zip(lanes, ran):
        l, _, a = lane
        y, e = rows_of(t, lane, x["saw"])
        at = "%s layer %d lane %d" % (where, l, a)
        report.number(at, "lost_mass_mean_frac", y.mean(), cell.lane(l, a)["lost_mass_mean_frac"], mass)
        for m in range(t.M):
            flip = mass if t.has_rows else FLIP
            report.number(at, "lost [row %d]" % m, y[:, m].mean(), cell.arrays["lost"][l, a, m], flip)
            report.number(at, "slots seen [row %d]" % m, len(x["saw"][m]), cell.arrays["saw"][l, a, m], 0)
        lost.append(y)
        error.append(e)
        with np.errstate(divide="ignore"):
            kl.append(-np.log(1 - y))
    lane_first = lambda x: mean([mean(y.ravel()) for y in x])
    macro = lane_first if os.environ.get("LANEFIRST") else lambda x: mean([mean([mean(r) for lane, y in zip(lanes, x) if lane[0] == l for r in y])
                            for l in range(t.L)])
    flat = lambda x: [v for y in x for v in y.ravel()]
    finite = [np.where(np.isinf(x), np.nan, x) for x in kl]
    few = mass if t.has_rows else FLIP
    report.number(where, "lost_mass_mean_frac", macro(lost), row["lost_mass_mean_frac"], mass)
    for p, n in ((0.5, "p50"), (0.95, "p95"), (1, "max")):
        report.number(where, "lost_mass_%s_frac" % n, quantile(flat(lost), p), row["lost_mass_%s_frac" % n], few)
    report.number(where, "attn_kl_inf_count", sum(math.isinf(x) for x in flat(kl)), row["attn_kl_inf_count"], 0)
    # -ln(1 - x) is steep near 1: the tolerance of a mass, seen through it.
    steep = lambda x: few / max(1e-12, math.exp(-x)) if not math.isnan(x) and math.isfinite(x) else few
    report.number(where, "attn_kl_mean_nats", macro(finite), row["attn_kl_mean_nats"], 10 * mass)
    for p, n in ((0.95, "p95"), (1, "max")):
        x = quantile(flat(kl), p)
        report.number(where, "attn_kl_%s_nats" % n, x, row["attn_kl_%s_nats" % n], max(few, steep(x)))
    loose = OUTPUT if t.has_rows else 20 * FLIP
    report.number(where, "out_err_mean_rel", macro(error), row["out_err_mean_rel"], OUTPUT if t.has_rows else 5e-4)
    for p, n in ((0.95, "p95"), (1, "max")):
        x = quantile([v for v in flat(error) if not math.isnan(v)], p)
        report.number(where, "out_err_%s_rel" % n, x, row["out_err_%s_rel" % n], loose)
    cell.lost = macro(lost)


def check_sets(t, policy, inside, lanes, budgets, ran, cell, report, where, mass):
    """Recall, score KL, the oracle of equal counts."""
    row = cell.row
    every = []
    for lane, b, x in zip(lanes, budgets, ran):
        steps = range(t.M if inside else 1)
        came = 1 if inside and policy.drop_first else 0  # the token that came before the drop
        every.append([recalls(t, lane, b, x["held"][s], x["pins"][s], s, t.N + s + came) for s in steps])
    for i, n in enumerate(("recall", "recall_unprotected", "topk_recall")):
        x = mean([mean([mean([y[i] for y in r]) for lane, r in zip(lanes, every) if lane[0] == l])
                  for l in range(t.L)])
        # What is pinned is stated where the rule was asked: not in C005, not where all fits.
        if i != 1 or all(y["first"] for y in ran):
            report.number(where, "%s_mean_frac" % n, x, row["%s_mean_frac" % n], mass if t.has_rows else 1e-2)
    if policy.scored and all(x["first"] for x in ran):
        x = mean([mean([score_kl(t, lane, y["first"]) for lane, y in zip(lanes, ran) if lane[0] == l])
                  for l in range(t.L)])
        report.number(where, "score_kl_mean_nats", x, row["score_kl_mean_nats"], 1e-5 if t.has_rows else 1e-3)
    if inside or isinstance(policy, Full):
        return
    same, free, by_lane = best_lost(t, lanes, [x["count"] for x in ran])
    report.number(where, "oracle_lost_mass_mean_frac", same, row["oracle_lost_mass_mean_frac"], mass)
    report.number(where, "regret_mean_frac", max(0, cell.lost - same), row["regret_mean_frac"], mass)
    report.number(where, "allocation_regret_mean_frac", max(0, same - free), row["allocation_regret_mean_frac"], mass)
    if row["regret_mean_frac"] is not None:
        report.number(where, "regret + the oracle's loss", row["lost_mass_mean_frac"],
                      row["regret_mean_frac"] + row["oracle_lost_mass_mean_frac"], mass)
    for (l, _, a), x in zip(lanes, by_lane):
        report.number("%s layer %d lane %d" % (where, l, a), "oracle_lost_mass_mean_frac", x,
                      cell.lane(l, a)["oracle_lost_mass_mean_frac"], mass)
    for what in ("regret_mean_frac", "allocation_regret_mean_frac"):
        if row[what] is None or row[what] < -1e-9:
            report.differ(where, what, "at least -1e-9", row[what])


# ---- what must hold between cells ----------------------------------------------------------------

def check_order(t, cells, report):
    """Nobody beats the bounds of his own class."""
    lost = {}
    for (name, act, asked), c in cells.items():
        if c.row["status"] == "ok":
            lost[name, c.row["growth"], asked] = c.row["lost_mass_mean_frac"], c.row
    for (name, growth, asked), (x, row) in lost.items():
        where = "%s %s b=%s" % (name, growth, asked)
        bound = lost.get(("oracle-step", growth, asked))
        even = not name.startswith(("pyramidkv", "full"))
        by_head = row["policy_params"] and cells_by_head(name)
        if bound and even and not by_head and x < bound[0] - 1e-9:
            report.differ(where, "lost_mass_mean_frac", "at least oracle-step's %.9g" % bound[0], x)
        best_one = lost.get(("oracle", growth, asked))
        if best_one and even and not by_head and name != "oracle-step" and x < best_one[0] - 1e-9:
            report.differ(where, "lost_mass_mean_frac", "at least the oracle's %.9g" % best_one[0], x)
        if name == "oracle":
            report.number(where, "recall_mean_frac of the oracle", 1, row["recall_mean_frac"], 1e-12)


def cells_by_head(name):
    return name in ("h2o:compat=kvcf", "snapkv:compat=official")


# ---- the program ---------------------------------------------------------------------------------

def same_policy(row, name):
    """Whether a row of --json is of the policy as it was typed."""
    base, _, typed = name.partition(":")
    given = row["policy_params"].split(",")
    has_compat = any(x.startswith("compat=") for x in given)
    return row["policy"] == base and (not has_compat or (typed or "compat=paper") in given)


def compare(kvt, path, budgets, only, report):
    t = Trace(path)
    todo = [p for p in policies() if not only or p[0] in only]
    cells = {}
    with tempfile.TemporaryDirectory() as tmp:
        for act in ("own", "prefill"):
            names = [p[0] for p in todo if p[1] == act]
            if not names:
                continue
            rows, arrays = run_kvt(kvt, path, names, act, budgets, os.path.join(tmp, act))
            for name, at, policy, inside in todo:
                mine = [r for r in rows if same_policy(r, name)]
                if at != act:
                    continue
                if not mine:
                    report.differ("%s %s" % (name, act), "rows", "some", "none")
                for r in mine:
                    where = "%s %s %s b=%s" % (os.path.basename(path), name, act, r["budget_asked"])
                    skip = expect_skip(t, policy, tokens_of(r["budget_asked"], t.N), inside)
                    if not t.M and name.startswith("oracle"):
                        skip = True
                    c = Cell(r, arrays.get(r["run_id"]), t.H if policy and policy.by_head else t.G)
                    cells[name, act, r["budget_asked"]] = c
                    if (r["status"] == "skipped") != skip or r["status"] == "failed":
                        report.differ(where, "status", "skipped" if skip else "ok",
                                      "%s (%s)" % (r["status"], r["error"]))
                        continue
                    report.cells += 1
                    if skip:
                        continue
                    if not c.arrays:
                        report.differ(where, "arrays", "in a result file", "none")
                        continue
                    check_cell(t, name, policy, inside, c, report, where)
    if t.M:
        check_order(t, cells, report)
    return cells


def main():
    p = argparse.ArgumentParser()
    p.add_argument("kvt")
    p.add_argument("trace", nargs="+")
    p.add_argument("-b", "--budgets", default="1,2,3,4,7,16,33,40,70,10%,12.5%,25%,50%,90%,100%,1000")
    p.add_argument("-p", "--policies", default="")
    p.add_argument("-v", "--verbose", action="store_true", help="every difference, not six of a kind")
    a = p.parse_args()
    report = Report(a.verbose)
    for path in a.trace:
        compare(a.kvt, path, a.budgets.split(","), [x for x in a.policies.split(",") if x], report)
    print("%d cells, %d comparisons, %d near ties, %d differences" % (report.cells, report.checks, report.ties,
                                                                     report.n))
    return 1 if report.n else 0


if __name__ == "__main__":
    sys.exit(main())
