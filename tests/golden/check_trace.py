"""Every statement of docs/trace-format.md about a captured trace, computed again by numpy from the trace's
own arrays: check_trace.py DIR. DIR holds the traces that test_check_trace.sh makes. Nothing of kvt is used:
the paths, types and axes below are written from the format's description, attention is computed here from
the stored halves in float64, the text is rendered here by SmolLM2's template as published.

Tolerances. Halves of q and k carry 2^-11 relative each, so that a scaled logit is off by at most
2^-10 |q||k| scale = `room`, and a share computed from halves by exp(2 room) - 1 relative; what the trace
stores of the running model (lse, sums, futures) is compared within that. A stored half is within half an ulp:
2^-11 relative, 2^-25 absolute below 2^-14."""
import os
import sys

import h5py
import numpy as np

# path: (type, axes, lowest level, part of level train)
SUMMARY, REPLAY, FULL = 0, 1, 2
FORMAT = {
    "layer/id": ("<i4", "L", SUMMARY, True),
    "token/id": ("<i4", "T", SUMMARY, True),
    "token/offset": ("<i8", "U", SUMMARY, True),
    "token/flag": ("|u1", "T", SUMMARY, True),
    "text/bytes": ("|u1", "Z", SUMMARY, True),
    "text/raw": ("|u1", "Y", SUMMARY, True),
    "attn/lse": ("<f4", "LHT", SUMMARY, True),
    "attn/col_sum": ("<f4", "LHN", SUMMARY, False),
    "attn/col_max": ("<f4", "LHN", SUMMARY, False),
    "attn/block_sum": ("<f2", "LHJT", SUMMARY, False),
    "attn/block_start": ("<i4", "I", SUMMARY, False),
    "future/mean": ("<f4", "LHN", SUMMARY, True),
    "future/max": ("<f4", "LHN", SUMMARY, True),
    "future/delayed": ("<f4", "LHT", SUMMARY, True),
    "kv/k": ("<f2", "LGTD", REPLAY, True),
    "kv/v": ("<f2", "LGTD", REPLAY, True),
    "query/q": ("<f2", "LHQD", REPLAY, False),
    "query/pos": ("<i4", "Q", REPLAY, False),
    "query/mean": ("<f4", "LHD", REPLAY, False),
    "query/cov": ("<f4", "LHDD", REPLAY, False),
    "query/freq_abs": ("<f4", "LHF", REPLAY, False),
    "value/wo_l1": ("<f4", "LHT", REPLAY, False),
    "value/wo_l2": ("<f4", "LHT", REPLAY, False),
    "attn/rows": ("<f2", "LHQT", REPLAY, False),
    "hidden/norm": ("<f4", "LT", REPLAY, False),
    "logit/id": ("<i4", "MX", SUMMARY, False),
    "logit/logp": ("<f4", "MX", SUMMARY, False),
    "logit/nll": ("<f4", "M", SUMMARY, False),
    "logit/entropy": ("<f4", "M", SUMMARY, False),
    "attn/block_max": ("<f2", "LHJT", FULL, False),
    "hidden/x": ("<f2", "LTE", FULL, False),
}
ATTRIBUTES = {
    "/": "format version complete writer commit seed digest created command device host level sampling no_text",
    "model": "name arch n_layer n_head n_kv_head head_dim n_hidden n_ff n_vocab n_context norm_eps attn_scale "
    "tied rope_type rope_layout rope_theta rope_freq window weights_digest weights_type tokenizer",
    "token": "n_prompt n_response look_until template template_digest prefix_end system_begin system_end "
    "stop_reason bos",
    "attn": "implementation types blas block_tokens",
    "future": "delay",
}
SPECIAL, TEMPLATE, SYSTEM, RESPONSE = 1, 2, 4, 8
DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
TOP, TAIL, SKIP = 64, 64, 4
checked = 0
where = ""


def check(ok, what):
    global checked
    checked += 1
    if not ok:
        sys.exit(f"check_trace.py: {where}: {what}")


def near(got, want, room, what):
    """Elementwise |got - want| <= room; NaN and infinities must agree."""
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    check(got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}")
    finite = np.isfinite(want)
    check(np.array_equal(got[~finite], want[~finite], equal_nan=True), f"{what}: NaN and -inf")
    off = np.abs(got - want, where=finite, out=np.zeros(got.shape)) - np.broadcast_to(room, got.shape)
    check(not (off > 0).any(), f"{what}: off by {off.max():.3g} more than allowed, at {np.unravel_index(off.argmax(), off.shape)}"
          if off.size else what)


def half_room(x):
    return np.abs(x) * 2.0**-11 + 2.0**-25


def text(x):
    return x.decode() if isinstance(x, bytes) else str(x)


class Trace:
    def __init__(self, folder, name):
        global where
        where = name
        self.f = h5py.File(os.path.join(folder, name + ".h5"), "r")
        self.name = name
        self.token, self.model = self.f["token"].attrs, self.f["model"].attrs
        self.N, self.M = int(self.token["n_prompt"]), int(self.token["n_response"])
        self.T = self.N + self.M

    def __getitem__(self, path):
        return self.f[path][...]

    def __contains__(self, path):
        return path in self.f

    def wide(self, path):
        return self.f[path][...].astype("f8")


def check_schema(t, level, rows=True, no_text=False):
    f, a, m = t.f, t.f["attn"].attrs, t.model
    check(text(f.attrs["level"]) == level, "level")
    for group, names in ATTRIBUTES.items():
        for name in names.split():
            check(name in f[group].attrs, f"attribute {name} of {group}")
    check(text(f.attrs["format"]) == "kvt-trace" and f.attrs["complete"] == 1, "format, complete")
    check(f.attrs["no_text"] == no_text, "no_text")
    check(len(text(f.attrs["digest"])) == 32 and len(text(m["weights_digest"])) == 32, "digests")
    check(text(m["rope_layout"]) == "half" and len(m["window"]) == m["n_layer"], "layout, windows")
    check(t.token["look_until"] == t.N, "look_until")
    check("f32" in text(a["types"]) and text(a["blas"]), "types and BLAS of attention")
    want = {p for p, d in FORMAT.items()
            if (d[3] if level == "train" else d[2] <= ("summary", "replay", "full").index(level))}
    want -= {"text/bytes", "text/raw"} if no_text else set()
    want -= set() if rows else {"attn/rows"}
    want -= set() if t.M else {"future/mean", "future/max"}
    found = []
    f.visititems(lambda name, o: found.append(name) if isinstance(o, h5py.Dataset) else None)
    found = {name for name in found if not name.startswith("axis_")}
    check(found == want, f"datasets: too many {sorted(found - want)}, missing {sorted(want - found)}")
    size = {"L": len(t["layer/id"]), "H": m["n_head"], "G": m["n_kv_head"], "D": m["head_dim"],
            "F": m["head_dim"] // 2, "E": m["n_hidden"], "N": t.N, "M": t.M, "T": t.T, "U": t.T + 1, "X": TOP}
    for path in sorted(found):
        d, (dtype, axes, _, _) = f[path], FORMAT[path]
        check(d.dtype.str == dtype, f"{path}: type {d.dtype.str}")
        check(text(d.attrs["axes"]) == axes and d.attrs["unit"] and d.attrs["help"], f"{path}: axes, unit, help")
        check(d.ndim == len(axes), f"{path}: rank")
        for i, letter in enumerate(axes):
            check(d.shape[i] == size.setdefault(letter, d.shape[i]), f"{path}: axis {letter}")
            check(d.dims[i].label and len(d.dims[i]) == 1 and d.dims[i][0].shape == (d.shape[i],), f"{path}: scales")
    check("J" not in size or size["I"] == size["J"] + 1, "blocks and their borders")


def begins(offset, byte):
    return int(np.searchsorted(offset[:-1], byte))  # first token that begins there or behind


def token_range(offset, begin, end):
    """The tokens that lie in or across bytes [begin, end)."""
    return int(np.searchsorted(offset[1:], begin, side="right")), begins(offset, end)


def check_text(t, messages, template=True):
    """messages: [(role, text)]; the default system text is put in front as the template does."""
    token, offset, flag = t.token, t["token/offset"], t["token/flag"]
    check(offset[0] == 0 and (np.diff(offset) >= 0).all(), "offsets rise from 0")
    check((flag[: t.N] & RESPONSE == 0).all() and (flag[t.N:] & RESPONSE != 0).all(), "response flags")
    check(text(token["template"]) == ("smollm2" if template else ""), "template")
    pieces = []  # (text, is template)
    if not template:
        pieces = [(messages[0][1], False)]
    else:
        if messages[0][0] != "system":
            pieces += [("<|im_start|>system\n", True), (DEFAULT_SYSTEM, True), ("<|im_end|>\n", True)]
        for role, said in messages:
            pieces += [(f"<|im_start|>{role}\n", True), (said, False), ("<|im_end|>\n", True)]
        pieces += [("<|im_start|>assistant\n", True)]
    rendered, place = b"", []
    for said, is_template in pieces:
        place.append((len(rendered), len(rendered) + len(said.encode()), is_template))
        rendered += said.encode()
    check(offset[t.N] == len(rendered), "the prompt's tokens tile the rendered text")
    whole = rendered
    if "text/bytes" in t:
        whole = t["text/bytes"].tobytes()
        check(offset[-1] == len(whole) and whole.startswith(rendered), "text/bytes is the rendered text and the response")
        check(t["text/raw"].tobytes().decode().find(messages[-1][1]) >= 0, "text/raw")
    in_template = np.zeros(t.N, bool)
    for begin, end, is_template in place:
        in_template |= (offset[: t.N] >= begin) & (offset[: t.N] < end) & is_template
    check(((flag[: t.N] & TEMPLATE != 0) == in_template).all(), "template flags")
    system = place[1][:2] if template else (0, 0)
    in_system = (offset[: t.N] >= system[0]) & (offset[: t.N] < system[1])
    check(((flag[: t.N] & SYSTEM != 0) == in_system).all(), "system flags")
    check((token["system_begin"], token["system_end"]) == (token_range(offset, *system) if template else (0, 0)), "system range")
    user = [i for i, (role, _) in enumerate(messages) if role == "user"][0]
    first = place[1 + 3 * (user + (messages[0][0] != "system"))][0] if template else 0
    check(token["prefix_end"] == (begins(offset, first) if template else 0), "prefix_end")
    check(tuple(token["prefix_bytes"]) == (0, first) and tuple(token["system_bytes"]) == system, "ranges in bytes")
    if "text/bytes" in t:
        marks = {b"<|im_start|>", b"<|im_end|>", b"<|endoftext|>"}
        is_mark = np.array([whole[offset[i]: offset[i + 1]] in marks for i in range(t.T)])
        check(((flag & SPECIAL != 0) == is_mark).all(), "special flags")
        said = {}
        for i, token_id in enumerate(t["token/id"]):
            piece = whole[offset[i]: offset[i + 1]]
            check(said.setdefault(int(token_id), piece) == piece, f"token {i}: an id has one text")
        check(len(set(said.values())) == len(said), "a text has one id")
    return rendered, place


def check_stop(t):
    reason, last = text(t.token["stop_reason"]), t["token/id"][-1]
    if reason == "stop-token":
        check(t["token/flag"][-1] & SPECIAL and (t["token/id"][t.N: -1] != last).all(), "the stop token is last and fed forward")
    else:
        check(reason == ("none" if t.M == 0 else reason) and reason in ("length", "forced", "none"), "stop_reason")


def check_logits(t, greedy):
    ids, logp, nll, entropy = t["logit/id"], t.wide("logit/logp"), t["logit/nll"], t["logit/entropy"]
    response = t["token/id"][t.N:]
    check((np.diff(logp, axis=1) <= 0).all() and (logp <= 1e-6).all(), "log-probabilities fall")
    share = np.exp(logp).sum(1)
    check((share <= 1 + 1e-5).all(), "shares")
    for m in range(t.M):
        check(len(set(ids[m])) == TOP, "ids differ")
        at = np.flatnonzero(ids[m] == response[m])
        if greedy:
            check(list(at) == [0], f"row {m} produced response token {m}")
        if len(at):
            near(nll[m], -logp[m, at[0]], 2e-6 + 1e-6 * abs(nll[m]), "nll of the token that came")
        else:
            check(nll[m] >= -logp[m, -1] - 1e-6, "nll of a token that is not among the top")
        p, rest, left = np.exp(logp[m]), max(0.0, 1 - share[m]), t.model["n_vocab"] - TOP
        low = -(p * logp[m]).sum() - rest * logp[m, -1]  # the rest is no likelier than the last
        high = -(p * logp[m]).sum() + (rest * np.log(left / rest) if rest else 0)
        check(low - 1e-3 <= entropy[m] <= high + 1e-3, f"entropy {entropy[m]} within {low} to {high}")


def attention(t):
    """Shares a [L H Q T] in float64 from the stored halves, their lse, and `room` [L H 1]."""
    q, k, pos = t.wide("query/q"), t.wide("kv/k"), t["query/pos"]
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scale = float(t.model["attn_scale"])
    z = scale * (q @ k.swapaxes(-1, -2))
    sees = np.arange(t.T)[None, :] <= pos[:, None]
    check(not t.model["window"].any(), "no sliding window")
    z = np.where(sees, z, -np.inf)
    top = z.max(-1, keepdims=True)
    lse = top + np.log(np.exp(z - top).sum(-1, keepdims=True))
    size = np.linalg.norm(q, axis=-1).max(-1) * np.linalg.norm(k, axis=-1).max(-1)
    return np.exp(z - lse), lse[..., 0], (size * scale * 2.0**-10)[..., None]


def check_queries(t, every):
    pos = t["query/pos"]
    begin = 0 if every else max(0, t.N - TAIL)
    check(np.array_equal(pos, np.arange(begin, t.T)), "positions of the stored queries")
    a, lse, room = attention(t)
    if "attn/rows" in t:
        rows = t.wide("attn/rows")
        near(rows, a, half_room(a) + 2e-6, "attn/rows")
        check((rows[..., np.arange(t.T)[None, :] > pos[:, None]] == 0).all(), "rows see the past only")
    near(t["attn/lse"][..., pos], lse, room + 1e-5, "attn/lse")
    return a, room


def check_sums(t, a, room):
    """Of a trace with every query: sums and maxima over full rows."""
    N, T, M, w = t.N, t.T, t.M, int(t.f["future/delayed"].attrs["w"])
    check(w == t.f["future"].attrs["delay"], "w of future/delayed")
    share = np.expm1(2 * room)  # relative error of one share
    sums, tops = a[..., :N, :N].sum(-2), a[..., :N, :N].max(-2)
    near(t["attn/col_sum"], sums, sums * share + 1e-5, "attn/col_sum")
    near(t["attn/col_max"], tops, tops * share + 1e-6, "attn/col_max")
    near(t["attn/col_sum"].sum(-1), np.full(sums.shape[:2], N), 1e-4 * N, "col_sum of a head is N")
    if M:
        mean, most = a[..., N:, :N].mean(-2), a[..., N:, :N].max(-2)
        near(t["future/mean"], mean, mean * share + 1e-6, "future/mean")
        near(t["future/max"], most, most * share + 1e-6, "future/max")
    delayed = np.full(t["future/delayed"].shape, np.nan)
    for j in range(max(0, T - w)):
        with np.errstate(divide="ignore"):
            delayed[..., j] = np.log(a[..., j + w:, j].mean(-1))
    got = t["future/delayed"]
    check(np.isnan(got[..., max(0, T - w):]).all() and not np.isnan(got[..., : max(0, T - w)]).any(), "future/delayed is NaN without a query")
    both = np.isfinite(delayed) & (delayed > -80)  # below: float32 has denormals or 0, which is -inf
    near(got[both], delayed[both], (np.zeros_like(delayed) + 2 * room + 1e-4)[both], "future/delayed")
    check((got[~both & ~np.isnan(delayed)] < -79).all(), "future/delayed of next to nothing")
    check_blocks(t, a, share)


def check_blocks(t, a=None, share=0):
    start, N, T = t["attn/block_start"], t.N, t.T
    size = int(t.f["attn"].attrs["block_tokens"])
    check(size >= 64 and size & (size - 1) == 0, "block length is a power of two from 64 on")
    check(list(start) == list(range(0, N, size)) + list(range(N, T, size)) + [T], "blocks start at 0 and again at N")
    scale = t.f["attn/block_sum"].attrs["scale"]
    check(scale == 1024, "scale of block_sum")
    block = t.wide("attn/block_sum") / scale
    length = np.diff(start)[:, None]
    prompt = int((start[:-1] < N).sum())
    total = (block * length)[..., :prompt, :N].sum(-2)
    near(total, t["attn/col_sum"], half_room(total) + 2.0**-35 * N + 1e-5, "block_sum of the prompt against col_sum")
    if t.M:
        mean = (block * length)[..., prompt:, :N].sum(-2) / t.M
        near(mean, t["future/mean"], half_room(mean) + 1e-6, "block_sum of the response against future/mean")
    for j in range(len(start) - 1):
        check((block[..., j, start[j + 1]:] == 0).all(), "a block sees no later token")
        if a is not None:
            want = a[..., start[j]: start[j + 1], :].mean(-2)
            near(block[..., j, :], want, want * (share + 2.0**-11) + 1e-6, "attn/block_sum")
    if "attn/block_max" in t:
        most = t["attn/block_max"]
        # Rounding to halves is monotone: the largest of the halves is the half of the largest.
        check(np.array_equal(most[..., :prompt, :N].max(-2), t["attn/col_max"].astype("f2")), "block_max of the prompt is col_max")
        if t.M:
            check(np.array_equal(most[..., prompt:, :N].max(-2), t["future/max"].astype("f2")), "block_max of the response is future/max")
        for j in range(len(start) - 1):
            if a is not None:
                want = a[..., start[j]: start[j + 1], :].max(-2)
                near(most[..., j, :], want, want * (share + 2.0**-11) + 1e-6, "attn/block_max")


def check_moments(t):
    """Of a trace with every query: rotation undone, first 4 positions left out, prompt only."""
    q, D = t.wide("query/q")[..., SKIP: t.N, :], int(t.model["head_dim"])
    angle = np.arange(SKIP, t.N)[:, None] * t.model["rope_freq"][None, :]
    x, y = q[..., : D // 2], q[..., D // 2:]
    before = np.concatenate([x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)], -1)
    size = np.abs(before).max()
    mean = before.mean(-2)
    near(t["query/mean"], mean, size * 2.0**-11, "query/mean")
    centred = before - mean[..., None, :]
    near(t["query/cov"], centred.swapaxes(-1, -2) @ centred / (t.N - SKIP), size**2 * 2.0**-9, "query/cov")
    near(t["query/freq_abs"], np.hypot(x, y).mean(-2), size * 2.0**-10, "query/freq_abs")
    cov = t["query/cov"]
    check(np.array_equal(cov, cov.swapaxes(-1, -2)), "query/cov is symmetric")


def check_norms(t):
    l1, l2, e = t.wide("value/wo_l1"), t.wide("value/wo_l2"), int(t.model["n_hidden"])
    check((l2 <= l1 * (1 + 1e-5)).all() and (l1 <= np.sqrt(e) * l2 * (1 + 1e-5)).all() and (l2 > 0).all(), "norms of W_O v")
    check((t["hidden/norm"] > 0).all(), "hidden/norm")


def check_span(t, place, name, begin, end):
    """begin, end: bytes of the rendered text."""
    names = [text(x).rstrip("\0") for x in t.token["span_name"]]
    i = names.index(name)
    got = (int(t.token["span_begin"][i]), int(t.token["span_end"][i]))
    check(got == token_range(t["token/offset"], begin, end), f"span {name}: {got}")
    check((t.token["span_byte_begin"][i], t.token["span_byte_end"][i]) == (begin, end), f"span {name}: bytes")


def same(a, b, paths=None):
    """Datasets of b that a has, too: bit for bit, layer by layer of b."""
    global where
    where = f"{a.name} and {b.name}"
    at = [list(a["layer/id"]).index(l) for l in b["layer/id"]]
    n = 0
    for path in paths or FORMAT:
        if path in a and path in b and path != "layer/id":
            x, y = a[path], b[path]
            x = x[at] if FORMAT[path][1][0] == "L" else x
            check(x.dtype == y.dtype and x.tobytes() == y.tobytes(), f"{path} differs")
            n += 1
    check(n > 0, "nothing to compare")


def main(folder):
    prompt = open(os.path.join(folder, "prompt.txt")).read()
    user = [("user", prompt)]
    t = Trace(folder, "all")
    check_schema(t, "full")
    check(list(t["layer/id"]) == [0, 7, 29], "layers")
    check_text(t, user)
    check_stop(t)
    check(text(t.token["stop_reason"]) == "stop-token" and t.M < 40, "an answer that ends by itself")
    check_logits(t, True)
    a, room = check_queries(t, True)
    check_sums(t, a, room)
    check_moments(t)
    check_norms(t)
    everything = t

    t = Trace(folder, "replay")
    check_schema(t, "replay")
    check_text(t, user)
    check_queries(t, False)
    check_blocks(t)
    check_norms(t)
    tail = everything["query/pos"] >= t.N - TAIL
    for path in ("query/q", "attn/rows"):
        check(np.array_equal(everything[path][1:][:, :, tail], t[path]), f"{path} is the end of all queries")
    same(everything, t, [p for p in FORMAT if p not in ("query/q", "query/pos", "attn/rows")])
    for level in ("summary", "train", "packed"):
        t = Trace(folder, level)
        check_schema(t, "full" if level == "packed" else level)
        check_text(t, user)
        same(everything, t)
    check(t.f["kv/k"].compression == "gzip" and t.f["kv/k"].shuffle and t.f["kv/k"].fletcher32, "--compress")
    check(everything.f["kv/k"].chunks is None, "contiguous without --compress")

    t = Trace(folder, "quiet")
    check_schema(t, "replay", rows=False, no_text=True)
    check_text(t, user)
    check(prompt[:20] not in text(t.f.attrs["command"]), "--no-text: the prompt is not in the command either")
    same(everything, t, [p for p in FORMAT if p not in ("query/q", "query/pos")])

    t = Trace(folder, "none")
    check_schema(t, "full")
    check(t.M == 0, "--max-new 0")
    check_stop(t)
    a, room = check_queries(t, True)
    check_sums(t, a, room)

    # Teacher forced by a long response: blocks of both parts, and -inf in no place but by underflow.
    response = open(os.path.join(folder, "response.txt")).read()
    t = Trace(folder, "forced")
    check_schema(t, "full")
    rendered, _ = check_text(t, [("system", "Answer in one line."), ("user", prompt)])
    check(t["text/bytes"].tobytes()[len(rendered):].decode() == response and text(t.token["stop_reason"]) == "forced", "--response")
    check_logits(t, False)
    a, room = check_queries(t, True)
    check_sums(t, a, room)
    check_moments(t)

    # What was generated, given back as a response: the same rows, but for the order of sums.
    cut, t = Trace(folder, "cut"), Trace(folder, "again")
    check(text(cut.token["stop_reason"]) == "length" and text(t.token["stop_reason"]) == "forced", "stop_reason")
    same(cut, t, ["token/id", "token/offset", "text/bytes"])
    for path in ("attn/lse", "logit/logp", "logit/nll", "logit/entropy", "hidden/norm"):
        near(t[path], cut[path], 1e-3 + 1e-3 * np.abs(cut[path]), f"{path} of a forced response")

    # Raw text: no template, its marks are tokens with --parse-special only.
    said = "<|im_start|>user\nName a colour.<|im_end|>\n<|im_start|>assistant\n"
    for name, parsed in (("raw", False), ("special", True)):
        t = Trace(folder, name)
        check_schema(t, "summary")
        offset, flag = t["token/offset"], t["token/flag"]
        check(t["text/raw"].tobytes().decode() == said and text(t.token["template"]) == "", "raw text")
        check(t["text/bytes"].tobytes().decode().startswith(said) and offset[t.N] == len(said), "raw text is tokenized as it is")
        check((flag[: t.N] & SPECIAL).sum() == (3 if parsed else 0), "marks in raw text")
        check(t.token["prefix_end"] == t.token["system_begin"] == t.token["system_end"] == 0, "raw text has no ranges")

    # Sampled: the same seed gives the same answer, whatever is recorded of it; another seed another.
    seven, again, eight = (Trace(folder, n) for n in ("seed7", "seed7_full", "seed8"))
    check("temperature" in text(seven.f.attrs["sampling"]) and seven.f.attrs["seed"] == 7, "sampling, seed")
    check_logits(seven, False)
    same(again, seven)
    check(not np.array_equal(seven["token/id"], eight["token/id"]), "another seed")
    check_set(os.path.join(folder, "set"))
    print(f"{checked} statements hold")


def check_set(folder):
    t = Trace(folder, "talk")
    messages = [("user", "My cat is called Ada."), ("assistant", "A fine name."), ("user", "What is my cat called? Say it twice.")]
    rendered, place = check_text(t, messages)
    check_schema(t, "replay")
    check(t.M <= 9, "max_new of the line")
    question = rendered.index(b"What is my cat")
    check_span(t, place, "question", question, question + len(b"What is my cat called?"))
    name = rendered.index(b"called Ada") + len(b"called ")
    check_span(t, place, "name", name, name + 3)  # not in the last message
    check_span(t, place, "twice", question + 23, question + 36)  # by bytes [23, 36)
    t = Trace(folder, "brief")
    rendered, _ = check_text(t, [("system", "Be brief."), ("user", "Größe von 東京 in Zahlen?")])
    check_schema(t, "replay")
    check(t["text/bytes"].tobytes()[len(rendered):].decode() == "Rund 2200 km².", "response of the line")
    check_queries(t, False)
    check_logits(t, False)


if __name__ == "__main__":
    main(sys.argv[1])
