#!/bin/sh
# kvt doctor --bench: the machine's file, which kvt cost reads; a model's passes beside their
# prediction; what is refused before anything is measured. No time is asserted.
# usage: test_doctor_bench.sh KVT SOURCE-DIR MAKE-GGUF
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

XDG_CACHE_HOME=$scratch/cache
export XDG_CACHE_HOME
"$make_gguf" small.gguf type=8 dim=32 hidden=128 ff=256 heads=4 kv_heads=2 context=256 || exit 1 # Q8_0

bench() { run "$kvt" doctor --bench --seconds 0.0005 --threads 2 "$@"; }

# Without a model: the file of this machine, where kvt cost looks for it.
bench
exits 0
says out "sgemm of queries, keys and values"
says out "keys and values of a decode step"
says out "kvt cost --machine here"
[ -f "$XDG_CACHE_HOME/kvt/machine-here.json" ] || fail "$ran: no machine-here.json"
jq -e '.engine == "fused" and .peak_flops_16[0] == 0 and .mem_bw[1] == "calibrated" and .link_bw[1] == "default"' \
    "$XDG_CACHE_HOME/kvt/machine-here.json" >scrap || fail "$ran: not the machine's fields"
run "$kvt" cost --machine here --geometry smollm2-135m -p snapkv,full -b 25% --length 1Ki --json
exits 0
parses
grep -q '"here"' "$scratch/out" || fail "$ran: another machine"

# With one: passes, and a file of its own that names the machine.
bench --model small.gguf --lengths 16,32,1Mi --save new/laptop.json --json
exits 0
parses
jq -e '.machine == "laptop" and (.passes | length) == 4 and
       ([.passes[] | .predicted_s > 0 and .measured_s > 0] | all) and
       ([.passes[].quantity] == ["prefill", "prefill", "decode", "decode"]) and
       ([.measured[] | .best > 0 and .spread_frac >= 0] | all) and (.measured | length) > 10 and
       ([.fields[] | .[1] == "calibrated" or .[1] == "default"] | all)' "$scratch/out" >scrap ||
    fail "$ran: not what JSON should hold"
no_rest new
run "$kvt" cost --machine new/laptop.json --geometry small.gguf -p snapkv -b 50% --length 64
exits 0
bench --model small.gguf --lengths 16 --save new/laptop.json
exits 0
says out "predicted from these, and measured without a recording"
grep -qE '^prefill +16 .* [+-][0-9.]+ %' "$scratch/out" || fail "$ran: no line of a prefill"
grep -qE '^decode +32 .* [+-][0-9.]+ %' "$scratch/out" || fail "$ran: no line of a step"

# What is refused, in one line.
bad() { # bad STATUS TEXT OPTION...
    want=$1 text=$2
    shift 2
    run "$kvt" doctor "$@"
    exits "$want"
    silent out
    one_line "$text"
}
bad 2 "--model goes with --bench" --model small.gguf
bad 2 "--save goes with --bench" --save x.json
bad 1 "no such folder" --bench --save nowhere/x.json
bad 2 "got a folder's" --bench --save new
bad 1 "nothing.gguf" --bench --model nothing.gguf
bad 2 "expected cpu, cuda or cuda:N" --bench --device gpu
bad 2 "cuda:N, got 'cuda:x'" --bench --device cuda:x
bad 2 "length '12x'" --bench --lengths 12x
bad 2 "no prompt length fits" --bench --seconds 0.0005 --model small.gguf --lengths 1Mi
bad 2 "--seconds" --bench --seconds 0
case $("$kvt" doctor --json | jq -r .versions.cuda) in
    no*) bad 1 "cuda:0" --bench --device cuda:0 ;;
esac
mkdir locked && chmod a-w locked
[ -w locked ] || bad 1 "cannot be written" --bench --save locked/x.json
unset XDG_CACHE_HOME
HOME='' bad 2 "neither XDG_CACHE_HOME nor HOME is set" --bench

# Without --bench it says what it always said.
run "$kvt" doctor
exits 0
says out "self test"
finish
