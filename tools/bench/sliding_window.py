"""Times sliding_window beside MONAI's SlidingWindowInferer, interleaved, with the same network.

usage: sliding_window.py [--python PYTHON] [--bench F ...] [--size 192 192 160] [--roi 96]
                         [--overlap 0.5] [--batch 4] [--channels 3] [--threads 2] [--rounds 5]

PYTHON has MONAI (default: this one). F is build/bench_windows, or several builds of it that are to
be compared. The network is one multiplication and one addition a channel, so what is timed is the
cutting, blending and, where it is asked for, the argmax. Arms: logits as float32 volumes; class
indices by an argmax behind the node; class indices from the node itself. Each arm is a process of
its own, once a round, in turn; a figure is the median over rounds of the median of five firings
after the first. `MiB`: how much the resident set grew in one firing at most, of a process that does
nothing else and has glibc's defaults. `CPU ms` is the time of all threads, which other programs on
the machine disturb less. Ratios are MONAI's figure by the arm's.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))


def peer(job):
    import time

    import torch
    from monai.inferers import SlidingWindowInferer

    def peak():
        with open("/proc/self/status") as f:
            return next(float(s.split()[1]) / 1024 for s in f if s.startswith("VmHWM:"))

    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    c = torch.arange(job["channels"], dtype=torch.float32).view(1, -1, 1, 1, 1)
    factor, offset = c + 1, c * c / -2
    p = job["params"]
    infer = SlidingWindowInferer(p["roi_size"], p["sw_batch_size"], p["overlap"], p["mode"],
                                 cache_roi_weight_map=True)
    x = torch.rand(1, 1, *job["size"])
    ms, cpu, grew = [], [], 0
    with torch.no_grad():
        for i in range(job["runs"] + 1):
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
            before, begin, worked = peak(), time.perf_counter(), time.process_time()
            y = infer(x, lambda w: torch.addcmul(offset, w, factor))
            if job.get("argmax_behind"):
                y = y.argmax(1, keepdim=True).to(torch.uint8)
            if i:
                ms.append(1e3 * (time.perf_counter() - begin))
                cpu.append(1e3 * (time.process_time() - worked))
            else:
                grew = peak() - before
    print(json.dumps({"ms": ms, "cpu_ms": cpu, "grew_mib": grew}))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--bench", nargs="+", default=[f"{root}/build/bench_windows"])
    a.add_argument("--size", type=int, nargs=3, default=[192, 192, 160])
    a.add_argument("--roi", type=int, default=96)
    a.add_argument("--overlap", type=float, default=0.5)
    a.add_argument("--batch", type=int, default=4)
    a.add_argument("--channels", type=int, default=3)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--peer", help=argparse.SUPPRESS)
    a = a.parse_args()
    if a.peer:
        return peer(json.loads(a.peer))

    params = {"roi_size": [a.roi] * 3, "overlap": a.overlap, "mode": "gaussian",
              "sw_batch_size": a.batch}
    base = {"params": params, "size": a.size, "channels": a.channels, "threads": a.threads,
            "runs": 5}
    behind = {**base, "argmax_behind": True}
    arms = {("float32 logits", "MONAI"): ([a.python, __file__, "--peer"], base),
            ("classes", "MONAI, argmax"): ([a.python, __file__, "--peer"], behind)}
    for bench in a.bench:
        arms["float32 logits", bench] = ([bench], base)
        arms["classes", f"{bench}, argmax behind"] = ([bench], behind)
        arms["classes", f"{bench}, argmax: true"] = (
            [bench], {**base, "params": {**params, "argmax": True}})
    got, mib = {arm: [] for arm in arms}, {}
    for round_ in range(a.rounds + 1):  # the first is for memory
        for arm, (command, job) in arms.items():
            job = job if round_ else {**job, "runs": 0, "tuned": False}
            out = subprocess.run([*command, json.dumps(job)], capture_output=True, text=True)
            if out.returncode:  # an older build knows no argmax
                continue
            measured = json.loads(out.stdout.splitlines()[-1])
            if round_:
                got[arm].append(measured)
            else:
                mib[arm] = measured["grew_mib"]
    print("| result | arm | ms | MONAI's / it | CPU ms | MONAI's / it | MiB |")
    print("|---|---|---|---|---|---|---|")
    peers = {}
    for (result, arm), all_ in got.items():
        if not all_:
            continue
        ms, cpu = (statistics.median(statistics.median(g[k]) for g in all_)
                   for k in ("ms", "cpu_ms"))
        peer_ms, peer_cpu = peers.setdefault(result, (ms, cpu))
        print(f"| {result} | {arm} | {ms:.0f} | {peer_ms / ms:.2f} | {cpu:.0f} "
              f"| {peer_cpu / cpu:.2f} | {mib[result, arm]:.0f} |")


main()
