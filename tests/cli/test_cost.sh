#!/bin/sh
# kvt cost and kvt replay --geometry: the published headline beside the fused one, JSON and CSV whose
# parts sum to their totals, the same bytes whatever the threads and the locale, and what is refused.
# usage: test_cost.sh KVT SOURCE-DIR
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip "python3 is not here"
cd "$scratch" || exit 1
XDG_CACHE_HOME=$scratch/cache
export XDG_CACHE_HOME

cost() { run "$kvt" cost "$@"; }
h100() { cost --geometry llama-3.1-8b --machine h100 "$@"; }

# bad STATUS TEXT OPTION...: one line that says why.
bad() {
    want=$1 text=$2
    shift 2
    cost "$@"
    exits "$want"
    silent out
    says err "$text"
    [ "$(wc -l <err)" -eq 1 ] || fail "$ran: expected one line of error"
}

# Every part of cost.csv sums to its total, empty where nothing is known; prints the number of rows.
cat >sums.py <<'PY'
import csv, sys
totals = {"prefill_s": ("prefill_", "_s"), "evict_s": ("evict_", "_s"), "tpot_mean_s": ("tpot_", "_s"),
          "peak_bytes": ("peak_", "_bytes"), "steady_bytes": ("steady_", "_bytes")}
others = {"tpot_first_s", "tpot_mean_s", "tpot_last_s"}
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
for r in rows:
    for total, (head, tail) in totals.items():
        parts = [c for c in r if c.startswith(head) and c.endswith(tail) and c != total and c not in others]
        assert len(parts) >= 6, (total, parts)
        if r["status"] != "ok":
            assert r[total] == "" and not any(r[c] for c in parts), (r["policy"], total)
            continue
        want, got = float(r[total]), sum(float(r[c]) for c in parts)
        assert abs(want - got) <= 1e-9 * abs(want), (r["policy"], r["machine"], r["profile"], total, want, got)
    if r["status"] == "ok":
        assert abs(float(r["ttft_s"]) - float(r["prefill_s"]) - float(r["evict_s"])) <= 1e-9 * float(r["ttft_s"])
print(len(rows))
PY

# ---- the headline

h100 -p lookaheadkv,snapkv,speckv,laq,h2o -b 128 --length 4Ki,8Ki,16Ki,32Ki --profile as-published
exits 0
silent err
[ "$(grep -c '^POLICY .* FUSED ms PUBLISHED ms RATIO' out)" -eq 4 ] || fail "$ran: not four tables of time"
[ "$(awk '{ if (length($0) > 80) n++ } END { print n + 0 }' out)" -eq 0 ] ||
    fail "$ran: wider than 80 columns: $(awk 'length($0) > 80' out | head -n 1)"
says out "llama-3.1-8b on h100-sxm: 32768 + 256 tokens, batch 1, times as-published"
# LookaheadKV (arXiv 2603.10899): 38.04 ms are 2.16 % of 1760 ms; LAQ takes 14.5 times as long.
h100 -p lookaheadkv,laq -b 128 --length 32Ki --json
exits 0
parses
jq -e '[.rows[] | select(.profile == "as-published") | {key: .policy, value: .}] | from_entries as $r |
    ($r.lookaheadkv.evict_s | . > 0.0375 and . < 0.0385) and
    ($r.lookaheadkv.evict_frac | . > 0.0210 and . < 0.0222) and
    ($r.laq.evict_s / $r.lookaheadkv.evict_s | . > 14.5 and . < 15) and
    $r.laq.draft_tokens == 32 and $r.full.evict_s == 0' out >/dev/null ||
    fail "$ran: not the published ratio"
# Fused: 4.7 and 54 ms (cost-model page, 7.6), with 8 drafts.
jq -e '[.rows[] | select(.profile == "fused") | {key: .policy, value: .}] | from_entries as $r |
    ($r.lookaheadkv.evict_s | . > 0.0045 and . < 0.0049) and
    ($r.laq.evict_s | . > 0.052 and . < 0.058) and $r.laq.draft_tokens == 8' out >/dev/null ||
    fail "$ran: not the fused times"
jq -e 'all(.rows[]; .assumed == (if .policy == "full" then 0 else 1 end) and .trace_id == "")' out >/dev/null ||
    fail "$ran: not marked as assumed"

# With 32 drafts under a captured graph: 207 ms (cost-model page, 7.6), and so many as published.
h100 -p lookaheadkv,laq -b 128 --length 32Ki --draft-tokens 32 --json
exits 0
jq -e '[.rows[] | select(.policy == "laq")] | length == 2 and all(.[]; .draft_tokens == 32) and
    (.[] | select(.profile == "fused") | .evict_s | . > 0.203 and . < 0.212) and
    (.[] | select(.profile == "as-published") | .evict_s | . > 0.55 and . < 0.57)' out >/dev/null ||
    fail "$ran: not 32 drafts"

# What is least stands below the table, beside what the dense cache takes.
h100 -p lookaheadkv,snapkv,laq -b 128 --length 32Ki
says out "LEAST    eviction 1.60 ms: snapkv at 128; decode step"
says out "BAND %   ttft -35 to +35"

# The theory's own eviction: 1.74 ms are 0.10 % (LookaheadKV, table 15), on any machine.
h100 -p lookaheadkv,snapkv -b 128 --length 32Ki --profile paper-lkv
says out "THEORY ms"
says out "1.74 0.099%"

# Both profiles stand side by side, whichever is shown.
for profile in fused as-published paper-lkv; do
    h100 -p lookaheadkv,laq -b 128 --length 32Ki --profile $profile
    exits 0
    says out "4.66 0.38%"
    says out "38.0 2.18%"
    says out "times $profile"
    says out "DRAFT    laq: 8 tokens fused, 32 published, by the model itself."
    says out "NOTE     all rows: slots by the policy's own rule"
done

# ---- CSV

h100 -p all -b 5%,256 --length 2Ki,8Ki --batch 1,8 --machine h100,l4 --csv tables -q
exits 0
python3 sums.py tables/cost.csv >count || fail "$ran: parts do not sum to their totals"
[ "$(cat count)" -gt 500 ] || fail "$ran: only $(cat count) rows"
jq -e '.tableSchema.columns | length > 60' tables/cost.csv-metadata.json >/dev/null || fail "$ran: metadata"
says out "skipped  policy think: keys are half of the bytes"
cp out table
for threads in 1 4; do
    h100 -p all -b 5%,256 --length 2Ki,8Ki --batch 1,8 --machine h100,l4 --csv - -j $threads
    exits 0
    silent err
    cmp -s out tables/cost.csv || fail "$ran: other bytes than before"
done
h100 -p snapkv --json --csv -
exits 2
h100 -p snapkv --csv /dev/null/x
exits 1
silent out

# A German locale changes no byte.
if command -v localedef >/dev/null && localedef -i de_DE -f UTF-8 "$scratch/de_DE.UTF-8" >/dev/null 2>&1; then
    LOCPATH=$scratch LC_ALL=de_DE.UTF-8 run "$kvt" cost --geometry llama-3.1-8b --machine h100,l4 -p all \
        -b 5%,256 --length 2Ki,8Ki --batch 1,8 --csv german
    exits 0
    cmp -s german/cost.csv tables/cost.csv || fail "$ran: other numbers"
    cmp -s out table || fail "$ran: another table"
fi

# ---- options that change what is counted

peak() { # peak OPTION...: of the dense cache at 8Ki
    h100 -p snapkv -b 128 --length 8Ki --json "$@"
    exits 0
    jq '[.rows[] | select(.policy == "full" and .profile == "fused")][0].peak_bytes | floor' out
}
more() { # more NAME A B
    [ "$2" -gt "$3" ] || fail "$1: expected more than $3 bytes, got $2"
}
plain=$(peak)
more "--weight-bits 4" "$plain" "$(peak --weight-bits 4)"
more "--kv-bits 8" "$plain" "$(peak --kv-bits 8)"
more "--tensor 2" "$plain" "$(peak --tensor 2)"
more "--batch 4" "$(peak --batch 4)" "$plain"
more "--prefill-batch 1" "$(peak --batch 4)" "$(peak --batch 4 --prefill-batch 1)"
more "--all-logits" "$(peak --all-logits)" "$plain"
more "--fragmentation" "$(peak --fragmentation 0.1)" "$plain"
snap() { # snap COLUMN OPTION...: of snapkv at 8Ki, as-published
    column=$1
    shift
    h100 -p snapkv -b 128 --length 8Ki --json "$@"
    jq "[.rows[] | select(.policy == \"snapkv\" and .profile == \"as-published\")][0].$column | floor" out
}
more "--masked" "$(snap steady_kv_bytes --masked)" "$(snap steady_kv_bytes)"
more "--page" "$(snap steady_kv_bytes --page 256)" "$(snap steady_kv_bytes)"
[ "$(snap response_tokens --response 7)" -eq 7 ] || fail "--response 7 is not what was decoded"
h100 -p speckv -b 128 --length 8Ki --draft llama-3.2-3b --json
jq -e '.rows[] | select(.policy == "speckv") | .draft_geometry == "llama-3.2-3b"' out >/dev/null ||
    fail "$ran: another draft"
cost --geometry qwen3-8b --machine l4 -p kvpop:from=decisions -b 260,261 --length 8Ki
says out "a budget of 261 or more, got 260"

# What was set is said; a batch that does not fit says how many requests do.
h100 -p snapkv,streaming,h2o -b 10% --length 32Ki --batch 32 --kv-bits 8 --chunk 4096 --page 16 --shared-pages
exits 0
said=$(sed -n '/^SETTING/,/^BUDGET/p' out | tr -s ' \n' '  ')
case $said in
*"8-bit keys and values, prefill in chunks of 4096 tokens, pages of 16 tokens of all kv heads. BUDGET"*) ;;
*) fail "$ran: SETTING is '$said'" ;;
esac
grep -Eq 'batch [0-9]+, [0-9.]+ short' out || fail "$ran: not how many fit, and what is missing"
says out "BATCH    all prompts are read together"
says out "NOTE     1 of 2 rows whose batch does not fit would with --prefill-batch 1."
[ "$(awk '{ if (length($0) > 80) n++ } END { print n + 0 }' out)" -eq 0 ] || fail "$ran: wider than 80 columns"

# The same batch, its prompts one by one: what is short fits, save the dense cache.
h100 -p snapkv,streaming,h2o -b 10% --length 32Ki --batch 32 --prefill-batch 1
says out "SETTING  prompts read 1 at a time."
says out "BATCH    at most 1 prompt is read together"
[ "$(grep -c short out)" -eq 1 ] || fail "$ran: more than full is short"
h100 -p snapkv -b 10% --length 32Ki --batch 2,32 --prefill-batch 4 --json # capped at the batch
jq -e '[.rows[] | [.batch, .prefill_batch]] | unique == [[2, 2], [32, 4]]' out >/dev/null || fail "$ran: prefill_batch"

# The rows say so, too.
h100 -p snapkv -b 128 --length 8Ki --chunk 4096 --page 16 --shared-pages --full-windows --all-logits --masked \
    --fragmentation 0.05 --json
jq -e 'all(.rows[]; .chunk_tokens == 4096 and .page_tokens == 16 and .shared_pages == 1 and .full_windows == 1 and
    .all_logits == 1 and .masked == 1 and .fragmentation_frac == 0.05)' out >/dev/null || fail "$ran: another setting"

# ---- lists, figures, help

for list in geometries machines; do
    cost --list $list
    exits 0
    cost --list $list --json
    parses
    jq -e '.rows | length >= 17' out >/dev/null || fail "$ran: too few"
done
cost --published
exits 0
says out "LookaheadKV"
cost --published --json
parses
jq -e '.rows | length > 100' out >/dev/null || fail "$ran: too few figures"
run "$kvt" __complete geometry
says out "llama-3.1-8b"
run "$kvt" __complete machine
says out "h100-sxm"

# A step out of the last-level cache and a length far from the calibration's are marked, in both.
cost --geometry smollm2-135m --machine rtx-pro-6000,h20-dapq -p snapkv -b 64 --length 512,16Ki --weight-bits 4
exits 0
grep -q '^full .* c *$' out || fail "$ran: no step is marked as resident"
cost --geometry smollm2-135m --machine rtx-pro-6000,h20-dapq -p snapkv -b 64 --length 512,16Ki --weight-bits 4 --json
jq -e '[.rows[] | select(.profile == "fused")] | all(.[]; .out_of_range == (if .machine == "h20-dapq" then 1 else 0 end)) and
    any(.[]; .cache_resident == 1) and any(.[]; .cache_resident == 0)' out >/dev/null ||
    fail "$ran: wrong marks"

# ---- machines

# A machine as it is, to be edited, predicts what its name does.
cost --machine l40s --save card.json
exits 0
jq -e '.mem_bw == [864e9, "vendor"] and .name == "l40s"' card.json >/dev/null || fail "$ran: another machine"
cost --machine l40s --save card.json --json -q
exits 0
parses
jq -e '.machine == "l40s" and .written == "card.json"' out >/dev/null || fail "$ran: not what was written"
cost --geometry qwen3-8b --machine l40s -p all -b 10% --length 8Ki --csv -
cp out named
cost --geometry qwen3-8b --machine card.json -p all -b 10% --length 8Ki --csv -
cmp -s out named || fail "$ran: not what l40s predicts"

# Times to the first token of an H20 (DapQ, arXiv 2603.11564).
cat >points.csv <<'CSV'
quantity,geometry,prompt_tokens,seconds
prefill,llama-3.1-8b,8192,1.1106
prefill,llama-3.1-8b,131072,60.8399
CSV
cost --machine h20 --calibrate points.csv --save mine.json
exits 0
cost --geometry llama-3.1-8b --machine mine.json -p snapkv -b 128 --length 32Ki --json
exits 0
# No file holds a band that it cannot be read with: points of nonsense are fitted as they are.
printf 'quantity,geometry,prompt_tokens,seconds\n' >nonsense.csv
printf 'prefill,llama-3.1-8b,%s,0.00001\n' 4096 32768 >>nonsense.csv
cost --machine h100 --calibrate nonsense.csv --save nonsense.json
exits 0
says out "clamped"
cost --geometry llama-3.1-8b --machine nonsense.json -p snapkv --length 4Ki
exits 0
cost --geometry llama-3.1-8b --machine mine.json -p snapkv -b 128 --length 32Ki --json
# Held out: 6.5718 s were measured at 32Ki.
jq -e '.rows[] | select(.policy == "full" and .profile == "fused") | .prefill_s | . > 6.45 and . < 6.7' \
    out >/dev/null || fail "$ran: not the calibrated prefill"
mkdir -p cache/kvt && cp mine.json cache/kvt/machine-here.json
cp out named
cost --geometry llama-3.1-8b --machine here -p snapkv -b 128 --length 32Ki --json
exits 0
cmp -s out named || fail "$ran: here is not the file in the cache"
cost --geometry llama-3.1-8b -p snapkv -b 128 --length 32Ki --json
cmp -s out named || fail "$ran: here is not the default where it was measured"
rm cache/kvt/machine-here.json
cost --geometry llama-3.1-8b -p snapkv -b 128 --length 32Ki --json
jq -e 'all(.rows[]; .machine == "h100-sxm")' out >/dev/null || fail "$ran: another default machine"

# ---- refused

model="--geometry llama-3.1-8b --machine h100"
# shellcheck disable=SC2086
{
    bad 2 "a model is missing" -p snapkv
    bad 2 "did you mean 'llama-3.1-8b'?" --geometry llama-3.1-8c
    bad 2 "no machine 'h101' (did you mean 'h100'?)" --geometry llama-3.1-8b --machine h101
    bad 1 "nothing.json" --geometry nothing.json
    bad 1 "nothing.gguf" --geometry nothing.gguf
    bad 1 "kvt doctor --bench" --geometry llama-3.1-8b --machine here
    bad 2 "two of them are named 'h100-sxm'" --geometry llama-3.1-8b --machine h100,h100-sxm
    bad 2 "length '4Kb'" $model --length 4Kb
    bad 2 "length '0'" $model --length 0
    bad 2 "--batch: '0'" $model --batch 0
    bad 2 "--prefill-batch: '0' is not a whole number from 1" $model --prefill-batch 0
    bad 2 "--kv-bits: '5' is not one of 16, 8, 4" $model --kv-bits 5
    bad 2 "--weight-bits" $model --weight-bits 0
    bad 2 "--page: '-1' is not a whole number from 1" $model --page -1
    bad 2 "--shared-pages needs --page" $model --shared-pages
    bad 2 "--tensor" $model --tensor 0
    bad 2 "keeps nothing" $model -b 0
    bad 2 "takes 131072 bytes" $model -b 100KiB
    bad 2 "no policy 'snapvk' (did you mean 'snapkv'?)" $model -p snapvk
    bad 2 "is not one of floor_exact" $model --budget-rule flor
    bad 2 "no geometry 'nope'" $model --draft nope
    bad 2 "--slo needs --results" $model --slo ttft=2s
    bad 2 "--save: expected one --machine, got 2" --machine h100,l4 --save x.json
    bad 2 "each stand alone" --results results --save x.json
    bad 1 "cannot write" --machine h100 --save nowhere/x.json
    bad 2 "each stand alone" --published --list machines
    bad 2 "each stand alone" --machine h100 --calibrate points.csv -p snapkv
    bad 2 "expected geometries or machines" --list policies
    bad 1 "nowhere" --results nowhere
    bad 1 "nothing.csv" --machine h100 --calibrate nothing.csv
    # 70.55e9 weights of 2 bytes are 141.1 GB, the card has 25.8 GB.
    bad 3 "GiB) short" --geometry llama-3.1-70b --machine rtx-4090
    bad 3 "141.1 GB" --geometry llama-3.1-70b --machine rtx-4090
}
cost --geometry llama-3.1-70b --machine rtx-4090,h200 -p snapkv -b 128 --length 4Ki
exits 0
says out "short"

# ---- of traces and replays

sample_trace
mkdir few && cp "$trace" few/one.h5
second=$(find "$source_dir/traces/samples" -maxdepth 1 -name '*.h5' | LC_ALL=C sort | sed -n 2p)
[ -n "$second" ] && cp "$second" few/two.h5
cost few --machine h100 -p snapkv,streaming -b 10% --json
exits 0
jq -e '[.rows[].trace_id] | unique | . == ["one", "two"]' out >/dev/null || fail "$ran: other traces"
jq -e 'all(.rows[]; .assumed == (if .policy == "full" then 0 else 1 end))' out >/dev/null || fail "$ran: not assumed"

replay() { run "$kvt" replay few/*.h5 -p snapkv,streaming,speckv -b 10%,25% --no-output-error -q --out results "$@"; }
replay --geometry llama-3.1-8b --machine rtx-4090 --csv replayed
exits 0
says out "LOST MASS"
says out "llama-3.1-8b on"
says out "NOTE     all rows: slots counted on another model, or on some of the layers."
grep -Eq '^LEAST    eviction [0-9.]+ ms: streaming at 10%' out || fail "$ran: a control is no policy"
python3 sums.py replayed/cost.csv >count || fail "$ran: parts do not sum to their totals"
# Slots are those of the cells of the same run.
python3 - replayed <<'PY' || fail "cost.csv: other slots than cells.csv"
import csv, sys
cells = {r["run_id"]: r for r in csv.DictReader(open(sys.argv[1] + "/cells.csv", newline=""))}
rows = [r for r in csv.DictReader(open(sys.argv[1] + "/cost.csv", newline="")) if r["run_id"]]
assert len(rows) == 2 * sum(c["status"] == "ok" for c in cells.values()), len(rows)
for r in rows:
    c = cells[r["run_id"]]
    assert r["policy"] == c["policy"] and r["mapped"] == "1" and r["assumed"] == "0", r
    assert abs(float(r["kept_tokens_mean"]) - float(c["kept_tokens_mean"])) < 1e-6 * float(c["prompt_tokens"]), r
PY
cp replayed/cost.csv first.csv
cost --results results --geometry llama-3.1-8b --machine rtx-4090 --csv again
exits 0
cmp -s again/cost.csv first.csv || fail "$ran: other rows than those of the replay"
# Each step's slots are read, whether the replay kept them in memory or not: those of a policy that
# decides every 16 tokens are no straight line.
steps() { run "$kvt" replay few/one.h5 -p snapkv:every=16 -b 10% --no-output-error -q --out steps --geometry llama-3.1-8b --machine h100 "$@"; }
steps --csv kept --table cells,steps
exits 0
steps --csv dropped
exits 0
cmp -s kept/cost.csv dropped/cost.csv || fail "$ran: steps are lost where arrays are not kept"
cost --results steps --geometry llama-3.1-8b --machine h100 --csv read
exits 0
cmp -s kept/cost.csv read/cost.csv || fail "$ran: steps are lost in the results"
replay --geometry llama-3.1-8b --machine rtx-4090 --json
exits 0
parses
jq -e '.costs | length > 0' out >/dev/null || fail "$ran: no costs"
run "$kvt" replay few/one.h5 -p snapkv -b 10% --out none --geometry llama-9
exits 2
[ -e none ] && fail "$ran: ran before it read its options"

cost --results results --machine h100 --json
# The samples hold three of the model's layers.
jq -e 'all(.rows[]; .scaled == 0 and .assumed == 0 and .mapped == (if .run_id == "" then 0 else 1 end))' \
    out >/dev/null || fail "$ran: wrong marks"
cost --results results --geometry llama-3.1-8b --machine h100 --length 32Ki --json
jq -e '[.rows[] | select(.run_id != "") | .mapped * .scaled] | (length > 0 and all(. == 1))' out >/dev/null ||
    fail "$ran: is not marked"
cost --results results --geometry llama-3.1-8b --machine h100 --slo ttft=2s,tpot=15ms
exits 0
says out "take"
says out "margin"
run "$kvt" replay few/one.h5 -p streaming -b 10% --no-output-error -q --out alone
exits 0
cost --results alone --geometry llama-3.1-8b --machine h100 --slo ttft=2s
exits 0
says out "class     open-loop: "
cost --results results --geometry llama-3.1-8b --machine h100 --slo ttft=2s,tpot=15ms --json --csv chosen -q
exits 0
parses
# The rows of the choice are a table, too; one of them is taken.
python3 - chosen/selection.csv out <<'PY' || fail "$ran: selection.csv is another choice"
import csv, json, sys
rows, made = list(csv.DictReader(open(sys.argv[1], newline=""))), json.load(open(sys.argv[2]))
assert [r["policy"] for r in rows] == [r["policy"] for r in made["rows"]]
won = [r for r in rows if r["is_winner"] == "1"]
assert [(r["policy_label"], r["budget_asked"]) for r in won] == \
    [(w["policy"], w["budget_asked"]) for w in made["winners"]] and len(won) == 1, won
PY
cost --results results --machine h100 --slo ttft=1us
exits 3
says out "take      nothing meets the limits; nearest is"
[ "$(grep -c '^full' out)" -eq 1 ] || fail "$ran: the dense cache is more than one row"
# On 80 columns what misses stands below its row.
COLUMNS=80 run "$kvt" cost --results results --machine h100 --geometry llama-3.1-8b --slo ttft=1us,peak=1MiB
exits 3
[ "$(sed '/^brackets/,$d' out | awk '{ if (length($0) > 80) n++ } END { print n + 0 }')" -eq 0 ] ||
    fail "$ran: a table wider than 80 columns"
bad 2 "foo" --results results --slo foo=1
bad 2 "expected at least one, as ttft=2s" --results results --slo ""
bad 2 "--act does not go with it" --results results --act decode
bad 2 "foo" --results results --axis foo
bad 2 "brings its policies" --results results -p snapkv
bad 2 "got both" --results results few/one.h5

# Cells that were all skipped leave nothing to price.
run "$kvt" replay few/one.h5 -p streaming -b 2 --no-controls --out skipped -q
exits 3
cost --results skipped --machine h100
exits 1

finish
