"""Feeding a consumer, beside MONAI and SPDL: thread buffer and AU curve.

usage: SLUICE_MONAI_PYTHON=python-with-monai loaders.py DATA [--rounds 3] [--batches 60]
       [--arms buffer au] [--out F.json]

Thread buffer: a producer of 52.9 ms and a consumer of 36.6 ms (the times of MONAI's threadbuffer
notebook, and its 10 epochs of 50), both asleep, through our buffer and through MONAI's ThreadBuffer;
ideal is the longer of the two. MONAI's buffer starts anew at each epoch, ours does not. AU: cached
hippocampus volumes, flip, affine, intensity, batches of 8, up to 8 batches ahead in every arm, a
consumer that sleeps T a batch; T is 1.2 and 0.6 times what a batch costs each arm at T = 0, and all
arms also get our T. Arms are interleaved, medians of the rounds are printed as a Markdown table.
MONAI's arms run with glibc's thresholds raised and one torch thread a worker, their better
settings. SPDL's arms run MONAI's transforms in its pipeline of one and of two threads.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
raised = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
PRODUCER, CONSUMER, ITEMS, EPOCHS = 52.9, 36.6, 50, 10
PEERS = ["thread", "workers0", "workers2", "spdl1", "spdl2"]

GRAPH = """{
  "run": { "epochs": 1000 },
  "nodes": {
    "cases":  { "type": "decathlon", "root": "%s", "split": "training", "shuffle": true },
    "load":   { "type": "load_image", "in": "cases" },
    "ras":    { "type": "orientation", "in": "load", "axcodes": "RAS" },
    "norm":   { "type": "scale_intensity", "in": "ras" },
    "fit":    { "type": "resize_with_pad_or_crop", "in": "norm", "spatial_size": [48, 64, 48] },
    "cached": { "type": "cache", "in": "fit" },
    "flip":   { "type": "rand_flip", "in": "cached", "prob": 0.5, "spatial_axis": 0 },
    "affine": { "type": "rand_affine", "in": "flip", "prob": 1.0, "rotate_range": [0.26, 0.26, 0.26],
                "scale_range": [0.1, 0.1, 0.1], "padding_mode": "zeros" },
    "scale":  { "type": "rand_scale_intensity", "in": "affine", "factors": 0.1, "prob": 0.5 },
    "shift":  { "type": "rand_shift_intensity", "in": "scale", "offsets": 0.1, "prob": 0.5 },
    "batch":  { "type": "batch", "in": "shift", "size": 8 },
    "ahead":  { "type": "buffer", "in": "batch", "size": 8 },
    "use":    { "type": "consume", "in": "ahead" } } }"""


# ---- MONAI's side, run by its own Python ---------------------------------------------------------

def peer_buffer():
    from monai.data import ThreadBuffer

    def produce():
        for i in range(ITEMS):
            time.sleep(PRODUCER / 1e3)
            yield i
    start = time.perf_counter()
    for _ in range(EPOCHS):
        for _ in ThreadBuffer(produce(), buffer_size=2, timeout=0.01):
            time.sleep(CONSUMER / 1e3)
    return {"buffered_ms": 1e3 * (time.perf_counter() - start) / (ITEMS * EPOCHS)}


class SpdlLoader:
    """An epoch is a pipeline of SPDL over a drawn order of the cached volumes."""

    def __init__(self, cached, threads):
        self.cached, self.threads = cached, threads

    def __iter__(self):
        import torch
        from monai.data import list_data_collate
        from spdl.pipeline import PipelineBuilder
        pipeline = (PipelineBuilder().add_source(torch.randperm(len(self.cached)).tolist())
                    .pipe(self.cached.__getitem__, concurrency=self.threads)
                    .aggregate(8).pipe(list_data_collate).add_sink(8)
                    .build(num_threads=self.threads))
        with pipeline.auto_stop():
            yield from pipeline


def peer_loader(arm, data, batches, steps):
    import warnings
    warnings.filterwarnings("ignore")
    import torch
    from monai import transforms as mt
    from monai.data import CacheDataset, DataLoader, ThreadDataLoader, load_decathlon_datalist
    torch.set_num_threads(1)
    keys = ["image", "label"]
    files = load_decathlon_datalist(f"{data}/dataset.json", True, "training", base_dir=data)
    chain = mt.Compose([
        mt.LoadImaged(keys), mt.EnsureChannelFirstd(keys), mt.Orientationd(keys, axcodes="RAS"),
        mt.ScaleIntensityd("image"), mt.ResizeWithPadOrCropd(keys, (48, 64, 48)),
        mt.RandFlipd(keys, prob=0.5, spatial_axis=0),
        mt.RandAffined(keys, prob=1.0, rotate_range=[0.26] * 3, scale_range=[0.1] * 3,
                       mode=("bilinear", "nearest"), padding_mode="zeros"),
        mt.RandScaleIntensityd("image", factors=0.1, prob=0.5),
        mt.RandShiftIntensityd("image", offsets=0.1, prob=0.5)])
    cached = CacheDataset(files, chain, num_workers=2, progress=False)
    make = {"thread": lambda: ThreadDataLoader(cached, batch_size=8, shuffle=True, num_workers=0,
                                               buffer_size=8),
            "workers0": lambda: DataLoader(cached, batch_size=8, shuffle=True, num_workers=0),
            "workers2": lambda: DataLoader(cached, batch_size=8, shuffle=True, num_workers=2,
                                           persistent_workers=True, prefetch_factor=4),
            "spdl1": lambda: SpdlLoader(cached, 1), "spdl2": lambda: SpdlLoader(cached, 2)}[arm]
    loader = make()
    for _ in loader:  # starts workers, warms caches
        pass
    out, base = [], None
    for step in steps:
        step_ms = step if step >= 0 else -step * base
        seen, first = 0, 0.0
        while seen <= batches:
            for _ in loader:
                if step_ms > 0:
                    time.sleep(step_ms / 1e3)
                if seen == 0:
                    first = time.perf_counter()
                seen += 1
                if seen > batches:
                    break
        each = 1e3 * (time.perf_counter() - first) / batches
        base = base or each
        out.append({"step_ms": step_ms, "ms_each": each, "au": step_ms / each})
    return out


# ---- the bench -----------------------------------------------------------------------------------

def run(command, env=None):
    text = subprocess.run(command, check=True, capture_output=True, text=True,
                          env={**os.environ, **(env or {})}).stdout
    return [json.loads(line) for line in text.splitlines() if line.startswith(("{", "["))]


def median(rows, *keys):
    for k in keys:
        rows = [r[k] for r in rows]
    return statistics.median(rows)


def table(buffers, rows):
    ideal = max(PRODUCER, CONSUMER)
    print("| thread buffer | ms an item | of ideal |\n|---|---|---|")
    for arm, got in buffers.items():
        if got:
            ms = median(got, "buffered_ms")
            print(f"| {arm} | {ms:.2f} | {ms / ideal:.3f} |")
    print("\n| AU | ms a batch alone | T 0.6 of it | T 1.2 of it | at our T |\n|---|---|---|---|---|")
    for arm, got in rows.items():
        if got:
            au = [statistics.median(r["own"][i]["au"] for r in got) for i in (0, 1)]
            print(f"| {arm} | {median(got, 'base'):.2f} | {au[0]:.3f} | {au[1]:.3f} "
                  f"| {median(got, 'same', 'au'):.3f} |")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("data")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--batches", type=int, default=60)
    p.add_argument("--arms", nargs="*", default=["buffer", "au"])
    p.add_argument("--out")
    p.add_argument("--peer")  # how this file calls itself in MONAI's Python
    p.add_argument("--steps", type=float, nargs="*")
    a = p.parse_args()
    if a.peer:
        result = (peer_buffer() if a.peer == "buffer"
                  else peer_loader(a.peer, a.data, a.batches, a.steps))
        print(json.dumps(result))
        return
    python = os.environ.get("SLUICE_MONAI_PYTHON", sys.executable)
    me = [python, os.path.abspath(__file__), a.data, "--batches", str(a.batches)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(GRAPH % a.data)
        f.flush()
        loader = [f"{root}/build/bench_loader", f.name, "2", "60", str(a.batches)]
        rows = {"sluice": [], **{arm: [] for arm in PEERS}}
        buffers = {"sluice": [], "monai": []}
        for _ in range(a.rounds):
            if "buffer" in a.arms:
                buffers["sluice"] += run([f"{root}/build/bench_overlap",
                                          *map(str, (PRODUCER, CONSUMER, ITEMS, EPOCHS))])
                buffers["monai"] += run([*me, "--peer", "buffer"])
            if "au" not in a.arms:
                continue
            base = run([*loader, "0"])[0]["ms_each"]
            ours = run([*loader, *(str(x * base) for x in (0.6, 1.2))])
            rows["sluice"].append({"base": base, "own": ours, "same": ours[1]})
            for arm in PEERS:
                got = run([*me, "--peer", arm, "--steps", "0", "-0.6", "-1.2", str(1.2 * base)], raised)[0]
                rows[arm].append({"base": got[0]["ms_each"], "own": got[1:3], "same": got[3]})
    table(buffers, rows)
    if a.out:
        json.dump({"buffers": buffers, "au": rows}, open(a.out, "w"), indent=2)


if __name__ == "__main__":
    main()
