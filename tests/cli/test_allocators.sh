#!/bin/sh
# Allocators and patterns from files, at the command line: any ranking with any allocator, what
# each lane was given, and what is refused.
# usage: test_allocators.sh KVT SOURCE-DIR MAKE-GGUF MAKE-SYNTH
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"
make_synth=$4
python=${KVT_PYTHON:-/usr/bin/python3}
"$python" -c 'import numpy' 2>/dev/null || skip "no numpy for $python"

for i in 1 2 3; do
    "$make_synth" t$i.h5 level=2 queries=-1 delay=5 prompt=60 response=12 seed=$i || exit 1
done
"$make_synth" other.h5 level=2 queries=-1 delay=5 prompt=60 response=12 seed=9 layers=3 || exit 1
run "$kvt" info t1.h5 --json
shape=$(jq -r '"\(.model.n_layer // .n_layer // (.layers | length)) \(.model.n_kv_head // .n_kv_head)"' "$scratch/out")

# ---- any ranking with any allocator --------------------------------------------------------------

all=snapkv:window=8,snapkv/ada:window=8,snapkv/global:window=8,snapkv/oracle-budget:window=8,snapkv/pyramid:window=8
good replay t1.h5 t2.h5 t3.h5 --out new -q -b 16,30 --json \
    -p $all,adakv:window=8,simlayerkv,tova/ada,h2o/global,keydiff/ada:floor=0.2
parses
# The totals are the same, but for pyramid's rounding; the oracle's budgets lose least.
jq -e '[.rows[] | select(.policy | startswith("snapkv/")) | select(.policy != "snapkv/pyramid") |
    [.budget_tokens, .kept_tokens_mean]] | length == 18 and all(.[0] == .[1])' "$scratch/out" >/dev/null ||
    fail "allocators: other totals"
jq -e '[.rows[] | select(.policy | test("^snapkv")) | {b: .budget_asked, p: .policy, l: .lost_mass_mean_frac}] |
    group_by(.b) | all((map(select(.p == "snapkv/oracle-budget").l) | add) as $best |
    group_by(.p) | all((map(.l) | add) >= $best - 1e-9))' "$scratch/out" >/dev/null ||
    fail "allocators: something loses less than oracle-budget"
# Unequal lanes, as many slots.
jq -e '[.rows[] | select(.policy == "snapkv/ada") | .kept_tokens_max - .kept_tokens_min] | add > 0' \
    "$scratch/out" >/dev/null || fail "ada: every lane got the same"

# ---- from files ----------------------------------------------------------------------------------

# file NAME KIND TENSOR AXES EXPRESSION: of shape (L, G) or, with O, (L, G, 4).
file() {
    "$python" - "$@" "$shape" <<'EOF' || fail "$1: could not be made"
import json, sys
import numpy as np
name, kind, tensor, axes, text, shape = sys.argv[1:]
L, G = map(int, shape.split())
dim = (L, G, 4) if "O" in axes else (L, G)
np.save(name + ".npy", (np.zeros(dim) + eval(text)).astype("f4"))
json.dump({"kind": kind, "trace": "t1.h5", "tensors": {tensor: {"file": name + ".npy", "axes": axes}}},
          open(name + ".json", "w"))
EOF
    run "$kvt" import --scorer "$1.json" -o "$1.h5"
    exits 0
}
rising='np.arange(np.prod(dim)).reshape(dim) / np.prod(dim)'
file shares shares share LG "$rising"
file duo duo gate LG "$rising"
file importance headkv score LG "$rising"
file keep lukv keep LGO '[0.2, 0.4, 0.6, 0.8]'
good replay t1.h5 t2.h5 --out new -q -b 16 --no-controls --json --weights duo.h5 --weights importance.h5 \
    --weights keep.h5 --weights shares.h5 -p snapkv/table:window=8,duo,headkv:window=8,lukv:base=snapkv,base.window=8
jq -e '[.rows[] | select(.budget_tokens == 16) | .kept_tokens_mean == 16] | length >= 8 and all' "$scratch/out" \
    >/dev/null || fail "files: other totals: $(jq -c '[.rows[] | [.policy, .status, .kept_tokens_mean]]' "$scratch/out")"
# An even table is snapkv itself.
file even shares share LG 0.5
good replay t1.h5 --out new -q -b 16 --no-controls --json -p snapkv:window=8,snapkv/table:window=8,table=even.h5
jq -e '[.rows[] | .lost_mass_mean_frac] | length == 2 and .[0] == .[1]' "$scratch/out" >/dev/null ||
    fail "an even table is not an even share"

# ---- refused -------------------------------------------------------------------------------------

# skips TEXT ARGUMENTS: no cell is left, and the line says why.
skips() {
    text=$1
    shift
    clean
    run "$kvt" replay t1.h5 --out new -q --no-controls -b 16 "$@"
    [ "$status" -ne 0 ] || fail "$ran: was taken"
    says err "$text"
}
skips "needs table=FILE (kvt import --scorer)" -p snapkv/table:window=8
skips "needs weights=FILE (kvt import --scorer)" -p duo
skips "needs weights=FILE (kvt train lukv)" -p lukv:base=snapkv
skips "expected a file of kind shares, got duo" -p snapkv/table:window=8,table=duo.h5
skips "expected a file of kind duo, got shares" -p duo:weights=shares.h5
file negative shares share LG -1
file nothing shares share LG 0
file wide duo gate LG 1.5
file none duo gate LG 0
file below headkv score LG "$rising - 0.5"
file over lukv keep LGO 2
skips "share, element 0: expected 0 or more, got -1" -p snapkv/table:window=8,table=negative.h5
skips "share: expected a number above 0, every one is 0" -p snapkv/table:window=8,table=nothing.h5
skips "gate, element 0: expected a number from 0 to 1, got 1.5" -p duo:weights=wide.h5
skips "gate: expected a number above 0, every one is 0" -p duo:weights=none.h5
skips "score, element 0: expected 0 or more" -p headkv:window=8,weights=below.h5
skips "keep, element 0: expected a number from 0 to 1, got 2" -p lukv:base=snapkv,base.window=8,weights=over.h5
run "$kvt" replay other.h5 --out new -q --no-controls -b 16 -p duo:weights=duo.h5
[ "$status" -ne 0 ] || fail "$ran: a pattern of another model was taken"
says err "another model"
skips "not engaged: a lazy layer keeps 1027 tokens, the prompt has 60" -p simlayerkv:compat=kvpress
skips "not engaged: a streaming head keeps 384 tokens, the prompt has 60" -p duo:compat=kvpress,weights=duo.h5
skips "a window of 32 needs a budget of 32 or more, got 16" -p adakv
bad 2 "floor: 1.5 is not" replay t1.h5 -p snapkv/ada:floor=1.5 -b 16 --out new -q
bad 2 "no allocator 'adaa' (did you mean 'ada'?)" replay t1.h5 -p snapkv/adaa -b 16 --out new -q
bad 2 "compares scores, and the policy has none" replay t1.h5 -p full/global -b 16 --out new -q

finish
