#!/usr/bin/env bash
# Ceilings, correctness, compute-sanitizer and benchmarks beside PyTorch's own, as far as the time
# reaches, on a machine with a GPU and PyTorch 2.11; writes gpu_check.json. Without a GPU it says so
# and runs what needs none: the kernels on a device that the host plays.
#
#   gpu_check.sh [--out gpu_check.json] [--seconds 450] [--only PART...]
#
# PART: ceilings tests both graphs fast doctor unet recorded fed small to_device shared unet_peers
# kernels predict memory sanitizer cores, in this order where none is named; MONAI's half of `fast` and
# `predict` needs its wheel in PYTHONPATH.
#
# It stands in a bundle (tools/bundle.sh), or beside a build: then SLUICE_BUILD names it. PYTHON is
# the interpreter with torch; any python3 does for the part without a GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${SLUICE_BUILD:-$here}
if [ ! -x "$bin/cuda_tests" ] && [ -x "$here/../build/cuda_tests" ]; then bin=$(cd "$here/../build" && pwd); fi
[ -x "$bin/cuda_tests" ] || { echo "gpu_check: no cuda_tests in $bin" >&2; exit 2; }
exec "${PYTHON:-python3}" "$here/gpu_check.py" --bin "$bin" "$@"
