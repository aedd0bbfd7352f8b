#!/usr/bin/env bash
# test_outputs.sh - run_docs.sh finds what a page shows and the program does not print, and brings figures up to date.
set -euo pipefail
here=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/program" << 'END'
#!/bin/sh
printf 'step time   %s s mean   (p50 7.5)\n  padding   12.0 ms  3.0 %%  ###\nrow 1,10,fits\nrow 2,20,fits\n' "$1"
END
chmod +x "$work/program"

page() {
    printf '%s\n' 'A page.' '```' '$ build/ballast 7.125' "$@" '```' > "$work/page.md"
}
check() { "$here/run_docs.sh" "$work/program" "$work/page.md" > "$work/said" 2>&1; }
fail() { echo "test_outputs: $1" && cat "$work/said" "$work/page.md" && exit 1; }

page 'step time   6 s mean   ...' '...' 'row 2,21,fits'
check || fail "a shortened page with old figures has the right words"
"$here/run_docs.sh" --update "$work/program" "$work/page.md" > "$work/said" 2>&1 || fail "--update"
grep -qx 'step time   7.125 s mean   ...' "$work/page.md" || fail "a cut line keeps its cut and takes today's figure"
grep -qx 'row 2,20,fits' "$work/page.md" || fail "of rows with the same words the one of the same name"

page 'step time   7.125 s median   ...'
if check; then fail "another word is not seen"; fi
grep -q 'page.md:4: the program does not print this line: step time' "$work/said" || fail "the place is not said"
page 'row 1,10,fits' '  padding   12.0 ms  3.0 %  ###'
if check; then fail "another order is not seen"; fi
page '  padding   9.0 ms  3.0 %  #' '```' 'Words between.' '```' 'row 1,9,fits' 'row 3,9,does not fit'
if check; then fail "a block that goes on with the output is not read"; fi
grep -q 'page.md:9:' "$work/said" || fail "the place in the block that goes on"

printf '%s\n' 'A page without commands.' '```' 'row 1,9,fits' '```' > "$work/page.md"
cp "$work/page.md" "$work/kept.md"
if "$here/run_docs.sh" --update "$work/program" "$work/page.md" > "$work/said" 2>&1; then fail "no command is no fault"; fi
grep -q 'no command was found' "$work/said" || fail "a page without commands is not said"
cmp -s "$work/page.md" "$work/kept.md" || fail "--update changes a page without commands"
: > "$work/list"
awk -v page=page.md -v update=1 -f "$here/outputs.awk" "$work/list" "$work/page.md" > "$work/said" || fail "an empty list"
cmp -s "$work/said" "$work/kept.md" || fail "an empty list empties the page"

for arguments in '' --update "$work/program" '--keep' '--no-such-option x y'; do
    status=0
    # shellcheck disable=SC2086
    "$here/run_docs.sh" $arguments > "$work/said" 2>&1 || status=$?
    [[ $status -eq 2 ]] || fail "exit $status, not 2, of: run_docs.sh $arguments"
    grep -q 'usage: run_docs.sh' "$work/said" || fail "no usage from: run_docs.sh $arguments"
done
echo "pages' outputs are compared"
