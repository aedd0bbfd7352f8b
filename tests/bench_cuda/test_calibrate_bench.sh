#!/usr/bin/env bash
# test_calibrate_bench.sh BALLAST SCENARIOS - `calibrate bench` with stand-ins for the CUDA programs:
# what it runs, what it makes of their exit codes, and which files it leaves.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/calibrate"
cp -- "$1" "$work/ballast"
scenarios=$2
cd -- "$work"

fail() { echo "test_calibrate_bench: $1" >&2; exit 1; }

# run WANTED_CODE: `calibrate bench -o out --quick`, its output in stdout and stderr.
run() {
    local code=0
    ./ballast calibrate bench -o out --quick --scenarios "$scenarios" > stdout 2> stderr || code=$?
    [[ $code -eq $1 ]] || { cat stdout stderr >&2; fail "exit code $code, not $1"; }
}

# said FILE TEXT
said() { grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "$1 does not say: $2"; }; }

# stand_in NAME: the program's text on stdin.
stand_in() { { echo '#!/usr/bin/env bash'; cat; } > "calibrate/$1"; chmod +x "calibrate/$1"; }

run 1
said stderr "no microbenchmark was built beside this program"

stand_in launch_gap <<< 'echo "no GPU was found on this machine: nothing was measured" >&2; exit 1'
stand_in streaming <<< 'exit 0'
run 1
[[ $(< stderr) == "error: no GPU was found on this machine: nothing was measured" ]] || fail "not one sentence"
[[ ! -e out ]] || fail "a folder was left behind"

stand_in launch_gap <<< '[[ "$*" == "-o out --device-json out/device.json --quick" ]] || exit 9
echo kind > out/launch_gap.csv; echo "{}" > out/device.json; echo "progress 1/4 stream" >&2'
stand_in streaming <<< 'echo gpu,test > out/membw.csv'
stand_in collectives <<< 'echo "needs two GPUs" >&2; exit 3'
run 0
said stdout "launch_gap   done       launch_gap.csv"
said stdout "streaming    done       membw.csv.gz"
said stdout "collectives  skipped    needs two GPUs"
said stdout "attention    not built  cuDNN was not found when building"
[[ $(zcat out/membw.csv.gz) == gpu,test ]] || fail "membw.csv.gz does not hold what was measured"
[[ ! -e out/membw.csv ]] || fail "membw.csv was left beside membw.csv.gz"

stand_in matmul <<< 'echo "differs from the CPU reference" >&2; exit 1'
run 1
said stdout "matmul       failed     differs from the CPU reference"
said stdout "streaming    done       membw.csv.gz"
