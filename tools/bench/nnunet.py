"""A training step of nnU-Net's 3d_fullres plan beside nnU-Net itself: same data, batch and precision.

usage: nnunet.py PYTHON --peer FILE --data TASK04 [--rounds 2] [--steps 8] [--out F.json]

PYTHON has nnunetv2 2.8.1; FILE is a script that trains with it and prints JSON lines (its --steps, --log, --bf16,
--cl, --work, --reuse are used). Ours is what a longer run takes more than a shorter one, with reading, augmentation
and step; nnU-Net's its own wall seconds from the second step on. float32 is both sides' default; the other arm is
bfloat16 with channels last, nnU-Net's best on a CPU. Arms interleaved, medians.
"""
import json
import os
import statistics
import subprocess
import tempfile

from measures import peer_arguments, root


def ours(a, work, precision):
    graph = f"{work}/sluice/3d_fullres.json"
    if not os.path.exists(graph):
        subprocess.run([f"{root}/build/sluice", "new", "segmentation", a.data, "--recipe", "nnunet", "-o",
                        f"{work}/sluice"], check=True, capture_output=True)

    def wall(steps):
        out = f"{work}/run"
        subprocess.run([f"{root}/build/sluice", "run", graph, "--quiet", "--overwrite", "--out", out,
                        "--set", "vars.epochs=1", "--set", f"+models.net.precision={precision}",
                        "--set", f"nodes.draw.num_samples={6 * steps}", "--set", "nodes.o_draw.num_samples=6",
                        "--set", "+nodes.v_cases.limit=1", "--set", "nodes.v_infer.mirror_axes=[]"],
                       check=True, capture_output=True)
        return json.load(open(f"{out}/summary.json"))["wall_s"]
    few = 2
    return (wall(few + a.steps) - wall(few)) / a.steps


def peer(a, work, precision):
    more = ["--bf16", "--cl"] if precision == "bfloat16" else []
    text = subprocess.run([a.python, a.peer, "--data", a.data, "--steps", str(a.steps + 2), "--iters",
                           str(a.steps + 2), "--log", "1", "--limit-val", "1", "--no-mirror", "--work", f"{work}/nnunet",
                           "--reuse", *more], check=True, capture_output=True, text=True).stdout
    walls = [line["wall_s"] for line in map(json.loads, text.splitlines()) if "step" in line]
    return (walls[-1] - walls[1]) / (len(walls) - 2)


def main():
    p = peer_arguments(__doc__)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=8)
    a = p.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as work:
        for _ in range(a.rounds):
            for precision in ("float32", "bfloat16"):
                for name, arm in (("sluice", ours), ("nnunet", peer)):
                    found.setdefault(f"{name} {precision}", []).append(arm(a, work, precision))
                    print(name, precision, f"{found[f'{name} {precision}'][-1]:.2f} s a step", flush=True)
    medians = {arm: statistics.median(all) for arm, all in found.items()}
    for precision in ("float32", "bfloat16"):
        ratio = medians[f"nnunet {precision}"] / medians[f"sluice {precision}"]
        print(f"{precision}: {medians[f'sluice {precision}']:.2f} s a step, nnU-Net "
              f"{medians[f'nnunet {precision}']:.2f} s, ratio {ratio:.2f}")
    if a.out:
        json.dump({"arms": found, "medians": medians}, open(a.out, "w"), indent=1)


main()
