"""What the benches' arms measure of themselves, and what peers run with."""
import argparse
import os

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


def peer_arguments(doc):
    """Of a bench that trains beside a script, which PYTHON runs on the same data."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("python")
    p.add_argument("--peer", required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--out")
    return p
