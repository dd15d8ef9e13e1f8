#!/bin/sh
# Stopped in the middle: Ctrl-C and SIGTERM end within a second with 130 and 143 and keep what is
# finished; kill -9 at any moment leaves nothing broken under a final name; the same command again
# goes on and gives the same traces and results.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

"$make_gguf" model.gguf layers=3 hidden=128 heads=4 kv_heads=2 dim=32 ff=512 context=16384 || exit 1
words() { # words SEED N: that many words, the same for a seed
    awk -v seed="$1" -v n="$2" 'BEGIN { srand(seed)
        for (i = 0; i < n; i++) printf "%s%c%c%c", i ? " " : "", 97 + rand() * 26, 97 + rand() * 26, 97 + rand() * 26 }'
}
: >set.jsonl
for id in a b c d e f; do
    printf '{"id": "%s", "prompt": "%s"}\n' $id "$(words $id$id 180)" >>set.jsonl
done
words 1 3500 >long.txt

capture() { # capture OUT: the set; "$@" after it replaces this shell
    set -- "$kvt" capture --model model.gguf --prompts set.jsonl -o "$1" --max-new 12 -q
    exec "$@" >/dev/null
}
replay() { # replay OUT
    set -- "$kvt" replay full/*.h5 -p h2o,tova,snapkv,streaming -b 10%,25%,50% --out "$1" -q --json
    exec "$@"
}
digests() { # digests FOLDER: of its traces
    "$kvt" ls "$1" --json | jq -r '.traces[] | .trace_id + " " + .digest'
}

# ---- what comes out undisturbed

(capture full) || fail "the set could not be captured"
(replay full-results >rows.json) || fail "the traces could not be replayed"
digests full >digest-list
[ "$(wc -l <digest-list)" -eq 6 ] || fail "expected 6 traces, got $(wc -l <digest-list)"
jq -S .rows rows.json >rows

same_traces() { # same_traces FOLDER
    digests "$1" | cmp -s - digest-list || fail "$ran: other traces than undisturbed ones"
}
same_results() { # same_results FOLDER JSON
    jq -S .rows "$2" | cmp -s - rows || fail "$ran: other rows than undisturbed ones"
    diff -rq -x '.*' "$1" full-results >/dev/null ||
        fail "$ran: $(diff -rq -x '.*' "$1" full-results | head -n 1)"
}
# Whatever lies under a final name is whole.
whole() { # whole FOLDER
    [ -d "$1" ] && [ -n "$(find "$1" -name '[!.]*.h5')" ] || return 0
    "$kvt" verify "$1" >"$scratch/verify" 2>&1 || fail "$ran: a broken file: $(grep -m 1 FAILED "$scratch/verify")"
}

# ---- signals

# stop SIGNAL STATUS SECONDS FUNCTION FOLDER: starts it, and stops it after that time.
stop() {
    ran="$4 into $5, SIG$1 after $3 s"
    checked=$((checked + 1))
    # A background job of a shell has SIGINT ignored; env puts it back.
    (
        kvt_path=$kvt
        kvt() { exec env --default-signal=INT "$kvt_path" "$@"; }
        case $4 in
        capture) kvt capture --model model.gguf --prompts set.jsonl -o "$5" --max-new 12 -q ;;
        long) kvt capture --model model.gguf --prompt-file long.txt -o "$5/long.h5" --max-new 1 -q ;;
        replay) kvt replay full/*.h5 -p h2o,tova,snapkv,streaming -b 10%,25%,50% --out "$5" -q --json ;;
        esac
    ) >"$scratch/out" 2>"$scratch/err" &
    pid=$!
    sleep "$3"
    kill -"$1" $pid 2>/dev/null
    from=$(date +%s%N)
    status=0
    wait $pid 2>/dev/null || status=$?
    took=$((($(date +%s%N) - from) / 1000000))
    [ "$1" = KILL ] && return
    # Done before the signal came: then there is nothing to see.
    [ $status -eq 0 ] && return
    exits "$2"
    one_line "stopped"
    # One second, and another one for a machine with other work.
    [ $took -lt 2000 ] || fail "$ran: stopped after $took ms"
    no_rest "$5"
}

mkdir one
stop INT 130 1 long one
[ "$status" -eq 130 ] || fail "$ran: it was not stopped"
[ -z "$(ls -A one)" ] || fail "$ran: $(ls -A one) is there"
stop TERM 143 1 long one
[ -z "$(ls -A one)" ] || fail "$ran: $(ls -A one) is there"
for after in 0.4 0.9 1.4; do
    stop INT 130 $after capture part
    whole part
done
(capture part) || fail "the set could not be finished after Ctrl-C"
same_traces part
for after in 0.2 0.5 0.8; do
    stop INT 130 $after replay part-results
    whole part-results
done
(replay part-results >again.json) || fail "the replay could not be finished after Ctrl-C"
same_results part-results again.json

# ---- kill -9

rm -rf part part-results
for after in 0.3 0.55 0.75 1.0 1.3; do
    stop KILL 137 $after capture part
    whole part
done
(capture part) || fail "the set could not be finished after kill -9"
same_traces part
for after in 0.1 0.25 0.4 0.6 0.8; do
    stop KILL 137 $after replay part-results
    whole part-results
done
(replay part-results >again.json) || fail "the replay could not be finished after kill -9"
same_results part-results again.json

finish
