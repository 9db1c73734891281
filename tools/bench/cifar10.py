"""Images/s of graphs/cifar10.json beside the PyTorch tutorial's loop, interleaved on one machine.

usage: cifar10.py DATA [--python PYTHON] [--epochs 4] [--rounds 3] [--out F.json]

DATA holds CIFAR-10's binary batches. PYTHON has torch, torchvision and Pillow (default: this one).
The peer is the tutorial's: Pillow image -> ToTensor -> Normalize in a DataLoader, LeNet, SGD 0.001
with momentum 0.9, batches of 4, loss.item() at every step. It runs with 0 and 2 workers and with 1
and 2 threads, and, which no tutorial does, from tensors that are normalised beforehand. Only the
training loops are timed, workers' start included, imports and the test set not; the first epoch
warms up. Prints a Markdown table; the ratio is to the fastest of the tutorial's four.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
tutorial = [f"tutorial {w} workers, {t} threads" for w in (0, 2) for t in (1, 2)]
tensors = [f"tensors in memory, {t} threads" for t in (1, 2)]


def peer(data, arm, epochs):
    """The tutorial's loop; prints images/s of each epoch and the last loss."""
    import glob

    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn

    records = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073)
                              for f in sorted(glob.glob(f"{data}/data_batch_*.bin"))])
    images, labels = records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 6, 5)
            self.pool = nn.MaxPool2d(2, 2)
            self.conv2 = nn.Conv2d(6, 16, 5)
            self.fc1 = nn.Linear(16 * 5 * 5, 120)
            self.fc2 = nn.Linear(120, 84)
            self.fc3 = nn.Linear(84, 10)

        def forward(self, x):
            x = self.pool(F.relu(self.conv1(x)))
            x = self.pool(F.relu(self.conv2(x)))
            x = torch.flatten(x, 1)
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    class PilImages(torch.utils.data.Dataset):
        def __init__(self):
            import torchvision.transforms as T
            self.images = images.transpose(0, 2, 3, 1)
            self.transform = T.Compose([T.ToTensor(), T.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])

        def __len__(self):
            return len(self.images)

        def __getitem__(self, i):
            from PIL import Image
            return self.transform(Image.fromarray(self.images[i])), int(labels[i])

    torch.set_num_threads(int(arm.split()[-2]))
    torch.manual_seed(0)
    net, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    n = len(images)
    if arm.startswith("tutorial"):
        loader = torch.utils.data.DataLoader(PilImages(), batch_size=4, shuffle=True,
                                             num_workers=int(arm.split()[1]))
    else:
        x, y = (torch.from_numpy(images.copy()).float() / 255 - 0.5) / 0.5, torch.from_numpy(labels)
    rates = []
    for _ in range(epochs):
        start, running = time.perf_counter(), 0.0
        if not arm.startswith("tutorial"):
            order = torch.randperm(n)
            loader = ((x[order[i:i + 4]], y[order[i:i + 4]]) for i in range(0, n, 4))
        for inputs, truth in loader:
            optimizer.zero_grad()
            loss = criterion(net(inputs), truth)
            loss.backward()
            optimizer.step()
            running += loss.item()
        rates.append(n / (time.perf_counter() - start))
    print(json.dumps({"rates": rates, "loss": running / ((n + 3) // 4)}))


def graph(folder):
    """The graph without its test stream, as the peer's loop has none."""
    import re
    g = json.loads(re.sub(r"(?m)//.*$", "", open(f"{root}/graphs/cifar10.json").read()))
    for name in ("test", "tpre", "infer", "test_accuracy"):
        del g["nodes"][name]
    path = f"{folder}/g.json"
    json.dump(g, open(path, "w"))
    return path


def ours(a, epochs):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{root}/build/sluice", "run", graph(folder), "--quiet", "--set",
                        f"vars.root={os.path.abspath(a.data)}", "--set", f"run.epochs={epochs}",
                        "--out", f"{folder}/run"] + (a.flags.split() if a.flags else []), check=True)
        s = json.load(open(f"{folder}/run/summary.json"))
    return {"images": s["samples"]["emitted"], "wall_s": s["wall_s"],
            "loss": s["metrics"]["step.loss"]["last"]}


def measure(a, arm):
    if arm == "sluice":
        # Two runs, so that what a run costs once (start, checkpoint) drops out.
        short, long = ours(a, 1), ours(a, a.epochs)
        rate = (long["images"] - short["images"]) / (long["wall_s"] - short["wall_s"])
        return {"arm": arm, "rate": rate, "loss": long["loss"]}
    out = subprocess.run([a.python, __file__, a.data, "--peer", arm, "--epochs", str(a.epochs)],
                         check=True, capture_output=True, text=True).stdout
    got = json.loads(out.splitlines()[-1])
    return {"arm": arm, "rate": statistics.median(got["rates"][1:]), "loss": got["loss"]}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("data")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--flags", help="more flags for sluice run")
    p.add_argument("--out")
    p.add_argument("--peer", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.peer:
        return peer(a.data, a.peer, a.epochs)
    rows, arms = [], ["sluice", *tutorial, *tensors]
    for _ in range(a.rounds):
        for arm in arms:
            rows.append(measure(a, arm))
            print("  ", json.dumps(rows[-1]), flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)
    rate = {arm: statistics.median(r["rate"] for r in rows if r["arm"] == arm) for arm in arms}
    print("\n| arm | images/s (median) | lowest to highest | loss |\n|---|---|---|---|")
    for arm in arms:
        mine = [r for r in rows if r["arm"] == arm]
        print(f"| {arm} | {rate[arm]:.0f} | {min(r['rate'] for r in mine):.0f} to "
              f"{max(r['rate'] for r in mine):.0f} | {mine[-1]['loss']:.4f} |")
    print(f"\nsluice / the tutorial's best: {rate['sluice'] / max(rate[t] for t in tutorial):.2f}; "
          f"/ tensors in memory: {rate['sluice'] / max(rate[t] for t in tensors):.2f}")


if __name__ == "__main__":
    main()
