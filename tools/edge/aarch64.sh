#!/usr/bin/env bash
# tools/edge/aarch64.sh BUILD [ARGUMENT...]: builds sluice-edge for aarch64 in folder BUILD and,
# where arguments are given, runs it with them in an emulator. Needs the network the first time, for
# Debian's libraries (2 MB) and ONNX Runtime's wheel (23 MB). Exits 77 where a tool is missing
# (tools/aarch64.sh).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../aarch64.sh"
shift

debian_packages libdeflate-dev zlib1g-dev libmd-dev nlohmann-json3-dev libcli11-dev
python_wheels "$build/wheel" --no-deps onnxruntime==1.32.0
emulator_root
configure "$source/tools/edge" "$build/edge" -DDEFLATE_STATIC="$libraries/libdeflate.a" \
  -DZLIB_STATIC="$libraries/libz.a" -DMD_STATIC="$libraries/libmd.a"
ninja -C "$build/edge" sluice-edge >&2
[ $# = 0 ] && exit 0
SLUICE_ONNXRUNTIME=$(echo "$build"/wheel/onnxruntime/capi/libonnxruntime.so.*) \
  exec qemu-aarch64 -L "$build/root" "$build/edge/sluice-edge" "$@"
