#!/usr/bin/env python3
"""A second calculation of what `kvt cost` prints, from the formulae and tables of the cost model's
specification (its sections 4, 5 and 7 with the corrections of 9b), not from kvt's code or data.

usage: cost_second.py KVT [-v]

Every quantity must agree to 1e-6. Times are seconds, sizes bytes; rows of tables are typed here by
hand, so that a number that was mistyped in kvt's data files shows, too.
"""
import json
import subprocess
import sys
from types import SimpleNamespace

TOLERANCE = 1e-6
ACT = 2  # bytes of an activation

# Section 5: layers, width, query heads, kv heads, head_dim, feed-forward, vocabulary, tied, q/k/v bias,
# q/k norm, norms a layer, window, every so many layers a global one.
GEOMETRIES = {
    "llama-3.2-1b": (16, 2048, 32, 8, 64, 8192, 128256, 1, 0, 0, 2, 0, 0),
    "llama-3.1-8b": (32, 4096, 32, 8, 128, 14336, 128256, 0, 0, 0, 2, 0, 0),
    "llama-3.1-70b": (80, 8192, 64, 8, 128, 28672, 128256, 0, 0, 0, 2, 0, 0),
    "llama-2-7b": (32, 4096, 32, 32, 128, 11008, 32000, 0, 0, 0, 2, 0, 0),
    "qwen3-0.6b": (28, 1024, 16, 8, 128, 3072, 151936, 1, 0, 1, 2, 0, 0),
    "qwen3-8b": (36, 4096, 32, 8, 128, 12288, 151936, 0, 0, 1, 2, 0, 0),
    "qwen2.5-7b": (28, 3584, 28, 4, 128, 18944, 152064, 0, 1, 0, 2, 0, 0),
    "gemma-3-1b": (26, 1152, 4, 1, 256, 6912, 262144, 1, 0, 1, 4, 512, 6),
}

# Sections 4.1 and 4.3 (defaults of a fused engine; exceptions as 7.6 names them).
GPU = dict(e_lin=.65, e_att=.55, n_half=500, hd64=.77, window_half=700, e_w=.85, e_kv=.78, e_m=.87, launch=3e-6,
           launches=12, layer=30e-6, step=126e-6, req=5e-6, floor_layer=0., traffic=1., factor=0., floor=0.)
MACHINES = {
    "h100-sxm": dict(GPU, math=989e12, bw=3.35e12),
    "h200": dict(GPU, math=989e12, bw=4.8e12),
    "a100-sxm-80": dict(GPU, math=312e12, bw=2.039e12, e_lin=.70, e_w=.80, e_kv=.70),
    "l4": dict(GPU, math=121e12, bw=.3e12, e_lin=.60, e_att=.50),
    "rtx4090": dict(GPU, math=165.2e12, bw=1.008e12, e_lin=.70),
}
LORA_RANK, LOOKAHEAD = 8, 32
LAQ_DRAFTS, SPEC_DRAFTS, PUBLISHED_DRAFTS = 8, 32, 32
# Rows that score: windows of 32; SpecKV's drafts, its window of 32 and the token fed again.
ROWS = {"snapkv": 32, "lookaheadkv": 32, "tova": 1, "laq": LAQ_DRAFTS, "speckv": SPEC_DRAFTS + 33}
STAGE_ONE_ROWS = 32


class Model:
    """A geometry and what follows from it."""

    def __init__(self, name):
        (self.L, self.E, self.H, self.G, self.D, self.I, self.V, tied, bias, qk_norm, norms, self.window,
         self.every) = GEOMETRIES[name]
        a, kv = self.H * self.D, self.G * self.D
        self.lin = self.L * (2 * self.E * a + 2 * self.E * kv + 3 * self.E * self.I)
        self.head = self.V * self.E
        self.all = (self.lin + self.head * (1 if tied else 2) + self.E * (norms * self.L + 1)
                    + bias * self.L * (a + 2 * kv) + qk_norm * 2 * self.L * self.D)

    def windows(self):
        """Of each layer; 0 sees all."""
        return [0 if not self.window or (l + 1) % self.every == 0 else self.window for l in range(self.L)]

    def lora_params(self):
        """Rank 8 on every linear map; of the last layer on q and k only."""
        q, kv = self.E + self.H * self.D, self.E + self.G * self.D
        return LORA_RANK * ((self.L - 1) * (2 * q + 2 * kv + 3 * (self.E + self.I)) + q + kv)


def token_bytes(m, bits):
    """Keys and values of a token in a layer; 9b.7: 2 x 2 bytes a head, or each 32 channels of it."""
    scales = {16: 0, 8: 4 * m.G, 4: 4 * m.G * m.D / 32}[bits]
    return 2 * m.G * m.D * bits / 8 + scales


def pairs(n, w):
    return n * (n + 1) / 2 if not w or n <= w else w * (w + 1) / 2 + (n - w) * w


def attention_rate(m, k, n):
    return k.math * k.e_att * (k.hd64 if m.D == 64 else 1) * n / (n + k.n_half)


def prefill(m, k, s, n):
    chunks = -(-n // s.chunk) if s.chunk else 1
    seen = sum(min((i + 1) * s.chunk, n) for i in range(chunks)) if s.chunk else n
    lin = max(s.batch * (2 * n * m.lin + 2 * m.head * (n if s.logits else 1)) / (k.math * k.e_lin), chunks * m.lin * s.weight / (k.bw * k.e_w))
    att = 0
    for w in m.windows():
        local = w / (w + k.window_half) if w and n > w else 1
        read = min(n, w) if w else seen
        att += s.batch * max(4 * m.H * m.D * pairs(n, w) / (attention_rate(m, k, n) * local),
                             read * token_bytes(m, s.kv) / (k.bw * k.e_kv))
    host = max(0, chunks * m.L * k.launches * k.launch - lin - att)
    return SimpleNamespace(linear=lin, attention=att, host=host, total=lin + att + host)


def slots(m, n):
    """Of a lane, summed over layers."""
    return sum(min(n, w) if w else n for w in m.windows())


def step(m, k, s, c, group=1):
    """A decode step that reads c slots of every lane; `group` lanes where there was one."""
    fixed = k.step + m.L * k.layer + s.batch * k.req
    weights = max((m.lin * s.weight + 2 * m.head) / (k.bw * k.e_w), 2 * s.batch * (m.lin + m.head) / (k.math * k.e_lin))
    kv = k.traffic * s.batch * group * slots(m, c) * token_bytes(m, s.kv) / (k.bw * k.e_kv)
    device = fixed + weights + kv
    return SimpleNamespace(fixed=fixed, weights=weights, kv=kv, total=max(device, m.L * k.floor_layer))


def score(m, k, s, n, rows, passes=1):
    return s.batch * m.L * max(2 * rows * n * m.H * m.D / (k.math * k.e_att * (k.hd64 if m.D == 64 else 1)),
                               passes * n * token_bytes(m, s.kv) / 2 / (k.bw * k.e_m))


def select(m, k, s, n, lanes):
    return s.batch * m.L * 4 * n * lanes * 7 / (k.bw * k.e_m)


def copy(m, k, s, budget, group=1):
    return 2 * s.batch * m.L * budget * group * token_bytes(m, s.kv) / (k.bw * k.e_m)


def extra(m, k, s, n, tokens):
    """Tokens behind the prompt, in its batch."""
    return s.batch * (2 * tokens * m.lin / (k.math * k.e_lin)
                      + 4 * tokens * n * m.H * m.D * m.L / (k.math * k.e_att * (k.hd64 if m.D == 64 else 1)))


def evict_fused(policy, m, k, s, n, budget, draft):
    """Parts of the eviction at the end of the prompt; n > budget."""
    launch = m.L * k.launch
    p = SimpleNamespace(extra=0, prefill=0, draft=0, score=0, select=select(m, k, s, n, m.G),
                        copy=copy(m, k, s, budget), launches=8 * launch)
    if policy == "streaming":
        p.select, p.launches = 0, 2 * launch
    elif policy == "h2o":
        p.score = prefill(m, k, SimpleNamespace(**{**vars(s), "chunk": 0}), n).attention / 2
    elif policy == "laq":
        group = m.H // m.G
        p.select, p.copy = select(m, k, s, n, m.H), copy(m, k, s, budget, group)
        p.score = score(m, k, s, n, ROWS[policy], 2)
        p.draft = (score(m, k, s, n, STAGE_ONE_ROWS) + p.select + p.copy + p.launches
                   + sum(step(m, k, s, budget + i, group).total for i in range(LAQ_DRAFTS)))
    else:
        p.score = score(m, k, s, n, ROWS[policy])
    if policy == "speckv":
        p.prefill = prefill(draft, k, SimpleNamespace(**{**vars(s), "logits": 0}), n).total
        p.draft = sum(step(draft, k, s, n + i).total for i in range(SPEC_DRAFTS))
        p.extra = extra(m, k, s, n, SPEC_DRAFTS)
    if policy == "lookaheadkv":
        p.extra = (extra(m, k, s, n, LOOKAHEAD) + 2 * (m.lora_params() + LOOKAHEAD * m.E) / (k.bw * k.e_m)
                   + 2 * 7 * m.L * k.launch)
    p.total = p.extra + p.prefill + p.draft + p.score + p.select + p.copy + p.launches
    return p


# ---- as published: constants from the measurements themselves (section 2.1, in seconds) ----

LENGTHS = (4096, 8192, 16384, 32768)
FORWARD = (.130, .291, .658, 1.760)


def fitted():
    """The eager H100: two efficiencies by relative least squares on four passes."""
    m, peak = Model("llama-3.1-8b"), 989e12
    rows = [((2 * n * m.lin / peak / t, 4 * m.H * m.D * m.L * pairs(n, 0) / peak / t)) for n, t in zip(LENGTHS, FORWARD)]
    aa, ab, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(r[0] for r in rows), sum(r[1] for r in rows)
    det = aa * bb - ab * ab
    x, y = (a * bb - b * ab) / det, (aa * b - ab * a) / det
    return SimpleNamespace(**dict(MACHINES["h100-sxm"], e_lin=1 / x, e_att=1 / y, n_half=0, launch=10e-6, launches=45,
                                  traffic=5., floor=11e-3))


def eager(m, k, n, rows):
    return m.L * (24 * rows * n * m.H + (2 * m.G + 3 * m.H) * n * m.D * ACT) / (k.bw * k.e_m)


def check_published(checks, where, row, n, start):
    """The dense prefill and the steps of the eager H100."""
    m, k = Model("llama-3.1-8b"), fitted()
    k.floor_layer = (506.58e-3 - 2 * k.floor) / PUBLISHED_DRAFTS / m.L
    s = SimpleNamespace(batch=1, kv=16, weight=2., page=0, chunk=0, logits=0)
    checks.near(where, "prefill", row["prefill_s"], prefill(m, k, s, n).total)
    response = row["response_tokens"]
    for what, at in (("first", 1), ("last", response)):
        checks.near(where, what + " step", row[f"tpot_{what}_s"], step(m, k, s, start + at).total)
    # A tensor that is made anew by a longer one; keys and values expanded to query heads.
    last = start + response
    checks.near(where, "scratch", row["steady_scratch_bytes"], last * m.G * m.D * 2 + 2 * last * m.H * m.D * ACT)


def evict_published(policy, n, draft):
    """Llama-3.1-8B on an H100, batch 1: 32 rows whatever the policy's own number is."""
    m, k = Model("llama-3.1-8b"), fitted()
    measured = {"snapkv": 77.67e-3}.get(policy, 38.04e-3)
    factor = measured / eager(m, k, 32768, 32)
    run = lambda at: max(factor * eager(m, k, at, 32), k.floor)
    lkv = lambda at: max(38.04e-3 / eager(m, k, 32768, 32) * eager(m, k, at, 32), k.floor)
    if policy == "laq":
        one = (506.58e-3 - 2 * lkv(4096)) / PUBLISHED_DRAFTS
        return PUBLISHED_DRAFTS * one + 2 * lkv(n)
    if policy == "speckv":
        forward = lambda at: ((2 * at * draft.lin) / k.e_lin
                              + 4 * draft.H * draft.D * draft.L * pairs(at, 0) / (k.e_att * k.hd64)) / k.math
        # Fitted without the output matrix (appendix A); a prefill has it (7.1).
        one = (92.42e-3 - forward(4096) - lkv(4096)) / PUBLISHED_DRAFTS
        grown = (n - 4096) * draft.L * token_bytes(draft, 16) / (k.bw * k.e_m)
        output = 2 * draft.head / (k.math * k.e_lin)
        return forward(n) + output + PUBLISHED_DRAFTS * (one + grown) + lkv(n)
    return run(n)


# ---- memory (7.5): fused, one device ----

RUNTIME = 1288490189  # 1.2 GiB (section 6, row 4)


def weights_bytes(m, s):
    return m.lin * s.weight + 2 * (m.all - m.lin)


def activations(m, s, n):
    return s.batch * n * ACT * (3 * m.I + 4 * m.E)


def paged(n, page):
    return -(-n // page) * page if page else n


def steady(policy, m, s, budget, response, group=1):
    """At the last step: weights, cache, runtime, one token's activations or logits."""
    c = budget if policy == "streaming" else budget + response
    kv = s.batch * group * slots(m, paged(c, s.page)) * token_bytes(m, s.kv)
    return kv, weights_bytes(m, s) + kv + RUNTIME + max(activations(m, s, 1), s.batch * m.V * (ACT + 4))


def peak(policy, m, s, n, budget, response, draft):
    """The largest of the phases: the feed-forward of the last layer (or all logits), the last step."""
    b, group = s.batch, m.H // m.G if policy == "laq" else 1
    base, more = weights_bytes(m, s) + RUNTIME, 0
    if policy == "lookaheadkv":
        base, more = base + 2 * (m.lora_params() + LOOKAHEAD * m.E), LOOKAHEAD
    if policy == "speckv":  # its draft's weights and cache stay until it has decided
        base += weights_bytes(draft, s) + b * draft.L * (n + SPEC_DRAFTS) * token_bytes(draft, s.kv)
        more = SPEC_DRAFTS
    # In chunks no layer is through before the last one, and none is cut before that.
    last = (n - 1) % s.chunk + 1 if s.chunk and n > s.chunk else n
    held = n if policy in ("full", "laq") else n - last if last < n else budget
    cache = b * group * slots(m, paged(held, s.page)) * token_bytes(m, s.kv)
    run = activations(m, s, min(n, s.chunk) if s.chunk else n + more)
    logits = b * n * m.V * (ACT + 4) if s.logits else 0
    return base + cache + max(run, logits), steady(policy, m, s, budget, response, group)[1]


# ---- the comparison ----

class Checks:
    def __init__(self, verbose):
        self.n = self.bad = 0
        self.verbose = verbose

    def near(self, where, what, got, want):
        self.n += 1
        worse = abs(got - want) > TOLERANCE * max(abs(want), 1e-12)
        self.bad += worse
        if worse or self.verbose:
            print(f"{'DIFFERS' if worse else 'ok'}: {where}: {what}: expected {want:.10g}, got {got:.10g} "
                  f"({100 * (got / want - 1) if want else 0:+.4f} %)")


# geometry, machine, prompt, budget, response, batch, kv bits, weight bits, page, chunk, all logits, then (if not all
# of the batch) how many prompts are read together
CASES = [
    ("llama-3.1-8b", "h100-sxm", 4096, 128, 256, 1, 16, 16, 0, 0, 0),
    ("llama-3.1-8b", "h100-sxm", 8192, 128, 100, 1, 16, 16, 0, 0, 0),
    ("llama-3.1-8b", "h100-sxm", 16384, 128, 100, 1, 16, 16, 0, 0, 0),
    ("llama-3.1-8b", "h100-sxm", 32768, 128, 256, 1, 16, 16, 0, 0, 0),
    ("llama-3.1-8b", "h100-sxm", 10000, 1024, 7, 8, 8, 16, 16, 0, 0),
    ("llama-3.1-8b", "a100-sxm-80", 9000, 2048, 31, 1, 16, 16, 0, 0, 1),
    ("llama-3.1-8b", "h200", 65536, 4096, 1000, 3, 4, 16, 0, 8192, 0),
    ("llama-3.1-8b", "rtx4090", 5000, 300, 50, 1, 16, 4, 0, 0, 0),
    ("llama-3.1-8b", "l4", 777, 111, 1, 2, 16, 4, 32, 0, 0),
    ("llama-3.1-70b", "h200", 32768, 512, 64, 1, 8, 4, 0, 0, 0),
    ("llama-2-7b", "a100-sxm-80", 4000, 500, 77, 4, 16, 16, 0, 0, 0),
    ("qwen3-8b", "h100-sxm", 131072, 4096, 256, 1, 16, 16, 0, 0, 0),
    ("qwen3-0.6b", "l4", 100000, 1000, 20, 1, 16, 16, 256, 4096, 0),
    ("qwen2.5-7b", "h200", 20000, 700, 33, 5, 8, 8, 0, 0, 0),
    ("llama-3.2-1b", "h100-sxm", 4096, 128, 10, 1, 16, 16, 0, 0, 0),
    ("llama-3.2-1b", "rtx4090", 50000, 2000, 300, 2, 16, 16, 0, 0, 0),
    ("gemma-3-1b", "h100-sxm", 32768, 1024, 40, 1, 16, 16, 0, 0, 0),
    ("gemma-3-1b", "l4", 300, 100, 40, 6, 16, 16, 0, 0, 0),
    ("llama-3.1-8b", "h100-sxm", 32768, 3276, 256, 32, 16, 16, 0, 0, 0, 1),
    ("qwen3-8b", "h200", 9000, 512, 100, 12, 16, 16, 16, 2048, 0, 5),
    ("gemma-3-1b", "l4", 300, 100, 40, 6, 16, 16, 0, 0, 1, 4),
]
POLICIES = ("full", "streaming", "snapkv", "lookaheadkv", "h2o", "tova", "laq", "speckv")
DRAFT = "llama-3.2-1b"


def rows_of(kvt, case):
    geometry, machine, n, budget, response, batch, kv, weight, page, chunk, logits, *few = case
    command = [kvt, "cost", "--geometry", geometry, "--machine", machine, "--policy", ",".join(POLICIES[1:]),
               "--budget", str(budget), "--length", str(n), "--response", str(response), "--batch", str(batch),
               "--kv-bits", str(kv), "--weight-bits", str(weight), "--draft", DRAFT, "--json"]
    command += ["--page", str(page)] if page else []
    command += ["--chunk", str(chunk)] if chunk else []
    command += ["--all-logits"] if logits else []
    command += ["--prefill-batch", str(few[0])] if few else []
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit(f"{' '.join(command)}: exit status {out.returncode}: {out.stderr.strip()}")
    return {(r["policy"], r["profile"]): r for r in json.loads(out.stdout)["rows"]}


def check_case(checks, kvt, case):
    geometry, machine, n, budget, response, batch, kv, weight, page, chunk, logits, *few = case
    m, k, draft = Model(geometry), SimpleNamespace(**MACHINES[machine]), Model(DRAFT)
    s = SimpleNamespace(batch=batch, kv=kv, weight=weight / 8, page=page, chunk=chunk, logits=logits)
    rows = rows_of(kvt, case)
    few = SimpleNamespace(**{**vars(s), "batch": few[0] if few else batch})  # the prompt is theirs, a step everyone's
    dense = prefill(m, k, few, n)
    for policy in POLICIES:
        row = rows[policy, "fused"]
        where = f"{geometry} on {machine}, {n} tokens, batch {batch}, {kv} bits, {policy}"
        near = lambda what, got, want: checks.near(where, what, row[got], want)
        for part in ("linear", "attention", "host"):
            near("prefill " + part, f"prefill_{part}_s", getattr(dense, part))
        near("prefill", "prefill_s", dense.total)
        local = m.window and policy not in ("full", "streaming")  # what scores within windows is no formula of 7.3
        if policy == "full" or n <= budget:
            near("eviction", "evict_s", 0)
        elif not m.window:
            p = evict_fused(policy, m, k, few, n, budget, draft)
            for part in ("extra", "prefill", "draft", "score", "select", "copy"):
                near(part, f"evict_{part}_s", getattr(p, part))
            near("launches", "evict_host_s", p.launches)
            near("eviction", "evict_s", p.total)
            near("ttft", "ttft_s", dense.total + p.total)
        group = m.H // m.G if policy == "laq" else 1
        if policy not in ("h2o", "tova"):  # they score in decode, for which 7.4 has an order only
            start = n if policy == "full" else budget
            grows = policy != "streaming"
            first = step(m, k, s, start + grows, group)
            last = step(m, k, s, start + grows * response, group)
            near("first step", "tpot_first_s", first.total)
            near("last step", "tpot_last_s", last.total)
            if not m.window:
                near("mean step", "tpot_mean_s", (first.total + last.total) / 2)
            near("fixed part", "tpot_fixed_s", first.fixed)
            near("weights part", "tpot_weights_s", first.weights)
            cache, _ = steady(policy, m, s, start, response, group)
            near("cache at the end", "steady_kv_bytes", cache)
            near("weights", "steady_weights_bytes", weights_bytes(m, s))
            if policy in ("full", "streaming", "snapkv"):
                checks.near(where, "memory at the end, without rounding",
                            row["steady_bytes"] - row["steady_slack_bytes"], steady(policy, m, s, start, response)[1])
        if not local and policy not in ("h2o", "tova", "streaming"):
            start = n if policy == "full" else budget
            run, last = peak(policy, m, few, n, start, response, draft)
            others = SimpleNamespace(**{**vars(s), "batch": batch - few.batch})
            run += steady(policy, m, others, start, response, group)[0]
            largest = max(run, last + steady(policy, m, s, start, response, group)[1]
                          - steady(policy, m, few, start, response, group)[1])
            if row["peak_phase"] in ("prefill feed-forward", "prefill logits", "decode"):
                near(f"peak ({row['peak_phase']})", "peak_bytes", largest)
    if (geometry, machine, batch, kv, chunk) == ("llama-3.1-8b", "h100-sxm", 1, 16, 0):
        for policy in ("full", "snapkv", "lookaheadkv", "laq", "speckv"):
            row, where = rows[policy, "as-published"], f"{geometry} on {machine}, {n} tokens, as published, {policy}"
            if policy != "full":
                checks.near(where, "eviction", row["evict_s"], evict_published(policy, n, draft))
            if policy in ("full", "snapkv"):
                check_published(checks, where, row, n, n if policy == "full" else budget)


def main():
    checks = Checks("-v" in sys.argv)
    for case in CASES:
        check_case(checks, sys.argv[1], case)
    print(f"{checks.n} quantities, {checks.bad} differ")
    return checks.bad > 0


if __name__ == "__main__":
    sys.exit(main())
