"""Regions a second of processor time of Sluice beside OpenSlide's and tifffile's Python, on one slide and one thread each.

    python tools/bench/slides.py SLIDE [--regions 400] [--size 224] [--rounds 3]

Needs openslide-python; tifffile, which reads by zarr and imagecodecs, is left out without these. SLUICE names another
binary than build/sluice. `random` are places anywhere, `grid` neighbours row by row, which share tiles. Each reader
makes an array of [rows, columns, 3] bytes. Sluice's figure is that of its node read_region in a run of its own: its
time times the share of a core that its longer bodies used (profile.json), an estimate where the machine is busy.
Start-up is in none. Arms take turns; medians of the rounds.
"""
import argparse
import csv
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np


def places(o, kind, rows, columns):
    rng = np.random.RandomState(0)
    if kind == "random":
        return [(rng.randint(rows - o.size), rng.randint(columns - o.size)) for _ in range(o.regions)]
    across = min(columns // o.size, 32)
    return [(i // across * o.size, i % across * o.size) for i in range(o.regions) if (i // across + 1) * o.size <= rows]


def with_openslide(path, at, size):
    import openslide
    slide = openslide.OpenSlide(path)
    return timed(at, lambda y, x: np.asarray(slide.read_region((x, y), 0, (size, size)).convert("RGB")))


def with_tifffile(path, at, size):
    import tifffile
    import zarr
    level = zarr.open(tifffile.imread(path, aszarr=True, level=0), mode="r")
    return timed(at, lambda y, x: np.asarray(level[y:y + size, x:x + size]))


def timed(at, read):
    begin, total = time.process_time(), 0
    for y, x in at:
        total += int(read(y, x)[::64, ::64].sum())
    return time.process_time() - begin


def with_sluice(path, at, size):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with open(folder / "at.csv", "w", newline="") as f:
            csv.writer(f).writerows([path, x, y] for y, x in at)
        (folder / "g.json").write_text(json.dumps({"run": {"threads": 1}, "nodes": {
            "rows": {"type": "csv_list", "file": str(folder / "at.csv"), "header": False, "root": "/", "columns": {"image": 0},
                     "groups": {"location": [2, 1]}},
            "region": {"type": "read_region", "in": "rows", "size": size, "center": False}}}))
        subprocess.run([os.environ.get("SLUICE", "build/sluice"), "run", folder / "g.json", "--out", folder / "run"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        region = json.load(open(folder / "run/profile.json"))["nodes"]["region"]
        return region["busy_s"] * region.get("cpu", 1)


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("slide", type=pathlib.Path)
    a.add_argument("--regions", type=int, default=400)
    a.add_argument("--size", type=int, default=224)
    a.add_argument("--rounds", type=int, default=3)
    o = a.parse_args()
    path = str(o.slide.resolve())
    import openslide
    columns, rows = openslide.OpenSlide(path).dimensions
    arms = {"Sluice": with_sluice, "OpenSlide": with_openslide}
    if all(importlib.util.find_spec(m) for m in ("tifffile", "zarr", "imagecodecs")):
        arms["tifffile"] = with_tifffile
    for kind in ("random", "grid"):
        at = places(o, kind, rows, columns)
        seconds = {name: [] for name in arms}
        for _ in range(o.rounds):
            for name, arm in arms.items():
                seconds[name].append(arm(path, at, o.size))
        rate = {name: round(len(at) / statistics.median(s), 1) for name, s in seconds.items()}
        print(json.dumps({"slide": [rows, columns], "places": kind, "regions": len(at), "size": o.size, "per_second": rate,
                          "sluice_over": {n: round(rate["Sluice"] / r, 2) for n, r in rate.items() if n != "Sluice"}}))
