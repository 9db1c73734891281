"""Cached patches of Sluice beside MONAI's fast spleen pipeline: data work only, interleaved.

usage: patches.py FOLDER PYTHON_WITH_MONAI [--rounds 3] [--variants patches affine] [--out F.json]

FOLDER is in the decathlon's layout (the quickstart's data/brain). Both sides load, orient to RAS,
resample to 1.5 x 1.5 x 2 mm, scale, crop to the foreground, pad to 96^3, list foreground and
background voxels, cache; then 4 patches of 96^3 a volume, [an affine of each,] three flips, a
quarter turn, a shift, batches of 8 patches. Cold is the making of the data set and the first epoch,
warm a later one; start-up of Python, LibTorch and the program is in neither. Peak memory is the
whole process's. MONAI's arms: CacheDataset with ThreadDataLoader (without meta data, 1 and 2
torch threads), DataLoader with 0 and 2 workers, and SPDL's pipeline of two threads around the same
transforms; all with glibc's thresholds raised. `hand` is the warm work without any framework, one
thread on plain tensors: a floor of what PyTorch's own operations take, not a loader.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from measures import raised

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
OURS = ["sluice1", "sluice2"]  # data threads
PEERS = ["thread1", "thread2", "loader0", "loader2", "spdl2", "hand"]
P, KEYS = 96, ["image", "label"]
RANGE = {"a_min": 0, "a_max": 200, "b_min": 0.0, "b_max": 1.0, "clip": True}


def measured(command, env=None):
    """What a process printed, and its peak memory in MiB."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         env={**os.environ, **(env or {})})
    text = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return text, usage.ru_maxrss / 1024


# ---- Sluice --------------------------------------------------------------------------------------

def graph(a, variant, epochs):
    nodes = {
        "cases": {"type": "decathlon", "root": a.data, "split": "training", "shuffle": True},
        "load": {"type": "load_image"},
        "ras": {"type": "orientation", "axcodes": "RAS"},
        "grid": {"type": "spacing", "pixdim": [1.5, 1.5, 2.0], "mode": ["bilinear", "nearest"]},
        "scale": {"type": "scale_intensity_range", **RANGE},
        "front": {"type": "crop_foreground", "source_key": "image"},
        "pad": {"type": "spatial_pad", "spatial_size": [P, P, P]},
        "where": {"type": "fg_bg_to_indices", "image_key": "image"},
        "cached": {"type": "cache"},
        "crop": {"type": "rand_crop_by_pos_neg_label", "spatial_size": [P, P, P], "num_samples": 4,
                 "fg_indices_key": "label_fg_indices", "bg_indices_key": "label_bg_indices"},
        "affine": {"type": "rand_affine", "prob": 1.0, "rotate_range": [0, 0, 0.20944],
                   "scale_range": [0.1, 0.1, 0.1]},
        "x": {"type": "rand_flip", "prob": 0.5, "spatial_axis": 0},
        "y": {"type": "rand_flip", "prob": 0.5, "spatial_axis": 1},
        "z": {"type": "rand_flip", "prob": 0.5, "spatial_axis": 2},
        "turn": {"type": "rand_rotate90", "prob": 0.5, "max_k": 3},
        "shift": {"type": "rand_shift_intensity", "offsets": 0.1, "prob": 0.5},
        "pick": {"type": "select_items", "keys": KEYS},
        "batch": {"type": "batch", "size": 8}}
    if variant != "affine":
        del nodes["affine"]
    names = list(nodes)
    for before, name in zip(names, names[1:]):
        nodes[name]["in"] = before
    return {"run": {"epochs": epochs}, "nodes": nodes}


def ours(a, arm, variant):
    def run(epochs):
        with tempfile.TemporaryDirectory() as out:
            json.dump(graph(a, variant, epochs), open(f"{out}/g.json", "w"))
            _, rss = measured([f"{root}/build/sluice", "run", f"{out}/g.json", "--quiet", "--out",
                               f"{out}/run", "--threads", arm[-1]])
            return json.load(open(f"{out}/run/summary.json"))["wall_s"], rss
    cold, _ = run(1)
    some, _ = run(1 + a.epochs)
    more, rss = run(1 + 4 * a.epochs)
    return {"cold": cold, "warm": (more - some) / (3 * a.epochs), "rss": rss}


# ---- MONAI's side, run by its own Python ---------------------------------------------------------

def transforms(variant):
    from monai import transforms as mt
    prefix = [
        mt.LoadImaged(KEYS), mt.EnsureChannelFirstd(KEYS), mt.Orientationd(KEYS, axcodes="RAS"),
        mt.Spacingd(KEYS, pixdim=(1.5, 1.5, 2.0), mode=("bilinear", "nearest")),
        mt.ScaleIntensityRanged("image", **RANGE), mt.CropForegroundd(KEYS, source_key="image"),
        mt.SpatialPadd(KEYS, (P, P, P)), mt.EnsureTyped(KEYS, track_meta=False),
        mt.FgBgToIndicesd("label", image_key="image", image_threshold=0)]
    rest = [mt.RandCropByPosNegLabeld(
        KEYS, "label", (P, P, P), pos=1, neg=1, num_samples=4,
        fg_indices_key="label_fg_indices", bg_indices_key="label_bg_indices")]
    if variant == "affine":
        rest.append(mt.RandAffined(KEYS, spatial_size=(P, P, P), prob=1.0,
                                   mode=("bilinear", "nearest"), rotate_range=(0, 0, 0.20944),
                                   scale_range=(0.1, 0.1, 0.1)))
    rest += [mt.RandFlipd(KEYS, prob=0.5, spatial_axis=i) for i in range(3)]
    rest += [mt.RandRotate90d(KEYS, prob=0.5, max_k=3),
             mt.RandShiftIntensityd("image", offsets=0.1, prob=0.5), mt.SelectItemsd(KEYS)]
    return prefix, rest


class Spdl:
    def __init__(self, cached):
        self.cached = cached

    def __iter__(self):
        import torch
        from monai.data import list_data_collate
        from spdl.pipeline import PipelineBuilder
        pipeline = (PipelineBuilder().add_source(torch.randperm(len(self.cached)).tolist())
                    .pipe(self.cached.__getitem__, concurrency=2).aggregate(2)
                    .pipe(list_data_collate).add_sink(2).build(num_threads=2))
        with pipeline.auto_stop():
            yield from pipeline


class ByHand:
    """The patches of `transforms` with plain PyTorch, one after the other."""

    def __init__(self, files, variant):
        from monai.transforms import Compose
        chain = Compose(transforms(variant)[0])
        self.affine = variant == "affine"
        self.cached = [chain(f) for f in files]

    def patch(self, x, rng):
        import numpy as np
        import torch
        import torch.nn.functional as F
        at = x["label_fg_indices"] if rng.random() < 0.5 else x["label_bg_indices"]
        shape = x["image"].shape[1:]
        centre = np.unravel_index(int(at[rng.integers(len(at))]), shape)
        box = tuple(slice(s, s + P) for c, n in zip(centre, shape)
                    for s in [min(max(int(c) - P // 2, 0), n - P)])
        image, label = x["image"][(slice(None), *box)], x["label"][(slice(None), *box)]
        if self.affine:
            r, theta = rng.uniform(-0.20944, 0.20944), torch.eye(3, 4)
            theta[:2, :2] = torch.tensor([[np.cos(r), -np.sin(r)], [np.sin(r), np.cos(r)]])
            theta[:, :3] *= torch.tensor(1 + rng.uniform(-0.1, 0.1, 3), dtype=torch.float32)
            grid = F.affine_grid(theta[None], (1, 1, P, P, P), align_corners=False)
            image, label = (F.grid_sample(t[None].float(), grid, mode=m, padding_mode="reflection",
                                          align_corners=False)[0]
                            for t, m in ((image, "bilinear"), (label, "nearest")))
        flips = [i + 1 for i in range(3) if rng.random() < 0.5]
        turns = int(rng.integers(1, 4)) if rng.random() < 0.5 else 0
        image, label = (t.flip(flips).rot90(turns, (1, 2)) for t in (image, label))
        return image + (float(rng.uniform(-0.1, 0.1)) if rng.random() < 0.5 else 0.0), label

    def __iter__(self):
        import numpy as np
        import torch
        rng = np.random.default_rng()
        order = rng.permutation(len(self.cached))
        for i in range(0, len(order), 2):
            made = [self.patch(self.cached[j], rng) for j in order[i:i + 2] for _ in range(4)]
            yield {k: torch.stack([m[n] for m in made]) for n, k in enumerate(KEYS)}


def peer(a):
    import warnings
    warnings.filterwarnings("ignore")
    import torch
    from monai.data import CacheDataset, DataLoader, ThreadDataLoader
    from monai.transforms import Compose
    torch.set_num_threads(2 if a.arm in ("thread2", "loader0") else 1)
    files = [{k: os.path.join(a.data, f[k]) for k in KEYS}
             for f in json.load(open(f"{a.data}/dataset.json"))["training"]]
    start, walls = time.perf_counter(), []
    if a.arm == "hand":
        loader = ByHand(files, a.variant)
    else:
        prefix, rest = transforms(a.variant)
        cached = CacheDataset(files, Compose(prefix + rest), num_workers=2, progress=False)
        loader = {
            "thread": lambda: ThreadDataLoader(cached, batch_size=2, shuffle=True, num_workers=0),
            "loader": lambda: DataLoader(cached, batch_size=2, shuffle=True,
                                         num_workers=int(a.arm[-1]),
                                         persistent_workers=a.arm == "loader2"),
            "spdl": lambda: Spdl(cached)}[a.arm[:-1]]()
    for _ in range(1 + a.epochs):
        for batch in loader:
            assert batch["image"].shape[0] == 8
        walls.append(time.perf_counter() - start)
        start = time.perf_counter()
    print(json.dumps(walls))


# ---- the bench -----------------------------------------------------------------------------------

def table(a, rows):
    for variant in a.variants:
        print(f"\n| {variant} | cold s | warm s | warm patches/s | peak MiB |\n|---|---|---|---|---|")
        for arm in OURS + a.peers:
            mine = [r for r in rows if r["arm"] == arm and r["variant"] == variant]
            cold, warm, rss = (statistics.median(r[k] for r in mine) for k in ("cold", "warm", "rss"))
            print(f"| {arm} | {cold:.2f} | {warm:.3f} | {a.patches / warm:.0f} | {rss:.0f} |")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("data")
    p.add_argument("python")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=3, help="warm epochs")
    p.add_argument("--variants", nargs="+", default=["patches", "affine"])
    p.add_argument("--peers", nargs="+", default=PEERS)
    p.add_argument("--out")
    p.add_argument("--arm", help=argparse.SUPPRESS)
    p.add_argument("--variant", help=argparse.SUPPRESS)
    a = p.parse_args()
    a.data = os.path.abspath(a.data)
    if a.arm:
        return peer(a)
    a.patches = 4 * len(json.load(open(f"{a.data}/dataset.json"))["training"])
    rows = []
    for n in range(a.rounds):
        for variant in a.variants:
            for arm in OURS + a.peers:
                if arm in OURS:
                    found = ours(a, arm, variant)
                else:
                    text, rss = measured([a.python, __file__, a.data, "-", "--arm", arm, "--variant",
                                          variant, "--epochs", str(a.epochs)], raised)
                    walls = json.loads(text.splitlines()[-1])
                    found = {"cold": walls[0], "warm": statistics.median(walls[1:]), "rss": rss}
                rows.append({"round": n, "variant": variant, "arm": arm, **found})
                print("  ", json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)
    table(a, rows)


if __name__ == "__main__":
    main()
