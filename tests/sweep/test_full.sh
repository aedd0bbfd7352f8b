#!/bin/bash
# test_full.sh BALLAST - a sweep on a disk that fills up: one sentence, and with room again the same
# command goes on from what was stored. 77: no small disk can be made here.
set -u
ballast=$(realpath -- "$1")
sweep=$(realpath -- "$(dirname "$0")/../data/sweep/small-sweep.json")
if [ "${2-}" != mounted ]; then
    unshare -m true 2> /dev/null || { echo "skipped: no file system of its own can be mounted"; exit 77; }
    exec unshare -m "$0" "$ballast" mounted
fi
scratch=$(mktemp -d) || exit 1
trap 'umount "$scratch/disk"; rm -r "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
mkdir "$scratch/disk"
mount -t tmpfs -o size=512k tmpfs "$scratch/disk" || exit 77

"$ballast" sweep "$sweep" --db "$scratch/disk/sweep.db" --quiet > /dev/null 2> "$scratch/err"
[ $? -eq 1 ] || fail "a full disk gives another code: $(cat "$scratch/err")"
[ "$(grep -c '^error: ' "$scratch/err")" = 1 ] || fail "not one sentence: $(cat "$scratch/err")"
grep -q "the disk is full\|No space left" "$scratch/err" || fail "said: $(cat "$scratch/err")"
cp "$scratch"/disk/sweep.db* "$scratch/"
rm -f "$scratch/sweep.db-sweep"
"$ballast" sweep "$sweep" --db "$scratch/sweep.db" --quiet > "$scratch/out" || fail "it does not go on"
grep -q "of them known from the database" "$scratch/out" || fail "what was stored is lost"
"$ballast" sweep "$sweep" --db "$scratch/whole.db" --quiet > /dev/null || fail "whole sweep"
[ "$("$ballast" export --digest --db "$scratch/sweep.db")" = "$("$ballast" export --digest --db "$scratch/whole.db")" ] ||
    fail "another database than without"

# A picture and a page leave nothing behind.
rm -f "$scratch"/disk/*
dd if=/dev/zero of="$scratch/disk/fill" bs=1k 2> /dev/null
"$ballast" report "$scratch/whole.db" -o "$scratch/disk/page.html" --quiet 2> "$scratch/err" && fail "a page on a full disk"
"$ballast" plot pareto --db "$scratch/whole.db" -o "$scratch/disk/front.svg" --quiet 2>> "$scratch/err" && fail "a picture on a full disk"
[ "$(ls "$scratch/disk")" = fill ] || fail "left behind: $(ls "$scratch/disk")"
echo "a full disk is said, nothing is lost and nothing is left behind"
