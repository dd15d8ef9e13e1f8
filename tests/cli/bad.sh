# shellcheck shell=sh
# bad.sh - rows of bad input, over lib.sh. Sourced: . bad.sh KVT SOURCE-DIR MAKE-GGUF
#
# Works in a folder of its own with a tiny random model (tiny.gguf). What a row writes belongs into
# the folder new/, which is empty before each row.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# Threads that wait sleep: tests share the processors.
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export OMP_WAIT_POLICY

make_gguf=$3
mkdir "$scratch/work" && cd "$scratch/work" || exit 1
mkdir new
"$make_gguf" tiny.gguf || exit 1

clean() { rm -rf new && mkdir new; }

# Error lines: those of the program, not its notes of what is done.
errors() { grep -v '^kvt: \(done: \|wrote \|no results for this: replaying\)' "$scratch/err"; }

# One line of error, of the program, fit for a terminal, that holds a text.
one_line() { # one_line TEXT
    [ "$(errors | wc -l)" -eq 1 ] || {
        fail "$ran: expected one line of error, got $(errors | wc -l):"
        sed 's/^/    /' "$scratch/err" | head -n 5
    }
    errors | grep -q '^kvt: ' || fail "$ran: the error does not begin with 'kvt: '"
    LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" "$scratch/err" &&
        fail "$ran: a control character in the error"
    [ "$(wc -c <"$scratch/err")" -lt 700 ] || fail "$ran: an error of more than 700 bytes"
    says err "$1"
}

# Below a folder: no temporary file.
no_rest() { # no_rest FOLDER
    [ -d "$1" ] || return 0
    rest=$(find "$1" -name '*.part*' -o -name '*.tmp*' | head -n 1)
    [ -z "$rest" ] || fail "$ran: $rest is left"
}

# bad STATUS TEXT VERB...: refused with that status and line; nothing is written.
bad() {
    want=$1 text=$2
    shift 2
    clean
    run "$kvt" "$@"
    exits "$want"
    one_line "$text"
    [ -z "$(find new -mindepth 1)" ] || fail "$ran: wrote $(find new -mindepth 1 | head -n 1)"
}

# good VERB...: done, without an error.
good() {
    clean
    run "$kvt" "$@"
    exits 0
    [ -z "$(errors)" ] || fail "$ran: $(errors | head -n 1)"
    no_rest new
}

# tiny NAME OPTION...: a trace NAME of a short prompt.
tiny() {
    name=$1
    shift
    "$kvt" capture --model tiny.gguf -q -o "$name" --prompt \
        "Once upon a time there was a cat that went to the sea and back to the house." "$@" \
        >/dev/null || fail "the trace $name could not be made"
}
