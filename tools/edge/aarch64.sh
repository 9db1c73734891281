#!/usr/bin/env bash
# tools/edge/aarch64.sh BUILD [ARGUMENT...]: builds sluice-edge for aarch64 in folder BUILD and, where
# arguments are given, runs it with them in an emulator: correctness, not speed. Needs Debian's
# g++-aarch64-linux-gnu and qemu-user, and the network the first time, for the static libraries (1 MB)
# and ONNX Runtime's wheel (23 MB). Exits 77 where the two are not installed.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:?the folder to build in}
shift
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $tool >/dev/null || {
    echo "skipped: no $tool (apt-get install g++-aarch64-linux-gnu qemu-user)" >&2
    exit 77
  }
done
mkdir -p "$build"
build=$(cd "$build" && pwd)

# Debian's packages for arm64 without making this machine a multi-architecture one.
if [ ! -e "$build/debian/done" ]; then
  apt=$build/debian/apt
  mkdir -p "$apt"/{lists,cache}/partial "$apt/cache/archives/partial" "$apt/parts"
  touch "$apt/status"
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian" \
    "$codename main" >"$apt/parts/debian.list"
  options=(-qq -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status"
    -o Dir::Cache="$apt/cache" -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/parts"
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$build/debian" && apt-get "${options[@]}" download libdeflate-dev zlib1g-dev libmd-dev)
  for package in "$build"/debian/*.deb; do dpkg -x "$package" "$build/debian"; done
  touch "$build/debian/done"
fi
# Headers alone, which are the same everywhere.
mkdir -p "$build/headers"
ln -sfn /usr/include/nlohmann "$build/headers/nlohmann"
ln -sfn /usr/include/CLI "$build/headers/CLI"
# The wheel of this machine's Python will do: its library does not know Python.
if [ ! -e "$build/wheel/done" ]; then
  "${SLUICE_VENV:-$source/.venv}/bin/python" -m pip download -q --no-deps --only-binary=:all: \
    --platform manylinux_2_28_aarch64 --python-version 3.11 -d "$build/wheel" onnxruntime==1.32.0
  python3 -m zipfile -e "$build"/wheel/*.whl "$build/wheel"
  touch "$build/wheel/done"
fi
# The library looks at the processor's description, which the emulator shows as the machine has it.
mkdir -p "$build/root/proc"
ln -sfn /usr/aarch64-linux-gnu/lib "$build/root/lib"
printf '%s\n' 'processor : 0' 'Features : fp asimd' 'CPU implementer : 0x41' \
  'CPU architecture: 8' 'CPU variant : 0x0' 'CPU part : 0xd03' 'CPU revision : 4' \
  >"$build/root/proc/cpuinfo"

libraries=$build/debian/usr/lib/aarch64-linux-gnu
launcher=$(command -v ccache >/dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache || true)
cmake -S "$source/tools/edge" -B "$build/edge" -G Ninja $launcher \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -DCMAKE_CXX_FLAGS="-isystem $build/headers -isystem $build/debian/usr/include" \
  -DDEFLATE_STATIC="$libraries/libdeflate.a" -DZLIB_STATIC="$libraries/libz.a" \
  -DMD_STATIC="$libraries/libmd.a" >"$build/cmake.log"
ninja -C "$build/edge" sluice-edge >&2
[ $# = 0 ] && exit 0
SLUICE_ONNXRUNTIME=$(echo "$build"/wheel/onnxruntime/capi/libonnxruntime.so.*) \
  exec qemu-aarch64 -L "$build/root" "$build/edge/sluice-edge" "$@"
