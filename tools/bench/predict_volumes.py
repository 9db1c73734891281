"""Whole volumes through a trained network, files to segmentations: graphs/predict.json beside MONAI's pipeline.

usage: predict_volumes.py PYTHON [--run runs/brain] [--images data/brain/imagesTr] [--repeats 5] [--out F.json]

PYTHON has MONAI, torch, nibabel, safetensors, onnxruntime and openvino. The run is of graphs/brain.json. Every arm
has the same weights and uses both cores: ours, and sluice-edge, whose ONNX Runtime SLUICE_ONNXRUNTIME names;
MONAI's transforms with its sliding-window inferer over PyTorch, ONNX Runtime and OpenVINO, the two engines on the file
that `sluice export` writes. Arms alternate, and each is a process that has loaded its network before its time begins.
Prints a Markdown table: volumes a second (medians), the largest resident memory of the arm's process, the Dice of its
labels with those of PyTorch in float32, and, of an arm that cannot run, why.
"""
import argparse
import glob
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
PEERS = ["PyTorch float32", "PyTorch bfloat16", "ONNX Runtime float32", "OpenVINO float32", "OpenVINO bfloat16"]
OWN = {"Sluice float32": ["--set", "models.net.precision=float32"], "Sluice bfloat16": [],
       "Sluice, ONNX Runtime float32": None, "sluice-edge, ONNX Runtime float32": None}
NET = dict(spatial_dims=3, in_channels=1, out_channels=2, channels=[8, 16, 32, 64], strides=[2, 2, 2], num_res_units=1)


class CannotRun(Exception):
    pass


def command(*words):
    """Runs a program of ours and returns the largest MiB that it held; CannotRun with its last line."""
    with tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=err, cwd=root)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        if child.returncode:
            raise CannotRun((err.read().strip().splitlines() or ["no word"])[-1])
    return used.ru_maxrss / 1024


def sluice(*arguments):
    return command(f"{root}/build/sluice", *arguments)


def ours(arm, folder, args):
    """Volumes a second between the first and the last segmentation, and MiB."""
    out = f"{folder}/{arm}"
    if arm.startswith("sluice-edge"):
        shutil.rmtree(out, ignore_errors=True)
        used = command(f"{root}/build/sluice-edge", "run", f"{folder}/package", "--images", args.images, "--out", out,
                       "--threads", "2")
        return rate(glob.glob(f"{out}/segmentations/*.nii.gz")), used
    more = OWN[arm]
    if more is None:
        net = dict(type="onnx", file=f"{folder}/net.onnx", spatial_dims=3, in_channels=1, out_channels=2)
        more = ["--set", "models.net=" + json.dumps(net)]
    used = sluice("run", "graphs/predict.json", "--out", out, "--overwrite", "--quiet", "--set",
                  f"vars.weights={args.run}", "--set", f"vars.images={args.images}", *more)
    return rate(glob.glob(f"{out}/segmentations/*.nii.gz")), used


def rate(files):
    times = sorted(os.stat(f).st_mtime_ns for f in files)
    return (len(times) - 1) / ((times[-1] - times[0]) / 1e9)


def predictor(arm, folder):
    import numpy
    import torch
    torch.set_num_threads(2)
    if arm.startswith("PyTorch"):
        import monai
        import safetensors.torch
        net = monai.networks.nets.UNet(**NET).eval()
        weights = safetensors.torch.load_file(f"{folder}/net.safetensors")
        net.load_state_dict({k.removeprefix("net."): v for k, v in weights.items()})
        net = net.to(memory_format=torch.channels_last_3d)

        def ask(x):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in arm):
                return net(x.contiguous(memory_format=torch.channels_last_3d)).float()
        return ask
    file = f"{folder}/net.onnx"
    if arm.startswith("ONNX"):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        return lambda x: torch.from_numpy(session.run(None, {"image": numpy.ascontiguousarray(x)})[0])
    import openvino
    hint = {"INFERENCE_NUM_THREADS": 2, "INFERENCE_PRECISION_HINT": "bf16" if "bfloat16" in arm else "f32"}
    model = openvino.Core().compile_model(file, "CPU", hint)
    return lambda x: torch.from_numpy(model([numpy.ascontiguousarray(x)])[0].copy())


def serve(arm, folder, images):
    import monai.transforms as mt
    import torch
    from monai.data import DataLoader, Dataset, decollate_batch
    from monai.inferers import SlidingWindowInferer
    ask = predictor(arm, folder)
    before = mt.Compose([mt.LoadImaged("image", ensure_channel_first=True), mt.Orientationd("image", axcodes="RAS"),
                         mt.Spacingd("image", pixdim=(2, 2, 2)), mt.NormalizeIntensityd("image")])
    after = mt.Compose([mt.Invertd("pred", before, "image", nearest_interp=False), mt.AsDiscreted("pred", argmax=True),
                        mt.SaveImaged("pred", output_dir=f"{folder}/{arm}", output_postfix="seg", separate_folder=False,
                                      output_dtype="uint8", print_log=False)])
    inferer = SlidingWindowInferer((64, 64, 64), 4, 0.5, "gaussian")
    data = Dataset([{"image": f} for f in sorted(glob.glob(f"{images}/*.nii.gz"))], before)
    inferer(torch.zeros(1, 1, 64, 64, 64), ask)
    print("ready", flush=True)
    for _ in sys.stdin:
        start, n = time.perf_counter(), 0
        for batch in DataLoader(data, batch_size=1, num_workers=1):
            batch["pred"] = inferer(batch["image"], ask)
            for one in decollate_batch(batch):
                after(one)
            n += 1
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(n / (time.perf_counter() - start), used, flush=True)


class Peer:
    def __init__(self, python, arm, folder, images):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([python, __file__, "--serve", arm, folder, images], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.said, text=True)
        self.ready = self.answer() == "ready"

    def answer(self):  # libraries print, too
        for line in self.process.stdout:
            if line == "ready\n" or line[:1].isdigit():
                return line.strip()

    def __call__(self):
        if self.ready:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            if found := self.answer():
                return tuple(map(float, found.split()))
        self.said.seek(0)
        raise CannotRun((self.said.read().strip().splitlines() or ["no word"])[-1])


# Prints the Dice of the labels in two folders, of all voxels; by the interpreter that has nibabel.
DICE = """import glob, os, sys, numpy as n, nibabel
of = lambda f: n.asarray(nibabel.load(f).dataobj).squeeze() > 0
files = {os.path.basename(f): f for f in glob.glob(sys.argv[1] + "/**/*.nii.gz", recursive=True)}
pairs = [(of(files[os.path.basename(f)]), of(f)) for f in glob.glob(sys.argv[2] + "/**/*.nii.gz", recursive=True)]
print(2 * sum((a & b).sum() for a, b in pairs) / max(sum(a.sum() + b.sum() for a, b in pairs), 1))"""


def dice(python, folder, arm):
    r = subprocess.run([python, "-c", DICE, f"{folder}/PyTorch float32", f"{folder}/{arm}"], capture_output=True,
                       text=True)
    return float(r.stdout) if r.returncode == 0 else float("nan")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("--run", default="runs/brain")
    p.add_argument("--images", default="data/brain/imagesTr")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--out")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sluice("export", a.run, "-o", f"{folder}/net.onnx", "--size", "64,64,64")
        sluice("weights", a.run, "-o", f"{folder}/net.safetensors")
        sluice("export", a.run, "--package", f"{folder}/package")
        arms = {arm: lambda arm=arm: ours(arm, folder, a) for arm in OWN}
        peers = {arm: Peer(a.python, arm, folder, os.path.join(root, a.images)) for arm in PEERS}
        arms |= peers
        rates, memory, missing = {}, {}, {}
        for _ in range(a.repeats):
            for arm, run in arms.items():
                if arm in missing:
                    continue
                try:
                    found, used = run()
                    rates.setdefault(arm, []).append(found)
                    memory[arm] = max(memory.get(arm, 0), used)
                except CannotRun as e:
                    missing[arm] = str(e)
        for peer in peers.values():
            peer.process.kill()
        alike = {arm: dice(a.python, folder, arm) for arm in rates}
    medians = {arm: statistics.median(r) for arm, r in rates.items()}
    beside = medians.get("PyTorch float32", float("nan"))
    print("| arm | volumes/s | beside PyTorch float32 | MiB | Dice |\n|---|---|---|---|---|")
    for arm, r in medians.items():
        print(f"| {arm} | {r:.2f} | {r / beside:.2f} | {memory[arm]:.0f} | {alike[arm]:.5f} |")
    for arm, why in missing.items():
        print(f"| {arm} | cannot run: {why} | | | |")
    if a.out:
        json.dump(dict(rates=rates, medians=medians, memory=memory, dice=alike, missing=missing), open(a.out, "w"), indent=1)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
    else:
        main()
