#!/bin/sh
# The same bytes: with 1, 2 and 8 threads (C059), in a German locale (C070), whatever the order of
# policies and budgets (C079), in one run, in shards or one policy at a time; and JSON that parses
# wherever --json is taken.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

"$make_gguf" model.gguf layers=3 hidden=64 heads=8 kv_heads=2 dim=16 ff=128 || exit 1
for id in a b c; do
    printf '{"id": "%s", "prompt": "%s"}\n' $id \
        "$(awk -v s=$id$id$id 'BEGIN { for (i = 0; i < 30; i++) printf "%s%d ", s, (i * 7919 + length(s) * i * i) % 97 }')"
done >set.jsonl

# same FOLDER OTHER: the same files with the same bytes.
same() {
    checked=$((checked + 1))
    [ -n "$(find "$1" -type f)" ] || fail "$1 is empty"
    diff -rq "$1" "$2" >different 2>&1 || fail "$ran: $(head -n 1 different)"
}

policies=h2o,tova,snapkv:window=8,pyramidkv:window=8,streaming,window,h2o:compat=kvpress
budgets=12.5%,1/4,40,50%
replay() { # replay NAME OPTION...: results in NAME, tables in NAME.csv, rows in NAME.rows
    name=$1
    shift
    run "$kvt" replay traces/*.h5 -q --out "$name" --csv "$name.csv" \
        --table cells,lanes,steps,evictions,audit,curve --json "$@"
    exits 0
    parses
    jq -S .rows "$scratch/out" >"$name.rows"
}
# The metadata beside a table holds command and time: it may differ.
same_replay() { # same_replay NAME: as `whole`
    same whole "$1"
    same_tables whole "$1"
}
same_tables() {
    for table in cells lanes steps evictions audit curve; do
        [ "$(wc -l <"$1.csv/$table.csv")" -gt 1 ] || fail "$1.csv/$table.csv has no rows"
        cmp -s "$1.csv/$table.csv" "$2.csv/$table.csv" || fail "$ran: $table.csv differs"
    done
    cmp -s "$1.rows" "$2.rows" || fail "$ran: the JSON rows differ"
}

# ---- threads

for n in 1 2 8; do
    OMP_NUM_THREADS=3 run "$kvt" capture --model model.gguf --prompts set.jsonl -o traces-$n \
        --max-new 20 --temperature 0.8 --seed 7 -q -j $n
    exits 0
    "$kvt" ls traces-$n --json | jq -r '.traces[] | .trace_id + " " + .digest' >traces-$n.digests
    cmp -s traces-1.digests traces-$n.digests || fail "$n threads: other traces"
done
[ "$(wc -l <traces-1.digests)" -eq 3 ] || fail "expected 3 traces"
[ "$(cut -d' ' -f2 traces-1.digests | sort -u | wc -l)" -eq 3 ] || fail "digests of different prompts are equal"
run "$kvt" capture --model model.gguf --prompts set.jsonl -o other --max-new 20 --temperature 0.8 --seed 8 -q
"$kvt" ls other --json | jq -r '.traces[] | .trace_id + " " + .digest' | cmp -s - traces-1.digests &&
    fail "another seed gave the same traces"
mv traces-1 traces

replay whole -p $policies -b $budgets
for n in 1 8; do # the option wins over the environment
    OMP_NUM_THREADS=2 replay threads-$n -p $policies -b $budgets -j $n
    same_replay threads-$n
done

# ---- orders and parts

replay order -p window,streaming,h2o:compat=kvpress,pyramidkv:window=8,tova,snapkv:window=8,h2o -b 50%,40,1/4,12.5%
same_replay order
# One policy at a time, then all: what is there is used, what comes out is the same.
for policy in h2o:compat=kvpress,snapkv:window=8 window,tova,h2o streaming,pyramidkv:window=8; do
    run "$kvt" replay traces/*.h5 -q --out alone -p $policy -b $budgets
    exits 0
done
replay alone -p $policies -b $budgets
[ "$(jq .run.computed "$scratch/out")" -eq 0 ] || fail "$ran: computed again"
same whole alone
cmp -s whole.rows alone.rows || fail "$ran: the JSON rows differ"
# Shards: their union is the whole, none does another's work.
sum=0
for k in 1 2 3; do
    run "$kvt" replay traces/*.h5 -q --out shards -p $policies -b $budgets --shard $k/3 --json
    exits 0
    [ "$(jq .run.reused "$scratch/out")" -eq 0 ] || fail "$ran: did the work of another shard"
    sum=$((sum + $(jq .run.computed "$scratch/out")))
done
same whole shards
replay shards -p $policies -b $budgets
[ "$(jq .run.computed "$scratch/out")" -eq 0 ] || fail "the shards left $(jq .run.computed "$scratch/out") cells"
[ "$sum" -eq "$(jq .run.reused "$scratch/out")" ] || fail "the shards computed $sum cells"
cmp -s whole.rows shards.rows || fail "$ran: the JSON rows differ"
# A trace named twice counts once; 0.25 of a prompt is that many tokens (C079).
run "$kvt" replay traces/a.h5 traces/a.h5 -q --no-controls --out twice -p tova -b 25% --json
exits 0
[ "$(jq '.rows | length' "$scratch/out")" -eq 1 ] || fail "$ran: a trace twice gave two rows"
tokens=$("$kvt" ls traces --json | jq ".traces[0].prompt_tokens")
[ "$(jq '.rows[0].budget_tokens' "$scratch/out")" -eq $((tokens / 4)) ] || fail "$ran: 25% of $tokens is not $((tokens / 4))"
# report makes the same tables from the files.
run "$kvt" report whole --csv report.csv --table cells,lanes,steps,evictions,audit,curve -q
exits 0
for table in cells lanes steps evictions audit curve; do
    cmp -s whole.csv/$table.csv report.csv/$table.csv || fail "report: $table.csv differs"
done

# ---- a German locale

if command -v localedef >/dev/null && localedef -i de_DE -f UTF-8 "$scratch/de_DE.UTF-8" >/dev/null 2>&1 &&
    [ "$(LOCPATH=$scratch LC_ALL=de_DE.UTF-8 locale decimal_point)" = , ]; then
    export LOCPATH="$scratch"
    LC_ALL=de_DE.UTF-8 replay german -p $policies -b $budgets
    same_replay german
    LC_ALL=de_DE.UTF-8 run "$kvt" capture --model model.gguf --prompts set.jsonl -o german-traces \
        --max-new 20 --temperature 0.8 --seed 7 -q
    exits 0
    "$kvt" ls german-traces --json | jq -r '.traces[] | .trace_id + " " + .digest' | cmp -s - traces-1.digests ||
        fail "a German locale: other traces"
    LC_ALL=de_DE.UTF-8 run "$kvt" capture --model model.gguf --prompt a -o x.h5 --temperature 0,8 --plan
    exits 2
else
    echo "de_DE.UTF-8 cannot be made here (package locales): not tried"
fi

# ---- JSON

for words in "capture --model model.gguf --prompt a --max-new 2 -o j.h5" \
    "capture --model model.gguf --prompt a --max-new 2 -o j.h5 --plan" \
    "capture --model model.gguf --prompts set.jsonl -o traces --max-new 20 --temperature 0.8 --seed 7" \
    "replay traces/a.h5 -p h2o -b 8 --plan" "replay traces/a.h5 traces/b.h5 -p all -b 8,30% --out j" \
    "report whole" "report whole --table lanes" "report whole --table curve" "ls ." "ls whole" \
    "info traces/a.h5" "verify traces/a.h5 whole" "policy list" "policy show snapkv" \
    doctor help "help replay" --version; do
    # shellcheck disable=SC2086 # a verb and its words
    run "$kvt" $words --json
    exits 0
    parses
    [ "$(jq -s length "$scratch/out")" -eq 1 ] || fail "$ran: more than one JSON value"
    # With standard error merged in and nothing to say, it is JSON still.
    # shellcheck disable=SC2086
    "$kvt" $words --json -q --progress none 2>&1 | jq . >/dev/null 2>&1 || fail "$ran: no JSON with 2>&1"
done

finish
