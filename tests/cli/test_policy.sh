#!/bin/sh
# kvt policy: list, show, new; and that what new writes builds with the command it names and loads.
# usage: test_policy.sh KVT SOURCE-DIR
. "$(dirname "$0")/lib.sh"

run "$kvt" policy list
exits 0
for name in full h2o oracle oracle-max oracle-step position pyramidkv random snapkv streaming tova window; do
    says out "$name"
done

run "$kvt" policy list --json
exits 0
says out '"schema": "kvt-policies-1"'
[ "$(jq -r '.rows[] | select(.name == "snapkv") | .parameters[0].choices.kvpress.sets' "$scratch/out")" = \
    "window=64,pool=5,kind=mean,order=pool" ] || fail "policy list --json: choices of snapkv"
[ "$(jq -r '.rows[] | select(.name == "h2o") | .needs | length' "$scratch/out")" = 2 ] ||
    fail "policy list --json: needs of h2o"

[ "$(jq -r '.rows[] | select(.name == "h2o") | .exactness + " " + .exactness_best' "$scratch/out")" = \
    "open-loop exact" ] || fail "policy list --json: class of h2o"

run "$kvt" policy list --markdown
exits 0
says out "### snapkv"
says out "arXiv:2404.14469"

run "$kvt" policy show pyramidkv
exits 0
says out "arXiv:2406.02069"
says out "compat=paper"
says out "Zefan-Cai/KVCache-Factory c97f9d7"
says out "from 1 to 255 tokens"
says out "parameters of its allocator"
says out "beta=20"
says out "pyramid (more slots in the lower layers"

run "$kvt" policy show pyramid
exits 0
says out "form=exact"

# One row a line in a pipe, whatever its length; folded to the columns of a terminal.
for name in list "list --variants"; do
    run "$kvt" policy $name
    exits 0
    [ "$(wc -L <"$scratch/out")" -gt 120 ] || fail "policy $name: a row is cut in a pipe"
    for columns in 80 120; do
        run env COLUMNS=$columns "$kvt" policy $name
        exits 0
        [ "$(wc -L <"$scratch/out")" -le $columns ] || fail "policy $name: wider than $columns columns"
        grep -q ' $' "$scratch/out" && fail "policy $name: a line ends with a blank"
    done
done
run env COLUMNS=80 "$kvt" policy list
says out "adakv              exact          prompt attn"
says out "    Feng et al., Ada-KV, 2024, arXiv:2407.11550"
run env COLUMNS=80 "$kvt" policy list --variants
says out "pyramidkv:compat=kvcf"
says out "    Zefan-Cai/KVCache-Factory c97f9d7, run scripts, by query head, its integer"

# When it decides, and whether every=K changes that.
run "$kvt" policy show snapkv
says out "every         every=K: it decides anew"
run "$kvt" policy show observed
says out "every         not for it: it reads sums over all prompt queries"
run "$kvt" policy show r-kv
says out "every         128 tokens, as published; every=K"

# What is kept beside slots, and what a fused kernel does not make.
run "$kvt" policy show h2o
says out "keeps         4 bytes beside each slot"
says out "reads         whole rows of attention"
run "$kvt" policy show quest
says out "keeps         32 bytes beside each slot (128 channels)"
run "$kvt" policy show r-kv
says out "keeps         2048 bytes beside each lane, of each query head (128 channels)"
run "$kvt" policy show snapkv
grep -q "^keeps\|^reads" "$scratch/out" && fail "snapkv keeps nothing beside its slots"

# What it costs: what runs beside the prompt, what scores, what decoding pays.
run "$kvt" policy show full
says out "costs         nothing: every slot stays"
run "$kvt" policy show lookaheadkv
says out "costs         32 tokens run behind the prompt; 20.6 million weights"
run "$kvt" policy show laq
says out "costs         the model drafts 8 tokens on a cache that is cut for that first"
says out "              keys and values are stored for each query head"
run "$kvt" policy show h2o
says out "costs         all rows of the prompt score"
says out "              decoding, each token: 1 row over what is left"
run "$kvt" policy show snapkv
says out "costs         32 rows of attention score; each layer is cut at once"
grep -q "decoding," "$scratch/out" && fail "snapkv does nothing while decoding"
run "$kvt" policy show dms
says out "              lanes of a layer differ in length; pages of 256 tokens a lane"

for name in ada even global oracle-budget pyramid table; do
    run "$kvt" policy show "/$name"
    exits 0
    [ "$(wc -L <"$scratch/out")" -le 80 ] || fail "policy show /$name: a line is longer than 80"
    grep -q ' $' "$scratch/out" && fail "policy show /$name: a line ends with a blank"
done

# A summary of the paper, what it leaves open and what was chosen; no line is broken badly.
for name in $("$kvt" policy list --json | jq -r '.rows[].name'); do
    run "$kvt" policy show "$name"
    exits 0
    says out "differs "
    [ "$(wc -L <"$scratch/out")" -le 80 ] || fail "policy show $name: a line is longer than 80"
    grep -q ' $' "$scratch/out" && fail "policy show $name: a line ends with a blank"
done
run "$kvt" policy show lookaheadkv
says out "arXiv:2603.10899"
says out "rank 8, alpha 32"
says out "Not specified there"
run "$kvt" policy show dms
exits 0
says out "weights       a file of kind kvpop-mlp; kvt train kvpop TRACE... -o FILE"
run "$kvt" policy show snapkv
exits 0
grep -q "^weights " "$scratch/out" && fail "snapkv reads no weights"
run "$kvt" policy show kvpop
says out "min(q + 1, B)"
says out "chosen here"
run "$kvt" policy list --json
[ "$(jq -r '[.rows[] | select(.paper | length > 99)] | length' "$scratch/out")" = 0 ] ||
    fail "policy list --json: the paper of a policy is more than a line"
for name in $("$kvt" train list --json | jq -r '.rows[].name'); do
    run "$kvt" train show "$name"
    exits 0
    [ "$(wc -L <"$scratch/out")" -le 80 ] || fail "train show $name: a line is too long"
done

run "$kvt" policy show snapkw
exits 2
says err "no policy 'snapkw' (did you mean 'snapkv'?)"
silent out

run "$kvt" policy shaw snapkv
exits 2
says err "did you mean 'show'?"
run "$kvt" policy show
exits 2
run "$kvt" policy new mine --markdown
exits 2

for bad in Mine 'a b' '../x' '-x' ''; do
    run "$kvt" policy new -- "$bad"
    exits 2
done
run "$kvt" policy new snapkv
exits 2
says err "built in"

cd "$scratch" || exit 1
run "$kvt" policy new my-2nd
exits 0
says out "my-2nd.c"
says err "build it: cc"
[ -f my-2nd.c ] || fail "policy new wrote no file"
before=$(cksum my-2nd.c)
run "$kvt" policy new my-2nd
exits 2
says err "is there already"
[ "$before" = "$(cksum my-2nd.c)" ] || fail "policy new overwrote a file"

# The command that stands in the file, with warnings as errors.
build=$(sed -n 's/^ \* Build:  //p' my-2nd.c)
case $build in
cc\ *) ;;
*) fail "no build line in the template: '$build'" ;;
esac
command -v cc >/dev/null 2>&1 || skip "there is no cc to build the template with"
run sh -c "$build -Wall -Wextra -Wpedantic -Werror"
exits 0
[ -f my-2nd.so ] || fail "the build line made no my-2nd.so"

run "$kvt" policy show my-2nd --plugin ./my-2nd.so
exits 0
says out "my-2nd - keep the first tokens"
says out "sinks=4"
# What a plug-in says is text, also in JSON.
sed -e 's/my-2nd/my-4th/g' -e 's/\.traits = {/.why_not = "it says \\"no\\"", .traits = {.exactness = KVT_NOT_REPLAYABLE,/' \
    -e 's/\.exactness = KVT_EXACT,*//' my-2nd.c >my-4th.c
run sh -c "$(echo "$build" | sed 's/my-2nd/my-4th/g')"
exits 0
run "$kvt" replay "$source_dir/traces/samples/dialogue.h5" -p all -b 40 --plugin ./my-4th.so --layers 2 --out '' --json -q
exits 0
jq -e '.run.no_trace | contains("my-4th (it says \"no\")")' out >/dev/null || fail "the reason of a plug-in: $(tail -c 300 out)"

# Of two plug-ins the second one is found, with a trace, too.
sed 's/my-2nd/my-3rd/g' my-2nd.c >my-3rd.c
run sh -c "$(echo "$build" | sed 's/my-2nd/my-3rd/g')"
exits 0
run "$kvt" policy show my-3rd "$source_dir/traces/samples/dialogue.h5" --plugin ./my-2nd.so --plugin ./my-3rd.so
exits 0
says out "my-3rd - keep the first tokens"
says out "answers it"
run "$kvt" policy list --plugin my-2nd.so
exits 0
says out "my-2nd"
run "$kvt" policy show my-2nd
exits 2
run "$kvt" policy list --plugin my-2nd.c
exits 1

mkdir read-only && chmod a-w read-only && cd read-only || exit 1
if ! touch probe 2>/dev/null; then # root writes everywhere
    run "$kvt" policy new other
    exits 1
    says err "other.c"
fi
cd "$scratch" && chmod u+w read-only

finish
