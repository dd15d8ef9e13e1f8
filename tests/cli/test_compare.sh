#!/bin/sh
# kvt compare: differences paired by prompt, with ranking, allocation and size as parts of them.
# usage: test_compare.sh KVT SOURCE-DIR
. "$(dirname "$0")/lib.sh"
sample_trace
cd "$scratch" || exit 1
run "$kvt" replay "$source_dir"/traces/samples/*.h5 -p snapkv:window=24,snapkv:window=16,pyramidkv,h2o,tova -b 10%,25% \
    --out found -q
exits 0

run "$kvt" compare found -p snapkv,pyramidkv -b 10%
exits 2
says err "the results hold 2 uses of it"

run "$kvt" compare found -p snapkv:window=24,pyramidkv,h2o,snapkv:window=16 -b 10% --json
exits 0
parses
[ "$(jq '.rows | length' out)" = 3 ] || fail "expected three rows"
[ "$(jq -r '.rows[0] | .interval' out)" = "95% over prompts" ] || fail "eight prompts give an interval"
# The parts add up to the whole, and snapkv against itself with another window is no allocation.
[ "$(jq '.rows[0] | (.diff - .ranking_diff - .allocation_diff - .size_diff) | fabs < 1e-12' out)" = true ] ||
    fail "the parts of pyramidkv do not add up"
[ "$(jq '.rows[2] | (.allocation_diff | fabs) < 1e-9 and (.size_diff | fabs) < 1e-9' out)" = true ] ||
    fail "two uses of equal counts differ in ranking only"
# A regret against one decision and one against a whole schedule have no difference.
[ "$(jq '.rows[1] | .growth == "inside" and .ranking_diff == null and .allocation_diff == null' out)" = true ] ||
    fail "parts of h2o beside a policy of the prompt"
# Two that evict while decoding, at the same budgets and times: the best schedule is one, all is ranking.
run "$kvt" compare found -p h2o,tova -b 10%,25% --json
exits 0
[ "$(jq '.rows | length == 2 and all(.ranking_diff != null and (.ranking_diff - .diff | fabs) < 1e-9 and
    .ranking_ci_lo != null and .allocation_diff == null and .size_diff == null)' out)" = true ] || fail "the part of tova"
run "$kvt" compare found -p h2o,tova -b 10%
exits 0
says out ": ranking "
says out "the rest 0.0000"
says out "against the best schedules"
run "$kvt" compare found -p snapkv:window=24,pyramidkv,h2o,snapkv:window=16 -b 10%
says out "or both evict while decoding"
# Means are those of the report.
run "$kvt" report found --table curve --json
exits 0
want=$(jq '[.rows[] | select(.policy == "pyramidkv" and .budget_asked == "10%")][0].lost_mass_mean_frac' out)
run "$kvt" compare found -p snapkv:window=24,pyramidkv -b 10% --json
[ "$(jq --argjson want "$want" '(.rows[0].value_mean - $want) | fabs < 1e-12' out)" = true ] ||
    fail "the mean is not that of the report"

# Exchanged, every difference has the other sign.
run "$kvt" compare found -p pyramidkv,snapkv:window=24 -b 10%,25% --json
exits 0
cp out other
run "$kvt" compare found -p snapkv:window=24,pyramidkv -b 10%,25% --json
exits 0
[ "$(jq --slurpfile o other '[range(2) as $i | .rows[$i].diff + $o[0].rows[$i].diff | fabs] | max < 1e-12' out)" \
    = true ] || fail "the exchanged comparison has other numbers"

run "$kvt" compare found -p snapkv:window=24,pyramidkv
exits 0
says out "against snapkv"
says out "of it: ranking"
says out "pyramidkv at 10% loses"
says out "allocation"
run "$kvt" compare found -p snapkv:window=24,pyramidkv --csv compare.csv
exits 0
[ "$(head -n 1 compare.csv | tr ',' '\n' | wc -l)" = 25 ] || fail "columns of compare.csv"
[ -f compare.csv-metadata.json ] || fail "compare.csv has no metadata"
run "$kvt" compare found -p snapkv:window=24,pyramidkv --metric recall_mean_frac -b 25%
exits 0
says out "pyramidkv at 25% has"

for bad in "-p snapkv:window=24" "-p snapkv:window=24,nope" "-p snapkv:window=24,h2o --metric nope" \
    "-p snapkv:window=24,h2o --metric policy" "" "-p ,h2o"; do
    # shellcheck disable=SC2086
    run "$kvt" compare found $bad
    case $status in 1 | 2) ;; *) fail "compare $bad: status $status" ;; esac
    silent out
done
run "$kvt" compare found -p snapkv:window=24,h2o -b 33%
exits 1
says err "no cell of it at 33%"
run "$kvt" compare nowhere -p snapkv,h2o
exits 1
run "$kvt" compare found -p snapkv:window=24,h2o --json --csv -
exits 2
finish
