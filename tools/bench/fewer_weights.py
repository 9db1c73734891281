"""Hippocampus with half of its weights: channels pruned away, and vectors of zeros, beside the dense network.

usage: fewer_weights.py DATA [--seeds 1 2 3] [--epochs 12] [--more 8] [--precision bfloat16] [--out F.json]

A dense run of so many epochs is the beginning of all; its network is trained for --more epochs pruned to half of its
channels, and with vector sparsity; the dense one that they are held against is a run of all epochs together. Prints
Markdown tables: the Dice of each, and the milliseconds that a forward pass of the validation set spends in
convolutions, dense and sparse, by `sluice profile` (runs alternate, medians).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
SLUICE = root / "build/sluice"
GRAPH = root / "graphs/hippocampus.json"
VECTOR = 'models.net.sparsity={"pattern": "vector", "keep": 0.5}'
TRAINING = ["train", "pre", "gpu", "flip", "scale", "shift", "batch", "fwd", "loss", "step"]


def sluice(*words):
    done = subprocess.run([str(w) for w in (SLUICE, *words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def settings(a, seed, *more):
    values = [f"vars.root={a.data}", f"vars.seed={seed}", f"models.net.precision={a.precision}", *more]
    return [word for v in values for word in ("--set", v)]


def trained(folder, graph, words):
    """The Dice of the last epoch."""
    sluice("run", graph, "--quiet", "--out", folder, *words)
    return json.loads((folder / "summary.json").read_text())["metrics"]["val_dice.mean"]["last"]


def convolutions_ms(a, weights, *more):
    """Of the network's forward passes over the validation set."""
    words = settings(a, 1, f"models.net.weights={weights}", "run.epochs=20", *more, "~nodes.val.after",
                     *(f"~nodes.{n}" for n in TRAINING))
    layers = json.loads(sluice("profile", GRAPH, "--quiet", "--json", *words))["layers"]["net"]
    return sum(layer["forward_ms"] for layer in layers if "conv" in layer["kind"].lower())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data")
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--more", type=int, default=8)
    p.add_argument("--precision", default="bfloat16", choices=["float32", "bfloat16"])
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--out", type=pathlib.Path)
    a = p.parse_args()
    a.data = os.path.abspath(a.data)
    rows, times = [], {"dense": [], "vector": []}
    with tempfile.TemporaryDirectory() as made:
        for seed in a.seeds:
            to = pathlib.Path(made, str(seed))
            row = {"seed": seed, "begin": trained(to / "begin", GRAPH, settings(a, seed, f"run.epochs={a.epochs}"))}
            row["dense"] = trained(to / "dense", GRAPH, settings(a, seed, f"run.epochs={a.epochs + a.more}"))
            sluice("prune", to / "begin", "--channels", "0.5", "-o", to / "half")
            row["pruned"] = trained(to / "pruned", to / "half/graph.json", ["--set", f"run.epochs={a.more}"])
            row["vector"] = trained(to / "vector", GRAPH, settings(
                a, seed, f"run.epochs={a.more}", f"models.net.weights={to / 'begin'}", VECTOR))
            rows.append(row)
            print("  ", json.dumps(row), flush=True)
        for _ in range(a.repeats):
            times["dense"].append(convolutions_ms(a, to / "dense"))
            times["vector"].append(convolutions_ms(a, to / "vector", VECTOR))
    if a.out:
        a.out.write_text(json.dumps({"rows": rows, "ms": times}, indent=1))
    print("\n| seed | dense, first part | dense, all epochs | half of the channels | half of the vectors |\n" + "|---" * 5 + "|")
    for r in rows:
        print(f"| {r['seed']} | " + " | ".join(f"{r[k]:.4f}" for k in ("begin", "dense", "pruned", "vector")) + " |")
    dense, vector = (statistics.median(times[k]) for k in ("dense", "vector"))
    print(f"\nconvolutions of the validation set: dense {dense:.1f} ms, vectors {vector:.1f} ms: {dense / vector:.2f} times")


if __name__ == "__main__":
    main()
