#!/usr/bin/env bash
# test_plugin.sh BALLAST SOURCE - a policy outside the tree: the example is compiled against the
# public header alone and used; what breaks a rule is refused with one sentence.
set -euo pipefail

program=$(realpath -- "$1") source=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"
mkdir "$work/include"
cp sim/ballast.h "$work/include/"
failures=0
fail() { echo "FAILED: $*"; failures=1; }

compile() { # SOURCE OUTPUT [FLAG...]
    local from=$1 to=$2
    shift 2
    "${CC:-cc}" -std=c99 -Wall -Wextra -Werror -shared -fPIC -I "$work/include" "$@" "$from" -o "$to"
}
compile docs/examples/plugin_example.c "$work/example.so"
compile tests/cli/wrong_plugin.c "$work/wrong.so"
compile tests/cli/wrong_plugin.c "$work/newer.so" -DWRONG_API_VERSION=99
compile tests/cli/wrong_plugin.c "$work/taken.so" '-DWRONG_NAME="isf"'
compile tests/cli/wrong_plugin.c "$work/nameless.so" '-DWRONG_NAME="No Name"'
echo 'int nothing;' > "$work/none.c"
compile "$work/none.c" "$work/none.so"
echo 'not a library' > "$work/text.so"

run() { "$program" run tests/golden/input/small.json --scenarios scenarios --quiet --json "$@"; }
number() { sed -n "s/^[[:space:]]*\"$1\":[[:space:]]*\([0-9.e+-]*\),*$/\1/p" | head -n 1; }

# The example: each policy changes what it decides, and the answer repeats.
plain=$(run | number step_time_mean_ms)
for set in policy.partition=bottleneck policy.batching=snake policy.schedule=eager-1f1b \
    'policy.batching={"name":"snake","window":2}'; do
    first=$(run --plugin "$work/example.so" --set "$set" | number step_time_mean_ms)
    second=$(run --plugin "$work/example.so" --set "$set" | number step_time_mean_ms)
    [[ -n $first && $first == "$second" ]] || fail "$set gives '$first', then '$second'"
    [[ $first != "$plain" ]] || fail "$set changes nothing"
done
better=$(run --plugin "$work/example.so" --set policy.partition=bottleneck | number step_time_mean_ms)
awk -v a="$better" -v b="$plain" 'BEGIN { exit !(a < b) }' || fail "bottleneck ($better ms) is not faster than encoder-first ($plain ms)"

# pack: parameters, what was left out, and the help.
pack() { "$program" pack tests/golden/input/samples.csv --scenarios scenarios --plugin "$work/example.so" --policy snake --dp 4 "$@"; }
wide=$(pack --parameter window=8 --micro-batch 2 --json | number pad_ratio)
narrow=$(pack --parameter window=1 --micro-batch 2 --json | number pad_ratio)
[[ -n $wide && $wide != "$narrow" ]] || fail "pack --parameter window: $wide and $narrow"
if pack --parameter window=0 > /dev/null 2> "$work/err"; then fail "pack takes window 0"; fi
grep -qF 'error: policy "snake": ' "$work/err" || fail "pack says: $(cat "$work/err")"
pack --micro-batch 5 --parameter window=1 | grep -q 'given to no rank  *[1-9]' || fail "pack does not count what is given to no rank"
"$program" run tests/golden/input/small.json --scenarios scenarios --quiet --plugin "$work/example.so" \
    --set 'policy.batching={"name":"snake","window":7}' > "$work/out" 2>&1
grep -q '[1-9] that the plug-in gives to no rank' "$work/out" || fail "run says of samples left out: $(grep left "$work/out")"
"$program" pack --help | grep -q -- '--plugin FILE' || fail "pack --help does not list --plugin"
# The line at the top of each example compiles it, in its folder.
mkdir -p "$work/tree/docs" "$work/tree/sim"
cp -r docs/examples "$work/tree/docs/"
cp sim/ballast.h "$work/tree/sim/"
for example in plugin_example plugin_joint; do
    line=$(sed -n 's/^ \* *\(cc .*\)$/\1/p' "docs/examples/$example.c" | head -n 1)
    (cd "$work/tree/docs/examples" && eval "$line") || fail "$example.c: '$line' fails"
done

refused() { # WANTED ARGUMENT...
    local want=$1 status=0
    shift
    run "$@" > "$work/out" 2> "$work/err" || status=$?
    [[ $status -eq 2 ]] || fail "$*: exit $status: $(cat "$work/err")"
    grep -qF -- "$want" "$work/err" || fail "$*: says '$(cat "$work/err")', not '$want'"
}
refused "cannot load plug-in $work/absent.so: cannot open" --plugin "$work/absent.so"
refused 'cannot load plug-in' --plugin "$work/text.so"
for size in 10 100 1000 6000; do
    head -c $size "$work/example.so" > "$work/cut.so"
    refused 'cannot load plug-in' --plugin "$work/cut.so"
done
refused 'it is not a file' --plugin "$work"
refused 'exports no ballast_plugin()' --plugin "$work/none.so"
refused 'was built for version 99' --plugin "$work/newer.so"
refused 'there is a batching policy "isf" already' --plugin "$work/taken.so"
refused 'no name of small letters' --plugin "$work/nameless.so"
refused 'there is a batching policy "wrong" already' --plugin "$work/wrong.so" --plugin "$work/wrong.so"
refused 'unknown partition policy "bottleneck"' --set policy.partition=bottleneck
refused 'must be 1 to 4096' --plugin "$work/example.so" --set 'policy.batching={"name":"snake","window":0}'

wrong() { refused "$3" --plugin "$work/wrong.so" --set "policy.$1={\"name\":\"wrong\",\"which\":$2}"; }
wrong batching 0 'rank 2, which is not there'
wrong batching 1 'sample 0 twice'
wrong batching 2 'sample 4000000000, which is not there'
wrong batching 3 'a micro-batch of 1 samples'
wrong batching 4 'left a rank without micro-batches'
wrong batching 5 'the moon is wrong'
wrong batching 6 'rank -1, which is not there'
wrong batching 7 'gave no reason'
wrong partition 0 'the policy put [1, 1] blocks on the parts'
wrong partition 1 ', 0] blocks on the parts'
wrong partition 2 'no way to cut this'
wrong partition 9 'gave no reason'
run --plugin "$work/wrong.so" --set 'policy.partition={"name":"wrong","which":3}' > /dev/null || fail "a right answer after wrong candidates"
refused 'the stages wait for each other: stage 0 cannot run the backward of micro-batch 0' --plugin "$work/wrong.so" --set policy.schedule=backward-first
refused 'forward of micro-batch 0 twice' --plugin "$work/wrong.so" --set policy.schedule=twice
refused 'is told to run micro-batch -1 of chunk -1' --plugin "$work/wrong.so" --set policy.schedule=nothing

# A joint policy orders each iteration: never slower than the data's order, and the emitted actions of
# its order pass the independent check.
compile docs/examples/plugin_joint.c "$work/joint.so"
joint=$(run --plugin "$work/joint.so" --set policy.joint=order-search | number step_time_mean_ms)
again=$(run --plugin "$work/joint.so" --set policy.joint=order-search | number step_time_mean_ms)
[[ -n $joint && $joint == "$again" ]] || fail "order-search gives '$joint', then '$again'"
awk -v a="$joint" -v b="$plain" 'BEGIN { exit !(a < b) }' || fail "order-search ($joint ms) is not faster than 1F1B ($plain ms)"
"$program" plan tests/golden/input/small.json --scenarios scenarios --quiet --plugin "$work/joint.so" \
    --set policy.joint=order-search --emit actions > "$work/actions.json" || fail "no actions of order-search"
"$program" check --schedule "$work/actions.json" > "$work/out" 2>&1 || fail "the check refuses: $(cat "$work/out")"
# A stored run keeps what it rested on: files by their hash, and --set.
run --plugin "$work/joint.so" --set policy.joint=order-search --db "$work/runs.db" > /dev/null 2>&1 || fail "a run with a plug-in is not stored"
"$program" export run --db "$work/runs.db" --format json > "$work/runs.json"
for file in "$work/joint.so" tests/golden/input/small.json scenarios/models/internvl-6b-8b.json; do
    grep -q "$(sha256sum "$file" | cut -d' ' -f1)" "$work/runs.json" || fail "a stored run does not know the hash of $file"
done
grep -q 'policy.joint.*order-search' "$work/runs.json" || fail "a stored run does not know --set"
compile tests/cli/wrong_plugin.c "$work/preset.so" '-DWRONG_PRESET="nowhere"'
refused 'joint policy "wrong" presets the schedule policy "nowhere", which is not there' --plugin "$work/preset.so"
wrong joint 0 'the forward of micro-batch 0 twice'
wrong joint 1 'is told to run micro-batch'
wrong joint 2 'the stages wait for each other: stage 0 cannot run'
wrong joint 3 'no order pleases me'
wrong joint 9 'gave no reason'
refused 'while planning an iteration with "wrong" of a plug-in' --plugin "$work/wrong.so" --set 'policy.joint={"name":"wrong","which":2}'
run --plugin "$work/wrong.so" --set 'policy.joint={"name":"wrong","which":4}' > /dev/null || fail "a right order after a wrong candidate"
# A plug-in of version 1 knows nothing of joint policies, and works.
compile tests/cli/wrong_plugin.c "$work/older.so" -DWRONG_API_VERSION=1
refused 'unknown joint policy "wrong"' --plugin "$work/older.so" --set policy.joint=wrong
run --plugin "$work/older.so" > /dev/null || fail "a plug-in of version 1 is refused"
exit "$failures"
