"""graphs/coplenet.json beside MONAI's blocks of COPLE-Net: same cases, noise of labels, steps, rate and threads.

usage: coplenet.py PYTHON --peer FILE --data TASK04 [--seeds 3] [--volumes 20] [--steps 80] [--out F.json]

PYTHON has monai 1.6.1; FILE is a script that trains with it and prints JSON lines (its --gamma, --steps, --volumes,
--noise are used; it has one seed). Prints Dice of the two classes for gamma 2 and 1.5 of the loss, and seconds a step;
ours are medians over the seeds, of the network itself and not of its teacher, without steps of a gamma of 2 before.
"""
import json
import statistics
import tempfile

from measures import lines_of, of_metric, peer_arguments, run_graph

CLASSES = ("anterior", "posterior")


def ours(a, gamma, seed):
    epochs = a.steps * 8 // (4 * a.volumes)  # four slices of a case, eight in a batch
    with tempfile.TemporaryDirectory() as out:
        rows, summary = run_graph("coplenet", f"{out}/r", [
            f"run.epochs={epochs}", f"+nodes.train.limit={a.volumes}", f"+nodes.val.limit={max(2, a.volumes // 5)}",
            f"nodes.loss.gamma={gamma}", "nodes.loss.warmup_epochs=0", "nodes.infer.net=net",
            f"nodes.val.every_epochs={epochs}"], root=a.data, seed=seed)
    return {"dice": [of_metric(rows, f"val_dice.class_{c}")[-1] for c in CLASSES], "steps": summary["steps"],
            "ms_per_step": 1e3 * summary["wall_s"] / summary["steps"]}


def peer(a, gamma):
    lines = lines_of([a.python, a.peer, "--data", a.data, "--gamma", str(gamma), "--steps", str(a.steps), "--volumes",
                      str(a.volumes), "--noise", "0.4"])
    return {"dice": [lines[-1][f"dice_{c}"] for c in CLASSES], "ms_per_step": lines[-1]["ms_per_step"]}


def main():
    p = peer_arguments(__doc__)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--volumes", type=int, default=20)
    p.add_argument("--steps", type=int, default=80)
    a = p.parse_args()
    found = {}
    for gamma in (2, 1.5):
        rows = [ours(a, gamma, seed) for seed in range(a.seeds)]
        other = peer(a, gamma)
        found[gamma] = {"sluice": rows, "monai": other}
        dice = [statistics.median(r["dice"][k] for r in rows) for k in (0, 1)]
        ms = statistics.median(r["ms_per_step"] for r in rows)
        print(f"gamma {gamma}: Dice {dice[0]:.3f} and {dice[1]:.3f} beside {other['dice'][0]:.3f} and "
              f"{other['dice'][1]:.3f}; {ms:.0f} ms a step beside {other['ms_per_step']:.0f}", flush=True)
    if a.out:
        json.dump(found, open(a.out, "w"), indent=1)


main()
