#!/usr/bin/env python3
"""Does the profile tell the truth of transforms that are done together?

    tools/bench/fused_shares.py [--seconds 4] [--chains 20] [--only 3] [-o F.json]

Random chains of transforms that one pass or one body does, each with one slow member planted among
quick ones, every second one ending in a batch. Counted are the verdicts that name the slow member,
and the gains predicted for `free:` what the verdict names that are within 15 % of the measured ones:
a gain is the time that a sample takes less. (The rate after it hangs on the few per cent of the work
that are left, whose passes then join and find their voxels in the cache: it is printed, not counted.)
Bar: 20 of 20 named, 16 of 20 within 15 %.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLUICE = ROOT / "build" / "sluice"

SLOW = [
    {"type": "rand_gaussian_smooth", "prob": 1, "sigma_x": [5, 6], "sigma_y": [5, 6], "sigma_z": [5, 6]},
    {"type": "rand_affine", "prob": 1, "rotate_range": 0.5, "scale_range": 0.1, "padding_mode": "border"},
    {"type": "rand_elastic", "prob": 1, "sigma_range": [3, 4], "magnitude_range": [20, 40]},
    {"type": "spacing", "pixdim": [0.97, 1.03, 1.0]},
    {"type": "rand_bias_field", "prob": 1, "degree": 5},
]
QUICK = [
    {"type": "rand_flip", "prob": 0.5, "spatial_axis": [0]},
    {"type": "rand_axis_flip", "prob": 0.5},
    {"type": "rand_rotate90", "prob": 0.5},
    {"type": "rand_scale_intensity", "prob": 1, "factors": 0.2},
    {"type": "rand_shift_intensity", "prob": 1, "offsets": 0.2},
    {"type": "scale_intensity_range", "a_min": 0, "a_max": 2, "b_min": -1, "b_max": 1},
]


def chain(number):
    """A graph, and the name of its slow member."""
    draws = random.Random(number)
    members = [dict(draws.choice(QUICK)) for _ in range(draws.randint(2, 5))]
    place = draws.randint(0, len(members))
    members.insert(place, dict(SLOW[number % len(SLOW)]))
    nodes = {"made": {"type": "synthetic", "num_samples": 8, "spatial_size": [96, 96, 96], "rad_max": 24,
                      "rad_min": 8},
             "kept": {"type": "cache", "in": "made"}}
    before = "kept"
    for i, member in enumerate(members):
        name = f"{'slow' if i == place else 'quick'}{i}"
        nodes[name] = {**member, "in": before}
        before = name
    if number % 2:
        nodes["batch"] = {"type": "batch", "in": before, "size": 2}
    return {"run": {"epochs": 1000000, "seed": number}, "nodes": nodes}, f"slow{place}"


def profile(graph, seconds):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "chain.json"
        file.write_text(json.dumps(graph))
        words = [SLUICE, "profile", file, "--quiet", "--json", "--seconds", seconds, "--threads", os.cpu_count(),
                 "--what-if", "verdict", "--verify"]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=4)
    options.add_argument("--chains", type=int, default=20)
    options.add_argument("--only", type=int, help="one chain, with what its profile says")
    options.add_argument("-o", "--out")
    args = options.parse_args()
    rows = []
    print(f"{'chain':>5}  {'planted':<22} {'named':<34} samples/s {'now':>7} {'predicted':>9} {'measured':>8}    off"
          f"   saved ms {'predicted':>9} {'measured':>8}    off")
    for number in range(args.chains) if args.only is None else [args.only]:
        graph, planted = chain(number)
        found = profile(graph, args.seconds)
        named = re.findall(r"`([^`]+)`", found["verdict"].split("limit")[0])
        answer = (found["what_if"] or [{}])[0]
        predicted, measured = answer.get("predicted", 0), answer.get("measured", 0)
        now = found["rate"]
        off = predicted / measured - 1 if measured else float("nan")
        saved = [1e3 / now - 1e3 / rate if rate else float("nan") for rate in (predicted, measured)]
        rows.append({"chain": number, "type": graph["nodes"][planted]["type"], "planted": planted, "named": named,
                     "change": answer.get("change", ""), "now": now, "predicted": predicted,
                     "measured": measured, "off": off, "saved_ms": saved, "gain_off": saved[0] / saved[1] - 1})
        print(f"{number:>5}  {planted + ' ' + graph['nodes'][planted]['type'][:15]:<22} {'+'.join(named):<34} "
              f"{now:17.1f} {predicted:9.1f} {measured:8.1f} {100 * off:+5.0f}%"
              f" {saved[0]:19.3f} {saved[1]:8.3f} {100 * rows[-1]['gain_off']:+5.0f}%", flush=True)
        if args.only is not None:
            print(found["verdict"])
            for name, node in found["nodes"].items():
                print(f"  {name:<10} {node['type']:<24} busy {node['busy_s']:7.3f} s, bodies "
                      f"{node.get('body_s', node['busy_s']):7.3f} s, {node['items']} items, "
                      f"with {', '.join(node.get('done_with', [])) or '-'}")
    right = sum(row["planted"] in row["named"] for row in rows)
    near = sum(abs(row["gain_off"]) <= 0.15 for row in rows)
    print(f"named {right} of {len(rows)}, gain within 15 % {near} of {len(rows)}")
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"rows": rows, "named": right, "within_15_percent": near}, indent=1))


if __name__ == "__main__":
    main()
