#!/bin/sh
# Manual pages pass scdoc and mandoc; completion scripts load and complete.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

for page in $("$kvt" __complete man); do
    run "$kvt" help --man "$page"
    exits 0
    silent err
    cp "$scratch/out" "$scratch/page.scd"
    command -v scdoc >/dev/null || continue
    scdoc <"$scratch/page.scd" >"$scratch/page.roff" 2>"$scratch/said" || {
        fail "scdoc refuses $page: $(head -n 1 "$scratch/said")"
        continue
    }
    command -v mandoc >/dev/null || continue
    # scdoc itself writes empty paragraphs, long lines and a title in lower case.
    mandoc -T lint "$scratch/page.roff" 2>&1 |
        grep -v -e 'skipping paragraph macro' -e 'input text line longer' -e 'lower case character' \
            >"$scratch/said" && fail "mandoc on $page: $(head -n 1 "$scratch/said")"
    [ "$(mandoc -T ascii "$scratch/page.roff" | wc -l)" -gt 10 ] || fail "$page renders to nothing"
done
run "$kvt" help --man no-such-page
exits 2
for part in datasets attributes probes results policies variants metrics columns; do
    run "$kvt" help --doc $part
    exits 0
    [ -s "$scratch/out" ] || fail "the part $part of the documents is empty"
done

# complete WORDS...: what bash offers for the last word.
cat >"$scratch/complete.bash" <<'END'
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_kvt
printf '%s\n' "${COMPREPLY[@]}"
END
"$kvt" completion bash >"$scratch/kvt.bash"
mkdir "$scratch/bin"
ln -s "$kvt" "$scratch/bin/kvt"
offers() { # offers WANTED WORDS...
    wanted=$1
    shift
    PATH="$scratch/bin:$PATH" run bash "$scratch/complete.bash" "$scratch/kvt.bash" "$@"
    exits 0
    grep -qx -- "$wanted" "$scratch/out" || fail "bash does not offer '$wanted' behind '$*'"
}
offers doctor kvt doc
offers --json kvt doctor --js
offers never kvt doctor --color n
offers zsh kvt completion z
offers help kvt help he
offers snapkv kvt replay -p snap
offers ndcg kvt replay --metrics nd
offers kvpop kvt train kvp
offers show kvt train s
offers lookaheadkv=lookaheadkv: kvt capture --probe look
# Operands that are traces: .h5 files and folders, nothing else.
mkdir "$scratch/place" "$scratch/place/set"
touch "$scratch/place/a.h5" "$scratch/place/b.csv"
cd "$scratch/place" || exit 1
offers a.h5 kvt info ''
offers set kvt replay ''
offers a.h5 kvt train kvpop ''
grep -qx b.csv "$scratch/out" && fail "bash offers b.csv as a trace"
cd "$source_dir" || exit 1
for shell in zsh fish; do
    "$kvt" completion $shell >"$scratch/kvt.$shell"
    [ -s "$scratch/kvt.$shell" ] || fail "the script for $shell is empty"
    command -v $shell >/dev/null || { echo "$shell is not here: its script was not loaded"; continue; }
    run $shell -n "$scratch/kvt.$shell"
    exits 0
done
run "$kvt" completion tcsh
exits 2

finish
