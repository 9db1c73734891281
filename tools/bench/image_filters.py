"""Image filters, ours beside those of others, in turn, on one thread and on two.

usage: image_filters.py PYTHON [WORK ...] [--repeats 5] [--runs 3] [--out F.json]

PYTHON has what is compared with: torch, SimpleITK, cv2 (opencv-contrib), scipy and scikit-learn. A peer that it lacks
is left out, as is MONAI's extension, which its wheels lack. Each arm is a process that answers when it is asked, so
that arms alternate. Prints a Markdown table: the medians in ms of CPU time on one thread, the ratio to the best peer,
how much faster two threads are by the clock (on a machine that does nothing else), and the bytes that memory grew by
over the last calls, once the heap has found its size.
Needs `ninja -C build bench_image_filters`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
PEERS = {
    "bilateral 48": ["SimpleITK"], "bilateral 256": ["OpenCV", "SimpleITK"], "joint 256": ["OpenCV"],
    "trainable 48": [], "lattice 48 noise": [], "lattice 96 smooth": [], "crf 48": [],
    "mixture 100k": ["scikit-learn"], "median 48": ["SimpleITK", "scipy"],
    "gaussian 96": ["SimpleITK recursive", "SimpleITK", "scipy"], "pull 96 order 0": ["torch"],
    "pull 96 order 1": ["torch"], "pull 96 order 3": ["scipy"], "push 96 order 1": [],
}


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
    mode = "nearest" if work.endswith("0") else "bilinear"
    return lambda: torch.nn.functional.grid_sample(image, grid, mode=mode, align_corners=True)


def answer(arm):
    import time
    functions = {}
    for line in sys.stdin:
        job = json.loads(line)
        try:
            work = functions.setdefault(job["work"], None) or peer(job["work"], arm)
        except (ImportError, AttributeError) as e:
            print(json.dumps({"missing": str(e)}), flush=True)
            continue
        functions[job["work"]] = work
        work()
        ms = []
        for _ in range(job["repeats"]):
            begin = time.process_time()
            work()
            ms.append(1e3 * (time.process_time() - begin))
        print(json.dumps({"ms": ms}), flush=True)


class Arm:
    def __init__(self, command):
        env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
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
    parser.add_argument("work", nargs="*", default=list(PEERS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out")
    o = parser.parse_intermixed_args()
    ours = Arm([f"{root}/build/bench_image_filters"])
    peers = {a: Arm([o.python, __file__, "--answer", a]) for a in sorted({a for w in o.work for a in PEERS[w]})}
    results = {}
    print("| work | ours, ms | peers, ms | ratio | two threads | kept, bytes |\n|---|---|---|---|---|---|")
    for work in o.work:
        times, clock, kept = {}, {1: [], 2: []}, 0
        for _ in range(o.repeats):
            got = ours.ask(work=work, repeats=o.runs, threads=1)
            times.setdefault("ours", []).extend(got["ms"])
            kept = got["kept"]
            clock[2] += ours.ask(work=work, repeats=o.runs, threads=2)["ms"]
            for arm in PEERS[work]:
                times.setdefault(arm, []).extend(peers[arm].ask(work=work, repeats=o.runs).get("ms", []))
        median = {a: statistics.median(t) for a, t in times.items() if t}
        others = {a: m for a, m in median.items() if a != "ours"}
        ratio = f"{median['ours'] / min(others.values()):.2f}" if others else ""
        results[work] = dict(ms=median, two_threads=median["ours"] / statistics.median(clock[2]), kept=kept)
        shown = ", ".join(f"{a} {m:.1f}" for a, m in sorted(others.items(), key=lambda i: i[1]))
        print(f"| {work} | {median['ours']:.1f} | {shown} | {ratio} | {results[work]['two_threads']:.2f} x | {kept} |",
              flush=True)
    if o.out:
        with open(o.out, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
