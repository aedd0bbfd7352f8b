#!/bin/bash
# test_figures.sh BALLAST - figures that README.md and docs/MODEL.md repeat in their prose are those of
# scenarios/bands.json and of `ballast validate`: a refit must not leave them behind.
set -u
ballast=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
command -v jq > /dev/null || exit 77
bands=scenarios/bands.json
status=0

# page PAGE WORDS...: the page holds them, across line breaks.
page() {
    if ! tr -s '\n ' ' ' < "$1" | grep -qF -e "$2"; then
        echo "test_figures: $1 lacks \"$2\"" >&2
        status=1
    fi
}

percent() { jq "$1 * 100 | round" "$2"; }
hundredths() { jq -r "$1 * 100 | round | (. / 100 | floor | tostring) + \".\" + (. % 100 + 100 | tostring | .[1:])" "$2"; }

# sides KIND: what its runs took at least and at most, as a band.
sides() { jq -r "\"\(((.$1_low - 1) * 100) | round) to +\(((.$1_high - 1) * 100) | round) %\"" $bands; }
page README.md "$(sides multimodal) for models that write text behind encoders"
page README.md "$(sides encoder) for encoders alone and diffusion"
page docs/MODEL.md "behind encoders $(hundredths .multimodal_low $bands) to $(hundredths .multimodal_high $bands) times"
page docs/MODEL.md "half over $(hundredths .multimodal_median $bands) times"
page docs/MODEL.md "diffusion $(hundredths .encoder_low $bands) to $(hundredths .encoder_high $bands) times"
page docs/MODEL.md "half over $(hundredths .encoder_median $bands) times"
page docs/MODEL.md "takes \`uncalibrated_stack_factor\` of \`scenarios/bands.json\` on its kernels besides, $(hundredths .uncalibrated_stack_factor $bands) ("
page docs/MODEL.md "whatever its stack: $(hundredths .encoder_factor $bands), what leaves"
page README.md "memory has a band of its own ($(percent .memory $bands) %)"

validated=$(mktemp) || exit 1
trap 'rm -f "$validated" "$validated.bands"' EXIT
"$ballast" calibrate bands -o "$validated.bands" --quiet > /dev/null || exit 1
if ! cmp -s "$validated.bands" "$bands"; then
    echo "test_figures: $bands is not what ballast calibrate bands makes" >&2
    status=1
fi
"$ballast" validate --quiet --json > "$validated" 2> /dev/null || exit 1
# covered KIND: of its rows, in their bands.
covered() { jq ".$1.band_coverage * 100 | round" "$validated"; }
page README.md "On these rows $(covered text) % of text and $(covered multimodal) % of the others lie inside"
page README.md "on $(jq .text.predicted "$validated") rows of text models that nothing was fitted on"
exit $status
