#!/usr/bin/env bash
# Uses of one policy with other parameters are told apart wherever they are printed: rows, what is
# skipped, the sentence, kvt report, JSON and CSV.
# usage: test_labels.sh KVT SAMPLE
set -eu
kvt=$1 sample=$2
[ -f "$sample" ] || { echo "skipped: no sample trace $sample"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$sample" "$work/trace.h5"
cd "$work"
policies=snapkv,snapkv:window=8,pool=1,snapkv:compat=kvpress
"$kvt" replay trace.h5 -p "$policies" -b 20,64,30% --no-controls --no-output-error -q > table.txt
"$kvt" report kvt-results > report.txt
for text in table.txt report.txt; do
    for label in "snapkv " "snapkv:window=8,pool=1 " "snapkv:compat=kvpress "; do
        [ "$(grep -c "^$label.* 30% " "$text")" = 1 ] || { cat "$text"; exit 1; }
    done
    grep -q "^skipped  snapkv: .*got 20" "$text"
    grep -q "^skipped  snapkv:compat=kvpress: .*got 20" "$text"
    grep -q "(on-top): snapkv[^ ]* and snapkv[^ ]* cannot be told apart" "$text"
    if grep -q "(on-top): \(snapkv[^ ]*\) and \1 " "$text"; then cat "$text"; exit 1; fi
done
"$kvt" replay trace.h5 -p "$policies" -b 20,64,30% --no-controls --no-output-error -q --json > out.json
grep -q '"policy_label": "snapkv:window=8,pool=1"' out.json
"$kvt" report kvt-results --csv - --table curve > curve.csv
grep -q '"snapkv:window=8,pool=1"' curve.csv
echo "uses of a policy are told apart"

# A row of fewer prompts, and one that is a mean of results that read something else, are named.
mkdir two && cd two
cp "$sample" a.h5
folder=$(dirname "$sample")
cp "$folder/needle-in-text.h5" b.h5
cp "$folder/table-of-stations.h5" c.h5
run() { "$kvt" replay "$@" -b 30% --no-controls --no-output-error -q; }
run a.h5 b.h5 -p snapkv,position > table.txt
if grep -E '^(fewer|mixed) ' table.txt; then cat table.txt; exit 1; fi
run a.h5 c.h5 -p position > /dev/null
"$kvt" report kvt-results > report.txt
grep -q '^fewer  prompts: snapkv at 30% (2) of 3\.' report.txt || { cat report.txt; exit 1; }
grep -q '^mixed  results of a prompt: position at 30% (2)\.' report.txt || { cat report.txt; exit 1; }
# A use at two rules is not compared with itself.
run a.h5 b.h5 -p snapkv --fair bytes > /dev/null
"$kvt" report kvt-results > report.txt
if grep '(on-top): \([^ ]*\) and \1 ' report.txt; then exit 1; fi
echo "rows that compare badly are named"
