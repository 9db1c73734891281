#!/usr/bin/env bash
# How many lines and branches of engine/ the tests reach: engine_tests, the tests of all that drives
# its LibTorch part, and those of the Python package. Not part of CI: a build of its own
# (build-coverage/), in which only engine/ counts, and gcovr from PyPI in an environment of its own.
# ccache serves what else it compiles where build/ was made with the same CCACHE_BASEDIR.
# From the repository's root: tests/coverage.sh [engine cli nodes live lsp web nnunet python]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=${WORK:-$root/build-coverage}
[ $# -gt 0 ] || set -- engine cli nodes live lsp web nnunet python
mkdir -p "$work"
[ -x "$work/venv/bin/gcovr" ] || {
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install -q --disable-pip-version-check gcovr==8.4
}
export CCACHE_BASEDIR=$root
cmake -S "$root" -B "$work" -G Ninja -DSLUICE_COVERAGE=ON -DSLUICE_CUDA=OFF \
  -DSLUICE_VENV="${SLUICE_VENV:-$root/.venv}" >/dev/null
targets=("${@/%/_tests}")
ninja -j"${JOBS:-1}" -C "$work" "${targets[@]/python_tests/libsluice_runtime.so}" \
  >"$work/built" || { tail -40 "$work/built"; exit 1; }
find "$work" -name '*.gcda' -delete
unset SLUICE_LONG SLUICE_MINUTES SLUICE_SEED SLUICE_CATALOGUE
# Without tests whose processes are killed, or may write no more, while they write their counts.
disturbed='*test_failing_calls*,*test_kills*,*test_memory*,*test_rough*,*test_crash_order*'
# And without what a build of this kind has otherwise: its programs' sizes, the code of CUDA.
other='*byte for byte*without LibTorch*,a GPU that nothing can be done on is said*'
failed=
tests() {
  if [ "$1" != python ]; then
    "$work/$1_tests" --source-file-exclude="$disturbed" --test-case-exclude="$other"
    return
  fi
  for file in "$root"/tests/python/test_*.py; do
    PYTHONPATH=$root/tools/python SLUICE_RUNTIME=$work/libsluice_runtime.so \
      "${SLUICE_VENV:-$root/.venv}/bin/python" "$file" || return
  done
}
for name in "$@"; do
  tests "$name" >"$work/$name.log" 2>&1 || { tail -20 "$work/$name.log" >&2; failed+=" $name"; }
done
"$work/venv/bin/gcovr" --root "$root" --object-directory "$work" --filter "$root/engine/" \
  --exclude-throw-branches --exclude-unreachable-branches --json-summary "$work/coverage.json" \
  --txt "$work/coverage.txt" "$work/CMakeFiles/engine.dir" "$work/CMakeFiles/state.dir" >/dev/null
"$work/venv/bin/python" - "$work/coverage.json" <<'P'
import collections, json, sys
c = json.load(open(sys.argv[1]))
rooms = collections.defaultdict(collections.Counter)
for file in c["files"]:
    for what in "line", "branch":
        for of in f"{what}_covered", f"{what}_total":
            rooms[file["filename"].split("/")[1]][of] += file[of]
for room, n in sorted(rooms.items()):
    said = (f"{n[f'{what}_covered']:6} of {n[f'{what}_total']:6} {many}, "
            f"{100 * n[f'{what}_covered'] / max(1, n[f'{what}_total']):5.1f} %"
            for what, many in (("line", "lines"), ("branch", "branches")))
    print(f"  {room:8}", *said)
print(f"campaign coverage: {c['line_total']} cases, seed 1, lines {c['line_percent']} %, "
      f"branches {c['branch_percent']} %")
P
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
