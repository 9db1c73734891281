"""Whole runs of brain.json beside the same pipeline in MONAI, interleaved, several seeds.

usage: brain.py PYTHON [--data data/brain] [--network brain|spleen] [--seeds 1 2 3] [--epochs 8]
                [--precision float32] [--cpu LEVEL] [--out F.json]

PYTHON has MONAI. DATA is what `sluice run graphs/make_brain_dataset.json` makes. `spleen` puts the
network of MONAI's spleen tutorial in its place (16 to 256 channels, two residual units, batch norm)
and crops of 96 voxels. MONAI's arm caches what does not change (CacheDataset, ThreadDataLoader),
with glibc's thresholds raised, eager and in channels-last; the quicker of the two counts. Wall time
is the loop's own on both sides (filling the cache included, start-up not). Prints a Markdown table.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from measures import raised

root = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = {
    "brain": ({"channels": [8, 16, 32, 64], "strides": [2, 2, 2], "num_res_units": 1}, [64] * 3),
    "spleen": ({"channels": [16, 32, 64, 128, 256], "strides": [2] * 4, "num_res_units": 2,
                "norm": "BATCH"}, [96] * 3),
}


def ours(a, seed):
    net, patch = NETWORKS[a.network]
    settings = {f"models.net.{key}": value for key, value in net.items() if key != "norm"}
    settings |= {"+models.net.norm": net.get("norm", "INSTANCE"), "models.net.precision": a.precision,
                 "vars.root": str(a.data), "vars.patch": patch, "vars.seed": seed,
                 "run.epochs": a.epochs, "~run.stop": None}
    words = [root / "build/sluice", "run", root / "graphs/brain.json", "--quiet"]
    for key, value in settings.items():
        words += ["--set", key if value is None else f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    with tempfile.TemporaryDirectory() as out:
        env = {**os.environ, **({"SLUICE_CPU": a.cpu} if a.cpu else {})}
        subprocess.run([str(w) for w in words] + ["--out", out], check=True, env=env)
        s = json.loads(pathlib.Path(out, "summary.json").read_text())
    return {"arm": "sluice", "seed": seed, "wall_s": s["wall_s"], "dice": s["metrics"]["val_dice.mean"]["last"]}


def theirs(a, seed, arm):
    words = [a.python, __file__, "--peer", arm, "--data", a.data, "--network", a.network, "--seeds", seed,
             "--epochs", a.epochs, "--precision", a.precision]
    text = subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True,
                          env={**os.environ, **raised}).stdout
    return json.loads(text.splitlines()[-1])


def peer(a):
    """MONAI's arm: one run, one JSON line."""
    import warnings
    warnings.filterwarnings("ignore")
    import torch
    from monai import transforms as mt
    from monai.data import CacheDataset, ThreadDataLoader, decollate_batch
    from monai.inferers import SlidingWindowInferer
    from monai.losses import DiceCELoss
    from monai.metrics import DiceMetric
    from monai.networks.nets import UNet
    from monai.utils import set_determinism

    seed, keys = a.seeds[0], ["image", "label"]
    net_params, patch = NETWORKS[a.network]
    layout = torch.channels_last_3d if a.peer == "channels-last" else torch.contiguous_format
    half = a.precision == "bfloat16"
    torch.set_num_threads(os.cpu_count())
    set_determinism(seed)
    listed = json.loads((a.data / "dataset.json").read_text())
    files = [{k: str(a.data / pair[k]) for k in keys} for pair in listed["training"]]
    # As many for validation as `decathlon` holds back.
    held = max(1, len(files) // 5)
    train, val = files[:-held], files[-held:]

    def prepare(of):
        return [mt.LoadImaged(keys), mt.EnsureChannelFirstd(keys), mt.Orientationd(of, axcodes="RAS"),
                mt.Spacingd(of, pixdim=[2, 2, 2], mode=["bilinear", "nearest"][:len(of)]),
                mt.NormalizeIntensityd("image")]

    augment = [mt.SpatialPadd(keys, patch), mt.RandCropByPosNegLabeld(keys, "label", patch, num_samples=2),
               mt.RandFlipd(keys, 0.5, 0), mt.RandScaleIntensityd("image", 0.1, 0.5),
               mt.RandShiftIntensityd("image", 0.1, prob=0.5)]
    begin = time.perf_counter()
    cached = dict(num_workers=os.cpu_count(), progress=False)
    before = mt.Compose(prepare(["image"]))
    loader = ThreadDataLoader(CacheDataset(train, mt.Compose(prepare(keys) + augment), **cached), batch_size=2,
                              shuffle=True, num_workers=0)
    val_loader = ThreadDataLoader(CacheDataset(val, before, **cached), batch_size=1, num_workers=0)
    net = UNet(3, 1, 2, **net_params).to(memory_format=layout)
    loss_of = DiceCELoss(to_onehot_y=True, softmax=True)
    adam = torch.optim.Adam(net.parameters(), 3e-3)
    steps = a.epochs * len(loader)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    infer = SlidingWindowInferer(patch, 4, 0.5, "gaussian")
    back = mt.Invertd("pred", before, orig_keys="image", nearest_interp=False)
    label_of = mt.AsDiscrete(to_onehot=2)
    metric = DiceMetric(include_background=False)
    for _ in range(a.epochs):
        net.train()
        for batch in loader:
            adam.zero_grad(set_to_none=True)
            x, y = batch["image"].as_tensor().to(memory_format=layout), batch["label"].as_tensor()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                out = net(x)
            loss_of(out.float(), y).backward()
            adam.step()
            cosine.step()
        net.eval()
        with torch.no_grad():
            for batch in val_loader:
                with torch.autocast("cpu", torch.bfloat16, enabled=half):
                    batch["pred"] = infer(batch["image"], net).float()
                for item in decollate_batch(batch):
                    found = back(item)["pred"].argmax(0, keepdim=True)
                    metric([label_of(found)], [label_of(item["label"])])
        dice = metric.aggregate().item()
        metric.reset()
    print(json.dumps({"arm": a.peer, "seed": seed, "wall_s": time.perf_counter() - begin, "dice": dice}))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("python", nargs="?", default=sys.executable)
    p.add_argument("--data", type=pathlib.Path, default=root / "data/brain")
    p.add_argument("--network", default="brain", choices=list(NETWORKS))
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    p.add_argument("--cpu")
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--peer", choices=["eager", "channels-last"], help="MONAI's arm alone (by this bench itself)")
    a = p.parse_args()
    if a.peer:
        return peer(a)
    rows = []
    for seed in a.seeds:
        for run in (lambda: ours(a, seed), lambda: theirs(a, seed, "eager"), lambda: theirs(a, seed, "channels-last")):
            rows.append(run())
            print("  ", json.dumps(rows[-1]), flush=True)
    if a.out:
        a.out.write_text(json.dumps(rows, indent=1))
    print("\n| arm | wall s (median) | dice |\n|---|---|---|")
    walls = {}
    for arm in ("sluice", "eager", "channels-last"):
        mine = [r for r in rows if r["arm"] == arm]
        walls[arm] = statistics.median(r["wall_s"] for r in mine)
        dice = ", ".join(f"{r['dice']:.4f}" for r in mine)
        print(f"| {arm} | {walls[arm]:.1f} | {dice} |")
    print(f"\nMONAI's quicker arm / sluice: {min(walls['eager'], walls['channels-last']) / walls['sluice']:.2f}")


if __name__ == "__main__":
    main()
