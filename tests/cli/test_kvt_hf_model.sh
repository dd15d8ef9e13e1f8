#!/bin/sh
# scripts/kvt_hf.py on the first real model, which transformers reads from the GGUF file by itself, against kvt's
# own capture of the same tokens: every dataset within 1e-3 (a trace holds halves).
# test_kvt_hf_model.sh KVT SOURCE-DIR
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=${KVT_PYTHON:-/usr/bin/python3}
model=${KVT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/kvt/models/smollm2.gguf}
[ -f "$model" ] || skip "no model at '$model': scripts/fetch-model smollm2, or set KVT_MODEL"
"$python" -c 'import torch, transformers, accelerate, gguf, h5py' 2>/dev/null ||
    skip "$python lacks torch, transformers, accelerate, gguf or h5py: set KVT_PYTHON"
kvt=$(cd "$(dirname "$kvt")" && pwd)/$(basename "$kvt")
cd "$scratch" || exit 1
for year in 1871 1884 1902; do
    printf 'In %s the keeper of the lighthouse wrote down %s ships, two storms and one lost bird. ' $year $((year % 97))
done >prompt.txt
printf 'In which year were the most ships seen?' >>prompt.txt
run "$kvt" capture --model "$model" --prompt-file prompt.txt --max-new 24 --delay 20 --queries all --level full -o kvt.h5
exits 0
run "$python" "$source_dir/scripts/kvt_hf.py" --model "$model" --tokens-of kvt.h5 --out hf.h5 --level full \
    --queries all --delay 20 --dtype float32 --kvt "$kvt"
exits 0
says err "weights_digest is left out"
run "$kvt" verify hf.h5
exits 0
run "$python" "$here/compare_traces.py" kvt.h5 hf.h5
exits 0
cat "$scratch/out"
finish
