#!/usr/bin/env bash
# test_install.sh BUILD SOURCE - an installed Ballast works from anywhere: the program finds its
# scenarios, a program of one's own compiles against the library, and the Debian package is complete.
set -euo pipefail

build=$(realpath -- "$1") source=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset BALLAST_SCENARIOS
fail() { echo "FAILED: $*"; exit 1; }

# "$prefix" is not the one of the configuration: the installation may be moved.
prefix=$work/some/where
cmake --install "$build" --prefix "$prefix" > "$work/log" || { cat "$work/log"; fail "cmake --install"; }
cd /
ballast=$prefix/bin/ballast
"$ballast" version --json | grep -q "$prefix/share/ballast/scenarios" || fail "scenarios are not found"
"$ballast" check "$prefix/share/ballast/scenarios/examples/internvl-6b-20b-isf.json" > /dev/null ||
    fail "an installed example is not valid"
for file in share/man/man1/ballast.1 share/bash-completion/completions/ballast \
    share/fish/vendor_completions.d/ballast.fish share/zsh/vendor-completions/_ballast \
    share/doc/ballast/copyright share/doc/ballast/docs/TUTORIAL.md include/ballast.h; do
    [[ -s $prefix/$file ]] || fail "$file is not installed"
done

# A program alone, without any scenarios folder: what reads a database still works.
mkdir "$work/alone"
cp "$ballast" "$work/alone/"
cd "$work/alone"
"$ballast" run "$source/tests/golden/input/small.json" --set dataset="$source/tests/golden/input/samples.csv" \
    --set simulate.iterations=1 --db runs.db --quiet > /dev/null
./ballast export run_summary --db runs.db --format csv | grep -q small || fail "export needs the scenarios"
./ballast model import "$source/tests/data/huggingface/qwen2-7b.json" --json | grep -q 7615616512 ||
    fail "model import needs the scenarios"
if ./ballast run nothing.json 2> stderr; then fail "a run without scenarios"; fi
grep -q "cannot find the scenarios folder" stderr || fail "run says: $(cat stderr)"

# The library.
libdir=$(dirname -- "$(find "$prefix" -name libballast.so)")
read -r -a flags <<< "$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs ballast)"
${CC:-cc} -std=c99 -Wall -Wextra -Werror "$source/docs/examples/cheapest_layout.c" "${flags[@]}" -o cheapest_layout
sed "s|tests/golden|$source/&|; s|\"gpu_count\": 8|\"gpu_count\": 16|" \
    "$source/tests/golden/input/small.json" > study.json
LD_LIBRARY_PATH=$libdir BALLAST_SCENARIOS=$prefix/share/ballast/scenarios ./cheapest_layout study.json > answer ||
    { cat answer; fail "the installed example"; }
grep -q "^cheapest: tp " answer || fail "the installed example prints $(cat answer)"
LD_LIBRARY_PATH=$libdir ./cheapest_layout study.json | cmp - answer ||
    fail "the library does not find the scenarios beside it"
if LD_LIBRARY_PATH=$libdir ./cheapest_layout nothing.json 2> stderr; then fail "a file that is not there"; fi
grep -q "nothing.json" stderr || fail "the library says: $(cat stderr)"
# Every call, and a plug-in in a program of one's own.
"${CC:-cc}" -std=c99 -Wall -Wextra -Werror "$source/tests/cli/library_user.c" "${flags[@]}" -lm -o library_user
"${CC:-cc}" -std=c99 -shared -fPIC -I "$prefix/include" "$source/docs/examples/plugin_example.c" -o example.so
sed "s|tests/golden|$source/&|" "$source/tests/golden/input/small.json" > small.json
LD_LIBRARY_PATH=$libdir BALLAST_SCENARIOS=$prefix/share/ballast/scenarios ./library_user ./example.so small.json ||
    fail "the library"
if command -v c++ > /dev/null; then
    echo '#include <ballast.h>' > header.cc
    c++ -Wall -Wextra -Werror -c -I "$prefix/include" header.cc -o header.o || fail "ballast.h in C++"
fi
exported=$(nm -D --defined-only "$libdir/libballast.so" | awk '{ print $3 }' | grep -v '^ballast_' || true)
[[ -z $exported ]] || fail "the library exports $exported"

# The package.
if command -v cpack > /dev/null && command -v dpkg-deb > /dev/null; then
    (cd "$work" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/package" > log 2>&1) ||
        { cat "$work/log"; fail "cpack"; }
    package=$(find "$work/package" -maxdepth 1 -name 'ballast_*.deb')
    dpkg-deb --info "$package" > info
    dpkg-deb --contents "$package" > contents
    grep -q 'Depends:.*libgsl' info || fail "the package does not depend on GSL"
    grep -q 'GPL-3.0-or-later' info || fail "the package does not say how it is licensed"
    grep -qx '  \.' info || fail "the package's description has no paragraphs"
    grep -q './usr/bin/ballast$' contents || fail "the package has no program"
    grep -q './usr/share/ballast/scenarios/models/' contents || fail "the package has no scenarios"
else
    echo "skipped: the package, because cpack or dpkg-deb is missing"
fi
