"""Damaged files before Sluice's readers and before nibabel and SimpleITK: who notices?

usage: damaged.py PYTHON_WITH_NIBABEL_AND_SIMPLEITK [--count 4000] [--seed 7] [--out F.json]

The files are those of tests/kernels/test_damage.cpp. A file is refused, or read to the same voxels
as the good file that it was made of, or to other ones; a reader that ends its process or takes 20 s
counts as a crash. Needs `ninja -C build bench_damaged`.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))

WORKER = r"""
import os, signal, sys
import numpy as np
reader, folder, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
out = os.fdopen(os.dup(1), "w")
null = os.open(os.devnull, os.O_WRONLY)
os.dup2(null, 1), os.dup2(null, 2)
signal.signal(signal.SIGPROF, signal.SIG_DFL)
if reader == "nibabel":
    import logging
    import nibabel
    logging.disable(logging.CRITICAL)
    ends = (".nii", ".nii.gz")
    def read(path):
        image = nibabel.load(path)
        return np.asanyarray(image.dataobj), image.affine
else:
    import SimpleITK
    ends = (".nii", ".nii.gz", ".nrrd", ".mha", ".png", ".jpg", ".bmp", ".tif")
    def read(path):
        image = SimpleITK.ReadImage(path)
        place = image.GetSpacing() + image.GetOrigin() + image.GetDirection()
        return SimpleITK.GetArrayFromImage(image), np.array(place)
good = {}
for i, line in enumerate(open(f"{folder}/list.txt")):
    file, base = line.split("\t")[:2]
    if i < first or not base.endswith(ends):
        continue
    if base not in good:
        try:
            good[base] = read(f"{folder}/{base}")
        except Exception:  # it does not read even the good file: nothing to compare with
            good[base] = None
    if good[base] is None:
        continue
    out.write(f"{i} ")
    out.flush()
    signal.setitimer(signal.ITIMER_PROF, 20)
    try:
        voxels, place = read(f"{folder}/{file}")
        known, where = good[base]
        same = voxels.shape == known.shape and np.array_equal(voxels, known, equal_nan=False)
        verdict = "other" if not same else (
            "same" if place.shape == where.shape and np.allclose(place, where, 0, 0) else "geometry")
    except Exception:
        verdict = "refused"
    signal.setitimer(signal.ITIMER_PROF, 0)
    out.write(verdict + "\n")
    out.flush()
"""


def ask(python, reader, folder):
    """Verdicts by number of file; a worker that dies is started again behind the file it died of."""
    verdicts, first = {}, 0
    while True:
        done = subprocess.run([python, "-c", WORKER, reader, folder, str(first)],
                              stdout=subprocess.PIPE, text=True)
        for line in done.stdout.splitlines():
            number, _, verdict = line.partition(" ")
            verdicts[int(number)] = verdict or "crash"
            first = int(number) + 1
        if done.returncode == 0:
            return verdicts
        if not done.stdout:
            raise SystemExit(f"{reader} ended with {done.returncode} in front of file {first}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{root}/build/bench_damaged", folder, str(a.count), str(a.seed)],
                       check=True)
        lines = [line.rstrip("\n").split("\t") for line in open(f"{folder}/list.txt")]
        asked = {"sluice": {i: line[4] for i, line in enumerate(lines)}}
        for reader in ("nibabel", "SimpleITK"):
            asked[reader] = ask(a.python, reader, folder)
    tally = collections.defaultdict(collections.Counter)
    for reader, verdicts in asked.items():
        for i, verdict in verdicts.items():
            tally[lines[i][2], lines[i][3], reader][verdict] += 1
    columns = ["refused", "same", "geometry", "other", "crash"]
    print(f"{'format':14} {'damage':8} {'reader':10} " + " ".join(f"{c:>8}" for c in columns))
    for (form, damage, reader), counts in sorted(tally.items()):
        print(f"{form:14} {damage:8} {reader:10} " +
              " ".join(f"{counts[c]:8}" for c in columns))
    if a.out:
        with open(a.out, "w") as out:
            json.dump([{"format": f, "damage": d, "reader": r, **n}
                       for (f, d, r), n in sorted(tally.items())], out, indent=1)


if __name__ == "__main__":
    sys.exit(main())
