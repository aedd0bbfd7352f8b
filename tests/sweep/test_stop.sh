#!/bin/bash
# test_stop.sh BALLAST - a sweep that is stopped says what it kept and how to go on, and leaves one
# plain file; the counts of the same command afterwards add up. A run that is stopped leaves nothing
# of a new database, and a database of before as it was.
set -u
ballast=$1
sweep=$(dirname "$0")/../data/sweep/small-sweep.json
scratch=$(mktemp -d) || exit 1
trap 'rm -r "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$ballast" sweep "$sweep" --quiet --jobs 1 --no-prune --db "$scratch/sweep.db" > /dev/null 2> "$scratch/err" &
pid=$!
for ((i = 0; i < 3000; i++)); do # until the sweep is begun
    "$ballast" export sweep --db "$scratch/sweep.db" 2> /dev/null | grep -q small && break
    sleep 0.01
done
kill -TERM $pid || fail "the sweep had ended"
wait $pid
[ $? -eq 143 ] || fail "not ended by the signal"
grep -q "stopped: what was priced is in $scratch/sweep.db; the same command goes on" "$scratch/err" ||
    fail "said: $(cat "$scratch/err")"
[ "$(cd "$scratch" && echo sweep*)" = sweep.db ] || fail "left $(cd "$scratch" && echo sweep*)"
# What was stored is in the file itself, without its log.
cp "$scratch/sweep.db" "$scratch/copy.db"
"$ballast" export sweep --db "$scratch/copy.db" > /dev/null || fail "the copy does not open"

# Half a minute of work, stopped once the database is open: a new one has its log then, one of before
# nothing to see.
long=$(dirname "$0")/../../scenarios/examples/internvl-6b-20b-isf.json
stop() { # DB WORD... of the command that writes it
    local db=$1
    shift
    "$ballast" "$@" > /dev/null &
    pid=$!
    for ((i = 0; i < 1000; i++)); do
        [ -e "$db-wal" ] && break
        sleep 0.01
    done
    kill -TERM $pid || fail "$1 had ended"
    wait $pid
    [ $? -eq 143 ] || fail "$1 was not ended by the signal"
}
stop_run() {
    stop "$1" run "$long" --fidelity operator --quiet --db "$1"
}
stop_run "$scratch/new.db"
[ "$(cd "$scratch" && echo new*)" = "new*" ] || fail "a new database left $(cd "$scratch" && echo new*)"
"$ballast" run "$long" --set simulate.iterations=2 --quiet --db "$scratch/old.db" > /dev/null ||
    fail "run into old.db"
"$ballast" export --digest --db "$scratch/old.db" > "$scratch/before"
stop_run "$scratch/old.db"
[ "$(cd "$scratch" && echo old*)" = old.db ] || fail "left $(cd "$scratch" && echo old*)"
"$ballast" export --digest --db "$scratch/old.db" | cmp -s - "$scratch/before" || fail "old.db changed"

"$ballast" sweep "$sweep" --quiet --db "$scratch/whole.db" --top 0 > /dev/null || fail "whole sweep"
"$ballast" sweep "$sweep" --quiet --db "$scratch/whole.db" --top 0 > "$scratch/again.txt" || fail "again"
# A merge is one transaction, and this one of ten seconds is undone.
mapfile -t parts < <(yes "$scratch/whole.db" | head -n 2000)
stop "$scratch/merged.db" merge "$scratch/merged.db" "${parts[@]}"
[ "$(cd "$scratch" && echo merged*)" = "merged*" ] || fail "a merge left $(cd "$scratch" && echo merged*)"
stop "$scratch/old.db" merge "$scratch/old.db" "${parts[@]}"
[ "$(cd "$scratch" && echo old*)" = old.db ] || fail "a merge left $(cd "$scratch" && echo old*)"
"$ballast" export --digest --db "$scratch/old.db" | cmp -s - "$scratch/before" || fail "old.db changed"
# All shipped rows.
stop "$scratch/rows.db" validate --quiet --db "$scratch/rows.db"
[ "$(cd "$scratch" && echo rows*)" = "rows*" ] || fail "validate left $(cd "$scratch" && echo rows*)"

valid=$(sed -n 's/.*configurations, \([0-9,]*\) valid.*/\1/p' "$scratch/again.txt" | tr -d ,)
raced=$(sed -n 's/^  raced \([0-9,]*\), pruned.*/\1/p' "$scratch/again.txt" | tr -d ,)
pruned=$(sed -n 's/.*, pruned \([0-9,]*\) (.*/\1/p' "$scratch/again.txt" | tr -d ,)
known=$(sed -n 's/.*(\([0-9,]*\) of them known.*/\1/p' "$scratch/again.txt" | tr -d ,)
if [ $((raced + pruned)) -ne "$valid" ] || [ "$known" -ne "$valid" ]; then
    fail "$(head -n 2 "$scratch/again.txt")"
fi
echo "stopped and said so; $raced raced and $pruned pruned are the $valid valid"
