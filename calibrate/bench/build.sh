#!/usr/bin/env bash
# build.sh DIR - builds the microbenchmarks with nvcc alone, for a GPU machine that has the CUDA
# toolkit but none of Ballast's other libraries. With CMake the ordinary build makes them too.
#
# NVCC (default: nvcc, else /usr/local/cuda/bin/nvcc) and ARCH (default: native) choose compiler and
# GPU. Libraries are looked for beside nvcc and below the folders of LIBRARY_ROOTS (a colon-separated
# list of folders with include/ and lib/). A program whose library is missing is left out, with a line
# that says so. Exit 1: a program did not compile, or none could be built.
set -euo pipefail

out=${1:?usage: build.sh DIR}
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[[ -x $nvcc ]] || { echo "build.sh: no nvcc: install the CUDA toolkit or set NVCC" >&2; exit 1; }
toolkit=$(dirname -- "$(dirname -- "$(realpath -- "$nvcc")")")
IFS=: read -r -a given <<< "${LIBRARY_ROOTS:-}"
roots=("$toolkit" "$toolkit/targets/$(uname -m)-linux" /usr "${given[@]}")
mkdir -p -- "$out"

# find_library HEADER NAME: prints the compiler's and linker's options, fails where one is missing.
find_library() {
    local root folder file include=
    for root in "${roots[@]}"; do
        for folder in "$root/include" "$root/include/$(uname -m)-linux-gnu"; do
            [[ -z $include && -f $folder/$1 ]] && include=$folder
        done
    done
    [[ -n $include ]] || return 1
    for root in "${roots[@]}"; do
        for file in "$root/lib64/lib$2".so* "$root/lib/lib$2".so* \
            "$root/lib/$(uname -m)-linux-gnu/lib$2".so*; do
            [[ -f $file ]] || continue
            # nvcc knows its own headers; naming them again would reorder them.
            [[ $include == "$toolkit"/* || $include == /usr/include ]] || printf -- '-I%s ' "$include"
            printf -- '%s -Xlinker -rpath=%s\n' "$file" "$(dirname -- "$file")"
            return 0
        done
    done
    return 1
}

# build NAME LIBRARY... as a background job; a library is HEADER:NAME, its options may be given as =OPTIONS.
pids=()
build() {
    local name=$1 options=() found library
    shift
    for library; do
        if [[ $library == =* ]]; then
            read -r -a found <<< "${library#=}"
        elif ! read -r -a found < <(find_library "${library%%:*}" "${library##*:}"); then
            echo "$name: left out, ${library##*:} was not found"
            return
        fi
        options+=("${found[@]}")
    done
    "$nvcc" -O3 -std=c++17 -arch="${ARCH:-native}" -Xcompiler -Wall,-Wextra -I"$here/../.." \
        "$here/$name.cu" "${options[@]}" -ldl -o "$out/$name" &
    pids+=($!)
}

build launch_gap
build host_copy
build streaming
build matmul cublasLt.h:cublasLt
build attention cudnn_backend.h:cudnn
build collectives nccl.h:nccl
if cudnn=$(find_library cudnn_backend.h cudnn); then
    build layers cublasLt.h:cublasLt "=-DBENCH_WITH_CUDNN $cudnn"
else
    build layers cublasLt.h:cublasLt
fi
code=0
for pid in "${pids[@]}"; do
    wait "$pid" || code=1
done
exit "$code"
