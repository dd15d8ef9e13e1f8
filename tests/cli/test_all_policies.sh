#!/bin/sh
# kvt replay -p all: every policy of the list is in the table, or its reason stands under it; no
# regret is below 0.
# usage: test_all_policies.sh KVT SOURCE-DIR
. "$(dirname "$0")/lib.sh"
cd "$scratch" || exit 1
sample=$source_dir/traces/samples/needle-in-text.h5
learned=$source_dir/traces/samples/learned/kvpop-mlp.h5

# missing ROWS TEXT: policies of the list that are neither rows nor named in the text.
missing() {
    "$kvt" policy list --json | jq -r '.rows[] | select(.control | not) | .name' | while read -r name; do
        grep -qx -- "$name" "$1" || grep -Eq "[ :]$name(,|:| \(|\$)" "$2" || echo "$name"
    done
}

run "$kvt" replay "$sample" -q -p all -b 10%,60% -o one --csv tables
exits 0
grep -E '^(skipped|left out) ' out >reasons
"$kvt" report one --json --table cells | jq -r '.rows[].policy' | sort -u >rows
[ "$(wc -l <rows)" -ge 25 ] || fail "only $(wc -l <rows) policies have rows"
lost=$(missing rows reasons)
[ -z "$lost" ] || fail "without row and reason: $lost"
says out "without the file that they read (--weights FILE"
says out "not replayable from any trace: cam (merged values"
for name in duo headkv kvpop lukv qfilters scores; do
    grep -q "^left out  without the file.*[ ]$name\(,\|\$\)" out || fail "$name is not named as one without its file"
done
below=$("$kvt" report one --json --table cells | jq -r '.rows[] | select(.regret_mean_frac != null and .regret_mean_frac < 0) | .policy')
[ -z "$below" ] || fail "a regret below 0: $below"

# kvt info says of each what this trace makes of it.
run "$kvt" info "$sample"
exits 0
tr -s ' \n' '  ' <out >words
for name in $("$kvt" policy list --json | jq -r '.rows[].name'); do
    grep -Eq "[ :]$name(,| |\$)" words || fail "info leaves out $name"
done
[ "$(grep -c '^             ' out)" -gt 5 ] || fail "info: the classes of policies are not wrapped"

# A file that is named brings in those that read it, and only those are no longer left out.
run "$kvt" replay "$sample" -q -p all -b 60% -o two --weights "$learned"
exits 0
grep -q "^left out  without the file.*kvpop-mlp" out && fail "kvpop-mlp has its file and is left out"
says out "headkv"
run "$kvt" replay "$sample" -q -p snapkv -b 60% -o three
exits 0
grep -q "^left out" out && fail "something is left out that was not asked for"
run "$kvt" replay "$sample" -q -p all -b 60% -o one --json
exits 0
jq -e '.run.no_file | contains("headkv")' out >/dev/null || fail "--json: no_file does not name headkv"

finish
