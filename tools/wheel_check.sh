#!/usr/bin/env bash
# Tries a wheel on interpreters: in an empty virtual environment of each, pip installs it (with torch,
# some 3 GB), the brain is made and trained for an epoch, and the tests of `import sluice` hold. All must
# end with the same weights.
#
#   tools/wheel_check.sh dist/sluice-0.1.0-py3-none-manylinux_2_35_x86_64.whl python3.11 python3.12 python3.13
set -euo pipefail
wheel=$(realpath "${1:?usage: tools/wheel_check.sh WHEEL PYTHON...}")
shift
tests=$(realpath "$(dirname "$0")/../tests/python/test_loader.py")
unset PYTHONPATH SLUICE_RUNTIME
digests=
for python in "$@"; do
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  "$python" -m venv "$folder/venv"
  PATH=$folder/venv/bin:$PATH
  pip install -q --disable-pip-version-check "$wheel" numpy
  cd "$folder"
  sluice graphs make_brain_dataset -o make.json
  sluice graphs brain -o brain.json
  begin=$(date +%s)
  sluice run make.json --quiet --out made 2>/dev/null
  sluice run brain.json --quiet --out run --set run.epochs=1 --set vars.root=made/data/brain 2>/dev/null
  seconds=$(($(date +%s) - begin))
  python "$tests" 2>tests.txt || { cat tests.txt >&2; exit 1; }
  digest=$(python -c 'import json; print(json.load(open("run/summary.json"))["weights_sha256"])')
  echo "$(python --version): made and trained in $seconds s, weights $digest, $(sed -n 's/^Ran/tests:/p' tests.txt)"
  digests+=$digest$'\n'
  cd - >/dev/null
  rm -rf "$folder"
done
[ "$(sort -u <<<"${digests%$'\n'}" | wc -l)" = 1 ] || { echo "weights differ" >&2; exit 1; }
