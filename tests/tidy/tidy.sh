#!/usr/bin/env bash
# tidy.sh [ROOT] - the house rules that a machine can check, on every C and CUDA file below ROOT.
#
#   - the dependency law: base < costmodel < {engine, model, data} < layout < policy < scenario
#     < step < replay < results < study < {sweep, reproduce, measured of study} < bench of study
#     < cli; calibrate/fit sees base and costmodel only; a unit test sees what its folder sees
#   - includes of our own files name them by their path from the root
#   - a stem names one thing in the whole tree
#   - tests/unit/<folder>/test_<stem>.c tests a file <stem> of that folder
#   - every file opens with a comment that names it
#   - only sim/cli prints or exits
#   - nothing is left unfinished
#
# Prints file:line and the rule for each violation. Exit 0: none, 1: some.
set -euo pipefail

script=$(realpath -- "${BASH_SOURCE[0]}")
cd -- "${1:-$(dirname -- "$script")/../..}"

list=$(mktemp)
trap 'rm -f "$list"' EXIT
for folder in sim costmodel calibrate results tests; do
    [[ -d $folder ]] || continue
    # bad_tree breaks every rule on purpose.
    find "$folder" -path tests/tidy/bad_tree -prune -o -type f -name '*.[ch]' -print \
        -o -type f -name '*.cu' -print -o -type f -name '*.cuh' -print
done | LC_ALL=C sort > "$list"
[[ -s $list ]] || { echo "tidy.sh: no source files below $PWD" >&2; exit 1; }

mapfile -t files < "$list"
awk -v paths="$list" -f "${script%.sh}.awk" -- "${files[@]}"
