#!/usr/bin/env bash
# test_run.sh - the golden runner accepts what is the same, shows what differs, and rewrites on demand.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/cases/greets" "$work/cases/fails"
cat > "$work/program" << 'END'
#!/bin/sh
if [ "$1" = fail ]; then echo "no such $2" >&2; exit 2; fi
echo "hello $1 from $SCRATCH/x"
END
chmod +x "$work/program"
echo 'ballast world' > "$work/cases/greets/cmd"
echo 'ballast fail thing' > "$work/cases/fails/cmd"

# expect STATUS TEXT ARGUMENT...: the runner ends with STATUS and prints TEXT.
expect() {
    local want=$1 text=$2 got=0 output
    shift 2
    output=$(./run.sh --ballast "$work/program" --cases "$work/cases" "$@" 2>&1) || got=$?
    if [[ $got -ne $want || $output != *"$text"* ]]; then
        printf 'run.sh %s: exit %s, want %s; printed:\n%s\nwant: %s\n' "$*" "$got" "$want" "$output" "$text"
        exit 1
    fi
}

expect 1 "greets: there is no expected stdout"
expect 0 "greets: rewrote stdout" --update
# shellcheck disable=SC2016  # the scratch folder's path must not be in the file
diff <(echo 'hello world from $SCRATCH/x') "$work/cases/greets/stdout"
diff <(echo 'no such thing') "$work/cases/fails/stderr"
diff <(echo 2) "$work/cases/fails/exit"
expect 0 ""
[[ -z $(./run.sh --ballast "$work/program" --cases "$work/cases" --update) ]]

echo 'hello moon' > "$work/cases/greets/stdout"
expect 1 "-hello moon" greets
expect 1 "1 of 2 golden cases differ"
expect 0 "" fails
echo 0 > "$work/cases/fails/exit"
expect 1 "fails/exit expected" fails
expect 0 "greets: rewrote stdout" --update greets
expect 1 "1 of 2 golden cases differ"
expect 2 "has no file 'cmd'" nowhere
expect 2 "usage: run.sh" --what
