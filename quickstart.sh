#!/usr/bin/env bash
# quickstart.sh - from a clean clone on Debian 12 to a first answer: installs the missing Debian
# packages, builds into build/, simulates two example scenarios and compares them.
#
#     ./quickstart.sh                as root, or as a user who may use sudo
#     ./quickstart.sh --setup-only   packages and checks only, no build
#
# test.sh sources this file for its functions; nothing below runs then.
set -euo pipefail
export LC_ALL=C.UTF-8 # the messages of tools are read below

packages=(gcc libc6-dev cmake ninja-build pkg-config libgsl-dev libglpk-dev libsqlite3-dev libcjson-dev
    zlib1g-dev libcmocka-dev gnuplot-nox)
cmake_needed=3.25
needed_MiB=300 # for one build, with room for results

say() {
    printf '%s\n' "$*" >&2
}

stop() {
    printf '%s: cannot go on: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

free_MiB() {
    df -Pk . | awk 'NR == 2 { print int($4 / 1024) }'
}

# The folder must take a build. $1: the build folder.
check_folder() {
    local free reason
    if ! reason=$({ mkdir -p "$1" && : > "$1/.writable"; } 2>&1); then
        case $reason in
            *"No space left"*) stop "the disk that holds $PWD is full." ;;
            *) stop "$PWD/$1 cannot be written (${reason##*: }); clone into a folder of your own." ;;
        esac
    fi
    rm -f "$1/.writable"
    free=$(free_MiB)
    [[ -e $1/build.ninja || $free -ge $needed_MiB ]] ||
        stop "the disk that holds $PWD has $free MiB free and the build needs $needed_MiB MiB."
}

missing_packages() {
    local package
    for package in "${packages[@]}"; do
        # gnuplot-nox would remove another flavour of gnuplot, which serves as well.
        if [[ $package == gnuplot-nox ]] && command -v gnuplot > /dev/null; then continue; fi
        # A package of two architectures prints its status twice.
        [[ $(dpkg-query -W -f='${db:Status-Status} ' "$package" 2> /dev/null) == installed* ]] ||
            printf '%s\n' "$package"
    done
}

# One sentence for what apt printed. $1: its output.
apt_reason() {
    case $1 in
        *"No space left on device"* | *"enough free space"*) echo "the disk is full" ;;
        *"Could not get lock"* | *"is another process using it"*) echo "another package manager is running; wait for it and start again" ;;
        *"emporary failure resolving"* | *"Could not resolve"* | *"Could not connect"* | \
            *"onnection failed"* | *"onnection timed out"* | *"Network is unreachable"* | *"Failed to fetch"*)
            echo "the package mirror could not be reached; check the network" ;;
        *"Unable to locate package"* | *"no installation candidate"*)
            echo "apt does not know one of them; this needs Debian 12 with its main archive in /etc/apt" ;;
        *) echo "apt-get failed as shown above" ;;
    esac
}

install_packages() {
    local as_root=() output updates=""
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo > /dev/null ||
            stop "these packages are missing and there is neither root nor sudo to install them: $*"
        # Without a terminal nobody can type a password.
        sudo -n true 2> /dev/null || { [[ -t 0 ]] && sudo -v; } ||
            stop "these packages are missing and sudo does not let $(id -un) install them: $*"
        as_root=(sudo)
    fi
    say "installing Debian packages: $*"
    # A dead third-party archive fails the update but need not stop the installation.
    updates=$("${as_root[@]}" apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 update \
        2>&1 < /dev/null) || true
    if ! output=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 install --no-install-recommends "$@" \
        2>&1 < /dev/null); then
        printf '%s\n%s\n' "$updates" "$output" | grep -E '^[EW]:' | tail -n 8 >&2 || true
        stop "installing $* did not work: $(apt_reason "$updates $output")."
    fi
}

set_up() {
    local missing version
    if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
        stop "this script sets up Debian 12 and here is no apt-get; install the likes of" \
            "${packages[*]}, then run: cmake --preset release && cmake --build --preset release"
    fi
    missing=$(missing_packages)
    # shellcheck disable=SC2086  # one word a package
    if [[ -n $missing ]]; then install_packages $missing; fi
    version=$(cmake --version | awk 'NR == 1 { print $3 }')
    [[ $(printf '%s\n' "$cmake_needed" "$version" | sort -V | head -n 1) == "$cmake_needed" ]] ||
        stop "$(command -v cmake) is version $version and $cmake_needed or newer is needed, as in Debian 12."
}

# $1: a preset of CMakePresets.json, $2: its build folder; then what cmake is told besides.
build() {
    local preset=$1 folder=$2 output fresh=()
    check_folder "$folder"
    # A clone that was moved or copied keeps a cache that names its old place.
    if [[ -f $folder/CMakeCache.txt ]] &&
        ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$folder/CMakeCache.txt"; then
        fresh=(--fresh)
    fi
    output=$(cmake --preset "$preset" "${fresh[@]}" "${@:3}" 2>&1) || {
        printf '%s\n' "$output" >&2
        stop "cmake could not configure $folder; its reason is above."
    }
    if ! cmake --build "$folder" --parallel "$(nproc)" >&2; then
        [[ $(free_MiB) -ge 10 ]] || stop "the disk that holds $PWD is full."
        stop "the build in $folder failed; the compiler's message is above."
    fi
}

ballast() {
    build/ballast "$@" || stop "\`build/ballast $*\` failed; its message is above."
}

# The first study: InternVL 6B+20B with Megatron's defaults against balanced batching.
main_job() {
    local baseline=scenarios/examples/internvl-6b-20b-baseline.json
    local balanced=scenarios/examples/internvl-6b-20b-isf.json
    local database=build/quickstart.db picture=build/quickstart-timeline.png
    rm -f "$database" "$database-wal" "$database-shm" # this script's own, from an earlier start
    ballast run "$baseline" --db "$database"
    ballast run "$balanced" --db "$database"
    ballast compare "$baseline" "$balanced"
    ballast plot timeline "$baseline" -o "$picture"
    say ""
    say "Done. The program is build/ballast; every number above is in $database, and the"
    say "timeline of one training step is in $picture."
    say "Next: build/ballast --help, docs/, and ./test.sh"
}

quickstart() {
    case ${1-} in
        "" | --setup-only) ;;
        -h | --help)
            echo "usage: ./quickstart.sh [--setup-only]"
            return 0 ;;
        *)
            say "usage: ./quickstart.sh [--setup-only]"
            exit 2 ;;
    esac
    set_up
    if [[ ${1-} == --setup-only ]]; then
        say "everything that the build needs is installed."
        return 0
    fi
    build release build
    main_job
}

cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then quickstart "$@"; fi
