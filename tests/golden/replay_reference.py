#!/usr/bin/env python3
"""replay_reference.py - what `kvt replay` must find on a trace, by plain numpy.

    replay_reference.py KVT TRACE.h5 [-b LIST] [-p NAME,...] [-w SCORER.h5] [-v]    exit status 1: something differs

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

import replay_metrics as metrics
import replay_schedule as schedule

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
            flag = f["token/flag"][:self.N]
            self.prefix = int(np.argmin(np.append(flag & 2, 0) > 0))  # tokens of the template in front
            self.has_rows = "attn/rows" in f
            stored = f["attn/rows"][:].astype(np.float64) if self.has_rows else None
        self.L, self.H, self.Q, self.D = self.q.shape
        self.G = self.k.shape[1]
        self.R = self.H // self.G
        self.rows = stored if self.has_rows else self.compute_rows()
        self.orders = {}
        self.schedules = {}
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

    def over(self, l, h, pos, slots):
        """The row over these slots: as it is before an eviction, after one the softmax of what is left."""
        a = self.row(l, h, pos)[slots]
        whole = len(slots) == pos + 1
        return a if whole or a.sum() == 0 else a / a.sum()

    def response(self, l, h):
        """[M T] the response rows of a head."""
        first = self.at[self.N] if self.M else self.Q
        return self.rows[l, h, first:first + self.M]


# ---- small rules ---------------------------------------------------------------------------------

def best(score, k):
    """Which k are largest; of equals the lowest."""
    return set(np.argsort(-np.asarray(score, float), kind="stable")[:max(0, k)].tolist())


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
    drop_first = False   # in decode it drops before the row attends
    by_head = False      # a lane for each query head
    observes = 0         # observation window: case C005
    scored = True        # its scores are weights, a lane's decide on that lane: score KL is defined
    exactness = "exact"  # at best
    shares = "even"      # how a total is shared out over layers

    def protects(self, n):
        """Of n tokens."""
        return 0

    def fits(self, budget, n=None):
        return True

    def needs(self, t, budget):
        """Whether the trace holds what it reads at this budget."""
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


class FirstAndLast(Policy):
    """KVCache-Factory c97f9d7: the last W, and first tokens in all other slots; stored by query head."""
    # With W given the rule names every slot; with first tokens given the window only fills up.
    scored, by_head = False, True

    def __init__(self, first=None, last=None):
        self.first, self.last = first, last

    def protects(self, n):
        return min(self.first or self.last, n)

    def score(self, t, lane, slots, state, budget):
        last = self.last or budget - self.first
        tail = slots >= t.N - last
        pinned = tail | (slots < budget - last) if self.last else slots < self.first
        return np.where(tail, 1e9, -slots.astype(float)), pinned


class H2O(Policy):
    """Accumulated attention, half of the budget for the newest. Zhang et al. 2023, real-drop; mean
    over the lane's query heads. Decode rows are renormalised over what is left."""
    def __init__(self, first_head=False, flexgen=False):
        self.first_head, self.flexgen = first_head, flexgen

    def fits(self, budget, n=None):
        return budget > 2 if self.flexgen else int(0.5 * budget) > 0  # C080: half of one slot is no slot

    def votes(self, lane):
        return lane[1][:1] if self.first_head else lane[1]

    def begin(self, t, lane):
        heads = self.votes(lane)
        return {j: sum(t.col_sum[lane[0], h, j] for h in heads) / len(heads) for j in range(t.N)}

    def learn(self, t, lane, slots, state, m):
        heads = self.votes(lane)
        for h in heads:
            for j, x in zip(slots, t.over(lane[0], h, t.N + m, slots)):
                state[j] = state.get(j, 0.0) + x / len(heads)

    def score(self, t, lane, slots, state, budget):
        recent = int(0.5 * budget)
        if self.flexgen:
            recent = (budget + 1) // 2 - (1 if slots[-1] == t.N - 1 else 0)
        pinned = np.arange(len(slots)) >= len(slots) - recent
        return np.array([state.get(j, 0.0) for j in slots]), pinned


class H2OPrompt(Policy):
    """KVCache-Factory c97f9d7: column sums of all prompt rows, the last 8 kept, by query head."""
    by_head = True

    def protects(self, n):
        return min(8, n)

    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        return t.col_sum[l, heads[0], :t.N].copy(), slots >= t.N - 8


class Observed(Policy):
    """kvpress 8bb29b9 ObservedAttention: mean over the queries that see a token, then over heads."""
    def score(self, t, lane, slots, state, budget):
        l, heads, _ = lane
        s = sum(t.col_sum[l, h, :t.N] for h in heads) / len(heads) / (t.N - np.arange(t.N))
        return s, np.zeros(len(slots), bool)


class Tova(Policy):
    """What the newest query looks at: mean over all query heads of the layer, one set a layer. Oren
    et al. 2024; the newest token competes. kvpress keeps it."""
    scored = False  # one set by the weights of all lanes: no lane's score decided

    def __init__(self, keep_last=False):
        self.keep_last = keep_last

    def score(self, t, lane, slots, state, budget):
        w = np.zeros(len(slots))
        for h in range(t.H):
            w += t.over(lane[0], h, slots[-1], slots) / t.H
        return w, (slots == slots[-1]) & self.keep_last


class SnapKV(Policy):
    """Votes of the last W prompt queries for the keys in front of them, pooled. Li et al. 2024."""
    def __init__(self, window, width, kind, order="sum", by_head=False, shares="even"):
        self.observes, self.width, self.kind, self.order = window, width, kind, order
        self.by_head, self.shares = by_head, shares

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


class OracleStep(Policy):
    """Reads the best slots of every row; nothing is evicted."""


class Random(Policy):
    """Any B tokens: its choice is taken as it is."""
    scored = False

    def score(self, t, lane, slots, state, budget):
        return None, np.zeros(len(slots), bool)


def policies():
    """name as typed, --act, policy, inside, every."""
    for act, inside in (("own", True), ("prefill", False)):
        yield "window", act, Window(), inside, 1
        yield "streaming", act, Streaming(), inside, 1
        yield "h2o", act, H2O(), inside, 1
        yield "tova", act, Tova(), inside, 1
        yield "oracle-step", act, OracleStep(), inside, 1
    yield "h2o:compat=cookbook", "own", H2O(first_head=True), True, 1
    yield "h2o:compat=flexgen", "own", H2O(flexgen=True), True, 1
    yield "h2o:every=8", "own", H2O(), True, 8
    yield "tova:every=3", "own", Tova(), True, 3
    yield "oracle-step:every=4", "own", OracleStep(), True, 4
    for name, policy in (
            ("full", Full()), ("random", Random()),
            ("streaming:compat=kvcf", FirstAndLast(first=4)), ("streaming:compat=kvcf-needle", FirstAndLast(last=32)),
            ("h2o:compat=kvcf", H2OPrompt()), ("h2o:compat=kvpress", Observed()), ("tova:compat=kvpress", Tova(True)),
            ("snapkv", SnapKV(32, 7, "max")), ("snapkv:compat=kvpress", SnapKV(64, 5, "mean", "pool")),
            ("snapkv:compat=official", SnapKV(64, 5, "mean", by_head=True)),
            ("snapkv:compat=official-longbench", SnapKV(32, 7, "max", by_head=True)),
            ("snapkv:compat=kvcf", SnapKV(8, 7, "max", by_head=True)), ("snapkv:compat=kvcf-kv", SnapKV(8, 7, "max")),
            ("snapkv/pyramid", SnapKV(32, 7, "max", shares="exact")),
            ("pyramidkv", SnapKV(8, 7, "max", shares="exact")),
            ("pyramidkv:compat=kvcf", SnapKV(8, 7, "max", by_head=True, shares="kvcf")),
            ("pyramidkv:compat=kvpress", SnapKV(64, 5, "mean", shares="kvpress")),
            ("oracle", Oracle(lambda rows: rows.sum(0))), ("oracle-max", Oracle(lambda rows: rows.max(0)))):
        yield name, "own", policy, False, 1


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
                           "--metrics", "all", "--no-controls", "--json", "-q", "-o", out], capture_output=True, text=True)
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

    def text(self, where, what, mine, theirs):
        self.checks += 1
        if mine != theirs:
            self.differ(where, what, mine, theirs)

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


def follow(t, policy, inside, every, budget, cell, lane, where, report, tie):
    """Decides step by step, each time from kvt's own set of the step before. Returns what each row saw
    [M], the set after each step, pinned sets, (slots, score, pinned) of step 0, and the times it acted."""
    l, _, a = lane
    gone = cell.evict_step(t, l, a)
    latest = policy.observes and t.N <= policy.observes  # C005: the latest are kept
    state = policy.begin(t, lane)
    out = dict(saw=[], held=[], pins=[], first=None, acts=0)

    def left(slots, step):
        return set(slots[(gone[slots] < 0) | (gone[slots] > step)].tolist())

    def decide(slots, step):
        """What should stay, and (score, pinned) of the slots."""
        if len(slots) <= budget:
            return set(slots), np.zeros(len(slots)), np.zeros(len(slots), bool)
        out["acts"] += 1
        if latest:
            return set(slots[-budget:]), slots.astype(float), np.zeros(len(slots), bool)
        score, pinned = policy.score(t, lane, slots, state, budget)
        if score is None:
            return left(slots, step), np.zeros(len(slots)), pinned
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
            full, asked = np.zeros(len(everything)), slots
            slots = check(everything, m, kept, full if m == 0 else score, full.astype(bool) if m == 0 else pinned)
            if m == 0:
                out["pins"][-1] = {j for j, p in zip(asked, pinned) if p}
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
            if (m + 1) % every == 0:
                slots = check(slots, m + 1, *decide(slots, m + 1))
            else:  # what left all the same is a difference
                last = out["pins"][-1]
                slots = check(slots, m + 1, set(slots), np.zeros(len(slots)), np.isin(slots, list(last)))
    out["end"] = slots
    return out


# ---- measures ------------------------------------------------------------------------------------

def remaining(t, l, heads, step):
    """R_j(step) of every token, summed over the lane's heads (the mean has the same order)."""
    return sum(t.response(l, h)[step:].sum(0) for h in heads)


def by_remaining(t, l, heads, step, arrived):
    """The tokens that have arrived by falling remaining mass. Kept for the next policy."""
    key = l, tuple(heads), step, arrived
    if key not in t.orders:
        t.orders[key] = np.argsort(-remaining(t, l, heads, step)[:arrived], kind="stable").tolist()
    return t.orders[key]


def recalls(t, lane, budget, held, pins, step, arrived):
    """(of the top budget, the same without what is pinned, of the top 32)."""
    l, heads, _ = lane
    order = by_remaining(t, l, heads, step, arrived)
    k = min(budget, arrived)
    of = lambda top: len(held & set(top)) / len(top) if top else math.nan
    free = [j for j in order if j not in pins][:max(0, k - len(pins))]
    return of(order[:k]), of(free), of(order[:32])


def rows_of(t, lane, saw):
    """[heads M] lost mass and output error of what each row saw."""
    l, heads, _ = lane
    seen = np.zeros((t.M, t.T), bool)
    for m, slots in enumerate(saw):
        seen[m, slots] = True
        seen[m, t.N + m + 1:] = True  # not there yet, and 0
    lost, error = [], []
    for h in heads:
        a, v = t.response(l, h), t.v[l, h // t.R]
        lost.append(np.minimum(1.0, np.where(seen, 0, a).sum(1)))
        part = np.where(seen, a, 0)
        with np.errstate(invalid="ignore"):  # 0 / 0: nothing was left, no output
            left = part @ v / part.sum(1, keepdims=True)
            full = a @ v / a.sum(1, keepdims=True)
            error.append(np.sqrt(((left - full) ** 2).sum(1)) / np.sqrt((full ** 2).sum(1)))
    return np.array(lost), np.array(error)


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


def oracle_step(t, lane, budget, inside, every):
    """What each row reads: the best B + K of all, or the best B of the prompt and all since."""
    l, heads, _ = lane
    saw = []
    for m in range(t.M):
        a = sum(t.response(l, h)[m] for h in heads)
        if inside:
            saw.append(np.array(sorted(best(a[:t.N + m + 1], budget + every)), int))
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
    n = t.T if inside else t.N
    if not t.M and (isinstance(policy, (Oracle, OracleStep)) or getattr(policy, "rests_on", "") == "response"):
        return True  # C082
    if not policy.needs(t, budget):
        return True
    if budget >= n or isinstance(policy, Full):
        return False
    if not policy.fits(budget, t.N):
        return True
    if policy.observes:
        return t.N > policy.observes > budget
    return policy.protects(n) > budget


def check_cell(t, name, policy, inside, every, cell, report, where):
    row = cell.row
    A = t.H if policy.by_head else t.G
    lanes = [(l, [a] if A == t.H else list(range(a * t.R, (a + 1) * t.R)), a) for l in range(t.L) for a in range(A)]
    asked = tokens_of(row["budget_asked"], t.N)
    tie = TIE if t.has_rows else FLIP
    mass = MASS if t.has_rows else 2e-5
    budgets = [asked] * len(lanes)
    if policy.shares != "even":
        budgets = [min(t.N, int(cell.lane(l, a)["asked_tokens"])) for l, _, a in lanes]
        check_pyramid(t, policy, lanes, budgets, min(asked, t.N), report, where)
    elif isinstance(policy, Full):
        budgets = [t.T] * len(lanes)
    else:
        report.number(where, "budget_tokens", asked, row["budget_tokens"], 0)
    report.text(where, "growth", "inside" if inside else "on-top", row["growth"])
    report.text(where, "act", "decode" if inside else "prefill", row["act"])
    if not isinstance(policy, OracleStep):
        classes = ["exact", "budget-exact", "open-loop", "surrogate"]
        worst = max(classes.index(policy.exactness), classes.index("open-loop" if inside else "exact"))
        report.text(where, "exactness", classes[worst], row["exactness"])
    ran = []
    for lane, budget in zip(lanes, budgets):
        if isinstance(policy, OracleStep):
            ran.append(dict(saw=oracle_step(t, lane, budget, inside, every)))
        else:
            ran.append(follow(t, policy, inside, every, budget, cell, lane, where, report, tie))
    if not isinstance(policy, OracleStep):
        check_counts(t, inside, every, lanes, budgets, ran, cell, report, where)
    if t.M:
        check_rows(t, lanes, ran, cell, report, where, mass)
        if not isinstance(policy, OracleStep):
            check_sets(t, policy, inside, every, lanes, budgets, ran, cell, report, where, mass)


def check_pyramid(t, policy, lanes, budgets, asked, report, where):
    """Budgets by layer. exact: case C004, the layers of the model add up to L x B within 1 a layer, each
    within 1 of the line, and fall. kvcf and kvpress: their own arithmetic."""
    of = [b for (l, _, a), b in zip(lanes, budgets) if a == 0]
    n_model, W, C = t.model_layers, policy.observes, asked - policy.observes
    for (l, _, a), b in zip(lanes, budgets):
        report.number(where, "lane budgets of layer %d" % l, of[l], b, 0)
    if sorted(of, reverse=True) != of or min(of) < 1 or max(of) > t.N:
        report.differ(where, "layer budgets", "falling from at most N to at least 1", of)
    whole = t.L == n_model
    if policy.shares == "exact" and whole:
        report.number(where, "sum over layers", t.L * asked, sum(of), t.L / max(1.0, t.L * asked))
    if n_model == 1 or t.N <= asked or t.N <= W or C < 0:
        return
    if policy.shares == "kvpress":
        low, high = asked / 20, 2 * asked - asked / 20
        if high >= t.N - W:
            high, low = t.N - W, 2 * asked - (t.N - W)
        line = [high - l * (high - low) / (n_model - 1) for l in range(n_model)]
        expect = [round(x) for x in line] if t.N >= high >= low >= W else [asked] * n_model
    else:
        exact = policy.shares == "exact"
        low = C / 20 if exact else C // 20
        high = 2 * C - low
        if high >= t.N - W:
            high, low = t.N - W, 2 * C - (t.N - W)
        step = (high - low) / (n_model - 1) if exact else (high - low) // (n_model - 1)
        expect = [W + high - l * step for l in range(n_model)]
        if not exact and t.N < 2 * C:
            expect = [asked] * n_model
    for l, b in enumerate(of):
        near = expect[t.layer_id[l]]
        if not abs(near - b) <= (1 + 1e-9 if policy.shares == "exact" else 0):
            report.differ(where, "budget of layer %d" % l, "%g" % near, b)


def check_counts(t, inside, every, lanes, budgets, ran, cell, report, where):
    row = cell.row
    kept = [x["count"] for x in ran]
    end = [len(x["end"]) for x in ran]
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
        if x["count"] > b or inside and len(x["end"]) > b + every - 1:
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
    macro = lambda x: mean([mean([mean(r) for r in y]) for y in x])  # rows, then heads, then lanes
    flat = lambda x: [v for y in x for v in y.ravel()]
    finite = [np.where(np.isinf(x), np.nan, x) for x in kl]
    few = mass if t.has_rows else FLIP  # near a loss of 1, one half that rounds otherwise is 1e-3 nats
    report.number(where, "lost_mass_mean_frac", macro(lost), row["lost_mass_mean_frac"], mass)
    for p, n in ((0.5, "p50"), (0.95, "p95"), (1, "max")):
        report.number(where, "lost_mass_%s_frac" % n, quantile(flat(lost), p), row["lost_mass_%s_frac" % n], few)
    # Where rows are computed here, a half that rounds otherwise may be what makes a loss of 1.
    n_inf = sum(math.isinf(x) for x in flat(kl))
    report.number(where, "attn_kl_inf_count", n_inf, row["attn_kl_inf_count"], 0 if t.has_rows else 0.2)
    # -ln(1 - x) is steep near 1: the tolerance of a mass, seen through it.
    steep = lambda x: few / max(1e-12, math.exp(-x)) if not math.isnan(x) and math.isfinite(x) else few
    if n_inf == row["attn_kl_inf_count"]:
        report.number(where, "attn_kl_mean_nats", macro(finite), row["attn_kl_mean_nats"],
                      10 * mass if t.has_rows else 2e-3)
    for p, n in ((0.95, "p95"), (1, "max")):
        x = quantile(flat(kl), p)
        report.number(where, "attn_kl_%s_nats" % n, x, row["attn_kl_%s_nats" % n], max(few, steep(x)))
    loose = OUTPUT if t.has_rows else 20 * FLIP
    report.number(where, "out_err_mean_rel", macro(error), row["out_err_mean_rel"], OUTPUT if t.has_rows else 5e-4)
    for p, n in ((0.95, "p95"), (1, "max")):
        x = quantile([v for v in flat(error) if not math.isnan(v)], p)
        report.number(where, "out_err_%s_rel" % n, x, row["out_err_%s_rel" % n], loose)
    check_more(t, lanes, ran, error, row, report, where, macro)
    cell.lost = macro(lost)
    worst = max(range(len(lanes)), key=lambda i: (lost[i].mean(), -i))  # the worst lane, and its worst row
    if lost[worst].max() > 0 and t.has_rows:
        l, _, a = lanes[worst]
        report.text(where, "worst_layer, worst_kv_head", (t.layer_id[l], a), (row["worst_layer"], row["worst_kv_head"]))
        by_row = lost[worst].mean(0)
        report.number(where, "loss at worst_step", by_row.max(), by_row[row["worst_step"]], mass)
        report.number(where, "worst_lost_frac of the lane", by_row.max(), cell.lane(l, a)["worst_lost_frac"], mass)


def check_more(t, lanes, ran, error, row, report, where, macro):
    """Other errors of the output, support of the full rows, overlap of what consecutive rows saw."""
    l1, turn, masked, apart, size, share, pairs, heavy = [], [], [], 0.0, 0.0, [[], [], []], [], []
    for (l, heads, _), x, e in zip(lanes, ran, error):
        seen = np.zeros((t.M, t.T), bool)
        for m, slots in enumerate(x["saw"]):
            seen[m, slots] = True
            seen[m, t.N + m + 1:] = True
        some = [metrics.outputs(t.response(l, h), t.v[l, h // t.R], seen) for h in heads]
        l1.append(np.array([s[0] for s in some]))
        turn.append(np.array([s[1] for s in some]))
        masked.append(np.array([s[2] for s in some]))
        norm = np.array([s[3] for s in some])
        apart, size = apart + np.nansum(norm * e), size + norm[~np.isnan(e)].sum()
        for k, c in enumerate((0.9, 0.95, 0.99)):
            share[k].append(np.array([[metrics.support(t.response(l, h)[m], c) for m in range(t.M)] for h in heads]))
        pairs.append(metrics.overlap(x["saw"], t.N))
        for h in heads:
            big = (t.response(l, h) > 0.05)[:, :t.T]
            heavy.append((big.sum(1), (big & seen).sum(1)))
    loose = OUTPUT if t.has_rows else 20 * FLIP
    for name, x in (("out_l1", l1), ("out_cos", turn), ("out_err_unnorm", masked)):
        report.number(where, "%s_mean_rel" % name, macro(x), row["%s_mean_rel" % name], loose)
    report.number(where, "out_err_micro_rel", apart / size if size else math.nan, row["out_err_micro_rel"], loose)
    for k, n in enumerate(("90", "95", "99")):
        report.number(where, "support_%s_mean_tokens" % n, macro(share[k]), row["support_%s_mean_tokens" % n],
                      1e-9 if t.has_rows else 0.2)
    if t.has_rows:
        per = len(lanes[0][1])
        with np.errstate(invalid="ignore"):
            had = [h / n for n, h in heavy]
        x = mean([mean([mean(r) for r in had[i:i + per]]) for i in range(0, len(had), per)])
        report.number(where, "heavy_recall_mean_frac", x, row["heavy_recall_mean_frac"], 1e-12)
        big = sum(int(n.sum()) for n, _ in heavy)
        x = sum(int(h.sum()) for _, h in heavy) / big if big else math.nan
        report.number(where, "heavy_recall_micro_frac", x, row["heavy_recall_micro_frac"], 1e-12)
        x = mean([(n == 0).mean() for n, _ in heavy])
        report.number(where, "heavy_recall_absent_frac", x, row["heavy_recall_absent_frac"], 1e-12)
    if row["growth"] == "inside" and t.M > 1:
        x = mean([mean([a / b for a, b in p if b]) for p in pairs])
        report.number(where, "step_overlap_mean_frac", x, row["step_overlap_mean_frac"], 1e-12)
        every = [q for p in pairs for q in p]
        below = sum(b for _, b in every)
        x = sum(a for a, _ in every) / below if below else math.nan
        report.number(where, "step_overlap_micro_frac", x, row["step_overlap_micro_frac"], 1e-12)


def check_ranks(t, lanes, budgets, ran, row, report, where):
    """Agreement of the scores of step 0 with the mass that came. Sums that are equal here may differ in the
    last bit of an f32 there, or the other way round: what such ties can do is found by trying."""
    of, room = [[], [], []], np.zeros(3)
    rng = np.random.default_rng(1)
    for lane, b, x in zip(lanes, budgets, ran):
        slots, score, pinned = x["first"]
        free = ~np.asarray(pinned)
        exact = np.asarray(score)[free].astype(np.float64)
        r = remaining(t, lane[0], lane[1], 0)[slots][free] / len(lane[1])
        k = min(b - int((~free).sum()), len(r))
        agree = lambda s: np.array([metrics.tau_b(s, r), metrics.rho(s, r), metrics.ndcg(s, r, k)])
        mine = agree(exact.astype(np.float32).astype(np.float64))
        for i in range(3):
            of[i].append(mine[i])
        down = np.sort(exact)
        if (np.diff(down) <= 3e-7 * np.abs(down[1:])).any():
            tried = [agree(exact * (1 + 3e-7 * rng.uniform(-1, 1, len(exact)))) for _ in range(12)]
            room += np.nan_to_num(np.abs(np.array(tried) - mine).max(0)) * 2 / len(lanes)
    for i, n in enumerate(("kendall_tau", "spearman", "ndcg")):
        x, theirs = mean(of[i]), row["%s_mean_1" % n]
        report.number(where, "%s_mean_1" % n, x, theirs, (1e-6 if t.has_rows else 1e-2) + room[i])


def schedule_lost(t, lane, budget, every, drop_first):
    """What the lane's rows lose on average under its best schedule. Kept for the next policy."""
    l, heads, _ = lane
    key = l, tuple(heads), every, drop_first
    if key not in t.schedules:
        best = schedule.Lane(np.stack([t.response(l, h) for h in heads]), t.N, every, drop_first)
        t.schedules[key] = best, best.solve()
    best, at = t.schedules[key]
    return best.lost(at[min(budget, len(at) - 1)]).mean()


def check_schedule(t, policy, every, lanes, budgets, cell, report, where, mass):
    """The best schedule of irreversible eviction at the lanes' budgets."""
    row = cell.row
    least = [schedule_lost(t, lane, b, every, policy.drop_first) for lane, b in zip(lanes, budgets)]
    report.number(where, "oracle_lost_mass_mean_frac", mean(least), row["oracle_lost_mass_mean_frac"], mass)
    report.number(where, "regret_mean_frac", max(0, cell.lost - mean(least)), row["regret_mean_frac"], mass)
    report.number(where, "allocation_regret_mean_frac", math.nan, row["allocation_regret_mean_frac"], 0)
    if cell.lost - mean(least) < -mass:
        report.differ(where, "lost mass", "at least the best schedule's %.9g" % mean(least), cell.lost)
    for (l, _, a), x in zip(lanes, least):
        have, at = cell.lane(l, a), "%s layer %d lane %d" % (where, l, a)
        report.number(at, "oracle_lost_mass_mean_frac", x, have["oracle_lost_mass_mean_frac"], mass)
        report.number(at, "regret_mean_frac", max(0, have["lost_mass_mean_frac"] - x), have["regret_mean_frac"], mass)


def check_sets(t, policy, inside, every_k, lanes, budgets, ran, cell, report, where, mass):
    """Recall, score KL, the oracle of equal counts."""
    row = cell.row
    every = []
    for lane, b, x in zip(lanes, budgets, ran):
        steps = range(t.M if inside else 1)
        came = 1 if inside and policy.drop_first else 0  # the token that came before the drop
        every.append([recalls(t, lane, b, x["held"][s], x["pins"][s], s, t.N + s + came) for s in steps])
    for i, n in enumerate(("recall", "recall_unprotected", "topk_recall")):
        x = mean([mean([y[i] for y in r]) for r in every])
        # What is pinned is stated where the rule was asked: not in C005, not where all fits.
        if i != 1 or all(y["first"] for y in ran):
            report.number(where, "%s_mean_frac" % n, x, row["%s_mean_frac" % n], mass if t.has_rows else 1e-2)
    if policy.scored and all(x["first"] for x in ran):
        x = mean([score_kl(t, lane, y["first"]) for lane, y in zip(lanes, ran)])
        report.number(where, "score_kl_mean_nats", x, row["score_kl_mean_nats"], 1e-5 if t.has_rows else 1e-3)
    elif not policy.scored:
        report.number(where, "score_kl_mean_nats", math.nan, row["score_kl_mean_nats"], 0)
    # First and last tokens: which order gives that set is free.
    ordered = row["kendall_tau_mean_1"] is not None and not isinstance(policy, FirstAndLast)
    if ordered and all(x["first"] for x in ran):
        check_ranks(t, lanes, budgets, ran, row, report, where)
    if isinstance(policy, Full):
        report.number(where, "regret_mean_frac", 0, row["regret_mean_frac"], 1e-12)
        return
    if inside:
        check_schedule(t, policy, every_k, lanes, budgets, cell, report, where, mass)
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

def check_order(cells, report):
    """Nobody beats the bounds of his own class: same growth, same budget, a set for each kv head, as many
    slots in every lane. Rows end at a loss of 1, which may hide the last millionth."""
    lost = {}
    for name, policy, row in cells:
        if row["status"] == "ok" and policy.shares == "even" and not policy.by_head and "every" not in name:
            lost[name, row["seed"], row["growth"], row["budget_asked"]] = row["lost_mass_mean_frac"]
    for (name, seed, growth, asked), x in lost.items():
        for bound in ("oracle-step", "oracle"):
            least = lost.get((bound, None, growth, asked))
            if least is not None and name not in ("full", "oracle-step") and x < least - 1e-6:
                report.differ("%s %s b=%s" % (name, growth, asked), "lost_mass_mean_frac",
                              "at least the %.9g of %s" % (least, bound), x)
    for name, policy, row in cells:
        if name == "oracle" and row["status"] == "ok":
            report.number("oracle b=%s" % row["budget_asked"], "recall_mean_frac", 1, row["recall_mean_frac"], 1e-12)


def check_periods(kvt, t, path, budgets, report):
    """Regret of policies that drop every K tokens, in front of a row or behind it, by kv head and by query
    head: what they keep is not decided again here, only what their best schedule would lose."""
    uses = {}
    for k in (2, 3, 8):
        for typed, by_head, first in (("window", False, True), ("streaming", False, True), ("tova", False, False),
                                      ("snapkv:window=4", False, False), ("snapkv:window=4,compat=official", True, False)):
            uses["%s%severy=%d" % (typed, "," if ":" in typed else ":", k)] = k, by_head, first
    mass = MASS if t.has_rows else 2e-5
    for typed, (k, by_head, first) in uses.items():
        with tempfile.TemporaryDirectory() as tmp:
            rows, _ = run_kvt(kvt, path, [typed], "own", budgets, tmp)
        lanes = [(l, [a] if by_head else list(range(a * t.R, (a + 1) * t.R)), a)
                 for l in range(t.L) for a in range(t.H if by_head else t.G)]
        for r in rows:
            if r["status"] != "ok":
                continue
            where = "%s %s b=%s" % (os.path.basename(path), typed, r["budget_asked"])
            least = mean([schedule_lost(t, lane, int(r["budget_tokens"]), k, first) for lane in lanes])
            report.number(where, "oracle_lost_mass_mean_frac", least, r["oracle_lost_mass_mean_frac"], mass)
            report.number(where, "regret_mean_frac", max(0, r["lost_mass_mean_frac"] - least), r["regret_mean_frac"], mass)


def check_alone(kvt, path, budgets, report):
    """A row is the same whichever budgets run beside it, in falling order, and one by one."""
    for act in ("own", "prefill"):
        names = [p[0] for p in policies() if p[1] == act]
        with tempfile.TemporaryDirectory() as tmp:
            rows, _ = run_kvt(kvt, path, names, act, budgets, os.path.join(tmp, "all"))
            rows = {r["run_id"]: r for r in rows}
            parts = [run_kvt(kvt, path, names, act, [b], os.path.join(tmp, b))[0] for b in budgets]
            parts.append(run_kvt(kvt, path, names, act, budgets[::-1], os.path.join(tmp, "back"))[0])
        for r in (r for part in parts for r in part):
            beside = rows.get(r["run_id"])
            where = "%s %s %s %s b=%s" % (os.path.basename(path), r["policy"], r["policy_params"], act, r["budget_asked"])
            report.checks += 1
            if beside is None:  # two texts for one number of slots
                continue
            for k in r:
                if r[k] != beside[k]:
                    report.differ(where, k + " beside other budgets", r[k], beside[k])


def check_sinks(kvt, path, report):
    """C010: where the first token draws most attention, nine tenths of the cache without it are worth
    little, and with it nearly everything. `streaming:sinks=0` is `window`."""
    with tempfile.TemporaryDirectory() as tmp:
        rows, _ = run_kvt(kvt, path, ["window", "streaming:sinks=0", "streaming"], "own", ["90%"], tmp)
    of = {(r["policy"], "sinks=4" in r["policy_params"]): r for r in rows}
    none, same, four = of["window", False], of["streaming", False], of["streaming", True]
    name = os.path.basename(path)
    for what, low, high in (("lost_mass_mean_frac", 0.1, 0.9), ("attn_kl_mean_nats", 0.1, 2.0)):
        if not none[what] > high or not four[what] < low:
            report.differ("%s C010" % name, what, "above %g without sinks, below %g with 4" % (high, low),
                          "%s, %s" % (none[what], four[what]))
        report.number("%s C010 sinks=0" % name, what, none[what], same[what], 0)


# ---- the program ---------------------------------------------------------------------------------

def same_policy(row, name):
    """Whether a row of --json is of the policy as it was typed: that, and the paper's variant."""
    base, _, typed = name.partition(":")
    given = row["policy_params"].split(",")
    if row["policy"] != base:
        return False
    if any(x.startswith("compat=") for x in given) and "compat=" not in name and "compat=paper" not in given:
        return False
    every = [x for x in given if x.startswith("every=") and x != "every=0"]
    return not typed and not every or typed in given


def compare(kvt, path, budgets, only, weights, report):
    import replay_learned  # which reads this module
    t = Trace(path)
    t.probes = replay_learned.probes(path)
    learned = replay_learned.policies(t, [replay_learned.Scorer(w) for w in weights])
    todo = [p for p in [*policies(), *learned] if not only or p[0].partition(":")[0] in only or p[0] in only]
    cells = []
    with tempfile.TemporaryDirectory() as tmp:
        for act in ("own", "prefill"):
            mine = [p for p in todo if p[1] == act]
            if not mine:
                continue
            rows, arrays = run_kvt(kvt, path, [p[0] for p in mine], act, budgets, os.path.join(tmp, act))
            for name, _, policy, inside, every in mine:
                narrower = [p[0] for p in mine if p[0].startswith(name + ":")]
                found = [r for r in rows if same_policy(r, name) and not any(same_policy(r, n) for n in narrower)]
                if not found:
                    report.differ("%s %s" % (name, act), "rows", "some", "none")
                for r in found:
                    where = "%s %s %s b=%s" % (os.path.basename(path), name, act, r["budget_asked"])
                    skip = expect_skip(t, policy, tokens_of(r["budget_asked"], t.N), inside)
                    c = Cell(r, arrays.get(r["run_id"]), t.H if policy.by_head else t.G)
                    cells.append((name, policy, r))
                    report.cells += 1
                    if r["status"] != ("skipped" if skip else "ok"):
                        report.differ(where, "status", "skipped" if skip else "ok",
                                      "%s (%s)" % (r["status"], r["error"]))
                    elif not skip and not c.arrays:
                        report.differ(where, "arrays", "in a result file", "none")
                    elif not skip:
                        check_cell(t, name, policy, inside, every, c, report, where)
    if t.M:
        check_order(cells, report)
    if t.M and not only:
        check_periods(kvt, t, path, budgets, report)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("kvt")
    p.add_argument("trace", nargs="+")
    p.add_argument("-b", "--budgets", default="1,2,3,7,16,33,70,12.5%,50%,90%,1000")
    p.add_argument("-p", "--policies", default="")
    p.add_argument("-w", "--weights", action="append", default=[], help="a scorer file of that model")
    p.add_argument("--alone", action="store_true", help="each budget alone gives the same row")
    p.add_argument("--sinks", action="store_true", help="the traces have a sink at token 0: case C010")
    p.add_argument("-v", "--verbose", action="store_true", help="every difference, not six of a kind")
    a = p.parse_args()
    report = Report(a.verbose)
    for path in a.trace:
        compare(a.kvt, path, a.budgets.split(","), [x for x in a.policies.split(",") if x], a.weights, report)
        if a.alone:
            check_alone(a.kvt, path, a.budgets.split(","), report)
        if a.sinks:
            check_sinks(a.kvt, path, report)
    print("%d cells, %d comparisons, %d near ties, %d differences" % (report.cells, report.checks, report.ties,
                                                                     report.n))
    return 1 if report.n else 0


if __name__ == "__main__":
    import replay_reference  # the same classes here and in replay_learned.py
    sys.exit(replay_reference.main())
