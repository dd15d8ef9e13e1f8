#!/bin/sh
# What comes with --json is one JSON object with a schema, whatever is said on standard error.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
sample_trace

run "$kvt" replay "$trace" -p snapkv,h2o -b 10%,64 --json --out "$scratch/results"
exits 0
parses
[ "$(jq '.rows | length' "$scratch/out")" -ge 4 ] || fail "replay: fewer than 4 rows"
jq -e '[.rows[] | select(.policy == "snapkv") | .lost_mass_mean_frac] | all(. >= 0 and . <= 1)' \
    "$scratch/out" >/dev/null || fail "replay: a lost mass is no share"
for words in "ls $scratch" "info $trace" "verify $trace" "policy list" "policy show snapkv" \
    "report $scratch/results" "demo"; do
    # shellcheck disable=SC2086 # a verb and its operands
    run "$kvt" $words --json
    exits 0
    parses
done
run "$kvt" completion bash --json
exits 2
says err "completion has no --json"

# Failures: nothing on standard output, one status.
run "$kvt" info "$scratch/nothing.h5" --json
exits 1
silent out
echo "no trace" >"$scratch/bad.h5"
run "$kvt" info "$scratch/bad.h5"
exits 1
silent out
run "$kvt" replay "$trace" -p snapvk -b 64
exits 2
says err "snapkv"
run "$kvt" replay "$trace" -p snapkv -b 0
exits 2

finish
