"""What other programs see in our files: readers.py trace FILE SCHEMA.json INFO.json, or
readers.py results DIR ROWS.json, or
readers.py csv DIR ROWS.json. Fails with the first thing that is not as documented."""
import csv
import glob
import json
import math
import sys

import h5py
import numpy as np

TYPES = {"f16": "<f2", "f32": "<f4", "i32": "<i4", "i64": "<i8", "u8": "|u1"}


def text(x):
    return x.decode() if isinstance(x, bytes) else str(x)


def check(ok, what):
    if not ok:
        sys.exit(f"readers.py: {what}")


def probes(f, info, found):
    """Sets of every probe: named axes with scales, and the numbers that kvt info gives."""
    check(sorted(f.get("probe", {})) == sorted(info["probes"]), "names of probes")
    for name in found:
        d, said = f[name], info["probes"][name.split("/")[1]]
        if "/axis_" in name:
            continue
        for axis, dim in enumerate(d.dims):
            check(dim.label and len(dim) == 1 and dim[0].shape == (d.shape[axis],), f"{name}: scale of axis {axis}")
        axes = text(d.attrs["axes"])
        check(len(d.attrs["xxh64"]) == (d.shape[0] if axes[0] == "L" else 1), f"{name}: xxh64")
        check("P" not in axes or d.shape[axes.index("P")] == said["rows"], f"{name}: rows")
        check(len(axes) == d.ndim and text(d.attrs["help"]), f"{name}: axes, help")
    for name, said in info["probes"].items():
        at = f["probe"][name].attrs
        check(text(at["kind"]) == said["kind"] and text(at["digest"]) == said["digest"], f"{name}: kind, digest")
        check(at["budget"] == (said["budget"] or 0), f"{name}: budget")


def trace(path, schema, info):
    schema, info = json.load(open(schema)), json.load(open(info))
    f = h5py.File(path, "r")
    check(text(f.attrs["format"]) == "kvt-trace", "format")
    check(list(f.attrs["version"]) == info["version"] and f.attrs["complete"] == 1, "version, complete")
    check(text(f.attrs["digest"]) == info["digest"], "digest")
    found = []
    f.visititems(lambda name, o: found.append(name) if isinstance(o, h5py.Dataset) else None)
    probes(f, info, [name for name in found if name.startswith("probe/")])
    found = [name for name in found if not name.startswith(("axis_", "probe/"))]
    check(sorted(found) == sorted(info["datasets"]), f"datasets: {sorted(found)}")
    for name in found:
        d, said, want = f[name], info["datasets"][name], schema["datasets"][name]
        check(d.dtype.str == TYPES[want["type"]], f"{name}: type {d.dtype.str}")
        check(list(d.shape) == said["shape"], f"{name}: shape {d.shape}")
        check(text(d.attrs["axes"]) == want["axes"] and text(d.attrs["unit"]) == want["unit"], f"{name}: axes, unit")
        check(text(d.attrs["help"]) == want["help"], f"{name}: help")
        check(len(d.attrs["xxh64"]) == (d.shape[0] if want["axes"][0] == "L" and name != "layer/id" else 1),
              f"{name}: xxh64")
        for axis, dim in enumerate(d.dims):
            check(dim.label and len(dim) == 1 and dim[0].shape == (d.shape[axis],), f"{name}: scale of axis {axis}")
        d[...]
    for a in schema["attributes"]:
        if a["group"] == "decision" and "decision/logit" not in f:
            check("decision" not in info, "attributes of decisions that are not there")
            continue
        at = f[a["group"]] if a["group"] else f
        check(a["name"] in at.attrs, f"/{a['group']} {a['name']}")
        if a["type"] in ("i64", "f64"):
            check(at.attrs[a["name"]] == info[a["group"]][a["name"]], f"/{a['group']} {a['name']}: value")
    if f["attn/rows"].size:
        rows, pos = f["attn/rows"][...].astype("f8"), f["query/pos"][...]
        check(abs(rows.sum(-1) - 1).max() < 1e-3, "rows do not sum to 1")
        q, k = f["query/q"][...].astype("f8"), f["kv/k"][...].astype("f8")
        k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
        z = f["model"].attrs["attn_scale"] * (q @ k.swapaxes(-1, -2))
        z = np.where(np.arange(k.shape[2])[None, :] <= pos[:, None], z, -np.inf)
        a = np.exp(z - z.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        # Half an ulp of a half at 1, so that both ends of HDF5's and numpy's halves agree.
        check(abs(a - rows).max() < 6e-4, f"rows are not those of q and k: {abs(a - rows).max()}")


def results(folder, rows):
    import pandas
    rows = {r["run_id"]: r for r in json.load(open(rows))["rows"]}
    seen = 0
    for path in glob.glob(folder + "/**/*.kvt-results.h5", recursive=True):
        cells = pandas.read_hdf(path, "cells")
        with h5py.File(path, "r") as f:
            names = f["cells"].dtype.names
            check(text(f["cells"].attrs["FIELD_0_NAME"]) == names[0], "FIELD_0_NAME")
            check(text(f.attrs["format"]) == "kvt-results", "format of results")
        check(list(cells.columns) == list(names), "columns")
        for _, cell in cells.iterrows():
            want = rows.get(text(cell["run_id"]))
            if not want:
                continue
            seen += 1
            for key in ("lost_mass_mean_frac", "kept_tokens_mean", "budget_tokens"):
                same = want[key] is None and math.isnan(cell[key]) or cell[key] == want[key]
                check(same, f"{path}: {key}: {cell[key]}, {want[key]}")
    check(seen >= 4, f"only {seen} cells of the JSON are in the tables")


def tables(folder, rows):
    """Python's csv module gives the numbers of the JSON; the metadata file names every column."""
    want = {r["run_id"]: r for r in json.load(open(rows))["rows"]}
    for path in glob.glob(folder + "/*.csv"):
        with open(path, newline="", encoding="utf-8") as f:
            got = list(csv.reader(f, strict=True))
        check(len({len(r) for r in got}) == 1, f"{path}: rows of different lengths")
        about = json.load(open(path + "-metadata.json", encoding="utf-8"))
        named = [c["name"] for c in about["tableSchema"]["columns"]]
        check(named == got[0], f"{path}: columns of the metadata")
        check(about["schema:numberOfItems"] == len(got) - 1, f"{path}: number of rows")
    with open(folder + "/cells.csv", newline="", encoding="utf-8") as f:
        cells = list(csv.DictReader(f))
    check(len(cells) >= 4, "few cells")
    for cell in cells:
        row = want[cell["run_id"]]
        for key, text_ in cell.items():
            x = row.get(key)
            if isinstance(x, (int, float)) and not isinstance(x, bool):
                check(float(text_) == x, f"cells.csv: {key}: {text_}, {x}")
            elif x is None:
                check(text_ in ("", "inf", "-inf"), f"cells.csv: {key}: {text_}, null")
            else:
                check(text_ == x, f"cells.csv: {key}: {text_}, {x}")


if sys.argv[1] == "csv":
    tables(*sys.argv[2:])
elif sys.argv[1] == "trace":
    trace(*sys.argv[2:])
else:
    results(*sys.argv[2:])
