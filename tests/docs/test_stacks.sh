#!/bin/bash
# test_stacks.sh [--update] - the table of scenarios/stacks/README.md has each stack of the folder, with what
# its file says. --update writes it anew.
set -u
folder=$(realpath "$(dirname "$0")/../../scenarios/stacks")
readme=$folder/README.md
scratch=$(mktemp -d) || exit 1
trap 'rm -r "$scratch"' EXIT

{
    # shellcheck disable=SC2016
    echo '| `layout.stack` | what it is | backend | year | calibrated on |'
    echo '|---|---|---|---|---|'
    for file in "$folder"/*.json; do
        awk -F'"' -v name="$(basename "$file" .json)" '
            /^  "description":/ { what = $4 }
            /^  "backend":/ { backend = $4 }
            /^  "year":/ { year = $3; gsub(/[^0-9]/, "", year) }
            /^  "relative":/ { relative = $4 }
            /^      "gpu":/ { gpu = $4 }
            /^      "precision":/ { on = on (on == "" ? "" : ", ") gpu " " $4 }
            END {
                if (on == "") on = relative != "" ? "nothing: that of " relative : "nothing"
                printf "| %s | %s | %s | %s | %s |\n", name, what, backend, year, on
            }' "$file"
    done
} > "$scratch/table"

grep -v '^|' "$readme" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' > "$scratch/text"
{
    cat "$scratch/text"
    echo
    cat "$scratch/table"
} > "$scratch/README.md"
if [[ ${1-} == --update ]]; then
    cp "$scratch/README.md" "$readme"
    exit 0
fi
diff "$readme" "$scratch/README.md" || {
    echo "write it anew: tests/docs/test_stacks.sh --update" >&2
    exit 1
}
