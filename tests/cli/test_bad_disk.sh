#!/bin/sh
# No room on disk (C053), a folder or disk that cannot be written, files that may not grow, standard
# output that is full, closed or a broken pipe: one line, status 1, nothing half-written.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

# In builds with a leak checker: HDF5 1.10 loses what it holds of a file that it could not flush.
echo "leak:libhdf5" >suppressions
LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=$PWD/suppressions:print_suppressions=0
export LSAN_OPTIONS

tiny a.h5 --max-new 6
"$kvt" capture --model tiny.gguf --raw --prompt "a cat and a dog" -o small.h5 --max-new 4 -q >/dev/null
"$kvt" replay a.h5 -p h2o,tova -b 8 --out results -q >/dev/null || fail "a.h5 was not replayed"
capture() { run "$kvt" capture --model tiny.gguf --prompt "a cat and a dog" --max-new 64 "$@"; }
replay() { run "$kvt" replay a.h5 -p h2o,tova,window -b 8 "$@"; }

# whole FOLDER: what lies there is whole, and nothing is left of what is not.
whole() {
    no_rest "$1"
    [ -z "$(find "$1" -name '*.h5')" ] || "$kvt" verify "$1" >"$scratch/verify" ||
        fail "$ran: $(grep -m 1 FAILED "$scratch/verify")"
}

# ---- a small disk

mkdir disk
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=200k tmpfs disk 2>/dev/null; then
    trap 'umount "$scratch/work/disk" 2>/dev/null; rm -rf "$scratch"' EXIT
    # Too large by far: told before the model runs.
    run "$kvt" capture --model tiny.gguf --prompt "$(head -c 2000 /dev/zero | tr '\0' x)" -o disk/a.h5
    exits 1
    one_line "no room: needs"
    [ -z "$(ls -A disk)" ] || fail "$ran: $(ls -A disk) is left"
    # Room for the datasets that must be there, but not for all.
    capture -o disk/a.h5
    exits 1
    one_line "No space left on device"
    [ -z "$(ls -A disk)" ] || fail "$ran: $(ls -A disk) is left"
    # In a set those that fit are kept; a failed one does not disturb the next.
    {
        printf '{"id": "a", "prompt": "one two three", "max_new": 4}\n'
        printf '{"id": "b", "prompt": "%s"}\n' "$(head -c 2000 /dev/zero | tr '\0' x)"
        printf '{"id": "c", "prompt": "q", "max_new": 1}\n'
    } >set.jsonl
    run "$kvt" capture --model tiny.gguf --prompts set.jsonl -o disk/set
    exits 4
    says err "of 3 prompts failed, the rest is written"
    [ -n "$(find disk/set -name '*.h5')" ] || fail "$ran: nothing was kept"
    whole disk/set
    rm -rf disk/set
    # Results: the table comes, the status tells.
    head -c 110000 /dev/zero >disk/ballast
    replay --out disk/results --json
    exits 1
    one_line "results are not written: 'disk/results/"
    says err "No space left on device"
    parses
    [ "$(jq '[.rows[] | select(.policy == "tova")] | length' "$scratch/out")" -eq 1 ] || fail "$ran: no row"
    whole disk/results
    rm -rf disk/results
    # Tables.
    head -c 200000 /dev/zero >disk/ballast 2>/dev/null
    run "$kvt" report results --csv disk/tables
    exits 1
    one_line "No space left on device"
    no_rest disk
    [ -z "$(find disk/tables -size 0)" ] || fail "$ran: an empty table is left"
    rm -rf disk/*
    # A read-only disk: a capture is refused before it runs, a replay still shows its table.
    mount -o remount,ro disk
    capture -o disk/a.h5
    exits 1
    one_line "Read-only file system"
    capture -o disk/a.h5 --plan
    exits 0
    run "$kvt" capture --model tiny.gguf --prompts set.jsonl -o disk/set
    exits 1
    one_line "Read-only file system"
    replay --out disk/results --json
    exits 0
    one_line "results are not written"
    says err "Read-only file system"
    parses
    run "$kvt" report results --csv disk/tables
    exits 1
    one_line "Read-only file system"
    # Traces on a read-only disk: results would lie beside them.
    mount -o remount,rw disk
    cp small.h5 disk/a.h5
    mount -o remount,ro disk
    run "$kvt" replay disk/a.h5 -p h2o -b 8
    exits 0
    one_line "results are not written"
    run "$kvt" verify disk/a.h5
    exits 0
    umount disk
else
    echo "no small disk (needs root and mount): full and read-only disks are not tried"
fi
if [ "$(id -u)" -ne 0 ]; then
    mkdir closed && chmod 500 closed
    capture -o closed/a.h5
    exits 1
    one_line "Permission denied"
fi

# ---- files that may not grow (ulimit -f counts 512 or 1,024 bytes)

limited() { # limited COMMAND...: with files of at most 20 or 40 KiB
    checked=$((checked + 1))
    ran="with a limit of size: $*"
    status=0
    (
        ulimit -f 40
        "$@"
    ) >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
}
clean
limited "$kvt" capture --model tiny.gguf --prompt "a cat" -o new/a.h5 --max-new 4
exits 1
one_line "File too large"
[ -z "$(ls -A new)" ] || fail "$ran: $(ls -A new) is left"
clean
limited "$kvt" replay a.h5 -p h2o,tova,window -b 8,16,24,32 --out new
exits 1
one_line "File too large"
whole new

# ---- standard output

into() { # into REDIRECTION COMMAND...
    checked=$((checked + 1))
    ran="$* $1"
    redirect=$1
    shift
    status=0
    : >"$scratch/out"
    case $redirect in
    full) "$@" >/dev/full 2>"$scratch/err" </dev/null || status=$? ;;
    closed) "$@" >&- 2>"$scratch/err" </dev/null || status=$? ;;
    all-closed)
        : >"$scratch/err"
        "$@" >&- 2>&- <&- || status=$?
        ;;
    esac
}
[ -c /dev/full ] || skip "there is no /dev/full"
for how in full closed; do
    for words in "replay a.h5 -p h2o -b 8 --out new --json" "replay a.h5 -p h2o -b 8 --out new" \
        "report results" "report results --csv -" "info a.h5" "ls ." "verify a.h5" "policy list" \
        "capture --model tiny.gguf --prompt cat --max-new 1 -o new/a.h5" help; do
        clean
        # shellcheck disable=SC2086 # a verb and its words
        into $how "$kvt" $words
        exits 1
        one_line "standard output"
        whole new
    done
done
# A pipe whose reader has gone: status 1, without words.
for words in "report results --csv -" "policy list"; do
    # shellcheck disable=SC2086 # a verb and its words
    run sh -c '{ sleep 0.3; "$@"; echo "status $?" >&2; } | true' sh "$kvt" $words
    says err "status 1"
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$ran: $(head -n 1 "$scratch/err")"
done
# Nobody listens at all: what is written is whole all the same. A trace must not get the number of
# a closed stream, or messages would land in it.
for level in none plain; do
    clean
    into all-closed "$kvt" capture --model tiny.gguf --prompt cat --max-new 40 -o new/a.h5 -v -v --progress $level
    exits 1
    whole new
    [ -f new/a.h5 ] || fail "$ran: the trace is not there"
    into all-closed "$kvt" replay a.h5 edit.h5 -p h2o,tova -b 8 --out new/results -v -v --progress plain
    [ "$status" -ne 0 ] || fail "$ran: status 0"
    whole new
    [ "$(find new/results -name '*.kvt-results.h5' | wc -l)" -ge 2 ] || fail "$ran: results are missing"
done

finish
