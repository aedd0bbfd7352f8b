#!/usr/bin/env bash
# run.sh - runs the command line of each golden folder and compares what it says.
#
#     tests/golden/run.sh --ballast build/ballast [--update] [--cases DIR] [NAME ...]
#
# Without NAME: every folder that has a file `cmd`. README.md says what a folder holds.
# Exit 0: all as expected, 1: some differ, 2: bad usage.
set -euo pipefail

usage() {
    echo "usage: run.sh --ballast PROGRAM [--update] [--cases DIR] [NAME ...]" >&2
    exit 2
}

here=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
cases=$here ballast="" update=false names=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --ballast) ballast=${2-}; shift 2 || usage ;;
        --cases) cases=$(realpath -- "${2-}"); shift 2 || usage ;;
        --update) update=true; shift ;;
        -*) usage ;;
        *) names+=("$1"); shift ;;
    esac
done
[[ -x $ballast ]] || { echo "run.sh: --ballast '$ballast' is not a program" >&2; exit 2; }
ballast=$(realpath -- "$ballast")

if [[ ${#names[@]} -eq 0 ]]; then
    for file in "$cases"/*/cmd; do
        [[ -e $file ]] || { echo "run.sh: no golden folder in $cases" >&2; exit 2; }
        names+=("$(basename -- "$(dirname -- "$file")")")
    done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$ballast" "$work/bin/ballast"

# Runs case $1 and leaves stdout, stderr and exit in $work/got.
run_case() {
    local status=0
    rm -rf "$work/got" "$work/scratch"
    mkdir "$work/got" "$work/scratch"
    # From the root of the repository, so that paths in messages are the same everywhere.
    (cd -- "$here/../.." &&
        env LC_ALL=C.UTF-8 TZ=UTC TERM=dumb COLUMNS=80 HOME="$work/scratch" SCRATCH="$work/scratch" \
            BALLAST_SCENARIOS=scenarios \
            PATH="$work/bin:$PATH" bash "$cases/$1/cmd") \
        < /dev/null > "$work/got/stdout" 2> "$work/got/stderr" || status=$?
    echo "$status" > "$work/got/exit"
    sed -i "s|$work/scratch|\$SCRATCH|g" "$work/got/stdout" "$work/got/stderr"
}

# Compares $work/got with case $1; true when all three are the same.
same_as_expected() {
    local file same=true
    for file in exit stdout stderr; do
        if [[ ! -e $cases/$1/$file ]]; then
            echo "$1: there is no expected $file (--update writes it)"
            same=false
        elif ! diff -u --label "$1/$file expected" --label "$1/$file got" \
            "$cases/$1/$file" "$work/got/$file"; then
            same=false
        fi
    done
    $same
}

differ=0
for name in "${names[@]}"; do
    [[ -f $cases/$name/cmd ]] || { echo "run.sh: $cases/$name has no file 'cmd'" >&2; exit 2; }
    run_case "$name"
    if $update; then
        for file in exit stdout stderr; do
            cmp -s "$work/got/$file" "$cases/$name/$file" && continue
            cp "$work/got/$file" "$cases/$name/$file"
            echo "$name: rewrote $file"
        done
    elif ! same_as_expected "$name"; then
        differ=$((differ + 1))
    fi
done
[[ $differ -eq 0 ]] || { echo "$differ of ${#names[@]} golden cases differ"; exit 1; }
