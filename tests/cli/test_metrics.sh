#!/bin/sh
# kvt replay --metrics: names, the nearest one, what JSON, CSV, reports and kvt help hold, what is reused.
# usage: test_metrics.sh KVT SOURCE-DIR
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

sample_trace
cp "$trace" "$scratch/trace.h5"
cd "$scratch" || exit 1
replay() { run "$kvt" replay trace.h5 -p snapkv -b 30% --no-controls -q "$@"; }
computed() { # computed COUNT
    got=$(grep -o '"computed": [0-9]*' out | grep -o '[0-9]*')
    [ "$got" = "$1" ] || fail "$ran: expected $1 computed cells, got $got"
}
has() { # has COLUMN null|number
    case $2 in
    null) grep -q "\"$1\": null" out ;;
    *) grep -q "\"$1\": -\{0,1\}[0-9]" out ;;
    esac || fail "$ran: expected $1 as $2"
}

replay --json
exits 0
computed 1
has recall_mean_frac number
has recall_micro_frac number
has precision_mean_frac number
has kept_to_oracle_mean_frac number
has unavailable_mean_frac number
has kendall_tau_mean_1 null
has support_90_mean_tokens null
has out_cos_mean_rel null

# Names in any order are one cell; another set of names is another one.
replay --json --metrics ndcg,kendall_tau
exits 0
computed 1
has kendall_tau_mean_1 number
has ndcg_mean_1 number
has spearman_mean_1 null
replay --json --metrics kendall_tau --metrics ndcg
computed 0
has ndcg_mean_1 number
replay --json --metrics default
computed 0
replay --json --metrics all --csv tables --table cells,lanes,curve
exits 0
computed 1
for column in spearman_mean_1 support_99_p95_tokens out_cos_max_rel out_l1_mean_rel \
    out_err_unnorm_micro_rel out_err_micro_rel; do
    has $column number
    grep -q "\"\{0,1\}$column" tables/cells.csv || fail "cells.csv lacks $column"
done
for column in spearman_mean_1 support_99_mean_tokens precision_mean_frac; do
    grep -q "\"\{0,1\}$column" tables/lanes.csv || fail "lanes.csv lacks $column"
done
grep -q micro_frac tables/lanes.csv && fail "lanes.csv has a sum over the cell"
grep -q auc_lost_mass_to_oracle tables/curve.csv || fail "curve.csv lacks the area by the oracle's"

# Two results of one cell with other metrics are named, not passed off as one.
run "$kvt" report kvt-results
exits 0
says out "mixed  results of a prompt: snapkv at 30%"
says out "measured other metrics"

# What cannot be.
replay --metrics kendal_tau
exits 2
says err "no metric 'kendal_tau', did you mean 'kendall_tau'?"
replay --metrics xyzzy
exits 2
says err "no metric 'xyzzy' (kvt help --doc metrics lists them)"
replay --metrics ndcg,
exits 2
says err "no metric ''"
replay --metrics out_cos --no-output-error
exits 2
says err "metric out_cos is an error of the output, which is left out"
replay --json --metrics all --no-output-error
exits 0
has support_90_mean_tokens number
has out_cos_mean_rel null

# Every metric is completed and described.
run "$kvt" __complete metric
exits 0
says out all
for name in $(grep -o 'KVT_METRIC([a-z0-9_]*' "$source_dir/replay/metrics/metrics.def" | sed 's/.*(//'); do
    run "$kvt" __complete metric
    grep -qx "$name" out || fail "$name is not completed"
    run "$kvt" help --doc metrics
    for part in "### $name\$" "range" "undefined" "does not show"; do
        sed -n "/^### $name\$/,/^### /p" out | grep -q "$part" || fail "kvt help: $name lacks $part"
    done
done
run "$kvt" help replay
says out "--metrics"
finish
