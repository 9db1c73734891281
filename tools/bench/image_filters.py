"""Image filters, ours beside those of others, in turn, on one thread and on two.

usage: image_filters.py PYTHON [WORK ...] [--repeats 5] [--runs 3] [--out F.json]

PYTHON has what is compared with: torch, MONAI, SimpleITK, cv2 (opencv-contrib), scipy and scikit-learn. A peer that it
lacks is left out. MONAI's wheels lack its extension: built from monai/csrc by torch.utils.cpp_extension.load, it is
found by the name monai_C. Each arm is a process that answers when it is asked, so that arms alternate; peers have
glibc's thresholds raised, their better setting (memory is measured in processes that give it back at once). Prints a
Markdown table: the medians in ms of CPU time on one thread, the ratio to the peer that the goal is about (the first
one named), the goal, how much less of the work is left to the calling thread where there are two (by its CPU time in
the fastest calls, so that a busy machine may measure it), what a call takes of memory at its peak beside the fields
that go in, ours and that peer's, and the bytes that memory grew by over the last calls.
Needs `ninja -C build bench_image_filters`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

from measures import raised

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
# glibc gives blocks back when they are freed.
at_once = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
# The peers of each work, that of its goal first, and the goal: ours at most this share of it.
WORK = {
    "pull 96 order 0": (["MONAI"], .5), "pull 96 order 1": (["torch", "MONAI"], .7),
    "pull 96 order 1 gradients": (["torch", "MONAI"], .8), "pull 96 order 3": (["MONAI", "scipy"], .4),
    "pull 96 order 3 gradients": (["MONAI"], .4), "pull 96 order 7": (["MONAI"], .4),
    "push 96 order 1": (["MONAI"], .7), "grad 96 order 1": (["MONAI"], .7),
    "bilateral 48": (["MONAI", "SimpleITK"], .25), "bilateral 256": (["OpenCV", "SimpleITK", "MONAI"], 1.2),
    "joint 256": (["OpenCV"], 1.2), "trainable 48": (["MONAI"], .25), "lattice 48 noise": (["MONAI"], .7),
    "lattice 96 smooth": (["MONAI"], .7), "crf 48": (["MONAI"], .4), "mixture 100k": (["scikit-learn"], None),
    "median 48": (["SimpleITK", "scipy", "MONAI"], .5),
    "gaussian 96": (["SimpleITK recursive", "SimpleITK", "scipy", "MONAI"], .6),
}


def monai(work, x):
    """MONAI's layers; its extension under the name that it looks for."""
    import warnings

    import torch
    warnings.filterwarnings("ignore")
    try:
        import monai_C
        sys.modules["monai._C"] = monai_C
    except ImportError:
        pass
    from monai.networks import blocks, layers
    torch.set_num_threads(1)
    image = torch.from_numpy(x)[None, None]
    n = image.shape[-1]
    if work.startswith(("pull", "push", "grad")):
        grid = torch.rand((1, n, n, n, 3)) * (n - 1)
        rule = dict(interpolation=int(work.split("order ")[1][0]), bound="zero", extrapolate=True)
        if work.startswith("push"):
            return lambda: layers.grid_push(image, grid, (n, n, n), **rule)
        if work.startswith("grad"):
            return lambda: layers.grid_grad(image, grid, **rule)
        return gradients(lambda: layers.grid_pull(image, grid, **rule), work, image, grid)
    if work.startswith("bilateral"):
        return lambda: layers.BilateralFilter.apply(image, 1.0 if n == 48 else 5.0, 0.5, False)
    if work.startswith("trainable"):
        layer = layers.TrainableBilateralFilter([1.0] * 3, 0.5)
        image.requires_grad_()
        return lambda: layer(image).sum().backward()
    if work.startswith("lattice"):
        if work.endswith("smooth"):
            at = torch.arange(n) * .1
            image = (at.sin().view(n, 1, 1) + at.cos().view(1, n, 1) + (at * .7).sin())[None, None].contiguous()
        return lambda: layers.BilateralFilter.apply(image, 5.0, 0.5, True)
    if work.startswith("crf"):
        logits, layer = torch.rand((1, 2, n, n, n)), blocks.CRF()
        return lambda: layer(logits, image)
    filter = layers.MedianFilter(1) if work.startswith("median") else layers.GaussianFilter(3, 2.0)
    return lambda: filter(image)


def gradients(of, work, *inputs):
    import torch
    if not work.endswith("gradients"):
        return of
    for t in inputs:
        t.requires_grad_()

    def both():
        out = of()
        torch.autograd.grad([out], inputs, [torch.ones_like(out)])
    return both


def peer(work, arm):
    """A function that does the work once."""
    import numpy as np
    rng = np.random.default_rng(1)
    size = int(work.split()[1]) if work.split()[1].isdigit() else 0
    shape = (size, size) if size == 256 else (size,) * 3
    x = rng.random(shape, dtype=np.float32) if size else None
    if arm.startswith("SimpleITK"):
        import SimpleITK as sitk
        sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
        image = sitk.GetImageFromArray(x)
        if work.startswith("bilateral"):
            return lambda: sitk.Bilateral(image, 1.0 if size == 48 else 5.0, 0.5)
        if work.startswith("median"):
            return lambda: sitk.Median(image, [1, 1, 1])
        if arm.endswith("recursive"):
            return lambda: sitk.SmoothingRecursiveGaussian(image, 2.0)
        return lambda: sitk.DiscreteGaussian(image, 4.0)
    if arm == "OpenCV":
        import cv2
        cv2.setNumThreads(1)
        if work.startswith("joint"):
            guide = x[::-1].copy()
            return lambda: cv2.ximgproc.jointBilateralFilter(guide, x, 25, 0.5, 5.0)
        return lambda: cv2.bilateralFilter(x, 25, 0.5, 5.0)
    if arm == "scipy":
        from scipy import ndimage
        if work.startswith("median"):
            return lambda: ndimage.median_filter(x, 3, mode="nearest")
        if work.startswith("gaussian"):
            return lambda: ndimage.gaussian_filter(x, 2.0, mode="constant")
        at = rng.random((3,) + shape, dtype=np.float32) * (size - 1)
        return lambda: ndimage.map_coordinates(x, at, order=3, prefilter=False)
    if arm == "MONAI":
        return monai(work, x)
    if arm == "scikit-learn":
        from sklearn.mixture import GaussianMixture
        colours = rng.standard_normal((100000, 3)).astype(np.float32)

        def learn_and_apply():
            for half in (colours[::2], colours[1::2]):
                GaussianMixture(3, random_state=1).fit(half).score_samples(colours)
        return learn_and_apply
    import torch
    torch.set_num_threads(1)
    image, grid = torch.from_numpy(x)[None, None], torch.rand((1,) + shape + (3,)) * 2 - 1
    return gradients(lambda: torch.nn.functional.grid_sample(image, grid, align_corners=True), work, image, grid)


def resident(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(key))


def peak(work):
    """Bytes that a call needs while it runs."""
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def answer(arm):
    import time
    functions = {}
    for line in sys.stdin:
        job = json.loads(line)
        try:
            work = functions.setdefault(job["work"], None) or peer(job["work"], arm)
        except Exception as e:
            print(json.dumps({"missing": str(e)}), flush=True)
            print(job["work"], arm, e, file=sys.stderr)
            continue
        functions[job["work"]] = work
        work()
        most = peak(work)
        ms = []
        for _ in range(job["repeats"]):
            begin = time.process_time()
            work()
            ms.append(1e3 * (time.process_time() - begin))
        print(json.dumps({"ms": ms, "peak": most}), flush=True)


class Arm:
    def __init__(self, command, thresholds=raised):
        env = dict(os.environ, **thresholds, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, **job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--answer":
        return answer(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("work", nargs="*", default=list(WORK))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out")
    o = parser.parse_intermixed_args()
    arms = {"ours": [f"{root}/build/bench_image_filters"]}
    arms |= {a: [o.python, __file__, "--answer", a] for a in sorted({a for w in o.work for a in WORK[w][0]})}
    in_time = {a: Arm(command) for a, command in arms.items()}
    in_memory = {a: Arm(command + (["memory"] if a == "ours" else []), at_once) for a, command in arms.items()}
    results = {}
    print("| work | ours, ms | peers, ms | ratio | goal | two threads | peak, MB | kept, bytes |\n|" + "---|" * 8)
    for work in o.work:
        arms, goal = WORK[work]
        times, two = {}, []
        for _ in range(o.repeats):
            for arm in ("ours", *arms):
                got = in_time[arm].ask(work=work, repeats=o.runs, threads=1)
                times.setdefault(arm, []).extend(got.get("ms", []))
            two += in_time["ours"].ask(work=work, repeats=o.runs, threads=2)["ms"]
        needs = {arm: in_memory[arm].ask(work=work, repeats=o.runs, threads=1) for arm in ("ours", arms[0])}
        most, kept = {arm: got.get("peak", 0) for arm, got in needs.items()}, needs["ours"]["kept"]
        median = {a: statistics.median(t) for a, t in times.items() if t}
        others = {a: m for a, m in median.items() if a != "ours"}
        ratio = median["ours"] / median[arms[0]] if arms[0] in median else None
        results[work] = dict(ms=median, ratio=ratio, two_threads=min(times["ours"]) / min(two), kept=kept, peak=most)
        shown = ", ".join(f"{a} {m:.1f}" for a, m in others.items())
        memory = " / ".join(f"{most[a] / 1e6:.1f}" for a in ("ours", arms[0]) if a in median)
        print(f"| {work} | {median['ours']:.1f} | {shown} | {'' if ratio is None else f'{ratio:.2f}'} | {goal or ''} | "
              f"{results[work]['two_threads']:.2f} x | {memory} | {kept} |", flush=True)
    if o.out:
        with open(o.out, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
