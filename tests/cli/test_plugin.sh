#!/bin/sh
# A policy written outside the tree: from `kvt policy new` to the same table as the built-in ones, and
# what happens to one that breaks a rule. Case C010: what sinks are worth shows in the metrics.
# usage: test_plugin.sh KVT SOURCE-DIR
. "$(dirname "$0")/lib.sh"

# A trace: a sample, or a short one of the model where that is at hand.
trace=
for file in "$source_dir"/traces/samples/*.h5; do
    [ -f "$file" ] && trace=$file && break
done
if [ -z "$trace" ]; then
    model=${KVT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/kvt/models/smollm2.gguf}
    [ -f "$model" ] || skip "there is neither a trace in traces/samples nor a model"
    trace=$scratch/trace.h5
    run "$kvt" capture --model "$model" --max-new 8 --layers 0,14,29 -o "$trace" --prompt \
        "The keeper of the lighthouse wrote the hour of each departure into a blue ledger. On the
third of April it shows eleven boats. Ten of them came back. Which of them did not come back?"
    exits 0
fi
command -v cc >/dev/null 2>&1 || skip "there is no cc"
cd "$scratch" || exit 1

# lost POLICY: its lost mass in the last run
lost() { jq -r ".rows[] | select(.policy == \"$1\") | .lost_mass_mean_frac" "$scratch/out"; }

# C010: at 90 % of the prompt, without sinks and with four.
run "$kvt" replay "$trace" -p window,streaming -b 90% --out sinks --json
exits 0
[ "$(jq -n "$(lost window) > 2 * $(lost streaming)")" = true ] ||
    fail "C010: window loses $(lost window), streaming $(lost streaming)"
[ "$(jq '[.rows[] | select(.policy == "window")][0].attn_kl_mean_nats >
    2 * [.rows[] | select(.policy == "streaming")][0].attn_kl_mean_nats' out)" = true ] ||
    fail "C010: the attention KL does not show it"

run "$kvt" policy new mine
exits 0
build=$(sed -n 's/^ \* Build:  //p' mine.c)
run sh -c "$build"
exits 0
run "$kvt" replay "$trace" -p mine,snapkv:window=16 -b 50%,75% --plugin ./mine.so --out found --json
exits 0
[ "$(jq '[.rows[] | select(.policy == "mine" and .status == "ok")] | length' out)" = 2 ] ||
    fail "the plug-in has no rows of its own: $(jq -c '[.rows[] | [.policy, .status]]' out)"
run "$kvt" replay "$trace" -p mine:windw=3 -b 25% --plugin ./mine.so --out found
exits 2
says err "did you mean 'window'?"
run "$kvt" replay "$trace" -p mine -b 25% --out found
exits 2
says err "mine"

# break NAME SED: the template with one rule broken
break_rule() {
    sed -e "$2" -e "s/\"mine\"/\"$1\"/" mine.c >"$1.c"
    cmp -s mine.c "$1.c" && fail "$1: nothing was broken"
    run sh -c "$(echo "$build" | sed "s/mine\.c/$1.c/; s/mine\.so/$1.so/")"
    exits 0
}

break_rule nan 's|out\[s\] = lane->mark\[s\];|out[s] = 0.0f / 0.0f;|'
run "$kvt" replay "$trace" -p nan,snapkv:window=16 -b 50% --plugin ./nan.so --out found
exits 4
says out "expected a finite number"
says out "snapkv"

break_rule old 's|\.abi = KVT_POLICY_ABI|.abi = 999|'
run "$kvt" replay "$trace" -p old -b 25% --plugin ./old.so --out found
exits 1
says err "built for interface 999"

break_rule snapkv 's|not published|twice|'
run "$kvt" replay "$trace" -p snapkv -b 25% --plugin ./snapkv.so --out found
exits 1
says err "already there"

finish
