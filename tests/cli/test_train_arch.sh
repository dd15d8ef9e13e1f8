#!/bin/sh
# From prompts to a replay with learned tokens, on tiny models of the other architectures with weights
# in blocks of 8 bits: the loss falls, the adapter's probe is there and is read, and each adapter is of
# its model alone.
# shellcheck source=tests/cli/bad.sh
. "$(dirname "$0")/bad.sh"

for id in a b c d; do
    printf '{"id": "%s", "prompt": "%s"}\n' $id \
        "$(awk -v s=$id$id$id 'BEGIN { for (i = 0; i < 12; i++) printf "%s%d ", s, (i * 7919 + i * i) % 97 }')"
done >set.jsonl

what=lookaheadkv:tokens=4,rank=2,steps=30,batch=3,eval_every=10,rate_embed=0.02,rate_lora=0.02
other=
for arch in qwen2 qwen3 gemma3; do
    "$make_gguf" $arch.gguf arch=$arch dim=32 hidden=64 ff=96 spread=0.2 type=8 embed_type=8 ||
        fail "no model of $arch"
    good capture --model $arch.gguf --prompts set.jsonl -o $arch --level full --max-new 10 --raw -q
    mkdir $arch.held && mv $arch/d*.h5 $arch.held/
    good train $what $arch --heldout $arch.held --model $arch.gguf -o $arch.safetensors --json -q
    jq -e '.last_loss < 0.9 * .first_loss and .heldout_loss > 0' "$scratch/out" >/dev/null ||
        fail "$arch: the loss did not fall: $(cat "$scratch/out")"
    good capture --model $arch.gguf --probe look=lookaheadkv:$arch.safetensors $arch.held -q
    good replay $arch.held/*.h5 -p lookaheadkv,snapkv -b 20% -o $arch.result -q
    says out lookaheadkv
    [ -z "$other" ] || bad 1 "it was made for another model" capture --model $arch.gguf \
        --probe look=lookaheadkv:$other.safetensors $arch.held -q --force
    other=$arch
done
finish
