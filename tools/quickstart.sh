#!/usr/bin/env bash
# From a fresh machine to a trained network: installs, builds, makes a brain data set from a real
# MRI, trains a 3-D U-Net on it and segments the validation images. Idempotent.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
build sluice
cd "$root"
if [ ! -e data/brain/dataset.json ]; then
  say "making 41 volumes from the T1 head of mricron-data: data/brain"
  build/sluice run graphs/make_brain_dataset.json --no-out
fi
say "training graphs/brain.json"
build/sluice run graphs/brain.json --out runs/brain --overwrite
say "segmenting with the trained network"
build/sluice run graphs/predict.json --out runs/predict --overwrite
build/sluice report runs/brain
say "done: open runs/brain/report.html in a browser (curves, pictures, the measured graph);
   segmentations in runs/predict/segmentations"
