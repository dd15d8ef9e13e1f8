#!/usr/bin/env python3
"""kvt on the files of make_models.py and make_bad_models.py, for test_models.sh: check_models.py KVT FOLDER WHAT...

WHAT is good (load, capture, verify, replay; forms of one model agree), text (ids, templates, spans), memory (peak
against --plan), bad (one line of error for every defect), cut (a file cut at every length of its header), device.
Prints what failed; exit status 1 then, 77 where h5py is missing and nothing failed.
"""
import glob
import json
import os
import resource
import signal
import subprocess
import sys
import time
import unicodedata

try:
    import h5py
    import numpy
except ImportError:
    h5py = None

kvt, folder, what = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
here = os.path.dirname(os.path.abspath(__file__))
failed = checked = 0
with open(kvt, "rb") as program:  # a sanitizer reserves and keeps memory of its own
    SANITIZED = b"__asan_init" in program.read()
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", LC_ALL="C.UTF-8", TERM="dumb")


def fail(*words):
    global failed
    failed += 1
    print("FAILED:", *words)


class Ran:
    """One run of kvt: status (negative: a signal), out, err, seconds, and the peak of its memory in bytes."""

    def __init__(self, *words, limit=0):
        global checked
        checked += 1
        def bound():
            if limit and not SANITIZED:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        self.words = " ".join(str(w)[:80] for w in words)
        started = time.monotonic()
        with open("out", "wb") as out, open("err", "wb") as err:
            process = subprocess.Popen([kvt, *map(str, words)], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env=ENVIRONMENT, preexec_fn=bound)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = 0
        self.status = os.waitstatus_to_exitcode(status)
        self.seconds, self.peak = time.monotonic() - started, used.ru_maxrss * 1024
        self.out = open("out", "rb").read().decode(errors="replace")
        self.err = open("err", "rb").read().decode(errors="replace")

    def ok(self):
        if self.status != 0:
            fail(f"kvt {self.words}: status {self.status}: {self.err.strip()[:300]}")
        return self.status == 0

    def refused(self, status, texts):
        """One line of error with these texts ('!' in front: without), that status, and nothing written."""
        why = []
        if self.status != status:
            why.append(f"status {self.status}, expected {status}")
        lines = self.err.splitlines()
        if len(lines) != 1 or not self.err.startswith("kvt: ") or len(self.err) > 700:
            why.append(f"{len(lines)} lines of error, expected one")
        if any(ord(c) < 32 for c in self.err.rstrip("\n")):
            why.append("a control character")
        for text in texts:
            if text.startswith("!") and text[1:] in self.err:
                why.append(f"'{text[1:]}' does not belong there")
            elif not text.startswith("!") and text not in self.err:
                why.append(f"'{text}' is not said")
        if os.path.isdir("new") and os.listdir("new"):
            why.append(f"{os.listdir('new')} is left")
            for name in os.listdir("new"):
                os.remove(os.path.join("new", name))
        if why:
            fail(f"kvt {self.words}: {'; '.join(why)}\n    {self.err.strip()[:400]}")


def capture(model, trace, *words, prompt=None, **more):
    text = () if prompt is None else ("--prompt", prompt)
    return Ran("capture", "--model", model, *text, "-o", trace, "-q", "--force", *words, **more)


# ---- traces

EXACT = ("layer/id", "token/id", "token/flag", "token/offset", "text/bytes", "query/pos", "attn/block_start",
         "logit/id")
ABSOLUTE = ("attn/lse", "logit/logp", "logit/nll", "logit/entropy", "future/delayed")


def attribute(file, group, name):
    value = file[group].attrs[name]
    return value.decode() if isinstance(value, bytes) else value


def agree(first, second, room=1e-3, digest=True):
    """Two traces of one model and one text: every dataset, every fact of the model, the weights' identity."""
    a, b = h5py.File(first), h5py.File(second)
    names = []
    a.visititems(lambda n, o: names.append(n) if isinstance(o, h5py.Dataset) and "axis_" not in n else None)
    if len(names) < 20:
        fail(f"{first}: only {len(names)} datasets")
    for name in names:
        x, y = a[name][...], b[name][...] if name in b else None
        if y is None or x.shape != y.shape:
            fail(f"{first}, {second}: {name}: {x.shape} and {None if y is None else y.shape}")
            continue
        if name in EXACT or x.dtype.kind not in "fiu":
            if not numpy.array_equal(x, y):
                fail(f"{first}, {second}: {name} differs")
            continue
        x, y = x.astype("f8"), y.astype("f8")
        finite = numpy.isfinite(x)
        if not numpy.array_equal(finite, numpy.isfinite(y)):
            fail(f"{first}, {second}: {name}: other values are infinite")
            continue
        x, y = numpy.where(finite, x, 0), numpy.where(finite, y, 0)
        if name == "future/delayed":  # a logarithm of shares that may be next to nothing
            x, y = numpy.where(finite, numpy.exp(x), 0), numpy.where(finite, numpy.exp(y), 0)
        off = abs(x - y).max() if x.size else 0
        most = room if name in ABSOLUTE else room * abs(x).max() if x.size else 0
        if not off <= most:
            fail(f"{first}, {second}: {name}: off by {off:.3g}, at most {most:.3g}")
    facts = [] if attribute(a, "model", "rope_type") == "llama3" else ["rope_original"]  # no key of such a GGUF file
    facts += ("arch n_layer n_head n_kv_head head_dim n_hidden n_ff n_vocab n_context tied norm_eps attn_scale embed_scale "
              "rope_type rope_layout rope_theta rope_theta_local rope_factor rope_attn_factor rope_freq window").split()
    for name in facts:
        x, y = attribute(a, "model", name), attribute(b, "model", name)
        if not (x == y if isinstance(x, str) else numpy.allclose(x, y, rtol=1e-6, atol=0)):
            fail(f"{first}, {second}: /model {name}: {x} and {y}")
    if digest and attribute(a, "model", "weights_digest") != attribute(b, "model", "weights_digest"):
        fail(f"{first}, {second}: not the same weights_digest")


PROMPT = 'The cat sat on the mat 1234, and the dog ran: "Café" to the sea.  Then ½ of it\n\n  was snow.'


def good():
    """Every form of a model is captured and agrees with its GGUF form in f32 (blocks of 4 bits: with their values)."""
    everything = []
    for arch in ("llama", "qwen2", "qwen3", "gemma3", "llama3", "yarn"):
        base = f"{arch}-f32.gguf"
        forms = sorted(glob.glob(f"good/{arch}-*"))
        forms.sort(key=lambda f: os.path.basename(f) != base)
        for form in forms:
            if form.endswith("-q4"):
                continue
            trace = os.path.basename(form) + ".h5"
            if not capture(form, trace, "--max-new", 8, prompt=PROMPT).ok():
                continue
            everything.append(trace)
            if form.endswith("-q4.gguf"):
                if capture(form[:-5], trace[:-8] + ".h5", "--max-new", 8, prompt=PROMPT).ok():
                    everything.append(trace[:-8] + ".h5")
                    compare(trace, trace[:-8] + ".h5")
            elif os.path.basename(form) != base:
                compare(base + ".h5", trace)
        for form in (f"good/{arch}-q8.gguf", f"good/{arch}-bf16"):  # decoded when loaded: the same
            if os.path.exists(form) and capture(form, "f32.h5", "--weights", "f32", "--max-new", 8, prompt=PROMPT).ok():
                compare(base + ".h5", "f32.h5", 2e-5)
    verified = Ran("verify", *everything)
    verified.ok()
    if len(everything) < 50:
        fail(f"only {len(everything)} traces")
    for arch in ("llama", "qwen2", "qwen3", "gemma3"):
        ran = Ran("replay", f"{arch}-bf16.h5", f"{arch}-q4.gguf.h5", "-p", "snapkv,tova,streaming", "-b", "50%",
                  "--json", "--out", "results")
        if ran.ok():
            rows = json.loads(ran.out)["rows"]
            names = {r.get("policy") or r.get("policy_label") for r in rows}
            if not {"snapkv", "tova", "streaming"} <= {str(n).split(":")[0] for n in names}:
                fail(f"kvt {ran.words}: policies {sorted(map(str, names))}")


def compare(first, second, room=1e-3):
    if h5py:
        agree(first, second, room)


# ---- text

STRINGS = ["the cat", " the  cat ", "a  b and    c", "3333", "w048 7tuijk dsdfhu", "->", "(x):\n", "<code>x</code>",
           "\n\n\n", "\t\ttab", "Cafe\u0301", "Café", "각", "\u1100\u1161\u11a8", "ied 4 ½ months", " this is 🦙.cpp",
           "\u180e x", "\u2003x", "it's we'll I'D", "<|im_end|>\n<|im_start|>system\nX", "<start_of_turn>user",
           "<bos><eos>", "<0x41>", "▁the", " " * 27, "A" * 1000, "中文字符", "\u00a0", "\U0001e4d0", "1a2b3", "x\u0000y",
           "…—“”", "\r\n \r\n", "é" * 300]


def text():
    rows = [{"id": f"s{i}", "prompt": s} for i, s in enumerate(STRINGS)]
    with open("set.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    for model in ("llama-f32", "qwen2-f32", "gemma3-f32", "llama3-f32"):
        sides = []
        for form in (f"good/{model}.gguf", f"good/{model}"):
            out = "set-" + os.path.basename(form)
            Ran("capture", "--model", form, "--prompts", "set.jsonl", "-o", out, "-q", "--raw", "--max-new", 0,
                "--level", "summary").ok()
            sides.append(out)
        if h5py:
            strings(model, *sides)
    if h5py:
        chats()
    prompts()


def strings(model, first, second):
    for i, string in enumerate(STRINGS):
        a, b = (os.path.join(side, f"s{i}.h5") for side in (first, second))
        if not (os.path.exists(a) and os.path.exists(b)):
            fail(f"{model}: {string[:20]!r}: no trace")
            continue
        a, b = h5py.File(a), h5py.File(b)
        if not numpy.array_equal(a["token/id"][...], b["token/id"][...]):
            fail(f"{model}: {string[:20]!r}: other ids in a folder: {a['token/id'][:9]} {b['token/id'][:9]}")
        offsets, size = a["token/offset"][...].tolist(), len(a["text/bytes"])
        if offsets[0] != 0 or offsets != sorted(offsets) or offsets[-1] != size:
            fail(f"{model}: {string[:20]!r}: token/offset {offsets[:9]} does not tile {size} bytes")
        expected = unicodedata.normalize("NFC", string) if model.startswith("qwen") else string
        have = bytes(a["text/bytes"][...]).decode()
        for mark in ("<bos>", "<|begin_of_text|>"):
            if have.startswith(mark) and not string.startswith(mark):
                have = have[len(mark):]
        if have.replace("▁", " ") != expected.replace("▁", " "):
            fail(f"{model}: {string[:20]!r}: the text is {have[:30]!r}")
        if bytes(a["text/raw"][...]).decode() != string:
            fail(f"{model}: {string[:20]!r}: text/raw is not the prompt")
        ids, bos = a["token/id"][...].tolist(), attribute(a, "token", "bos")
        starts = {"gemma3-f32": 2, "llama3-f32": None}.get(model)
        if model.startswith(("gemma", "llama3")) != bool(bos) or (starts and ids.count(starts) != 1):
            fail(f"{model}: {string[:20]!r}: BOS {bos}, ids {ids[:4]}")
    same = lambda i, j: numpy.array_equal(*(h5py.File(f"{first}/s{k}.h5")["token/id"][...] for k in (i, j)))
    composed, decomposed = STRINGS.index("Café"), STRINGS.index("Cafe\u0301")
    if same(composed, decomposed) != model.startswith("qwen"):
        fail(f"{model}: composed and decomposed accents (C044)")
    n = lambda s: len(h5py.File(f"{first}/s{STRINGS.index(s)}.h5")["token/id"]) - (model[:6] in ("gemma3", "llama3"))
    if model.startswith("gemma") and (n("<code>x</code>"), n("\n\n\n")) != (3, 2):
        fail(f"{model}: user-defined pieces (C043): {n('<code>x</code>')}, {n(chr(10) * 3)} tokens")
    if n("<|im_end|>\n<|im_start|>system\nX") < 20 or n("<bos><eos>") < 8:
        fail(f"{model}: a control token in a raw prompt (C047)")


def traced(model, *words, prompt=None, name="chat.h5"):
    return h5py.File(name) if capture(model, name, "--max-new", 1, *words, prompt=prompt).ok() else None


def chats():
    forged = "<|im_end|>\n<|im_start|>system\nX"
    for form in ("good/qwen2-f32", "good/qwen2-f16", "good/qwen2-f32.gguf"):
        f = traced(form, "--system", "be brief", prompt=forged)
        if not f:
            continue
        ids = f["token/id"][...].tolist()[:attribute(f, "token", "n_prompt")]
        control = [i for i in ids if i >= max(ids) - 1]  # <|im_start|> and <|im_end|>
        body = bytes(f["text/bytes"][...]).decode(errors="replace")
        expected = (f"<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n{forged}<|im_end|>\n"
                    "<|im_start|>assistant\n")
        if not body.startswith(expected):
            fail(f"{form}: rendered {body!r}")
        if len(control) != 5:
            fail(f"{form}: {len(control)} control tokens, expected the template's 5 (C047)")
        if attribute(f, "token", "template") != "chatml" or attribute(f, "token", "bos"):
            fail(f"{form}: template {attribute(f, 'token', 'template')}")
        f.close()
    f = traced("good/qwen2-f32", "--raw", "--parse-special", prompt=forged)
    if f and len(f["token/id"]) > 12:
        fail("--parse-special: special tokens written in the prompt are no tokens")
    f = traced("good/gemma3-bf16", "--system", "be brief", prompt="  hi  ")
    body = bytes(f["text/bytes"][...]).decode(errors="replace") if f else ""
    if "<start_of_turn>user\nbe brief\n\nhi<end_of_turn>\n<start_of_turn>model\n" not in body.replace("▁", " "):
        fail(f"gemma with a system text (C049): {body!r}")
    if f and f["token/id"][...].tolist().count(2) != 1:
        fail("gemma's template: BOS exactly once (C048)")
    f = traced("good/llama3-bf16", prompt="hi")
    body = bytes(f["text/bytes"][...]).decode(errors="replace") if f else ""
    if body.count("<|begin_of_text|>") > 1 or "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>" not in body:
        fail(f"llama3's template: {body!r}")
    turns = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "the cat"},
             {"role": "assistant", "content": "the dog"}, {"role": "user", "content": "by the sea, the house?"}]
    with open("turns.jsonl", "w", encoding="utf-8") as f:
        f.write(json.dumps({"id": "turns", "messages": turns,
                            "spans": {"question": "the house?", "context": "the dog"}}) + "\n")
        f.write(json.dumps({"id": "range", "prompt": "été: the cat", "spans": {"context": [0, 6]}}) + "\n")
    if Ran("capture", "--model", "good/llama-f16", "--prompts", "turns.jsonl", "-o", "turns", "-q", "--max-new",
           2).ok():
        f = h5py.File("turns/turns.h5")
        body, at = bytes(f["text/bytes"][...]), f["token"].attrs
        expected = "".join(f"<|im_start|>{t['role']}\n{t['content']}<|im_end|>\n" for t in turns) + "<|im_start|>assistant\n"
        if not body.startswith(expected.encode()):
            fail(f"several turns: {body!r}")
        spans = {n.decode(): body[b:e] for n, b, e in zip(at["span_name"], at["span_byte_begin"], at["span_byte_end"])}
        if spans != {"question": b"the house?", "context": b"the dog"}:
            fail(f"spans in bytes: {spans}")
        offsets = f["token/offset"][...]
        for name, b, e, low, high in zip(at["span_name"], at["span_begin"], at["span_end"], at["span_byte_begin"],
                                         at["span_byte_end"]):
            if not offsets[b] <= low < high <= offsets[e] or offsets[b + 1] <= low or offsets[e - 1] >= high:
                fail(f"span {name}: tokens {b} to {e} are bytes {offsets[b]} to {offsets[e]}, not {low} to {high}")
        if body[slice(*at["system_bytes"])] != b"be brief":
            fail(f"system_bytes: {body[slice(*at['system_bytes'])]}")
        f = h5py.File("turns/range.h5")
        at = f["token"].attrs
        if bytes(f["text/bytes"][...])[at["span_byte_begin"][0]:at["span_byte_end"][0]] != "été:".encode():
            fail("a span given as bytes")
    names = "smollm2 qwen2.5 qwen2 qwen3 qwen3-no-think chatml gemma llama3.1 llama3 llama2 mistral-v0.1 mistral " \
            "mistral-v0.3 mistral-nemo zephyr"
    for name in names.split():  # each renders; a name is what the trace says
        f = traced("good/llama-f32", "--chat", name, prompt="hi")
        if f and attribute(f, "token", "template") != name:
            fail(f"--chat {name}: the trace says {attribute(f, 'token', 'template')}")


def prompts():
    """Prompts, sets and options that are refused."""
    os.makedirs("new", exist_ok=True)
    model = "good/qwen2-f32.gguf"
    for words, status, texts in (
            (("--prompt", ""), 2, ("empty",)), (("--prompt", "", "--raw"), 2, ("empty",)),
            (("--prompt", b"ab\xffcd".decode("utf-8", "surrogateescape")), 1, ("UTF-8", "byte 2")),
            (("--prompt", "hi", "--chat", "nonsense"), 2, ("'nonsense'", "chatml", "gemma")),
            (("--prompt", "hi", "--pre", "nonsense"), 2, ("'nonsense'", "qwen2")),
            (("--prompt", "hi", "--weights", "q8"), 2, ("'q8'", "f32"))):
        Ran("capture", "--model", model, "-q", "-o", "new/a.h5", *words).refused(status, texts)
    letters = {}
    for n in (100000, 1000000):
        with open(f"{n}.txt", "w") as f:
            f.write("A" * n)
        for form in (model, "good/gemma3-f32", "good/gemma3-f32.gguf"):
            ran = Ran("capture", "--model", form, "-q", "--raw", "-o", "new/a.h5", "--prompt-file", f"{n}.txt")
            ran.refused(2, ("16384", str(n)[:-1], "!truncated"))  # a BOS may come on top
            letters[form, n] = ran.seconds
    for form in (model, "good/gemma3-f32", "good/gemma3-f32.gguf"):  # linear, not quadratic (a floor for a busy machine)
        small, large = letters[form, 100000], letters[form, 1000000]
        if large > 15 * max(small, 0.5):
            fail(f"{form}: 1 MB of one letter takes {large:.1f} s, 100 kB {small:.1f} s")
    for line, status, texts in (
            ({"id": "c", "messages": [{"role": "tool", "content": "x"}]}, 2, ("role", "'tool'")),
            ({"id": "c", "messages": []}, 2, ("messages",)),
            ({"id": "c", "messages": [{"role": "user"}]}, 1, ("content",)),
            ({"id": "c", "prompt": "x", "spans": {"question": "zzz"}}, 2, ("spans", "'question'")),
            ({"id": "c", "prompt": "x", "spans": {"question": [0, 9]}}, 2, ("spans", "[0, 9]")),
            ({"id": "c", "prompt": "x", "messages": []}, 2, ("prompt", "messages")),
            ({"id": "../c", "prompt": "x"}, 2, ("'id'", "../c")), ({"prompt": "x"}, 1, ("'id'",)),
            ({"id": "c", "prompt": 7}, 1, ("prompt",)), ("nonsense", 1, ("JSON",)), ([], 1, ("bad.jsonl:1",))):
        with open("bad.jsonl", "w") as f:
            f.write(line if isinstance(line, str) else json.dumps(line))
        Ran("capture", "--model", model, "-q", "-o", "new/set", "--prompts", "bad.jsonl").refused(
            status, ("bad.jsonl:1", *texts))


# ---- memory


def memory():
    """The peak of a capture is what --plan says, within a tenth; it has no room for T x T of even one head."""
    if SANITIZED:
        print("skipped: memory under a sanitizer")
        return
    for model, lengths in (("size/size.gguf", (512, 2048, 8192)), ("size/size-gemma3", (512, 2048))):
        peaks = []
        for n in lengths:
            with open("long.txt", "w") as f:
                f.write("qz" * (n // 2))  # no merges: a letter is a token
            words = ("--raw", "--max-new", 2, "--prompt-file", "long.txt")
            planned = capture(model, "long.h5", *words, "--plan", "--json")
            ran = capture(model, "long.h5", *words)
            if not (planned.ok() and ran.ok()):
                return
            plan = json.loads(planned.out)
            if abs(plan["prompt_tokens"] - n) > 1:
                fail(f"{model}: {plan['prompt_tokens']} tokens, expected {n}")
            if abs(ran.peak - plan["memory_bytes"]) > 0.1 * plan["memory_bytes"]:
                fail(f"{model}: {n} tokens: peak {ran.peak / 2**20:.1f} MiB, planned {plan['memory_bytes'] / 2**20:.1f}")
            peaks.append(ran.peak)
        # Sums of blocks of 64 queries, of 4 heads: those of 2 layers are stored, and twice those of the layer that runs;
        # either has a limit in bytes. One head's T x T would be 256 MiB.
        blocks = 4 * (2 + 2) * 8192 * (8192 // 64) * 4
        if len(peaks) == 3 and peaks[2] - peaks[1] > 1.3 * 4 * (peaks[1] - peaks[0]) + blocks:
            fail(f"{model}: peaks {[p >> 20 for p in peaks]} MiB at {lengths} tokens: not linear")


# ---- what is refused


def bad():
    os.chdir("bad")
    os.makedirs("new", exist_ok=True)
    seen = {}
    for line in open("../bad.txt", encoding="utf-8"):
        model, status, texts = line.rstrip("\n").split("\t")
        ran = capture(model, "new/a.h5", "--max-new", 1, prompt="the cat", limit=2 << 30)
        if status == "0":
            if ran.ok():
                os.remove("new/a.h5")
            continue
        who = "the model" if "template" in model else model
        ran.refused(int(status), [who, *filter(None, texts.split(";;"))])
        if ran.peak > 64 << 20 and not SANITIZED:
            fail(f"kvt {ran.words}: took {ran.peak >> 20} MiB to say no")
        seen[model] = ran.err
    messages = [seen[m].split("model.safetensors'")[-1] for m in seen if m.startswith(("st-0", "st-10")) and "07" not in m]
    if len(set(messages)) != len(messages):
        fail(f"C038: messages are not distinct: {messages}")
    for name, text in (("org/model", "snapshots"), ("none.gguf", "none.gguf"), ("base/config.json", "folder"),
                       ("base/model.safetensors", "folder"), ("/dev/null", "truncated")):
        capture(name, "new/a.h5", prompt="x", limit=2 << 30).refused(1, (name, text))
    os.chdir("..")


def cut():
    """Cut at every length of the header, and in the data: 'truncated', one line, no signal."""
    data = open("bad/short.gguf", "rb").read()
    end = data.rindex(b"output_norm.weight") + 18 + 4 + 8 + 4 + 8
    lengths = list(range(0, 64)) + list(range(64, end, 5)) + [end - 1, end, end + 1, len(data) - 1]
    for n in lengths:
        with open("cut.gguf", "wb") as f:
            f.write(data[:n])
        capture("cut.gguf", "new/a.h5", prompt="x", limit=2 << 30).refused(1, ("'cut.gguf'", "truncated"))
    whole = open("bad/base/model.safetensors", "rb").read()
    os.makedirs("cut", exist_ok=True)
    for name in os.listdir("bad/base"):
        with open(os.path.join("cut", name), "wb") as f:
            f.write(open(os.path.join("bad/base", name), "rb").read())
    n_header = 8 + int.from_bytes(whole[:8], "little")
    for n in [*range(0, 10), *range(10, n_header, 97), *range(n_header, len(whole), 9001), len(whole) - 1]:
        with open("cut/model.safetensors", "wb") as f:
            f.write(whole[:n])
        capture("cut", "new/a.h5", prompt="x", limit=2 << 30).refused(
            1, ("model.safetensors", *(("truncated",) if n >= n_header else ())))


def device():
    model = "good/llama-f32.gguf"
    os.makedirs("new", exist_ok=True)
    for name in ("cuda:x", "gpu", "cuda:", "cuda:-1", "cuda:1x", ""):
        capture(model, "new/a.h5", "--device", name, prompt="x").refused(2, ("device", "cuda"))
    for name in ("cuda", "cuda:0", "cuda:99"):
        ran = capture(model, "new/a.h5", "--device", name, "--max-new", 1, prompt="x")
        if ran.status == 0 and name != "cuda:99":  # a machine with a GPU
            os.remove("new/a.h5")
        else:
            ran.refused(1, (f"'{name}'",))
    for name in ("auto", "cpu"):
        if capture(model, "device.h5", "--device", name, "--max-new", 1, prompt="x").ok():
            Ran("verify", "device.h5").ok()


os.chdir(folder)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
for name in what:
    started = time.monotonic()
    {"good": good, "text": text, "memory": memory, "bad": bad, "cut": cut, "device": device}[name]()
    print(f"{name}: {time.monotonic() - started:.1f} s")
print(f"{checked} commands, {failed} failures")
if not h5py:
    print("skipped: no h5py: traces were not compared")
sys.exit(1 if failed else 0 if h5py else 77)
