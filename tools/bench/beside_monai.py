"""What losses.py and metrics.py share: the same arrays for both arms, one thread each, processor
time, the two taking turns case by case."""
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import torch


def memory(key):
    """Of this process, MiB: VmRSS, or VmHWM since the last "5" into clear_refs."""
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return 0.0


def timed(call):
    """The least processor milliseconds of five calls, what the last gave, and its growth in MiB."""
    best = 1e9
    for _ in range(5):
        before = memory("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")
        begin = time.process_time()
        value = call()
        best = min(best, 1e3 * (time.process_time() - begin))
        grown = memory("VmHWM") - before
    return best, value, grown


def compare(build, cases, run, loss):
    """cases: (node, params, arrays by field, what `run` needs). Prints a line each."""
    torch.set_num_threads(1)
    title = f"{'node':44} {'Sluice ms':>9} {'MONAI ms':>9} {'ratio':>6} {'difference':>10}"
    print(title + ("  memory" if loss else ""))
    ratios = []
    for node, params, arrays, needs in cases:
        with tempfile.TemporaryDirectory() as folder:
            fields = {}
            for key, value in arrays.items():
                fields[key] = str(pathlib.Path(folder) / f"{key}.npy")
                np.save(fields[key], value)
            asked = json.dumps([{"type": node, "params": params, "fields": fields, "loss": loss}])
            ours = json.loads(subprocess.run([f"{build}/bench_losses_metrics"], input=asked, text=True,
                                             check=True, stdout=subprocess.PIPE).stdout)[0]
        tensors = {k: torch.from_numpy(v) for k, v in arrays.items()}
        best, value, grown = timed(lambda: run(needs, tensors))  # noqa: B023
        scale = max(abs(value), 1e-12)
        ratios.append(best / ours["ms"])
        line = f"{node:44} {ours['ms']:9.2f} {best:9.2f} {ratios[-1]:6.1f} {abs(ours['value'] - value) / scale:10.1e}"
        print(line + (f" {ours['mib'] / max(grown, 0.1):7.2f}" if loss else ""), flush=True)
    print(f"median {np.median(ratios):.1f}, least {min(ratios):.1f}")
