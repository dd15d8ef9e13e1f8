#!/bin/sh
# Traces of the real model, captured with every option, against what the format says of them, computed again by
# numpy: check_trace.py, and check_weights.py where $KVT_PYTHON has the gguf package. Skipped without the model or
# without h5py.
# test_check_trace.sh KVT SOURCE-DIR
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=${KVT_PYTHON:-/usr/bin/python3}
model=${KVT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/kvt/models/smollm2.gguf}
[ -f "$model" ] || skip "no model at '$model': scripts/fetch-model smollm2, or set KVT_MODEL"
"$python" -c 'import h5py, numpy' 2>/dev/null || skip "no h5py for $python"
kvt=$(cd "$(dirname "$kvt")" && pwd)/$(basename "$kvt")
cd "$scratch" || exit 1

# Sentences of this repository: about 170 tokens, so that the prompt has three blocks.
for year in 1871 1884 1902 1931 1948 1968; do
    printf 'In %s the keeper of the lighthouse wrote down %s ships, two storms and one lost bird. ' $year $((year % 97))
done >prompt.txt
printf 'In which year were the most ships seen?' >>prompt.txt
{
    printf 'The log says this of it.'
    for n in 1 2 3 4 5 6 7; do printf ' Entry %s: the sea was calm, the lamp was lit and no ship came near.' $n; done
} >response.txt
marks='<|im_start|>user
Name a colour.<|im_end|>
<|im_start|>assistant
'

capture() { # capture NAME OPTION...: a trace NAME.h5 that kvt verify agrees with
    name=$1
    shift
    run "$kvt" capture --model "$model" -o "$name.h5" "$@"
    exits 0
    run "$kvt" verify "$name.h5"
    exits 0
}
base='--prompt-file prompt.txt --max-new 40 --delay 20'
all="$base --queries all --layers 0,7,29"
# shellcheck disable=SC2086 # options
{
    capture all $all --level full
    capture replay $base --layers 7,29
    capture summary $base --level summary --layers 29,0
    capture train $base --level train --layers 0-0
    capture packed $all --level full --compress
    run "$kvt" capture --model "$model" -o quiet.h5 --prompt "$(cat prompt.txt)" --max-new 40 --delay 20 --layers 7 \
        --no-text --rows-limit 0
    exits 0
    capture none $all --level full --max-new 0
    capture forced $all --level full --response response.txt --system 'Answer in one line.' --block-limit 100KiB
    # What was generated, without the mark that ends it, given back as a response.
    capture cut $base --level full --max-new 4 --layers 7
    "$python" -c 'import h5py
f = h5py.File("cut.h5")
offset, n = f["token/offset"], f["token"].attrs["n_prompt"]
print(f["text/bytes"][offset[n]:].tobytes().decode(), end="")' >again.txt
    capture again $base --level full --layers 7 --response again.txt
    capture raw --level summary --layers 0 --max-new 4 --raw --prompt "$marks"
    capture special --level summary --layers 0 --max-new 4 --raw --prompt "$marks" --parse-special
    hot='--layers 0 --max-new 12 --temperature 1.5 --top-p 0.95 --top-k 50 --prompt-file prompt.txt'
    capture seed7 $hot --level summary --seed 7
    capture seed7_full $hot --level full --seed 7
    capture seed8 $hot --level summary --seed 8
    run "$kvt" capture --model "$model" --prompt a --top-k 3 --plan
    exits 0
    says err "choose nothing without a --temperature"
}
cat >set.jsonl <<'SET'
{"id": "talk", "max_new": 9, "messages": [{"role": "user", "content": "My cat is called Ada."}, {"role": "assistant", "content": "A fine name."}, {"role": "user", "content": "What is my cat called? Say it twice."}], "spans": {"question": "What is my cat called?", "name": "Ada", "twice": [23, 36]}}
{"id": "brief", "system": "Be brief.", "prompt": "Größe von 東京 in Zahlen?", "response": "Rund 2200 km²."}
SET
run "$kvt" capture --model "$model" --prompts set.jsonl -o set --layers 3
exits 0
run "$kvt" verify set
exits 0
if [ "$failed" -eq 0 ]; then
    run "$python" "$here/check_trace.py" "$scratch"
    exits 0
    says out "statements hold"
    if "$python" -c 'import gguf' 2>/dev/null; then
        run "$python" "$here/check_weights.py" all.h5 "$model"
        exits 0
        cat "$scratch/out"
    else
        echo "not compared with the weights: $python has no gguf package"
    fi
fi
finish
