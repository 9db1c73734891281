#!/usr/bin/env python3
"""Wall time of `sluice check` and `sluice dot`, as processes: medians for a graph of 12 nodes and
for one of 2,000.

    tools/bench/check.py [build/sluice]          prints a table
    tools/bench/check.py --graph 2000 > big.json   the graph alone

The large graph has streams of 100 nodes each: half of them written out, half from a part that is
used again and again, with branches, caches, batches, and one training region in the first stream.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STREAM = 100

UNET = {"type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
        "channels": [8, 16, 32], "strides": [2, 2]}

AUGMENT = {
    "in": "sample", "out": "noise", "params": {"prob": 0.1},
    "nodes": {
        "flip": {"type": "rand_flip", "in": "sample", "prob": "@prob", "spatial_axis": 0},
        "turn": {"type": "rand_rotate90", "in": "flip", "prob": "@prob"},
        "scale": {"type": "rand_scale_intensity", "in": "turn", "prob": "@prob", "factors": 0.1},
        "shift": {"type": "rand_shift_intensity", "in": "scale", "prob": "@prob", "offsets": 0.1},
        "noise": {"type": "rand_gaussian_noise", "in": "shift", "prob": "@prob"},
    },
}


def stream(nodes, name, size):
    """`size` nodes: a source, what is cached, and branches of five nodes each."""
    nodes[f"{name}_cases"] = {"type": "decathlon", "root": "@root", "split": "training"}
    nodes[f"{name}_load"] = {"type": "load_image", "in": f"{name}_cases"}
    nodes[f"{name}_ras"] = {"type": "orientation", "in": f"{name}_load"}
    nodes[f"{name}_grid"] = {"type": "spacing", "in": f"{name}_ras", "pixdim": [2, 2, 2]}
    nodes[f"{name}_norm"] = {"type": "normalize_intensity", "in": f"{name}_grid"}
    nodes[f"{name}_kept"] = {"type": "cache", "in": f"{name}_norm"}
    count, branch, last = 6, 0, f"{name}_kept"
    while size - count > 5:
        here = f"{name}_{branch}"
        ends = branch % 4 == 3
        if branch % 2 == 0:
            nodes[here] = {"part": "augment", "in": last, "prob": 0.2}
        else:
            nodes[f"{here}_crop"] = {"type": "rand_spatial_crop", "in": last, "roi_size": "@patch"}
            nodes[f"{here}_pad"] = {"type": "spatial_pad", "in": f"{here}_crop",
                                    "spatial_size": "@patch"}
            nodes[f"{here}_bias"] = {"type": "rand_bias_field", "in": f"{here}_pad"}
            nodes[f"{here}_gamma"] = {"type": "rand_adjust_contrast", "in": f"{here}_bias"}
            nodes[here] = {"type": "save_image" if ends else "rand_flip", "in": f"{here}_gamma"}
        count += 5
        last = f"{name}_kept" if ends else here
        branch += 1
    for i in range(size - count):
        here = f"{name}_end{i}"
        nodes[here] = {"type": "save_image" if count + i + 1 == size else "rand_flip", "in": last}
        last = here


def graph(size):
    nodes = {}
    train = {"batch": {"type": "batch", "in": "s0_2", "size": 4},
             "fwd": {"type": "model", "in": "batch", "net": "net"},
             "loss": {"type": "dice_loss", "in": "fwd", "to_onehot_y": True, "softmax": True},
             "step": {"type": "adam", "in": "loss", "net": "net"}}
    left, number = size - len(train), 0
    while left > 0:
        stream(nodes, f"s{number}", max(11, min(STREAM, left)))
        left -= STREAM
        number += 1
    nodes.update(train)
    return {"name": f"graph_of_{size}", "vars": {"root": "data/brain", "patch": [32, 32, 32]},
            "models": {"net": UNET}, "parts": {"augment": AUGMENT}, "nodes": nodes}


SMALL = {
    "models": {"net": UNET},
    "nodes": {
        "cases": {"type": "decathlon", "root": "data/brain", "split": "training"},
        "load": {"type": "load_image", "in": "cases"},
        "ras": {"type": "orientation", "in": "load"},
        "norm": {"type": "normalize_intensity", "in": "ras"},
        "kept": {"type": "cache", "in": "norm"},
        "crop": {"type": "rand_spatial_crop", "in": "kept", "roi_size": 32},
        "flip": {"type": "rand_flip", "in": "crop"},
        "noise": {"type": "rand_gaussian_noise", "in": "flip"},
        "batch": {"type": "batch", "in": "noise", "size": 4},
        "fwd": {"type": "model", "in": "batch", "net": "net"},
        "loss": {"type": "dice_loss", "in": "fwd", "to_onehot_y": True, "softmax": True},
        "step": {"type": "adam", "in": "loss", "net": "net"},
    },
}


def median_ms(command, times=21):
    walls = []
    for _ in range(times):
        begin = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        walls.append(1000 * (time.perf_counter() - begin))
        if done.returncode != 0:
            sys.exit(done.stderr.decode()[:2000])
    return statistics.median(walls), min(walls)


def main():
    if sys.argv[1:2] == ["--graph"]:
        json.dump(graph(int(sys.argv[2])), sys.stdout, indent=1)
        return
    binary = sys.argv[1] if len(sys.argv) > 1 else "build/sluice"
    with tempfile.TemporaryDirectory() as folder:
        for name, g in (("12 nodes", SMALL), ("2000 nodes", graph(2000))):
            file = os.path.join(folder, "g.json")
            with open(file, "w") as f:
                json.dump(g, f, indent=1)
            for command in ("check", "dot"):
                middle, least = median_ms([binary, command, file])
                print(f"{command:<6} {name:>10}  median {middle:7.1f} ms   least {least:7.1f} ms")


if __name__ == "__main__":
    main()
