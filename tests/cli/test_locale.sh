#!/bin/sh
# A German locale changes no byte of data and no number that is read (C070).
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# The locale is made in the scratch folder where the system has its sources.
command -v localedef >/dev/null || skip "localedef is not here"
localedef -i de_DE -f UTF-8 "$scratch/de_DE.UTF-8" >/dev/null 2>&1
[ -d "$scratch/de_DE.UTF-8" ] || skip "de_DE.UTF-8 cannot be made (package locales)"
LOCPATH=$scratch
export LOCPATH
[ "$(LC_ALL=de_DE.UTF-8 locale decimal_point)" = , ] || skip "the locale was made, but is not used"

# same WORDS...: the same exit status and output in both locales.
same() {
    LC_ALL=C.UTF-8 run "$kvt" "$@"
    cp "$scratch/out" "$scratch/plain"
    first=$status
    LC_ALL=de_DE.UTF-8 run "$kvt" "$@"
    exits "$first"
    return 0
}

same help --json
same help replay
same help --doc policies
sample_trace
same info "$trace"
same info "$trace" --json
same verify "$trace"

# Numbers of the command line, JSON and CSV of a replay. Times are left out: they differ anyway.
for locale in C.UTF-8 de_DE.UTF-8; do
    LC_ALL=$locale run "$kvt" replay "$trace" -p snapkv,streaming -b 12.5%,1/8,64 --json -q \
        --out "$scratch/out-$locale" --csv "$scratch/csv-$locale"
    exits 0
    jq -S .rows "$scratch/out" >"$scratch/rows-$locale"
done
[ -s "$scratch/rows-C.UTF-8" ] || fail "no rows"
cmp -s "$scratch/rows-C.UTF-8" "$scratch/rows-de_DE.UTF-8" || fail "replay: other rows"
for table in "$scratch"/csv-C.UTF-8/*.csv; do
    cmp -s "$table" "$scratch/csv-de_DE.UTF-8/${table##*/}" || fail "${table##*/}: other bytes"
done

finish
