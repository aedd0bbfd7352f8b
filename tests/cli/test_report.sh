#!/usr/bin/env bash
# test_report.sh BALLAST SOURCE - the page of `ballast report`: whole, self-contained, the same twice, and in
# headless Chromium (where it is installed) sortable, filterable and without an error.
set -euo pipefail

program=$(realpath -- "$1") source=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"
failures=0
fail() { echo "FAILED: $*"; failures=1; }
ballast() { "$program" "$@" --scenarios scenarios --quiet; }

small=tests/golden/input/small.json
ballast run $small --set 'name=plain <b>&amp;' --db "$work/r.db" > /dev/null
ballast run $small --set name=cheaper --set policy.partition=parameter --db "$work/r.db" > /dev/null
ballast run $small --set name=crowded --set policy.recompute=none --set 'training.micro_batch={"samples":8}' \
    --set 'training.global_batch={"samples":64}' --set simulate.iterations=1 --db "$work/r.db" > /dev/null
ballast report "$work/r.db" -o "$work/page.html" 2> /dev/null
ballast report "$work/r.db" -o "$work/again.html" 2> /dev/null
cmp -s "$work/page.html" "$work/again.html" || fail "two reports of one database differ"

# Prices of a scenario's own stand beside the answer and in the run's assumptions; no run here has any.
grep -q 'rules of their own' "$work/page.html" && fail "rules that no run has"
ballast run $small --set name=ruled --set 'rules=[{"operator":"matmul","factor":1.1,"source":"<ours>"}]' --db "$work/ruled.db" > /dev/null
ballast report "$work/ruled.db" -o "$work/ruled.html" 2> /dev/null
grep -q 'Prices are set by rules of their own in: ruled' "$work/ruled.html" || fail "the answer is silent on a run's rules"
grep -qF 'prices are set by rule 1 of the scenario (operator matmul, factor 1.1: &lt;ours&gt;)' "$work/ruled.html" || fail "a run's rules are not told"

page=$work/page.html
grep -q '<section class="answer" id="answer">' "$page" || fail "no answer"
awk '/id="answer"/ { a = NR } /<table id="runs"/ { t = NR } END { exit !(a > 0 && t > a) }' "$page" || fail "the answer is not first"
# What runs out of memory is no answer, however fast.
awk '/id="answer"/ { on = 1 } on && /<b>cheaper<\/b>/ { found = 1 } /<\/section>/ { exit !found }' "$page" || fail "the answer is not the cheapest run that fits"
grep -q 'plain &lt;b&gt;&amp;amp;' "$page" || fail "a name is not escaped"
if grep -qE '(src|href)="?(https?:)?//' "$page" || grep -qE '@import|url\(' "$page"; then fail "the page fetches something"; fi
for text in 'All runs' 'Stages of the pipeline' 'Dearest operators' '<h3>Assumed</h3>' 'How to get these numbers again' \
    "ballast export run --db $work/r.db --run 1" 'every default filled in'; do
    grep -qF "$text" "$page" || fail "the page lacks '$text'"
done
if command -v gnuplot > /dev/null; then
    pictures=$(grep -o 'data:image/svg+xml;base64,' "$page" | wc -l)
    [[ $pictures -eq 10 ]] || fail "$pictures pictures, want 1 + 3 of each of 3 runs"
    grep -q 'green waiting for the host: dark for samples, light for launches' "$page" || fail "the colours are not explained"
else
    grep -q 'No picture' "$page" || fail "nothing is said about missing pictures"
fi
# Without gnuplot the page is poorer, not wrong.
env PATH="$work/empty" "$program" report "$work/r.db" -o "$work/bare.html" --scenarios scenarios 2> /dev/null || fail "no page without gnuplot"
grep -q 'No picture: cannot start gnuplot' "$work/bare.html" || fail "a page without gnuplot does not say so"
grep -q 'id="answer"' "$work/bare.html" || fail "a page without gnuplot has no answer"

# A run that supposes a free network is no competitor.
ballast run $small --set name=free --set what_if.nic_factor=1000 --db "$work/w.db" > /dev/null
ballast run $small --set name=real --db "$work/w.db" > /dev/null
ballast run $small --set name=worse --set policy.recompute=full --set layout.pp=4 --db "$work/w.db" > /dev/null
ballast report "$work/w.db" -o "$work/what.html" 2> /dev/null
grep -q '1 of the runs suppose something' "$work/what.html" || fail "a run that supposes something is not said"
if grep -qE 'first"><b>free|Next best: free' "$work/what.html"; then fail "a run that supposes something competes"; fi
[[ $(grep -c '>what if</span>' "$work/what.html") -eq 1 ]] || fail "the run that supposes something is not marked"

# Two runs by name; a scenario simulated for the page alone.
ballast report cheaper 1 --db "$work/r.db" -o "$work/two.html" 2> /dev/null
[[ $(grep -c '^<tr' "$work/two.html") -ge 2 ]] || fail "runs by name"
ballast report $small -o "$work/one.html" 2> /dev/null
grep -q '<title>Ballast: small</title>' "$work/one.html" || fail "a scenario has no page"

# A sweep: what it did not replay is on the page, and in pictures of its own.
cat > "$work/sweep.json" << END
{ "name": "small sweep", "scenario": "$PWD/$small", "top": 2, "objective": "gpu_days",
  "vary": { "layout.tp": [1, 2, 4], "layout.pp": [1, 2], "policy.recompute": ["full", "none"],
            "cluster.hardware, cluster.price_usd_per_gpu_hour": [["a100-80g-sxm", 1], ["h100-80g-sxm", 30]] } }
END
ballast sweep "$work/sweep.json" --db "$work/s.db" > /dev/null
ballast report "$work/s.db" -o "$work/sweep.html" 2> /dev/null
for text in 'Sweep: small sweep' 'The sweep holds cheaper configurations' 'cheapest configurations</summary>' '<th>what differs</th>' ' raced</li>'; do
    grep -qF "$text" "$work/sweep.html" || fail "the page of a sweep lacks '$text'"
done
grep -q 'id="limits"' "$work/sweep.html" && fail "a sweep without limits has some"
# Deadline and budget stand in the answer, with what keeps them; resuming with others sets them anew.
ballast sweep "$work/sweep.json" --db "$work/s.db" --deadline 30 --budget 5000 > /dev/null
ballast report "$work/s.db" -o "$work/kept.html" 2> /dev/null
for text in 'that keep deadline and budget' 'Asked for: within 30.00 days, for 5,000 USD at most' 'keeps it with its whole error band' \
    'those that keep deadline and budget first'; do
    grep -qF "$text" "$work/kept.html" || fail "the page of a sweep with limits lacks '$text'"
done
ballast sweep "$work/sweep.json" --db "$work/s.db" --deadline 0.000001 > /dev/null
ballast report "$work/s.db" -o "$work/late.html" 2> /dev/null
grep -qF 'The one above is late</b>: no run does better' "$work/late.html" || fail "that nothing keeps the deadline is not said"
grep -q '<span class="tag out">late</span>' "$work/late.html" || fail "late runs are not marked"
# Runs of a sweep go by what tells them apart; small jobs are in hours and seconds.
runs_of() { sed -n '/<table id="runs"/,/<\/table>/p' "$1"; }
[[ $(runs_of "$work/sweep.html" | grep -cE 'title="run [0-9]">tp [24], recompute (none|full)<') -eq 2 ]] || fail "the runs of a sweep have long names"
grep -q 'All runs: pp 1, hardware h100-80g-sxm' "$work/sweep.html" || fail "what the names leave out is not said"
runs_of "$work/sweep.html" | grep -q 'data-key="days"[^>]*><button>seconds' || fail "a short job is in days"
if command -v gnuplot > /dev/null; then
    ballast plot heatmap --db "$work/s.db" --x layout.tp --y cluster.hardware -o "$work/map.svg"
    grep -q '>best<' "$work/map.svg" || fail "the heat map marks no best cell"
    grep -q '>h100-80g-sxm<' "$work/map.svg" || fail "the heat map does not name its rows"
    ballast plot heatmap --db "$work/s.db" -o "$work/map.png"
    ballast plot pareto --db "$work/s.db" -o "$work/front.svg"
    grep -qE '1  (≈ )?[0-9.]+ [a-z]+, [0-9.]+ USD, [0-9]+ GPUs' "$work/front.svg" || fail "the front of a sweep is not listed"
fi
plot_refused() {
    local want=$1 status=0
    shift
    ballast plot "$@" > /dev/null 2> "$work/err" || status=$?
    if [[ $status -ne 2 ]] || ! grep -qF -- "$want" "$work/err"; then
        fail "plot $*: exit $status: $(cat "$work/err")"
    fi
}
plot_refused 'holds no sweep' heatmap --db "$work/r.db" -o "$work/x.svg"
plot_refused "no sweep called 'other'" heatmap --db "$work/s.db" --sweep other -o "$work/x.svg"
plot_refused 'does not vary layout.tpp' heatmap --db "$work/s.db" --x layout.tpp --y layout.pp -o "$work/x.svg"
plot_refused 'a heat map is that of a stored sweep' heatmap $small -o "$work/x.svg"

refused() {
    local want=$1 status=0
    shift
    ballast report "$@" > /dev/null 2> "$work/err" || status=$?
    if [[ $status -ne 2 ]] || ! grep -qF -- "$want" "$work/err"; then
        fail "report $*: exit $status: $(cat "$work/err")"
    fi
}
refused 'name the page with --output' "$work/r.db"
refused 'name one database' "$work/r.db" 1 -o "$work/x.html"
refused '--set changes a scenario' "$work/r.db" --set layout.tp=4 -o "$work/x.html"
refused "there is no database '$work/nowhere.db'" "$work/nowhere.db" -o "$work/x.html"
refused 'nothing' nothing --db "$work/r.db" -o "$work/x.html"
[[ ! -e $work/x.html ]] || fail "a refused report leaves a file"

browser=$(command -v chromium || command -v google-chrome || true)
if [[ -z $browser ]]; then
    echo "skipped: the page in a browser, because Chromium is not installed"
    exit "$failures"
fi
# $1: what follows # in the address. Prints the document after the script has run.
dom() {
    HOME=$work timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/browser" \
        --enable-logging=stderr --dump-dom "file://$page#$1" 2> "$work/console"
}
rows() { awk '/<table id="runs"/ { on = 1 } on { print } on && /<\/table>/ { exit }' "$work/dom" | grep -o '<tr[^>]*><td[^>]*>[^<]*'; }
if ! dom "" > "$work/dom" || ! grep -q '</html>' "$work/dom"; then
    echo "skipped: the page in a browser, because Chromium does not start here: $(tail -n 1 "$work/console")"
    exit "$failures"
fi
if grep -i 'CONSOLE.*error' "$work/console"; then fail "the page's script complains"; fi
grep -q '3 of 3 runs' "$work/dom" || fail "the script does not count the runs"
dom "sort=gpu_days" > "$work/dom"
[[ $(rows | sed 's/.*>//' | tr '\n' ' ') == 'crowded cheaper plain '* ]] || fail "sorted by GPU-days: $(rows)"
grep -q 'data-key="gpu_days"[^>]*aria-sort="ascending"' "$work/dom" || fail "the sorted column is not marked"
dom "sort=gpu_days&down=1" > "$work/dom"
[[ $(rows | tail -n 1) == *crowded ]] || fail "sorted down, the last row is $(rows | tail -n 1)"
dom "filter=PARAMETER%20fits" > "$work/dom"
[[ $(rows | grep -vc hidden) -eq 1 ]] || fail "the filter leaves $(rows | grep -vc hidden) rows"
# At no width does the page, or a card of it, hold more than it shows; a name without a blank is broken.
ballast run $small --set "name=$(printf 'long%.0s' {1..40})" --db "$work/r.db" > /dev/null
ballast report "$work/r.db" -o "$work/wide.html" 2> /dev/null
cat > "$work/widths.html" << 'END'
<body><script>
let left = 6, out = [];
for (const width of [320, 360, 400, 600, 768, 1400]) {
  const frame = document.createElement("iframe");
  frame.style = "border:0;height:900px;width:" + width + "px"; frame.src = "wide.html";
  frame.onload = () => {
    const page = frame.contentDocument;
    page.querySelectorAll("details").forEach(d => d.open = true);
    page.querySelectorAll("html, .figures div, .figures b, .answer, p, li, h1, h2").forEach(e => {
      if (e.scrollWidth > e.clientWidth + 1 && !e.closest(".scroll, pre")) out.push("spills at " + width + ": " + e.tagName + " " + e.textContent.slice(0, 40));
    });
    const name = page.querySelector("#runs td.name");
    if (name && name.clientWidth > 400) out.push("spills at " + width + ": a name of " + name.clientWidth);
    if (--left == 0) document.body.textContent = "looked " + out.join("; ");
  };
  document.body.append(frame);
}
</script></body>
END
HOME=$work timeout 90 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/browser" --allow-file-access-from-files \
    --virtual-time-budget=20000 --dump-dom "file://$work/widths.html" > "$work/dom" 2> /dev/null || true
grep -q looked "$work/dom" || fail "the widths were not looked at"
if grep spills "$work/dom"; then fail "the page spills over"; fi
for size in 1300,1600 420,1600; do
    for theme in light dark; do
        HOME=$work timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
            --user-data-dir="$work/browser" --window-size=$size --screenshot="$work/$theme.png" "file://$page#theme=$theme" \
            > /dev/null 2>&1 || fail "no screenshot of $size, $theme"
        [[ $(stat -c %s "$work/$theme.png") -gt 20000 ]] || fail "the picture of $size, $theme is empty"
    done
    if cmp -s "$work/light.png" "$work/dark.png"; then fail "light and dark look alike at $size"; fi
done
exit "$failures"
