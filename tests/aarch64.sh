#!/usr/bin/env bash
# tests/aarch64.sh BUILD [ARGUMENT...]: builds the kernels and their tests for aarch64 (NEON) in
# folder BUILD and, where arguments are given, runs the tests with them (doctest's; -tc='*' for all)
# in an emulator: correctness, not speed. The same sources and flags as ever, LibTorch of PyPI's
# wheel for aarch64. Half an hour of two cores and 2 GB the first time. Exits 77 where a tool is
# missing (tools/aarch64.sh).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../tools/aarch64.sh"
shift

debian_packages nlohmann-json3-dev doctest-dev libcli11-dev libxxhash-dev \
  libtbb-dev libtbb12 libtbbmalloc2 libtbbbind-2-5 libdeflate-dev libdeflate0 zlib1g-dev zlib1g \
  libpng-dev libpng16-16 libjpeg62-turbo-dev libjpeg62-turbo libtiff-dev libtiff6 libwebp7 \
  libzstd1 liblzma5 libjbig0 liblerc4 libssl-dev libssl3 libmd-dev \
  libyaml-cpp-dev libyaml-cpp0.7 libcpp-httplib-dev libcpp-httplib0.11
cp -a "$debian"/lib/aarch64-linux-gnu/. "$libraries"  # beside the rest, for the emulator's root
# libtorch_cpu names two of CUDA's libraries, which nothing calls without a GPU.
site=$build/venv/lib/python3.11/site-packages
mkdir -p "$site"
torch_version=$(sed -n 's/^torch_version=//p' "$source/tools/setup.sh")
python_wheels "$site" --no-deps "torch==$torch_version"
python_wheels "$site" "cuda-toolkit[cudart,cupti]==13.0.2"
# What tests ask for a second opinion, and DICOM's process, are this machine's.
python=${SLUICE_VENV:-$source/.venv}/bin/python
mkdir -p "$build/venv/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$build/venv/bin/python"
chmod +x "$build/venv/bin/python"
export SLUICE_DICOM=${SLUICE_DICOM:-$source/build/sluice_dicom}

emulator_root
configure "$source" "$build/sluice" -DSLUICE_CUDA=OFF -DSLUICE_VENV="$build/venv" \
  -DCODEMIRROR=/usr/share/javascript/codemirror \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64;-cpu;neoverse-n1;-L;$build/root"
ninja -C "$build/sluice" kernels_tests >&2
[ $# = 0 ] && exit 0
exec qemu-aarch64 -cpu neoverse-n1 -L "$build/root" "$build/sluice/kernels_tests" "$@"
