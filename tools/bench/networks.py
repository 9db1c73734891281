"""A training step (without the optimizer) of every network, ours and MONAI's in turn.

usage: networks.py PYTHON [TYPE ...] [--precision float32 bfloat16] [--repeats 3] [--steps 4]
                   [--threads 2] [--cpu avx2] [--limit 240] [--out F.json]

PYTHON has MONAI, torch and dynamic_network_architectures (of nnunetv2). Its arms: eager, and eager in
channels-last; bfloat16 by autocast; glibc's thresholds raised, which is its better setting. Prints a
Markdown table: the medians over the repeats,
MONAI's better arm divided by ours, and the memory of that arm and ours. --cpu sets SLUICE_CPU for us.
An arm of MONAI's that takes longer than the limit, in seconds, counts as infinitely slow.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys

from measures import raised
from network_rows import NETS, renamed

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, f"{root}/tests/golden")  # peer_nets


def ours(job, cpu):
    env = {**os.environ, **({"SLUICE_CPU": cpu} if cpu else {})}
    text = subprocess.run([f"{root}/build/bench_network", json.dumps(job)], check=True, env=env,
                          capture_output=True, text=True).stdout
    return json.loads(text)


class Peer:
    """A process that has imported MONAI, before the first job, and forks for each."""
    def __init__(self, python):
        self.process = subprocess.Popen([python, __file__, "--serve"], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, env={**os.environ, **raised})
        self.process.stdout.readline()

    def __call__(self, job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        if "error" in result:
            print(f"{job['class']}: {result['error']}", file=sys.stderr)
        return result


def resident(which):
    for line in open("/proc/self/status"):
        if line.startswith(which):
            return int(line.split()[1]) / 1024


def listed(y):
    parts = y.values() if isinstance(y, dict) else y if isinstance(y, (list, tuple)) else None
    return [y] if parts is None else [t for part in parts for t in listed(part)]


def peer_step(job):
    import time
    import torch
    from monai.networks import nets
    import peer_nets
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    make = getattr(nets, job["class"], None) or getattr(peer_nets, job["class"])
    net = make(**job["params"]).train()
    # That of its convolutions, whose input may be made of vectors or of bags.
    dims, layout = max(p.dim() for p in net.parameters()), torch.contiguous_format
    if job["last"] and dims > 3:
        layout = torch.channels_last_3d if dims == 5 else torch.channels_last
    net = net.to(memory_format=layout)

    def waves(size):
        x = torch.sin(torch.arange(math.prod(size), dtype=torch.float32)).reshape(size)
        return x.contiguous(memory_format=layout) if x.dim() == dims else x

    x = waves(job["size"])
    more = [waves(m["size"]) if isinstance(m, dict) else torch.tensor(m, dtype=torch.float32) for m in job["more"]]
    open("/proc/self/clear_refs", "w").write("5")
    before, times, cpu = resident("VmRSS"), [], 0
    for i in range(-1, job["steps"]):
        start, cpu_start = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=job["precision"] == "bfloat16"):
            y = net(x, *more)
        # The last of a discriminator's features is what it says.
        y = listed(y)[-1:] if job["class"] == "PatchDiscriminator" else listed(y)[:job["outputs"]]
        sum(t.float().square().mean() for t in y).backward()
        net.zero_grad(set_to_none=True)
        if i >= 0:
            times.append(1e3 * (time.perf_counter() - start))
            cpu += 1e3 * (time.process_time() - cpu_start)
    return {"min_ms": min(times), "median_ms": statistics.median(times), "cpu_ms": cpu / len(times),
            "peak_mb": resident("VmHWM") - before}


def serve():
    import peer_nets  # noqa: F401  (before the first fork)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            job = json.loads(line)
            signal.alarm(job["limit"])
            try:
                print(json.dumps(peer_step(job)), flush=True)
            except Exception as e:
                print(json.dumps({"error": str(e)[:300]}), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print(json.dumps({"error": "it took too long, or was killed"}), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("types", nargs="*", default=list(NETS))
    p.add_argument("--precision", nargs="+", default=["float32", "bfloat16"])
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--cpu")
    p.add_argument("--limit", type=int, default=240)
    p.add_argument("--out")
    a = p.parse_args()
    peer, rows = Peer(a.python), []
    print("| network | precision | ours ms | MONAI's better ms | its layout | MONAI / ours | memory MB |\n|---|---|---|---|---|---|---|")
    for name in a.types or NETS:
        kind, cls, params, size, *options = NETS[name]
        options = {"outputs": 1, "more": [], "ours": {}, **(options[0] if options else {})}
        named = {renamed.get(k, k): v for k, v in params.items() if k != "pretrained"} | options.pop("ours")
        for precision in a.precision:
            job = dict(options, size=size, precision=precision, steps=a.steps, threads=a.threads, limit=a.limit)
            arms = {"ours": [], "channels first": [], "channels last": []}
            for _ in range(a.repeats):
                arms["ours"].append(ours({**job, "type": kind, "params": named}, a.cpu))
                for last in (False, True):
                    arms["channels last" if last else "channels first"].append(
                        peer({**job, "class": cls, "params": params, "last": last}))
            rows.append(dict(name=name, precision=precision, arms=arms))
            ms = {k: statistics.median(r.get("median_ms", float("inf")) for r in v) for k, v in arms.items()}
            best = min(("channels first", "channels last"), key=ms.get)
            mb = [statistics.median(r.get("peak_mb", 0) for r in arms[k]) for k in ("ours", best)]
            print(f"| {name} | {precision} | {ms['ours']:.0f} | {ms[best]:.0f} | {best} | "
                  f"{ms[best] / ms['ours']:.2f} | {mb[0]:.0f} / {mb[1]:.0f} |", flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
