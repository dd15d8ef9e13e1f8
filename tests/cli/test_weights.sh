#!/bin/sh
# How kvt capture takes weights: as they are in the file or decoded to f32, with
# another pre-tokenizer; what --plan and kvt info say of it.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

"$make_gguf" small.gguf type=8 dim=32 hidden=128 ff=256 heads=4 kv_heads=2 || exit 1 # Q8_0
capture() { run "$kvt" capture --model "$1" --prompt "a cat that went to the sea" --raw --max-new 6 "$2" "$3" "$4" "$5"; }
info() { "$kvt" info "$1" --json | jq -r "$2"; }

# As in the file, and decoded: other types in the trace, close numbers, and not the same capture.
capture small.gguf -o file.h5 --weights file
exits 0
capture small.gguf -o f32.h5 --weights f32
exits 0
run "$kvt" verify file.h5 f32.h5
exits 0
case $(info file.h5 .model.weights_type) in
    Q8_0*) ;;
    *) fail "weights as in the file: $(info file.h5 .model.weights_type)" ;;
esac
[ "$(info f32.h5 .model.weights_type)" = "f32 from $(info file.h5 .model.weights_type)" ] ||
    fail "weights as f32: $(info f32.h5 .model.weights_type)"
[ "$(info f32.h5 .model.weights_digest)" = "$(info file.h5 .model.weights_digest)" ] || fail "another model"
capture small.gguf -o none.h5 --weights f16
exits 2
says err "--weights"

# A set goes on where it is the same capture, and only there.
printf '{"id": "a", "prompt": "a cat"}\n' >set.jsonl
for weights in file file f32; do
    run "$kvt" capture --model small.gguf --prompts set.jsonl -o traces --raw --max-new 2 --weights $weights --json
    echo "$(jq -r .captured "$scratch/out") $status" >>ran
done
[ "$(tr '\n' ' ' <ran | cut -c 1-8)" = "1 0 0 0 " ] || fail "a set that is done was run again: $(cat ran)"
[ "$(tail -n 1 ran)" != "0 0" ] || fail "f32 weights were taken for those of the file"

# --plan: the parts make up the whole, and f32 takes more.
plan() { run "$kvt" capture --model small.gguf --prompt "a cat" --raw --plan --device cpu "$@"; }
plan
exits 0
says out "at the peak: "
says out " of weights, "
silent err
plan --json
exits 0
parses
jq -e '.weight_bytes > 0 and .memory_bytes > .weight_bytes and .device_bytes == 0' "$scratch/out" >/dev/null ||
    fail "--plan --json: no parts"
file=$(jq .weight_bytes "$scratch/out")
plan --json --weights f32
[ "$(jq .weight_bytes "$scratch/out")" -gt $((file * 2)) ] || fail "weights as f32 are planned as in the file"

# Another way to split text.
"$make_gguf" one.gguf || exit 1
capture one.gguf -o pre.h5 --pre gpt-2
exits 0
case $(info pre.h5 .model.tokenizer) in
    */gpt-2) ;;
    *) fail "--pre gpt-2: the trace says $(info pre.h5 .model.tokenizer)" ;;
esac
bad 2 "nonsuch" capture --model one.gguf --prompt a -o new/a.h5 --pre nonsuch

# Devices, and what kvt doctor says of them.
bad 2 "no device 'gpu'" capture --model one.gguf --prompt a -o new/a.h5 --device gpu
bad 2 "expected cuda: and the number" capture --model one.gguf --prompt a -o new/a.h5 --device cuda:x
run "$kvt" doctor --json
exits 0
jq -e '(.versions.cuda | length) > 0 and (.versions.simd | length) > 0 and
    (.environment | has("KVT_CUBLAS") and has("CUDA_VISIBLE_DEVICES"))' "$scratch/out" >/dev/null ||
    fail "doctor: nothing of CUDA, of SIMD or of the library that is opened"
case $(jq -r .versions.cuda "$scratch/out") in
    yes*) ;;
    no*) bad 1 "device 'cuda'" capture --model one.gguf --prompt a -o new/a.h5 --device cuda ;;
    *) fail "doctor: cuda: $(jq -r .versions.cuda "$scratch/out")" ;;
esac
finish
