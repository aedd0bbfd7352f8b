#!/bin/bash
# test_stop.sh BALLAST - a sweep that is stopped says what it kept and how to go on; the counts of the
# same command afterwards add up.
set -u
ballast=$1
sweep=$(dirname "$0")/../data/sweep/small-sweep.json
scratch=$(mktemp -d) || exit 1
trap 'rm -r "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$ballast" sweep "$sweep" --quiet --jobs 1 --no-prune --db "$scratch/sweep.db" > /dev/null 2> "$scratch/err" &
pid=$!
for ((i = 0; i < 3000; i++)); do # until the database is begun
    [ -s "$scratch/sweep.db" ] && break
    sleep 0.01
done
kill -TERM $pid || fail "the sweep had ended"
wait $pid
[ $? -eq 143 ] || fail "not ended by the signal"
grep -q "stopped: what was priced is in $scratch/sweep.db; the same command goes on" "$scratch/err" ||
    fail "said: $(cat "$scratch/err")"

"$ballast" sweep "$sweep" --quiet --db "$scratch/whole.db" --top 0 > /dev/null || fail "whole sweep"
"$ballast" sweep "$sweep" --quiet --db "$scratch/whole.db" --top 0 > "$scratch/again.txt" || fail "again"
valid=$(sed -n 's/.*configurations, \([0-9,]*\) valid.*/\1/p' "$scratch/again.txt" | tr -d ,)
raced=$(sed -n 's/^  raced \([0-9,]*\), pruned.*/\1/p' "$scratch/again.txt" | tr -d ,)
pruned=$(sed -n 's/.*, pruned \([0-9,]*\) (.*/\1/p' "$scratch/again.txt" | tr -d ,)
known=$(sed -n 's/.*(\([0-9,]*\) of them known.*/\1/p' "$scratch/again.txt" | tr -d ,)
if [ $((raced + pruned)) -ne "$valid" ] || [ "$known" -ne "$valid" ]; then
    fail "$(head -n 2 "$scratch/again.txt")"
fi
echo "stopped and said so; $raced raced and $pruned pruned are the $valid valid"
