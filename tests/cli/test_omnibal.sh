#!/usr/bin/env bash
# test_omnibal.sh BALLAST SOURCE - OmniBal's ablation by its main readings: in the paper's order and within
# 15 %, the tables of data and model balance in its order, each miss of a table with what was tried, and no
# reading in the paper's order that no table has.
# The first 100 steps of each run stand for the epoch.
set -euo pipefail

ballast=$1
papers=$2/scenarios/papers/omnibal
failures=0
fail() {
    echo "test_omnibal: $1" >&2
    failures=$((failures + 1))
}

out=$("$ballast" reproduce omnibal.ablation omnibal.pretrain --set simulate.iterations=100 \
    --scenarios "$2/scenarios" --quiet 2> /dev/null)

days=$(awk '/^omnibal\./ { table = $1 } table == "omnibal.ablation" && $1 == "*" && $2 ~ /gpu_days/ { print $4, $5 }' <<< "$out")
[ "$(wc -l <<< "$days")" -eq 4 ] || fail "four main GPU-days of the ablation, not: $days"
while read -r paper simulated; do
    awk -v p="$paper" -v s="$simulated" 'BEGIN { exit !(s > 0.85 * p && s < 1.15 * p) }' ||
        fail "$simulated GPU-days for $paper"
done <<< "$days"
[ "$(sort -rn <<< "$days" | awk '{ print $2 }')" = "$(awk '{ print $2 }' <<< "$days" | sort -rn)" ] ||
    fail "another order than the paper's: $days"

# The main reading of each GPU-days, or the one that there is. Rows of one column that the paper prints 3 %
# apart keep its order. Left out: the stages of Table 8 in place of bmp's, which send another volume than the
# row prints.
order=$("$ballast" reproduce omnibal.data-balance omnibal.model-balance --set simulate.iterations=100 \
    --scenarios "$2/scenarios" --quiet 2> /dev/null | awk '
        /^omnibal\.[a-z-]*$/ { table = $1 }
        /^[* ] [a-z].*\.gpu_days/ {
            main = /^\*/; if (main) sub(/^\*/, "")
            row = $1; sub(/\.gpu_days.*/, "", row)
            if (row == "bmp-printed-plan") next
            key = table " " row
            column = table (row ~ /-model-balance$/ ? " with model balance" : "")
            if (!(key in paper) || main) { paper[key] = $3; simulated[key] = $4; of[key] = column }
        }
        END {
            for (a in paper) for (b in paper)
                if (of[a] == of[b] && paper[a] > 1.03 * paper[b]) {
                    pairs++
                    if (simulated[a] <= simulated[b]) print "order of " a " and " b ": " simulated[a] ", " simulated[b]
                }
            print pairs " pairs"
        }')
[ "$order" = "16 pairs" ] || fail "$order"

misses=$(grep '^    not ' <<< "$out")
[ -n "$misses" ] || fail "no miss: nothing to look at"
while read -r miss; do
    [[ $miss =~ %\.\ [A-Z]|reading\.\ [A-Z] ]] || fail "nothing was tried: $miss"
done <<< "$misses"

while read -r reading; do
    grep -q "\"reading\": \"$reading\"" "$papers"/*.table.json || fail "no table has the reading $reading"
done < <(awk '/"main"/ { list = 1; next } list' "$papers/readings.json" | grep -o '"[^"]*"' | tr -d '"')
[ "$failures" -eq 0 ]
