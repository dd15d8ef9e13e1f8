#!/bin/sh
# Budgets, policies, parameters and traces that kvt replay and the verbs that look at files must
# refuse, skip or pass over (C002, C005, C006, C080, C082).
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

tiny a.h5 --max-new 6

replay() { # replay STATUS TEXT OPTION...
    want=$1 text=$2
    shift 2
    bad "$want" "$text" replay a.h5 --out new "$@"
}
rows() { jq -r "[.rows[] | select($1)] | length" "$scratch/out"; }

# ---- budgets

for none in 0 0% 0MiB 0/4; do
    replay 2 "keeps nothing" -b $none
done
replay 2 "more than 100 %" -b 110%
replay 2 "more than 100 %" -b 3/2
for odd in -3 1/0 x 1e3 "," 12.5.5% 9223372036854775808; do
    replay 2 "expected tokens" -b $odd
done
replay 2 "a factor above 1" -b 5%..50%x1
replay 2 "the smaller one first" -b 50%..5%x2
replay 2 "is not one of floor_exact" --budget-rule flor
replay 2 "takes tokens only" --budget-rule abs -b 10%
# Below the protected tokens: skipped, the others go on.
good replay a.h5 --out new -p streaming,h2o -b 2,8 --json
[ "$(rows '.policy == "h2o"')" -eq 2 ] || fail "$ran: h2o lacks a row"
[ "$(rows '.policy == "streaming" and .budget_tokens == 8')" -eq 1 ] || fail "$ran: streaming at 8"
[ "$(rows '.policy == "streaming" and .budget_tokens == 2 and .lost_mass_mean_frac != null')" -eq 0 ] ||
    fail "$ran: streaming was computed below its sinks"
[ "$(jq .run.skipped "$scratch/out")" -ge 1 ] || fail "$ran: no skipped cell is counted"
good replay a.h5 --out new -p streaming,h2o -b 2,8
says out "4 sinks need a budget of 4 or more, got 2"
# Nothing that was asked for could be computed: 3.
clean
run "$kvt" replay a.h5 --out new -p streaming -b 2
exits 3
says err "no cell that was asked for could be computed: policy streaming: 4 sinks"
# Above the length: nothing is evicted (C006).
good replay a.h5 --out new -p snapkv,h2o,pyramidkv,window --no-controls -b 100000 --json
[ "$(rows '.lost_mass_mean_frac == 0 and .recall_mean_frac == 1')" -eq 4 ] ||
    fail "$ran: something was lost"
# The whole prompt is nothing evicted for those on top of which the response comes.
good replay a.h5 --out new -p snapkv,pyramidkv --no-controls -b 100% --json
[ "$(rows '.lost_mass_mean_frac == 0 and .recall_mean_frac == 1')" -eq 2 ] ||
    fail "$ran: something was lost"
# A tiny share keeps one token, and no number is undefined where it may not be (C002).
good replay a.h5 --out new -p window,h2o,tova -b 0.001% --json
[ "$(rows '.budget_tokens != 1 and .policy != "full"')" -eq 0 ] || fail "$ran: not one token"
grep -qi 'nan\|infinity' "$scratch/out" && fail "$ran: a number that is none"

# ---- policies and parameters

replay 2 "no policy 'snapvk' (did you mean 'snapkv'?)" -p snapvk
replay 2 "no policy 'nope'" -p h2o,nope
replay 2 "no policy ''" -p ,
replay 2 "no parameter 'windo' (did you mean 'window'?)" -p snapkv:windo=3
replay 2 "'abc' is not a whole number from 1" -p snapkv:window=abc
replay 2 "0 is not a whole number from 1" -p snapkv:window=0
replay 2 "window is given twice" -p snapkv:window=4,window=5
replay 2 "expected name=value" -p snapkv:window
replay 2 "'kvpres' is not one of paper" -p snapkv:compat=kvpres
replay 2 "no allocator 'pyramd'" -p snapkv/pyramd
# A base, decisions anew, allocators by score and by file.
replay 2 "base: no policy 'snapk' (did you mean 'snapkv'?)" -p criticalkv:base=snapk
replay 2 "base=full: no base: it is a control" -p criticalkv:base=full
replay 2 "base=criticalkv: no base: it has a base itself" -p criticalkv:base=criticalkv
replay 2 "base: policy snapkv: no parameter 'windo' (did you mean 'window'?)" -p criticalkv:base.windo=3
replay 2 "window is given twice" -p criticalkv:base.window=4,base.window=5
replay 2 "no parameter 'base'" -p h2o:base=snapkv
replay 2 "every=8: it decides once, at the end of the prompt: it reads a probe" -p kvzip:every=8
replay 2 "it selects over lanes that hold the same slots" -p defensivekv:every=8
replay 2 "every: -1 is not a whole number from 0" -p snapkv:every=-1
replay 2 "allocator ada compares scores, and the policy has none" -p full/ada
replay 2 "no parameter 'table'" -p snapkv/ada:table=x.h5
replay 1 "none.h5" -p snapkv/table:table=none.h5
replay 1 "a.h5" -p snapkv/table:table=a.h5
clean
run "$kvt" replay a.h5 --out new -p snapkv/table -b 8
exits 3
says err "allocator table needs table=FILE"
good replay a.h5 --out new -q -b 8 -p criticalkv:base=h2o,snapkv:window=4,every=3
good replay a.h5 --out new -b 8 --no-controls -p snapkv/oracle-budget:window=4
says out "any other sharing out keeps at most"
replay 2 "did you mean 'oracle'" --oracle orcale
replay 2 "did you mean 'prefill'" --act prefil
replay 2 "is not one of 0 to 1" --layers 7
replay 2 "is not a list" --layers 0-
for shard in 0/3 4/3 1/0 x 1/3x; do
    replay 2 "expected K/N" --shard $shard
done
replay 2 "--table needs --csv" --table cells
replay 2 "no table 'celss' (did you mean 'cells'?)" --csv new/c --table celss
replay 2 "did you mean '--budget'" --budgte 3
replay 1 "cannot open 'none.so'" --plugin none.so
replay 1 "plug-in 'tiny.gguf'" --plugin tiny.gguf
bad 2 "takes at least 1 operand" replay -p h2o

# ---- traces

damage() { # damage OUT OFFSET-SHARE: one byte of a.h5 is another
    cp a.h5 "$1"
    at=$(($(wc -c <a.h5) * $2 / 100))
    byte=$(od -An -tu1 -j $at -N1 a.h5 | tr -d ' ')
    # shellcheck disable=SC2059 # the format is an octal escape
    printf "\\$(printf %o $(((byte + 1) % 256)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}
size=$(wc -c <a.h5)
head -c $((size / 2)) a.h5 >cut.h5
head -c 40 a.h5 >stub.h5
: >empty.h5
echo "no trace" >text.h5
damage edit.h5 60
for verb in replay info; do
    out="--out new"
    [ $verb = info ] && out=
    # shellcheck disable=SC2086 # no option, or an option and its value
    {
        bad 1 "'cut.h5': is cut short: $size bytes expected, $((size / 2)) found" $verb cut.h5 $out
        bad 1 "'stub.h5': is not an HDF5 file" $verb stub.h5 $out
        bad 1 "'empty.h5': is not an HDF5 file" $verb empty.h5 $out
        bad 1 "'text.h5': is not an HDF5 file" $verb text.h5 $out
        bad 1 "'none.h5': cannot be opened: No such file" $verb none.h5 $out
        bad 1 "not a regular file" $verb . $out
    }
done
bad 3 "1 of 1 files have faults" verify cut.h5
says out "is cut short"
# One byte at twenty places: verify finds it, or it stands where nothing is stored.
found=0
for part in 3 8 13 18 23 28 33 38 43 48 53 58 63 68 73 78 83 88 93 98; do
    damage edit.h5 $part
    run "$kvt" verify edit.h5
    case $status in
    3) found=$((found + 1)) ;;
    0) ;;
    *) fail "verify of a byte changed at $part %: status $status" ;;
    esac
done
[ $found -ge 16 ] || fail "verify found $found of 20 changed bytes"
python=$(command -v /usr/bin/python3 || command -v python3) || python=false
if $python -c 'import h5py, numpy' 2>/dev/null; then
    $python - <<'PY'
import shutil, h5py, numpy
for name in "newer", "unfinished", "poorer":
    shutil.copy("a.h5", name + ".h5")
with h5py.File("newer.h5", "r+") as f:
    f.attrs["version"] = numpy.array([2, 0], dtype="i4")
with h5py.File("unfinished.h5", "r+") as f:
    f.attrs["complete"] = numpy.uint8(0)
with h5py.File("poorer.h5", "r+") as f:
    del f["future/mean"]
PY
    bad 1 "'newer.h5': has format 2.0, this program reads up to 1.x: a newer kvt" replay newer.h5 --out new
    bad 1 "'unfinished.h5': is not complete" replay unfinished.h5 --out new
    bad 1 "'poorer.h5': has no future/mean" replay poorer.h5 --out new
    for file in newer unfinished poorer; do
        bad 3 "1 of 1 files have faults" verify $file.h5
    done
else
    echo "python3 with h5py is not here: newer formats and missing datasets are not tried"
fi

# A trace among several that cannot be read: the others go on.
clean
run "$kvt" replay a.h5 cut.h5 none.h5 -p h2o -b 8 --out new --json
exits 4
says err "'cut.h5': is cut short"
says err "'none.h5'"
says err "2 of 3 traces cannot be read, the others are done"
parses
[ "$(rows '.policy == "h2o"')" -eq 1 ] || fail "$ran: the whole trace was not replayed"
bad 1 "is cut short" replay a.h5 cut.h5 -p h2o -b 8 --out new --fail-fast
clean
run "$kvt" replay cut.h5 none.h5 -p h2o -b 8 --out new
exits 1
says err "none of 2 traces can be read"
# One that shows its damage only when it is read: its cells fail, those of the others do not.
tiny b.h5 --max-new 4 --system "Answer in one word."
damage edit.h5 60
clean
run "$kvt" replay edit.h5 b.h5 -p h2o -b 8 --out new --json
exits 4
[ "$(rows '.policy == "h2o" and .trace_id == "b" and .lost_mass_mean_frac != null')" -eq 1 ] ||
    fail "$ran: the whole trace was not replayed"
grep -q "'edit.h5': 'edit.h5'" "$scratch/err" && fail "$ran: a file is named twice"
# Result files among the traces are passed over; alone they are no traces.
good replay a.h5 -p h2o -b 8 --out new
cp "$(find new -name '*.kvt-results.h5' | head -n 1)" other.kvt-results.h5
good replay a.h5 other.kvt-results.h5 -p h2o -b 8 --out new --json
[ "$(rows '.policy == "h2o"')" -eq 1 ] || fail "$ran: expected one row of h2o"
bad 2 "traces: expected at least one, got none" replay other.kvt-results.h5 --out new
bad 1 "is no trace: expected format 'kvt-trace', got 'kvt-results'" info other.kvt-results.h5
# A damaged result is computed again.
good replay a.h5 -p h2o -b 8 --out new
find new -name '*.kvt-results.h5' -exec truncate -s 5000 {} +
run "$kvt" replay a.h5 -p h2o -b 8 --out new --json
exits 0
[ "$(jq .run.reused "$scratch/out")" -eq 0 ] || fail "a cut result was used again"
[ "$(jq .run.computed "$scratch/out")" -ge 5 ] || fail "a cut result was not computed again"

# Without a response nobody can be judged by it (C082): the oracle says so, others run.
tiny silent.h5 --max-new 0
good replay silent.h5 --out new -p h2o,snapkv:window=4 -b 8
says out "oracle needs future attention (future/mean), which this trace lacks"
good replay silent.h5 --out new -p h2o,snapkv:window=4 -b 8 --json
[ "$(rows '.policy == "h2o" and .budget_tokens == 8')" -eq 1 ] || fail "$ran: h2o did not run"
[ "$(rows '.policy == "h2o" and .lost_mass_mean_frac != null')" -eq 0 ] || fail "$ran: a loss of nothing"
good verify silent.h5
good show silent.h5 -p h2o -b 8
grep -qw nan "$scratch/out" && fail "$ran: a number that is none"
tiny summary.h5 --max-new 2 --level summary
clean
run "$kvt" replay summary.h5 --out new -p snapkv -b 8
exits 3
says err "policy snapkv needs rows of its queries (query/q), which this trace lacks"

# ---- the other verbs

bad 2 "no verb 'replya' (did you mean 'replay'?)" replya
bad 2 "no verb 'xyzzy'; see: kvt help" xyzzy
bad 2 "no option '--jsno' (did you mean '--json'?)" ls --jsno
bad 1 "'none': cannot be opened" report none
bad 1 "no result files" report new
bad 1 "'a.h5': is no result file" report a.h5
bad 2 "--table needs --csv DIR or --json" report new --table cells
bad 1 "'none': no such file or folder" ls none
bad 1 "'none': no such file or folder" verify none
bad 2 "no policy 'snapvk' (did you mean 'snapkv'?)" policy show snapvk
bad 2 "did you mean 'list'" policy lst
bad 2 "is no name for a policy" policy new ../x
bad 2 "is built in" policy new snapkv

# ---- the browser and its screens, arrays of other programs

bad 2 "is not a terminal; kvt show a.h5" tui a.h5
TERM=dumb bad 2 "is not a terminal; kvt show a.h5" tui a.h5
bad 1 "'none.h5'" tui none.h5 --size 80x24
bad 1 "'cut.h5': is cut short" tui cut.h5 --size 80x24 --dump new/screen
bad 2 "expected COLUMNSxROWS" tui a.h5 --size wide
bad 2 "'nope' is none of overview" tui a.h5 --size 80x24 --screen nope
bad 1 "cannot open 'none'" tui a.h5 --size 80x24 --script none --dump new/screen
bad 1 "cannot write '/dev/full'" tui a.h5 --size 80x24 --dump /dev/full
[ -c /dev/full ] || fail "a device was replaced by a screen"
bad 1 "'none.h5'" show none.h5
bad 1 "'cut.h5': is cut short" show cut.h5
bad 2 "'nope' is none of overview" show a.h5 --screen nope
bad 2 "layers 0 to 1, heads 0 to 1" show a.h5 --lane 99:0
bad 2 "expected LAYER:HEAD" show a.h5 --lane x
bad 2 "did you mean 'snapkv'" show a.h5 -p snapvk
bad 2 "a whole number from 40" show a.h5 --width 3
bad 2 "this trace has tokens 0 to" show a.h5 --tokens 5-2
bad 2 "import needs -o" import none.json
bad 1 "cannot open 'none.json'" import none.json -o new/i.h5
echo '{' >manifest.json
bad 1 "'manifest.json': JSON" import manifest.json -o new/i.h5
echo '{"datasets": {"attn/lse": "none.npy"}}' >manifest.json
bad 1 "none.npy': No such file" import manifest.json -o new/i.h5
bad 1 "'a.h5'" import a.h5 -o new/i.h5

finish
