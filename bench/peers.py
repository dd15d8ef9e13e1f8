#!/usr/bin/env python3
"""peers.py - kvt beside the tools people use today, as ratios in one run on one prompt.

    bench/peers.py --model MODEL.gguf --kvt build/release/kvt --python VENV/bin/python

The same rendered prompt of about 2,048 tokens and 64 generated ones go to `kvt capture`, to
transformers (prefill and decode with sdpa; the usual dump of eager attention; a careful dump), to
a SnapKV replay in vectorised numpy and to the kvpress harness. The scripts of those come from the
folder --peers (default: $KVT_PEERS, or shared/bench beside the checkout), and run with --python.
llama.cpp (llama-cpp-python of the Python --llama) decodes the same file on the same threads.
What is missing is said, its rows are left out, and the rest goes on: kvt itself needs no Python.

In each round everything runs once, one after the other, and a ratio (above 1: kvt is better) is
made within a round. The table has medians over the rounds, and the lowest and highest ratio.
Seconds are those that each tool measures itself, loading left out. On a machine that others use
too these say little; the column CPU is the same ratio of CPU seconds of the processes, less those
of a process that only loads the model.

Memory is what lies above the weights: peak resident bytes without those of the weights in f32.
Replay is ranking and judging without reading and writing: CPU seconds of a run on one thread,
divided by the threads that share the layers. numpy works on one thread; its seconds are its own
(the best of six), in the column CPU those that six more repetitions add.
"""
import argparse
import csv
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = "2%,5%,10%,15%,20%,25%,30%,40%,50%"
POLICY = "snapkv:window=32,pool=7,kind=mean"
ASK = "\n\nTell in your own words and in detail what the texts above are about."
RENDERED = """
import h5py, sys
with h5py.File(sys.argv[1]) as f:
    end = f["token/offset"][int(f["token"].attrs["n_prompt"])]
    sys.stdout.buffer.write(bytes(f["text/bytes"][:end]))
"""
LOADED = "import sys; sys.path.insert(0, sys.argv[2]); import common; " \
         "common.load(sys.argv[1], 'sdpa'); common.out(tool='loaded')"
# The prompt, then its own tokens once more, one at a time: what is decoded changes no speed.
LLAMA = """
import json, sys, time
import llama_cpp
model, prompt, threads, new = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
text = open(prompt, "rb").read()
m = llama_cpp.Llama(model, n_ctx=len(text) + new, n_threads=threads, n_threads_batch=threads,
                    n_gpu_layers=0, verbose=False)
ids = m.tokenize(text, add_bos=False, special=True)
def timed(what, steps):
    begin, cpu = time.perf_counter(), time.process_time()
    for step in steps:
        m.eval(step)
    print(json.dumps({"what": what, "tokens": len(ids), "median_s": time.perf_counter() - begin,
                      "cpu_s": time.process_time() - cpu, "version": llama_cpp.__version__}))
timed("prefill", [ids])
timed("decode", [[i] for i in ids[:new]])
"""

# key, what, side of kvt, side of the peer, factor on the peer, goal (ratio at least)
ROWS = [
    ("prefill", "prefill, against sdpa", "prefill", "sdpa prefill", 1, 1.2),
    ("decode", "decode, against sdpa", "decode", "sdpa decode", 1, None),
    ("llama", "decode of the file's own weights, against llama.cpp", "decode", "llama decode", 1,
     1),
    ("eager_s", "capture, against the eager dump", "capture", "eager dump", 1, 5),
    ("eager_mem", "memory, against the eager dump", "capture MiB", "eager dump MiB", 1, 10),
    ("smart_s", "capture, against the careful dump", "capture", "careful dump", 1, 1.7),
    ("smart_mem", "memory, against the careful dump", "capture MiB", "careful dump MiB", 1, 3),
    ("smart_loaded", "... above its process with the model loaded", "capture MiB",
     "careful dump MiB, loaded", 1, None),
    ("numpy", "replay, nine budgets, against numpy", "replay", "numpy", 1, 10),
    ("numpy_all", "... the whole command, reading included", "replay command", "numpy, reading",
     1, None),
    ("harness", "replay, against nine cells of the harness", "replay", "harness cell", 9, 1000),
    ("harness_all", "... the whole command", "replay command", "harness cell", 9, None),
]
KERNEL_ROWS = ("prefill", "eager_s", "smart_s")  # again for every BLAS kernel


class Failed(Exception):
    pass


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, env=None, text=True):
    """Output, wall and CPU seconds. Failed with the last line of what it said."""
    begin, cpu = time.perf_counter(), children()
    done = subprocess.run([str(c) for c in command], capture_output=True, env=env, check=False,
                          stdin=subprocess.DEVNULL)
    wall, cpu = time.perf_counter() - begin, children() - cpu
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Failed(f"{pathlib.Path(command[0]).name}: exit status {done.returncode}: "
                     f"{said[-1] if said else 'nothing said'}")
    return (done.stdout.decode() if text else done.stdout), wall, cpu


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, pathlib.Path(folder)
        self.value = {}     # side -> one number a round
        self.missing = {}   # what -> why
        self.env = dict(os.environ, NT=str(args.threads), REPEAT="1", HF_HUB_OFFLINE="1")
        self.trace, self.dump = self.folder / "kvt.h5", self.folder / "dump.h5"
        self.prompt, self.rendered = self.folder / "prompt.txt", self.folder / "rendered.txt"
        self.load_cpu = self.loaded_cpu = 0
        self.llama_version = None
        self.same = None    # largest difference between kvt's and numpy's results

    def put(self, side, x, cpu=None):
        self.value.setdefault(side, []).append(x)
        if cpu is not None:
            self.value.setdefault(side + ", CPU", []).append(cpu)

    # ---- kvt ----

    def kvt(self, *words, env=None, threads=None):
        out, wall, cpu = run([self.args.kvt, *words, "-j", threads or self.args.threads, "-q",
                              "--json", "--progress", "none"], env)
        return json.loads(out), wall, cpu

    def capture(self, *words, env=None, new=None):
        """What it says, and CPU seconds."""
        got, _, cpu = self.kvt("capture", "--model", self.args.model, "--prompt-file", self.prompt,
                               "--max-new", self.args.new if new is None else new, *words, env=env)
        return got, cpu

    def write_prompt(self):
        """A text that is as long as asked once it is rendered, from the example prompts."""
        texts = []
        for line in (ROOT / "docs/examples/prompts.jsonl").read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            texts += [item["prompt"]] if "prompt" in item else \
                [m["content"] for m in item["messages"]]
        text, want = "\n\n".join(texts), self.args.tokens
        size = want * 4
        for _ in range(8):
            cut = text[:size].rsplit(" ", 1)[0]
            self.prompt.write_text(cut + ASK, encoding="utf-8")
            plan = self.capture("--plan")[0]
            left = want - plan["prompt_tokens"]
            if 0 <= left <= 16:
                break
            size += left * 4 if left < 0 else left * 3
        self.weights = plan["weight_bytes"]
        self.planned = plan["memory_bytes"]
        self.load_cpu = self.kvt("capture", "--model", self.args.model, "--raw", "--prompt", "a",
                                 "--max-new", 0, "-o", self.folder / "load.h5")[2]

    def put_parts(self, first, second, parts, cpu):
        """CPU seconds of a process that did two things are shared out by their seconds."""
        for side, x in zip((first, second), parts):
            self.put(side, x, cpu * x / sum(parts))

    def capture_all(self, kernel, env):
        """Once with next to no recording, for the engine's own speed, and once with everything."""
        got, cpu = self.capture("-o", self.folder / "engine.h5", "--force", "--level", "summary",
                                "--layers", "0", env=env)
        self.put_parts("prefill" + kernel, "decode" + kernel,
                       (got["last"]["prefill_s"], got["last"]["decode_s"]), cpu - self.load_cpu)
        got, cpu = self.capture("-o", self.trace, "--force", env=env)
        last = got["last"]
        self.n_prompt, self.n_new = last["prompt_tokens"], last["response_tokens"]
        self.put("capture" + kernel, sum(last[k] for k in ("prefill_s", "decode_s", "compute_s",
                                                           "write_s")), cpu - self.load_cpu)
        self.put("capture MiB" + kernel, (got["peak_bytes"] - self.weights) / 2**20)
        self.put("planned / peak", self.planned / got["peak_bytes"])

    def replay(self):
        command = ["replay", self.trace, "-p", POLICY, "-b", BUDGETS, "--no-controls",
                   "--no-output-error", "--recompute", "-o", self.folder / "results"]
        _, wall, cpu = self.kvt(*command)
        self.put("replay command", wall, cpu)
        got, _, _ = self.kvt(*command, threads=1)
        self.rows = {r["budget_tokens"]: r for r in got["rows"] if r["policy"] == "snapkv"}
        if len(self.rows) != 9 or any(r["status"] != "ok" for r in self.rows.values()):
            raise Failed("kvt replay: not all of nine cells were computed")
        work = got["run"]["rank_s"] + got["run"]["judge_s"]
        self.put("replay", work / self.args.threads, work)

    # ---- peers ----

    def peer(self, what, script, *words):
        """The JSON lines of a script and its CPU seconds without those of loading; nothing where it
        cannot run, which is said once."""
        if what in self.missing:
            return [], 0
        try:
            path = pathlib.Path(self.args.peers) / script
            if not path.is_file():
                raise Failed(f"no '{path.name}' in the folder of --peers")
            out, _, cpu = run([self.args.python, path, *words], self.env)
            return ([json.loads(line) for line in out.splitlines() if line.startswith("{")],
                    cpu - self.loaded_cpu)
        except (Failed, OSError) as why:
            self.missing[what] = str(why)
            return [], 0

    def render(self):
        try:
            text = run([self.args.python, "-c", RENDERED, self.trace], text=False)[0]
            self.rendered.write_bytes(text)
        except (Failed, OSError) as why:
            self.missing["peers"] = f"the rendered prompt cannot be read: {why}"
        return "peers" not in self.missing

    def llama(self):
        """llama.cpp by its Python binding, on the model's own file."""
        if "llama.cpp" in self.missing:
            return
        try:
            if not self.args.llama:
                raise Failed("no --llama PYTHON was given")
            out, _, _ = run([self.args.llama, "-c", LLAMA, self.args.model, self.rendered,
                             self.args.threads, self.n_new], self.env)
        except (Failed, OSError) as why:
            self.missing["llama.cpp"] = str(why)
            return
        for line in map(json.loads, out.splitlines()):
            self.check_tokens(line)
            self.llama_version = line["version"]
            self.put("llama " + line["what"], line["median_s"], line["cpu_s"])

    def prepare_peers(self):
        if not self.args.hf:
            self.args.hf = self.folder / "hf"
            self.peer("peers", "convert.py", self.args.model, self.args.hf)
        if "peers" in self.missing:
            return False
        self.hf_weights = sum(p.stat().st_size for p in pathlib.Path(self.args.hf).iterdir()
                              if p.suffix == ".safetensors")
        try:
            out, _, self.loaded_cpu = run([self.args.python, "-c", LOADED, self.args.hf,
                                           self.args.peers], self.env)
            self.loaded = json.loads(out.splitlines()[-1])["peak_rss_bytes"]
        except (Failed, OSError) as why:
            self.missing["peers"] = f"transformers cannot load the model: {why}"
        return "peers" not in self.missing

    def check_tokens(self, line):
        if line["tokens"] != self.n_prompt:
            sys.exit(f"peers.py: {line['what']}: {line['tokens']} tokens where kvt has "
                     f"{self.n_prompt}")

    def peers(self):
        hf, prompt = self.args.hf, self.rendered
        lines, cpu = self.peer("sdpa", "prefill.py", hf, prompt)
        if lines:  # a warm-up and one that counts
            self.check_tokens(lines[0])
            self.put_parts("sdpa prefill", "sdpa decode", [x["median_s"] for x in lines], cpu / 2)
        for what, script in (("eager dump", "dump.py"), ("careful dump", "dump_smart.py")):
            lines, cpu = self.peer(what, script, hf, prompt, self.dump)
            for line in lines:
                self.check_tokens(line)
                self.put(what, line["median_s"], cpu)
                self.put(what + " MiB", (line["peak_rss_bytes"] - self.hf_weights) / 2**20)
                self.put(what + " MiB, loaded", (line["peak_rss_bytes"] - self.loaded) / 2**20)
        lines, cpu = self.peer("harness", "harness.py", hf, prompt, "--press", "SnapKVPress")
        for line in lines:
            self.check_tokens(line)
            self.put("harness cell", line["median_s"], cpu / 2)
        if self.dump.is_file():
            self.numpy()

    def numpy(self):
        self.env["REPEAT"] = "12"
        _, many = self.peer("numpy", "numpy_replay.py", self.dump)
        self.env["REPEAT"] = "6"
        lines, few = self.peer("numpy", "numpy_replay.py", self.dump)
        for line in lines:
            best = min(line["seconds"])
            self.put("numpy", best, (many - few) / 6)
            self.put("numpy, reading", best + line["read_s"])
            self.compare(line["budgets"])
        self.env["REPEAT"] = "1"

    def compare(self, budgets):
        """Both sides must have done the same thing: recall and mass lost of every budget."""
        far = [max(abs(self.rows[b]["recall_mean_frac"] - recall),
                   abs(self.rows[b]["lost_mass_mean_frac"] - lost))
               for b, recall, lost, *_ in budgets if b in self.rows]
        self.same = (len(far), max(far) if far else float("nan"))

    # ---- all ----

    def kernels(self):
        """Suffix and environment of each BLAS kernel that is asked for, by its own name."""
        ways = [dict(os.environ)]
        if os.environ.get("OPENBLAS_CORETYPE"):
            ways.append({k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"})
        ways += [dict(os.environ, OPENBLAS_CORETYPE=name) for name in self.args.coretype]
        self.kernel = {}
        for env in ways:
            name = self.kvt("doctor", env=env)[0]["versions"]["blas"]
            if name not in self.kernel.values():
                suffix = f" [{name}]" if self.kernel else ""
                self.kernel[suffix] = name
                yield suffix, env

    def run(self):
        self.write_prompt()
        kernels = list(self.kernels())
        ready, rendered = None, False
        for i in range(self.args.rounds):
            print(f"peers.py: round {i + 1} of {self.args.rounds}", file=sys.stderr)
            for suffix, env in reversed(kernels):  # the environment's own last: its trace stays
                self.capture_all(suffix, env)
            self.replay()
            if ready is None:
                rendered = self.render()
                ready = rendered and self.prepare_peers()
            if rendered:
                self.llama()
            if ready:
                self.peers()


def ratios(a, b, factor):
    return sorted(factor * y / x for x, y in zip(a, b)) if a and b else []


def table(bench):
    """key, what, kvt, peer, unit, ratio, lowest, highest, ratio of CPU seconds, goal, met"""
    rows = []
    for suffix, kernel in bench.kernel.items():
        for key, what, ours, theirs, factor, goal in ROWS:
            a = bench.value.get(ours + suffix)
            b = bench.value.get(theirs)
            if not a or not b or (suffix and key not in KERNEL_ROWS):
                continue
            ratio = ratios(a, b, factor)
            cpu = ratios(bench.value.get(ours + suffix + ", CPU"),
                         bench.value.get(theirs + ", CPU"), factor)
            median = statistics.median(ratio)
            rows.append([key, what + (f" ({kernel})" if key in KERNEL_ROWS else ""),
                         statistics.median(a), factor * statistics.median(b),
                         "MiB" if "MiB" in ours else "s", median, ratio[0], ratio[-1],
                         statistics.median(cpu) if cpu else None, goal,
                         None if goal is None else median >= goal])
    return rows


def facts(bench, load):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
                if line.startswith("model name")), platform.processor())
    version = run([bench.args.kvt, "--version"])[0].split("\n")[0]
    yield "machine", f"{cpu}, {os.cpu_count()} processors, {platform.system()} {platform.release()}"
    yield "load", f"{load:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end"
    yield "kvt", f"{version}; {bench.args.threads} threads; {bench.kernel['']}"
    if "peers" not in bench.missing:
        ask = "import torch, transformers, numpy; print('torch', torch.__version__, " \
              "'transformers', transformers.__version__, 'numpy', numpy.__version__)"
        yield "peers", run([bench.args.python, "-c", ask])[0].strip()
    if bench.llama_version:
        yield "llama.cpp", f"llama-cpp-python {bench.llama_version}"
    yield "prompt", f"{bench.n_prompt} tokens, {bench.n_new} generated, {bench.args.rounds} rounds"
    yield "plan", f"planned / peak memory {statistics.median(bench.value['planned / peak']):.3f}"
    if bench.same:
        yield "check", f"recall and mass lost of {bench.same[0]} budgets differ from numpy's by at " \
                       f"most {bench.same[1]:.1e}"
    if bench.n_new != bench.args.new:
        yield "note", f"kvt stopped after {bench.n_new} tokens, the peers go on to {bench.args.new}"
    for what, why in bench.missing.items():
        yield "missing", f"{what}: {why}"


def number(x):
    return f"{x:.3f}" if x < 10 else f"{x:.1f}" if x < 1000 else f"{x:.0f}"


def show(bench, rows, load):
    for name, text in facts(bench, load):
        print(f"{name:10}{text}")
    if not rows:
        return
    width = max(len(r[1]) for r in rows)
    print(f"\n{'':{width}} {'kvt':>8} {'peer':>8} {'':4}{'ratio':>7}  {'of rounds':16} {'CPU':>6}  goal")
    for _, what, ours, theirs, unit, ratio, low, high, cpu, goal, met in rows:
        span = f"{number(low)} .. {number(high)}"
        print(f"{what:{width}} {number(ours):>8} {number(theirs):>8} {unit:4}{number(ratio):>7}  "
              f"{span:16} {'' if cpu is None else number(cpu):>6}  "
              f"{'' if goal is None else f'{goal:g}, met' if met else f'{goal:g}, MISSED'}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True, help="the model, a GGUF file")
    p.add_argument("--kvt", default=str(ROOT / "build/release/kvt"), help="the program")
    p.add_argument("--peers", default=os.environ.get("KVT_PEERS", str(ROOT.parent / "shared/bench")),
                   help="folder of the other tools' scripts")
    p.add_argument("--python", default="python3", help="a Python that has what they need")
    p.add_argument("--llama", help="a Python that has llama-cpp-python")
    p.add_argument("--hf", help="the model as a folder of f32 safetensors; else it is converted")
    p.add_argument("--coretype", action="append", default=[],
                   help="OpenBLAS kernel to try beside the environment's (may be repeated)")
    p.add_argument("--tokens", type=int, default=2048)
    p.add_argument("--new", type=int, default=64, help="the dumps always generate 64")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--csv", help="write the table there, too")
    args = p.parse_args()
    if args.tokens < 1650:
        p.error("--tokens: at least 1650, so that the smallest budget, 2 %, holds the window")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="kvt-peers-") as folder:
        bench = Bench(args, folder)
        try:
            bench.run()
        except (Failed, OSError) as why:
            sys.exit(f"peers.py: {why}")
        rows = table(bench)
        show(bench, rows, load)
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as f:
            out = csv.writer(f)
            out.writerow("key what kvt peer unit ratio ratio_low ratio_high ratio_cpu goal met".split())
            out.writerows(rows)


if __name__ == "__main__":
    main()
