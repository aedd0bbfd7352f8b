#!/usr/bin/env bash
# test_hold_out.sh BALLAST SOURCE - calibrate/hold_out.sh prices every row once, by curves fitted without it,
# and names the GPUs that a fold left too little of.
set -euo pipefail

ballast=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "test_hold_out: $1" >&2
    exit 1
}

status=0
"$source/calibrate/hold_out.sh" --ballast "$ballast" --by weather 2> "$work/err" || status=$?
[ "$status" -eq 2 ] || fail "an unknown kind ends with $status"
grep -q "is not one of shape" "$work/err" || fail "an unknown kind is not named"

# H20 has the cheapest fit. Its all-reduces lie on a smooth table, so what lies between sizes is met.
"$source/calibrate/hold_out.sh" --ballast "$ballast" --gpus h20-96g --rows "$work/held.csv" > "$work/held.txt" 2> "$work/log"
"$ballast" calibrate check "$source/calibrate/measured/nccl.csv.gz" -o "$work/seen.csv" > "$work/check.txt"
rows() { awk -F, -v gpu=H20 '$7 == gpu && $6 ~ /all-reduce in one node/' "$1" | LC_ALL=C sort -t, -k1,1n; }
rows "$work/held.csv" | cut -d, -f2 | LC_ALL=C sort > "$work/held.rows"
rows "$work/seen.csv" | cut -d, -f2 | LC_ALL=C sort > "$work/seen.rows"
[ -s "$work/held.rows" ] || fail "no row of H20 was priced"
cmp -s "$work/held.rows" "$work/seen.rows" || fail "the folds do not hold each row of H20 once"
! grep -q ",h100-80g-sxm" "$work/held.csv" || fail "rows of a profile that was not fitted are priced"
held=$(rows "$work/held.csv" | awk -F, '{ sum += $4 < 0 ? -$4 : $4 } END { print sum / NR }')
seen=$(rows "$work/seen.csv" | awk -F, '{ sum += $4 < 0 ? -$4 : $4 } END { print sum / NR }')
awk -v held="$held" -v seen="$seen" 'BEGIN { exit !(held > seen && held < 0.1) }' ||
    fail "mean error of rows held out $held, of the same rows in the fit $seen"
! grep -q "not priced" "$work/held.txt" || fail "all rows are priced, and some are said not to be"

# H20's curves rest on H100's attention of head size 128.
mkdir "$work/few"
cp "$source"/calibrate/measured/{gemm,nccl,membw}.csv.gz "$work/few"
gzip -dc "$source/calibrate/measured/attention.csv.gz" | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
    NR == 1 || $(at["head_dim_qk"]) != 128' | gzip > "$work/few/attention.csv.gz"
"$source/calibrate/hold_out.sh" --ballast "$ballast" --gpus h20-96g --folds 0 --rows "$work/none.csv" "$work/few" > "$work/few.txt" 2>> "$work/log"
[ ! -s "$work/none.csv" ] || fail "rows of a GPU without curves are priced"
grep -qE "^ +[1-9][0-9]*  h20-96g, 0: .*too few" "$work/few.txt" ||
    fail "a GPU that was not priced is not named: $(cat "$work/few.txt")"
