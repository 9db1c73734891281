#!/usr/bin/env python3
"""How long the reduction shows in a step between machines, beside a ring's bound and PyTorch's DDP.

usage (root): ring.py PYTHON [--links 100mbit 1gbit] [--ranks 2 4] [--rounds 2] [--steps 8] [--size 32]
                             [--batch 8] [--out F.json]

Each rank is a machine: a network namespace of its own, joined to the others by a bridge; what it sends
is held to the link's rate (tc). The network, the batch and DDP's side are ddp.py's, 8 shards, one step
thread a rank. A reduction's exposed time is what a step takes more than on the same namespaces without
a limit; a ring moves 2 (N - 1) / N times the weights' bytes through each link, which is the bound.
Arms interleaved, medians over rounds; a step is what a longer run takes more than a shorter one.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import ddp
from plan import bytes_of

SHARDS = 8
HOST = "10.77.0.{}"


def sh(text):
    subprocess.run(["sh", "-ec", text], check=True)


def make_machines(count):
    sh("mount -t tmpfs none /run; mkdir -p /run/netns; ip link add bridge type bridge; ip link set bridge up")
    for k in range(count):
        sh(f"ip netns add m{k}; ip link add out{k} type veth peer name eth0 netns m{k}\n"
           f"ip link set out{k} master bridge up\n"
           f"ip -n m{k} addr add {HOST.format(k + 1)}/24 dev eth0\n"
           f"ip -n m{k} link set eth0 up; ip -n m{k} link set lo up")


def limit(count, link):
    for k in range(count):
        subprocess.run(f"ip netns exec m{k} tc qdisc del dev eth0 root", shell=True, stderr=subprocess.DEVNULL)
        if link:
            sh(f"ip netns exec m{k} tc qdisc add dev eth0 root tbf rate {link} burst 128kb latency 400ms")


def on_machines(ranks, command):
    """Runs `command` on each; what the first one said, and the largest peak of memory of one, MiB."""
    port = str(20000 + os.getpid() % 10000)
    started, files = [], [tempfile.TemporaryFile("w+") for _ in range(2 * ranks)]
    for k in range(ranks):
        env = dict(os.environ, RANK=str(k), LOCAL_RANK="0", WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE="1",
                   MASTER_ADDR=HOST.format(1), MASTER_PORT=port, GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")
        started.append(subprocess.Popen(["ip", "netns", "exec", f"m{k}", *command(k)], env=env,
                                        stdout=files[2 * k], stderr=files[2 * k + 1]))
    ended = [os.wait4(child.pid, 0) for child in started]
    for file in files:
        file.seek(0)
    for k, (_, status, _) in enumerate(ended):
        if status:
            sys.exit(f"rank {k}: {files[2 * k + 1].read()}")
    return files[0].read(), max(use.ru_maxrss for _, _, use in ended) / 1024


def ours(a, ranks):
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/g.json"
        graph = ddp.graph(a)
        graph["run"]["shards"] = SHARDS
        json.dump(graph, open(file, "w"))

        def wall(epochs):
            out = f"{folder}/{epochs}"
            _, mib = on_machines(ranks, lambda _: [f"{ddp.root}/build/sluice", "run", file, "--quiet",
                                                   "--set", f"+run.epochs={epochs}", "--out", out])
            s = json.load(open(f"{out}/summary.json"))
            return s["wall_s"], s["steps"], s["weights_sha256"], mib
        few, many = wall(1), wall(1 + a.steps // 4)
    return 1e3 * (many[0] - few[0]) / (many[1] - few[1]), *many[2:]


def peer(a, ranks):
    said, mib = on_machines(ranks, lambda _: [a.python, ddp.__file__, "--as-peer", json.dumps(vars(a))])
    line = json.loads([t for t in said.splitlines() if t.startswith("{")][-1])
    return line["ms"], line["sha"], mib


def weight_bytes(python):
    text = ("from monai.networks.nets import UNet; import ddp\n"
            "print(sum(4 * p.numel() for p in UNet(3, 1, 2, ddp.channels, ddp.strides, num_res_units=1).parameters()))")
    return int(subprocess.run([python, "-c", text], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, cwd=os.path.dirname(os.path.abspath(__file__))).stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("--links", nargs="+", default=["100mbit", "1gbit"])
    p.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--out")
    a = p.parse_args()
    if not os.environ.get("IN_NETWORK"):
        os.environ["IN_NETWORK"] = "1"
        os.execvp("unshare", ["unshare", "-n", "-m", sys.executable, *sys.argv])
    make_machines(max(a.ranks))
    size = weight_bytes(a.python)
    print(f"weights: {size} bytes", flush=True)
    rows = []
    for _ in range(a.rounds):
        for ranks in a.ranks:
            for link in [None, *a.links]:
                limit(ranks, link)
                for arm, run in (("sluice", ours), ("ddp", peer)):
                    ms, sha, mib = run(a, ranks)
                    rows.append({"arm": arm, "ranks": ranks, "link": link, "ms": ms, "sha": sha, "mib": mib})
                    print("  ", json.dumps(rows[-1]), flush=True)

    def median(arm, ranks, link, of="ms"):
        return statistics.median(r[of] for r in rows if (r["arm"], r["ranks"], r["link"]) == (arm, ranks, link))
    print("\n| ranks | link | a ring's bound, ms | Sluice, ms a step | exposed | of the bound | DDP, ms a step | exposed | "
          "DDP / Sluice |\n|---|---|---|---|---|---|---|---|---|")
    for ranks in a.ranks:
        for link in [None, *a.links]:
            mine, theirs = median("sluice", ranks, link), median("ddp", ranks, link)
            exposed, other = mine - median("sluice", ranks, None), theirs - median("ddp", ranks, None)
            bound = 1e3 * 2 * (ranks - 1) / ranks * size / bytes_of(link) if link else 0
            print(f"| {ranks} | {link or 'no limit'} | {bound:.0f} | {mine:.0f} | {exposed:.0f} | "
                  f"{f'{exposed / bound:.2f}' if link else ''} | {theirs:.0f} | {other:.0f} | {theirs / mine:.2f} |")
    for ranks in a.ranks:
        mine, theirs = (median(arm, ranks, None, "mib") for arm in ("sluice", "ddp"))
        print(f"{ranks} ranks: at most {mine:.0f} MiB of one, DDP's {theirs:.0f}")
    print(f"sluice: {len({r['sha'] for r in rows if r['arm'] == 'sluice'})} different weights")
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)


main()
