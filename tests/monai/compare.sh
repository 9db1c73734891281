#!/usr/bin/env bash
# Compares every transform, loss, metric and network with a living MONAI on random inputs, and where SLUICE_TEST_DATA is
# set the first steps of whole graphs with MONAI's and nnU-Net's; prints the tables.
#
#   tests/monai/compare.sh [BUILD] [CASES]      build folder (build), cases of each (20)
#
# MONAI lives in an environment of its own, build/monai-venv, made here where it is missing;
# SLUICE_MONAI_PYTHON names another interpreter that has it.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
export SLUICE_MONAI_CASES=${2:-20}
if [ -z "${SLUICE_MONAI_PYTHON:-}" ]; then
  venv=$build/monai-venv
  if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    # torch is the one that Sluice is built with
    site=$(sed -n 's/^SLUICE_VENV:[^=]*=//p' "$build/CMakeCache.txt")/lib/python3*/site-packages
    # shellcheck disable=SC2086  # the version is a pattern
    echo $site >"$(echo "$venv"/lib/python3*/site-packages)/torch.pth"
    "$venv/bin/pip" install --quiet monai==1.6.1 torchvision==0.26.0 scikit-image scipy nibabel nnunetv2==2.8.1
  fi
  SLUICE_MONAI_PYTHON=$PWD/$venv/bin/python
  export SLUICE_MONAI_PYTHON
fi
code=0
"$build/nodes_tests" --test-case="transforms give MONAI's values on random inputs" --success=false || code=1
"$SLUICE_MONAI_PYTHON" tests/monai/losses.py --sluice "$build/sluice" --cases "$SLUICE_MONAI_CASES" || code=1
"$SLUICE_MONAI_PYTHON" tests/monai/metrics.py --sluice "$build/sluice" --cases "$SLUICE_MONAI_CASES" || code=1
"$SLUICE_MONAI_PYTHON" tests/monai/networks.py --sluice "$build/sluice" --cases "$SLUICE_MONAI_CASES" || code=1
if [ -n "${SLUICE_TEST_DATA:-}" ]; then
  "$SLUICE_MONAI_PYTHON" tests/monai/curves.py --sluice "$build/sluice" || code=1
fi
exit "$code"
