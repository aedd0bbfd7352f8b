#!/usr/bin/env bash
# test.sh - sets up, builds with warnings as errors and runs every test.
#
#     ./test.sh           all: unit tests and cases of each command under ASan and UBSan first,
#                         then every other test
#     ./test.sh --quick   without the sanitizer build
#
# The last lines are ctest's summary of all tests. Exit 0: all passed.
set -euo pipefail
# shellcheck source=quickstart.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/quickstart.sh"

export TZ=UTC
sanitizer_limit_s=480 all_limit_s=600 # far above what they take: 220 and 420 s on 2 slow cores

quick=false
case ${1-} in
    "") ;;
    --quick) quick=true ;;
    *)
        say "usage: ./test.sh [--quick]"
        exit 2 ;;
esac

# Runs ctest in $2 for at most $1 seconds, with the options that follow.
run_ctest() {
    local limit_s=$1 folder=$2 status=0
    shift 2
    timeout --foreground "$limit_s" ctest --test-dir "$folder" --parallel "$(nproc)" \
        --output-on-failure --no-tests=error "$@" < /dev/null || status=$?
    if [[ $status -eq 124 ]]; then say "the tests in $folder ran longer than $limit_s s and were stopped."; fi
    return "$status"
}

# Whether this machine can build and run with sanitizers; says why not.
sanitizers_work() {
    local folder output
    folder=$(mktemp -d)
    echo 'int main(void) { return 0; }' > "$folder/probe.c"
    if ! "${CC:-cc}" -fsanitize=address,undefined "$folder/probe.c" -o "$folder/probe" 2> /dev/null; then
        rm -rf "$folder"
        say "skipped: the sanitizer build, because ${CC:-cc} has no ASan and UBSan here"
        return 1
    fi
    if ! output=$("$folder/probe" 2>&1); then
        case $output in
            *LeakSanitizer*)
                say "skipped: leak checks, because this container forbids ptrace"
                export ASAN_OPTIONS=detect_leaks=0 ;;
            *)
                rm -rf "$folder"
                say "skipped: the sanitizer build, because its programs do not start here"
                return 1 ;;
        esac
    fi
    rm -rf "$folder"
}

set_up
command -v shellcheck > /dev/null || say "skipped: shellcheck of the scripts, because it is not installed"
command -v mpirun > /dev/null || say "skipped: the sweep of several processes, because OpenMPI is not installed (libopenmpi-dev)"
command -v nvcc > /dev/null || say "skipped: the GPU microbenchmarks, because there is no CUDA compiler"

failed=()
sanitized=false
if ! $quick && sanitizers_work; then sanitized=true; fi
# Unit tests run once, with sanitizers; without them too if __SANITIZE_ADDRESS__ makes them shorter.
build ci build-test "-DBALLAST_TEST_WHOLE=$($sanitized && echo OFF || echo ON)"
if $sanitized; then
    build debug build-debug
    # The cases of files that people write and of stored runs: half a minute more.
    readers='compare|check|data|model|merge|report|validate'
    # A fifth of the time is saved by what findings are told with: whole stacks of who allocated.
    ASAN_OPTIONS=malloc_context_size=3:quarantine_size_mb=16${ASAN_OPTIONS:+:$ASAN_OPTIONS} \
        run_ctest "$sanitizer_limit_s" build-debug --timeout 200 --tests-regex "^(unit/.*|fuzz/.*|golden/[a-z]+|golden/($readers)-.*)\$" ||
        failed+=("tests under ASan and UBSan")
fi
run_ctest "$all_limit_s" build-test --timeout 300 || failed+=("tests")
if [[ ${#failed[@]} -gt 0 ]]; then
    say "failed: $(IFS=,; printf '%s' "${failed[*]}")"
    exit 1
fi
