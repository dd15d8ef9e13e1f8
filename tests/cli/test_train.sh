#!/bin/sh
# kvt train: adapters from traces of a tiny model. The same bytes with 1 and 2 threads, whatever the
# order of the traces, and after Ctrl-C or kill -9; what is refused, and how it reads.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

for id in a b c d e f g; do
    printf '{"id": "%s", "prompt": "%s"}\n' $id \
        "$(awk -v s=$id$id$id 'BEGIN { for (i = 0; i < 25; i++) printf "%s%d ", s, (i * 7919 + i * i) % 97 }')"
done >set.jsonl
run "$kvt" capture --model tiny.gguf --prompts set.jsonl -o traces --level train --max-new 12 -q
exits 0
mkdir held train
mv traces/f*.h5 traces/g*.h5 held/
mv traces/*.h5 train/
[ "$(find train -name '*.h5' | wc -l)" -eq 5 ] || fail "expected 5 training traces"

what=lookaheadkv:tokens=4,rank=2,steps=24,batch=3,eval_every=8
train() { # train OUT OPTION...: with the usual traces
    out=$1
    shift
    run "$kvt" train $what train --heldout held --model tiny.gguf -o "$out" --json "$@"
}
same_file() {
    cmp -s "$1" "$2" || fail "$ran: $1 and $2 differ"
}
# All columns but the seconds.
curve() { cut -d, -f1-6 "$1"; }

# ---- what comes out, and that it is the same

train one.safetensors -q -j 1
exits 0
parses
jq -e '.heldout_loss > 0 and .heldout_recall > 0 and
       .steps == 24 and .examples == 72 and .traces == 5 and .heldout == 2' "$scratch/out" >/dev/null ||
    fail "expected 24 steps of 3 examples: $(cat "$scratch/out")"
# Every step sees all five traces, so that the first and the last loss are of the same prompts.
run "$kvt" train lookaheadkv:tokens=4,rank=2,steps=12,batch=5 train --model tiny.gguf -o all.safetensors --json -q
exits 0
jq -e '.last_loss < .first_loss' "$scratch/out" >/dev/null || fail "the loss did not fall: $(cat "$scratch/out")"
[ "$(wc -l <one.safetensors.csv)" -eq 5 ] || fail "expected a curve of 4 rows: $(cat one.safetensors.csv)"
[ ! -e one.safetensors.ckpt ] || fail "the checkpoint is left"
train three.safetensors -q -j 3
same_file one.safetensors three.safetensors
train two.safetensors -q -j 2
same_file one.safetensors two.safetensors
curve one.safetensors.csv >curve
curve two.safetensors.csv | cmp -s - curve || fail "two threads: another curve"
run "$kvt" train $what train/e*.h5 train/c*.h5 train/a*.h5 train/d*.h5 train/b*.h5 --heldout held \
    --model tiny.gguf -o order.safetensors -q
exits 0
same_file one.safetensors order.safetensors
train seed.safetensors -q --seed 8
cmp -s one.safetensors seed.safetensors && fail "another seed gave the same bytes"
train shown.safetensors
says err "step 24 of 24: loss"
run "$kvt" train judgeq:tokens=4,steps=6 train --model tiny.gguf -o judge.safetensors
exits 0
says out "first loss"
[ "$(wc -c <judge.safetensors)" -lt "$(wc -c <one.safetensors)" ] || fail "Judge Q has more than embeddings"

# Ablations: each changes what is written.
for how in target=max init=random over=prompt maps=qv half=true scale=1; do
    run "$kvt" train $what,$how train --model tiny.gguf -o $how.safetensors -q
    exits 0
    cmp -s one.safetensors $how.safetensors && fail "$how changed nothing"
done
[ "$(wc -c <half=true.safetensors)" -lt "$(wc -c <one.safetensors)" ] || fail "halves are not smaller"
[ "$(wc -c <maps=qv.safetensors)" -lt "$(wc -c <one.safetensors)" ] || fail "two maps are not smaller than seven"

# The memory of other settings is the plan's affair: nothing is written.
good train $what train --model tiny.gguf -o new/p.safetensors --plan --json
parses
jq -e '.schema == "kvt-train-plan-1" and .steps == 24 and .memory_bytes > 1000 and .expected_s > 0' \
    "$scratch/out" >/dev/null || fail "the plan: $(cat "$scratch/out")"
[ -z "$(find new -mindepth 1)" ] || fail "--plan wrote something"
good train list
says out lookaheadkv
says out judgeq
good train list --json
parses
good train show lookaheadkv
says out "rate_lora"

# ---- stopped

long=lookaheadkv:tokens=8,rank=2,steps=600,batch=8,eval_every=20
begin() { # begin OUT: in the background, as $pid; until its curve has two rows
    env --default-signal=INT "$kvt" train $long train --heldout held --model tiny.gguf -o "$1" -q >/dev/null \
        2>"$scratch/err" &
    pid=$!
    for _ in $(seq 600); do
        [ -f "$1.csv" ] && [ "$(wc -l <"$1.csv")" -ge 3 ] && break
        sleep 0.05
    done
}
run "$kvt" train $long train --heldout held --model tiny.gguf -o whole.safetensors -q
exits 0
curve whole.safetensors.csv >curve
for signal in INT KILL; do
    ran="train, SIG$signal"
    part=$signal.safetensors
    begin $part
    kill -$signal $pid
    status=0
    wait $pid 2>/dev/null || status=$?
    [ ! -e $part ] || fail "$ran: it was done before it was stopped"
    if [ $signal = INT ]; then
        exits 130
        one_line "stopped at step"
        [ -f $part.ckpt ] || fail "$ran: no checkpoint"
        # A checkpoint of another run is no checkpoint of this one.
        bad 1 "other traces, parameters, model or seed" train $long train --heldout held --model tiny.gguf -o $part --resume --seed 9 -q
        bad 1 "other traces, parameters, model or seed" train $long train --model tiny.gguf -o $part --resume -q
        bad 1 "other traces, parameters, model or seed" train $long,clip=2 train --heldout held --model tiny.gguf -o $part --resume -q
    fi
    run "$kvt" train $long train --heldout held --model tiny.gguf -o $part -q --resume
    exits 0
    same_file whole.safetensors $part
    curve $part.csv | cmp -s - curve || fail "$ran: another curve"
    [ ! -e $part.ckpt ] || fail "$ran: the checkpoint is left"
done
begin cut.safetensors
kill -INT $pid
wait $pid 2>/dev/null
printf x >>cut.safetensors.ckpt
bad 1 "no whole checkpoint" train $long train --model tiny.gguf -o cut.safetensors --resume -q

# ---- refused

bad 2 "did you mean 'lookaheadkv'" train lookahedkv train --model tiny.gguf -o new/x
bad 2 "no parameter 'ranks'" train lookaheadkv:ranks=2 train --model tiny.gguf -o new/x
bad 2 "no training traces" train lookaheadkv --model tiny.gguf -o new/x
bad 2 "name its file with --model" train lookaheadkv train -o new/x
bad 2 "name it with -o" train lookaheadkv train --model tiny.gguf
bad 1 "is held out and" train lookaheadkv train --heldout train/a*.h5 --model tiny.gguf -o new/x
bad 1 "are the same trace" train lookaheadkv train train/a*.h5 --model tiny.gguf -o new/x
bad 1 "is there already" train lookaheadkv train --model tiny.gguf -o one.safetensors
cp set.jsonl new.csv
bad 1 "no curve of kvt train" train lookaheadkv train --model tiny.gguf -o new/x --log new.csv
cmp -s new.csv set.jsonl || fail "the file that is no curve was changed"
"$make_gguf" other.gguf seed=2 || exit 1
bad 1 "is of another model (digest" train lookaheadkv train --model other.gguf -o new/x
tiny summary.h5 --level summary --max-new 4
bad 1 "has no kv/k" train lookaheadkv train summary.h5 --model tiny.gguf -o new/x
tiny layer.h5 --level train --layers 0 --max-new 4
bad 1 "has other layers" train lookaheadkv train layer.h5 --model tiny.gguf -o new/x
bad 1 "training runs them all" train lookaheadkv layer.h5 --model tiny.gguf -o new/x
bad 1 "no such file or folder" train lookaheadkv nothing.h5 --model tiny.gguf -o new/x
mkdir broken && cp train/a*.h5 broken && head -c 5000 train/b*.h5 >broken/b.h5
bad 1 "is cut short" train lookaheadkv broken --model tiny.gguf -o new/x
"$kvt" capture --model other.gguf -q -o two.h5 --level train --max-new 4 --prompt "a cat" >/dev/null
bad 1 "is of another model than" train lookaheadkv train two.h5 --model tiny.gguf -o new/x
tiny silent.h5 --level train --max-new 0
bad 1 "0 of response: expected some of both" train lookaheadkv silent.h5 --model tiny.gguf -o new/x
cp train/a*.h5 again.h5
bad 1 "is held out and" train lookaheadkv train --heldout again.h5 --model tiny.gguf -o new/x
# What the end of a run could not write is told before it begins.
bad 1 "cannot write to the folder 'new/none'" train lookaheadkv train --model tiny.gguf -o new/none/x
bad 2 "'train' is a folder" train lookaheadkv train --model tiny.gguf -o train --force
bad 2 "cannot be both the curve" train lookaheadkv train --model tiny.gguf -o new/x --log new/x
bad 2 "is one of the traces" train lookaheadkv again.h5 --model tiny.gguf -o again.h5 --force
same_file again.h5 train/a*.h5
[ ! -e again.h5.csv ] || fail "a refused run left a curve"

# ---- a small disk

mkdir disk
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=40k tmpfs disk 2>/dev/null; then
    trap 'umount "$scratch/work/disk" 2>/dev/null; rm -rf "$scratch"' EXIT
    run "$kvt" train lookaheadkv:tokens=32,rank=8,steps=2 train --model tiny.gguf -o disk/x -q
    exits 1
    one_line "No space left on device"
    [ ! -e disk/x ] || fail "$ran: a part of the adapter is left"
    no_rest disk
    mount -o remount,ro disk
    run "$kvt" train lookaheadkv:steps=2 train --model tiny.gguf -o disk/y -q
    exits 1
    one_line "Read-only file system"
    umount disk
else
    echo "no small disk (needs root and mount): it is not tried"
fi

# ---- few traces

good train lookaheadkv:tokens=4,steps=1,batch=64 train/a*.h5 --model tiny.gguf -o new/x -q
tiny short.h5 --raw --prompt a --level train --max-new 2
good train lookaheadkv:tokens=32,steps=2 short.h5 --heldout held --model tiny.gguf -o new/x -q

finish
