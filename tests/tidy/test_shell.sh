#!/usr/bin/env bash
# test_shell.sh - every shell script parses, is executable and passes shellcheck.
# Exit 77 (ctest: skipped) when shellcheck is not installed and the rest is well.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

scripts=(quickstart.sh test.sh .ci/run)
while IFS= read -r script; do scripts+=("$script"); done < <(find tests calibrate -name '*.sh' | LC_ALL=C sort)
for script in "${scripts[@]}"; do
    bash -n "$script"
    [[ -x $script ]] || { echo "$script is not executable"; exit 1; }
done
if ! command -v shellcheck > /dev/null; then
    echo "skipped: shellcheck is not installed"
    exit 77
fi
shellcheck -x "${scripts[@]}"
