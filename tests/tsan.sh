#!/usr/bin/env bash
# engine_tests under ThreadSanitizer, with a oneTBB that is built with it too: Debian's libtbb alone
# gives false reports, and suppressing them hides real races. Not part of CI (it builds oneTBB).
# From the repository's root: tests/tsan.sh [arguments of engine_tests]
# TBB_SOURCE: a folder with oneTBB's source; without it `apt-get source onetbb` brings it (that needs
# a deb-src line). WORK: where to build, kept for the next time.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=${WORK:-/tmp/sluice-tsan}
mkdir -p "$work" && cd "$work"
if [ -z "${TBB_SOURCE:-}" ]; then
  [ -d "$(echo onetbb-*/)" ] || apt-get source --download-only onetbb
  [ -d "$(echo onetbb-*/)" ] || dpkg-source -x onetbb_*.dsc
  TBB_SOURCE=$(echo "$work"/onetbb-*/)
fi
export CC=${CC:-clang-16} CXX=${CXX:-clang++-16}
cmake -S "$TBB_SOURCE" -B tbb -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTBB_TEST=OFF \
  -DTBB_SANITIZE=thread -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF \
  -DCMAKE_INSTALL_PREFIX="$work/install" >/dev/null
ninja -j"${JOBS:-1}" -C tbb install >/dev/null
cmake -S "$root" -B build -G Ninja -DSLUICE_SANITIZE=thread -DCMAKE_PREFIX_PATH="$work/install" \
  -DTBB_DIR="$work/install/lib/cmake/TBB" -DSLUICE_VENV="${SLUICE_VENV:-$root/.venv}" >/dev/null
ninja -k 0 -j"${JOBS:-1}" -C build engine_tests
LD_LIBRARY_PATH="$work/install/lib" TSAN_OPTIONS="halt_on_error=0 exitcode=66" \
  build/engine_tests "$@"
