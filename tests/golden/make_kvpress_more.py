#!/usr/bin/env python3
"""Writes kvpress_more.csv and kvpress_rule.csv: what kvpress's own presses keep on the tensors of presses.py.

  pip install kvpress==0.5.5 torch==2.6.0 transformers==5.2.0;  python3 make_kvpress_more.py [FOLDER]

(FOLDER: where kvpress lies when it is not installed.)

Every press runs as it is, its compress() called on a stand-in for an attention layer, in double; nothing in it is
replaced but what comes from elsewhere: torch.randn gives the draws of the lane's stream (or where the sketch is 0 the
unit matrix), Q-Filters, gates and LU-KV's table are those of the rule. `kept` is the press's own answer. Where kvt
means to keep another set, `lost` and `gained` are the slots exchanged, computed here by the rule that `why` quotes from
kvt's own words; everywhere else both must be the same. No cut lies between scores that rounding could swap: all is
run again with numbers that are off by a millionth.

The version is newer than the commit 8bb29b9 that kvt's compat=kvpress names. What is another in it: at least one slot
is kept (compute_n_kept; 8bb29b9: int(T (1 - ratio)) in ScorerPress), and the safe slots of AdaKV and the first stage of
CriticalKV are at least one, as they are for kvt's allocator ada and for criticalkv's compat=paper.
"""
import csv
import math
import sys

import numpy as np
import torch

for name in sys.argv[1:]:
    sys.path.insert(0, name)
from kvpress import (AdaKVPress, BlockPress, ChunkKVPress, CompactorPress, CriticalAdaKVPress, CriticalKVPress, CURPress,
                     DuoAttentionPress, ExpectedAttentionPress, FinchPress, KeyDiffPress, KnormPress, LagKVPress,
                     LeverageScorePress, LUKVPress, NonCausalAttnPress, ObservedAttentionPress, PyramidKVPress,
                     QFilterPress, SimLayerKVPress, SnapKVPress, StreamingLLMPress, ThinKPress, TOVAPress)
from kvpress.presses.cap_press import CapPress
from kvpress.utils import compute_n_kept

from make_policies import runs
from presses import Presses, Stream

BIG, SMALL, SHORT = "1/3/4/2/100", "2/3/4/2/61", "3/2/4/4/33"
EDGE, BEYOND = "4/3/4/2/29", "4/3/4/2/30"  # 4 sinks, 24 last ones and the row that is asked: 29

WINDOW = "what the base pins is kept by rule"
SAFE = "under ada kvpress's safe slots all stay, here each head's stages alone decide"
TIES = "left-over slots go to the lowest positions"
ENDS = "the ends are kept by a rule, not by a score"
PINS = "what the base pins stays"
REFUSED = "not engaged"  # kvpress keeps everything, kvt says so instead


def ratio(t, budget):
    """The removed ratio that leaves `budget` whichever way it rounds."""
    return 1 - (budget + 1e-6) / t.N


def indices(kept, values):
    """Rows of `values` [N D] that `kept` [n D] are."""
    at = [int(np.flatnonzero((values == row).all(-1))[0]) for row in kept]
    assert len(set(at)) == len(at)
    return sorted(at)


def compress(press, t, l, heads=None, attention=False):
    """Sets of layer l that compress() keeps, one a kv head: tokens that are there and not masked."""
    args = t.inputs(l, heads)
    if attention:
        args[4] = t.rows(l)[None]
    module, values = args[0], args[3]
    _, left = press.compress(*[x.clone() if torch.is_tensor(x) else x for x in args])
    sets = [indices(left[0, g].numpy(), values[0, g].numpy()) for g in range(values.shape[1])]
    if module.masked_key_indices is not None:
        _, head, gone = (x.tolist() for x in module.masked_key_indices)
        sets = [[s for s in kept if (g, s) not in set(zip(head, gone))] for g, kept in enumerate(sets)]
    return sets


def plain(make, attention=False):
    """One press a layer: make(t, ratio)."""
    def of(t, budget):
        return [compress(make(t, ratio(t, budget)), t, l, attention=attention) for l in range(t.L)]
    return of


class Draws:
    """torch.randn gives a lane's draws, [.., D, K] or [D, K] at a time; the unit matrix where sketch is 0."""

    def __init__(self, stream, order, scale):
        self.stream, self.order, self.scale = stream, order, scale

    def __enter__(self):
        self.randn = torch.randn

        def randn(*shape, **_):
            if self.scale:
                return (torch.eye(*shape[-2:], dtype=torch.float64) * math.sqrt(shape[-1])).expand(*shape).clone()
            if len(shape) == 2:
                return self.stream.normal(*shape)
            out = torch.zeros(*shape, dtype=torch.float64)
            for g in self.order:  # the lane's own head draws first
                out[0, g] = self.stream.normal(*shape[-2:])
            return out
        torch.randn = randn

    def __exit__(self, *_):
        torch.randn = self.randn


def drawn(make, sketch, alone):
    """A run for each lane, with the draws of its stream. alone: of this head only."""
    def of(t, budget):
        out = []
        for l in range(t.L):
            out.append([])
            for g in range(t.G):
                order = [0] if alone else [g] + [o for o in range(t.G) if o != g]
                with Draws(Stream(l * t.G + g), order, sketch == 0):
                    sets = compress(make(t, ratio(t, budget)), t, l, [g] if alone else None)
                out[-1].append(sets[0 if alone else g])
        return out
    return of


def snap(window, pool):
    return lambda t, r: SnapKVPress(r, window_size=window, kernel_size=pool)


def tied(make):
    """What kvt keeps where scores are equal: the lowest positions."""
    def of(t, budget):
        out = []
        for l in range(t.L):
            score = make(t, ratio(t, budget)).score(*t.inputs(l))[0]
            out.append([sorted(np.argsort(-s, kind="stable")[:budget].tolist()) for s in score.numpy()])
        return out
    return of


def pinned_first(make, slots):
    """CriticalKV where the base's protected slots are never weighed by their values."""
    def of(t, budget):
        own = CriticalKVPress.vwl1norm

        def norm(values, module):
            out = own(values, module)
            out[..., slots(t)] = 1e9
            return out
        CriticalKVPress.vwl1norm = staticmethod(norm)
        try:
            return plain(make)(t, budget)
        finally:
            CriticalKVPress.vwl1norm = staticmethod(own)
    return of


def critical_ada(base, alpha):
    """AdaKV's counts, then CriticalKV with that many slots in each head."""
    def of(t, budget):
        counts = plain(lambda t, r: AdaKVPress(base(t, r), alpha_safeguard=alpha))(t, budget)
        return [[compress(CriticalKVPress(base(t, ratio(t, len(counts[l][g])))), t, l, [g])[0] for g in range(t.G)]
                for l in range(t.L)]
    return of


def with_ends(of, first, last):
    """The ends in place of the slot with which they tie."""
    def better(t, budget):
        ends = list(range(first)) + list(range(t.N - last, t.N))
        assert budget == len(ends)
        return [[ends for _ in kept] for kept in of(t, budget)]
    return better


def layers(make):
    """One press for all layers, which remembers: make(t)."""
    def of(t, budget):
        press = make(t)
        return [compress(press, t, l) for l in range(t.L)]
    return of


def simlayer(window, lazy):
    return layers(lambda t: SimLayerKVPress(lazy_threshold=lazy, n_recent=window))


def duo(sinks, window, share):
    def make(t):
        press = DuoAttentionPress(head_compression_ratio=share)
        press.load_attention_pattern = lambda model: (sinks, window, t.gate)
        press.post_init_from_model(type("Model", (), {"device": "cpu"})())
        return press
    return layers(make)


def lukv(t, budget):
    press = LUKVPress(ExpectedAttentionPress(epsilon=2e-2), compression_ratio=ratio(t, budget))
    press._budget_curves = 1 - t.keep.transpose(2, 0, 1)[::-1]  # by what is removed
    return [compress(press, t, l) for l in range(t.L)]


def lukv_pins(t, budget):
    pins = set(range(4)) | {t.N - 1}
    return [[sorted(set(kept) | pins) if len(kept) < len(pins) else kept for kept in sets] for sets in lukv(t, budget)]


def everything(t, budget):
    return [[list(range(t.N)) for g in range(t.G)] for l in range(t.L)]


def qfilter(t, r):
    press = QFilterPress(r)
    press.q_filters = torch.tensor(t.filter)
    return press


def finch(window, rerotate=True):
    def make(t, r):
        press = FinchPress(r, rerotate_keys=rerotate)
        press.window_size = window
        return press
    return make


def classic(t, r):
    """8bb29b9 at a budget of 1: no first stage."""
    return CriticalKVPress(KnormPress(r), first_stage_ratio=0)


def ada(make, alpha=0.2):
    return plain(lambda t, r: AdaKVPress(make(t, r), alpha_safeguard=alpha))


def expected(**args):
    return lambda t, r: ExpectedAttentionPress(r, **args)


def cases():
    """policy, params, allocator, its params, kvpress's sets, (why, kvt's sets) or None, toys, budgets"""
    K = "compat=kvpress"
    both = (BIG, SMALL)
    kv = "rule=kvpress"
    # plain scores
    yield "l2norm", K, "", "", plain(lambda t, r: KnormPress(r)), None, both, (1, 7, 30)
    yield "keydiff", K, "", "", plain(lambda t, r: KeyDiffPress(r)), None, both, (1, 7, 30)
    for block in (16, 128):
        yield ("keydiff", f"compat=official,block={block}", "", "",
               plain(lambda t, r: BlockPress(KeyDiffPress(r), block_size=block)), None, both, (7, 30))
    yield "expected-attention", K, "", "", plain(expected()), None, both, (5, 12, 30)
    yield "expected-attention", K + ",covariance=false,norm=none,future=64", "", "", plain(
        expected(use_covariance=False, use_vnorm=False, n_future_positions=64)), None, both, (12, 30)
    yield "expected-attention", "compat=kvpress-lukv", "", "", plain(expected(epsilon=2e-2)), None, both, (12, 30)
    yield "capkv", K, "", "", plain(lambda t, r: CapPress(r)), None, both, (5, 12, 30)
    yield "capkv", K + ",tau=1,future=16", "", "", plain(
        lambda t, r: CapPress(r, tau=1.0, n_future_positions=16)), None, both, (12, 30)
    yield "qfilters", K, "", "", plain(qfilter), None, both, (1, 12, 30)
    for of, kind in (("product", "kv_product"), ("key", "key"), ("value", "value"), ("average", "kv_avg")):
        yield "cur", f"{K},of={of}", "", "", plain(lambda t, r: CURPress(r, leverage_type=kind)), None, both, (5, 12, 30)
    yield "cur", K + ",local=0,sinks=2", "", "", plain(
        lambda t, r: CURPress(r, use_local_approximation=False, num_sinks=2)), None, both, (12, 30)
    yield "cur", K + ",random=20", "", "", drawn(
        lambda t, r: CURPress(r, use_random_leverage=True), 20, True), None, both, (12, 30)
    # partitions
    lag = lambda size, sinks=4: lambda t, r: LagKVPress(r, lag_size=size, n_sink=sinks)
    yield "lagkv", K + ",lag=16", "", "", plain(lag(16)), (TIES, tied(lag(16))), both, (31, 40, 50)
    yield "lagkv", K + ",lag=10,sinks=1", "", "", plain(lag(10, 1)), (TIES, tied(lag(10, 1))), both, (23, 40)
    yield "lagkv", K, "", "", plain(lag(128)), None, both, (5, 30)
    # Compactor and its halves
    for sketch in (0, 6):
        k = sketch or 8
        yield ("leverage", f"{K},sketch={sketch}", "", "", drawn(lambda t, r: LeverageScorePress(r, sketch_dimension=k),
                                                                 sketch, False), None, both, (1, 12, 30))
        for chunk in (32, 256):
            make = lambda t, r: CompactorPress(r, chunk_size=chunk, sketch_dimension=k)
            yield ("compactor", f"{K},sketch={sketch},chunk={chunk}", "", "", drawn(make, sketch, False), None, both, (14, 20, 30))
            yield ("compactor", f"{K},sketch={sketch},chunk={chunk}", "", "", drawn(make, sketch, False),
                   (ENDS, with_ends(drawn(make, sketch, False), 8, 4)), both, (12,))
    yield "compactor", K + ",sketch=0,blend=0.35,first=3,last=2", "", "", drawn(
        lambda t, r: CompactorPress(r, sketch_dimension=8, blending=0.35, sink_size_start=3, sink_size_end=2),
        0, False), None, both, (20,)
    for chunk in (32, 256):
        yield "noncausal", f"{K},chunk={chunk}", "", "", plain(
            lambda t, r: NonCausalAttnPress(r, chunk_size=chunk)), None, both, (1, 12, 30)
    # the last queries
    yield "observed", "", "", "", plain(lambda t, r: ObservedAttentionPress(r), True), None, both, (1, 12, 30)
    yield "snapkv", K + ",window=16", "", "", plain(snap(16, 5)), None, both, (20, 30)
    yield "tova", K, "", "", plain(lambda t, r: TOVAPress(r)), None, both, (1, 12, 30)
    yield "streaming", K, "", "", plain(lambda t, r: StreamingLLMPress(r)), None, both, (5, 30)
    yield "pyramidkv", K + ",window=8", "", "beta=4", plain(
        lambda t, r: PyramidKVPress(r, window_size=8, beta=4)), None, both, (25, 30)
    for window in (7, 16):
        yield "finch", f"{K},window={window}", "", "", plain(finch(window, False)), None, both, (17, 30)
    # heads that share
    yield "adakv", K + ",window=8", "", "", ada(snap(8, 5)), None, both, (8, 9, 20, 30)
    yield "adakv", K + ",window=8,pool=7", "", "floor=0.5", ada(snap(8, 7), 0.5), None, both, (20, 30)
    yield "keydiff", K, "ada", kv, ada(lambda t, r: KeyDiffPress(r)), None, both + (SHORT,), (2, 12, 30)
    yield "l2norm", K, "ada", kv + ",floor=0", ada(lambda t, r: KnormPress(r), 0), None, both + (SHORT,), (12, 30)
    yield "expected-attention", "compat=kvpress-adakv", "ada", kv, ada(expected(epsilon=1e-2)), None, both, (6, 12, 30)
    # two stages
    for window, budgets in ((8, (20, 40)), (8, (9, 12, 15))):
        base = f",base.compat=kvpress,base.window={window}"
        make = lambda t, r: CriticalKVPress(snap(window, 5)(t, r))
        yield ("criticalkv", K + base, "", "", plain(make),
               (WINDOW, pinned_first(make, lambda t: slice(t.N - window, t.N))), both, budgets)
    make = lambda t, r: CriticalKVPress(expected(use_vnorm=False)(t, r), first_stage_ratio=0.25)
    yield ("criticalkv", K + ",share=0.25,base=expected-attention,base.compat=kvpress,base.norm=none", "", "",
           plain(make), (WINDOW, pinned_first(make, lambda t: slice(0, 4))), both, (6, 12, 30))
    yield "criticalkv", "compat=paper,base=keydiff,base.compat=kvpress", "", "", plain(
        lambda t, r: CriticalKVPress(KeyDiffPress(r))), None, both, (1, 7)
    for base, kind in (("cur", CURPress), ("noncausal", NonCausalAttnPress), ("capkv", CapPress)):
        yield ("criticalkv", f"{K},base={base},base.compat=kvpress", "", "",
               plain(lambda t, r: CriticalKVPress(kind(r))), None, (BIG,), (12, 30))
    yield "criticalkv", K + ",base=l2norm,base.compat=kvpress", "", "", plain(classic), None, both, (1,)
    for alpha in (0.2, 0.6):
        make = lambda t, r: CriticalAdaKVPress(snap(4, 5)(t, r), alpha_safeguard=alpha)
        yield ("criticalkv", K + ",base.compat=kvpress,base.window=4", "ada", f"{kv},floor={alpha}", plain(make),
               (SAFE, critical_ada(snap(4, 5), alpha)), (BIG,), (12, 20, 30))
    # chunks, layers, tables
    for chunk in (12, 20):
        yield ("chunkkv", f"{K},chunk={chunk},base.compat=kvpress,base.window=8", "", "",
               plain(lambda t, r: ChunkKVPress(snap(8, 5)(t, r), chunk_length=chunk)), None, both, (12, 26, 50))
    yield "chunkkv", K + ",chunk=8,base=keydiff,base.compat=kvpress", "", "", plain(
        lambda t, r: ChunkKVPress(KeyDiffPress(r), chunk_length=8)), None, both, (1, 12, 30)
    yield "chunkkv", K + ",chunk=40,base=keydiff,base.compat=kvpress", "", "", plain(
        lambda t, r: ChunkKVPress(KeyDiffPress(r), chunk_length=40)), None, (SHORT,), (12,)
    for window, lazy in ((24, 0.28), (24, 0.34), (40, 0.5)):
        yield "simlayerkv", f"{K},window={window},lazy={lazy}", "", "", simlayer(window, lazy), None, both, (30,)
    yield "simlayerkv", f"{K},window=24,lazy=0.5", "", "", simlayer(24, 0.5), None, (BEYOND,), (20,)
    yield "simlayerkv", f"{K},window=24,lazy=0.5", "", "", simlayer(24, 0.5), (REFUSED, everything), (EDGE,), (20,)
    yield "duo", f"{K},sinks=5,window=28,ratio=0.5", "", "", duo(5, 28, 0.5), (REFUSED, everything), (SHORT,), (20,)
    for share in (0, 0.5, 0.75, 1):
        yield "duo", f"{K},sinks=5,window=20,ratio={share}", "", "", duo(5, 20, share), None, both, (30,)
    yield "lukv", K + ",base.compat=kvpress-lukv", "", "", lukv, (PINS, lukv_pins), both, (6, 12, 30, 50)


def channels():
    """ThinK: channels of the keys that stay, chosen with a share that goes."""
    for name in (BIG, SMALL):
        for window in (32, 8):
            for prune in (0.13, 0.4, 0.5, 0.9):
                def of(t):
                    out = []
                    for l in range(t.L):
                        args = t.inputs(l)
                        keys, _ = ThinKPress(prune, window).compress(*args)
                        out.append([[d for d in range(8) if keys[0, g, :, d].any()] for g in range(t.G)])
                    return out
                yield name, f"compat=kvpress,window={window},prune={prune}", of


def steady(of, name, what):
    """The sets on the toy, which must be those on numbers that are off by a little."""
    sets = of(Presses(name))
    for seed in range(3):
        again = of(Presses(name, 1e-6, np.random.default_rng(seed)))
        assert sets == again, (name, what, "a cut between scores that rounding could swap")
    return sets


def write_rule():
    """How many stay: compute_n_kept."""
    with open("kvpress_rule.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["tokens", "kept_share", "kept"])
        for n in (1, 7, 61, 100, 450, 1000, 4097):
            for percent in (1, 5, 7, 10, 25, 29, 30, 33, 50, 57, 58, 70, 90, 99):
                out.writerow([n, f"{percent}%", compute_n_kept(n, (100 - percent) / 100)])


def main():
    rows, explained, n_lane = [], {}, 0
    for policy, params, share, share_params, of, other, toys, budgets in cases():
        for name in toys:
            for budget in budgets:
                what = (policy, params, share, share_params, budget)
                own = of(Presses(name), budget)
                kvt = own
                if other:
                    kvt = steady(lambda t: other[1](t, budget), name, what)
                    if kvt == own:
                        steady(lambda t: of(t, budget), name, what)
                else:
                    steady(lambda t: of(t, budget), name, what)
                for l, sets in enumerate(own):
                    for g, kept in enumerate(sets):
                        lost, gained = (sorted(set(a) - set(b)) for a, b in ((kept, kvt[l][g]), (kvt[l][g], kept)))
                        why = other[0] if lost or gained or other and other[0] == REFUSED else ""
                        assert why != REFUSED or not lost + gained
                        explained[why] = explained.get(why, 0) + 1
                        n_lane += 1
                        rows.append([name, policy, params, share, share_params, budget, l, g,
                                     runs(kept), runs(lost), runs(gained), why])
    for name, params, of in channels():
        for l, sets in enumerate(steady(of, name, params)):
            for g, kept in enumerate(sets):
                n_lane += 1
                rows.append([name, "think", params, "", "", 0, l, g, runs(kept), "", "", ""])
    with open("kvpress_more.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["toy", "policy", "params", "share", "share_params", "budget", "layer", "lane", "kept", "lost", "gained",
                      "why"])
        out.writerows(rows)
    write_rule()
    for why, n in sorted(explained.items()):
        print(f"{n:5} lanes: {why or 'the same set'}")
    print(f"{n_lane} lanes; what kvt keeps of them is test_golden_presses's to say")


if __name__ == "__main__":
    main()
