#!/bin/sh
# Policies, allocators, oracles and their files, as people mistype them: one line, the right exit status, and no
# result of what was refused. The same ones where they are fine, so that each fails for its own reason.
# usage: test_bad_policies.sh KVT SOURCE-DIR MAKE-GGUF MAKE-SYNTH
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"
make=$4
size="prompt=60 response=8 queries=-1 level=2"
# shellcheck disable=SC2086 # a list of numbers
"$make" a.h5 $size probes=1 || exit 1
for kind in shares duo headkv lukv qfilters kvpop; do
    "$make" scorer:$kind $kind.h5 || exit 1
done
"$make" scorer:duo wide.h5 heads=6 kv_heads=3 || exit 1
head -c 3000 shares.h5 >cut.h5

# replay STATUS TEXT OPTION...
replay() {
    want=$1 text=$2
    shift 2
    bad "$want" "$text" replay a.h5 --out new --no-controls -q "$@"
}
# skips TEXT OPTION...: status 3, one line; the only file is the result that says why
skips() {
    text=$1
    shift
    clean
    run "$kvt" replay a.h5 --out new --no-controls -q "$@"
    exits 3
    one_line "$text"
    no_rest new
}
fine() { good replay a.h5 --out new --no-controls -q "$@"; }

# ---- budgets

fine -p window -b "$(seq -s, 1 64)"
replay 2 "more than 64 of them" -p window -b "$(seq -s, 1 65)"
fine -p window -b 1%..100%x2 --json # 1 % and 2 % of 60 tokens are both one slot
[ "$(jq -c '[.rows[].budget_asked]' "$scratch/out")" = '["1%","4%","8%","16%","32%","64%"]' ] ||
    fail "$ran: budgets $(jq -c '[.rows[].budget_asked]' "$scratch/out")"
replay 2 "two budgets of one kind" -p window -b 1..100%x2
replay 2 "more than 100 %" -p window -b 1%..200%x2
replay 2 "expected tokens" -p window -b 16EiB
replay 2 "expected tokens" -p window -b 1/9223372036854775807
# Bytes are shared by as many lanes as a variant has: a set for each query head has half the slots here.
fine -p snapkv:compat=official,window=4 -p snapkv:window=4 -b 24KiB --json
fine -p snapkv:compat=official,window=4,snapkv:window=4 -b 4KiB --json
[ "$(jq '[.rows[] | .budget_tokens] | sort | .[1] == 2 * .[0]' "$scratch/out")" = true ] ||
    fail "$ran: bytes by query head: $(jq -c '[.rows[] | [.policy_params, .budget_tokens]]' "$scratch/out")"
jq -e '[.rows[] | .kept_bytes] | all(. > 0)' "$scratch/out" >/dev/null || fail "$ran: no bytes"
# Below what a rule protects: at that budget alone.
skips "a window of 32 needs a budget of 32 or more, got 8" -p snapkv -b 8
skips "base snapkv: a window of 32 needs a budget of 32" -p criticalkv -b 8
fine -p snapkv -b 8,40 --json
[ "$(jq -c '[.rows[] | select(.lost_mass_mean_frac != null) | .budget_tokens]' "$scratch/out")" = '[40]' ] ||
    fail "$ran: expected 40 alone"
for policy in streaming:sinks=9 h2o:recent=0.01 lagkv think cake nacl; do
    run "$kvt" replay a.h5 --out new --no-controls -q -b 1 -p $policy
    case $status in
    0) ;;
    3) one_line "policy ${policy%%:*}" ;;
    *) fail "$ran: status $status" ;;
    esac
done

# ---- texts

replay 2 "expected an allocator behind '/'" -p snapkv/ -b 8
replay 2 "no policy ''" -p : -b 8
replay 2 "no parameter ''" -p snapkv:=3 -b 8
replay 2 "no allocator 'ada/even'" -p snapkv/ada/even -b 8
replay 2 "expected at least one, got none" -p "" -b 8
replay 2 "window" -p "snapkv:window=$(printf '%0400d' 4)" -b 8
replay 2 "too long" -p "$(printf '%0600d' 4)" -b 8
replay 2 "expected the name of a policy" -p "criticalkv:base=$(printf '%0200d' 4)" -b 8
replay 2 "no policy" -p "$(printf 'snap\033[31mkv')" -b 8
replay 2 "threshold: expected a finite number, got 'nan'" -p dms:from=decisions,threshold=nan -b 8

# ---- allocators that a policy has no use for

replay 2 "policy full: allocator ada compares scores" -p full/ada -b 8
for policy in quest think oracle-step h2o-mask dmc; do
    replay 2 "policy $policy: it evicts no slots" -p $policy/even -b 8
done
for policy in kvzap dms; do
    replay 2 "policy $policy: it keeps by a threshold" -p $policy/global -b 8
done
fine -p random/ada,random/global,window/oracle-budget,full/pyramid -b 8
skips "at even budgets" -p oracle-assign/ada -b 8

# ---- every=K

replay 2 "it evicts no slots" -p think:every=4 -b 40
replay 2 "it scores nothing" -p full:every=4 -b 40
replay 2 "it reads sums over all prompt queries" -p observed:every=4 -b 40
replay 2 "every: 1048577 is not" -p snapkv:window=4,every=1048577 -b 40
fine -p snapkv:window=4,every=1048576,h2o:every=1 -b 40
skips "not replayable" -p cam:every=4 -b 40

# ---- oracles and metrics

for oracle in snapkv all window nope ""; do
    replay 2 "oracle: " -p window -b 8 --oracle "$oracle"
    bad 2 "oracle: " replay a.h5 --out new -q -p window -b 8 --oracle "$oracle"
done
for oracle in none oracle oracle-max oracle-output oracle-greedy belady oracle,oracle-max oracle/ada; do
    good replay a.h5 --out new -q -p window -b 8 --oracle $oracle
done
replay 2 "no metric 'nope'" -p window -b 8 --metrics kendall_tau,nope
replay 2 "no metric ''" -p window -b 8 --metrics ""
fine -p window -b 8 --metrics all --json
grep -qiw 'nan\|-nan\|infinity' "$scratch/out" && fail "$ran: a number that is none"

# ---- files

fine -p snapkv/table:window=4,table=shares.h5 -p duo:weights=duo.h5 -b 20
skips "expected a file of kind shares, got kvpop" -p snapkv/table:window=4,table=kvpop.h5 -b 20
skips "expected a file of kind duo, got shares" -p duo:weights=shares.h5 -b 20
skips "'wide.h5' is for another model: query heads: expected 4, got 6" -p duo:weights=wide.h5 -b 20
for file in cut.h5 /dev/null . none.h5 a.h5; do
    replay 1 "table: '$file'" -p snapkv/table:window=4,table=$file -b 20
    replay 1 "weights: '$file'" -p headkv:window=4,weights=$file -b 20
done
replay 1 "'/etc/passwd'" -p scores:file=/etc/passwd -b 20
skips "needs file=SCORES" -p scores -b 20
skips "the trace has no probe '../../etc'" -p kvzip:probe=../../etc -b 40

# ---- all of them, to a terminal's table, JSON and CSV: never a NaN, and each that is missing has its reason

for prompt in 1 2 3 33; do
    "$make" p$prompt.h5 prompt=$prompt response=6 queries=-1 level=2 probes=1 || exit 1
    good replay p$prompt.h5 --out new -q -p all -b 1,2,3,50%,100% --csv new/csv
    grep -qiw 'nan\|-nan\|inf' "$scratch/out" && fail "$ran: a number that is none"
    grep -rqiw nan new/csv && fail "$ran: a number that is none in CSV"
    good replay p$prompt.h5 --out new -q -p all -b 1,2,3,50%,100% --json --metrics all
    parses
    jq -e '[.rows[] | select(.status == "skipped") | .error | length] | all(. > 0)' "$scratch/out" >/dev/null ||
        fail "$ran: skipped without a reason"
    jq -e '[.rows[] | select(.status != "skipped") | .status] | all(. == "ok")' "$scratch/out" >/dev/null ||
        fail "$ran: failed cells"
    jq -e '[.rows[] | .regret_mean_frac // 0] | all(. >= 0)' "$scratch/out" >/dev/null ||
        fail "$ran: a regret below 0"
done

finish
