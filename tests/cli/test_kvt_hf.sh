#!/bin/sh
# scripts/kvt_hf.py against kvt's own capture, on tiny models of each architecture as transformers writes them:
# the same prompt through two tokenizers, templates and engines, compared dataset by dataset. Then what it refuses.
# test_kvt_hf.sh KVT SOURCE-DIR
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=${KVT_PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, transformers, h5py' 2>/dev/null ||
    skip "$python lacks torch, transformers or h5py: set KVT_PYTHON"
kvt=$(cd "$(dirname "$kvt")" && pwd)/$(basename "$kvt")
cd "$scratch" || exit 1
OMP_NUM_THREADS=2
export OMP_NUM_THREADS
hf() { run "$python" "$source_dir/scripts/kvt_hf.py" --kvt "$kvt" "$@"; }

prompt="How many ships had passed on the 2nd of March? The keeper of 東京 says 1234, isn't it?"
long="$prompt On the first of March there were four, and a fog so thick that he counted them by their horns."
options='--max-new 20 --delay 8 --queries all --level full'
for which in llama:llama3 llama:bf16,parts qwen2:yarn qwen3 gemma3; do
    arch=${which%%:*} variant=
    [ "$which" = "$arch" ] || variant=${which#*:}
    name=$arch
    [ ! -d "$name" ] || name=$arch-$variant
    "$python" "$here/make_hf.py" "$arch" "$name" "$variant" >made 2>&1 || {
        fail "make_hf.py $arch $variant"
        tail -n 3 made
        continue
    }
    # shellcheck disable=SC2086 # options
    {
        run "$kvt" capture --model "$name" --chat chatml --prompt "$long" $options -o "$name.h5"
        exits 0
        run "$kvt" verify "$name.h5"
        exits 0
        hf --model "$name" --prompt "$long" $options --dtype float32 --out "$name-hf.h5"
        exits 0
        run "$kvt" verify "$name-hf.h5"
        exits 0
    }
    run "$python" "$here/compare_traces.py" "$name.h5" "$name-hf.h5"
    exits 0
    [ "$status" -eq 0 ] || grep compare_traces: "$scratch/out"
done

# Only some layers, only the tail of the queries, raw text, a sampled answer, a span; arrays that stay.
hf --model llama --prompt "$prompt" --raw --out part.h5 --layers 0,2 --max-new 4 --temperature 0.7 --top-p 0.9 \
    --top-k 40 --seed 3 --span "year=1234" --keep arrays
exits 0
[ -f arrays/manifest.json ] || fail "--keep left no arrays"
run "$kvt" verify part.h5
exits 0
run "$kvt" info part.h5 --json
exits 0
[ "$(jq -c '[.level, .datasets["layer/id"].shape[0], .seed]' "$scratch/out")" = '["replay",2,3]' ] ||
    fail "another level, other layers or another seed: $(jq -c '[.level, .datasets["layer/id"].shape, .seed]' "$scratch/out")"
hf --model llama --prompt "$prompt" --raw --out again.h5 --layers 0,2 --max-new 4 --temperature 0.7 --top-p 0.9 \
    --top-k 40 --seed 3 --span "year=1234"
exits 0
digest() { "$kvt" info "$1" --json | jq -r .digest; }
[ "$(digest part.h5)" = "$(digest again.h5)" ] || fail "the same seed gave another trace"
run "$kvt" replay part.h5 -p snapkv:window=8 -b 50% --json --out results
exits 0

# What is refused, in one line and without a file.
refuses() { # refuses TEXT OPTION...
    text=$1
    shift
    hf "$@"
    [ "$status" -ne 0 ] || fail "$ran: expected a failure"
    says err "$text"
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$ran: expected one line"
    [ ! -e new.h5 ] || fail "$ran: left new.h5"
}
refuses "no model at 'none'" --model none --prompt a --out new.h5
refuses "expected one of --prompt" --model llama --out new.h5
refuses "'part.h5' is there already" --model llama --prompt a --out part.h5
refuses "no layer 9: the model has 3" --model llama --prompt a --out new.h5 --layers 9
refuses "--layers '1-x': expected numbers and ranges" --model llama --prompt a --out new.h5 --layers 1-x
refuses "span 'x': its text is not in the prompt" --model llama --prompt a --out new.h5 --span x=zebra --max-new 1
rm llama/chat_template.jinja
refuses "no chat template: give --raw" --model llama --prompt a --out new.h5
finish
