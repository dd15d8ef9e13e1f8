#!/bin/sh
# The program of docs/trace-format.md, as it stands there, makes a trace that is whole, verified and
# replayed; scores that another program computed are replayed, too.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
python=${KVT_PYTHON:-/usr/bin/python3}
"$python" -c 'import numpy' 2>/dev/null || skip "no numpy for $python"
cd "$scratch" || exit 1
awk '/^<!-- producer -->/ { found = 1 } found && /^```$/ { exit } inside; found && /^```python/ { inside = 1 }' \
    "$source_dir/docs/trace-format.md" >producer.py
[ "$(wc -l <producer.py)" -ge 20 ] || fail "no program in docs/trace-format.md"
[ "$(wc -l <producer.py)" -le 40 ] || fail "the program has grown"
run "$python" producer.py
exits 0
run "$kvt" import manifest.json -o toy.h5
exits 0
run "$kvt" verify toy.h5
exits 0
run "$kvt" replay toy.h5 -p snapkv,h2o -b 50% --json --out results
exits 0
parses
jq -e '[.rows[] | select(.policy == "oracle" or .policy == "snapkv") | .lost_mass_mean_frac] |
    length >= 2 and all(. > 0 and . < 1)' out >/dev/null || fail "replay: no lost mass of snapkv and oracle"

# Scores: the recorded future itself must lose as little as the oracle's own order does.
"$python" - <<'EOF' || fail "scores could not be made"
import json, numpy as np
future = np.load("future_mean.npy")
np.save("scores.npy", future.reshape(2, 2, 2, -1).mean(2))
json.dump({"trace": "toy.h5", "name": "mine", "datasets": {"score/value": "scores.npy"}}, open("scores.json", "w"))
EOF
run "$kvt" import --scores scores.json -o mine.h5
exits 0
if "$kvt" __complete policy | grep -qx scores; then
    run "$kvt" replay toy.h5 -p scores:file=mine.h5 -b 50% --json --out results
    exits 0
    jq -e '([.rows[] | select(.policy == "scores") | .lost_mass_mean_frac][0]) as $s |
        ([.rows[] | select(.policy == "oracle") | .lost_mass_mean_frac][0]) as $o | $s < $o + 0.001' \
        out >/dev/null || fail "scores: the future as a score loses more than the oracle"
else
    echo "note: this build has no policy 'scores'"
fi

finish
