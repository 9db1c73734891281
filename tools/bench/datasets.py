"""Cached epochs of Sluice beside MONAI's data sets: data work only, interleaved, ratios of medians.

usage: datasets.py TASK04_FOLDER PYTHON_WITH_MONAI [--rounds 3] [--epochs 5] [--limit 0] [--out F.json]

Both sides load, orient to RAS, normalize, pad or crop to 48 x 64 x 48, cache, flip, scale and make
batches of 8 from the training list. Cold is the making of the data set and the first epoch, warm a
later epoch of the same process, again the first epoch of a second process that finds the disk cache
of the first. Start-up of Python, LibTorch and the program is in none of them. MONAI's arms run with
ThreadDataLoader, the best of 0 and 2 transform threads by --workers, glibc's thresholds raised.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from measures import raised

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
OURS = {"Dataset": {"disabled": True}, "CacheDataset": {},
        "PersistentDataset": {"store": "disk"}, "LMDBDataset": {"store": "auto"}}


def graph(a, kept, folder, epochs):
    kept = {"type": "cache", "in": "fit", **kept}
    if kept.get("store"):
        kept["dir"] = folder
    train = {"type": "decathlon", "root": a.data, "shuffle": True}
    if a.limit:
        train["limit"] = a.limit
    return {"run": {"epochs": epochs}, "nodes": {
        "train": train, "load": {"type": "load_image", "in": "train"},
        "ras": {"type": "orientation", "in": "load", "axcodes": "RAS"},
        "norm": {"type": "normalize_intensity", "in": "ras", "nonzero": True},
        "fit": {"type": "resize_with_pad_or_crop", "in": "norm", "spatial_size": [48, 64, 48]},
        "kept": kept,
        "flip": {"type": "rand_flip", "in": "kept", "prob": 0.5, "spatial_axis": 0},
        "scale": {"type": "rand_scale_intensity", "in": "flip", "factors": 0.1, "prob": 0.5},
        "batch": {"type": "batch", "in": "scale", "size": 8}}}


def wall(a, kept, folder, epochs):
    with tempfile.TemporaryDirectory() as out:
        file = f"{out}/g.json"
        json.dump(graph(a, kept, folder, epochs), open(file, "w"))
        subprocess.run([f"{root}/build/sluice", "run", file, "--quiet", "--out", f"{out}/run"],
                       check=True, stderr=subprocess.DEVNULL)
        return json.load(open(f"{out}/run/summary.json"))["wall_s"]


def ours(a, arm, folder):
    kept = OURS[arm]
    cold = wall(a, kept, f"{folder}/1", 1)
    # A warm epoch takes milliseconds: so many that what differs in the first one drowns.
    n = a.epochs if arm == "Dataset" else 30 * a.epochs
    some, more = (wall(a, kept, f"{folder}/2", 1 + k * n) for k in (1, 4))
    found = {"cold": cold, "warm": (more - some) / (3 * n)}
    if kept.get("store"):
        found["again"] = wall(a, kept, f"{folder}/2", 1)
    return found


def monai(a, arm, folder):
    found = {}
    for name, epochs in (("first", 1 + a.epochs), ("again", 1)):
        text = subprocess.run(
            [a.python, __file__, a.data, "-", "--arm", arm, "--folder", folder, "--epochs",
             str(epochs), "--limit", str(a.limit), "--workers", str(a.workers)],
            check=True, capture_output=True, text=True, env={**os.environ, **raised}).stdout
        walls = json.loads(text.splitlines()[-1])
        if name == "first":
            found = {"cold": walls[0], "warm": statistics.median(walls[1:])}
        elif arm in ("PersistentDataset", "LMDBDataset"):
            found["again"] = walls[0]
    return found


def monai_process(a):
    import warnings
    warnings.filterwarnings("ignore")
    import monai.data as md
    import torch
    from monai import transforms as mt
    keys = ["image", "label"]
    chain = mt.Compose([
        mt.LoadImaged(keys), mt.EnsureChannelFirstd(keys), mt.Orientationd(keys, axcodes="RAS"),
        mt.NormalizeIntensityd("image", nonzero=True),
        mt.ResizeWithPadOrCropd(keys, spatial_size=(48, 64, 48)),
        mt.RandFlipd(keys, prob=0.5, spatial_axis=0),
        mt.RandScaleIntensityd("image", factors=0.1, prob=0.5)])
    files = json.load(open(f"{a.data}/dataset.json"))["training"][:a.limit or None]
    files = [{k: os.path.join(a.data, f[k]) for k in keys} for f in files]
    walls, start = [], time.perf_counter()
    if arm_is(a, "Dataset"):
        data = md.Dataset(files, chain)
    elif arm_is(a, "CacheDataset"):
        data = md.CacheDataset(files, chain, num_workers=2, progress=False, copy_cache=False)
    elif arm_is(a, "PersistentDataset"):
        data = md.PersistentDataset(files, chain, cache_dir=a.folder)
    else:
        data = md.LMDBDataset(files, chain, cache_dir=a.folder, progress=False)
    torch.set_num_threads(2)
    loader = md.ThreadDataLoader(data, batch_size=8, shuffle=True, num_workers=a.workers,
                                 use_thread_workers=a.workers > 0)
    for _ in range(a.epochs):
        for batch in loader:
            batch["image"].shape
        walls.append(time.perf_counter() - start)
        start = time.perf_counter()
    print(json.dumps(walls))


def arm_is(a, name):
    return a.arm == name


def main():
    p = argparse.ArgumentParser()
    p.add_argument("data")
    p.add_argument("python")
    p.add_argument("--arms", nargs="+", default=list(OURS)[:3])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=5, help="warm epochs")
    p.add_argument("--limit", type=int, default=0)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--out")
    p.add_argument("--arm", help=argparse.SUPPRESS)
    p.add_argument("--folder", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.arm:
        return monai_process(a)
    rows = []
    for n in range(a.rounds):
        for arm in a.arms:
            for side, run in (("sluice", ours), ("monai", monai)):
                folder = tempfile.mkdtemp()
                rows.append({"round": n, "arm": arm, "side": side, **run(a, arm, folder)})
                shutil.rmtree(folder, ignore_errors=True)
                print("  ", json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)
    print("| | epoch | Sluice s | MONAI s | ratio |\n|---|---|---|---|---|")
    for arm in a.arms:
        for epoch in ("cold", "warm", "again"):
            s, m = ([r[epoch] for r in rows if r["arm"] == arm and r["side"] == side and epoch in r]
                    for side in ("sluice", "monai"))
            if s and m:
                s, m = statistics.median(s), statistics.median(m)
                print(f"| {arm} | {epoch} | {s:.3f} | {m:.3f} | {m / s:.1f} |")


if __name__ == "__main__":
    main()
