#!/usr/bin/env bash
# test_quickstart.sh - each reason for which quickstart.sh cannot go on gives its one sentence.
# The machine is played by small programs that stand before the real ones in PATH.
# shellcheck disable=SC2016  # what is in single quotes is for those programs
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A machine where all is well and nothing is missing; each case then breaks one thing.
new_machine() {
    rm -rf "${work:?}/bin" "${work:?}/a clone"
    mkdir -p "$work/bin" "$work/a clone"
    cp "$root/quickstart.sh" "$work/a clone/"
    local tool
    for tool in bash env awk basename cat df dirname grep head mkdir nproc rm sort tail; do
        ln -s "$(command -v "$tool")" "$work/bin/$tool"
    done
    fake dpkg-query 'printf "installed "'
    fake apt-get 'echo "$*" >> "$WORK/apt.log"'
    fake cmake 'if [ "$1" = --version ]; then echo "cmake version 3.25.1"; else echo "$*" >> "$WORK/cmake.log"; fi'
    fake id 'if [ "$1" = -u ]; then echo 0; else echo tester; fi'
    : > "$work/apt.log"
    : > "$work/cmake.log"
}

fake() {
    rm -f "$work/bin/$1"
    printf '#!/bin/bash\n%s\n' "$2" > "$work/bin/$1"
    chmod +x "$work/bin/$1"
}

missing() {
    fake dpkg-query "case \"\$*\" in *$1*) exit 1 ;; esac; printf 'installed '"
}

# expect NAME STATUS TEXT [ARGUMENT...]
expect() {
    local name=$1 want=$2 text=$3 got=0 output
    shift 3
    output=$(cd / && WORK=$work PATH=$work/bin "$work/a clone/quickstart.sh" "$@" 2>&1 < /dev/null) || got=$?
    if [[ $got -ne $want || $output != *"$text"* ]]; then
        printf '%s: exit %s, want %s; printed:\n%s\nwant: %s\n' "$name" "$got" "$want" "$output" "$text"
        exit 1
    fi
}

new_machine
expect "all is there" 0 "everything that the build needs is installed" --setup-only
[[ ! -s $work/apt.log ]] || { echo "all is there: apt-get was called"; exit 1; }
expect "unknown option" 2 "usage: ./quickstart.sh" --fast

new_machine
missing libcmocka-dev
expect "one package missing" 0 "installing Debian packages: libcmocka-dev" --setup-only
grep -q -- '-o DPkg::Lock::Timeout=120 install --no-install-recommends libcmocka-dev$' "$work/apt.log"

new_machine
missing gnuplot-nox
fake gnuplot ':'
expect "another gnuplot" 0 "everything" --setup-only
[[ ! -s $work/apt.log ]] || { echo "another gnuplot: it would be replaced"; exit 1; }

new_machine
missing cmake
fake id 'if [ "$1" = -u ]; then echo 1000; else echo tester; fi'
expect "no sudo" 1 "cannot go on: these packages are missing and there is neither root nor sudo to install them: cmake"
fake sudo 'exit 1'
expect "sudo refuses" 1 "sudo does not let tester install them: cmake"
fake sudo 'if [ "$1" = -n ]; then exit 0; fi; echo "with sudo: $*" >> "$WORK/apt.log"'
expect "sudo works" 0 "everything" --setup-only
grep -q 'with sudo: env DEBIAN_FRONTEND=noninteractive apt-get -q -y .* cmake$' "$work/apt.log"

while IFS='|' read -r name says sentence; do
    new_machine
    missing gcc
    fake apt-get "echo \"$says\"; exit 100"
    expect "$name" 1 "cannot go on: installing gcc did not work: $sentence"
done << 'END'
no network|W: Failed to fetch http://deb.debian.org: Temporary failure resolving|the package mirror could not be reached; check the network.
full disk|E: You do not have enough free space in /var/cache/apt/archives/|the disk is full.
lock|E: Could not get lock /var/lib/dpkg/lock-frontend|another package manager is running
unknown package|E: Unable to locate package gcc|apt does not know one of them
other|E: Sub-process returned an error code|apt-get failed as shown above.
END

new_machine
rm "$work/bin/dpkg-query"
expect "not Debian" 1 "cannot go on: this script sets up Debian 12 and here is no apt-get"

new_machine
fake cmake 'echo "cmake version 3.18.4"'
expect "old cmake" 1 "bin/cmake is version 3.18.4 and 3.25 or newer is needed"

new_machine
fake df 'printf "head\nx 0 0 20480 0 /\n"'
expect "little room" 1 "has 20 MiB free and the build needs 300 MiB."
fake mkdir 'echo "mkdir: cannot create directory: No space left on device" >&2; exit 1'
expect "no room" 1 "a clone is full."
fake mkdir 'echo "mkdir: cannot create directory: Read-only file system" >&2; exit 1'
expect "read-only folder" 1 \
    "a clone/build cannot be written (Read-only file system); clone into a folder of your own"

new_machine
mkdir "$work/a clone/build"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere" > "$work/a clone/build/CMakeCache.txt"
printf '#!/bin/bash\necho "ballast $*"\n' > "$work/a clone/build/ballast"
chmod +x "$work/a clone/build/ballast"
expect "moved clone" 0 "ballast compare scenarios/examples/internvl-6b-20b-baseline.json"
grep -qx -- '--preset release --fresh' "$work/cmake.log"
printf '#!/bin/bash\n[[ $1 != compare ]]\n' > "$work/a clone/build/ballast"
expect "first study fails" 1 "cannot go on: \`build/ballast compare"
fake cmake 'if [ "$1" = --version ]; then echo "cmake version 3.30.0"; else exit 1; fi'
expect "configure fails" 1 "cmake could not configure build"
