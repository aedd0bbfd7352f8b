#!/usr/bin/env bash
# hold_out.sh - prices measured rows with curves that were fitted without them.
#
# usage: calibrate/hold_out.sh [--ballast PROGRAM] [--by KIND] [--folds "0 1 2 3"] [--gpus "NAME ..."]
#                              [--rows CSV] [DIR]
#
# DIR holds gemm, attention, nccl and membw as .csv.gz or .csv, of which all but one may be missing (default:
# calibrate/measured). Each fold leaves
# out every row of a quarter of the keys that KIND names, whatever GPU or library it is of; the
# profiles and fabrics are fitted on the rest, and the rows left out are priced with those. Prints the
# errors of all folds together, by operator, GPU and framework, then what was not priced because a fold
# left too little to fit a GPU, and the fabrics that it left without a row; --rows keeps each row's.
#   shape (default)   matmul m, n, k; attention all sizes; collectives kind, ranks and buffer size
#   m, n, k, nk       matmuls of one size, or of one matrix, in no row of the fit
#   m-octave, n-octave, k-octave, length-octave, bytes-octave   every fourth octave of that size
#   fp8               one fold: all matmuls in fp8
#   length, heads     attention of one length, of one number of heads
#   length-large      one fold: attention of more than 4,096 tokens
#   head-size         attention of one head size in four, but 128, without which nothing is fitted
#   group             attention of one of four ratios of query heads to key heads
#   mask              one fold: all full attention; without causal nothing is fitted
#   flop-large        one fold: matmuls of 1e13 FLOP and more
#   heads-octave      every fourth octave of batch x heads
#   ranks, operator   collectives of one GPU among one number of ranks, or of one kind
#   bytes-large, bytes-small   one fold: buffers of 64 MiB and more, of 4 MiB and less
#   table             a whole table of a collective: one GPU, kind, ranks, nodes, fabric and version
#   largest           one fold: the largest m, n and k, length and heads, buffers of 1 GiB and more
# Rows of other files than KIND speaks of stay in the fit and are not priced; nor are rows of other
# profiles than --gpus names (default: all that have measurements of their own).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
ballast=$root/build/ballast
by=shape folds="0 1 2 3" rows=""
gpus="a100-80g-sxm a100-80g-pcie a100-40g-sxm h100-80g-sxm h200-141g-sxm h20-96g b200-180g-sxm gb200-186g-nvl72"
gpus="$gpus gb300-288g-nvl72 l40s-48g-pcie"
fabrics="infiniband efa efa-3200 hdr-infiniband roce tcpxo slingshot"
while [ $# -gt 0 ]; do
    case $1 in
    --ballast) ballast=$(realpath "$2") ;;
    --by) by=$2 ;;
    --folds) folds=$2 ;;
    --gpus) gpus=$2 ;;
    --rows) rows=$2 ;;
    -*) echo "hold_out.sh: no option $1" >&2; exit 2 ;;
    *) break ;;
    esac
    shift 2
done
measured=$(realpath "${1:-$root/calibrate/measured}")

# The columns of the key in each file; "-": the file stays whole.
gemm=- attention=- nccl=-
case $by in
shape) gemm=m,n,k attention=batch,seqlen,heads_q,heads_kv,head_dim_qk,causal nccl=op,n_gpus,bytes ;;
m | n | k) gemm=$by ;;
m-octave | n-octave | k-octave) gemm=${by%-octave} ;;
length-octave) attention=seqlen ;;
heads-octave) attention=batch,heads_q ;;
group) attention=heads_q,heads_kv ;;
flop-large) gemm=m,n,k folds=0 ;;
head-size) attention=head_dim_qk ;;
mask) attention=causal folds=0 ;;
ranks) nccl=gpu,n_gpus ;;
operator) nccl=gpu,op ;;
bytes-octave) nccl=bytes ;;
bytes-large | bytes-small) nccl=bytes folds=0 ;;
fp8) gemm=dtype folds=0 ;;
nk) gemm=n,k ;;
length) attention=seqlen ;;
length-large) attention=seqlen folds=0 ;;
heads) attention=heads_q ;;
table) nccl=gpu,op,n_gpus,n_nodes,interconnect,nccl_version ;;
largest) gemm=m,n,k attention=seqlen,heads_q nccl=bytes folds=0 ;;
*)
    echo "hold_out.sh: --by $by is not one of shape, m, n, k, nk, length, length-large, heads, head-size, mask," \
        "group, ranks, operator, table, largest, flop-large, fp8, bytes-large, bytes-small," \
        "{m,n,k,length,heads,bytes}-octave" >&2
    exit 2
    ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/all.csv" "$work/refused.csv" "$work/refusals" "$work/fabrics"

# fit WHAT NAME FILE: of the rows in train/; false where these are too few, and why stands in why.
fit() {
    local status=0
    "$ballast" calibrate fit --quiet "--$1" "$2" --measured "$work/train" -o "$3" > /dev/null 2> "$work/why" || status=$?
    [ "$status" -gt 2 ] || return "$status"
    cat "$work/why" >&2
    exit "$status"
}

has() { [ -e "$measured/$1.csv.gz" ] || [ -e "$measured/$1.csv" ]; }
table() { if [ -e "$measured/$1.csv.gz" ]; then gzip -dc "$measured/$1.csv.gz"; else cat "$measured/$1.csv"; fi; }
if ! has gemm && ! has attention && ! has nccl; then
    echo "hold_out.sh: $measured has no gemm, attention or nccl as .csv.gz or .csv" >&2
    exit 2
fi

# split NAME COLUMNS FOLD: rows of measured/NAME to train/ and test/. No column of a key stands behind
# one that may hold a comma.
split() {
    table "$1" | awk -F, -v columns="$2" -v fold="$3" -v by="$by" \
        -v train="$work/train/$1.csv" -v test="$work/test/$1.csv" '
        function hash(text, i, h) {
            h = 5381
            for (i = 1; i <= length(text); i++) h = (h * 257 + index(letters, substr(text, i, 1))) % 1000003
            return int(h * 7919 % 1000003 / 250001)
        }
        BEGIN { letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-./ ()" }
        NR == 1 {
            count = columns == "-" ? 0 : split(columns, names, ",")
            for (i = 1; i <= NF; i++) at[$i] = i
            print > train; print > test
            next
        }
        { lines[NR] = $0 }
        count > 0 && by == "largest" {
            for (i = 1; i <= count; i++) {
                cell[NR, i] = $(at[names[i]]) + 0
                group = $1 SUBSEP $2
                of[NR] = group
                if (cell[NR, i] > most[group, i]) most[group, i] = cell[NR, i]
            }
        }
        count > 0 && by != "largest" {
            key = ""
            for (i = 1; i <= count; i++) key = key "/" $(at[names[i]])
            if (by == "fp8") out[NR] = key == "/fp8"
            else if (by == "bytes-large") out[NR] = $(at["bytes"]) >= 67108864
            else if (by == "bytes-small") out[NR] = $(at["bytes"]) <= 4194304
            else if (by == "flop-large") out[NR] = 2 * $(at["m"]) * $(at["n"]) * $(at["k"]) >= 1e13
            else if (by == "length-large") out[NR] = $(at["seqlen"]) > 4096
            else if (by == "mask") out[NR] = key == "/0"
            else if (by ~ /^(head-size|group)$/) {
                if (by == "group") key = $(at["heads_kv"]) > 0 ? $(at["heads_q"]) / $(at["heads_kv"]) : 1
                if (!(key in place)) place[key] = seen++
                out[NR] = place[key] % 4 == fold && key != "/128"
            } else if (by ~ /-octave$/) {
                size = 1
                for (i = 1; i <= count; i++) size *= $(at[names[i]])
                out[NR] = int(log(size) / log(2) + 1e-9) % 4 == fold
            }
            else out[NR] = hash(key) == fold
        }
        END {
            for (r = 2; r <= NR; r++) {
                if (by == "largest" && count > 0 && at["bytes"] > 0) out[r] = cell[r, 1] >= 1073741824
                else if (by == "largest")
                    for (i = 1; i <= count; i++) if (cell[r, i] == most[of[r], i]) out[r] = 1
                print lines[r] > (out[r] ? test : train)
            }
        }'
    gzip -f "$work/train/$1.csv"
}

for fold in $folds; do
    rm -rf "$work/train" "$work/test" "$work/scenarios"
    mkdir -p "$work/train" "$work/test"
    cp -r "$root/scenarios" "$work/scenarios"
    if has membw; then table membw | gzip > "$work/train/membw.csv.gz"; fi
    if has gemm; then split gemm "$gemm" "$fold"; fi
    if has attention; then split attention "$attention" "$fold"; fi
    if has nccl; then split nccl "$nccl" "$fold"; fi
    fitted=none refused=none
    for gpu in $gpus; do
        if fit gpu "$gpu" "$work/scenarios/hardware/curves/$gpu.json"; then
            fitted="$fitted|$gpu"
        else
            refused="$refused|$gpu"
            printf '%s\t%s\t%s\n' "$gpu" "$fold" "$(sed -n '1{s/^.*error: //;p}' "$work/why")" >> "$work/refusals"
        fi
    done
    for fabric in $fabrics; do
        file=$work/scenarios/hardware/fabrics/$fabric.json
        if [ "$nccl" = - ] || ! has nccl || fit fabric "$fabric" "$file"; then continue; fi
        echo "$fabric in fold $fold, which leaves no row of it: as InfiniBand" >> "$work/fabrics"
        sed "s/\"infiniband\"/\"$fabric\"/" "$root/scenarios/hardware/fabrics/infiniband.json" > "$file"
    done
    for name in gemm attention nccl; do
        if ! has "$name" || [ "$(wc -l < "$work/test/$name.csv")" -lt 2 ]; then continue; fi
        "$ballast" calibrate check --quiet --scenarios "$work/scenarios" "$work/test/$name.csv" \
            -o "$work/priced.csv" > /dev/null
        # Profiles that were not fitted anew have seen these rows.
        grep -E ",\"?($fitted)(, [^,]*)?\"?\$" "$work/priced.csv" >> "$work/all.csv" || true
        grep -E ",\"?($refused)(, [^,]*)?\"?\$" "$work/priced.csv" | sed "s/^/$fold,/" >> "$work/refused.csv" || true
    done
    echo "fold $fold: $(wc -l < "$work/all.csv") rows so far" >&2
done
if [ -n "$rows" ]; then cp "$work/all.csv" "$rows"; fi

# A row's group is all that stands behind its fifth comma.
awk -F, '{
    key = $0
    for (i = 0; i < 5; i++) key = substr(key, index(key, ",") + 1)
    error = $4 < 0 ? -$4 : $4
    printf "%s\t%.5f\t%.5f\t%d\n", key, error, $4, $5
}' "$work/all.csv" | LC_ALL=C sort -t "$(printf '\t')" -k1,1 -k2,2n | awk -F '\t' '
    function flush() {
        if (n == 0) return
        printf "%6d %7.1f%% %7.1f%% %+7.1f%% %6.0f%%  %s\n", n, 100 * at(0.5), 100 * at(0.9), 100 * sum / n,
            100 * inside / n, last
        n = sum = inside = 0
    }
    function at(q, place, low) {
        place = q * (n - 1) + 1
        low = int(place)
        return low >= n ? error[n] : error[low] + (place - low) * (error[low + 1] - error[low])
    }
    BEGIN { printf "%6s %8s %8s %8s %7s  %s\n", "rows", "median", "p90", "mean", "in band", "operator,gpu,framework,priced by" }
    $1 != last { flush() }
    { last = $1; error[++n] = $2; sum += $3; inside += $4 }
    END { flush() }'

# not_priced GPU FOLD: its rows in what the fold left out.
not_priced() {
    grep -cE "^$2,.*,\"?$1(, [^,]*)?\"?\$" "$work/refused.csv" || true
}
if [ -s "$work/refusals" ]; then
    echo
    echo "not priced, because a fold leaves too little of the GPU to fit it:"
    printf "%6s  %s\n" rows "GPU, fold: what is missing"
    while IFS=$'\t' read -r gpu fold why; do
        printf "%6d  %s, %s: %s\n" "$(not_priced "$gpu" "$fold")" "$gpu" "$fold" "$why"
    done < "$work/refusals"
fi
if [ -s "$work/fabrics" ]; then
    echo
    echo "fabrics without a fit of their own:"
    cat "$work/fabrics"
fi
