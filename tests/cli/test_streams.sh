#!/bin/sh
# Standard output is data, standard error is talk; a stream that cannot be written is an error; colours
# only where they were asked for; 7 bits where the locale has no more (C064, C065).
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

run "$kvt" doctor
exits 0
silent err
says out "self test"
# Every variable that the code reads is shown.
cp "$scratch/out" "$scratch/first"
(cd "$source_dir" && grep -rhoE 'getenv\("[A-Z_]+"' base compute traces capture replay analyze tui cli) |
    sort -u | sed 's/.*"\(.*\)"/\1/' >"$scratch/names"
[ -s "$scratch/names" ] || fail "no getenv() was found"
while read -r name; do
    grep -qE "^ +$name " "$scratch/first" || fail "doctor does not show $name"
done <"$scratch/names"
run "$kvt" doctor --json
exits 0
silent err
parses
[ "$(jq -r '[.selftest[].ok] | all' "$scratch/out")" = true ] || fail "a self test failed"

# With standard error closed the data still comes.
run sh -c '"$1" help --json 2>&-' sh "$kvt"
exits 0
parses

# A full disk.
if [ -c /dev/full ]; then
    run sh -c '"$1" help >/dev/full' sh "$kvt"
    exits 1
    says err "kvt: standard output: cannot write"
fi
# A pipe whose reader has gone: an error, without words.
run sh -c '{ sleep 0.3; "$1" help; echo "status $?" >&2; } | true' sh "$kvt"
says err "status 1"
grep -q Broken "$scratch/err" && fail "a closed pipe was talked about"

escapes() { grep -q "$(printf '\033')" "$1"; }
for words in "help" "doctor" "policy list"; do
    # shellcheck disable=SC2086 # a verb and its operand
    run "$kvt" $words
    escapes "$scratch/out" && fail "$words: escape sequences in a file"
    # shellcheck disable=SC2086
    NO_COLOR=1 CLICOLOR_FORCE=1 run "$kvt" $words
    escapes "$scratch/out" && fail "$words: escape sequences in spite of NO_COLOR"
    # shellcheck disable=SC2086
    run "$kvt" $words --color never
    escapes "$scratch/out" && fail "$words: escape sequences in spite of --color never"
    for locale in C POSIX no_SUCH.locale; do
        # shellcheck disable=SC2086
        LC_ALL=$locale run "$kvt" $words
        exits 0
        LC_ALL=C grep -q "[^ -~	]" "$scratch/out" && fail "LC_ALL=$locale $words: more than 7 bits"
    done
done

# What shows text of a prompt: German, with letters that a 7-bit locale has not.
german=$source_dir/traces/samples/german-workshop.h5
if [ -f "$german" ]; then
    for words in "show $german --screen lane" "show $german --screen overview" "info $german" \
        "ls $source_dir/traces/samples"; do
        for locale in C no_SUCH.locale; do
            # shellcheck disable=SC2086
            LC_ALL=$locale run "$kvt" $words
            exits 0
            LC_ALL=C grep -q "[^ -~	]" "$scratch/out" &&
                fail "LC_ALL=$locale $words: more than 7 bits, or control characters"
        done
        # shellcheck disable=SC2086
        run "$kvt" $words --ascii
        exits 0
        LC_ALL=C grep -q "[^ -~	]" "$scratch/out" && fail "$words --ascii: more than 7 bits"
    done
    run "$kvt" show "$german" --screen lane
    LC_ALL=C grep -q "[^ -~	]" "$scratch/out" || fail "show in a UTF-8 locale: no letter of German"
else
    echo "there is no traces/samples/german-workshop.h5: text of prompts was not tried"
fi

# An error text is one line, and holds no control characters of what was typed.
run "$kvt" "$(printf 'a\033[31mb\007')"
exits 2
escapes "$scratch/err" && fail "an escape sequence went through an error text"
[ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "an error text has more than one line"

finish
