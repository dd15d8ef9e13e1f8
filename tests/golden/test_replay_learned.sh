#!/bin/sh
# Captured probes and trained scorers against numpy: a tiny random model writes traces with every kind of probe,
# kvt train makes scorers of them, and replay_reference.py decides again, cell by cell. Rows, keys and masses are
# those of the running model, other than in test_replay_reference.sh.
# usage: test_replay_learned.sh KVT SOURCE_DIR MAKE_GGUF [PYTHON]. Skips (77) without h5py and numpy.
set -eu
kvt=$1 source_dir=$2 make_gguf=$3 python=${4:-/usr/bin/python3}
golden=$source_dir/tests/golden
if ! "$python" -c 'import numpy, h5py' 2>/dev/null; then
    echo "SKIPPED: no python3 with numpy and h5py (Debian: python3-numpy python3-h5py)" >&2
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
failed=0

# capture NAME OPTION...: a trace of about 100 tokens.
capture() {
    name=$1
    shift
    "$kvt" capture --model "$model" -q -o "$name" --prompt "Once upon a time there was a cat that went to the sea, \
and it came back to the house when the year was over. What did the cat do by the sea?" --queries all --delay 8 "$@" >/dev/null
}
policies=lookaheadkv,judgeq,suffix,lookahead-oracle,speckv,laq,laq-plus,kvzip,kvpop-mlp,kvpop,snapkv,oracle,oracle-step

# Two query heads a kv head, and three.
for shape in "heads=4 kv_heads=2" "heads=3 kv_heads=1 layers=3 hidden=36"; do
    model=$(echo "$shape" | tr ' =' '__').gguf
    # shellcheck disable=SC2086 # a list of numbers
    "$make_gguf" "$model" $shape spread=0.3
    capture plain.h5 --max-new 12 --force --system "Answer in one word."
    digest=$("$kvt" info plain.h5 --json | jq -r '.. | .weights_digest? // empty' | head -n 1)
    # shellcheck disable=SC2086
    {
        "$python" "$source_dir/tests/cli/make_adapter.py" look.safetensors "$digest" $shape
        "$python" "$source_dir/tests/cli/make_adapter.py" judge.safetensors "$digest" kind=judgeq rank=0 $shape
    }
    echo '[5, 9, 40, 11, 300, 7]' >ids.json
    capture probed.h5 --max-new 12 --force --probe look=lookaheadkv:look.safetensors --probe judge=judgeq:judge.safetensors \
        --probe laq=draft:tokens=4@36,50 --probe own=suffix:response,tokens=6 --probe zip=repeat:chunk=30 \
        --probe spec=specdraft:ids.json
    "$kvt" verify -q probed.h5 >/dev/null || {
        echo "kvt verify finds faults in the probed trace of $shape"
        failed=1
    }
    weights=
    for scorer in mlp mlstm; do
        "$kvt" train kvpop:scorer=$scorer,sinks=2,window=8,steps=20 plain.h5 probed.h5 -q --force -o $scorer.scorer.h5 >/dev/null
        weights="$weights -w $scorer.scorer.h5"
    done
    echo "$shape"
    # shellcheck disable=SC2086
    "$python" "$golden/replay_reference.py" "$kvt" probed.h5 -p $policies -b 12,16,36,50,70,25%,1000 $weights || failed=1
done
exit $failed
