"""graphs/transform_speed.json beside MONAI's transform_speed tutorial, interleaved on one machine.

usage: transform_speed.py PYTHON_WITH_MONAI [--rounds 3] [--threads 1 2] [--workers 0 2 8]
       [--cases load turn affine] [--out F.json]

Five volumes of 256^3 in .nii.gz, made by MONAI's create_test_image_3d as in the tutorial, in batches of
three: loaded alone; turned by 45 degrees and cropped to 64^3; made to 64^3 by a random affine (which
moves to the GPU on both sides where there is one). The list of five is gone through four times an
epoch, so that loaders of several workers have work for all of them. Our arms are the graph with its
files for the made volumes, cut down to the one case, with 1 and 2 data threads. MONAI's are a DataLoader
of 0, 2 and (the tutorial's) 8 workers that stay, each with and without `Compose(lazy=True)`, with which
MONAI too makes no more of a turn than the patch; glibc's thresholds raised, one torch thread a worker
and all of them without workers. Start-up is in no figure. CPU time is that of all of a side's threads and
processes: it says more than the rate where something else runs beside, since our data threads give way
to everything (nice 19). Prints Markdown; ratios are to MONAI's best.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from measures import cpu_seconds, raised

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
CASES = {"load": ["whole"], "turn": ["turn", "crop", "batch"], "affine": ["gpu", "affine", "gbatch"]}
VOLUMES, TIMES, BATCH, PATCH = 5, 4, 3, (64, 64, 64)


# ---- Sluice --------------------------------------------------------------------------------------

def read(name):
    return json.loads(re.sub(r"(?m)//.*$", "", open(f"{root}/graphs/{name}").read()))


def graph(case, folder, epochs):
    g = read("transform_speed.json")
    files = [{"image": f"{folder}/{i}.nii.gz"} for i in range(VOLUMES)]
    nodes = {"files": {"type": "file_list", "items": files * TIMES},
             "volumes": read("parts/transform_speed_files.json")["nodes"]["volumes"],
             "image": g["nodes"]["image"]}
    if case == "load":
        nodes["whole"] = {"type": "batch", "in": "image", "size": BATCH}
    nodes.update({n: g["nodes"][n] for n in CASES[case] if n in g["nodes"]})
    return {"vars": g["vars"], "run": {"epochs": epochs}, "nodes": nodes}


def ours(case, folder, threads, epochs):
    def run(n):
        with tempfile.TemporaryDirectory() as out:
            json.dump(graph(case, folder, n), open(f"{out}/g.json", "w"))
            p = subprocess.Popen([f"{root}/build/sluice", "run", f"{out}/g.json", "--quiet",
                                  "--threads", str(threads), "--out", f"{out}/run"],
                                 stderr=subprocess.DEVNULL)  # of what nothing reads
            _, status, usage = os.wait4(p.pid, 0)
            if status:
                raise SystemExit(f"sluice run of {case} ended with {status}")
            return (json.load(open(f"{out}/run/summary.json"))["wall_s"],
                    usage.ru_utime + usage.ru_stime)
    # Two runs, so that what a run costs once drops out.
    wall, cpu = (x - y for y, x in zip(run(1), run(1 + 4 * epochs)))
    n = VOLUMES * TIMES * 4 * epochs
    return {"rate": n / wall, "cpu_ms": 1e3 * cpu / n}


# ---- MONAI's side, run by its own Python ---------------------------------------------------------

def make(folder):
    import nibabel as nib
    import numpy as np
    from monai.data import create_test_image_3d
    for i in range(VOLUMES):
        image, _ = create_test_image_3d(256, 256, 256, random_state=np.random.RandomState(i))
        nib.save(nib.Nifti1Image(image, np.eye(4)), f"{folder}/{i}.nii.gz")


def peer(case, folder, workers, lazy, epochs):
    import warnings
    warnings.filterwarnings("ignore")
    import torch
    from monai import transforms as mt
    from monai.data import DataLoader, Dataset
    gpu = torch.device("cuda") if torch.cuda.is_available() and case == "affine" else None
    chain = [mt.LoadImage(image_only=True), mt.EnsureChannelFirst()]
    if case == "turn":
        chain += [mt.Rotate(angle=math.pi / 4), mt.RandSpatialCrop(PATCH, random_size=False)]
    if case == "affine":
        chain.append(mt.RandAffine(prob=1, rotate_range=[math.pi / 4] * 3, translate_range=[96] * 3,
                                   spatial_size=PATCH, padding_mode="border", device=gpu))
    files = [f"{folder}/{i}.nii.gz" for i in range(VOLUMES)] * TIMES
    if workers:
        torch.set_num_threads(1)
    loader = DataLoader(Dataset(files, mt.Compose(chain, lazy=lazy)), batch_size=BATCH,
                        num_workers=workers, persistent_workers=workers > 0,
                        multiprocessing_context="spawn" if gpu and workers else None)
    size = (256,) * 3 if case == "load" else PATCH
    walls, cpu = [], 0
    for _ in range(1 + epochs):
        start, cpu = time.perf_counter(), cpu_seconds()
        for batch in loader:
            assert tuple(batch.shape[2:]) == size
        if gpu:
            torch.cuda.synchronize()
        walls.append(time.perf_counter() - start)
    return {"rate": len(files) / statistics.median(walls[1:]),
            "cpu_ms": 1e3 * (cpu_seconds() - cpu) / len(files)}  # of the last epoch


def ask(a, *more):
    out = subprocess.run([a.python, __file__, a.python, "--folder", a.folder, *map(str, more)],
                         check=True, text=True, stdout=subprocess.PIPE,
                         env={**os.environ, **raised}).stdout
    return json.loads(out.splitlines()[-1])


# ---- the bench -----------------------------------------------------------------------------------

def arms(a, case):
    """name -> what measures it, in volumes/s."""
    found = {f"sluice, {n} threads": lambda n=n: ours(case, a.folder, n, a.epochs)
             for n in a.threads}
    for workers in a.workers:
        for lazy in (False, True)[:1 if case == "load" else 2]:
            found[f"MONAI, {workers} workers" + (", lazy" if lazy else "")] = (
                lambda workers=workers, lazy=lazy: ask(a, "--peer", case, "--worker-count", workers,
                                                       "--epochs", a.epochs, *["--lazy"] * lazy))
    return found


def table(rows, cases):
    for case in cases:
        found = {}
        for r in rows:
            if r["case"] == case:
                found.setdefault(r["arm"], []).append((r["rate"], r["cpu_ms"]))
        print(f"\n| {case} | volumes/s (median) | lowest to highest | CPU ms a volume |")
        print("|---|---|---|---|")
        best = {"sluice": [0, math.inf], "MONAI": [0, math.inf]}
        for arm, v in found.items():
            rate, cpu = (statistics.median(x) for x in zip(*v))
            print(f"| {arm} | {rate:.2f} | {min(v)[0]:.2f} to {max(v)[0]:.2f} | {cpu:.0f} |")
            of = best["sluice" if arm.startswith("sluice") else "MONAI"]
            of[:] = max(of[0], rate), min(of[1], cpu)
        print(f"\nsluice / MONAI's best: rate {best['sluice'][0] / best['MONAI'][0]:.2f}, CPU time "
              f"{best['sluice'][1] / best['MONAI'][1]:.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("python")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--workers", type=int, nargs="+", default=[0, 2, 8])
    p.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    p.add_argument("--out")
    p.add_argument("--folder", help="where the volumes are, or are put; default: a temporary one")
    for hidden in ("--peer", "--make"):
        p.add_argument(hidden, help=argparse.SUPPRESS)
    p.add_argument("--worker-count", type=int, help=argparse.SUPPRESS)
    p.add_argument("--lazy", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.make:
        return make(a.folder)
    if a.peer:
        print(json.dumps(peer(a.peer, a.folder, a.worker_count, a.lazy, a.epochs)))
        return None
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        a.folder = os.path.abspath(a.folder or folder)
        if not os.path.exists(f"{a.folder}/{VOLUMES - 1}.nii.gz"):
            os.makedirs(a.folder, exist_ok=True)
            subprocess.run([a.python, __file__, a.python, "--folder", a.folder, "--make", "volumes"],
                           check=True)
        for n in range(a.rounds):
            for case in a.cases:
                for arm, measure in arms(a, case).items():
                    rows.append({"round": n, "case": case, "arm": arm, **measure()})
                    print("  ", json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)
    table(rows, a.cases)


if __name__ == "__main__":
    main()
