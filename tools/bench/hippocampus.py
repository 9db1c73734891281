"""Sluice beside a peer on decathlon task 4: whole runs, interleaved, several seeds.

usage: hippocampus.py DATA "PEER COMMAND" [--seeds 1 2 3] [--epochs 12] [--precision bfloat16]
                      [--cpu LEVEL] [--out F.json]

The peer command gets --data, --epochs, --seed, --cl and, for bfloat16, --bf16, and prints a JSON line
an epoch with "dice" and "wall_s". --cpu sets SLUICE_CPU for us. It runs with glibc's thresholds raised, which is its better setting. Prints a
Markdown table; wall time is the loop's own on both sides (data caching included, start-up not).
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from measures import lines_of, root


def ours(a, seed):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([f"{root}/build/sluice", "run", f"{root}/graphs/hippocampus.json", "--quiet",
                        "--set", f"vars.root={a.data}", "--set", f"vars.seed={seed}",
                        "--set", f"models.net.precision={a.precision}",
                        "--set", f"run.epochs={a.epochs}", "--out", out], check=True,
                       env={**os.environ, **({"SLUICE_CPU": a.cpu} if a.cpu else {})})
        s = json.load(open(f"{out}/summary.json"))
    m = s["metrics"]["val_dice.mean"]
    return {"arm": "sluice", "seed": seed, "wall_s": s["wall_s"], "last": m["last"], "best": m["best"]}


def peer(a, seed):
    command = a.peer.split() + ["--data", a.data, "--epochs", str(a.epochs), "--seed", str(seed),
                                "--cl"] + (["--bf16"] if a.precision == "bfloat16" else [])
    lines = lines_of(command)
    return {"arm": "peer", "seed": seed, "wall_s": lines[-1]["wall_s"], "last": lines[-1]["dice"],
            "best": max(line["dice"] for line in lines)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("data")
    p.add_argument("peer")
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--precision", default="bfloat16", choices=["float32", "bfloat16"])
    p.add_argument("--cpu")
    p.add_argument("--out")
    a = p.parse_args()
    rows = []
    for seed in a.seeds:
        for arm in (ours, peer):
            rows.append(arm(a, seed))
            print("  ", json.dumps(rows[-1]), flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)
    print("\n| arm | wall s (median) | last dice | best dice |\n|---|---|---|---|")
    walls = {}
    for arm in ("sluice", "peer"):
        mine = [r for r in rows if r["arm"] == arm]
        walls[arm] = statistics.median(r["wall_s"] for r in mine)
        show = lambda key: ", ".join(f"{r[key]:.4f}" for r in mine)
        print(f"| {arm} | {walls[arm]:.1f} | {show('last')} | {show('best')} |")
    print(f"\npeer / sluice: {walls['peer'] / walls['sluice']:.2f}")


if __name__ == "__main__":
    main()
