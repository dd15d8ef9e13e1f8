#!/bin/sh
# Other programs read our files: h5py with the documented names, shapes, types and units, half floats bit
# for bit, named axes; pandas the tables of results.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
synth=$3
python=${KVT_PYTHON:-/usr/bin/python3}
"$python" -c 'import h5py, numpy' 2>/dev/null || skip "no h5py for $python"
for words in "plain.h5" "packed.h5 compress=1 level=2 prompt=90" "short.h5 prompt=1 response=0" \
    "ahead.h5 probes=1 draft=6 probe_rows=3 decisions=kvpop"; do
    # shellcheck disable=SC2086 # a name and its settings
    "$synth" "$scratch"/$words || exit 1
done
"$kvt" info --schema --json >"$scratch/schema.json" || exit 1
for name in plain packed short ahead; do
    "$kvt" info "$scratch/$name.h5" --json >"$scratch/$name.json" || exit 1
    run "$python" "$(dirname "$0")/readers.py" trace "$scratch/$name.h5" "$scratch/schema.json" "$scratch/$name.json"
    exits 0
    [ "$status" -eq 0 ] || cat "$scratch/err"
done
if command -v ncdump >/dev/null; then # netCDF reads them, too: every dimension has a name
    run ncdump -h "$scratch/ahead.h5"
    exits 0
    silent err
    says out "k(axis_layer, axis_kv_head, axis_probe_row, axis_channel)"
fi
run "$kvt" replay "$scratch/packed.h5" -p h2o,window -b 16,32 --json --out "$scratch/results"
exits 0
cp "$scratch/out" "$scratch/rows.json"
run "$kvt" verify "$scratch/results"
exits 0
says out "format kvt-results"
run "$kvt" ls "$scratch/results" --json
exits 0
[ "$(jq '[.results[] | .cells == .ok + .skipped] | all' "$scratch/out")" = true ] || fail "ls: cells do not add up"
run "$kvt" report "$scratch/results" --csv "$scratch/tables"
exits 0
run "$python" "$(dirname "$0")/readers.py" csv "$scratch/tables" "$scratch/rows.json"
exits 0
[ "$status" -eq 0 ] || cat "$scratch/err"
"$python" -c 'import tables, pandas' 2>/dev/null || skip "no pandas and tables for $python: h5py was tested"
run "$python" "$(dirname "$0")/readers.py" results "$scratch/results" "$scratch/rows.json"
exits 0
[ "$status" -eq 0 ] || cat "$scratch/err"

# Tokens of half a character: the long tables are UTF-8, the hex column has the bytes.
german=$source_dir/traces/samples/german-workshop.h5
if [ -f "$german" ]; then
    run "$kvt" replay "$german" -p window -b 10% --no-controls --out "$scratch/german" -q
    exits 0
    run "$kvt" report "$scratch/german" --csv "$scratch/long" --table evictions,steps
    exits 0
    for table in evictions steps; do
        run "$python" -c "import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], encoding='utf-8', newline='')))
halves = [r for r in rows if r['token_text'].endswith('\ufffd')]
for r in rows:
    text = bytes.fromhex(r['token_hex']).decode('utf-8', 'replace')
    assert r['token_text'] in (text, chr(39) + text), r # an apostrophe guards against formulas
assert rows and (halves or sys.argv[2] == 'steps')" "$scratch/long/$table.csv" "$table"
        exits 0
        [ "$status" -eq 0 ] || cat "$scratch/err"
    done
fi
finish
