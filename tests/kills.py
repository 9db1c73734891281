"""Kills runs of graph files at random moments, resumes them at other thread counts, and compares their weights.

usage: kills.py SLUICE GRAPH... [--set PATH=VALUE ...] [--kills 20] [--seed 1] [--minutes M]

The graphs are run once undisturbed; each of the kills takes the next of them in turn, in a new folder. Every trial is
killed once or twice and then resumed to its end (or begun again where it had no folder yet). Prints a line a graph, and
"campaign graph_kills: N cases, seed S"; exits with 1 where weights differ. Step threads are fixed to 1.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sluice", type=pathlib.Path)
    p.add_argument("graphs", type=pathlib.Path, nargs="+")
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--kills", type=int, default=20)
    p.add_argument("--seed", type=int, default=int(os.environ.get("SLUICE_SEED", 1)))
    p.add_argument("--minutes", type=float, default=float(os.environ.get("SLUICE_MINUTES", 1e9)))
    a = p.parse_args()
    draws = random.Random(a.seed)
    settings = [word for s in a.set for word in ("--set", s)]
    sluice = str(a.sluice.resolve())

    def start(words):
        return subprocess.Popen([sluice, "run", "--quiet", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def ended(words):
        child = start(words)
        said = child.communicate()[1].decode()
        return child.returncode, said

    def weights(out):
        summary = pathlib.Path(out, "summary.json")
        return json.loads(summary.read_text()).get("weights_sha256") if summary.exists() else None

    with tempfile.TemporaryDirectory() as made:
        whole = {}
        for g in a.graphs:
            out = f"{made}/whole-{g.stem}"
            begin = time.monotonic()
            code, said = ended([str(g), *settings, "--step-threads", "1", "--out", out])
            if code:
                sys.exit(f"{g}: {said}")
            whole[g] = {"s": time.monotonic() - begin, "weights": weights(out), "kills": 0, "late": 0, "wrong": 0}
        end = time.monotonic() + 60 * a.minutes
        done = 0
        while done < a.kills and time.monotonic() < end:
            g = a.graphs[done % len(a.graphs)]
            row, out = whole[g], f"{made}/{done}"
            fresh = [str(g), *settings, "--step-threads", "1", "--out", out]
            words = fresh
            for _ in range(draws.randint(1, 2)):
                child = start(words)
                try:
                    child.wait(draws.uniform(0, row["s"]))
                    row["late"] += 1
                except subprocess.TimeoutExpired:
                    child.send_signal(signal.SIGKILL)
                    child.wait()
                    row["kills"] += 1
                child.stderr.close()
                if pathlib.Path(out, "checkpoints/last").exists():
                    words = ["--resume", out, "--threads", str(draws.randint(1, 8))]
                else:
                    words = [*fresh, "--overwrite"]
            code, said = ended(words)
            if code or weights(out) != row["weights"]:
                row["wrong"] += 1
                print(f"{g.name}, trial {done}: exit {code}, {' '.join(words)}: {weights(out)}\n{said}", flush=True)
            done += 1
    for g, row in whole.items():
        print(f"{g.name}: a run of {row['s']:.1f} s, {row['kills']} kills, {row['late']} came after its end, "
              f"{row['wrong']} with other weights", flush=True)
    print(f"campaign graph_kills: {done} cases, seed {a.seed}")
    sys.exit(any(row["wrong"] for row in whole.values()))


if __name__ == "__main__":
    main()
