# shellcheck shell=sh
# lib.sh - what the tests of the program share. Sourced: . lib.sh KVT SOURCE-DIR
#
# A test calls the checks below and ends with `finish`. A check that fails says the command, what was
# expected and what came; the test goes on.

kvt=$1
source_dir=$2
failed=0
checked=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# Nothing of the caller's terminal or taste.
unset NO_COLOR CLICOLOR_FORCE FORCE_COLOR PAGER COLUMNS
LC_ALL=C.UTF-8
TERM=xterm
export LC_ALL TERM

fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# run COMMAND...: its output in $scratch/out and $scratch/err, its exit status in $status.
run() {
    status=0
    ran=$*
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    checked=$((checked + 1))
}

exits() { # exits STATUS
    [ "$status" -eq "$1" ] || {
        fail "$ran: expected exit status $1, got $status"
        sed 's/^/    /' "$scratch/err" | head -n 3
    }
}

says() { # says out|err TEXT: the stream holds that text
    grep -qF -- "$2" "$scratch/$1" || {
        fail "$ran: expected '$2' on $1, got:"
        sed 's/^/    /' "$scratch/$1" | head -n 5
    }
}

silent() { # silent out|err
    [ -s "$scratch/$1" ] && {
        fail "$ran: expected nothing on $1, got:"
        sed 's/^/    /' "$scratch/$1" | head -n 5
    }
    return 0
}

parses() { # parses: out is one JSON value with a schema
    jq -e 'has("schema")' "$scratch/out" >/dev/null 2>&1 || {
        fail "$ran: expected JSON with a schema, got:"
        sed 's/^/    /' "$scratch/out" | head -n 3
    }
}

skip() { # skip REASON
    echo "skipped: $*"
    exit 77
}

finish() {
    echo "$checked commands, $failed failures"
    [ "$failed" -eq 0 ]
    exit
}

verbs() { "$kvt" __complete verb; }

# The first sample trace, or a skip: most verbs look at one.
sample_trace() {
    for trace in "$source_dir"/traces/samples/*.h5; do
        [ -f "$trace" ] && return
    done
    skip "there is no trace in traces/samples"
}
