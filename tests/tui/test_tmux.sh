#!/bin/sh
# The browser in a real terminal multiplexer, driven as a person does: keys, resize, Ctrl-Z and fg,
# kill; the terminal's settings before and after. Waits for text, never for time.
# Arguments: KVT SOURCE-DIR MAKE_TRACE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
make_trace=$3
command -v tmux >/dev/null || skip "there is no tmux"
cd "$scratch" || exit 1
"$make_trace" a.h5 120 12 3 || exit 1
"$kvt" show a.h5 >/dev/null 2>&1 || fail "kvt show a.h5"

mux() { tmux -L "kvt-test-$$" -f /dev/null "$@"; }
seen() { mux capture-pane -p -t kvt; }
trap 'mux kill-server 2>/dev/null; rm -rf "$scratch"' EXIT
mux new-session -d -s kvt -x 100 -y 30 "env -i PATH='$PATH' TERM=\$TERM LC_ALL=C.UTF-8 PS1='ready> ' sh -i" ||
    skip "tmux does not start here"

wait_for() { # wait_for TEXT: on the screen, within 20 s
    checked=$((checked + 1))
    tries=0
    until seen | grep -qF -- "$1"; do
        tries=$((tries + 1))
        if [ $tries -gt 200 ]; then
            fail "waited for '$1', the screen is"
            seen | sed 's/^/    /'
            finish
        fi
        sleep 0.1
    done
}

wait_for "ready>"
mux send-keys -t kvt "stty -g >before; clear" Enter
mux send-keys -t kvt "'$kvt' tui a.h5" Enter
wait_for "slots a lane"
wait_for "[2 Overview]"
mux send-keys -t kvt Enter
wait_for "[3 Lane]"
mux send-keys -t kvt ":step 3" Enter
wait_for "step 3/12"
mux send-keys -t kvt "/river" Enter
wait_for " of 5; n and N"
mux send-keys -t kvt Escape
wait_for "search ended"
mux send-keys -t kvt "?"
wait_for "kvt  help"
mux send-keys -t kvt Escape
wait_for "[3 Lane]"

mux resize-window -t kvt -x 60 -y 15
wait_for "3/12 lost"
mux resize-window -t kvt -x 39 -y 9
wait_for "kvt needs at least 40x10"
mux resize-window -t kvt -x 120 -y 40
wait_for "[3 Lane]"
wait_for "step 3/12"

# Ctrl-Z gives the shell back, fg the screen.
mux send-keys -t kvt C-z
wait_for "ready>"
mux send-keys -t kvt "echo in-the-shell" Enter
wait_for "in-the-shell"
mux send-keys -t kvt "fg" Enter
wait_for "[3 Lane]"
wait_for "step 3/12"

mux send-keys -t kvt Q
wait_for "ready>"
mux send-keys -t kvt "echo left=\$?" Enter
wait_for "left=0"
mux send-keys -t kvt "stty -g >after; cmp before after; echo settings=\$?" Enter
wait_for "settings=0"

# Killed from outside.
for signal in TERM HUP SEGV; do
    mux send-keys -t kvt "clear; '$kvt' tui a.h5 & echo \$! >pid; fg" Enter
    wait_for "slots a lane"
    kill -s "$signal" "$(cat pid)"
    wait_for "ready>"
    mux send-keys -t kvt "clear; stty -g >after; cmp before after; echo after-$signal=\$?" Enter
    wait_for "after-$signal=0"
done

# Without colours, as NO_COLOR asks: no colour in what it writes.
mux send-keys -t kvt "clear; NO_COLOR=1 '$kvt' tui a.h5 --screen lane" Enter
wait_for "[3 Lane]"
mux capture-pane -p -e -t kvt | grep -q '38;5' && fail "NO_COLOR=1: there are colours"
mux send-keys -t kvt Q
wait_for "ready>"
finish
