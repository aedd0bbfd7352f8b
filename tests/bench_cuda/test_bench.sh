#!/usr/bin/env bash
# test_bench.sh PROGRAM - a microbenchmark compares its kernels with the CPU; 77 (skipped) where
# there is no GPU, after making sure that the program then says so in one sentence and exits 1.
set -euo pipefail

said=$(mktemp)
trap 'rm -f "$said"' EXIT
code=0
"$1" --check 2> "$said" || code=$?
if [[ $code -eq 1 && $(< "$said") == "no GPU was found on this machine: nothing was measured" ]]; then
    exit 77
fi
cat -- "$said" >&2
[[ $code -eq 3 ]] && exit 77
exit "$code"
