#!/usr/bin/env python3
"""Writes cost_section8.csv and cost_equal.csv: the cost model calculated a second time.

    python3 tests/golden/cost_section8.py tests/golden

Standard library only. cost_section8.csv: published values beside what the formulae give, with
the constants fitted here (relative least squares). cost_equal.csv: evictions on an H100 where
every policy is implemented equally well. kvt's own numbers are compared with both.
"""
import csv
import pathlib
import sys

GiB, MiB, Ti = 2**30, 2**20, 2**40
LENGTHS = (4096, 8192, 16384, 32768)


class Model:
    """Shapes of a model: layers, width, query and kv heads, channels, feed-forward, rows."""

    def __init__(self, layers, width, heads, kv_heads, dim, inner, rows, tied, qk_norm=False,
                 bias=False):
        self.L, self.E, self.H, self.G, self.D, self.I, self.V = (layers, width, heads, kv_heads, dim,
                                                                  inner, rows)
        self.lin = layers * (2 * width * heads * dim + 2 * width * kv_heads * dim + 3 * width * inner)
        self.head = rows * width
        self.all = (self.lin + self.head * (1 if tied else 2) + (2 * layers + 1) * width
                    + layers * (heads + 2 * kv_heads) * dim * bias + 2 * layers * dim * qk_norm)

    def kv(self, n, size=2):
        """Bytes of keys and values of n tokens, `size` bytes an element."""
        return self.L * 2 * self.G * self.D * size * n

    def linear(self, n):
        return 2 * n * self.lin

    def attention(self, n, square=False):
        return 4 * self.H * self.D * self.L * (n * n if square else n * (n + 1) // 2)


MODELS = {
    "llama-3.2-1b": Model(16, 2048, 32, 8, 64, 8192, 128256, True),
    "llama-3.2-3b": Model(28, 3072, 24, 8, 128, 8192, 128256, True),
    "llama-3.1-8b": Model(32, 4096, 32, 8, 128, 14336, 128256, False),
    "llama-3.1-70b": Model(80, 8192, 64, 8, 128, 28672, 128256, False),
    "llama-2-7b": Model(32, 4096, 32, 32, 128, 11008, 32000, False),
    "qwen3-1.7b": Model(28, 2048, 16, 8, 128, 6144, 151936, True, qk_norm=True),
    "qwen3-4b": Model(36, 2560, 32, 8, 128, 9728, 151936, True, qk_norm=True),
    "qwen3-8b": Model(36, 4096, 32, 8, 128, 12288, 151936, False, qk_norm=True),
    "qwen2.5-0.5b": Model(24, 896, 14, 2, 64, 4864, 151936, True, bias=True),
    "qwen2.5-7b": Model(28, 3584, 28, 4, 128, 18944, 152064, False, bias=True),
    "mistral-7b": Model(32, 4096, 32, 8, 128, 14336, 32768, False),
    "phi-3-mini": Model(32, 3072, 32, 32, 96, 8192, 32064, False),
    "gemma-2-9b": Model(42, 3584, 16, 8, 256, 14336, 256000, True),
}
A, B1, Q8 = MODELS["llama-3.1-8b"], MODELS["llama-3.2-1b"], MODELS["qwen3-8b"]
ROWS = []


def put(figure, what, published, formula, digits=5):
    """`digits`: significant ones that kvt's number must share."""
    ROWS.append((figure, what, f"{published:.10g}", f"{formula:.10g}", digits))


def fit(points):
    """x of least squares of row . x = y, each residual divided by y."""
    k = len(points[0][0])
    m = [[sum(r[i] * r[j] / y / y for r, y in points) for j in range(k)]
         + [sum(r[i] / y for r, y in points)] for i in range(k)]
    for i in range(k):
        best = max(range(i, k), key=lambda r: abs(m[r][i]))
        m[i], m[best] = m[best], m[i]
        for r in range(k):
            if r != i:
                f = m[r][i] / m[i][i]
                m[r] = [a - f * c for a, c in zip(m[r], m[i])]
    return [m[i][k] / m[i][i] for i in range(k)]


def tokens(n):
    return f"{n:,} tokens"


# ---- LookaheadKV's theory table: 2^40 FLOP and GiB, n x n attention ---------------------------

def theory():
    math, memory, q, slots = 756 * .7, 2000 * .9, 32, 128
    params = 20.55e6
    printed = {
        4096: (60, 113, .92, 52.10, 233.81), 8192: (136, 257, 1.03, 79.53, 234.59),
        16384: (336, 635, 1.27, 157.05, 236.15), 32768: (928, 1754, 1.74, 402.80, 239.26)}
    columns = {  # FLOP and bytes of LookaheadKV, SnapKV, SpecKV, LAQ
        4096: ((60, 60, 70, 61), (13, 13, 77, 444)), 8192: ((137, 136, 159, 137), (13, 13, 81, 445)),
        16384: ((337, 336, 398, 337), (13, 13, 89, 447)),
        32768: ((929, 928, 1115, 930), (13, 13, 106, 451))}
    for n in LENGTHS:
        forward = A.linear(n) + A.attention(n, True)
        x = A.linear(q) + 4 * q * n * A.H * A.D * A.L
        copy = slots * A.kv(1)
        score = A.kv(n) + 2 * q * n * A.H * A.L * 2
        draft = B1.linear(n) + B1.attention(n, True)
        ms = {
            "LookaheadKV": x / Ti / math + (2 * params + copy) / GiB / memory,
            "SpecKV": (draft + x) / Ti / math
                      + (31 * 2 * B1.lin + sum(B1.kv(n + i) for i in range(31)) + copy) / GiB / memory,
            "LAQ": x / Ti / math + (32 * 2 * A.lin + sum(A.kv(slots + i) for i in range(32)) + score
                                    + 2 * copy) / GiB / memory,
            "SnapKV": copy / GiB / memory}
        p = printed[n]
        put("G5", f"Llama-3.1-8B, {tokens(n)}", p[0], forward / Ti)
        put("G6", f"Llama-3.1-8B, {tokens(n)}", p[1], forward / Ti / math * 1e3)
        for name, value in zip(("LookaheadKV", "SpecKV", "LAQ"), p[2:]):
            # The number of learned weights is rounded above, not in kvt.
            put("G7", f"{name}, {tokens(n)}", value, ms[name] * 1e3, 4 if name == "LookaheadKV" else 5)
        put("G8", f"SnapKV, {tokens(n)}", .01, ms["SnapKV"] * 1e3)
        flops = (forward + x, forward, forward + x + draft + 32 * 2 * B1.lin,
                 forward + x + 2 * q * A.lin)
        moved = (2 * A.lin + 2 * params + copy, 2 * A.lin + copy,
                 2 * A.lin + 33 * 2 * B1.lin + sum(B1.kv(n + i) for i in range(32)),
                 34 * 2 * A.lin + sum(A.kv(slots + i) for i in range(32)) + score)
        for i, name in enumerate(("LookaheadKV", "SnapKV", "SpecKV", "LAQ")):
            put("G9", f"{name}, FLOP, {tokens(n)}", columns[n][0][i], flops[i] / Ti)
            put("G9", f"{name}, bytes, {tokens(n)}", columns[n][1][i], moved[i] / GiB,
                4 if name == "LookaheadKV" else 5)


def adapters():
    for key, name, p in (("llama-3.2-1b", "Llama-3.2-1B", 5.4), ("llama-3.2-3b", "Llama-3.2-3B", 11.9),
                         ("llama-3.1-8b", "Llama-3.1-8B", 20.6), ("qwen3-1.7b", "Qwen3-1.7B", 8.5),
                         ("qwen3-4b", "Qwen3-4B", 16.2), ("qwen3-8b", "Qwen3-8B", 21.5)):
        m = MODELS[key]
        qo, kv = m.E + m.H * m.D, m.E + m.G * m.D
        layers = (m.L - 1) * (2 * qo + 2 * kv + 3 * (m.E + m.I)) + qo + kv
        put("G10", name, p, (8 * layers + 32 * m.E) / 1e6)


# ---- measured prefills and evictions ---------------------------------------------------------

H100 = dict(zip(LENGTHS, (.130, .291, .658, 1.760)))


def fit_prefill(m, peak, points, use):
    x, y = fit([((m.linear(n) / peak, m.attention(n) / peak), points[n]) for n in use])
    return {n: (m.linear(n) * x + m.attention(n) * y) / peak for n in points}, 1 / x, 1 / y


def prefills():
    h20 = {8192: 1.1106, 16384: 2.5607, 32768: 6.5718, 65536: 18.9441, 131072: 60.8399}
    for n, s in fit_prefill(A, 148e12, h20, (8192, 131072))[0].items():
        put("G19", tokens(n), h20[n], s)
    for figure, use in (("X3", (4096, 32768)), ("G11", LENGTHS)):
        for n, s in fit_prefill(A, 989e12, H100, use)[0].items():
            put(figure, f"Llama-3.1-8B, {tokens(n)}", H100[n] * 1e3, s * 1e3)


def evictions():
    bandwidth, q, floor = 3.35e12 * .87, 32, 11.0
    _, e_lin, e_att = fit_prefill(A, 989e12, H100, LENGTHS)
    snap = dict(zip(LENGTHS, (13.14, 20.17, 37.12, 77.67)))
    look = dict(zip(LENGTHS, (11.38, 10.88, 18.50, 38.04)))
    laq = dict(zip(LENGTHS, (506.58, 509.38, 523.54, 553.68)))
    spec = dict(zip(LENGTHS, (92.42, 120.51, 207.31, 502.87)))

    def eager(n):
        return A.L * (24 * q * n * A.H + (2 * A.G + 3 * A.H) * n * A.D * 2) / bandwidth * 1e3

    s_snap, s_look = snap[32768] / eager(32768), look[32768] / eager(32768)

    def evict(n):
        return max(floor, s_look * eager(n))

    step = (laq[4096] - 2 * evict(4096)) / 32
    for n in LENGTHS:
        put("G13", f"SnapKV, {tokens(n)}", snap[n], max(floor, s_snap * eager(n)))
        put("G12", f"LookaheadKV, {tokens(n)}", look[n], evict(n))
        put("G14", f"LAQ, {tokens(n)}", laq[n], 32 * step + 2 * evict(n))
    for factor, name in ((1., "SpecKV at the full rate"), (.77, "SpecKV")):
        def prefill(n):
            return (B1.linear(n) / e_lin + B1.attention(n) / e_att / factor) / 989e12 * 1e3
        draft = (spec[4096] - prefill(4096) - evict(4096)) / 32
        for n in LENGTHS:
            grown = (n - 4096) * B1.kv(1) / bandwidth * 1e3
            put("G15", f"{name}, {tokens(n)}", spec[n], prefill(n) + 32 * (draft + grown) + evict(n))
    put("G17", "overhead of LAQ / of LookaheadKV", 553.68 / 38.04,
        (32 * step + 2 * evict(32768)) / evict(32768))
    put("X4", "overhead of LookaheadKV, of the measured 1,760 ms", 2.16,
        evict(32768) / 17.60)


# ---- memory ------------------------------------------------------------------------------------

def memory():
    def peak(n, kept):
        return (2 * A.all + A.kv(kept) + n * 2 * (3 * A.I + 4 * A.E)) / GiB

    shares = ((1, "all kept", ((8000, 16.85), (16000, 18.7), (32000, 22.45), (64000, 29.9), (128000, 44.8))),
              (.5, "half kept", ((32000, 20.5), (64000, 26.), (128000, 37.))),
              (.2, "a fifth kept", ((32000, 19.3), (64000, 23.65), (128000, 32.35))))
    for keep, name, points in shares:
        for n, p in points:
            put("G20", f"{tokens(n)}, {name}", p, peak(n, keep * n))
    for heads, name, p in ((A.H, "query head", 22.49), (A.G, "kv head", 21.74)):
        put("G21", f"a set for each {name}, 2,048 slots", p,
            (2 * A.all + 9000 * A.V * 6 + 2048 * A.L * heads * A.D * 4) / GiB)
    for slots, what, p in ((2048, "2,048 slots (difference of those peaks)", 768), (128, "128 slots", 48)):
        put("G21", what, p, slots * A.L * (A.H - A.G) * A.D * 4 / MiB)

    def framework(c):
        return (2 * Q8.all + Q8.kv(c) + 2 * c * Q8.G * Q8.D + 4 * c * Q8.H * Q8.D) / GiB
    # kvt counts the logits of one position, too: 4 digits.
    put("G22", tokens(16384), 18, framework(16384), 4)
    put("G22", tokens(131072), 36, framework(131072), 4)
    put("X5", "4,096 slots", 19, framework(4096), 4)
    put("X5", "32,768 slots", 19, framework(32768), 4)
    big = MODELS["llama-3.1-70b"]
    put("G3", tokens(131072), 40, big.kv(131072) / GiB)
    put("G3", tokens(2**20), 320, big.kv(2**20) / GiB)
    put("X1", tokens(10**6), 330, big.kv(10**6) / 1e9)
    for m, name, n, p in ((B1, "Llama-3.2-1B", 10240, .3125), (B1, "Llama-3.2-1B", 67584, 2.0625),
                          (Q8, "Qwen3-8B", 10240, 1.40625), (Q8, "Qwen3-8B", 67584, 9.28125)):
        put("G4", f"{name}, {tokens(n)}", p, m.kv(n) / GiB)


# ---- decode --------------------------------------------------------------------------------------

def decode():
    rate = 1.792e12
    names = {"llama-3.2-1b": "Llama-3.2-1B", "qwen3-8b": "Qwen3-8B"}
    points = [("llama-3.2-1b", 1, 8256, 2, 459.4), ("llama-3.2-1b", 1, 8256, 1, 489.4),
              ("llama-3.2-1b", 8, 8256, 2, 2357.5), ("llama-3.2-1b", 8, 8256, 1, 2888.7),
              ("qwen3-8b", 1, 8256, 2, 89.44), ("qwen3-8b", 1, 8256, 1, 93.12),
              ("qwen3-8b", 8, 8256, 2, 444.59), ("qwen3-8b", 8, 8256, 1, 583.39),
              ("llama-3.2-1b", 1, 131008, 2, 189.1), ("llama-3.2-1b", 1, 131008, 1, 265.9),
              ("qwen3-8b", 1, 40896, 2, 69.24), ("qwen3-8b", 1, 40896, 1, 79.46),
              ("qwen3-8b", 8, 40896, 2, 161.6), ("qwen3-8b", 8, 40896, 1, 286.3)]

    def row(key, batch, n, size):
        m = MODELS[key]
        return m.L, 2 * (m.lin + m.head) / rate, batch * m.kv(n, size) / rate
    t = fit([(row(*p[:4]), p[1] / p[4]) for p in points])
    for key, batch, n, size, speed in points:
        ms = 1e3 * sum(a * c for a, c in zip(t, row(key, batch, n, size)))
        put("G24", f"{names[key]}, batch {batch}, {n:,} slots, {8 * size} bits", 1e3 * batch / speed, ms)


def foreign():
    points = [
        ("Llama-3.1-8B, H100, vLLM, batch 1", "llama-3.1-8b", 3.35e12, 150, 1, 6.48),
        ("Llama-3.1-8B, H100, vLLM, batch 4", "llama-3.1-8b", 3.35e12, 150, 4, 6.59),
        ("Qwen2.5-7B, H100, vLLM, batch 4", "qwen2.5-7b", 3.35e12, 150, 4, 6.267),
        ("Mistral-7B, H100, vLLM, batch 4", "mistral-7b", 3.35e12, 150, 4, 7.041),
        ("Phi-3-mini, H100, vLLM, batch 4", "phi-3-mini", 3.35e12, 150, 4, 4.662),
        ("Gemma-2-9B, H100, vLLM, batch 4", "gemma-2-9b", 3.35e12, 150, 4, 8.648),
        ("Llama-3.1-8B, A100-40GB, vLLM, batch 1", "llama-3.1-8b", 1.555e12, 1088, 1, 1e3 / 75),
        ("Qwen2.5-0.5B, L4, vLLM, batch 1", "qwen2.5-0.5b", .3e12, 320, 1, 5.1),
        ("Qwen2.5-0.5B, L4, vLLM, batch 8", "qwen2.5-0.5b", .3e12, 320, 8, 5.5),
        ("Qwen2.5-0.5B, L4, vLLM, batch 32", "qwen2.5-0.5b", .3e12, 320, 32, 7.1),
        ("Llama-3-8B, RTX 4090, llama.cpp, 512 tokens", "llama-3.1-8b", 1.008e12, 256, 1, 1e3 / 54.84),
        ("Llama-3-8B, RTX 4090, llama.cpp, 8,192 tokens", "llama-3.1-8b", 1.008e12, 4096, 1, 1e3 / 50.88),
        ("Llama-2-7B, RTX 4090, llama.cpp, 128 tokens", "llama-2-7b", 1.008e12, 64, 1, 1e3 / 61.03),
        ("Llama-3-8B, RTX 3090, llama.cpp, 512 tokens", "llama-3.1-8b", .936e12, 256, 1, 1e3 / 47.4),
        ("Llama-3-8B, RTX 3090, llama.cpp, 8,192 tokens", "llama-3.1-8b", .936e12, 4096, 1, 1e3 / 42.62),
        ("Llama-3-8B, M2 Ultra, llama.cpp, 512 tokens", "llama-3.1-8b", .8e12, 256, 1, 1e3 / 36.9),
        ("Llama-3-8B, M1 Max, llama.cpp, 512 tokens", "llama-3.1-8b", .4e12, 256, 1, 1e3 / 18.75),
        ("Llama-2-7B, A100-80GB PCIe, llama.cpp of 2023", "llama-2-7b", 1.935e12, 256, 1, 1e3 / 73.83),
        ("Llama-2-7B, H100 PCIe, llama.cpp of 2023", "llama-2-7b", 2e12, 256, 1, 1e3 / 83.32),
        ("an 8B model, H100, captured graph", "llama-3.1-8b", 3.35e12, 150, 1, 5.1)]
    for what, key, rate, n, batch, ms in points:
        m = MODELS[key]
        put("G27", what, ms, 1e3 * (126e-6 + 30e-6 * m.L + 2 * (m.lin + m.head) / rate / .85
                                    + batch * m.kv(n) / rate / .78))


def phone():
    small, large = B1, MODELS["llama-3.2-3b"]
    # kvt counts attention, the output matrix and the cache, too, and no norms: 2 digits.
    put("G26", "decode, 16 bits", 7.6, small.all * 19.2 / large.all, 2)
    put("G26", "prefill of 64 tokens, 16 bits", 21.2, 60.3 * small.lin / large.lin, 2)
    put("G26", "prefill of 64 tokens, 4-bit weights", 89.7, 260.5 * small.lin / large.lin, 2)
    put("X2", "Llama-3.2-1B", 2358, 2 * small.all / MiB)
    put("X2", "Llama-3.2-3B", 6129, 2 * large.all / MiB)


def two_more():
    peak = 467.8e12
    points = [("llama-3.2-1b", "Llama-3.2-1B", 8192, 8192 / 123098.), ("qwen3-8b", "Qwen3-8B", 8192, 8192 / 17143.6),
              ("llama-3.2-1b", "Llama-3.2-1B", 130944, 130944 / 22906.4),
              ("qwen3-8b", "Qwen3-8B", 40832, 40832 / 9614.8)]
    x, y = fit([((MODELS[k].linear(n) / peak, MODELS[k].attention(n) / peak), p) for k, _, n, p in points])
    for k, name, n, p in points:
        put("G25", f"{name}, {tokens(n)}", p, (MODELS[k].linear(n) * x + MODELS[k].attention(n) * y) / peak)
    weights, rate = 2 * (A.lin + A.head), 2.039e12 * .73
    traffic = sum((g * rate - weights) / A.kv(n) for n, g in ((128000, .09), (64000, .05))) / 2
    for what, kept, p in (("8,000 slots", 8000, 3.0), ("16,000 slots", 16000, 3.1),
                          ("32,000 slots", 32000, 3.35), ("64,000 slots", 64000, 5.0),
                          ("128,000 slots", 128000, 9.0),
                          ("64,000 tokens, half of them kept", 32000, 3.45),
                          ("128,000 tokens, half of them kept", 64000, 5.55)):
        device = (weights + traffic * A.kv(kept)) / rate
        put("G30", what, p, 100 * (device**4 + .03**4)**.25)


# ---- the same policies, implemented equally well --------------------------------------------

def equal():
    """Evictions on an H100, 128 slots, 32 rows; the last column was printed with 2 or 3 digits."""
    rate, peak, e_lin, e_att, half, launch = 3.35e12, 989e12, .65, .55, 500, 3e-6
    moves = rate * .87
    slots, q = 128, 32
    printed = {
        4096: ("98.0", "0.20", "0.88", "3.1", "5.3", "141", "53", "205", "67"),
        8192: ("212", "0.20", "0.98", "3.3", "18", "566", "53", "206", "90"),
        16384: ("489", "0.20", "1.2", "3.8", "67", "2264", "53", "206", "150"),
        32768: ("1237", "0.20", "1.6", "4.7", "264", "9054", "54", "207", "335")}

    def prefill(m, n):
        return ((m.linear(n) + 2 * m.head) / (peak * e_lin)
                + m.attention(n) / (peak * e_att * n / (n + half) * (.77 if m.D == 64 else 1)))

    def step(m, n):
        return 126e-6 + 5e-6 + 30e-6 * m.L + 2 * (m.lin + m.head) / rate / .85 + m.kv(n) / rate / .78

    def score(n, rows, passes):
        return A.L * max(2 * rows * n * A.H * A.D / (peak * e_att), passes * n * A.G * A.D * 2 / moves)

    def extra(n, tokens, params):
        adapters = 2 * params / moves + 2 * 7 * A.L * launch if params else 0
        return (A.linear(tokens) / (peak * e_lin) + 4 * tokens * n * A.H * A.D * A.L / (peak * e_att)
                + adapters)
    copy, ring, ranked = 2 * A.kv(slots) / moves, 2 * A.L * launch, 8 * A.L * launch
    out = []
    for n in LENGTHS:
        pick = A.L * 4 * n * A.G * 7 / moves + copy + ranked
        snap = score(n, q, 1) + pick
        values = [
            prefill(A, n), copy + ring, snap, extra(n, 32, 20.554e6) + snap,
            A.attention(n) / 2 / (peak * e_att * n / (n + half)) + pick,
            A.L * (24 * n * n * A.H + (2 * A.G + 3 * A.H) * n * A.D * 2) / moves,
            *(sum(step(A, slots + i) for i in range(m)) + snap + score(n, m, 2) + pick for m in (8, 32)),
            prefill(B1, n) + sum(step(B1, n + i) for i in range(32)) + extra(n, 32, 0) + score(n, 32, 1) + pick]
        names = ("prefill", "streaming", "snapkv", "lookaheadkv", "h2o", "h2o eager", "laq 8", "laq 32", "speckv")
        for name, ms, was in zip(names, values, printed[n]):
            out.append((n, name, f"{ms * 1e3:.6g}", was))
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    for part in (theory, adapters, prefills, evictions, memory, decode, foreign, phone, two_more):
        part()
    for name, head, rows in (("cost_section8", ("figure", "what", "published", "formula", "digits"), ROWS),
                             ("cost_equal", ("prompt_tokens", "policy", "formula_ms", "printed_ms"), equal())):
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as f:
            csv.writer(f, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    main()
