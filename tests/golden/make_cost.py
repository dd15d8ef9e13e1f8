#!/usr/bin/env python3
"""Writes cost.csv: times of the cost model by a second calculator, for test_golden_cost.c.

Written from the formulae of docs/cost.md (prefill, decode, eviction), layer by layer, chunk by
chunk and step by step, where the C files sum in closed form. Python 3.8 or later, standard
library only:

    python3 tests/golden/make_cost.py > tests/golden/cost.csv

A line is a list of cells: its kind, then key=value; behind '>' stand the parts that the formulae
give, in seconds.
"""
import itertools

# ---- models and machines ---------------------------------------------------------------------

MODELS = {
    #        L,  E,    H,  G,  D,   I,     V,      window, period
    "8b": (32, 4096, 32, 8, 128, 14336, 128256, 0, 0),
    "1b": (16, 2048, 32, 8, 64, 8192, 128256, 0, 0),
    "local": (26, 1152, 4, 1, 256, 6912, 262144, 512, 6),
    "small": (24, 896, 14, 2, 64, 4864, 151936, 0, 0),
}

FUSED = dict(engine="fused", peak_flops_16=989e12, peak_flops_32=67e12, mem_bw=3.35e12, cache_gain=2.0,
             e_lin=0.65, e_att=0.55, n_half=500.0, hd64_factor=0.77, window_half=700.0, e_w=0.85,
             e_kv=0.78, e_m=0.87, t_launch=3e-6, launches_layer=12.0, t_layer=30e-6, t_step=126e-6,
             t_req=5e-6, kv_traffic=1.0, link_bw=450e9)
MACHINES = {
    "fused": FUSED,
    "eager": dict(FUSED, engine="eager", e_lin=0.49, e_att=0.355, n_half=0.0, t_launch=10e-6,
                  launches_layer=45.0, t_layer=0.0, t_step=0.0, host_floor_layer=470e-6,
                  host_smooth=4.0, kv_traffic=3.0, evict_factor=1.99, evict_floor=0.011),
    "cpu": dict(engine="fused", peak_flops_32=110e9, mem_bw=13.5e9, cache_gain=1.0, e_lin=0.7, e_att=0.5,
                hd64_factor=0.77, window_half=0.0, e_w=0.9, e_kv=0.8, e_m=0.8, kv_traffic=1.0),
    "full": dict(FUSED, peak_flops_16=165e12, peak_flops_w4=90e12, mem_bw=1e12, cache_bytes=1.3e9, cache_gain=2.5,
                 elementwise=1.0, t_ttft=0.015, host_floor_step=0.002, host_floor_layer=20e-6,
                 kv8_scale_bytes=4.0),
    "narrow": dict(FUSED, mem_bw=5e9),  # attention of a chunked prefill waits for its keys
    "paper": dict(engine="paper", peak_flops_16=756e12, mem_bw=2e12, e_lin=0.7, e_att=0.7, hd64_factor=1.0, e_w=0.9,
                  e_kv=0.9, e_m=0.9),
}
PLAIN = [name for name in MACHINES if name != "paper"]
SETTINGS = [
    dict(),
    dict(batch=3, chunk=512),
    dict(batch=2, tensor=2, kv_bits=8, weight_bits=4),
    dict(tensor=4, chunk=1000, kv_bits=4, full_windows=1),
    dict(all_logits=1, weight_bits=8),
]


class Model:
    def __init__(self, name):
        self.name = name
        (self.L, self.E, self.H, self.G, self.D, self.I, self.V, self.w, self.period) = MODELS[name]
        self.lin = self.L * (2 * self.E * self.H * self.D + 2 * self.E * self.G * self.D + 3 * self.E * self.I)
        self.head = self.V * self.E
        self.windows = [self.w if self.period and (l + 1) % self.period else 0 for l in range(self.L)]


class Machine:
    def __init__(self, name):
        self.name = name
        self.given = MACHINES[name]

    def __getattr__(self, key):
        return self.given.get(key, 0)


class Setting:
    def __init__(self, given):
        self.given = given

    def __getattr__(self, key):
        base = dict(batch=1, tensor=1, kv_bits=16, weight_bits=16)
        return self.given.get(key, base.get(key, 0))


# ---- what everything needs -------------------------------------------------------------------

def peak(m):
    return m.peak_flops_16 or m.peak_flops_32


def act(m):
    return 2 if m.peak_flops_16 else 4


def half_rate(m, s):
    """Of 16-bit weights: the output matrix, scorers."""
    return lin_rate(m, Setting(dict(s.given, weight_bits=16)))


def lin_rate(m, s):
    four = s.weight_bits < 8 and m.peak_flops_w4
    return (four or peak(m) * m.e_lin) * s.tensor


def att_rate(g, m, s):
    return peak(m) * m.e_att * (m.hd64_factor if g.D <= 64 else 1) * s.tensor


def slot_bytes(g, m, s):
    """Keys and values of one token and kv head."""
    b = 2 * g.D * s.kv_bits / 8
    if s.kv_bits == 8:
        b += m.kv8_scale_bytes
    if s.kv_bits == 4:
        b += 2 * 2 * -(-g.D // 32)
    return b


def kv_share(g, s):
    """Requests, over the devices that kv heads can be spread to."""
    return s.batch / min(s.tensor, g.G)


def lin_bytes(g, s):
    return g.lin * s.weight_bits / 8 / s.tensor


def held(g, s, l, n):
    w = g.windows[l]
    return n if not w or s.full_windows else min(n, w)


def exchange(g, m, s, tokens, rounds):
    d = s.tensor
    if d == 1:
        return 0.0
    payload = s.batch * tokens * g.E * act(m)
    return sum(2 * (2 * (d - 1) / d * payload / m.link_bw + rounds * m.t_launch) for _ in range(g.L))


def pairs(n, w):
    return n * (n + 1) / 2 if not w or n <= w else w * (w + 1) / 2 + (n - w) * w


def att_time(g, m, s, l, n, flops):
    """Of a layer, at the rate that a prompt of n tokens reaches."""
    e = n / (n + m.n_half)
    w = g.windows[l]
    if w and w < n:
        e *= w / (w + m.window_half)
    return flops * s.batch / (att_rate(g, m, s) * e)


# ---- prefill ---------------------------------------------------------------------------------

def chunks(s, n):
    size = s.chunk or n
    return [min(size, n - at) for at in range(0, n, size)]


def prefill(g, m, s, n):
    pieces = chunks(s, n)
    math = 2 * n * g.lin / lin_rate(m, s) + 2 * (n if s.all_logits else 1) * g.head / half_rate(m, s)
    out = {"linear": max(math * s.batch, len(pieces) * lin_bytes(g, s) / (m.mem_bw * m.e_w))}
    out["attention"] = 0.0
    for l in range(g.L):
        w, read, so_far = g.windows[l], 0, 0
        for piece in pieces:
            so_far += piece
            read += min(so_far, w + piece) if w else so_far
        memory = read * slot_bytes(g, m, s) * g.G * kv_share(g, s) / (m.mem_bw * m.e_kv)
        out["attention"] += max(att_time(g, m, s, l, n, 4 * g.H * g.D * pairs(n, w)), memory)
    wide = 8 * g.E + (2 * (g.H + g.G) * g.D + 3 * g.I) / s.tensor
    out["elementwise"] = n * s.batch * g.L * act(m) * wide / (m.mem_bw * m.e_m) if m.elementwise else 0.0
    out["exchange"] = exchange(g, m, s, n, len(pieces))
    device = sum(out.values())
    out["host"] = max(0.0, g.L * m.launches_layer * m.t_launch * len(pieces) - device)
    out["constant"] = m.t_ttft
    out["total"] = sum(out.values())
    return out


# ---- decode ----------------------------------------------------------------------------------

def step(g, m, s, run, w):
    """run: slots, busiest, held, summed over layers and lanes."""
    weights = lin_bytes(g, s) + g.head * 2 / s.tensor
    lanes = g.H if w.get("by_query_head") else g.G
    slot = slot_bytes(g, m, s) * kv_share(g, s)
    near = weights < m.cache_bytes and weights + run["slots"] * slot <= m.cache_bytes
    bw = m.mem_bw * (max(1, m.cache_gain) if near else 1)
    out = {"fixed": m.t_step + g.L * m.t_layer + s.batch * m.t_req}
    out["weights"] = max(weights / (bw * m.e_w), 2 * s.batch * (g.lin + g.head) / lin_rate(m, s))
    read = max(run["slots"], run["busiest"])
    if w.get("keeps_all"):  # never more than the whole cache, once
        read *= min(1, run["held"] / run["slots"])
    out["kv"] = read * slot * (m.kv_traffic or 1) / (bw * m.e_kv)
    policy = copy = 0.0
    if w.get("in_decode"):
        every, rows = w.get("every", 1), w.get("decode_rows", 0)
        group = g.H / (g.G if w.get("keeps_all") else lanes)  # what is held is ranked, or what rows see
        ranked = run["held"] if w.get("keeps_all") else run["slots"]
        anew = rows if rows > 1 else g.D if w.get("score") == "moments" else 0
        reads = (1 if w.get("decode_reads_keys") or anew else 0) + w.get("decode_reads_values", 0)
        score = 0.0
        if reads:
            math = 2 * anew * ranked * group * g.D * s.batch / att_rate(g, m, s)
            score = max(math, reads * ranked * slot / 2 / (bw * m.e_m))
        if m.engine == "eager":
            score += 24 * rows * ranked * group * kv_share(g, s) / (bw * m.e_m)
        picks = 4 if every == 1 else 4 * (1 + 2 + 4)  # the least one, or many
        moves = w.get("decode_state_moves", 0) + (picks if w.get("selects") else 0)
        score += moves * ranked * kv_share(g, s) / (bw * m.e_m)
        policy = score / every
        if w.get("network_flops"):
            policy += max(w["network_flops"] * lanes * g.L * s.batch / half_rate(m, s),
                          w.get("network_params", 0) * lanes * g.L * act(m) / s.tensor / (bw * m.e_m))
        policy += 2 * w.get("state_lane", 0) * lanes * g.L * kv_share(g, s) / (bw * m.e_m) / every
        if w.get("joins"):
            policy += 2 * slot * lanes * g.L / (bw * m.e_m)
        if every > 1:
            policy += 8 * g.L * m.t_launch / every
        if not (w.get("in_place") or w.get("joins") or w.get("keeps_all") or s.masked):
            copy = 2 * run["slots"] * slot / (bw * m.e_m) / every
    out["policy"], out["copy"] = policy, copy
    out["exchange"] = exchange(g, m, s, 1, 1)
    device = sum(out.values())
    host = m.host_floor_step + g.L * m.host_floor_layer
    both = (device ** m.host_smooth + host ** m.host_smooth) ** (1 / m.host_smooth) if m.host_smooth else max(device, host)
    out["host"] = both - device
    out["total"] = sum(out.values())
    return out


# ---- eviction --------------------------------------------------------------------------------

def score(g, m, s, w, n, layers, rows, passes):
    kind = w["score"]
    moved = m.mem_bw * m.e_m
    t = 0.0
    for l in layers:
        slots = held(g, s, l, n)
        keys = slots * g.G * slot_bytes(g, m, s) / 2 * kv_share(g, s)
        read = (passes + w.get("reads_values", 0)) * keys / moved
        if kind == "rows":
            t += max(2 * rows * slots * g.H * g.D * s.batch / att_rate(g, m, s), read)
        elif kind == "keys":
            t += read
        elif kind == "moments":
            t += max(2 * slots * g.D ** 2 * g.H * s.batch / att_rate(g, m, s), read)
    everywhere = sum(held(g, s, l, n) for l in layers) * g.G
    keys = everywhere * slot_bytes(g, m, s) / 2 * kv_share(g, s)
    if kind == "columns":  # Q K^T alone: half of causal attention
        math = sum(att_time(g, m, s, l, n, 2 * g.H * g.D * pairs(n, g.windows[l])) for l in layers)
        t += max(math * w.get("rows_frac", 0.5) / 0.5, (passes + w.get("reads_values", 0)) * keys / moved)
    if kind == "repeat":
        device = 2 * n * g.lin * s.batch / lin_rate(m, s) + exchange(g, m, s, n, 1)
        for l in range(g.L):
            reach = min(n, g.windows[l] or n)
            device += att_time(g, m, s, l, n, 4 * g.H * g.D * n * reach)
        t += max(device, g.L * m.launches_layer * m.t_launch)
    if w.get("network_flops"):
        lanes = g.H if w.get("by_query_head") else g.G
        t += max(w["network_flops"] * everywhere / g.G * lanes * s.batch / half_rate(m, s),
                 (1 + w.get("reads_values", 0)) * keys / moved
                 + w.get("network_params", 0) * g.L * lanes * act(m) / s.tensor / moved)
    return t


def eager_bytes(g, m, q, n):
    if not q:
        return 0.0
    return sum(24 * q * min(n, g.windows[l] or n) * g.H + (2 * g.G + 3 * g.H) * min(n, g.windows[l] or n) * g.D * act(m)
               for l in range(g.L))


def stage(g, m, s, w, n, budget, drafts, extra, rows, passes):
    out = dict(extra=extra, score=0.0, select=0.0, copy=0.0, host=0.0)
    lanes = g.H if w.get("by_query_head") else g.G
    stays = w.get("keeps_all") or s.masked
    layers = [l for l in range(g.L) if n > budget and (stays or held(g, s, l, n) > budget)]
    if not layers:
        return out
    moved = m.mem_bw * m.e_m
    out["score"] = score(g, m, s, w, n, layers, rows, passes)
    picks = w.get("selects") and w.get("when") != "never"
    if picks:
        out["select"] = sum(4 * held(g, s, l, n) * lanes * (1 + 2 + 4) for l in layers) * kv_share(g, s) / moved
    if not stays:
        out["copy"] = sum(2 * budget * lanes for _ in layers) * slot_bytes(g, m, s) * kv_share(g, s) / moved
    each = (2 if w["score"] != "none" else 0) + (4 if picks else 0) + (0 if stays else 2)
    out["host"] = each * len(layers) * m.t_launch
    if m.engine == "eager" and (picks or w["score"] != "none"):
        q = 0
        if w["score"] == "repeat" or w.get("whole_rows"):
            q = n
        elif w["score"] == "columns":
            q = int(n * min(1, 2 * w.get("rows_frac", 0.5)))
        elif drafts:
            q = drafts
        elif w["score"] == "rows":
            q = rows
        forward = out["score"] if w["score"] == "repeat" else 0.0
        measured = forward + max(m.evict_factor * eager_bytes(g, m, q, n) * s.batch / s.tensor / moved,
                                 0.0 if w.get("when") == "never" else m.evict_floor)
        device = extra + out["score"] + out["select"] + out["copy"]
        out["host"] = max(out["host"], measured - device)
    return out


def evict(g, draft, m, s, w, pub, n, budget):
    m_own = w.get("draft_tokens", 0) if w.get("draft") else 0
    drafts = (pub.get("draft_tokens") or m_own) if w.get("draft") else 0
    rows = w.get("rows", 0) + drafts - m_own
    x = w.get("extra_tokens", 0) + (drafts - m_own if w.get("draft") == "model" else 0)
    out = dict(prefill=0.0, draft=0.0)
    if w.get("draft") == "model":
        p = prefill(draft, m, Setting(dict(s.given, all_logits=0)), n)
        out["prefill"] = p["total"] - p["constant"]
    own = draft if w.get("draft") == "model" else g
    cache = n if w.get("draft") == "model" else min(n, budget)
    total = least = measured = 0.0
    for i in range(drafts):
        slots = sum(held(own, s, l, cache + i) for l in range(own.L)) * own.G
        one = step(own, m, s, dict(slots=slots, busiest=0, held=0), {})
        total += one["total"]
        least += one["fixed"] + one["weights"] + one["kv"] / max(1, m.kv_traffic) + one["exchange"]
        measured += pub.get("draft_step", 0)
        if w["draft"] == "model" and pub.get("draft_step_tokens"):
            more = sum(held(own, s, l, n) - held(own, s, l, pub["draft_step_tokens"]) for l in range(own.L))
            measured += more * own.G * slot_bytes(own, m, s) * kv_share(own, s) / (m.mem_bw * m.e_m)
    out["draft"] = max(least, measured) if pub.get("draft_step") else total
    if w.get("first_stage"):
        out["draft"] += sum(stage(g, m, s, w, n, budget, drafts, 0.0, rows, 1).values())
    extra = 0.0
    if x:
        seen = sum(min(n, g.windows[l] or n) for l in range(g.L))
        extra = 2 * x * g.lin * s.batch / lin_rate(m, s) + 4 * x * seen * g.H * g.D * s.batch / att_rate(g, m, s)
        extra += (w.get("lora_params", 0) + w.get("embed_params", 0)) * act(m) / s.tensor / (m.mem_bw * m.e_m)
        if w.get("lora_params"):
            extra += 2 * 7 * g.L * m.t_launch
        extra += exchange(g, m, s, x, 0)
    out.update(stage(g, m, s, w, n, budget, drafts, extra, rows, w.get("k_passes", 1)))
    out["total"] = sum(out.values())
    return out


# ---- the theory of LookaheadKV's appendix ----------------------------------------------------

def paper(g, draft, w, n, budget):
    """Its units: 2^40 FLOP, 2^30 bytes; 16 bits, 32 rows, one request."""
    math, memory, q = 756 * 0.7 * 2 ** 40, 2000 * 0.9 * 2 ** 30, 32

    def cache(own, tokens):
        return sum(min(tokens, w_ or tokens) * 2 * own.G * own.D * 2 for w_ in own.windows)

    def forward(own):
        return (2 * n * own.lin + 4 * own.L * own.H * own.D * n * n) / math

    x = (2 * q * g.lin + 4 * q * n * g.H * g.D * g.L) / math
    kept = cache(g, budget) / memory if budget < n else 0.0
    out = dict(extra=0.0, prefill=0.0, draft=0.0, score=0.0, select=0.0, copy=kept, host=0.0)
    if w.get("draft") == "model":
        out["extra"] = x
        out["prefill"] = max(forward(draft), 2 * draft.lin / memory)
        out["draft"] = sum(2 * draft.lin + cache(draft, n + i) for i in range(31)) / memory
    elif w.get("draft") == "self":
        out["extra"] = x
        out["draft"] = sum(2 * g.lin + cache(g, min(n, budget) + i) for i in range(32)) / memory
        out["score"] = (cache(g, n) + 2 * q * n * g.H * g.L * 2) / memory
        out["copy"] = 2 * kept
    elif w.get("extra_tokens"):
        out["extra"] = x + 2 * (w["lora_params"] + w["embed_params"]) / memory
    out["total"] = sum(out.values())
    return out


# ---- cases -----------------------------------------------------------------------------------

POLICIES = [
    dict(score="none"),
    dict(score="none", selects=1),
    dict(score="rows", rows=32, selects=1),
    dict(score="rows", rows=1, selects=1, whole_rows=1),
    dict(score="rows", rows=64, selects=1, reads_values=1, network_flops=2.0 * 3000, network_params=3000.0),
    dict(score="columns", selects=1, whole_rows=1),
    dict(score="columns", rows_frac=0.125, selects=1),
    dict(score="columns", selects=1),
    dict(score="keys", selects=1, reads_values=1),
    dict(score="moments", selects=1),
    dict(score="network", selects=1, network_flops=2.0 * 50000, network_params=50000.0),
    dict(score="repeat", selects=1),
    dict(score="rows", rows=32, selects=1, by_query_head=1),
    dict(score="network", selects=1, by_query_head=1, network_flops=2.0 * 50000, network_params=50000.0),
    dict(score="rows", rows=32, selects=1, keeps_all=1),
    dict(score="columns", selects=1, keeps_all=1, whole_rows=1, when="never"),
    dict(score="keys", selects=1, keeps_all=1, by_query_head=1, when="never"),
    dict(score="rows", rows=32, selects=1, extra_tokens=32, lora_params=2e7, embed_params=131072.0),
    dict(score="rows", rows=8, selects=1, draft="self", draft_tokens=8, first_stage=1, k_passes=2),
    dict(score="rows", rows=64, selects=1, draft="model", draft_tokens=32, extra_tokens=32),
]
DECODES = [
    dict(),
    dict(in_decode=1, in_place=1, decode_rows=1, selects=1, decode_state_moves=8.0),
    dict(in_decode=1, every=64, decode_rows=32, selects=1),
    dict(in_decode=1, in_place=1, decode_reads_keys=1, decode_reads_values=1, selects=1),
    dict(in_decode=1, in_place=1, network_flops=1e5, network_params=5e4, decode_state_moves=4.0, selects=1),
    dict(in_decode=1, joins=1),
    dict(in_decode=1, keeps_all=1, selects=1, decode_rows=1),
    dict(in_decode=1, every=16, decode_rows=1, by_query_head=1, selects=1),
    dict(in_decode=1, every=32, score="moments", decode_reads_keys=1, selects=1),
    dict(in_decode=1, in_place=1, network_flops=1e5, network_params=5e4, state_lane=33280.0, selects=1),
    dict(in_decode=1, every=128, decode_rows=9, state_lane=8192.0, selects=1),
    dict(in_decode=1, keeps_all=1, by_query_head=1, decode_rows=1, decode_state_moves=32.0, selects=1),
]
PUBLISHED = dict(self=dict(draft_tokens=32, draft_step=15.14e-3),
                 model=dict(draft_tokens=32, draft_step=1.9e-3, draft_step_tokens=4096))


def cell(value):
    return value if isinstance(value, str) else repr(value)


def line(kind, given, parts):
    cells = [kind] + [k + "=" + cell(v) for k, v in given.items()]
    if parts:
        cells += [">"] + [k + "=" + repr(float(v)) for k, v in parts.items()]
    print(",".join(cells))


def inputs():
    for name in MODELS:
        g = Model(name)
        line("model", dict(name=name, n_layer=g.L, n_hidden=g.E, n_head=g.H, n_kv_head=g.G, head_dim=g.D, n_ff=g.I,
                           n_vocab=g.V, window=g.w, period=g.period, theta_lin=g.lin, theta_head=g.head), None)
    for name, given in MACHINES.items():
        line("machine", dict(name=name, **given), None)


def prefills():
    for i, (g, m, n) in enumerate(itertools.product(MODELS, PLAIN, (1, 300, 4096, 33000))):
        for given in (SETTINGS[i % 5], SETTINGS[(i + 2) % 5]):
            if m == "cpu" and given.get("tensor"):
                continue  # it has no link
            parts = prefill(Model(g), Machine(m), Setting(given), n)
            line("prefill", dict(model=g, machine=m, n_prompt=n, **given), parts)


def steps():
    for i, (g, m, w) in enumerate(itertools.product(MODELS, PLAIN, DECODES)):
        model = Model(g)
        lanes = model.H if w.get("by_query_head") else model.G
        given = SETTINGS[i % 5]
        if m == "cpu" and given.get("tensor"):
            given = SETTINGS[1]
        if i % 7 == 0:
            given = dict(given, batch=4000)  # bound by math
        slots = (150.0, 4096.0, 30000.0)[i % 3] * model.L * lanes
        run = dict(slots=slots, busiest=slots * (1.0, 1.5)[i % 2], held=slots + 640.0)
        if w.get("keeps_all") and w.get("by_query_head"):
            run["held"] = slots * (0.5, 2.0)[i % 2]
        parts = step(model, Machine(m), Setting(given), run, w)
        line("step", dict(model=g, machine=m, **given, **run, **w), parts)


def evictions():
    sizes = ((4000, 128), (32768, 1024), (300, 128), (900, 512), (500, 500))
    for i, (g, m, w) in enumerate(itertools.product(MODELS, PLAIN[:4], POLICIES)):
        given = SETTINGS[(i // 3) % 5]
        if m == "cpu" and given.get("tensor"):
            given = SETTINGS[1]
        pub = PUBLISHED.get(w.get("draft"), {}) if m == "eager" and i % 2 else {}
        for n, budget in (sizes[i % 5], sizes[(i + 1) % 5]):
            parts = evict(Model(g), Model("1b"), Machine(m), Setting(given), w, pub, n, budget)
            line("evict", dict(model=g, machine=m, n_prompt=n, budget=budget, **given, **w,
                               **{"published_" + k: v for k, v in pub.items()}), parts)


def papers():
    for g, w, (n, budget) in itertools.product(MODELS, (POLICIES[2],) + tuple(POLICIES[17:]),
                                               ((4096, 128), (32768, 4096), (500, 600))):
        line("paper", dict(model=g, machine="paper", n_prompt=n, budget=budget, **w),
             paper(Model(g), Model("1b"), w, n, budget))


if __name__ == "__main__":
    inputs()
    prefills()
    steps()
    evictions()
    papers()
