#!/bin/sh
# kvt cost against a second calculation of the same formulae, with bad files of models and machines,
# and with what no machine can hold.
# usage: test_cost_laws.sh KVT SOURCE-DIR
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || skip "python3 is not here"
cd "$scratch" || exit 1
XDG_CACHE_HOME=$scratch/cache
export XDG_CACHE_HOME

cost() { run "$kvt" cost "$@"; }

# refused STATUS TEXT OPTION...: one line, and nothing else.
refused() {
    want=$1 text=$2
    shift 2
    cost "$@"
    exits "$want"
    silent out
    says err "$text"
    [ "$(wc -l <err)" -eq 1 ] || fail "$ran: expected one line of error"
}

# ---- numbers

run python3 "$here/cost_second.py" "$kvt"
exits 0
[ "$status" -eq 0 ] || head -n 20 out
says out " 0 differ"

# ---- files

run python3 "$here/cost_mutants.py" "$kvt" "$source_dir" "$scratch"
exits 0
[ "$status" -eq 0 ] || head -n 40 out
says out " 0 failures"

# ---- names: the nearest one

refused 2 "did you mean 'qwen3-8b'?" --geometry qwen3-8 --machine h100
refused 2 "did you mean 'a100'?" --geometry qwen3-8b --machine a10
refused 2 "got none" --geometry qwen3-8b --machine ""
refused 2 "no geometry" --geometry "" --machine h100
# One that is like nothing gets no guess.
refused 2 "no machine 'zzzzzzzzzzzz'" --geometry qwen3-8b --machine zzzzzzzzzzzz
grep -q "did you mean" err && fail "$ran: a guess that is none"
refused 1 "missing/model.json" --geometry missing/model.json --machine h100
mkdir folder.json
refused 1 "folder.json" --geometry folder.json --machine h100
refused 1 "folder.json" --geometry qwen3-8b --machine folder.json

# ---- units that do not fit

for length in 4KiB 4GB 10% 1e4 0x100 -4 4Ki..2Ki "" 99999999999999999999; do
    refused 2 "length" --geometry qwen3-8b --machine h100 --length "$length"
done
for budget in 10s 12kb 1e3 -5 120% 0 0% 5%..40%x1 99999999999999999999; do
    refused 2 "udget" --geometry qwen3-8b --machine h100 --length 4Ki -p snapkv -b "$budget"
done
# A token of qwen3-8b takes 36 layers x 2 x 8 heads x 128 x 2 bytes = 147456: 64 MB hold 434 of them,
# 64 MiB 455.
for pair in 64MB=434 64MiB=455; do
    cost --geometry qwen3-8b --machine h100 --length 4Ki -p snapkv -b "${pair%=*}" --json
    exits 0
    jq -e --argjson want "${pair#*=}" 'any(.rows[]; .policy == "snapkv" and .budget_tokens == $want)' out >/dev/null ||
        fail "$ran: expected ${pair#*=} slots"
done
refused 2 "147456" --geometry qwen3-8b --machine h100 --length 4Ki -p snapkv -b 100KB

# ---- memory that cannot hold the weights: what is short, by how much

# Weights of 16 bits, 1.2 GiB for the driver, and the bytes of the machine (vendors' GB are GiB of the driver).
# 70b: 141107412992 + 1288490189 - 25769803776 = 116626099405.
refused 3 "141.1 GB" --geometry llama-3.1-70b --machine rtx4090
refused 3 "116.6 GB (108.6 GiB) short" --geometry llama-3.1-70b --machine rtx4090
# On two devices a half of them each: 70553706496 + 1288490189 - 25769803776 = 46072392909.
refused 3 "46.1 GB (42.9 GiB) short" --geometry llama-3.1-70b --machine rtx4090 --tensor 2
cost --geometry llama-3.1-70b --machine rtx4090 --tensor 8 -p snapkv -b 128 --length 4Ki --json
exits 0
# 4 bits inside the layers: 34.2 + 4.2 GB.
refused 3 "38.4 GB" --geometry llama-3.1-70b --machine rtx4090 --weight-bits 4
# What does not fit beside the weights is a row that says so: dense, 16 GiB of keys and values.
cost --geometry llama-3.1-8b --machine rtx4090 -p snapkv -b 128 --length 128Ki --json
exits 0
jq -e 'all(.rows[]; .fits == (if .short_bytes == 0 then 1 else 0 end)) and
    all(.rows[]; (.peak_bytes - 25769803776 - .short_bytes) as $d | .short_bytes == 0 or ($d < 1 and $d > -1)) and
    any(.rows[]; .policy == "full" and .fits == 0 and .max_batch == 0)' out >/dev/null || fail "$ran: short by what?"

finish
