"""A whole training of nnU-Net's recipe beside nnU-Net itself: fold 0, equal steps, Dice over seconds, memory.

usage: nnunet_training.py PYTHON --peer FILE --data TASK04 --out F.json [--seeds 1,2,3] [--steps 300] [--every 50]
                          [--precision bfloat16|float32] [--arms sluice,nnunet] [--picture F.svg]

PYTHON has nnunetv2 2.8.1; the picture needs matplotlib in the interpreter that runs this. FILE is a script that trains
with it and prints JSON lines (its --steps, --iters, --every, --seed, --val, --bf16, --cl, --no-mirror are used).
Both sides start from the files: their seconds hold fingerprint, plan (of the fold's cases, as FILE does), preprocessing,
training and a validation of the fold's whole cases every --every steps, without mirroring. bfloat16 runs nnU-Net with
channels last, its best on a CPU. Arms interleaved by seed; F.json keeps the runs of earlier calls, and the summary
counts them all.
"""
import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time

from measures import peer_arguments, root


def first_fold(a, work):
    """A decathlon folder whose training and validation are nnU-Net's own fold 0."""
    listed = json.load(open(f"{a.data}/dataset.json"))
    cases = {os.path.basename(e["label"])[:-7]: e for e in listed["training"]}
    split = subprocess.run(
        [a.python, "-c", "import sys, json; from nnunetv2.utilities.crossval_split import generate_crossval_split as g;"
         "print(json.dumps(g(json.load(sys.stdin), 12345, 5)[0]))"],
        input=json.dumps(sorted(cases)), check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    fold = {name: [cases[key] for key in keys] for name, keys in
            zip(("training", "validation"), (json.loads(split)["train"], json.loads(split)["val"]))}
    os.makedirs(f"{work}/fold")
    for name in ("imagesTr", "labelsTr"):
        os.symlink(os.path.abspath(f"{a.data}/{name}"), f"{work}/fold/{name}")
    json.dump({**listed, **fold}, open(f"{work}/fold/dataset.json", "w"))
    return f"{work}/fold"


def measured(command, follow=lambda line: None):
    """Runs `command`; follow(line) says (step, Dice) of a line of its output, or None."""
    begin, curve = time.time(), []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if found := follow(line):
            curve.append((round(time.time() - begin, 1), *found))
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed: {status}")
    return {"wall_s": round(time.time() - begin, 1), "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "peak_gib": round(used.ru_maxrss / 2**20, 2), "curve": curve}


def ours(a, work, seed):
    graph, out = f"{work}/sluice", f"{work}/run"
    fold = first_fold(a, work)
    begin = time.time()
    subprocess.run([f"{root}/build/sluice", "new", "segmentation", fold, "--recipe", "nnunet", "-o", graph],
                   check=True, capture_output=True)
    batch = int(re.search(r'"batch": (\d+)', open(f"{graph}/3d_fullres.json").read())[1])
    planned = time.time() - begin
    command = (f"{root}/build/sluice run {graph}/3d_fullres.json --quiet --overwrite --out {out} "
               f"--set run.seed={seed} --set vars.epochs={a.steps // a.every} --set vars.root={os.path.abspath(a.data)} "
               f"--set +models.net.precision={a.precision} --set nodes.draw.num_samples={batch * a.every} "
               f"--set nodes.o_draw.num_samples={batch} --set nodes.v_cases.every_epochs=1 "
               f"--set nodes.v_infer.mirror_axes=[] --set nodes.v_save.output_dir={out}/validation")
    done = threading.Event()
    times = {}

    def watch():  # the metrics' file, as the run writes it
        while not done.wait(0.25):
            try:
                for line in open(f"{out}/metrics.jsonl"):
                    if '"metric":"dice.mean"' in line:
                        times.setdefault(line, time.time() - begin)
            except (OSError, ValueError):
                pass
    watcher = threading.Thread(target=watch)
    watcher.start()
    run = measured(command.split())
    time.sleep(0.5)
    done.set()
    watcher.join()
    run["wall_s"] = round(run["wall_s"] + planned, 1)
    run["curve"] = [(round(at, 1), json.loads(line)["step"], json.loads(line)["value"]) for line, at in times.items()]
    return run


def peer(a, work, seed):
    more = ["--bf16", "--cl"] if a.precision == "bfloat16" else []

    def follow(line):
        said = json.loads(line)
        return (said["eval"], said["dice"]) if "eval" in said else None
    fold = first_fold(a, work)
    return measured([a.python, a.peer, "--data", fold, "--val", fold, "--steps", str(a.steps), "--iters", str(a.every),
                     "--every", str(a.every), "--seed", str(seed), "--no-mirror", "--work", f"{work}/nnunet", *more],
                    follow)


def picture(runs, path):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4))
    colors = {"sluice": "C0", "nnunet": "C1"}
    for run in runs:
        axes.plot([p[0] for p in run["curve"]], [p[2] for p in run["curve"]], color=colors[run["arm"]],
                  marker=".", label=f"{run['arm']}, seed {run['seed']}", alpha=0.5 + 0.5 / run["seed"])
    axes.set(xlabel="seconds from the start", ylabel="mean Dice of the fold's cases", title=runs[0]["precision"])
    axes.legend()
    figure.savefig(path)


def main():
    p = peer_arguments(__doc__)
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--every", type=int, default=50)
    p.add_argument("--precision", default="bfloat16")
    p.add_argument("--arms", default="sluice,nnunet")
    p.add_argument("--picture")
    a = p.parse_args()
    if a.picture:
        import matplotlib  # noqa: F401  is missed before the trainings and not behind them
    runs = json.load(open(a.out)) if os.path.exists(a.out) else []
    for seed in filter(None, a.seeds.split(",")):
        for name in a.arms.split(","):
            arm = {"sluice": ours, "nnunet": peer}[name]
            with tempfile.TemporaryDirectory() as work:
                run = {"arm": name, "precision": a.precision, "seed": int(seed), "steps": a.steps, **arm(a, work, seed)}
            print(json.dumps(run), flush=True)
            runs.append(run)
            json.dump(runs, open(a.out, "w"), indent=1)
    runs = [run for run in runs if run["precision"] == a.precision and run["steps"] == a.steps]
    of = {name: [run for run in runs if run["arm"] == name] for name in ("sluice", "nnunet")}
    if not all(of.values()):
        return  # nothing beside it yet
    dice = {name: statistics.mean(run["curve"][-1][2] for run in all) for name, all in of.items()}
    middle = {name: {key: statistics.median(run[key] for run in all) for key in ("wall_s", "peak_gib")}
              for name, all in of.items()}
    print(f"{a.precision}, {len(of['sluice'])} seeds, {a.steps} steps: Dice {dice['sluice']:.4f}, nnU-Net "
          f"{dice['nnunet']:.4f}; wall {middle['sluice']['wall_s']:.0f} s of {middle['nnunet']['wall_s']:.0f} s, ratio "
          f"{middle['nnunet']['wall_s'] / middle['sluice']['wall_s']:.2f}; peak {middle['sluice']['peak_gib']:.2f} of "
          f"{middle['nnunet']['peak_gib']:.2f} GiB")
    if a.picture:
        picture(runs, a.picture)


main()
