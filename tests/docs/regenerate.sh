#!/usr/bin/env bash
# regenerate.sh BALLAST [PART...] - writes what the repository holds of the program's own output anew:
#   fit           factors of scenarios/stacks from the measured steps, scenarios/bands.json, the stacks' table
#   validation    docs/VALIDATION.md and its picture
#   scenarios     docs/SCENARIOS.md
#   reproduction  docs/REPRODUCTION.md, the pictures of DIP's figures and of OmniBal's tables (10 minutes)
#   pages         figures below the commands of README.md and of the pages that a user follows, and their pictures
# Without PART all of them, in this order. Words around a figure are a writer's: read `git diff` afterwards.
set -euo pipefail

[ $# -ge 1 ] || { sed -n "2,9s/^# //p" "$0"; exit 2; }
program=$(realpath -- "$1")
shift
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
images=docs/images
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fit() {
    "$program" calibrate refit --quiet > "$work/fit"
    tests/docs/test_stacks.sh --update
}

validation() {
    "$program" validate --markdown --quiet --plot "$images/validation.png" > "$work/page"
    cp "$work/page" docs/VALIDATION.md
}

scenarios() {
    "$program" check --reference > "$work/page"
    cp "$work/page" docs/SCENARIOS.md
}

reproduction() {
    "$program" reproduce --markdown --quiet --pictures "$work" > "$work/page"
    cp "$work/page" docs/REPRODUCTION.md
    for figure in 8b 13 14; do cp "$work/dip.figure$figure.png" "$images/dip-figure$figure.png"; done
    "$program" reproduce omnibal.ablation omnibal.main omnibal.datasets omnibal.models --quiet \
        --plot "$images/omnibal-scatter.png" > "$work/scatter"
}

# page NAME [PICTURE-OF-THE-PAGE PICTURE-OF-THE-REPOSITORY]...
page() {
    local name=$1 kept=$work/kept
    shift
    rm -rf "$kept"
    mkdir "$kept"
    tests/docs/run_docs.sh --update --keep "$kept" "$program" "$name" || failures=1
    while (($# > 0)); do
        cp "$kept/$1" "$images/$2"
        shift 2
    done
}

# The top of the tutorial's report as a browser shows it.
report_picture() {
    command -v chromium > /dev/null || { echo "left as it is: $images/report.png, for want of chromium" && return; }
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,830 \
        --screenshot="$PWD/$images/report.png" "file://$work/kept/results.html" > "$work/browser" 2>&1
}

pages() {
    page README.md
    page docs/TUTORIAL-DIP.md megatron.png dip-megatron.png dip.png dip-timeline.png memory.png dip-memory.png
    page docs/TUTORIAL-OMNIBAL.md before.png omnibal-before.png after.png omnibal-after.png stages.png omnibal-stages.png
    page docs/HOWTO-SWEEP.md pareto.png sweep-pareto.png heatmap.png sweep-heatmap.png scaling.png sweep-scaling.png
    for name in HOWTO-OWN-MODEL HOWTO-COMPARE-POLICIES HOWTO-REPRODUCE HOWTO-CALIBRATE PLUGIN; do page "docs/$name.md"; done
    page docs/TUTORIAL.md timeline.png timeline-isf.png
    report_picture
}

failures=0
parts=("$@")
[[ $# -gt 0 ]] || parts=(fit validation scenarios reproduction pages)
for part in "${parts[@]}"; do
    case $part in
        fit) fit ;;
        validation) validation ;;
        scenarios) scenarios ;;
        reproduction) reproduction ;;
        pages) pages ;;
        *) echo "$part is no part: fit, validation, scenarios, reproduction or pages" >&2 && exit 2 ;;
    esac
    echo "written: $part"
done
exit "$failures"
