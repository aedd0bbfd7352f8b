#!/bin/bash
# test_kill.sh BALLAST [KILLS] - kill -9 at random moments of a sweep, again and again; the same
# command goes on, and the database is in the end what an uninterrupted sweep gives.
set -u
ballast=$1 kills=${2:-20}
sweep=$(dirname "$0")/../data/sweep/small-sweep.json
scratch=$(mktemp -d) || exit 1
trap 'rm -r "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$ballast" sweep "$sweep" --db "$scratch/whole.db" --quiet > "$scratch/whole.txt" || fail "whole sweep"
want=$("$ballast" export --digest --db "$scratch/whole.db") || fail "digest of the whole sweep"
RANDOM=${SEED:-1}
hit=0
for ((i = 0; i < kills; i++)); do
    "$ballast" sweep "$sweep" --db "$scratch/killed.db" --jobs $((1 + RANDOM % 3)) --quiet > /dev/null 2> "$scratch/err" &
    pid=$!
    sleep "0.$(printf %03d $((RANDOM % 500)))"
    kill -9 $pid 2> /dev/null && hit=$((hit + 1))
    wait $pid 2> /dev/null
    [ -s "$scratch/err" ] && fail "after kill $i: $(cat "$scratch/err")"
    # A start over now and then, so that kills fall into early rounds too.
    if ((i % 5 == 4)); then rm -f "$scratch"/killed.db*; fi
done
"$ballast" sweep "$sweep" --db "$scratch/killed.db" --quiet > "$scratch/killed.txt" || fail "last sweep"
got=$("$ballast" export --digest --db "$scratch/killed.db") || fail "digest after kills"
[ "$got" = "$want" ] || fail "digest $got after $hit kills, $want without"
[ -e "$scratch/killed.db-sweep" ] && fail "the lock is left behind"
echo "$hit of $kills kills hit a running sweep; the digest is the same"
