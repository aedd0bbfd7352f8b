#!/bin/bash
# test_mpi.sh BALLAST [BALLAST_MPI] - a sweep of several processes gives the database of one; when a
# process dies one sentence says so, and the same command goes on. 77: there is no MPI here.
set -u
ballast=$1 with_mpi=${2-}
if [ -z "$with_mpi" ] || ! command -v mpirun > /dev/null || ! command -v sqlite3 > /dev/null; then
    echo "skipped: no OpenMPI, or no sqlite3 to look on with"
    exit 77
fi
sweep=$(dirname "$0")/../data/sweep/small-sweep.json
scratch=$(mktemp -d) || exit 1
trap 'rm -r "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
digest_of() { "$ballast" export --digest --db "$1" || fail "digest of $1"; }
several() { # PROCESSES, then the arguments of ballast sweep
    local count=$1
    shift
    mpirun -n "$count" --oversubscribe --bind-to none --allow-run-as-root "$with_mpi" sweep "$sweep" --jobs 1 "$@"
}

"$ballast" sweep "$sweep" --db "$scratch/one.db" --quiet > "$scratch/one.txt" || fail "one process"
want=$(digest_of "$scratch/one.db")
for count in 2 3; do
    several $count --db "$scratch/$count.db" --quiet > "$scratch/$count.txt" 2> "$scratch/err" ||
        fail "$count processes: $(cat "$scratch/err")"
    cmp -s "$scratch/one.txt" "$scratch/$count.txt" || fail "$count processes print something else"
    [ "$(digest_of "$scratch/$count.db")" = "$want" ] || fail "$count processes give another database"
done
several 2 --db "$scratch/2.db" --quiet > "$scratch/again.txt" 2> "$scratch/err" || fail "once more: $(cat "$scratch/err")"
grep -q "^  raced .*, pruned .* of them known from the database" "$scratch/again.txt" || fail "rows were not found again"

# What is replayed next hangs on what became of the replays before, wherever they were made.
later=$(dirname "$0")/../data/sweep/later-memory.json
"$ballast" sweep "$later" --db "$scratch/later1.db" --quiet > "$scratch/later1.txt" || fail "replays that fail"
sweep=$later several 3 --db "$scratch/later3.db" --quiet > "$scratch/later3.txt" 2> "$scratch/err" ||
    fail "replays that fail, 3 processes: $(cat "$scratch/err")"
grep -q "replayed layouts\? ran out of memory" "$scratch/later1.txt" || fail "no replay failed"
cmp -s "$scratch/later1.txt" "$scratch/later3.txt" || fail "3 processes replay something else"
[ "$(digest_of "$scratch/later1.db")" = "$(digest_of "$scratch/later3.db")" ] || fail "3 processes keep other replays"

# Answers to limits are replayed one after the other, each after a look at the one before.
limits=$(dirname "$0")/../data/sweep/limits-sweep.json
asked=(--deadline 0.0006 --budget 0.3 --quiet)
"$ballast" sweep "$limits" --db "$scratch/limits1.db" "${asked[@]}" > "$scratch/limits1.txt" || fail "limits"
sweep=$limits several 3 --db "$scratch/limits3.db" "${asked[@]}" > "$scratch/limits3.txt" 2> "$scratch/err" ||
    fail "limits, 3 processes: $(cat "$scratch/err")"
[ "$(grep -c "^\(Cheapest\|Fastest\) within" "$scratch/limits1.txt")" = 2 ] || fail "a limit has no answer"
grep "within" "$scratch/limits1.txt" | grep -q "not replayed" && fail "a limit is answered by a race"
cmp -s "$scratch/limits1.txt" "$scratch/limits3.txt" || fail "3 processes answer limits otherwise"
[ "$(digest_of "$scratch/limits1.db")" = "$(digest_of "$scratch/limits3.db")" ] || fail "3 processes keep other answers"

# Parts and processes together.
for part in 1 2; do
    several 2 --shard $part/2 --no-prune --db "$scratch/part$part.db" --quiet > /dev/null 2> "$scratch/err" ||
        fail "shard $part: $(cat "$scratch/err")"
done
"$ballast" merge "$scratch/joined.db" "$scratch"/part[12].db > /dev/null || fail "merge"
"$ballast" sweep "$sweep" --db "$scratch/joined.db" --quiet > /dev/null || fail "after the merge"
"$ballast" sweep "$sweep" --db "$scratch/all.db" --no-prune --quiet > /dev/null || fail "without pruning"
[ "$(digest_of "$scratch/joined.db")" = "$(digest_of "$scratch/all.db")" ] || fail "the parts give another database"

# One sentence, whoever finds the mistake.
several 2 --db "$scratch/no/such/folder.db" > /dev/null 2> "$scratch/err" && fail "a missing folder was accepted"
[ "$(grep -c "^error: " "$scratch/err")" = 1 ] || fail "a mistake has not one sentence: $(cat "$scratch/err")"
grep -q "there is no folder" "$scratch/err" || fail "a mistake: $(cat "$scratch/err")"

# A process that dies, each in turn.
for victim in 1 0; do
    several 2 --db "$scratch/killed.db" --quiet > /dev/null 2> "$scratch/err" &
    job=$!
    for ((i = 0; i < 300; i++)); do
        rows=$(sqlite3 "$scratch/killed.db" "SELECT count(*) FROM sweep_row" 2> /dev/null)
        [ "${rows:-0}" -gt $((200 - 150 * victim)) ] && break
        sleep 0.02
    done
    pid=$(pgrep -P $job -f "$with_mpi" | sed -n $((1 + victim))p)
    [ -n "$pid" ] && kill -9 "$pid" && hit=yes
    wait $job && [ "${hit-}" = yes ] && fail "a dead process was not noticed"
    if [ $victim = 1 ] && [ "${hit-}" = yes ]; then
        [ "$(grep -c "^error: a process of the sweep ended" "$scratch/err")" = 1 ] ||
            fail "a dead process has no sentence: $(cat "$scratch/err")"
    fi
done
several 2 --db "$scratch/killed.db" --quiet > /dev/null 2> "$scratch/err" || fail "after the kills: $(cat "$scratch/err")"
[ "$(digest_of "$scratch/killed.db")" = "$want" ] || fail "kills give another database"
echo "1, 2 and 3 processes, parts and kills: the same databases"
