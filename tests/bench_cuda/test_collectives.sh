#!/usr/bin/env bash
# test_collectives.sh PROGRAM BALLAST SCENARIOS - collectives.cu built against host_gpu/: its checks
# against the CPU find a collective that is wrong, its CSV holds the times and bandwidths of the links
# that the host plays, and `calibrate check` and `fit` read it.
set -euo pipefail

program=$1 ballast=$2 scenarios=$3
calibrate() { "$ballast" calibrate "$@" --scenarios "$scenarios"; }
export ASAN_OPTIONS=detect_leaks=0 # the device is held to the end
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "test_collectives: $1" >&2; exit 1; }

# run CODE TEXT VARIABLE=VALUE...: a check on such a machine.
run() {
    local code=0
    env "${@:3}" "$program" --check > "$work/said" 2>&1 || code=$?
    [[ $code -eq $1 && $(< "$work/said") == *"$2"* ]] || fail "${*:3}: code $code, $(< "$work/said")"
}

for count in 2 3 4 8 16; do
    run 0 "" "HOST_GPU_COUNT=$count"
done
run 3 "collectives need at least two GPUs" HOST_GPU_COUNT=1
run 1 "no GPU was found" HOST_GPU_COUNT=0
for wrong in all_reduce all_gather reduce_scatter send; do
    run 1 "the GPU's result differs from the CPU reference" "HOST_NCCL_FAULT=$wrong"
done

HOST_GPU_NAME="NVIDIA H20" HOST_GPU_COUNT=8 "$program" --quick -o "$work" 2> "$work/said" ||
    fail "$(< "$work/said")"
[[ $(tail -n 1 "$work/said") == "progress 15/15 sendrecv of 8" ]] || fail "it did not end"
# Five microseconds and 1 GB/s of bus bandwidth (host_gpu/nccl.h). Among 2, 4 and 8 GPUs six sizes of
# five collectives, three of them in place too; eight bytes are no whole floats for 4 and 8 of them.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { rows++
      factor = $at["algbw_gbps"] > 0 ? $at["busbw_gbps"] / $at["algbw_gbps"] : 0
      want = 5 + factor * $at["bytes"] / 1e3
      if ((d = $at["time_us"] / want - 1) > 1e-3 || d < -1e-3) { print "not " want " us: " $0; exit 1 }
      if ($at["bytes"] == 262144 && ($at["busbw_gbps"] < 0.95 || $at["busbw_gbps"] > 1)) { print "bus: " $0; exit 1 } }
    END { if (rows != 3 * 6 * 8 - 2 * 5) { print rows " rows"; exit 1 } }' "$work/nccl.csv" ||
    fail "nccl.csv does not hold what the links do"

calibrate check "$work/nccl.csv" > "$work/said" || fail "check does not read it"
grep -q "reduce-scatter in one node" "$work/said" || fail "$(< "$work/said")"
# The host's memory ends at 262144 bytes, which tell a fit no bandwidth; 256 times as large they do.
if calibrate fit --gpu h20-96g --measured "$work" -o "$work/curves.json" > "$work/said" 2>&1; then
    fail "a fit of small buffers"
fi
grep -q "tell no bandwidth" "$work/said" || fail "$(< "$work/said")"
mkdir "$work/large"
awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print; next }
    { factor = $at["algbw_gbps"] > 0 ? $at["busbw_gbps"] / $at["algbw_gbps"] : 0
      $at["bytes"] *= 256; $at["time_us"] = 5 + factor * $at["bytes"] / 1e3; print }' "$work/nccl.csv" > "$work/large/nccl.csv"
calibrate fit --gpu h20-96g --measured "$work/large" -o "$work/curves.json" > "$work/said" 2>&1 ||
    fail "$(< "$work/said")"
calibrate check "$work/large/nccl.csv" --profile "$work/curves.json" --json |
    jq -e '[.groups[].median_abs_relative_error] | length == 10 and max < 0.01' > "$work/said" ||
    fail "the fitted curves do not repeat it"
