#!/bin/sh
# kvt policy check: the template obeys every law; plug-ins that break one each are told which, and one
# that crashes or hangs is named instead of taking the program with it.
# usage: test_policy_check.sh KVT SOURCE-DIR
. "$(dirname "$0")/lib.sh"
command -v cc >/dev/null 2>&1 || skip "there is no cc"
cd "$scratch" || exit 1

run "$kvt" policy new mine
exits 0
flags=$(sed -n 's/^ \* Build:  cc \(.*\) mine.c -o mine.so$/\1/p' mine.c)
[ -n "$flags" ] || fail "no build line in the template"

# plugin NAME TRAITS BODY: a policy whose score() is BODY.
plugin() {
    cat >"$1.c" <<EOF
#include <math.h>
#include "kvt/pieces.h"
static int64_t seen;
static int64_t window(const void *p, int64_t n) { (void)p; return kvt_min(4, n); }
static void score(const void *p, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)p, (void)pinned, (void)seen;
    for (int64_t s = 0; s < lane->n_slot; s++) { $3 }
}
static void choose(const void *p, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget)
{
    (void)p, (void)score, (void)pinned, (void)budget;
    for (int i = 0; i < n_lane; i++)
        for (int64_t s = 0; s < lane[i].n_slot; s++)
            keep[i][s] = ${4:-true};
}
static const kvt_policy policy = {.abi = KVT_POLICY_ABI, .name = "$1", .title = "a test",
    .paper = "none", .differs = "", .traits = {.phases = KVT_PREFILL, .exactness = KVT_EXACT, $2},
    .window = window, .score = score, .select = ${5:-NULL}};
extern KVT_API const kvt_policy *const kvt_plugin[];
const kvt_policy *const kvt_plugin[] = {&policy, NULL};
void *unused(void); void *unused(void) { return (void *)&choose; }
EOF
    # shellcheck disable=SC2086
    cc $flags "$1.c" -o "$1.so" || fail "$1.c does not build"
}

# shellcheck disable=SC2086
cc $flags mine.c -o mine.so || fail "the template does not build"
run "$kvt" policy check ./mine.so
exits 0
says out "mine"
says out "all 10 laws hold"

plugin sane ".one_ranking = true" "out[s] = (float)(lane->pos[s] % 7);"
run "$kvt" policy check ./sane.so
exits 0

breaks() { # breaks NAME LAW TEXT
    run "$kvt" policy check "./$1.so"
    exits 3
    says out "broken  $2:"
    says out "$3"
    says err "$1.so"
}

plugin nanny ".one_ranking = true" "out[s] = lane->pos[s] == 5 ? NAN : 1;"
breaks nanny runs "expected a finite number"
plugin sneaky ".one_ranking = true" "out[s] = *(const float *)lane->keys.data;"
breaks sneaky runs ""
# A sanitizer ends the process by itself, before a signal does.
grep -qE 'crashed|ends the process' "$scratch/out" || fail "a crash is not called one"
plugin quitter "" "extern void exit(int); if (seen++ > 500) exit(0); out[s] = 1;"
run "$kvt" policy check ./quitter.so
exits 3
says out "ends the process that runs it"
plugin leaky "" "out[s] = (float)((lane->pos[s] * 7919 + seen++) % 101);"
breaks leaky same "differ"
plugin greedy "" "out[s] = 1;" true choose
breaks greedy runs "expected at most"
plugin fickle ".one_ranking = true" \
    "out[s] = (float)(lane->budget > 8 ? -lane->pos[s] : lane->pos[s]);"
breaks fickle ranking "decides otherwise"
plugin partial "" "pinned[s] = s < 2; out[s] = (float)s;" "s >= 2 && s < budget[i] + 2" choose
breaks partial pinned "is pinned and goes"
plugin biased ".one_ranking = true" "out[s] = (float)((lane->group ? 1 : -1) * lane->pos[s]);"
breaks biased lanes "in another order"
plugin empty "" "out[s] = 1;" "s < 0" choose
breaks empty budget "is empty"

run "$kvt" policy check ./none.so
exits 1
run "$kvt" policy check
exits 2
run "$kvt" policy check ./sane.so --json
exits 2

finish
