#!/bin/bash
# test_stacks.sh [--update] - the table of scenarios/stacks/README.md has each stack of the folder, with what
# its file says; a figure whose source is "as" another stack is that stack's; OmniBal's stack on the
# H100, which is carried over from other stacks, follows their factors within 2 %. --update writes the
# table and OmniBal's stack anew.
set -u
folder=$(realpath "$(dirname "$0")/../../scenarios/stacks")
readme=$folder/README.md
scratch=$(mktemp -d) || exit 1
trap 'rm -r "$scratch"' EXIT

# own NAME KEY: what the stack's file itself states, a text or a number.
own() {
    sed -n "s/^  \"$2\": \"\\{0,1\\}\\([^\",]*\\).*/\\1/p" "$folder/$1.json"
}

# inherited NAME KEY: the same, or what its base states.
inherited() {
    local value base
    value=$(own "$1" "$2") base=$(own "$1" base)
    if [[ -z $value && -n $base ]]; then inherited "$base" "$2"; else echo "$value"; fi
}

# relative NAME: whose factors a stack without its own takes: of the relative that it states, of its
# base if that has some, of what that one takes.
relative() {
    local value base
    value=$(own "$1" relative) base=$(own "$1" base)
    if [[ -z $value && -n $base ]]; then
        if grep -q '"calibrated_on"' "$folder/$base.json"; then value=$base; else value=$(relative "$base"); fi
        value=${value:-$base}
    fi
    echo "$value"
}

{
    # shellcheck disable=SC2016
    echo '| `layout.stack` | what it is | backend | year | calibrated on |'
    echo '|---|---|---|---|---|'
    for file in "$folder"/*.json; do
        awk -F'"' '
            /^  "description":/ { what = $4 }
            /^      "gpu":/ { gpu = $4 }
            /^      "precision":/ { on = on (on == "" ? "" : ", ") gpu " " $4 }
            END { print what; print on }' "$file" > "$scratch/own"
        { read -r what; read -r on || true; } < "$scratch/own"
        name=$(basename "$file" .json)
        [[ -n $on ]] || on="nothing$(relative "$name" | sed 's/./: that of &/')"
        printf '| %s | %s | %s | %s | %s |\n' "$name" "$what" "$(inherited "$name" backend)" \
            "$(inherited "$name" year)" "$on"
    done
} > "$scratch/table"

grep -v '^|' "$readme" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' > "$scratch/text"
{
    cat "$scratch/text"
    echo
    cat "$scratch/table"
} > "$scratch/README.md"

# factor FILE GPU KEY: of the stack file's factors on this GPU.
factor() {
    awk -F'[":, ]+' -v gpu="$2" -v key="$3" '
        $2 == "gpu" { on = $3 == gpu }
        on && $2 == key { print $3; exit }' "$1"
}
easyllm=$folder/easyllm.json
foundry=$folder/llm-foundry-2023.json
carried=$(realpath "$folder/../papers/omnibal/easyllm-h100.stack.json")
a100=$(factor "$easyllm" a100 kernel_time_factor)
from=$(factor "$foundry" a100 kernel_time_factor)
to=$(factor "$foundry" h100 kernel_time_factor)
attention_from=$(factor "$foundry" a100 attention_time_factor)
attention_to=$(factor "$foundry" h100 attention_time_factor)
kernel=$(awk "BEGIN { printf \"%.4f\", $a100 * $to / $from }")
attention=$(awk "BEGIN { printf \"%.4f\", $attention_to / $attention_from }")

if [[ ${1-} == --update ]]; then
    cp "$scratch/README.md" "$readme"
    sed -i "s|\"kernel_time_factor\": [0-9.]*|\"kernel_time_factor\": $kernel|
            s|\"attention_time_factor\": [0-9.]*|\"attention_time_factor\": $attention|
            s|: [0-9.]* of scenarios/stacks/easyllm.json on the A100, times [0-9.]* / [0-9.]* (kernels) and [0-9.]* / [0-9.]* (attention)|: $a100 of scenarios/stacks/easyllm.json on the A100, times $to / $from (kernels) and $attention_to / $attention_from (attention)|" "$carried"
    exit 0
fi
status=0
diff "$readme" "$scratch/README.md" || status=1
for gpu in h100 h800; do
    awk -v have="$(factor "$carried" $gpu kernel_time_factor)" -v want="$kernel" \
        -v attention="$(factor "$carried" $gpu attention_time_factor)" -v wanted="$attention" 'BEGIN {
            off = have / want - 1
            attention_off = attention / wanted - 1
            exit !(off < 0.02 && off > -0.02 && attention_off < 0.02 && attention_off > -0.02)
        }' || {
        echo "$carried: $gpu: kernels should be $kernel, attention $attention" >&2
        status=1
    }
done
((status == 0)) || echo "write it anew: tests/docs/test_stacks.sh --update" >&2
# Lists and objects are as another's in part, and so is what stands behind a comma.
awk '
    function inherited(stack, key, base) {
        while (!((stack, key) in stated) && (stack, "base") in stated) {
            base = stated[stack, "base"]
            gsub(/"/, "", base)
            stack = base
        }
        return stated[stack, key]
    }
    FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/\.json$/, "", name) }
    match($0, /^  "[A-Za-z0-9_]+": [^[{]/) {
        key = $1; gsub(/[":]/, "", key)
        value = $0; sub(/^[^:]*: /, "", value); sub(/,$/, "", value)
        stated[name, key] = value
    }
    match($0, /^    "[A-Za-z0-9_]+": "as [a-z0-9.-]+[":]/) {
        key = $1; gsub(/[":]/, "", key)
        other = $3; gsub(/[":,]/, "", other)
        claims[name, key] = other
    }
    END {
        for (claim in claims) {
            split(claim, of, SUBSEP)
            other = claims[claim]
            if (!(claim in stated) || !((other, "name") in stated)) continue
            if (stated[claim] == inherited(other, of[2])) continue
            printf "%s: %s is %s, as %s, which has \"%s\"\n", of[1], of[2], stated[claim], other, inherited(other, of[2])
            wrong = 1
        }
        exit wrong
    }' "$folder"/*.json >&2 || status=1
exit $status
