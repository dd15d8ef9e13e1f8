#!/bin/sh
# The programs of docs/trace-format.md and docs/scorer-format.md, as they stand there, make traces and
# scorers that are whole, verified and replayed; scores that another program computed are replayed, too.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
python=${KVT_PYTHON:-/usr/bin/python3}
"$python" -c 'import numpy' 2>/dev/null || skip "no numpy for $python"
cd "$scratch" || exit 1
program() { # MARK PAGE: the program below the mark
    awk -v mark="<!-- $1 -->" '$0 == mark { found = 1 } found && /^```$/ { exit } inside
        found && /^```python/ { inside = 1 }' "$source_dir/docs/$2"
}
program producer trace-format.md >producer.py
program decisions trace-format.md >decisions.py
program scorer scorer-format.md >scorer.py
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

# A retrofitted model that ran elsewhere: its decisions and a probe.
run "$python" decisions.py
exits 0
run "$kvt" import retrofit.json -o retrofit.h5
exits 0
run "$kvt" verify retrofit.h5
exits 0
says out "decisions of 'kvpop', shift 0, recorded on a cache that was dense"
says out "decision/gamma above 0 and at most 1"
says out "/probe/suffix/lse against its queries"
run "$kvt" info retrofit.h5
exits 0
says out "decisions    of kvpop, shift 0, dense cache, with a decay"
says out "suffix  suffix tokens=8: 8 rows on the full cache"
if "$kvt" __complete policy | grep -qx kvpop; then
    run "$kvt" replay retrofit.h5 -p kvpop:from=decisions,sinks=2,window=8 -b 50% --json --out results
    exits 0
    jq -e '[.rows[] | select(.policy | startswith("kvpop")) | .status] == ["ok"]' out >/dev/null ||
        fail "decisions: not replayed"
fi
sed 's/"cache": "dense"/"cache": "wet"/' retrofit.json >wrong.json
run "$kvt" import wrong.json -o wrong.h5
exits 1
says err "/decision cache: expected dense or evicted, got 'wet'"
sed 's/"kind": "suffix"/"kind": "sufix"/' retrofit.json >wrong.json
run "$kvt" import wrong.json -o wrong.h5
exits 1
says err "probe 'suffix': 'sufix' is no kind of probe"
sed 's/"probe_k.npy"/"kv_k.npy"/' retrofit.json >wrong.json
run "$kvt" import wrong.json -o wrong.h5
exits 1
says err "probe 'suffix': k: axis P: expected 8, got 128"
[ ! -e wrong.h5 ] || fail "a wrong import left a file"

# Learned weights.
run "$python" scorer.py
exits 0
run "$kvt" import --scorer scorer.json -o pop.h5
exits 0
says err "wrote pop.h5 (a scorer"
run "$kvt" verify pop.h5
exits 0
run "$kvt" info pop.h5
exits 0
says out "scorer       kvpop-mlp"
run "$kvt" info pop.h5 --json
exits 0
[ "$(jq -c '[.kind, .layers, .tensors["in/weight"].shape, .tensors.slots.value]' out)" = \
    '["kvpop-mlp",[0,1],[2,2,8,32],38]' ] || fail "info --json of a scorer: other numbers"
run "$kvt" import --scorer --scores scorer.json -o pop.h5
exits 2
if "$kvt" __complete policy | grep -qx kvpop-mlp; then
    run "$kvt" replay toy.h5 -p kvpop-mlp:weights=pop.h5 -b 50% --json --out results
    exits 0
fi

# Patterns and tables.
program patterns scorer-format.md >patterns.py
run "$python" patterns.py
exits 0
for kind in duo lukv shares; do
    run "$kvt" import --scorer $kind.json -o $kind.h5
    exits 0
    run "$kvt" verify $kind.h5
    exits 0
done
run "$kvt" replay toy.h5 --json --out results -b 50% \
    -p duo:weights=duo.h5,lukv:weights=lukv.h5,base=snapkv,base.window=8,snapkv/table:table=shares.h5,window=8
exits 0
jq -e '[.rows[] | select(.policy == ("duo", "lukv", "snapkv/table")) | .status] == ["ok", "ok", "ok"]' out >/dev/null ||
    fail "patterns: not replayed"

finish
