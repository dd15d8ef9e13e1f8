#!/bin/sh
# kvt replay against replay_reference.py on synthetic traces of many shapes, with cases C003, C004 (1 layer,
# layers of a larger model), C005, C006, C010, C080, C082 among them; some hold probes and come with scorers.
# usage: test_replay_reference.sh KVT MAKE_SYNTH SOURCE_DIR [PYTHON]. Skips (77) without h5py and numpy.
set -eu
kvt=$1 make=$2 golden=$3/tests/golden python=${4:-}
if [ -z "$python" ]; then
    for p in /usr/bin/python3 python3; do
        if "$p" -c 'import numpy, h5py' 2>/dev/null; then python=$p && break; fi
    done
fi
if [ -z "$python" ] || ! "$python" -c 'import numpy, h5py' 2>/dev/null; then
    echo "SKIPPED: no python3 with numpy and h5py (Debian: python3-numpy python3-h5py)" >&2
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
"$python" "$golden/replay_schedule.py" || failed=1

# name: the trace's file; the rest are make_synth's.
compare() {
    name=$1 also=
    shift
    case $name in
    sink*) also=--sinks ;;
    alone*) also=--alone ;;
    esac
    "$make" "$dir/$name.h5" queries=64 block=64 "$@"
    echo "$name: $*"
    "$python" "$golden/replay_reference.py" "$kvt" "$dir/$name.h5" $also || failed=1
}

# The same with probes of every kind, drafts at four budgets, and scorers of that model.
learned() {
    name=$1
    shift
    set -- queries=64 block=64 probes=1 draft=7 draft2=16 draft3=33 draft4=70 "$@"
    "$make" "$dir/$name.h5" "$@"
    for kind in kvpop-mlp kvpop; do
        "$make" scorer:$kind "$dir/$name-$kind.scorer.h5" "$@"
    done
    echo "$name: $*"
    "$python" "$golden/replay_reference.py" "$kvt" "$dir/$name.h5" -p "$policies" -w "$dir/$name-kvpop-mlp.scorer.h5" \
        -w "$dir/$name-kvpop.scorer.h5" || failed=1
}
policies=lookaheadkv,judgeq,suffix,lookahead-oracle,speckv,laq,laq-plus,kvzip,kvpop-mlp,kvpop,oracle,oracle-step

learned look1    layers=2 heads=4 kv_heads=2 prompt=97  response=12 seed=31
learned look3    layers=2 heads=6 kv_heads=2 prompt=65  response=9  seed=32 sharpness=3 probe_rows=8
learned some_l   layers=2 heads=3 kv_heads=1 prompt=80  response=7  seed=33 model_layers=4 probe_rows=3
learned slide_l  layers=2 heads=4 kv_heads=2 prompt=80  response=7  seed=34 window=48
learned short_l  layers=2 heads=4 kv_heads=2 prompt=30  response=7  seed=35
learned norows_l layers=2 heads=4 kv_heads=2 prompt=65  response=7  seed=36 rows=0
learned silent_l layers=2 heads=4 kv_heads=2 prompt=65  response=0  seed=37

compare gqa1     layers=1 heads=2 kv_heads=2 prompt=65  response=20 seed=11
compare gqa2     layers=2 heads=4 kv_heads=2 prompt=65  response=20 seed=12
compare gqa3     layers=3 heads=6 kv_heads=2 prompt=200 response=20 seed=13
compare gqa4     layers=2 heads=4 kv_heads=1 prompt=64  response=20 seed=14 sharpness=3
compare alone    layers=2 heads=3 kv_heads=1 prompt=97  response=7  seed=15 sharpness=1
compare tiny     layers=3 heads=6 kv_heads=2 prompt=5   response=20 seed=16
compare one_row  layers=2 heads=4 kv_heads=2 prompt=200 response=1  seed=17
compare one_tok  layers=2 heads=2 kv_heads=1 prompt=1   response=20 seed=18
compare silent   layers=3 heads=4 kv_heads=2 prompt=65  response=0  seed=19
compare sliding  layers=3 heads=4 kv_heads=2 prompt=200 response=20 seed=20 window=48
compare flat     layers=2 heads=4 kv_heads=2 prompt=65  response=20 seed=21 sharpness=0
compare sink     layers=2 heads=4 kv_heads=2 prompt=200 response=20 seed=22 sink=6
compare sinks3   layers=2 heads=6 kv_heads=2 prompt=97  response=20 seed=27 sink=7
compare heavy    layers=2 heads=4 kv_heads=2 prompt=65  response=20 seed=23 sink=9
compare some     layers=2 heads=4 kv_heads=2 prompt=200 response=20 seed=24 model_layers=5
compare no_rows  layers=2 heads=6 kv_heads=2 prompt=200 response=20 seed=25 rows=0
compare all_q    layers=2 heads=4 kv_heads=2 prompt=97  response=20 seed=26 queries=-1
exit $failed
