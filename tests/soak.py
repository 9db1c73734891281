"""One long training: its memory, its descriptors and its rate must stay level.

    tests/soak.py build/sluice [--minutes N]     (SLUICE_MINUTES, else 10)

Prints a campaign's line; exit 1 where resident memory grows by 1 % or more from the second tenth of
the time to the last, descriptors by any, or the rate of steps falls by 5 % or more.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRAPH = {
    "run": {"epochs": 1000000, "checkpoint": {"every_epochs": 20, "keep": 2}},
    "models": {
        "net": {
            "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
            "channels": [4, 8], "strides": [2],
        }
    },
    "nodes": {
        "train": {"type": "synthetic", "num_samples": 16, "spatial_size": [24, 24, 24], "rad_max": 8,
                  "rad_min": 3, "num_seg_classes": 1, "shuffle": True},
        "cache": {"type": "cache", "in": "train"},
        "turn": {"type": "rand_affine", "in": "cache", "prob": 0.5, "rotate_range": [0.3, 0.3, 0.3]},
        "noise": {"type": "rand_gaussian_noise", "in": "turn", "prob": 0.5},
        "batch": {"type": "batch", "in": "noise", "size": 4},
        "fwd": {"type": "model", "in": "batch", "net": "net"},
        "loss": {"type": "dice_ce_loss", "in": "fwd", "to_onehot_y": True, "softmax": True},
        "step": {"type": "adam", "in": "loss", "net": "net", "lr": 0.001},
        "val": {"type": "synthetic", "num_samples": 2, "spatial_size": [24, 24, 24], "rad_max": 8,
                "rad_min": 3, "num_seg_classes": 1, "after": "step", "every_epochs": 5},
        "infer": {"type": "sliding_window", "in": "val", "net": "net", "roi_size": [16, 16, 16]},
        "dice": {"type": "dice_metric", "in": "infer", "include_background": False},
    },
}


def reading(pid, run):
    status = Path(f"/proc/{pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    with open(run / "metrics.jsonl", "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
        lines = file.read().decode().splitlines()[1:-1]
    steps = max((json.loads(line)["step"] for line in lines), default=0)
    return time.monotonic(), rss, fds, steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("SLUICE_MINUTES", 10)))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        (Path(folder) / "g.json").write_text(json.dumps(GRAPH))
        child = subprocess.Popen(
            [asked.sluice, "run", str(Path(folder) / "g.json"), "--quiet", "--out", str(run)]
        )
        end = time.monotonic() + 60 * asked.minutes
        readings = []
        while time.monotonic() < end and child.poll() is None:
            time.sleep(min(2, 0.6 * asked.minutes))
            if (run / "metrics.jsonl").exists():
                readings.append(reading(child.pid, run))
        early = child.poll() is not None
        child.send_signal(signal.SIGTERM)
        code = child.wait(timeout=120)
    tenth = max(1, len(readings) // 10)
    first, last = readings[tenth : 2 * tenth], readings[-tenth:]
    grown = statistics.median(r[1] for r in last) / statistics.median(r[1] for r in first) - 1
    descriptors = statistics.median(r[2] for r in last) - statistics.median(r[2] for r in first)

    half = len(readings) // 2
    rates = [
        (b[3] - a[3]) / (b[0] - a[0])
        for a, b in ((readings[tenth], readings[half]), (readings[half], readings[-1]))
    ]
    print(
        f"campaign soak: {readings[-1][3]} cases, seed 1, memory {100 * grown:+.2f} %, "
        f"{descriptors:+.0f} descriptors, {rates[0]:.1f} then {rates[1]:.1f} steps/s"
    )
    wrong = early or code != 143 or grown >= 0.01 or descriptors > 0 or rates[1] < 0.95 * rates[0]
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
