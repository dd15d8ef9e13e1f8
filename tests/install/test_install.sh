#!/bin/sh
# Installs into a scratch prefix and uses nothing but that: a small program by pkg-config, shared and
# static; the program with its manual pages, completions and samples; a policy that `kvt policy new`
# wrote, built by its own build line and loaded with --plugin.
#
#   test_install.sh CMAKE BUILD-DIR SOURCE-DIR CC
set -u
cmake=$1 build=$2 source=$3 cc=$4
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
failed=0

fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

"$cmake" --install "$build" --prefix "$prefix" >"$scratch/log" 2>&1 || {
    cat "$scratch/log"
    exit 1
}
libdir=$(dirname "$(find "$prefix" -name 'libkvt.so' | head -n 1)")
for file in bin/kvt include/kvt/policy.h include/traces/datasets.def share/bash-completion/completions/kvt; do
    [ -e "$prefix/$file" ] || fail "$file was not installed"
done
[ -e "$libdir/libkvt.a" ] || fail "libkvt.a was not installed"
[ -e "$prefix/include/cli" ] && fail "headers that are not public were installed"
command -v scdoc >/dev/null && { [ -e "$prefix/share/man/man1/kvt.1" ] || fail "kvt(1) was not installed"; }

# ---- a program -------------------------------------------------------------------------------
cp "$source/tests/install/five.c" "$scratch/five.c"
# The prefix of kvt.pc is that of the configuration; a person who moves the tree says so.
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
relocated="--define-variable=prefix=$prefix"
want="snapkv kvt-trace 1.1"
# shellcheck disable=SC2046 # flags are words
"$cc" -std=c17 -Wall -Werror -o "$scratch/shared" "$scratch/five.c" \
    $(pkg-config "$relocated" --cflags --libs kvt) "-Wl,-rpath,$libdir" || fail "it does not build with libkvt.so"
got=$("$scratch/shared") || fail "the program with libkvt.so fails"
[ "$got" = "$want" ] || fail "libkvt.so: expected '$want', got '$got'"

# shellcheck disable=SC2046
"$cc" -std=c17 -o "$scratch/static" "$scratch/five.c" $(pkg-config "$relocated" --cflags kvt) \
    "$libdir/libkvt.a" $(pkg-config "$relocated" --static --libs-only-other --libs kvt | sed 's/-lkvt//') ||
    fail "it does not build with libkvt.a"
got=$("$scratch/static") || fail "the program with libkvt.a fails"
[ "$got" = "$want" ] || fail "libkvt.a: expected '$want', got '$got'"

# Headers and library hold what trains and probes, too.
cp "$source/tests/install/looks.c" "$scratch/looks.c"
# shellcheck disable=SC2046
"$cc" -std=c17 -Wall -Werror -o "$scratch/looks" "$scratch/looks.c" \
    $(pkg-config "$relocated" --cflags --libs kvt) "-Wl,-rpath,$libdir" || fail "looks.c does not build with libkvt.so"
got=$(cd "$scratch" && "$scratch/looks") || fail "looks.c with libkvt.so fails"
[ "$got" = "adapter named" ] || fail "looks.c: expected 'adapter named', got '$got'"

# Every function that a public header declares is there.
nm -D --defined-only "$libdir/libkvt.so" | awk '{print $3}' | sort -u >"$scratch/there"
cat "$prefix"/include/kvt/*.h | tr '\n' ' ' | grep -o 'KVT_API [^;{]*;' |
    sed -nE 's/^[^(]*[ *](kvt_[a-z_0-9]+) ?\(.*/\1/p' | sort -u >"$scratch/declared"
[ "$(wc -l <"$scratch/declared")" -gt 100 ] || fail "the headers declare almost nothing"
missing=$(comm -23 "$scratch/declared" "$scratch/there" | head -n 3)
[ -z "$missing" ] || fail "declared, but not in libkvt.so: $missing"

# Only what is marked KVT_API leaves the library.
leaked=$(nm -D --defined-only "$libdir/libkvt.so" | awk '$2 ~ /[TDBR]/ {print $3}' | grep -v -e '^kvt_' -e '^_' -e '^\.gomp_' | head -n 3)
[ -z "$leaked" ] || fail "libkvt.so shows: $leaked"

# ---- a plug-in -------------------------------------------------------------------------------
trace=$(find "$source/traces/samples" -name '*.h5' | sort | head -n 1)
if [ -n "$trace" ]; then
    cd "$scratch" || exit 1
    "$prefix/bin/kvt" policy new mine || fail "kvt policy new mine"
    # The build line stands in the template: `cc ... mine.c`.
    line=$(grep -o 'cc .*mine\.c.*' mine.c | head -n 1)
    [ -n "$line" ] || fail "the template has no build line"
    sh -c "$(printf '%s' "$line" | sed "s#^cc #$cc -I$prefix/include #")" || fail "the build line fails: $line"
    "$prefix/bin/kvt" replay "$trace" --plugin ./mine.so -p mine,snapkv -b 25% --out results >table 2>said || {
        fail "replay with --plugin"
        cat said
    }
    grep -q '^mine ' table || fail "mine is not in the table"
    grep -q '^snapkv ' table || fail "snapkv is not in the table"
else
    echo "there is no trace in traces/samples: the plug-in was not tried"
fi

[ $failed -eq 0 ] && echo "the installed tree is whole"
exit $failed
