#!/bin/sh
# kvt capture --probe: extra tokens on a prompt, while it is captured and on traces that are there;
# everything that cannot be run is one clear line and leaves the trace as it was.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"
python=${KVT_PYTHON:-/usr/bin/python3}
adapter() { "$python" "$source_dir/tests/cli/make_adapter.py" "$@" || exit 1; }

tiny a.h5 --max-new 8
digest=$("$kvt" info a.h5 --json | jq -r '.. | .weights_digest? // empty' | head -n 1)
[ ${#digest} -eq 32 ] || fail "info names no digest of the model: '$digest'"
adapter look.safetensors "$digest"
adapter judge.safetensors "$digest" kind=judgeq rank=0

# What an adapter is.
run "$kvt" info look.safetensors
exits 0
says out "adapter      lookaheadkv"
says out "4 lookahead tokens of width 48"
says out "rank 2, alpha 8; layers of each map: self_attn.q_proj 2,"
adapter anyone.safetensors ""
run "$kvt" info anyone.safetensors
exits 0
says out "weights not named"
run "$kvt" info judge.safetensors --json
exits 0
parses
[ "$(jq -c '[.kind, .tokens, .rank, .parameters]' "$scratch/out")" = '["judgeq",4,0,192]' ] ||
    fail "info --json of an adapter: $(cat "$scratch/out")"
[ "$(jq -r .weights_digest "$scratch/out")" = "$digest" ] || fail "info names another model"
run "$kvt" verify look.safetensors
exits 0
says out "kind lookaheadkv, 4 tokens, rank 2"
class() { "$kvt" info "$1" --json | jq -r ".policies[\"$2\"].exactness"; }
[ "$(class a.h5 judgeq)" = "not replayable" ] || fail "judgeq needs no probe"

# ---- what runs

# Later and while capturing: the same bytes.
all="--probe look=lookaheadkv:look.safetensors --probe judge=judgeq:judge.safetensors
     --probe laq=draft:tokens=3@36,90% --probe own=suffix:response,tokens=4 --probe zip=repeat:chunk=30"
cp a.h5 later.h5
# shellcheck disable=SC2086 # a list of options
run "$kvt" capture --model tiny.gguf --trace later.h5 $all
exits 0
says out "6 added to 1 traces"
# shellcheck disable=SC2086
tiny with.h5 --max-new 8 $all
for file in later with; do
    "$kvt" info "$file.h5" --json | jq '.. | .probes? // empty' >"$file.json"
    run "$kvt" verify "$file.h5"
    exits 0
done
[ "$(class later.h5 judgeq)" = exact ] || fail "judgeq is not answered by its probe"
[ "$(class later.h5 speckv)" = "not replayable" ] || fail "any probe is speckv's"
grep -q laq-36 later.json || fail "info lists no probe laq-36"
cmp -s later.json with.json || fail "a probe that is added differs from one that was captured"
# Once more: nothing to do, nothing written; another one by another name is added.
cp later.h5 was.h5
# shellcheck disable=SC2086
run "$kvt" capture --model tiny.gguf later.h5 $all --json
exits 0
parses
[ "$(jq '[.added, .present] == [0, 6]' "$scratch/out")" = true ] || fail "a probe that is there ran again"
cmp -s later.h5 was.h5 || fail "a trace was written for nothing"
# Resume: a trace that is there gets what it lacks.
tiny with.h5 --max-new 8 --probe more=suffix:response,tokens=2
"$kvt" info with.h5 --json | grep -q '"more"' || fail "a capture that resumes adds no probe"
# A folder of a set.
mkdir -p set/below && cp a.h5 set/a.h5 && cp a.h5 set/below/b.h5
run "$kvt" capture --model tiny.gguf --probe own=suffix:response set
exits 0
says out "2 added to 2 traces"
run "$kvt" capture --model tiny.gguf --probe own=suffix:response set --plan
exits 0
says out "1 for each of 2 traces, a draft for each of its budgets: "
run "$kvt" capture --model tiny.gguf --prompt "a cat" --probe own=suffix:response --plan
exits 0
says out "probes     1"
run "$kvt" capture --model tiny.gguf --prompt "a cat" --plan --json
exits 0
bare=$(jq .file_bytes "$scratch/out")
run "$kvt" capture --model tiny.gguf --prompt "a cat" --probe own=suffix:response --plan --json
exits 0
[ "$(jq ".probe_bytes > 0 and .file_bytes == $bare + .probe_bytes" "$scratch/out")" = true ] ||
    fail "a plan leaves the bytes of its probes out"

# ---- what is refused

# refused STATUS TEXT TRACE OPTION...: one line, and the trace is what it was.
refused() {
    want=$1 text=$2 trace=$3
    shift 3
    cp "$trace" new/t.h5
    run "$kvt" capture --model tiny.gguf --trace new/t.h5 "$@"
    exits "$want"
    silent out
    one_line "$text"
    cmp -s "$trace" new/t.h5 || fail "$ran: the trace was changed"
    [ "$(find new -mindepth 1 | wc -l)" -eq 1 ] || fail "$ran: something else was written"
    clean
}

adapter foreign.safetensors 00000000000000000000000000000000
refused 1 "another model" a.h5 --probe x=lookaheadkv:foreign.safetensors
adapter wide.safetensors "$digest" hidden=50
refused 1 "expected [" a.h5 --probe x=lookaheadkv:wide.safetensors
adapter deep.safetensors "$digest" layers=3
refused 1 "the model has 2 layers" a.h5 --probe x=lookaheadkv:deep.safetensors
adapter nan.safetensors "$digest" nan=1
bad 1 "lookahead.embeddings" info nan.safetensors
run "$kvt" verify nan.safetensors
exits 3
says out "FAILED"
refused 1 "lookahead.embeddings" a.h5 --probe x=lookaheadkv:nan.safetensors
refused 1 "expected kind judgeq, got lookaheadkv" a.h5 --probe x=judgeq:look.safetensors
head -c 3000 look.safetensors >cut.safetensors
refused 1 "cut.safetensors" a.h5 --probe x=lookaheadkv:cut.safetensors
: >empty.safetensors
refused 1 "empty.safetensors" a.h5 --probe x=lookaheadkv:empty.safetensors
refused 1 "none.safetensors" a.h5 --probe x=lookaheadkv:none.safetensors
"$make_gguf" words.gguf vocab=330 || exit 1
refused 1 "the same vocabulary" a.h5 --probe x=specdraft:words.gguf
refused 1 "none.gguf" a.h5 --probe x=specdraft:none.gguf
echo '{"a": [1]}' >ids.json
refused 1 "expected an array of token ids" a.h5 --probe x=specdraft:ids.json
echo '[1, 99999]' >ids.json
refused 1 "item 1" a.h5 --probe x=specdraft:ids.json
refused 2 "expected a budget" a.h5 --probe x=draft:tokens=8
refused 2 "is no kind of probe" a.h5 --probe x=lookahead:look.safetensors
refused 2 "named twice" a.h5 --probe x=repeat --probe x=suffix:response
refused 1 "made otherwise (suffix:response,tokens=4); --force replaces it" later.h5 --probe own=suffix:response,tokens=3
# Traces without keys, of some layers, without a response, of another model, of nothing.
tiny summary.h5 --level summary --max-new 3
refused 1 "level summary" summary.h5 --probe x=suffix:response
tiny some.h5 --layers 1 --max-new 3
refused 1 "this trace holds 1 of them" some.h5 --probe x=lookaheadkv:look.safetensors
tiny train.h5 --level train --max-new 3
refused 1 "query/q" train.h5 --probe x=draft@50%
tiny none.h5 --max-new 0
refused 1 "needs a response" none.h5 --probe x=suffix:response
"$make_gguf" other.gguf seed=9 || exit 1
"$kvt" capture --model other.gguf -q -o other.h5 --prompt "a cat" --max-new 3 >/dev/null || exit 1
refused 1 "captured with another model" other.h5 --probe x=suffix:response
head -c 4000 a.h5 >broken.h5
refused 1 "t.h5" broken.h5 --probe x=suffix:response
# Of several traces the others go on.
mkdir mixed && cp a.h5 mixed/a.h5 && cp other.h5 mixed/b.h5
run "$kvt" capture --model tiny.gguf --probe x=suffix:response mixed
exits 4
says out "1 added to 1 traces"
says err "1 of 2 traces failed"
# A capture that cannot run its probes begins nothing.
bad 2 "--layers" capture --model tiny.gguf --prompt "a cat" -o new/a.h5 --layers 1 --probe x=draft@50%
bad 2 "level summary" capture --model tiny.gguf --prompt "a cat" -o new/a.h5 --level summary --probe x=repeat
bad 1 "another model" capture --model tiny.gguf --prompt "a cat" -o new/a.h5 --probe x=lookaheadkv:foreign.safetensors
bad 2 "expected --probe" capture --model tiny.gguf a.h5
bad 2 "takes neither a prompt nor -o" capture --model tiny.gguf a.h5 --probe x=repeat -o new/b.h5
bad 1 "none.h5x" capture --model tiny.gguf none.h5x --probe x=repeat
# A budget that is impossible is said and left out.
cp a.h5 tight.h5
run "$kvt" capture --model tiny.gguf tight.h5 --probe x=draft:tokens=2@8,40
exits 0
says err "'x-8' is left out"
says out "1 added"
finish
