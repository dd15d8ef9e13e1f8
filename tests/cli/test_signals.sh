#!/bin/sh
# Ctrl-C and SIGTERM stop a capture or replay within a second, with 130 and 143; nothing half-written
# stays under a final name.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

model=${KVT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/kvt/models/smollm2.gguf}
[ -f "$model" ] || skip "no model (scripts/fetch-model smollm2)"

# stops SIGNAL STATUS
stops() {
    out=$scratch/traces-$1
    # A shell starts background jobs with SIGINT ignored; env puts it back.
    env --default-signal=INT "$kvt" capture --model "$model" \
        --prompts "$source_dir/docs/examples/prompts.jsonl" -o "$out" --progress none \
        >"$scratch/out" 2>"$scratch/err" &
    pid=$!
    sleep 2
    kill -"$1" $pid
    before=$(date +%s%N)
    status=0
    wait $pid || status=$?
    took=$((($(date +%s%N) - before) / 1000000))
    ran="capture, SIG$1"
    checked=$((checked + 1))
    exits "$2"
    # One second, and another one for a machine with other work.
    [ $took -lt 2000 ] || fail "$ran: stopped after $took ms"
    for left in "$out"/.*.part "$out"/*.part; do
        [ -e "$left" ] && fail "$ran: $left was left"
    done
    for trace in "$out"/*.h5; do
        [ -e "$trace" ] || continue
        run "$kvt" info "$trace"
        exits 0
    done
}

stops INT 130
stops TERM 143

finish
