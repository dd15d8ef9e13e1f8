#!/bin/sh
# kvt train: scorers and tables, on synthetic traces. Each writes a file that kvt info accepts, the
# same bytes with 1 and 2 threads and after it was stopped; what a trace lacks is one line.
# usage: test_train_scorers.sh KVT SOURCE-DIR MAKE-GGUF MAKE-SYNTH
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"
make_synth=$4

mkdir train held
for i in 1 2 3 4 5 6; do
    folder=train
    [ $i -gt 4 ] && folder=held
    "$make_synth" $folder/$i.h5 level=2 queries=-1 delay=5 prompt=48 response=24 block=8 probes=1 seed=$i || exit 1
done

same_file() {
    cmp -s "$1" "$2" || fail "$ran: $1 and $2 differ"
}

# WHAT KIND: trains, looks at the file, trains again with two threads and with the traces turned round.
check() {
    run "$kvt" train "$1" train --heldout held -o one.h5 -q -j 1 --json --force
    exits 0
    parses
    [ -f one.h5 ] || {
        fail "$ran: wrote nothing"
        return
    }
    jq -e '.parameters > 0' "$scratch/out" >/dev/null || fail "$ran: no parameters"
    run "$kvt" info one.h5
    exits 0
    says out "$2 "
    for threads in 2 3; do
        run "$kvt" train "$1" train/4.h5 train/3.h5 train/2.h5 train/1.h5 --heldout held -o two.h5 -q -j $threads --force
        exits 0
        same_file one.h5 two.h5
    done
    good train "$1" train -o new/plan.h5 --plan --json
    jq -e '.file_bytes > 0' "$scratch/out" >/dev/null || fail "$ran: a file of no bytes"
    [ ! -e new/plan.h5 ] || fail "$ran: --plan wrote a file"
}
pop=window=5,future=4,steps=8
check kvpop:$pop kvpop-mlp
check kvpop:scorer=linear,$pop kvpop-mlp
check kvpop:scorer=mlstm,$pop kvpop
check kvpop:scorer=mlstm,read=static,$pop kvpop
check kvpop:decay=none,boundary=raw,$pop kvpop-mlp
check kvpop:decay_step=3,balance=true,margin=0.3,$pop kvpop-mlp
check kvpop:loss=regression,target=mean,$pop kvpop-mlp
check kvzap kvzap
check kvzap:label=repeat kvzap
check kvzap:label=repeat-plus kvzap
check kvp-supervised:recent=4,steps=8 kvp-supervised
check fast-kvzip:steps=8 fast-kvzip
check fast-kvzip:label=repeat,momentum=0,steps=8 fast-kvzip
check locret:steps=8 locret
check foresightkv:block=8,steps=8 foresightkv
check headkv:span=question headkv
check qfilters qfilters
check triattention triattention
check lukv:base=snapkv,points=9 lukv
check lukv lukv

# Longer runs learn what they are given: the loss on the training traces falls.
falls() { # falls WHAT
    run "$kvt" train "$1" train -o falls.h5 -q --json --force
    exits 0
    jq -e '.last_loss < .first_loss' "$scratch/out" >/dev/null || fail "$ran: the loss did not fall: $(cat "$scratch/out")"
}
falls kvpop:window=5,future=4,steps=80,rate=0.02
falls kvpop:scorer=mlstm,window=5,future=4,steps=80,rate=0.02
falls kvp-supervised:recent=4,steps=80,rate=0.02
falls fast-kvzip:steps=80
falls locret:steps=80,rate=0.01
falls foresightkv:block=8,steps=80

# A scorer is what its policy reads.
cp held/5.h5 replayed.h5
run "$kvt" replay replayed.h5 -p kvpop-mlp:weights=one.h5 -b 20 --no-controls -q
[ "$status" -ne 0 ] || fail "$ran: a table of filters was taken for a scorer"
for kind in kvpop:window=5,future=4,steps=4 kvp-supervised:recent=4,steps=4 locret:steps=4; do
    name=${kind%%:*}
    policy=$name
    [ $name = kvpop ] && policy=kvpop-mlp
    run "$kvt" train $kind train -o $name.h5 -q
    exits 0
    run "$kvt" replay replayed.h5 -p $policy:weights=$name.h5 -b 20 --no-controls -q
    exits 0
    says out "$policy"
done

# A table of shares says which ranking it is for; another one is warned of.
ranks() { # ranks BASE FOREIGN POLICY: FOREIGN 0 where the policy ranks as the table wants
    run "$kvt" info keep.h5
    says out "base=$1"
    run "$kvt" replay replayed.h5 -p "$3" -b 20 --no-controls --out ranked
    exits 0
    [ "$(grep -c "made for the ranking of base=$1; here another one ranks" "$scratch/err")" = "$2" ] ||
        fail "$ran: the ranking of base=$1: $(cat "$scratch/err")"
}
run "$kvt" train lukv:points=9 train -o keep.h5 -q
ranks expected-attention 0 lukv:weights=keep.h5
ranks expected-attention 1 lukv:weights=keep.h5,base=snapkv,base.window=8
run "$kvt" train lukv:base=snapkv:window=8,points=9 train -o keep.h5 -q --force
ranks snapkv:window=8 0 lukv:weights=keep.h5,base=snapkv,base.window=8
ranks snapkv:window=8 1 lukv:weights=keep.h5,base=snapkv,base.window=9
ranks snapkv:window=8 1 lukv:weights=keep.h5

# ---- stopped and resumed

long=kvpop:scorer=mlstm,window=5,future=4,steps=600,batch=4,eval_every=20
run "$kvt" train $long train --heldout held -o whole.h5 -q
exits 0
env --default-signal=INT "$kvt" train $long train --heldout held -o part.h5 -q >/dev/null 2>"$scratch/err" &
pid=$!
for _ in $(seq 600); do
    [ -f part.h5.csv ] && [ "$(wc -l <part.h5.csv)" -ge 4 ] && break
    sleep 0.05
done
kill -INT $pid
status=0
wait $pid 2>/dev/null || status=$?
ran="train, SIGINT"
exits 130
one_line "the same command with --resume goes on"
[ -f part.h5.ckpt ] || fail "$ran: no checkpoint"
[ ! -e part.h5 ] || fail "$ran: it was done before it was stopped"
run "$kvt" train $long train --heldout held -o part.h5 -q --resume
exits 0
same_file whole.h5 part.h5
cut -d, -f1-6 whole.h5.csv >curve
cut -d, -f1-6 part.h5.csv | cmp -s - curve || fail "$ran: another curve"

# ---- refused

bad 1 "future/delayed is of w = 5, kvpop was asked for window=32" train kvpop train -o new/x.h5 -q
bad 1 "the loss is not finite; lower the rate" train kvpop:scorer=mlstm,window=5,future=4,steps=40,rate=10,clip=0 \
    train -o new/x.h5 --log rates.csv -q
bad 1 "no token of the traces is learned from; the longest has 72" train kvpop:window=5,future=100 train -o new/x.h5 -q
bad 1 "no token of the traces is learned from" train kvpop:window=5,future=4,slots=500 train -o new/x.h5 -q
bad 1 "no token of the traces is learned from" train kvp-supervised:recent=100 train -o new/x.h5 -q
bad 2 "least=0.5 is more than most=0.1" train kvpop:least=0.5,most=0.1 train -o new/x.h5 -q
bad 1 "headkv reads the span 'needle' of the prompt" train headkv:span=needle train -o new/x.h5 -q
bad 1 "no trace is longer" train foresightkv train -o new/x.h5 -q
"$make_synth" train1.h5 level=3 delay=5 seed=9 || exit 1
"$make_synth" replay1.h5 level=1 delay=5 prompt=100 response=8 queries=8 seed=9 || exit 1
bad 1 "has no hidden/x" train kvzap train1.h5 -o new/x.h5 -q
bad 1 "has no hidden/x" train fast-kvzip replay1.h5 -o new/x.h5 -q
bad 1 "has no query/q" train qfilters train1.h5 -o new/x.h5 -q
bad 1 "base snapkv" train lukv:base=snapkv train1.h5 -o new/x.h5 -q
bad 2 "no policy 'snapk' (did you mean 'snapkv'?)" train lukv:base=snapk train -o new/x.h5 -q
bad 2 "one for each query head" train lukv:base=snapkv:compat=official-longbench train -o new/x.h5 -q
bad 2 "ranks the prompt once" train lukv:base=h2o train -o new/x.h5 -q
bad 2 "ranks the prompt once" train lukv:base=all train -o new/x.h5 -q
bad 2 "points: 0 is not" train lukv:points=0 train -o new/x.h5 -q
bad 1 "has no query/mean" train triattention train1.h5 -o new/x.h5 -q
bad 2 "no parameter 'steps'" train triattention:steps=3 train -o new/x.h5 -q
bad 1 "capture with --queries all" train locret replay1.h5 -o new/x.h5 -q
bad 1 "or a smaller block" train foresightkv:block=64 replay1.h5 -o new/x.h5 -q
"$make_synth" full1.h5 level=2 seed=9 || exit 1
bad 1 "a probe of kind repeat, which this trace lacks" train kvzap:label=repeat full1.h5 -o new/x.h5 -q
"$make_synth" summary1.h5 level=0 seed=9 || exit 1
bad 1 "has no kv/k" train kvpop summary1.h5 -o new/x.h5 -q
bad 1 "cannot write to the folder 'new/none'" train qfilters train -o new/none/x.h5 -q

# ---- few traces

good train kvpop:window=5,future=4 train/1.h5 -o new/x.h5 -q
good train kvpop:window=5,future=4,batch=64,steps=1 train -o new/x.h5 -q
good train kvzap train/1.h5 -o new/x.h5 -q

finish
