#!/bin/sh
# Model files, prompts and options that kvt capture must refuse: the model is not there, cut, of
# another architecture or type (C021-C028, C035); the prompt is empty, not UTF-8, longer than the
# context (C046, C081).
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

# model STATUS TEXT FILE
model() { bad "$1" "$2" capture --model "$3" --prompt "a cat" -o new/a.h5 --max-new 2; }

# ---- model files

size=$(wc -c <tiny.gguf)
model 1 "cannot open 'none.gguf'" none.gguf
model 1 "holds GGUF files: give one of them" .
for n in 0 3 4 12 23 24 100 1000; do # magic, version, counts, keys
    head -c $n tiny.gguf >cut.gguf
    model 1 "truncated" cut.gguf
done
for part in 4 3 2; do
    head -c $((size - size / part)) tiny.gguf >cut.gguf
    model 1 "needs" cut.gguf
    says err "'cut.gguf': truncated: tensor '"
done
head -c $((size - 1)) tiny.gguf >cut.gguf
model 1 "truncated: tensor '" cut.gguf
printf 'not a model, but a text of some length' >text.gguf
model 1 "no GGUF file" text.gguf
# Version bytes 00 00 00 03 (C025), and versions that are none of ours.
cp tiny.gguf other.gguf
printf '\000\000\000\003' | dd of=other.gguf bs=1 seek=4 conv=notrunc status=none
model 1 "big-endian" other.gguf
printf '\001\000\000\000' | dd of=other.gguf bs=1 seek=4 conv=notrunc status=none
model 1 "version 1" other.gguf
printf '\004\000\000\000' | dd of=other.gguf bs=1 seek=4 conv=notrunc status=none
model 1 "version 4" other.gguf
# Counts of 2^63 (C024): refused at once.
cp tiny.gguf other.gguf
printf '\000\000\000\000\000\000\000\200' | dd of=other.gguf bs=1 seek=8 conv=notrunc status=none
model 1 "'other.gguf'" other.gguf
for arch in qwen3moe rwkv7; do
    "$make_gguf" arch.gguf arch=$arch
    model 1 "architecture $arch is not supported" arch.gguf
    grep -q truncated "$scratch/err" && fail "a whole file is called truncated (C027)"
done
"$make_gguf" type.gguf type=31
model 1 "type 31" type.gguf
"$make_gguf" type.gguf type=99
model 1 "type 99" type.gguf
"$make_gguf" drop.gguf drop=blk.1.attn_q.weight
model 1 "tensor 'blk.1.attn_q.weight' is missing" drop.gguf
"$make_gguf" words.gguf vocabulary=0
model 1 "tokenizer.ggml.model" words.gguf
# Rows of 48 weights are no whole blocks of 32 (C035).
"$make_gguf" rows.gguf type=2
model 1 "multiple of 32" rows.gguf

# ---- prompts

prompt() { # prompt STATUS TEXT OPTION...
    want=$1 text=$2
    shift 2
    bad "$want" "$text" capture --model tiny.gguf -o new/a.h5 --max-new 2 "$@"
}
prompt 2 "the prompt is empty" --prompt ""
prompt 2 "the prompt is empty" --prompt "" --raw
: >empty.txt
prompt 2 "the prompt is empty" --prompt-file empty.txt
prompt 2 "the prompt is empty" --prompt-file - # standard input is /dev/null
prompt 1 "not UTF-8" --prompt "$(printf 'a\377b')"
printf 'abc\377\376' >bad.txt
prompt 1 "not UTF-8" --prompt-file bad.txt
printf 'abc\355\240\200' >bad.txt # half of a surrogate pair
prompt 1 "not UTF-8" --prompt-file bad.txt
printf 'abc\360\237\246' >bad.txt # a character cut short
prompt 1 "not UTF-8" --prompt-file bad.txt
printf 'a\000b' >nul.txt
prompt 1 "'nul.txt' is no text" --prompt-file nul.txt
prompt 1 "cannot open 'none.txt'" --prompt-file none.txt
prompt 1 "Is a directory" --prompt-file new
prompt 1 "the response" --prompt a --response bad.txt
"$make_gguf" short.gguf context=16
bad 2 "tokens, the model's context 16" capture --model short.gguf --prompt "a cat" -o new/a.h5
# Endless letters (C046): an answer, not a crash.
head -c 100000 /dev/zero | tr '\0' A >long.txt
prompt 2 "the model's context 4096" --prompt-file long.txt
head -c 100000 /dev/zero | tr '\0' ' ' >long.txt
prompt 2 "the model's context 4096" --prompt-file long.txt

# ---- options

prompt 2 "did you mean '--level'" --prompt a --levle full
prompt 2 "did you mean '--model'" --prompt a --mod x
prompt 2 "did you mean 'summary'" --prompt a --level sumary
prompt 2 "did you mean chatml" --prompt a --chat chatmll
prompt 2 "no device 'gpu'" --prompt a --device gpu
prompt 2 "is not one of 0 to 1" --prompt a --layers 0,7
prompt 2 "is not a list" --prompt a --layers 1-0
prompt 2 "from 0 to" --prompt a --temperature nan
prompt 2 "leaves no token" --prompt a --top-p 0
prompt 2 "is not a size" --prompt a --rows-limit 1X
prompt 2 "goes with --raw" --prompt a --parse-special
prompt 2 "takes no operands" --prompt a more
prompt 2 "expected one of --prompt" --prompt a --prompt-file empty.txt
bad 2 "expected one of --prompt" capture --model tiny.gguf -o new/a.h5
bad 2 "expected --model" capture --prompt a -o new/a.h5
bad 2 "expected -o OUT" capture --model tiny.gguf --prompt a
bad 2 "cannot be written to a pipe" capture --model tiny.gguf --prompt a -o -
bad 1 "No such file" capture --model tiny.gguf --prompt a -o new/no/a.h5
bad 2 "is a folder" capture --model tiny.gguf --prompt a -o new

# ---- what is there already stays

tiny a.h5 --max-new 2
cp a.h5 was.h5
bad 2 "of another prompt, model or options" capture --model tiny.gguf --prompt b -o a.h5
cp tiny.gguf model.gguf
bad 1 "is there and no whole trace" capture --model tiny.gguf --prompt b -o model.gguf
{ cmp -s a.h5 was.h5 && cmp -s model.gguf tiny.gguf; } || fail "a file was changed"
if mknod device c 1 3 2>/dev/null; then # like /dev/null, which a rename would replace
    bad 2 "no regular file" capture --model tiny.gguf --prompt b -o device --force
    [ -c device ] || fail "a device was replaced by a trace"
fi

# ---- sets

set_of() { # set_of STATUS TEXT LINE...: a set of these lines
    want=$1 text=$2
    shift 2
    printf '%s\n' "$@" >set.jsonl
    bad "$want" "$text" capture --model tiny.gguf --prompts set.jsonl -o new --max-new 2
}
one='{"id": "a", "prompt": "one"}'
set_of 1 "set.jsonl:2: JSON" "$one" '{"id": "b" "prompt": "two"}'
set_of 2 "set.jsonl:2: 'id': 'a' is that of line 1" "$one" "$one"
set_of 2 "set.jsonl:1: 'id'" '{"id": "../a", "prompt": "one"}'
set_of 2 "set.jsonl:1: 'id'" '{"id": ".", "prompt": "one"}'
set_of 1 "set.jsonl:1: 'id' is missing" '{"prompt": "one"}'
set_of 2 "did you mean 'prompt'" '{"id": "a", "promt": "one"}'
set_of 1 "set.jsonl:1: JSON" '{"id": "a", "prompt": "\ud800"}'
set_of 1 "set.jsonl:1: not UTF-8" "$(printf '{"id": "a", "prompt": "x\377"}')"
set_of 1 "set.jsonl:1: expected a JSON object" '[1, 2]'
set_of 2 "the prompt is empty" "$one" '{"id": "b", "prompt": ""}'
set_of 2 "there are no prompts" ""
bad 1 "cannot open 'none.jsonl'" capture --model tiny.gguf --prompts none.jsonl -o new
# CRLF, blank lines, no newline at the end; a line of 1,000,000 characters (C081).
printf '\r\n%s\r\n\n{"id": "b", "prompt": "two"}' "$one" >set.jsonl
good capture --model tiny.gguf --prompts set.jsonl -o new --max-new 2
{ [ -f new/a.h5 ] && [ -f new/b.h5 ]; } || fail "a set with CRLF: not every trace is there"
{
    printf '{"id": "long", "prompt": "'
    head -c 1000000 /dev/zero | tr '\0' x
    printf '"}\n%s\n' "$one"
} >set.jsonl
clean
run "$kvt" capture --model tiny.gguf --prompts set.jsonl -o new --max-new 2
exits 4
says err "prompt 'long': the prompt has"
says err "1 of 2 prompts failed, the rest is written"
[ "$(ls -A new)" = a.h5 ] || fail "a set with a bad prompt: $(ls -A new) in place of a.h5"
run "$kvt" capture --model tiny.gguf --prompts set.jsonl -o new --max-new 2
exits 4
says out "1 there already"

finish
