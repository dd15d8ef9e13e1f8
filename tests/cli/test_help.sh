#!/bin/sh
# Help, unknown words, manual pages and completions of every verb.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

for verb in $(verbs); do
    run "$kvt" "$verb" --help
    exits 0
    silent err
    says out "usage: kvt $verb"
    says out "--json"
    cp "$scratch/out" "$scratch/first"
    run "$kvt" help "$verb"
    cmp -s "$scratch/out" "$scratch/first" || fail "kvt help $verb differs from kvt $verb --help"
    run "$kvt" "$verb" -h
    cmp -s "$scratch/out" "$scratch/first" || fail "kvt $verb -h differs from --help"
    # The usage and examples are commands: they stay on one line.
    [ "$(sed -e '/^examples$/,$d' -e '/^usage: /d' "$scratch/first" | wc -L)" -le 80 ] ||
        fail "$verb: a line of the help is longer than 80"

    run "$kvt" "$verb" --no-such-thing-at-all
    exits 2
    silent out
    says err "kvt: no option '--no-such-thing-at-all'"
    run "$kvt" "$verb" --qiet
    exits 2
    says err "did you mean '--quiet'"
    run "$kvt" "$verb" --verb # an abbreviation
    exits 2
    says err "did you mean '--verbose'"

    run "$kvt" help --json "$verb"
    exits 0
    parses
    # No name twice, in the verb's table and the common one together.
    twice=$(jq -r '.verbs[0].options[].name, .common[].name' "$scratch/out" | sort | uniq -d)
    [ -z "$twice" ] || fail "$verb: option --$twice stands in two tables"
    twice=$(jq -r '(.verbs[0].options[], .common[]) | .letter // empty' "$scratch/out" | sort | uniq -d)
    [ -z "$twice" ] || fail "$verb: letter -$twice stands in two tables"
done

# Every default is a value that its own option takes: giving it changes nothing but the words.
"$kvt" help --json | jq -r '.verbs[] | .name as $v | .options[] | select(.default) |
    [$v, .name, .default] | @tsv' >"$scratch/defaults"
while IFS='	' read -r verb name value; do
    run "$kvt" "$verb" "--$name=$value" --help
    exits 0
done <"$scratch/defaults"

run "$kvt"
exits 2
silent out
says err "usage: kvt VERB"
run "$kvt" help
exits 0
says out "usage: kvt VERB"
run "$kvt" --help
exits 0
silent err
run "$kvt" hepl
exits 2
silent out
says err "kvt: no verb 'hepl' (did you mean 'help'?)"
run "$kvt" no-verb-is-near-this
exits 2
says err "see: kvt help"
run "$kvt" help hepl
exits 2
run "$kvt" help a b
exits 2
says err "help takes at most 1 operand, got 2"
run "$kvt" --version
exits 0
says out "kvt "
says out "hdf5"
run "$kvt" --version --json
exits 0
parses

finish
