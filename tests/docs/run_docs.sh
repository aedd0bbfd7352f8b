#!/usr/bin/env bash
# run_docs.sh [--update] [--keep DIR] BALLAST PAGE.md ... - runs every command line of a page, in order, as a
# reader would.
#
# A command is a line of a fenced block that begins with "$ ". It goes on over lines that end in a
# backslash or inside quotes, and up to the line END after <<'END'. A JSON block is saved under the name
# `my/....json` that stands before it. All of a page run in one shell, in a copy of the
# repository's layout where build/ballast is the program and only new files can be written. Fetching
# and building (git, ./quickstart.sh, ./test.sh, cmake, sudo, apt-get, cpack) are left to other tests.
# Output that stands below a command in the page must have its words (outputs.awk); --update writes
# today's figures into it, --keep copies what a page's commands left in my/ to DIR.
#
# Exit 0: all commands of all pages exit 0, or 2 where the line below in the page is an "error:", and print
# what the page shows; 1: they do not, or a page has no command; 2: bad usage.
set -euo pipefail

update=0
keep=
usage() {
    echo "${1}usage: run_docs.sh [--update] [--keep DIR] BALLAST PAGE.md ..." >&2
    exit 2
}
while [[ ${1-} == --* ]]; do
    case $1 in
        --update) update=1 ;;
        --keep)
            [[ -d ${2-} ]] || usage "--keep needs a folder; "
            keep=$(realpath -- "$2")
            shift
            ;;
        *) usage "unknown option $1; " ;;
    esac
    shift
done
[[ $# -ge 2 ]] || usage ""
program=$(realpath -- "$1")
shift
here=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
root=$(realpath -- "$here/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

commands_of() {
    awk '
        function quotes(text) { return gsub(/\047/, "", text) }
        function finish() { if (command != "") printf "%d %d %s%c", wanted, last, command, 0; command = "" }
        # A page that shows a JSON file names it just before: "Save as `my/job.json`:".
        !inside && match($0, /`my\/[^`]*\.json`/) { file = substr($0, RSTART + 1, RLENGTH - 2) }
        /^[ \t]*```/ {
            if (inside && saving) { command = command "\nEND"; saving = 0 }
            if (inside) finish()
            inside = !inside
            if (inside && /json/ && file != "") {
                wanted = 0
                command = "cat > " file " <<\047END\047"
                saving = 1
            }
            file = ""
            open = 0
            next
        }
        !inside { next }
        saving { command = command "\n" $0; last = NR; next }
        heredoc { command = command "\n" $0; last = NR; if ($0 == "END") { heredoc = 0; finish() }; next }
        open {
            command = command "\n" $0
            last = NR
            if (quotes(command) % 2 || $0 ~ /\\$/) next
            open = 0
            next
        }
        /^\$ / {
            finish()
            wanted = 0
            last = NR
            command = substr($0, 3)
            if (command ~ /<<.?END/) heredoc = 1
            else open = quotes(command) % 2 || command ~ /\\$/
            next
        }
        command != "" && /^(error:|[^ ]+: error:)/ { wanted = 2 }
        { finish() }' "$1"
}

run_page() {
    local page=$1 place=$work/place command want line status count=0
    rm -rf "$place" "$work/outputs"
    mkdir -p "$place/build" "$work/outputs"
    : > "$work/list"
    for item in scenarios docs tests sim calibrate; do ln -s "$root/$item" "$place/$item"; done
    ln -s "$program" "$place/build/ballast"
    while IFS= read -r -d '' command; do
        read -r want line _ <<< "$command"
        command=${command#* * }
        case $command in
            git\ * | ./quickstart.sh* | ./test.sh* | cmake\ * | sudo\ * | apt-get\ * | cpack\ *) continue ;;
        esac
        if [[ $command == sqlite3\ * ]] && ! command -v sqlite3 > /dev/null; then
            echo "skipped: $command, because sqlite3 is not installed"
            continue
        fi
        status=0
        (cd "$place" && env HOME="$place" PATH="$place/build:$PATH" timeout 120 bash -c "$command") \
            < /dev/null > "$work/out" 2>&1 || status=$?
        count=$((count + 1))
        mv "$work/out" "$work/outputs/$count"
        echo "$line $work/outputs/$count" >> "$work/list"
        if [[ $status -ne $want ]]; then
            printf '%s: exit %s from\n  $ %s\n' "$page" "$status" "$command"
            tail -n 5 "$work/outputs/$count"
            failures=1
        fi
    done < <(commands_of "$page")
    if [[ $count -eq 0 ]]; then
        echo "$page: no command was found"
        failures=1
        return
    fi
    awk -v page="$page" -v update=$update -f "$here/outputs.awk" "$work/list" "$page" > "$work/page" || failures=1
    if ((update)) && ! cmp -s "$work/page" "$page"; then cat "$work/page" > "$page"; fi
    if [[ -n $keep && -d $place/my ]]; then cp -r "$place/my/." "$keep"; fi
}

for page in "$@"; do run_page "$page"; done
exit "$failures"
