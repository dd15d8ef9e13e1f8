#!/bin/sh
# scripts/check-layers finds what it must find: small trees, each with one fault, and one without.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# tree FILE TEXT: a tree with our rules and one file.
tree() {
    rm -rf "$folder/t"
    mkdir -p "$folder/t/scripts" "$folder/t/$(dirname "$1")"
    cp "$root/scripts/layers.txt" "$folder/t/scripts/"
    printf '%b\n' "$2" >"$folder/t/$1"
}

# refuses WHAT FILE TEXT: the check fails, and its line holds WHAT.
refuses() {
    tree "$2" "$3"
    if said=$("$root/scripts/check-layers" "$folder/t"); then
        echo "FAILED: nothing was found in: $3"
        failed=$((failed + 1))
    elif ! printf '%s' "$said" | grep -qF "$1"; then
        echo "FAILED: expected '$1', got: $said"
        failed=$((failed + 1))
    fi
}

accepts() {
    tree "$1" "$2"
    if ! said=$("$root/scripts/check-layers" "$folder/t"); then
        echo "FAILED: $said"
        failed=$((failed + 1))
    fi
}

refuses 'base/ may not use traces/' base/a.c '#include "traces/h5.h"'
refuses 'capture/ may not use replay/' capture/a.c '#include "kvt/policy.h"'
refuses 'replay/ may not use capture/' replay/a.c '#include "kvt/capture.h"'
refuses 'belongs to no folder' base/a.c '#include "kvt/nobody.h"'
refuses 'is private to replay/' analyze/a.c '#include "replay/pass_priv.h"'
refuses '<hdf5.h> may be included only by traces/' replay/a.c '#include <hdf5.h>'
refuses '<zmq.h> is not listed' base/a.c '#include <zmq.h>'
refuses 'kvt/ headers only' replay/policies/a.c '#include "base/select.h"'
refuses 'is not listed in scripts/layers.txt' extra/a.c 'int x;'
refuses 'strcpy() is banned' cli/a.c 'void f(char *a) { strcpy(a, "x"); }'
refuses 'malloc() outside base/' traces/a.c 'void *f(void) { return malloc(3); }'
refuses 'printf() in a library folder' replay/a.c 'void f(void) { printf("x"); }'
refuses 'stderr in a library folder' compute/a.c 'void f(void) { g(stderr); }'
refuses 'a TODO without an issue number' base/a.c '/* TODO later */'
refuses 'folder/a.h' base/b.c '#include "a.h"'
accepts replay/policies/a.c '#include "kvt/policy.h"\n#include <string.h>\nvoid f(void) { kvt_free(0); }'
accepts traces/a.c '/* malloc(3) and printf() in a comment */\nconst char *s = "strcpy(";\n#include <hdf5.h>'
accepts base/a.c '/* TODO (#12) */\nvoid *f(void) { return malloc(3); }'
accepts traces/a.c '#include "traces/b_priv.h"'

[ $failed -eq 0 ] && echo "the layer check finds what it must"
exit $failed
