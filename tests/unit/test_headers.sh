#!/bin/sh
# Each public header compiles alone: as C17 with the compiler of the build and as C++17, -Wpedantic,
# warnings are errors. A header that leans on what another one included before fails here.
#
#   test_headers.sh C-COMPILER
set -u
cd "$(dirname "$0")/../.." || exit 1

cc=${1:-cc}
failed=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

try() { # try COMMAND...: says what failed
    if ! "$@" 2>"$folder/said"; then
        echo "FAILED: $*"
        cat "$folder/said"
        failed=$((failed + 1))
    fi
}

command -v c++ >/dev/null || echo "no C++ compiler: only C is tried"
for header in include/kvt/*.h; do
    name=kvt/${header##*/}
    printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$name" "$name" >"$folder/one.c"
    cp "$folder/one.c" "$folder/one.cc"
    try "$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -I. "$folder/one.c"
    if command -v c++ >/dev/null; then
        try c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -I. "$folder/one.cc"
    fi
done
[ $failed -eq 0 ] && echo "all public headers compile alone"
exit $failed
