#!/usr/bin/env python3
"""Changed files of models and machines: every one is refused in one line that names the file, with no
crash, or it says the same as before. A wrong total of weights is never accepted.

usage: cost_mutants.py KVT SOURCE-DIR FOLDER

The total of a changed geometry is calculated here (section 5 of the cost model's specification).
"""
import itertools
import json
import pathlib
import subprocess
import sys

GEOMETRIES = ("llama-3.2-1b", "qwen2.5-0.5b", "qwen3-0.6b", "gemma-3-270m")
MACHINES = ("h100-sxm",)
SHAPE = ("n_layer", "n_head", "n_kv_head", "head_dim", "n_hidden", "n_ff", "n_vocab")
BIAS, QK_NORM, NORMS = {"qwen2"}, {"qwen3", "gemma3"}, {"gemma3": 4}
WRONG = (None, [], {}, "7", [7], True, 7.5, -7, 0, 1e300, 2**63 - 1, -(2**63), 2**53 + 1)


def total(g):
    """Weights of a geometry."""
    layers, h, kv, d = g["n_layer"], g["n_head"], g["n_kv_head"], g["head_dim"]
    e, i, v, arch = g["n_hidden"], g["n_ff"], g["n_vocab"], g["arch"]
    return (layers * (2 * e * h * d + 2 * e * kv * d + 3 * e * i) + v * e * (1 if g["tied"] else 2)
            + e * (NORMS.get(arch, 2) * layers + 1) + (arch in BIAS) * layers * (h + 2 * kv) * d
            + (arch in QK_NORM) * 2 * layers * d)


class Run:
    """Counts files; keeps the first lines that are wrong."""

    def __init__(self, kvt, folder):
        self.kvt, self.folder = kvt, folder
        self.n = self.refused = 0
        self.bad = []

    def cost(self, kind, text):
        path = self.folder / f"mutant-{kind}.json"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        names = {"geometry": "llama-3.2-1b", "machine": "h100-sxm", kind: str(path)}
        out = subprocess.run([self.kvt, "cost", "--geometry", names["geometry"], "--machine", names["machine"], "-p",
                              "snapkv", "-b", "128", "--length", "4Ki", "--json"],
                             capture_output=True, text=True, errors="replace", timeout=60, check=False)
        return path.name, out

    def check(self, kind, what, text, must_refuse, names=None):
        """must_refuse None: either, as long as it is sound. `names`: text that an error must contain."""
        name, out = self.cost(kind, text)
        self.n += 1
        where = f"{kind}: {what}"
        if out.returncode not in (0, 1, 2, 3):
            self.bad.append(f"{where}: exit status {out.returncode}: {out.stderr[:200]}")
        elif out.returncode:
            self.refused += 1
            lines = out.stderr.splitlines()
            if len(lines) != 1 or out.stdout or (out.returncode != 3 and name not in out.stderr):
                self.bad.append(f"{where}: not one line that names the file: {out.stderr[:200]!r}")
            if names and names not in out.stderr:
                self.bad.append(f"{where}: does not say {names!r}: {out.stderr[:200]!r}")
            if must_refuse is False:
                self.bad.append(f"{where}: refused: {out.stderr[:200]}")
        elif must_refuse:
            self.bad.append(f"{where}: was accepted")
        else:
            rows = json.loads(out.stdout)["rows"]
            if not all(r["status"] == "ok" and 0 < r["ttft_s"] < float("inf") and r["peak_bytes"] > 0 for r in rows):
                self.bad.append(f"{where}: a row that is no prediction")


def geometries(run, folder):
    for name in GEOMETRIES:
        text = (folder / "geometries" / f"{name}.json").read_text(encoding="utf-8")
        g = json.loads(text)
        assert total(g) == g["params_total"], name
        run.check("geometry", f"{name} as it is", text, False)
        for field, by in itertools.product(SHAPE, (-1, 1, 64)):
            other = dict(g, **{field: g[field] + by})
            run.check("geometry", f"{name}: {field} {by:+d}", json.dumps(other), total(other) != g["params_total"])
        for by in (-1, 1, 2**32):
            run.check("geometry", f"{name}: total {by:+d}", json.dumps(dict(g, params_total=g["params_total"] + by)), True,
                      "params_total")
        # A total that fits the changed shapes is right: the wrong one is never taken from elsewhere.
        other = dict(g, n_ff=g["n_ff"] + 64)
        run.check("geometry", f"{name}: wider, with its own total", json.dumps(dict(other, params_total=total(other))), False)
        run.check("geometry", f"{name}: tied the other way", json.dumps(dict(g, tied=not g["tied"])), True, "params_total")
    g = json.loads((folder / "geometries" / f"{GEOMETRIES[-1]}.json").read_text(encoding="utf-8"))
    for field in SHAPE:
        run.check("geometry", f"without {field}", json.dumps({k: v for k, v in g.items() if k != field}), True, field)
        run.check("geometry", f"{field} by another name", json.dumps({k + "s" * (k == field): v for k, v in g.items()}), True,
                  field)
    for field, value in itertools.product(SHAPE + ("params_total", "window", "global_every"), WRONG):
        refuse = True if field in SHAPE + ("params_total",) and value != g[field] else None
        if field == "params_total" and value == 0:
            refuse = None  # no total is named
        run.check("geometry", f"{field} is {value!r}", json.dumps(dict(g, **{field: value})), refuse)
    run.check("geometry", "a total by a wrong name", json.dumps(dict(g, n_ff=2112)).replace("params_total", "total_params"), True)


def machines(run, folder):
    for name in MACHINES:
        text = (folder / "machines" / f"{name}.json").read_text(encoding="utf-8")
        m = json.loads(text)
        run.check("machine", f"{name} as it is", text, False)
        fields = [k for k, v in m.items() if isinstance(v, list) and k != "aliases"]
        for field in fields:
            value, origin = m[field]
            run.check("machine", f"{name} without {field}", json.dumps({k: v for k, v in m.items() if k != field}), True, field)
            for wrong in ([-1 - value, origin], [value], [value, origin, 1], [str(value), origin], [value, "guess"],
                          [None, origin], value, [1e30, origin]):
                run.check("machine", f"{name}: {field} is {wrong}", json.dumps(dict(m, **{field: wrong})), True, field)
        run.check("machine", f"{name}: GB/s", json.dumps(dict(m, mem_bw=[m["mem_bw"][0] / 1e9, "vendor"])), True, "mem_bw")
        run.check("machine", f"{name}: TFLOP/s", json.dumps(dict(m, peak_flops_32=[67, "vendor"])), True, "peak_flops_32")
        run.check("machine", f"{name}: microseconds", json.dumps(dict(m, t_layer=[30, "default"])), True, "t_layer")
        run.check("machine", f"{name}: per cent", json.dumps(dict(m, e_lin=[65, "default"])), True, "e_lin")
        run.check("machine", f"{name}: no such engine", json.dumps(dict(m, engine="warp")), True, "engine")
        run.check("machine", f"{name}: a field too many", json.dumps(dict(m, mem_bandwidth=[1e12, "vendor"])), True,
                  "mem_bandwidth")


def broken_json(run, folder):
    """Of both kinds: cut short, bytes changed, no object at all."""
    texts = {"geometry": (folder / "geometries" / "llama-3.2-1b.json").read_text(encoding="utf-8"),
             "machine": (folder / "machines" / "h100-sxm.json").read_text(encoding="utf-8")}
    for kind, text in texts.items():
        for at in range(0, len(text.rstrip()), len(text) // 12):
            run.check(kind, f"cut at {at}", text[:at], True)
        for what, other in (("a list", "[" + text + "]"), ("two", text + text), ("empty", ""), ("null", "null"), ("number", "7"),
                            ("deep", "[" * 100000), ("no UTF-8", text.replace("name", "na\udcffme")),
                            ("NUL", text.replace("name", "na\0me")), ("comment", "// no\n" + text),
                            ("NaN", text.replace(" 16,", " NaN,").replace("[0.65", "[NaN")), ("twice", text.replace("{", '{"name": "x",', 1)),
                            ("long name", text.replace('"name": "', '"name": "' + "x" * 5000)),
                            ("line end in a name", text.replace('"name": "', '"name": "a\\n')),
                            ("escape in a name", text.replace('"name": "', '"name": "\\u001b[31m'))):
            run.check(kind, what, other, True)


def main():
    kvt, source, scratch = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    data = source / "replay" / "cost" / "data"
    run = Run(kvt, scratch)
    geometries(run, data)
    machines(run, data)
    broken_json(run, data)
    for line in run.bad[:40]:
        print("FAILED:", line)
    print(f"{run.n} files, {run.refused} refused, {len(run.bad)} failures")
    return run.bad != [] or run.n < 400


if __name__ == "__main__":
    sys.exit(main())
