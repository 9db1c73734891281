"""A training loop in plain PyTorch on decathlon task 4, fed by `sluice.batches` and by MONAI.

usage: python_loop.py TASK04 [--steps 60] [--rounds 3] [--batch 8] [--channels 16 32 64] [--threads 2]

Both arms run in this process, in turns: MONAI's U-Net, DiceCE, Adam and the same transforms. MONAI's
arm is what its documentation names for such data: CacheDataset and ThreadDataLoader (no workers, since
everything is cached). Both caches are filled before. Prints, for each arm, steps/s and the share of the
time in which the model works (AU), and the processor time of a step, data and all, which other programs
on the machine disturb less; then what a hand-over costs where batches are ready: microseconds a
call of next().

Needs monai beside torch; PYTHONPATH=tools/python.
"""
import argparse
import json
import os
import statistics
import time

import torch

import sluice

PATCH = [32, 32, 32]


def graph(a):
    return {
        "run": {"seed": 1, "epochs": 10**6, "threads": a.threads},
        "nodes": {
            "train": {"type": "decathlon", "root": a.root, "split": "training", "shuffle": True},
            "load": {"type": "load_image", "in": "train"},
            "norm": {"type": "normalize_intensity", "in": "load", "nonzero": True},
            "fit": {"type": "spatial_pad", "in": "norm", "spatial_size": PATCH},
            "kept": {"type": "cache", "in": "fit"},
            "crop": {"type": "rand_crop_by_pos_neg_label", "in": "kept", "label_key": "label", "spatial_size": PATCH,
                     "num_samples": 1},
            "flip": {"type": "rand_flip", "in": "crop", "prob": 0.5, "spatial_axis": 0},
            "scale": {"type": "rand_scale_intensity", "in": "flip", "factors": 0.1, "prob": 0.5},
            "shift": {"type": "rand_shift_intensity", "in": "scale", "offsets": 0.1, "prob": 0.5},
            "batch": {"type": "batch", "in": "shift", "size": a.batch, "drop_last": True},
        },
    }


def monai_loader(a):
    from monai.data import CacheDataset, ThreadDataLoader
    from monai.transforms import (Compose, EnsureChannelFirstd, LoadImaged, NormalizeIntensityd,
                                  RandCropByPosNegLabeld, RandFlipd, RandScaleIntensityd, RandShiftIntensityd,
                                  SpatialPadd)

    with open(os.path.join(a.root, "dataset.json")) as file:
        listed = json.load(file)["training"]
    files = [{k: os.path.join(a.root, v) for k, v in item.items()} for item in listed]
    both = ["image", "label"]
    transform = Compose([
        LoadImaged(both), EnsureChannelFirstd(both), NormalizeIntensityd("image", nonzero=True),
        SpatialPadd(both, PATCH),
        RandCropByPosNegLabeld(both, "label", PATCH, num_samples=1, image_key="image"),
        RandFlipd(both, prob=0.5, spatial_axis=0), RandScaleIntensityd("image", 0.1, prob=0.5),
        RandShiftIntensityd("image", 0.1, prob=0.5),
    ])
    dataset = CacheDataset(files, transform, cache_rate=1, num_workers=a.threads, progress=False)
    return ThreadDataLoader(dataset, num_workers=0, batch_size=a.batch, shuffle=True, drop_last=True)


def forever(loader):
    while True:
        yield from loader


class Step:
    def __init__(self, a):
        from monai.losses import DiceCELoss
        from monai.networks.nets import UNet

        torch.manual_seed(1)
        self.net = UNet(3, 1, 3, a.channels, [2] * (len(a.channels) - 1), num_res_units=2)
        self.loss = DiceCELoss(to_onehot_y=True, softmax=True)
        self.adam = torch.optim.Adam(self.net.parameters(), 1e-3)

    # MONAI's MetaTensors as plain tensors, else each operation would look after their metadata.
    def __call__(self, batch):
        image, label = (getattr(batch[k], "as_tensor", lambda k=k: batch[k])() for k in ("image", "label"))
        self.adam.zero_grad()
        loss = self.loss(self.net(image), label)
        loss.backward()
        self.adam.step()
        return loss.item()


def measure(batches, step, steps):
    worked, begin, cpu = 0.0, time.perf_counter(), time.process_time()
    for _ in range(steps):
        batch = next(batches)
        t = time.perf_counter()
        loss = step(batch)
        worked += time.perf_counter() - t
    wall = time.perf_counter() - begin
    cpu = time.process_time() - cpu
    return {"steps_s": steps / wall, "au": worked / wall, "cpu_s": cpu / steps, "loss": loss}


# next() where several batches are ready: the first of a burst is left out, since after a pause the
# caches of the processor are cold whoever is called.
def hand_over(a):
    times = []
    with sluice.batches(graph(a), node="batch", prefetch=8) as loader:
        for _ in range(300 // a.batch + 1):
            next(loader)
        for _ in range(30):
            time.sleep(a.pause)
            for i in range(8):
                t = time.perf_counter()
                batch = next(loader)
                if i > 0:
                    times.append(1e6 * (time.perf_counter() - t))
                del batch
    return statistics.median(times)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("root")
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--channels", type=int, nargs="+", default=[16, 32, 64])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pause", type=float, default=0.3)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    loader = sluice.batches(graph(a), node="batch")
    arms = {"sluice.batches": iter(loader), "ThreadDataLoader": forever(monai_loader(a))}
    steps = {name: Step(a) for name in arms}
    for name, batches in arms.items():  # an epoch, which fills the caches
        measure(batches, steps[name], 260 // a.batch + 1)
    rows = {name: [] for name in arms}
    for _ in range(a.rounds):
        for name, batches in arms.items():
            rows[name].append(measure(batches, steps[name], a.steps))
            print("  ", name, json.dumps(rows[name][-1]), flush=True)
    mean = {name: {k: statistics.mean(r[k] for r in found) for k in found[0]} for name, found in rows.items()}
    print("\n| arm | steps/s | AU | CPU s a step |\n|---|---|---|---|")
    for name, m in mean.items():
        print(f"| {name} | {m['steps_s']:.2f} | {m['au']:.1%} | {m['cpu_s']:.3f} |")
    ratio = mean["sluice.batches"]["steps_s"] / mean["ThreadDataLoader"]["steps_s"]
    print(f"\nsluice.batches / ThreadDataLoader: {ratio:.2f}; a hand-over: {hand_over(a):.0f} µs\n\n{loader.profile()}")


if __name__ == "__main__":
    main()
