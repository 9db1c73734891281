"""graphs/camelyon.json and camelyon_infer.json beside MONAI's pathology pipeline on the same slides.

usage: camelyon.py PYTHON --peer FILE --data SLIDES [--seeds 3] [--epochs 2] [--size 4096] [--patches 400] [--out F]

PYTHON has monai 1.6.1, openslide-python, tifffile, imagecodecs and scikit-image; FILE is a script that makes slides in
the folder SLIDES where there are none, trains, predicts and prints JSON lines (its --slides, --make, --size, --patches,
--epochs are used; it has one seed and a constant rate, as ours has here). Three slides train, two are predicted.
Prints accuracy of the last epoch's patches, FROC of the two slides, patches a second of training (the whole run for
ours) and of prediction; ours are medians over the seeds.
"""
import json
import pathlib
import statistics
import tempfile

from measures import lines_of, of_metric, peer_arguments, run_graph


def ours(a, seed):
    slides = pathlib.Path(a.data).resolve()
    with tempfile.TemporaryDirectory() as out:
        test = pathlib.Path(out, "test")
        for folder, suffix in (("images", ""), ("masks", "_mask")):
            (test / folder).mkdir(parents=True)
            for k in (3, 4):
                (test / folder / f"slide_{k:02d}.tif").symlink_to(slides / f"slide_{k:02d}{suffix}.tif")
        rows, trained = run_graph("camelyon", f"{out}/r",
                                  [f"run.epochs={a.epochs}", "nodes.step.lr_schedule=constant"],
                                  slides=slides, csv=slides / "train.csv", seed=seed)
        scores, predicted = run_graph("camelyon_infer", f"{out}/i", root=test, weights=f"{out}/r")
        fired = lambda run, node: json.loads(pathlib.Path(out, run, "profile.json").read_text())["nodes"][node]["items"]
        return {"accuracy": of_metric(rows, "val_accuracy.mean")[-1], "froc": of_metric(scores, "froc.mean")[-1],
                "trained_per_s": fired("r", "jitter") / trained["wall_s"],
                "predicted_per_s": fired("i", "region") / predicted["wall_s"]}


def peer(a):
    lines = lines_of([a.python, a.peer, "--slides", a.data, "--size", str(a.size), "--patches", str(a.patches),
                      "--epochs", str(a.epochs)])
    of = {k: v for line in lines for k, v in line.items()}  # the last of each
    epochs = [line for line in lines if "epoch" in line]
    return {"accuracy": of["val_accuracy"], "froc": of["froc"],
            "trained_per_s": sum(e["patches"] for e in epochs) / sum(e["seconds"] for e in epochs),
            "predicted_per_s": of["inference_patches_per_s"]}


def main():
    p = peer_arguments(__doc__)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--size", type=int, default=4096)
    p.add_argument("--patches", type=int, default=400)
    a = p.parse_args()
    found = {"monai": [peer(a)], "sluice": []}  # the peer makes the slides
    print("monai", json.dumps(found["monai"][0]), flush=True)
    for seed in range(a.seeds):
        found["sluice"].append(ours(a, seed))
        print("sluice", json.dumps(found["sluice"][-1]), flush=True)
    for key in found["sluice"][0]:
        ours_, theirs = (statistics.median(r[key] for r in found[n]) for n in ("sluice", "monai"))
        print(f"{key}: {ours_:.3f} beside {theirs:.3f}, {ours_ / theirs:.2f}x")
    if a.out:
        json.dump(found, open(a.out, "w"), indent=1)


main()
