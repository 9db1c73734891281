"""graphs/register_hippocampus.json beside MONAI's VoxelMorph: same subjects, steps, losses, rate and threads.

usage: registration.py PYTHON --peer FILE --data TASK04 [--seeds 3] [--epochs 5] [--train 90] [--out F.json]

PYTHON has monai 1.6.1; FILE is a script that trains with it and prints JSON lines (its --train, --epochs, --seed,
--norm, --half, --dice, --lam are used). A pair of ours is two subjects, so that two epochs have the peer's steps.
Arms interleaved, medians; Dice of the best epoch, of all 40 validation subjects (ours 20 pairs, the peer's 40).
"""
import json
import statistics
import tempfile

from measures import interleaved, lines_of, of_metric, peer_arguments, run_graph


def ours(a, seed):
    with tempfile.TemporaryDirectory() as out:
        rows, summary = run_graph("register_hippocampus", f"{out}/r",
                                  [f"run.epochs={2 * a.epochs}", f"+nodes.train.limit={a.train}"], root=a.data, seed=seed)
    return {"before": of_metric(rows, "before.mean")[-1], "after": max(of_metric(rows, "after.mean")),
            "folding": of_metric(rows, "folds.folding")[-1], "seconds": summary["wall_s"]}


def peer(a, seed):
    lines = lines_of([a.python, a.peer, "--data", a.data, "--train", str(a.train), "--epochs", str(a.epochs),
                      "--seed", str(seed), "--norm", "instance", "--half", "--dice", "1", "--lam", "0.05"])
    epochs = [line for line in lines if "epoch" in line]
    return {"before": lines[0]["dice_before"], "after": max(e["dice_after"] for e in epochs),
            "folding": epochs[-1]["folding"], "seconds": sum(e["seconds"] for e in epochs)}


def main():
    a = peer_arguments(__doc__, seeds=3, epochs=5, train=90).parse_args()
    found = interleaved(a.seeds, sluice=lambda seed: ours(a, seed), monai=lambda seed: peer(a, seed))
    median = lambda name, key: statistics.median(r[key] for r in found[name])
    gain = {n: statistics.median(r["after"] - r["before"] for r in rows) for n, rows in found.items()}
    print(f"gain in Dice: ours {gain['sluice']:.3f}, MONAI {gain['monai']:.3f}; folding {median('sluice', 'folding'):.4f}"
          f" and {median('monai', 'folding'):.4f}; whole run with validation {median('sluice', 'seconds'):.0f} s, MONAI's"
          f" training alone {median('monai', 'seconds'):.0f} s: {median('monai', 'seconds') / median('sluice', 'seconds'):.2f}x")
    if a.out:
        json.dump(found, open(a.out, "w"), indent=1)


main()
