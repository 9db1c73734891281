"""What the benches' arms measure of themselves, and what peers run with."""
import argparse
import json
import os
import subprocess

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# glibc's thresholds so high that memory is kept: the better setting of PyTorch on the CPU.
raised = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184",
          "MALLOC_TOP_PAD_": "268435456"}


def cpu_seconds_of(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """Of this process and the workers that it has."""
    total = sum(os.times()[:2])
    for task in os.listdir("/proc/self/task"):
        for child in open(f"/proc/self/task/{task}/children").read().split():
            total += cpu_seconds_of(child)
    return total


def peer_arguments(doc, **numbers):
    """Of a bench that trains beside a script, which PYTHON runs on the same data. `numbers` are options of its own."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("python")
    p.add_argument("--peer", required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--out")
    for name, number in numbers.items():
        p.add_argument(f"--{name}", type=int, default=number)
    return p


def run_graph(name, out, settings=(), **variables):
    """A run of graphs/NAME.json: the rows of its metrics.jsonl, and its summary. `settings` are as those of --set."""
    words = [*settings, *(f"vars.{k}={v}" for k, v in variables.items())]
    subprocess.run([f"{root}/build/sluice", "run", f"{root}/graphs/{name}.json", "--quiet", "--overwrite",
                    "--out", out, *(word for s in words for word in ("--set", s))],
                   check=True, stdout=subprocess.DEVNULL)
    with open(f"{out}/metrics.jsonl") as rows, open(f"{out}/summary.json") as summary:
        return [json.loads(line) for line in rows], json.load(summary)


def interleaved(seeds, **arms):
    """What each arm finds with the seeds 0, 1, ..., the arms one after the other."""
    found = {name: [] for name in arms}
    for seed in range(seeds):
        for name, arm in arms.items():
            found[name].append(arm(seed))
            print(name, json.dumps(found[name][-1]), flush=True)
    return found


def of_metric(rows, name):
    """Its values, epoch by epoch."""
    return [r["value"] for r in rows if r.get("metric") == name]


def lines_of(command):
    """The JSON objects that a script prints, one a line."""
    text = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **raised}).stdout
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
