"""graphs/ranzcr.json beside MONAI on the same files: radiographs computed from a real head CT (Debian's
invesalius-examples) with drawn tubes.

    python tools/bench/ranzcr.py DATA [--images 240] [--epochs 5] [--make] [--seeds 0,1,2]

Needs monai and scipy. DATA is made where it is not there: 24 views of the head; on each image up to three kinds
of tubes, each at its right length or too short; every third image has masks. Both sides train from random weights
on one thread. What is printed: classes' and masks' BCE of each epoch's training, AUC on the validation, CPU time.
"""
import argparse
import csv
import json
import os
import pathlib
import tarfile
import time
import warnings

import numpy as np

from measures import of_metric, run_graph

warnings.filterwarnings("ignore")
LABELS = ["ETT right", "ETT short", "NGT right", "NGT short", "CVC right", "CVC short", "CVC"]
TUBES = ((2.2, 60.0), (1.4, 50.0), (1.0, 75.0))  # half width in pixels, brightness


def views(path, size):
    from scipy import ndimage
    with tarfile.open(path) as t:
        member = next(m for m in t.getmembers() if m.name.endswith("matrix.dat"))
        ct = np.frombuffer(t.extractfile(member).read(), np.int16).reshape(108, 256, 256)
    density = np.clip(ct[:, ::2, ::2].astype(np.float32) / 1000 + 1, 0, 3)
    density = ndimage.zoom(density, (1.5 / 1.914 * size / 108, size / 128, size / 128), order=1)
    rng = np.random.RandomState(1)
    for k in range(24):
        turned = ndimage.rotate(density, 15 * k + rng.uniform(-5, 5), axes=(1, 2), reshape=False, order=1)
        ray = turned.sum(1)[::-1]
        picture = np.zeros((size, size), np.float32)
        picture[:min(size, len(ray))] = ray[:size]
        yield 255 * (1 - np.exp(-2.5 * picture / picture.max()))


def make(data, ct, images, crop):
    from PIL import Image
    from scipy import ndimage
    size, rng = crop * 9 // 8, np.random.RandomState(0)
    heads = list(views(ct, size))
    rows = []
    for sub in ("images", "masks"):
        (data / sub).mkdir(parents=True, exist_ok=True)
    for i in range(images):
        picture, mask = heads[rng.randint(len(heads))].copy(), np.zeros((size, size, 3), np.uint8)
        label = dict.fromkeys(LABELS, 0)
        for kind, (width, gain) in enumerate(TUBES):
            if rng.rand() < 0.4:
                continue
            right = rng.rand() < 0.5
            t = np.linspace(0.02, rng.uniform(0.62, 0.85) if right else rng.uniform(0.3, 0.5), 200)
            bend = rng.uniform(-0.25, 0.25, 2)
            across = rng.uniform(0.3, 0.7) + bend[0] * t + (bend[1] * np.sin(3 * t) if kind else 0)
            off = np.ones((size, size), bool)
            off[(t * size).astype(int), np.clip(across * size, 0, size - 1).astype(int)] = False
            distance = ndimage.distance_transform_edt(off)
            picture += gain * np.exp(-((distance / width) ** 2))
            mask[..., kind] = 255 * (distance < 3)
            label[LABELS[2 * kind + (not right)]] = 1
            label["CVC"] |= kind == 2
        noisy = np.clip(picture + rng.normal(0, 4, picture.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(data / f"images/{i:04d}.png")
        Image.fromarray(mask).save(data / f"masks/{i:04d}.png")
        rows.append([f"images/{i:04d}.png", f"masks/{i:04d}.png", int(i % 3 == 0), *(int(label[k]) for k in LABELS)])
    cut = images * 3 // 4
    for name, part in (("train", rows[:cut]), ("val", rows[cut:])):
        with open(data / f"{name}.csv", "w", newline="") as f:
            csv.writer(f).writerows([["image", "mask", "annotated", *LABELS], *part])


def read(data, name):
    from PIL import Image
    items = []
    for row in csv.DictReader(open(data / f"{name}.csv")):
        load = lambda key: np.asarray(Image.open(data / row[key])).astype(np.float32)
        items.append({"image": load("image")[None], "mask": load("mask").transpose(2, 0, 1) / 255,
                      "target": np.array([float(row[k]) for k in LABELS], np.float32), "annotated": row["annotated"] == "1"})
    return items


def network():
    import torch
    from monai.networks.nets import EfficientNetBNFeatures
    from monai.networks.nets.basic_unet import UpCat

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = EfficientNetBNFeatures("efficientnet-b0", pretrained=False, in_channels=1,
                                                  norm=("batch", {"eps": 1e-3, "momentum": 0.1}))
            up, skips, out = [320, 64, 48, 32, 16], [112, 40, 24, 16, 0], [64, 48, 32, 16, 8]
            self.up = torch.nn.ModuleList(
                UpCat(2, i, s, o, ("relu", {"inplace": True}), "batch", False, 0.0, "nontrainable", None, "nearest", None,
                      halves=s > 0) for i, s, o in zip(up, skips, out))
            self.masks, self.fc = torch.nn.Conv2d(8, 3, 3, padding=1), torch.nn.Linear(320, len(LABELS))

        def forward(self, x, masks=True):
            f = self.encoder(x)
            classes = self.fc(torch.amax(f[-1], (2, 3)))
            if not masks:
                return classes
            y = f[-1]
            for k, block in enumerate(self.up):
                y = block(y, f[3 - k] if k < 4 else None)
            return classes, self.masks(y)
    return Net()


def monai(data, o, seed):
    import torch
    from monai.metrics import compute_roc_auc
    from monai.optimizers import WarmupCosineSchedule
    from monai.transforms import (CenterSpatialCropd, Compose, Lambdad, NormalizeIntensityd, RandAffined,
                                  RandCoarseDropoutd, RandFlipd, RandLambdad, RandScaleIntensityd, RandShiftIntensityd,
                                  RandSpatialCropd)
    from monai.utils import set_determinism
    torch.set_num_threads(1)
    set_determinism(seed)
    both, end = ("image", "mask"), [NormalizeIntensityd("image"), Lambdad("image", lambda x: x.clip(-20, 20))]
    augment = Compose([
        RandFlipd(both, prob=0.5, spatial_axis=1),
        RandAffined(both, prob=0.5, rotate_range=0.218, translate_range=(7, 7), scale_range=(0.1, 0.1)),
        RandSpatialCropd(both, roi_size=(o.crop, o.crop), random_size=False),
        RandScaleIntensityd("image", factors=0.2, prob=0.7), RandShiftIntensityd("image", offsets=51, prob=0.7),
        RandLambdad("image", func=lambda x: 255 - x, prob=0.5),
        RandCoarseDropoutd(both, holes=8, spatial_size=1, max_spatial_size=9, prob=0.5)] + end)
    plain = Compose([CenterSpatialCropd(both, roi_size=(o.crop, o.crop))] + end)
    train, val = read(data, "train"), read(data, "val")
    steps = len(train) // 8
    net, bce = network(), torch.nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(net.parameters(), 6e-4)
    schedule = WarmupCosineSchedule(optimizer, warmup_steps=o.epochs * steps // 3, t_total=o.epochs * steps)
    stacked = lambda batch, key: torch.stack([torch.as_tensor(np.asarray(d[key])) for d in batch]).float()
    begin = time.process_time()
    for epoch in range(o.epochs):
        order, sums = torch.randperm(len(train)).tolist(), np.zeros(2)
        net.train()
        for i in range(steps):
            batch = [augment(dict(train[k])) for k in order[8 * i:8 * i + 8]]
            rows = torch.tensor([d["annotated"] for d in batch])
            classes, masks = net(stacked(batch, "image"))
            c = bce(classes, stacked(batch, "target"))
            m = bce(masks[rows], stacked(batch, "mask")[rows]) if rows.any() else torch.zeros(())
            optimizer.zero_grad()
            (c + 50 * m).backward()
            optimizer.step()
            schedule.step()
            sums += [c.item() / steps, m.item() / steps]
        net.eval()
        with torch.no_grad():
            scores = torch.cat([net(stacked([plain(dict(d)) for d in val[i:i + 16]], "image"), False) for i in range(0, len(val), 16)])
        auc = compute_roc_auc(scores, torch.as_tensor(np.stack([d["target"] for d in val])), average="none")
        print(json.dumps({"who": "MONAI", "seed": seed, "epoch": epoch + 1, "classes": round(sums[0], 4), "masks": round(sums[1], 4),
                          "auc": round(float(np.nanmean(auc)), 4), "cpu_s": round(time.process_time() - begin, 1)}), flush=True)


def sluice(data, o, seed):
    steps = sum(1 for _ in open(data / "train.csv")) // 8
    before = os.times()
    rows, _ = run_graph("ranzcr", data / f"run-{seed}", ["run.step_threads=1"], train=data / "train.csv", val=data / "val.csv",
                        seed=seed, epochs=o.epochs, crop=o.crop, steps=o.epochs * steps, warmup=o.epochs * steps // 3)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    names = {"classes": "cls_mean.mean", "masks": "mask_mean.mean", "auc": "val_auc.mean"}
    values = {key: of_metric(rows, name) for key, name in names.items()}
    for epoch in range(o.epochs):
        print(json.dumps({"who": "Sluice", "seed": seed, "epoch": epoch + 1,
                          **{key: round(of[epoch], 4) for key, of in values.items()}}))
    print(json.dumps({"who": "Sluice", "seed": seed, "cpu_s": round(spent, 1)}), flush=True)


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("data", type=pathlib.Path)
    a.add_argument("--ct", default="/usr/share/doc/invesalius-examples/examples/Cranium.inv3")
    a.add_argument("--images", type=int, default=240)
    a.add_argument("--epochs", type=int, default=5)
    a.add_argument("--crop", type=int, default=96)
    a.add_argument("--seeds", default="0")
    a.add_argument("--make", action="store_true", help="make the data and stop")
    o = a.parse_args()
    if not (o.data / "train.csv").exists():
        make(o.data, o.ct, o.images, o.crop)
    if not o.make:
        for one in map(int, o.seeds.split(",")):
            sluice(o.data, o, one)
            monai(o.data, o, one)
