#!/usr/bin/env bash
# How many lines and branches of engine/ (what sees no LibTorch) engine_tests reach. Not part of CI:
# a build of its own (build-coverage/), and gcovr from PyPI in an environment of its own.
# From the repository's root: tests/coverage.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=${WORK:-$root/build-coverage}
mkdir -p "$work"
[ -x "$work/venv/bin/gcovr" ] || {
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install -q --disable-pip-version-check gcovr==8.4
}
export CCACHE_DISABLE=1  # .gcno files stand beside objects
cmake -S "$root" -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS="--coverage -fprofile-update=atomic -Og -DXXH_NO_INLINE_HINTS" \
  -DSLUICE_CUDA=OFF -DSLUICE_VENV="${SLUICE_VENV:-$root/.venv}" >/dev/null
ninja -j"${JOBS:-1}" -C "$work" engine_tests >"$work/built" || { tail -40 "$work/built"; exit 1; }
find "$work" -name '*.gcda' -delete
find "$work/CMakeFiles" -name '*CompilerId.gcno' -delete  # gcovr would look for their sources
unset SLUICE_LONG SLUICE_MINUTES SLUICE_SEED SLUICE_CATALOGUE
"$work/engine_tests" >"$work/log" || { tail -20 "$work/log"; exit 1; }
"$work/venv/bin/gcovr" --root "$root" --object-directory "$work" --filter "$root/engine/" \
  --exclude-throw-branches --exclude-unreachable-branches --json-summary "$work/coverage.json" \
  --txt "$work/coverage.txt" >/dev/null
"$work/venv/bin/python" - "$work/coverage.json" <<'P'
import json, sys
c = json.load(open(sys.argv[1]))
print(f"campaign coverage: {c['line_total']} cases, seed 1, lines {c['line_percent']} %, "
      f"branches {c['branch_percent']} %")
P
