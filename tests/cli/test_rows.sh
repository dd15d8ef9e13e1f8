#!/bin/sh
# --rows-limit changes no result: a trace without its cached rows has the digest of the one with them,
# and every number, set and random choice of a replay is the same, byte for byte.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

"$make_gguf" model.gguf layers=2 hidden=64 heads=6 kv_heads=2 dim=16 ff=128 || exit 1
prompt=$(awk 'BEGIN { for (i = 0; i < 40; i++) printf "w%d ", (i * 7919 + i * i) % 97 }')
mkdir whole bare
for name in whole bare; do
    limit=256MiB
    [ $name = whole ] || limit=0
    run "$kvt" capture --model model.gguf --prompt "$prompt" -o $name/a.h5 --max-new 24 --temperature 0.8 \
        --seed 7 --rows-limit $limit -q
    exits 0
    run "$kvt" verify $name/a.h5
    exits 0
    # One path for both, so that the files of results can be compared byte by byte.
    mkdir -p traces && cp $name/a.h5 traces/a.h5
    run "$kvt" replay traces/a.h5 -q --out $name/results --csv $name/csv --table cells,lanes,steps,evictions \
        --json -p h2o,tova,snapkv:window=8,pyramidkv:window=8,streaming,oracle-step -b 12.5%,40,50%
    exits 0
    parses
    jq -S .rows "$scratch/out" >$name.rows
done
[ "$(wc -c <bare/a.h5)" -lt "$(wc -c <whole/a.h5)" ] || fail "a trace without rows is no smaller"
digest() { "$kvt" info "$1" --json | jq -r .digest; }
[ "$(digest whole/a.h5)" = "$(digest bare/a.h5)" ] || fail "the rows change the trace's digest"
cmp -s whole.rows bare.rows || fail "the rows change the JSON rows"
for table in cells lanes steps evictions; do
    cmp -s whole/csv/$table.csv bare/csv/$table.csv || fail "the rows change $table.csv"
done
[ "$(find whole/results -type f | wc -l)" -ge 10 ] || fail "expected 10 result files or more"
diff -rq whole/results bare/results >different 2>&1 || fail "the rows change the results: $(head -n 1 different)"
# What was computed with them serves without them.
run "$kvt" replay traces/a.h5 -q --out whole/results --json -p h2o -b 40
exits 0
[ "$(jq .run.computed "$scratch/out")" -eq 0 ] || fail "$ran: computed again"
finish
