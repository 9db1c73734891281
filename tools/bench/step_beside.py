"""The training step alone and beside a data side that never rests, interleaved.

usage: step_beside.py DATA [--repeats 3] [--epochs 3]

Beside: a second, independent stream deforms volumes on every data thread for the whole run. What
is compared is the step lane's time for a batch (forward, loss, backward and update: the sum of the
three nodes' median firings). Prints the medians and their ratio.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))


def graph(busy):
    text = re.sub(r"(?m)//.*$", "", open(f"{root}/graphs/hippocampus.json").read())
    g = json.loads(text)
    if busy:
        g["nodes"]["other"] = {"type": "decathlon", "root": "@root", "shuffle": True}
        g["nodes"]["oload"] = {"type": "load_image", "in": "other"}
        g["nodes"]["opad"] = {"type": "spatial_pad", "in": "oload", "spatial_size": [160, 160, 160]}
        g["nodes"]["odeform"] = {"type": "rand_elastic", "in": "opad", "prob": 1,
                                 "sigma_range": [5, 8], "magnitude_range": [50, 100]}
    return g


def run(a, busy):
    with tempfile.TemporaryDirectory() as folder:
        json.dump(graph(busy), open(f"{folder}/g.json", "w"))
        subprocess.run([f"{root}/build/sluice", "run", f"{folder}/g.json", "--quiet", "--set",
                        f"vars.root={a.data}", "--set", f"run.epochs={a.epochs}", "--out",
                        f"{folder}/run"], check=True)
        nodes = json.load(open(f"{folder}/run/profile.json"))["nodes"]
    step = sum(1e3 * nodes[n]["busy_s"] / nodes[n]["items"] for n in ("fwd", "loss", "step"))
    data = sum(n["busy_s"] for k, n in nodes.items() if k in ("oload", "opad", "odeform"))
    return step, data


def main():
    p = argparse.ArgumentParser()
    p.add_argument("data")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--epochs", type=int, default=3)
    a = p.parse_args()
    alone, beside = [], []
    for _ in range(a.repeats):
        alone.append(run(a, False)[0])
        step, data = run(a, True)
        beside.append(step)
        print(f"  alone {alone[-1]:.1f} ms   beside {step:.1f} ms (data bodies {data:.1f} s)", flush=True)
    x, y = statistics.median(alone), statistics.median(beside)
    print(f"step alone {x:.1f} ms, beside a busy data side {y:.1f} ms, ratio {y / x:.3f}")


if __name__ == "__main__":
    main()
