"""Images/s of the augment2d graphs' data side beside torchvision and plain PyTorch, interleaved.

usage: augment2d.py PYTHON_WITH_TORCHVISION [--threads 4 8 16] [--rounds 3] [--out F.json]
       [--cases minimal standard strong] [--configurations best low_memory debug]

Batches of 32 pictures, 3 x 512 x 512. Both sides hold the pictures in memory and give float32 batches of
0..1, each picture with draws and probabilities of its own: minimal flips; standard turns by 15 degrees
and changes brightness and contrast too, each at every second picture; strong does both at every
picture, and zoom, blur, noise and holes. Ours is the shipped graph up to its batch, with so many data
threads. The peers' threads are workers of a DataLoader around torchvision's v2 transforms, on Pillow
images and on uint8 tensors, or the intra-op threads of plain PyTorch, which does flip, turn and zoom as
one grid_sample of the batch. kornia and DALI (on the CPU) join where PYTHON has them, the first with
standard alone. Where there is a GPU, ours moves pictures there in front of the augmentation, and kornia
runs there too. The first epoch, start-up and workers' start are in no figure. CPU time is that of all
of a side's threads and processes: it says more than the rate where something else runs beside, since
our data threads give way to everything (nice 19).

--configurations: the whole training of augment2d_standard.json behind each of parts/augment2d_*.json,
images/s and peak memory; no peer.
"""
import argparse
import json
import math
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from measures import cpu_seconds, raised

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
BATCH, SIZE, PICTURES = 32, 512, 96
CASES = ["minimal", "standard", "strong"]
PEERS = ["torchvision Pillow", "torchvision tensors", "PyTorch grid_sample", "kornia", "DALI"]
# How often each part of the chain is drawn, as in the graphs.
ODDS = {"minimal": {}, "standard": {"turn": 0.5, "light": 0.5},
        "strong": {"turn": 1, "light": 1, "zoom": 0.5, "blur": 0.2, "noise": 0.3, "holes": 0.3}}


def make_pictures(folder):
    """BMP files of coloured blocks, 24 bits a pixel."""
    draw = random.Random(0)
    for i in range(PICTURES):
        rows = [b"".join(draw.randbytes(3) * 16 for _ in range(SIZE // 16)) * 16
                for _ in range(SIZE // 16)]
        pixels = b"".join(rows)
        head = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
        info = struct.pack("<IiiHHIIiiII", 40, SIZE, SIZE, 1, 24, 0, len(pixels), 0, 0, 0, 0)
        where = f"{folder}/{'ab'[i % 2]}"
        os.makedirs(where, exist_ok=True)
        with open(f"{where}/{i:03}.bmp", "wb") as f:
            f.write(head + info + pixels)


# ---- Sluice --------------------------------------------------------------------------------------

def graph(case, gpu):
    """The shipped graph from its files to its batch; without a GPU's node where none is meant."""
    text = open(f"{root}/graphs/augment2d_{case}.json").read()
    g = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    g["parts"]["prepare"] = json.loads(
        re.sub(r"(?m)^\s*//.*$", "", open(f"{root}/graphs/parts/pictures.json").read()))
    names = list(g["nodes"])
    g["nodes"] = {n: g["nodes"][n] for n in names[:names.index("batch") + 1]}
    g["vars"]["val_frac"] = 0
    del g["models"], g["run"]["checkpoint"]
    if not gpu:
        del g["nodes"]["gpu"]
        g["nodes"]["flip"]["in"] = "pre"
    return g


def sluice(files, threads, *more):
    """(wall seconds, CPU seconds, peak MiB) of a run."""
    with tempfile.TemporaryDirectory() as out:
        p = subprocess.Popen([f"{root}/build/sluice", "run", *files, "--quiet", "--out", f"{out}/run",
                              *(["--threads", str(threads)] if threads else []), *more],
                             stderr=subprocess.DEVNULL)  # of what nothing reads
        _, status, usage = os.wait4(p.pid, 0)
        if status:
            raise SystemExit(f"sluice run {files} ended with {status}")
        with open(f"{out}/run/summary.json") as f:
            wall = json.load(f)["wall_s"]
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def ours(a, case, threads, gpu=False):
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/g.json"
        json.dump(graph(case, gpu), open(file, "w"))
        data = ["--set", f"vars.root={a.folder}", "--set"]
        short = sluice([file], threads, *data, "run.epochs=1")
        long = sluice([file], threads, *data, f"run.epochs={1 + a.epochs}")
    images, (wall, cpu) = PICTURES * a.epochs, (long[i] - short[i] for i in (0, 1))
    return {"rate": images / wall, "cpu_ms": 1e3 * cpu / images}


def configuration(a, name):
    """Whole training: the second epoch's images/s, and peak memory."""
    base = f"{root}/graphs/augment2d_standard.json"
    files = [base] if name == "none" else [base, f"{root}/graphs/parts/augment2d_{name}.json"]
    more = ["--set", f"vars.root={a.folder}", "--set", "run.checkpoint.every_epochs=1000"]
    with tempfile.TemporaryDirectory() as cache:  # of low_memory
        more += ["--set", f"nodes.pre/kept.dir={cache}", "--set", f"nodes.vpre/kept.dir={cache}"]
        limit = 16 if name == "debug" else None
        short, *_ = sluice(files, 0, *more, "--set", "run.epochs=1")
        long, _, peak = sluice(files, 0, *more, "--set", "run.epochs=2")
    trained = limit or PICTURES * 4 // 5 // BATCH * BATCH
    return trained / (long - short), peak


# ---- the peers, run by their own Python ----------------------------------------------------------

def pictures(folder):
    import glob

    import numpy as np
    from PIL import Image
    return np.stack([np.asarray(Image.open(f)) for f in sorted(glob.glob(f"{folder}/*/*.bmp"))])


def torchvision_chain(case, first):
    import torch
    from torchvision.transforms import InterpolationMode, v2
    odds = ODDS[case]
    bilinear = InterpolationMode.BILINEAR

    def holes(x):
        for _ in range(4):
            i, j = (int(torch.randint(SIZE - 32, ())) for _ in range(2))
            x[:, i:i + 32, j:j + 32] = 0
        return x

    parts = {"turn": [v2.RandomRotation(15, bilinear)], "light": [v2.ColorJitter(0.2, 0.2)],
             "zoom": [v2.RandomAffine(0, scale=(0.9, 1.1), interpolation=bilinear)],
             "blur": [v2.GaussianBlur(7, (0.25, 1.5))]}
    late = {"noise": [v2.GaussianNoise(0, 0.05)], "holes": [v2.Lambda(holes)]}

    def some(of):
        return [v2.RandomApply(t, p=odds[n]) for n, t in of.items() if n in odds]
    return v2.Compose([*first, v2.RandomHorizontalFlip(0.5), *some(parts), v2.ToImage(),
                       v2.ToDtype(torch.float32, scale=True), *some(late)])


def loader(case, folder, threads, pillow):
    import torch
    from PIL import Image
    data = pictures(folder)
    chain = torchvision_chain(case, [])

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return len(data)

        def __getitem__(self, i):
            x = Image.fromarray(data[i]) if pillow else torch.from_numpy(data[i]).permute(2, 0, 1)
            return torch.as_tensor(chain(x))
    torch.set_num_threads(1)
    batches = torch.utils.data.DataLoader(Pictures(), BATCH, shuffle=True, num_workers=threads,
                                          persistent_workers=True)
    return lambda: [b for b in batches][-1]


def grid_sample(case, folder, threads):
    """Every operation on the whole batch; where it is not drawn for a picture, as the identity."""
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads)
    data = torch.from_numpy(pictures(folder)).permute(0, 3, 1, 2).contiguous()
    odds = ODDS[case]

    def drawn(name, low, high, none):
        v = torch.rand(BATCH) * (high - low) + low
        return torch.where(torch.rand(BATCH) < odds.get(name, 0), v, torch.full_like(v, none))

    def blurred(y):
        for i in (torch.rand(BATCH) < odds["blur"]).nonzero().flatten():
            k = torch.exp(-torch.arange(-3.0, 4) ** 2 / (2 * (0.25 + 1.25 * torch.rand(())) ** 2))
            k = (k / k.sum()).expand(3, 1, 1, 7)
            z = F.conv2d(y[i][None], k, padding=(0, 3), groups=3)
            y[i] = F.conv2d(z, k.transpose(2, 3), padding=(3, 0), groups=3)[0]
        return y

    def batch(x):
        y = x.float().div_(255)
        mirror = torch.where(torch.rand(BATCH) < 0.5, -1.0, 1.0)
        if "turn" not in odds:
            chosen = mirror < 0
            y[chosen] = y[chosen].flip(3)
        else:
            angle, zoom = drawn("turn", -math.pi / 12, math.pi / 12, 0), drawn("zoom", 0.9, 1.1, 1)
            m = torch.zeros(BATCH, 2, 3)
            m[:, 0, 0], m[:, 0, 1] = mirror * angle.cos() / zoom, -angle.sin() / zoom
            m[:, 1, 0], m[:, 1, 1] = mirror * angle.sin() / zoom, angle.cos() / zoom
            grid = F.affine_grid(m, list(y.shape), align_corners=False)
            y = F.grid_sample(y, grid, align_corners=False)
        if "light" in odds:
            bright, contrast = (drawn("light", 0.8, 1.2, 1).view(-1, 1, 1, 1) for _ in range(2))
            y.mul_(bright).clamp_(0, 1)
            y.mul_(contrast).add_(y.mean((1, 2, 3), keepdim=True) * (1 - contrast)).clamp_(0, 1)
        if "blur" in odds:
            y = blurred(y)
        if "noise" in odds:
            for i in (torch.rand(BATCH) < odds["noise"]).nonzero().flatten():
                y[i] += 0.05 * torch.randn_like(y[i])
        if "holes" in odds:
            for i in (torch.rand(BATCH) < odds["holes"]).nonzero().flatten():
                for _ in range(4):
                    u, v = (int(torch.randint(SIZE - 32, ())) for _ in range(2))
                    y[i, :, u:u + 32, v:v + 32] = 0
        return y

    return lambda: [batch(data[i:i + BATCH]) for i in range(0, PICTURES, BATCH)][-1]


def kornia(case, folder, threads, device="cpu"):
    import kornia.augmentation as K
    import torch
    if case != "standard":
        return None
    torch.set_num_threads(threads)
    data = torch.from_numpy(pictures(folder)).permute(0, 3, 1, 2).contiguous().to(device)
    chain = K.AugmentationSequential(
        K.RandomHorizontalFlip(p=0.5), K.RandomRotation(15.0, p=0.5),
        K.ColorJitter(brightness=0.2, contrast=0.2, p=0.5))

    def epoch():
        out = [chain(data[i:i + BATCH].float().div_(255)) for i in range(0, PICTURES, BATCH)][-1]
        if device == "cuda":
            torch.cuda.synchronize()
        return out
    return epoch


def dali(case, folder, threads):
    import torch
    from nvidia.dali import fn, pipeline_def, types
    if case != "standard":
        return None
    data = pictures(folder)

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, seed=1)
    def pipe():
        def some(low, high, none):
            coin = fn.random.coin_flip(probability=0.5)
            return coin * fn.random.uniform(range=(low, high)) + (1 - coin) * none
        x = fn.external_source(source=lambda i: list(data[i * BATCH % PICTURES:][:BATCH]), layout="HWC")
        x = fn.flip(x, horizontal=fn.random.coin_flip(probability=0.5))
        x = fn.rotate(x, angle=some(-15, 15, 0), keep_size=True, fill_value=0)
        x = fn.brightness_contrast(x, brightness=some(0.8, 1.2, 1), contrast=some(0.8, 1.2, 1))
        return fn.crop_mirror_normalize(x, mean=[0.0] * 3, std=[255.0] * 3, dtype=types.FLOAT,
                                        output_layout="CHW")
    p = pipe()
    p.build()
    return lambda: [torch.from_dlpack(p.run()[0].as_tensor())
                    for _ in range(PICTURES // BATCH)][-1]


def peer(a):
    import warnings
    warnings.filterwarnings("ignore")
    try:
        import torch
        make = {"torchvision Pillow": lambda *x: loader(*x, True),
                "torchvision tensors": lambda *x: loader(*x, False),
                "PyTorch grid_sample": grid_sample, "kornia": kornia, "DALI": dali,
                "kornia on the GPU": lambda *x: kornia(*x, "cuda")}[a.peer]
        epoch = make(a.cases[0], a.folder, a.threads[0])
    except ImportError as e:
        return {"absent": str(e)}
    if epoch is None:
        return {"absent": "no such chain"}
    with torch.no_grad():
        assert tuple(epoch().shape) == (BATCH, 3, SIZE, SIZE)
        walls, cpu = [], cpu_seconds()
        while len(walls) < 2 or sum(walls) < 3:
            start = time.perf_counter()
            epoch()
            walls.append(time.perf_counter() - start)
        cpu = cpu_seconds() - cpu
    return {"rate": PICTURES / statistics.median(walls),
            "cpu_ms": 1e3 * cpu / (PICTURES * len(walls))}


# ---- the bench -----------------------------------------------------------------------------------

def has_gpu(python):
    ask = "import torch; print(torch.cuda.is_available())"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout == "True\n"


def measure(a, case, gpu):
    """Every arm of a case once: (arm, threads) -> images/s and CPU time an image."""
    found = {}
    for threads in a.threads:
        found["sluice", threads] = ours(a, case, threads)
        for name in PEERS + (["kornia on the GPU"] if gpu else []):
            if name in a.absent.get(case, ()):
                continue
            out = subprocess.run([a.python, __file__, a.python, "--peer", name, "--folder", a.folder,
                                  "--cases", case, "--threads", str(threads)], check=True, text=True,
                                 stdout=subprocess.PIPE, env={**os.environ, **raised}).stdout
            got = json.loads(out.splitlines()[-1])
            if "absent" in got:
                a.absent.setdefault(case, set()).add(name)
                continue
            found[name, threads] = got
        if gpu:
            found["sluice on the GPU", threads] = ours(a, case, threads, gpu=True)
    return found


def table(a, rows):
    for case in a.cases:
        def medians(what):
            found = {}
            for r in rows:
                if r["case"] == case:
                    found.setdefault(r["arm"], {}).setdefault(r["threads"], []).append(r[what])
            return {arm: {t: statistics.median(v) for t, v in of.items()} for arm, of in found.items()}
        rate, cpu = medians("rate"), medians("cpu_ms")
        print(f"\n| {case}: images/s (CPU ms an image) | "
              + " | ".join(f"{t} threads" for t in a.threads) + " |")
        print("|---|" + "---|" * len(a.threads))
        for arm, of in rate.items():
            print(f"| {arm} | " + " | ".join(f"{of[t]:.0f} ({cpu[arm][t]:.1f})" for t in a.threads)
                  + " |")
        peers = [arm for arm in rate if not arm.startswith("sluice")]
        best = max(v for arm in peers for v in rate[arm].values())
        least = min(v for arm in peers for v in cpu[arm].values())
        print("\nsluice / the best peer at any number of threads: rate "
              + ", ".join(f"{rate['sluice'][t] / best:.2f}" for t in a.threads) + "; CPU time "
              + ", ".join(f"{cpu['sluice'][t] / least:.2f}" for t in a.threads))


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("python")
    p.add_argument("--threads", type=int, nargs="+", default=[4, 8, 16])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--epochs", type=int, default=64)
    p.add_argument("--cases", nargs="*", default=CASES, choices=CASES)
    p.add_argument("--configurations", nargs="*", default=[],
                   choices=["none", "best", "low_memory", "debug"])
    p.add_argument("--out")
    p.add_argument("--peer", help=argparse.SUPPRESS)
    p.add_argument("--folder", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.peer:
        print(json.dumps(peer(a)))
        return
    rows, a.absent, gpu = [], {}, has_gpu(a.python)
    print(f"{os.cpu_count()} cores" + ("" if gpu else ", no GPU: its arms are left out"))
    with tempfile.TemporaryDirectory() as a.folder:
        make_pictures(a.folder)
        for n in range(a.rounds):
            for case in a.cases:
                for (arm, threads), got in measure(a, case, gpu).items():
                    rows.append({"round": n, "case": case, "arm": arm, "threads": threads, **got})
                    print("  ", json.dumps(rows[-1]), file=sys.stderr, flush=True)
        trained = [(name, *configuration(a, name)) for name in a.configurations]
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)
    for case, names in a.absent.items():
        print(f"{case}: without {', '.join(sorted(names))}")
    if rows:
        table(a, rows)
    if trained:
        print("\n| augment2d_standard, training | images/s | peak MiB |\n|---|---|---|")
    for name, rate, peak in trained:
        print(f"| {name} | {rate:.1f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
