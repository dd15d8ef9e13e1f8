#!/bin/sh
# ls, info, verify on whole, cut, edited and foreign files: one clear line, the exit status, nothing on
# standard output where there is nothing to say.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
synth=$3
mkdir "$scratch/set" "$scratch/set/deep"
"$synth" "$scratch/set/a.h5" hostile=1 || exit 1
"$synth" "$scratch/set/deep/b.h5" prompt=40 compress=1 || exit 1
a=$scratch/set/a.h5

run "$kvt" info "$a"
exits 0
says out "tokens       24 prompt + 6 response (length)"
says out "2 layers, 4 query heads, 2 kv heads, head dim 8"
run "$kvt" info "$a" --all
exits 0
says out "f16 [L=2 G=2 T=30 D=8]"
run "$kvt" info "$a" --json
exits 0
parses
[ "$(jq -c '[.token.n_prompt, .datasets["kv/k"].shape, .token.spans.question]' "$scratch/out")" = \
    '[24,[2,2,30,8],[20,24]]' ] || fail "info --json: other numbers"
run "$kvt" info --schema --json
exits 0
[ "$(jq -r '.datasets["attn/lse"].axes' "$scratch/out")" = LHT ] || fail "info --schema: axes of attn/lse"
run "$kvt" info
exits 2
run "$kvt" info "$a" --schema
exits 2

run "$kvt" verify "$scratch/set"
exits 0
silent err
[ "$(grep -c '^  ok' "$scratch/out")" -gt 20 ] || fail "verify: few checks"
grep -q FAILED "$scratch/out" && fail "verify: found faults in whole files"
run "$kvt" verify "$a" --json
exits 0
[ "$(jq '[.ok, ([.files[0].findings[].check] | unique | length)] | @csv' -r "$scratch/out")" = 'true,10' ] ||
    fail "verify --json: not ten kinds of checks"

run "$kvt" ls "$scratch/set"
exits 0
silent err
says out "synthetic"
[ "$(wc -l <"$scratch/out")" -eq 3 ] || fail "ls: not two traces below a header"
run "$kvt" ls "$scratch/set" --json
exits 0
parses
[ "$(jq -r '[.traces[] | .trace_id, .prompt_tokens] | @csv' "$scratch/out")" = '"a",24,"b",40' ] ||
    fail "ls --json: not a and b"
run "$kvt" ls "$scratch/nowhere"
exits 1
says err nowhere

# Cut, edited, newer, foreign.
head -c 30000 "$a" >"$scratch/set/cut.h5"
size=$(wc -c <"$a")
run "$kvt" info "$scratch/set/cut.h5"
exits 1
silent out
says err "is cut short: $size bytes expected, 30000 found"
[ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "info: more than one line for a cut file"
run "$kvt" verify "$scratch/set/cut.h5"
exits 3
says out "is cut short"
run "$kvt" ls "$scratch/set"
exits 0
says err "1 files cannot be read"
run "$kvt" ls "$scratch/set" --failed
exits 0
says out "is cut short"
rm "$scratch/set/cut.h5"

# One byte in the middle of the keys, found by their bytes in the file.
python=${KVT_PYTHON:-/usr/bin/python3}
if "$python" -c 'import h5py' 2>/dev/null; then
    at=$("$python" -c "import h5py,sys; print(h5py.File(sys.argv[1])['kv/k'].id.get_offset() + 1000)" "$a")
    cp "$a" "$scratch/set/edit.h5"
    printf '\377' | dd of="$scratch/set/edit.h5" bs=1 seek="$at" conv=notrunc 2>/dev/null
    run "$kvt" verify "$scratch/set/edit.h5"
    exits 3
    says out "layer 1 of kv/k: wrong checksum"
    says err "1 of 1 files have faults"
    run "$kvt" info "$scratch/set/edit.h5" # the schema is still whole
    exits 0
    rm "$scratch/set/edit.h5"
else
    echo "note: no h5py: the edited file is left out"
fi
echo "no trace" >"$scratch/text.h5"
run "$kvt" verify "$scratch/text.h5"
exits 3
says out "is not an HDF5 file"
run "$kvt" verify "$scratch/none.h5"
exits 1
says err "none.h5"
mkdir "$scratch/empty"
run "$kvt" verify "$scratch/empty"
exits 1

# Import: nothing is written where the manifest is wrong.
echo '{"datasets": {"kv/keys": "k.npy"}}' >"$scratch/m.json"
run "$kvt" import "$scratch/m.json" -o "$scratch/x.h5"
exits 1
says err "no dataset 'kv/keys'"
[ -e "$scratch/x.h5" ] && fail "import: wrote a file"
run "$kvt" import "$scratch/m.json"
exits 2
says err "import needs -o FILE"

# From the datasets of another trace, to the same content.
"$kvt" info "$a" --json | jq '{level, seed, sampling, no_text, model, token: (.token | del(.spans)), attn, future,
    datasets: (.datasets | with_entries(.value = "set/a.h5:/" + .key))} | .token.spans = {"context": [2, 20],
    "question": [20, 24]}' >"$scratch/m.json"
run "$kvt" import "$scratch/m.json" -o "$scratch/x.h5" --json
exits 0
parses
[ "$(jq -r .digest "$scratch/out")" = "$("$kvt" info "$a" --json | jq -r .digest)" ] ||
    fail "import: another content"
run "$kvt" import "$scratch/m.json" -o "$scratch/x.h5"
exits 1
says err "--force"
run "$kvt" import "$scratch/m.json" -o "$scratch/x.h5" --force
exits 0
silent out

finish
