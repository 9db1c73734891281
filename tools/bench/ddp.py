"""A training step over several processes beside PyTorch's DDP: the same network, batch and ranks.

usage: ddp.py PYTHON [--ranks 1 2] [--rounds 3] [--steps 40] [--size 48] [--batch 4] [--out F.json]

PYTHON has torch and monai. Both train MONAI's U-Net (channels 16 to 128, one residual unit, float32) on
batches that lie in memory, one step thread a rank, over loopback; arms interleaved, medians. Ours is
what a longer run takes more than a shorter one; DDP's is the loop alone, without its first steps.
Shards are as many as the most ranks, so ours are the same weights for any number of them; what DDP's
weights are on other numbers of ranks is printed too.
"""
import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
channels, strides = [16, 32, 64, 128], [2, 2, 2]


def graph(items, a, **run):
    """The network on so many volumes that a cache holds, one thread a rank; `run` adds to the run's settings."""
    return {
        "run": {"seed": 0, "step_threads": 1, "threads": 1, **run},
        "models": {"net": {"type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                           "channels": channels, "strides": strides, "num_res_units": 1}},
        "nodes": {
            "train": {"type": "synthetic", "num_samples": items, "spatial_size": [a.size] * 3,
                      "num_seg_classes": 1, "rad_max": a.size // 3, "rad_min": 4},
            "kept": {"type": "cache", "in": "train"},
            "batch": {"type": "batch", "in": "kept", "size": a.batch},
            "fwd": {"type": "model", "in": "batch", "net": "net"},
            "loss": {"type": "dice_loss", "in": "fwd", "to_onehot_y": True, "softmax": True},
            "step": {"type": "adam", "in": "loss", "net": "net", "lr": 0.001}}}


def ours(a, ranks):
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/g.json"
        json.dump(graph(4 * a.batch, a, shards=max(a.ranks)), open(file, "w"))

        def wall(epochs):
            out = f"{folder}/{epochs}"
            subprocess.run([f"{root}/build/sluice", "run", file, "--quiet", "--processes", str(ranks),
                            "--set", f"+run.epochs={epochs}", "--out", out], check=True)
            s = json.load(open(f"{out}/summary.json"))
            return s["wall_s"], s["steps"], s["weights_sha256"]
        few, many = wall(2), wall(2 + a.steps // 4)
    return 1e3 * (many[0] - few[0]) / (many[1] - few[1]), many[2]


def peer(a, ranks):
    python = [a.python] if ranks == 1 else [
        a.python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port",
        str(20000 + os.getpid() % 10000)]
    text = subprocess.run(python + [__file__, "--as-peer", json.dumps(vars(a))], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    line = json.loads([t for t in text.splitlines() if t.startswith("{")][-1])
    return line["ms"], line["sha"]


def train_as_peer(a):
    import torch
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    net = UNet(3, 1, 2, channels, strides, num_res_units=1).to(memory_format=torch.channels_last_3d)
    model = net
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(net)
    mine = a["batch"] // ranks
    x = torch.rand(4, a["batch"], 1, *[a["size"]] * 3)[:, rank * mine:(rank + 1) * mine]
    y = (x > 0.7).float()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    loss_of = DiceLoss(to_onehot_y=True, softmax=True)
    times = []
    for step in range(a["steps"] + 8):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model(x[step % 4].contiguous(memory_format=torch.channels_last_3d)),
                y[step % 4]).backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    if rank == 0:
        digest = hashlib.sha256()
        for value in net.state_dict().values():
            digest.update(value.contiguous().numpy().tobytes())
        print(json.dumps({"ms": 1e3 * statistics.mean(times[8:]), "sha": digest.hexdigest()}))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--size", type=int, default=48)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--out")
    a = p.parse_args()
    rows = []
    for _ in range(a.rounds):
        for ranks in a.ranks:
            for arm, run in (("sluice", ours), ("ddp", peer)):
                ms, sha = run(a, ranks)
                rows.append({"arm": arm, "ranks": ranks, "ms": ms, "sha": sha})
                print("  ", json.dumps(rows[-1]), flush=True)
    print("\n| ranks | Sluice, ms a step | DDP, ms a step | ratio |\n|---|---|---|---|")
    for ranks in a.ranks:
        mine, theirs = (statistics.median(r["ms"] for r in rows
                                          if r["ranks"] == ranks and r["arm"] == arm)
                        for arm in ("sluice", "ddp"))
        print(f"| {ranks} | {mine:.1f} | {theirs:.1f} | {theirs / mine:.2f} |")
    for arm in ("sluice", "ddp"):
        print(f"{arm}: {len({r['sha'] for r in rows if r['arm'] == arm})} different weights")
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--as-peer":
        train_as_peer(json.loads(sys.argv[2]))
    else:
        main()
