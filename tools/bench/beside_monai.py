"""What losses.py and metrics.py share: the same arrays for both arms, one thread each, processor
time, the two taking turns case by case."""
import ctypes
import json
import pathlib
import re
import subprocess
import tempfile
import time

import numpy as np
import torch


def timed(call):
    """The least processor milliseconds of five calls, and what the last gave."""
    best = 1e9
    for _ in range(5):
        begin = time.process_time()
        value = call()
        best = min(best, 1e3 * (time.process_time() - begin))
    return best, value


def status(name):
    return 1024 * int(re.search(rf"^{name}:\s*(\d+) kB", pathlib.Path("/proc/self/status").read_text(), re.M)[1])


def memory(call):
    """The peak of the resident set while `call` runs, above what it was before."""
    ctypes.CDLL(None).malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def compare(build, cases, run, loss):
    """cases: (node, params, arrays by field, what `run` needs). Prints a line each."""
    torch.set_num_threads(1)
    print(f"{'node':44} {'Sluice ms':>9} {'MONAI ms':>9} {'ratio':>6} {'difference':>10} "
          f"{'Sluice MB':>9} {'MONAI MB':>9} {'ratio':>6}")
    ratios, shares = [], []
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
        best, value = timed(lambda: run(needs, tensors))  # noqa: B023
        most = memory(lambda: run(needs, tensors))  # noqa: B023
        shares.append(ours["bytes"] / max(most, 1))
        scale = max(abs(value), 1e-12)
        ratios.append(best / ours["ms"])
        apart = abs(ours["value"] - value) / scale
        print(f"{node:44} {ours['ms']:9.2f} {best:9.2f} {ratios[-1]:6.1f} {apart:10.1e} "
              f"{ours['bytes'] / 1e6:9.2f} {most / 1e6:9.2f} {shares[-1]:6.2f}", flush=True)
    print(f"median {np.median(ratios):.1f}, least {min(ratios):.1f}; memory, median {np.median(shares):.2f}, "
          f"most {max(shares):.2f}")
