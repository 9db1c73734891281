"""One window through a network, ours beside ONNX Runtime, OpenVINO and LibTorch, in turn, on one thread.

usage: prediction.py PYTHON [NETWORK ...] [--repeats 5] [--runs 10] [--out F.json]

PYTHON has MONAI, torch, onnx, onnxruntime and openvino. Each arm is a process that answers when it is
asked, so that arms alternate. Prints a Markdown table of milliseconds: the medians over the repeats.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
three = dict(spatial_dims=3, in_channels=1)
NETS = {
    "brain": (dict(**three, out_channels=3, channels=[8, 16, 32, 64], strides=[2, 2, 2], num_res_units=1), 64),
    "unet 32..256": (dict(**three, out_channels=2, channels=[32, 64, 128, 256], strides=[2, 2, 2],
                          num_res_units=2), 64),
    "unet 16..256 batch norm": (dict(**three, out_channels=2, channels=[16, 32, 64, 128, 256], strides=[2, 2, 2, 2],
                                     num_res_units=2, norm="batch"), 96),
}
ARMS = ["ONNX Runtime float32", "OpenVINO float32", "OpenVINO bfloat16", "LibTorch float32", "LibTorch bfloat16"]


def ours(name, precision, runs):
    params, extent = NETS[name]
    job = dict(type="unet", params=params, size=[1, 1, extent, extent, extent], precision=precision, steps=runs,
               threads=1, predict=True)
    text = subprocess.run([f"{root}/build/bench_network", json.dumps(job)], check=True, capture_output=True,
                          text=True).stdout
    return json.loads(text)["median_ms"]


def predictor(name, arm):
    import numpy
    import torch
    from monai.networks.nets import UNet
    torch.set_num_threads(1)
    params, extent = NETS[name]
    net, x = UNet(**params).eval(), torch.rand(1, 1, extent, extent, extent)
    if arm.startswith("LibTorch"):
        net = net.to(memory_format=torch.channels_last_3d)
        x = x.contiguous(memory_format=torch.channels_last_3d)

        def run():
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in arm):
                net(x)
        return run
    file = f"/tmp/prediction_{os.getpid()}.onnx"
    torch.onnx.export(net, x, file, dynamo=False, opset_version=17)
    data = numpy.ascontiguousarray(x.numpy())
    if arm.startswith("ONNX"):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        key = session.get_inputs()[0].name
        return lambda: session.run(None, {key: data})
    import openvino
    hint = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "bf16" if "bfloat16" in arm else "f32",
            "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(file, "CPU", hint).create_infer_request()
    return lambda: request.infer([data])


def serve(name, arm):
    import time
    run = predictor(name, arm)
    run()
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - start))
        print(statistics.median(times), flush=True)


class Peer:
    def __init__(self, python, name, arm):
        self.process = subprocess.Popen([python, __file__, "--serve", name, arm], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.ready = self.answer() == "ready"

    def answer(self):  # libraries print, too
        for line in self.process.stdout:
            if line == "ready\n" or line[:1].isdigit():
                return line.strip()

    def __call__(self, runs):
        if not self.ready:
            return float("nan")
        self.process.stdin.write(f"{runs}\n")
        self.process.stdin.flush()
        return float(self.answer())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("networks", nargs="*")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--runs", type=int, default=10)
    p.add_argument("--out")
    a = p.parse_args()
    rows = {}
    print("| network | Sluice float32 | Sluice bfloat16 | " + " | ".join(ARMS) + " |")
    print("|" + "---|" * (3 + len(ARMS)))
    for name in a.networks or NETS:
        peers = {arm: Peer(a.python, name, arm) for arm in ARMS}
        ms = {}
        for _ in range(a.repeats):
            for precision in ("float32", "bfloat16"):
                ms.setdefault(precision, []).append(ours(name, precision, a.runs))
            for arm, peer in peers.items():
                ms.setdefault(arm, []).append(peer(a.runs))
        for peer in peers.values():
            peer.process.kill()
        rows[name] = ms
        print(f"| {name} | " + " | ".join(f"{statistics.median(v):.1f}" for v in ms.values()) + " |", flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)


if __name__ == "__main__":
    serve(*sys.argv[2:]) if sys.argv[1:2] == ["--serve"] else main()
