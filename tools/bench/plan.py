"""What `sluice plan` predicts for a step on several processes, held against runs of so many.

usage: plan.py [PYTHON] [--ranks 2 3 4] [--rounds 3] [--steps 24] [--size 48] [--batch 12]
               [--link 1gbit] [--transfer bfloat16] [--out F.json]

Each round measures one process, plans, and then runs every number of ranks; medians over rounds. A step
is what a longer run takes more than a shorter one, so the start and the first steps are left out. The
graph is ddp.py's U-Net on volumes in memory, one step thread a rank, 12 shards.

Without --link over loopback, whose rate and latency are those of c10d's alltoall between two processes,
measured by PYTHON (which has torch). With --link (root; tc's words) in a network of its own whose
loopback passes that much: one link that all ranks share, so each is planned to have its part of it.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from ddp import graph

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
shards = 12


def wire_of_loopback(python):
    """Bytes a second and seconds a message of alltoall between two processes."""
    text = r'''
import os, sys, time, torch, torch.distributed as d
d.init_process_group("gloo")
torch.set_num_threads(1)
def of(n, rounds):
    x, y = torch.ones(n), torch.empty(n)
    for _ in range(3): d.all_to_all_single(y, x)
    took = []
    for _ in range(rounds):
        d.barrier()
        begin = time.perf_counter()
        d.all_to_all_single(y, x)
        took.append(time.perf_counter() - begin)
    return sorted(took)[rounds // 2]
small, large = of(2, 200), of(1 << 21, 30)
if d.get_rank() == 0: print(small, 4 * (1 << 20) / (large - small))
'''
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/wire.py"
        open(file, "w").write(text)
        said = subprocess.run([python, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                               "--master-port", str(20000 + os.getpid() % 10000), file],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout.split()
    return float(said[0]), float(said[1])


def run(file, folder, ranks, epochs):
    out = f"{folder}/{ranks}-{epochs}-{time.monotonic_ns()}"
    subprocess.run([f"{root}/build/sluice", "run", file, "--quiet", "--processes", str(ranks),
                    "--set", f"+run.epochs={epochs}", "--out", out], check=True)
    s = json.load(open(f"{out}/summary.json"))
    return out, s["wall_s"], s["steps"]


def measured(a, file, folder, ranks):
    few, many = run(file, folder, ranks, 2), run(file, folder, ranks, 2 + a.steps // 2)
    return many[0], 1e3 * (many[1] - few[1]) / (many[2] - few[2])


def planned(a, profile, ranks, wire):
    options = ["--profile", profile, "--step-threads", "1", "--json", "--ranks", str(ranks)]
    latency, rate = (50e-6, wire / ranks) if a.link else wire
    options += ["--node", str(ranks), "--cores", str(os.cpu_count()),
                "--nvlink", f"{rate:.0f}B/s", "--latency", f"{1e6 * latency:.1f}us"]
    text = subprocess.run([f"{root}/build/sluice", "plan", a.file, *options],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text)["rows"][0]


def bytes_of(link):
    for unit, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if link.endswith(unit):
            return float(link[:-len(unit)]) * factor / 8
    sys.exit(f"--link {link}: want 1gbit or 100mbit")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python", nargs="?", default=sys.executable)
    p.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--size", type=int, default=48)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--transfer", default="float32")
    p.add_argument("--link")
    p.add_argument("--out")
    a = p.parse_args()
    if a.link and not os.environ.get("IN_NETWORK"):
        shape = (f"ip link set lo mtu 1500 up && tc qdisc add dev lo root tbf rate {a.link} "
                 "burst 128kb latency 400ms && exec \"$@\"")
        os.environ["IN_NETWORK"] = "1"
        os.execvp("unshare", ["unshare", "-n", "sh", "-c", shape, "sh", sys.executable, *sys.argv])
    wire = bytes_of(a.link) if a.link else wire_of_loopback(a.python)
    print("wire:", wire, flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        a.file = f"{folder}/g.json"
        json.dump(graph(2 * a.batch, a, shards=shards, transfer=a.transfer), open(a.file, "w"))
        for _ in range(a.rounds):
            profile, one = measured(a, a.file, folder, 1)
            for ranks in a.ranks:
                row = planned(a, profile, ranks, wire)
                took = measured(a, a.file, folder, ranks)[1]
                rows.append({"ranks": ranks, "measured_ms": took, "one_ms": one, **row})
                print(f"   {ranks} ranks: planned {row['step_ms']:.1f} ms, measured {took:.1f} ms",
                      flush=True)
    print("\n| ranks | planned, ms a step | measured | off | efficiency planned | measured |")
    print("|---|---|---|---|---|---|")
    for ranks in a.ranks:
        of = [r for r in rows if r["ranks"] == ranks]
        plan, took, one = (statistics.median(r[k] for r in of)
                           for k in ("step_ms", "measured_ms", "one_ms"))
        efficiency = statistics.median(r["efficiency"] for r in of)
        print(f"| {ranks} | {plan:.1f} | {took:.1f} | {100 * (plan / took - 1):+.0f} % "
              f"| {100 * efficiency:.0f} % | {100 * one / ranks / took:.0f} % |")
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)


if __name__ == "__main__":
    main()
