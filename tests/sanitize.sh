#!/usr/bin/env bash
# engine_tests under AddressSanitizer and UndefinedBehaviorSanitizer, after a planted fault of each
# kind was found. Not part of CI: a build of its own (build-asan/, kept for the next time).
# From the repository's root: tests/sanitize.sh [arguments of engine_tests]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=${WORK:-$root/build-asan}
flags="-fsanitize=address,undefined -fno-sanitize-recover=all"
mkdir -p "$work"
for fault in 'int* p = new int[2]; p[argc + 1] = 1; delete[] p;' \
             'int n = 2147483647; n += argc; return n == 0;' \
             'volatile auto* p = new char[100]; p = nullptr;'; do
  echo "int main(int argc, char**) { (void)argc; $fault }" >"$work/planted.cpp"
  # shellcheck disable=SC2086
  g++ $flags -w "$work/planted.cpp" -o "$work/planted"
  if "$work/planted" >/dev/null 2>&1; then
    echo "the sanitizers do not find: $fault" >&2
    exit 1
  fi
done
cmake -S "$root" -B "$work" -G Ninja -DSLUICE_SANITIZE=address,undefined -DSLUICE_CUDA=OFF \
  -DSLUICE_VENV="${SLUICE_VENV:-$root/.venv}" >/dev/null
ninja -j"${JOBS:-1}" -C "$work" engine_tests >"$work/built" || { tail -40 "$work/built"; exit 1; }
unset SLUICE_LONG SLUICE_MINUTES
"$work/engine_tests" "$@"
