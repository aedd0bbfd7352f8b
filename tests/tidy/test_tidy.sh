#!/usr/bin/env bash
# test_tidy.sh - tidy.sh must find every violation in bad_tree, and nothing else there.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

status=0
found=$(./tidy.sh bad_tree) || status=$?
diff -u --label expected --label found bad_tree.expected - <<< "$found"
[[ $status -eq 1 ]] || { echo "tidy.sh ended with $status, want 1"; exit 1; }

empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
if ./tidy.sh "$empty" 2> /dev/null; then
    echo "tidy.sh is content with a tree without sources"
    exit 1
fi
