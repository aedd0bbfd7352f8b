#!/usr/bin/env bash
# test_unseen.sh SOURCE - nothing is made of calibrate/measured/unseen, and its README counts its rows, those of first sight too; grades are of its sources.
set -euo pipefail

cd "$1/calibrate/measured"
failures=0
fail() {
    echo "test_unseen: $1" >&2
    failures=$((failures + 1))
}

first_cells() { awk -F, 'FNR > 1 { print $1 }' "$@" | sort; }

twice=$(first_cells unseen/*.csv | uniq -d)
[ -z "$twice" ] || fail "rows that share a row_id: $twice"
for used in steps.csv runs/*.csv; do
    shared=$(comm -12 <(first_cells unseen/*.csv) <(first_cells "$used" | uniq))
    [ -z "$shared" ] || fail "rows that are in $used too: $shared"
done
named=$(grep -ohFf <(first_cells unseen/*.csv | sed 's/.*/"&"/') ../../scenarios/stacks/*.json ../../scenarios/bands.json || true)
[ -z "$named" ] || fail "a stack or a band names $named"
for file in unseen/*.csv; do
    name=$(basename "$file")
    rows=$(($(wc -l < "$file") - 1))
    grep -q "^| $name | $rows |" unseen/README.md || fail "unseen/README.md does not give $name $rows rows"
done
# Grades are 1 to 3 and of sources that there are.
strange=$(awk '
    FILENAME != graded { text = text $0 "\n"; next }
    FNR == 1 { next }
    { source = $0
      if (!sub(/"?,[123],[123],[123]$/, "", source) || index(text, substr(source, 1 + (source ~ /^"/))) == 0) print }
' graded=unseen/trust/sources.csv unseen/*.csv unseen/trust/sources.csv)
[ -z "$strange" ] || fail "trust/sources.csv grades no source of unseen: $strange"
# First sight tells all rows of a round that was committed before it was simulated, also those that
# left for ../runs/multimodal.csv since.
declare -A left=([5]=9 [7]=3 [16]=46)
for round in 3 4 5 6 7 8 9 15 16 17 18; do
    told=$(awk -F'|' -v round="$round" '
        $2 ~ "^ *" round " *$" && NF == 8 { n = split($4, words, " "); sum += words[n] }
        END { print sum + 0 }' unseen/README.md)
    rows=$(($(first_cells unseen/round"$round"_*.csv | wc -l) + ${left[$round]:-0}))
    [ "$told" -eq "$rows" ] || fail "first sight of round $round tells $told rows of $rows"
done
[ "$failures" -eq 0 ]
