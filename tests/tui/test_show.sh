#!/bin/sh
# kvt show and kvt tui without a terminal: what a fresh trace shows, what is refused, other locales.
# Arguments: KVT SOURCE-DIR MAKE_TRACE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
make_trace=$3
cd "$scratch" || exit 1

"$make_trace" a.h5 120 12 3 || exit 1
"$make_trace" "it's %s.h5" 60 6 2 hostile || exit 1

# A fresh trace is replayed, and that is said; the results are kept.
run "$kvt" show a.h5
exits 0
says err "replaying snapkv,h2o,streaming,tova at 10%,25%"
says out "kvt  a > overview"
says out "worst step"
cp out first
[ -d kvt-results ] || fail "no results were kept"
[ "$(wc -l <out)" -eq 30 ] || fail "expected 30 lines"
run "$kvt" show a.h5
exits 0
silent err
cmp -s out first || fail "the second time it differs"

# The same picture from the browser without a terminal.
run "$kvt" tui a.h5 --dump -
exits 0
cmp -s out first || fail "tui --dump differs from show"
run "$kvt" tui a.h5 --size 80x24 --dump dump.txt
exits 0
silent out
run "$kvt" show a.h5 --width 80 --height 24
cmp -s out dump.txt || fail "tui --size differs from show --width --height"

# y names the command that prints the view.
printf 'L1G1\nstep 3\nlane\ntoken 20\nshow\n' >keys
run "$kvt" tui a.h5 --script keys --dump - --size 120x30 --log log
exits 0
says out "kvt show a.h5 --screen lane --lane 1:1 -p h2o -b 10% --step 3 --token 20"
run "$kvt" show a.h5 --screen lane --lane 1:1 -p h2o -b 10% --step 3 --token 20 --width 120
exits 0
grep -v "kvt show a.h5\|evicted tokens carry\|nothing is regretted" out >shown
printf 'L1G1\nstep 3\nlane\ntoken 20\n' >keys
run "$kvt" tui a.h5 --script keys --dump - --size 120x30
grep -v "^ token 20" out | grep -v "evicted tokens carry\|nothing is regretted" >browsed
[ "$(grep -c '|' shown)" -eq "$(grep -c '|' browsed)" ] || fail "the view differs from its command's"
cmp -s log - <<END || fail "the log is not the script: $(cat log)"
L1G1
step 3
lane
token 20
show
END

# What is missing is computed: another policy, another budget.
run "$kvt" show a.h5 -p tova -b 48
exits 0
says err "replaying tova"
says out "asked 48 = 48 slots"
run "$kvt" show a.h5 -p tova -b 48
exits 0
silent err
printf 'policy streaming\nbudget 40\nrun\n' >keys
run "$kvt" tui a.h5 --script keys --dump -
exits 0
says out "at 40 is computed"
says out "streaming (open-loop)  40"

# A cell that is below what its policy protects says so.
run "$kvt" show a.h5 -p snapkv -b 4
exits 0
says out "was skipped"

# Results of another trace in the folder are not taken for these.
run "$kvt" show "it's %s.h5" --screen lane
exits 0
says out "it's %s"
printf 'lane\nshow\n' >keys
run "$kvt" tui "it's %s.h5" --script keys --dump - --size 150x30
says out "kvt show 'it'\\''s %s.h5'"

# Text with its states.
run "$kvt" show a.h5 --lane 0:0 --tokens 10-30 --markers
exits 0
says out "L00 G0"
[ "$(sed 1d out | grep -c '^ *[0-9][0-9]* |')" -eq "$(grep -c '^      |' out)" ] ||
    fail "not every line of text has its line of states"
run "$kvt" show a.h5 --tokens 10-30
exits 0
grep -q '^      |' out && fail "states were not asked for"

# Several traces: the list, and results among the files are passed over.
run "$kvt" tui a.h5 "it's %s.h5" kvt-results/*/*.h5 no-such.h5 --dump -
exits 0
says out "3 traces"
says out "no-such.h5"
printf 'down\nup\ninto\nlane\n' >keys
run "$kvt" tui a.h5 "it's %s.h5" --script keys --dump -
exits 0
says out "kvt  a > L"

# Asked wrongly.
run "$kvt" show a.h5 -p tvoa
exits 2
silent out
says err "no policy 'tvoa'"
run "$kvt" show a.h5 --lane 9:0
exits 2
says err "layers 0 to 2, heads 0 to 1"
run "$kvt" show a.h5 --lane x
exits 2
run "$kvt" show a.h5 --step 12
exits 2
says err "steps 0 to 11"
run "$kvt" show a.h5 --token 132
exits 2
says err "tokens 0 to 131"
run "$kvt" show a.h5 --tokens 5-4
exits 2
run "$kvt" show a.h5 --screen nonsense
exits 2
run "$kvt" show a.h5 --metric nonsense
exits 2
says err "lost, regret, kl"
run "$kvt" show a.h5 -b 0
exits 2
run "$kvt" show no-such.h5
exits 1
says err "no-such.h5"
run "$kvt" tui a.h5 --size 10
exits 2
run "$kvt" tui a.h5
exits 2
says err "kvt show a.h5"
printf 'stpe 3\n' >keys
run "$kvt" tui a.h5 --script keys --dump -
exits 2
says err "keys line 1"

# C064: other locales and --ascii have no byte above 126, and the same number of lines.
for locale in C POSIX en_US.ISO-8859-1 no_SUCH.locale; do
    LC_ALL=$locale run "$kvt" show "it's %s.h5" --screen lane
    exits 0
    LC_ALL=C grep -q '[^ -~]' out && fail "LC_ALL=$locale: a byte that is no ASCII"
    [ "$(wc -l <out)" -eq 30 ] || fail "LC_ALL=$locale: expected 30 lines"
done
run "$kvt" show a.h5 --ascii
exits 0
LC_ALL=C grep -q '[^ -~]' out && fail "--ascii: a byte that is no ASCII"

# A damaged result is passed over with a word, and computed again where it is looked at.
cp -r kvt-results damaged
for file in damaged/a-*/*; do dd if=/dev/zero of="$file" bs=1 seek=100 count=400 conv=notrunc 2>/dev/null; done
# (HDF5 keeps memory of a file that it refuses: a sanitizer is not to fail on it.)
ASAN_OPTIONS=detect_leaks=0 run "$kvt" show a.h5 --results damaged -p h2o -b 10%
exits 0
says err "kvt-results.h5"
says out "h2o (open-loop)  10%"
printf 'kvt' >not-results
run "$kvt" show a.h5 --results not-results
exits 1

# A folder that cannot be written is no hindrance.
mkdir sealed && cp a.h5 sealed/b.h5 && chmod 555 sealed
run "$kvt" show sealed/b.h5 --screen lane
exits 0
chmod 755 sealed

# Loss less what stands beside it is the regret, of the oracle with these slots or of the best
# schedule.
for use in snapkv:window=4 snapkv/ada:window=4 tova h2o; do
    run "$kvt" show a.h5 -p "$use" -b 25%
    exits 0
    sed -n 's/^ lost mass \([0-9.]*\)   [a-z ]* \([0-9.]*\)   regret \([0-9.]*\).*/\1 \2 \3/p' out |
        awk '{ n++; d = $1 - $2 - $3; if (d > 0.0016 || d < -0.0016) exit 1 } END { exit n != 1 }' ||
        fail "show $use: loss, bound and regret do not add up: $(grep '^ lost mass' out | head -n 1)"
done
run "$kvt" show a.h5 -p tova -b 25%
says out "best schedule 0."

# What evicts nothing is not said to evict; settings that were typed belong to the name.
run "$kvt" show a.h5 -p quest:page=4 -b 50%
exits 0
says out "quest:page=4 (open-loop)"
says err "replaying quest:page=4 at 50%"
says out "evicts nothing: each row reads some of the slots"
says out "of its attention went to tokens it did not read"
grep -q "evicted" "$scratch/out" && fail "show says that quest evicts"
run "$kvt" show a.h5 -p think:window=8 -b 75%
exits 0
says out "evicts nothing: all tokens stay, with fewer channels in their keys"
says out "channels of a key: "
says out "no mass is lost; relative error of the output here: -"

finish
