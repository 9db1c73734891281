"""graphs/deepgrow.json beside MONAI's DeepGrow: same slices, network, clicks, steps, rate and threads.

usage: deepgrow.py PYTHON --peer FILE --data TASK04 [--seeds 3] [--epochs 3] [--volumes 40] [--out F.json]

PYTHON has monai 1.6.1; FILE is a script that trains with it and prints JSON lines (its --epochs, --volumes, --seed are
used). Arms interleaved, medians. Prints Dice after 0, 1, 2, 5 and 10 clicks of the last epoch, and the seconds of our
whole run, validation included, beside those of MONAI's training alone.
"""
import json
import statistics
import tempfile

from measures import interleaved, lines_of, of_metric, peer_arguments, run_graph

CLICKS = (0, 1, 2, 5, 10)


def ours(a, seed):
    with tempfile.TemporaryDirectory() as out:
        rows, summary = run_graph("deepgrow", f"{out}/r", [f"run.epochs={a.epochs}"], root=a.data, seed=seed,
                                  volumes=a.volumes, val_volumes=max(2, a.volumes // 8))
    return {"dice": [of_metric(rows, f"dice{k}.mean")[-1] for k in CLICKS], "steps": summary["steps"],
            "seconds": summary["wall_s"]}


def peer(a, seed):
    lines = lines_of([a.python, a.peer, "--data", a.data, "--epochs", str(a.epochs), "--volumes", str(a.volumes),
                      "--seed", str(seed)])
    epochs = [line for line in lines if "epoch" in line]
    return {"dice": [epochs[-1][f"dice_{k}"] for k in CLICKS], "steps": -(-lines[0]["train"] // 8) * a.epochs,
            "seconds": sum(e["seconds"] for e in epochs)}


def main():
    a = peer_arguments(__doc__, seeds=3, epochs=3, volumes=40).parse_args()
    found = interleaved(a.seeds, sluice=lambda seed: ours(a, seed), monai=lambda seed: peer(a, seed))
    for name, rows in found.items():
        dice = [statistics.median(r["dice"][k] for r in rows) for k in range(len(CLICKS))]
        print(name, "Dice after", ", ".join(f"{k} clicks {d:.3f}" for k, d in zip(CLICKS, dice)))
    seconds = {n: statistics.median(r["seconds"] for r in rows) for n, rows in found.items()}
    print(f"{seconds['sluice']:.0f} s beside {seconds['monai']:.0f}: {seconds['monai'] / seconds['sluice']:.2f}x")
    if a.out:
        json.dump(found, open(a.out, "w"), indent=1)


main()
