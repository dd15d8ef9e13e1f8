#!/usr/bin/env bash
# Scores from another program, on a sample trace: they appear in the table, and the future mean as a
# score keeps what the oracle keeps. Needs numpy and h5py for the "other program"; else skips (77).
# usage: test_scores.sh KVT SAMPLE
set -eu
kvt=$1 sample=$2
python=/usr/bin/python3
"$python" -c 'import h5py, numpy' 2>/dev/null || { echo "skipped: no python3 with numpy and h5py"; exit 77; }
[ -f "$sample" ] || { echo "skipped: no sample trace $sample"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$sample" "$work/trace.h5"
cd "$work"
"$python" - <<'PY'
import h5py, json, numpy as np
with h5py.File("trace.h5") as f:
    future, group = f["future/mean"][:], f["kv/k"].shape[1]
layers, heads, n = future.shape
np.save("mean.npy", future.reshape(layers, group, heads // group, n).mean(2).astype("f4"))
json.dump({"trace": "trace.h5", "name": "mean", "datasets": {"score/value": "mean.npy"}}, open("m.json", "w"))
PY
"$kvt" import --scores m.json -o mean.h5 -q
"$kvt" replay trace.h5 -p scores:file=mean.h5 -b 10%,25% --json -q > out.json
"$python" - <<'PY'
import json
rows = json.load(open("out.json"))["rows"]
lost = {(r["policy"], r["budget_asked"]): r["lost_mass_mean_frac"] for r in rows if r["status"] == "ok"}
for b in ("10%", "25%"):
    # future/mean is f32 truth, the oracle sums half rows: the sets may differ by near ties only
    assert abs(lost["scores", b] - lost["oracle", b]) < 1e-4, (b, lost["scores", b], lost["oracle", b])
    assert lost["scores", b] < lost["position" if ("position", b) in lost else "random", b]
PY
# Without a file there is nothing to rank by: the one cell asked for is skipped, which is status 3.
status=0
"$kvt" replay trace.h5 -p scores -b 10% --no-controls -q > refused.txt 2>&1 || status=$?
[ "$status" = 3 ]
grep -q "needs file=SCORES" refused.txt
echo "scores from outside are replayed"
