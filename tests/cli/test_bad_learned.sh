#!/bin/sh
# Scorers, probes and traces that kvt replay, kvt import and kvt train must refuse for policies that look ahead
# or read learned weights: each is one clear line and the right exit status, and what was there stays as it was.
# usage: test_bad_learned.sh KVT SOURCE-DIR MAKE-GGUF MAKE-SYNTH
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"
make=$4
python=${KVT_PYTHON:-/usr/bin/python3}
size="prompt=60 response=8 queries=64 block=64"
sums() { find . -type f ! -path './new/*' -exec cksum {} + | sort; }

# A trace with probes, the same one without, one of another size; a scorer of each kind.
# shellcheck disable=SC2086 # a list of numbers
{
    "$make" a.h5 $size probes=1 draft=8 draft2=16 decisions=dms shift=1 &&
        "$make" full.h5 $size level=2 && "$make" bare.h5 $size && "$make" wide.h5 $size heads=6 &&
        "$make" silent.h5 prompt=60 response=0 queries=64 block=64 probes=1 &&
        "$make" few.h5 prompt=60 response=8 &&
        "$make" summary.h5 $size level=0 && "$make" some.h5 $size model_layers=5
} || exit 1
for kind in kvpop-mlp kvpop kvzap kvp-supervised locret fast-kvzip foresightkv; do
    "$make" scorer:$kind $kind.scorer.h5 || exit 1
done
"$make" scorer:kvpop-mlp wide.scorer.h5 heads=6 || exit 1
tiny real.h5 --max-new 4
before=$(sums)

# replay STATUS TEXT TRACE OPTION...
replay() {
    want=$1 text=$2 trace=$3
    shift 3
    bad "$want" "$text" replay "$trace" --out new --no-controls -q "$@"
}
# skips TEXT TRACE OPTION...: no cell that was asked for, and why
skips() {
    text=$1 trace=$2
    shift 2
    clean
    run "$kvt" replay "$trace" --out new --no-controls -q "$@"
    exits 3
    one_line "$text"
    no_rest new
}

# ---- what is fine, so that what follows fails for its own reason

good replay a.h5 --out new -q -b 40 -p lookaheadkv,judgeq,suffix,speckv,kvzip,lookahead-oracle
good replay a.h5 --out new -q -b 8,16 -p laq,laq-plus
good replay a.h5 --out new -q -b 9 -p kvpop-mlp:weights=kvpop-mlp.scorer.h5,kvpop:weights=kvpop.scorer.h5
good replay a.h5 --out new -q -b 20 -p dms:from=decisions,window=6
good replay full.h5 --out new -q -b 20 -p fast-kvzip:weights=fast-kvzip.scorer.h5

# ---- scorers

# A trace that a file does not fit is passed over with the reason; a file that is none is an error.
skips "'kvpop-mlp.scorer.h5' is for another model: channels of a head: expected 12, got 8" real.h5 -b 20 -p kvpop-mlp:weights=kvpop-mlp.scorer.h5
skips "'wide.scorer.h5' is for another model: query heads: expected 4, got 6" a.h5 -b 20 -p kvpop-mlp:weights=wide.scorer.h5
skips "expected a file of kind kvpop, got kvpop-mlp" a.h5 -b 20 -p kvpop:weights=kvpop-mlp.scorer.h5
skips "layers of the model: expected 5, got 2" some.h5 -b 20 -p kvpop-mlp:weights=kvpop-mlp.scorer.h5
# Two files of a kind: the first is taken, and the other one is not passed over in silence.
cp kvpop-mlp.scorer.h5 twin.h5
clean
run "$kvt" replay a.h5 --out new -b 9 -p kvpop-mlp --weights kvpop-mlp.scorer.h5 --weights twin.h5
exits 0
says err "'twin.h5': not used, 'kvpop-mlp.scorer.h5' is of kind kvpop-mlp, too"
rm twin.h5
good replay some.h5 a.h5 --out new -b 9 -p kvpop-mlp:weights=kvpop-mlp.scorer.h5
says out "layers of the model: expected 5, got 2"
replay 1 "none.h5" a.h5 -b 20 -p kvpop:weights=none.h5
replay 1 "a.h5" bare.h5 -b 20 -p kvpop:weights=a.h5
bytes=$(wc -c <kvpop.scorer.h5)
head -c $((bytes / 2)) kvpop.scorer.h5 >cut.h5
replay 1 "cut.h5" a.h5 -b 20 -p kvpop:weights=cut.h5
rm cut.h5
replay 2 "weights" a.h5 -b 20 -p snapkv:weights=kvpop.scorer.h5
skips "weights=FILE" a.h5 -b 20 -p kvpop
skips "weights=FILE" a.h5 -b 20 -p kvpop-mlp
# What the rule protects, and one slot to choose: 2 sinks and a window of 3.
skips "5" a.h5 -b 5 -p kvpop-mlp:weights=kvpop-mlp.scorer.h5
replay 2 "threshold" a.h5 -b 20 -p kvpop-mlp:weights=kvpop-mlp.scorer.h5,threshold=1

if $python -c 'import h5py, numpy' 2>/dev/null; then
    $python - <<'PY'
import json, shutil, h5py, numpy
def edit(name):
    shutil.copy("kvpop-mlp.scorer.h5", name)
    return h5py.File(name, "r+")
with edit("nan.h5") as f:
    f["in/weight"][0, 0, 0, 0] = numpy.nan
with edit("less.h5") as f:
    del f["out/weight"]
with edit("newer.h5") as f:
    f.attrs["version"] = numpy.array([2, 0], dtype="i4")
with edit("unfinished.h5") as f:
    f.attrs["complete"] = numpy.uint8(0)
with edit("byte.h5") as f:
    f["out/bias"][0, 0] += 1
with h5py.File("kvpop-mlp.scorer.h5") as f:
    tensors = {}
    def note(name, d):
        if isinstance(d, h5py.Dataset) and name != "layer/id":
            x = d[()]
            if numpy.ndim(x) == 0 or x.size == 1 and not d.attrs["axes"]:
                tensors[name] = float(numpy.ravel(x)[0])
            else:
                numpy.save(name.replace("/", "_"), x)
                axes = d.attrs["axes"]
                tensors[name] = {"file": name.replace("/", "_") + ".npy",
                                 "axes": axes.decode() if isinstance(axes, bytes) else str(axes)}
    f.visititems(note)
def manifest(name, **change):
    m = {"kind": "kvpop-mlp", "trace": "bare.h5", "recipe": {"trainer": "none"}, "tensors": dict(tensors)}
    m["tensors"].update(change)
    json.dump({**m, "tensors": {k: v for k, v in m["tensors"].items() if v is not None}}, open(name, "w"))
manifest("fine.json")
x = numpy.load("in_weight.npy")
numpy.save("nan", numpy.where(numpy.arange(x.size).reshape(x.shape) == 7, numpy.nan, x))
manifest("nan.json", **{"in/weight": {"file": "nan.npy", "axes": "LGKW"}})
numpy.save("short", x[..., :-1])
manifest("short.json", **{"in/weight": {"file": "short.npy", "axes": "LGKW"}})
numpy.save("layers", numpy.concatenate([x, x]))
manifest("layers.json", **{"in/weight": {"file": "layers.npy", "axes": "LGKW"}})
manifest("axes.json", **{"in/weight": {"file": "in_weight.npy", "axes": "LGKw"}})
manifest("none.json", **{"in/weight": {"file": "none.npy", "axes": "LGKW"}})
manifest("less.json", **{"out/bias": None})
PY
    before=$(sums)
    for file in nan less newer unfinished byte; do
        replay 1 "$file.h5" a.h5 -b 20 -p kvpop-mlp:weights=$file.h5
    done
    good import --scorer fine.json -o new/fine.h5
    run "$kvt" replay a.h5 --out new/results --no-controls -q -b 20 -p kvpop-mlp:weights=new/fine.h5
    exits 0
    bad 1 "in/weight" import --scorer nan.json -o new/x.h5
    bad 1 "in/weight" import --scorer layers.json -o new/x.h5
    bad 1 "axes" import --scorer axes.json -o new/x.h5
    bad 1 "none.npy" import --scorer none.json -o new/x.h5
    bad 1 "none.jsn" import --scorer none.jsn -o new/x.h5
    # Shapes that agree with themselves are found when the policy asks for its own.
    for file in short less; do
        clean
        run "$kvt" import --scorer $file.json -o new/x.h5
        if [ "$status" -eq 0 ]; then
            mv new/x.h5 x.h5
            skips "x.h5" a.h5 -b 20 -p kvpop-mlp:weights=x.h5
            rm x.h5
        else
            exits 1
            one_line ""
            [ -z "$(find new -mindepth 1)" ] || fail "$ran: wrote $(find new -mindepth 1 | head -n 1)"
        fi
    done
else
    echo "python3 with h5py is not here: NaN, shapes and missing tensors are not tried"
fi

# ---- probes

for policy in lookaheadkv judgeq suffix speckv laq laq-plus kvzip; do
    skips "policy $policy needs a probe" bare.h5 -b 40 -p $policy
done
# A budget for which no draft was run: skipped, and surrogate where the user names one.
skips "budget" a.h5 -b 12 -p laq
good replay a.h5 --out new -q --no-controls -b 8,12 -p laq --json
[ "$(jq '[.rows[] | select(.policy == "laq" and .lost_mass_mean_frac != null) | .budget_tokens] == [8]' "$scratch/out")" = true ] ||
    fail "$ran: expected laq at 8 alone"
[ "$(jq -r '[.rows[] | select(.policy == "laq" and .lost_mass_mean_frac != null)][0].exactness' "$scratch/out")" = budget-exact ] ||
    fail "$ran: expected budget-exact"
good replay a.h5 --out new -q --no-controls -b 12 -p laq:probe=draft-8 --json
[ "$(jq -r '[.rows[] | select(.policy == "laq")][0].exactness' "$scratch/out")" = surrogate ] ||
    fail "$ran: expected surrogate"
skips "probe" a.h5 -b 40 -p lookaheadkv:probe=none
skips "probe" a.h5 -b 40 -p lookaheadkv:probe=draft-8
replay 2 "probe" a.h5 -b 40 -p snapkv:probe=suffix

# ---- what a trace lacks

skips "future attention (future/mean), which this trace lacks" silent.h5 -b 40 -p lookahead-oracle
good replay silent.h5 --out new -q --no-controls -b 40 -p lookaheadkv
for kind in kvzap fast-kvzip; do
    more=
    [ $kind = kvzap ] && more=,threshold=0
    skips "hidden/x" a.h5 -b 20 -p $kind:weights=$kind.scorer.h5$more
done
skips "the last 16 prompt rows, the trace holds 8" few.h5 -b 20 -p foresightkv:weights=foresightkv.scorer.h5,block=16
skips "the last 60 prompt queries, the trace holds 8" few.h5 -b 20 -p locret:weights=locret.scorer.h5
skips "keys" summary.h5 -b 20 -p kvpop:weights=kvpop.scorer.h5
skips "decision" bare.h5 -b 20 -p dms:from=decisions
skips "decision" bare.h5 -b 20 -p kvpop:from=decisions
skips "decision" bare.h5 -b 20 -p trim-kv
skips "not replayable" bare.h5 -b 20 -p dmc
# Decisions of another policy.
skips "dms" a.h5 -b 20 -p trim-kv
# A threshold is matched on the other traces of the set.
skips "threshold" full.h5 -b 20 -p kvzap:weights=kvzap.scorer.h5,window=4
good replay full.h5 --out new -q --no-controls -b 20 -p kvzap:weights=kvzap.scorer.h5,window=4,threshold=0

# ---- training

bad 1 "0 of response" train kvpop silent.h5 -o new/x.h5
bad 1 "hidden/x" train kvzap a.h5 -o new/x.h5
bad 1 "" train kvpop summary.h5 -o new/x.h5
bad 1 "" train kvpop a.h5 wide.h5 -o new/x.h5
bad 2 "model" train lookaheadkv a.h5 -o new/x.safetensors
bad 2 "did you mean 'kvpop'" train kvpo a.h5 -o new/x.h5
bad 1 "none.h5" train kvpop none.h5 -o new/x.h5

[ "$before" = "$(sums)" ] || {
    fail "files that were there have changed"
    sums >after
    echo "$before" | diff - after | head -n 5
}
finish
