"""A training step (without the optimizer) of every network, ours and MONAI's in turn.

usage: networks.py PYTHON [TYPE ...] [--precision float32 bfloat16] [--repeats 3] [--steps 4]
                   [--threads 2] [--cpu avx2] [--limit 240] [--out F.json]

PYTHON has MONAI and torch. Its arms: eager, and eager in channels-last; bfloat16 by autocast; glibc's
thresholds raised, which is its better setting. Prints a Markdown table: the medians over the repeats,
MONAI's better arm divided by ours, and the memory of that arm and ours. --cpu sets SLUICE_CPU for us.
An arm of MONAI's that takes longer than the limit, in seconds, counts as infinitely slow.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

from measures import raised

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
solid, flat = [2, 1, 64, 64, 64], [2, 1, 256, 256]
one, two = dict(in_channels=1, out_channels=2), dict(spatial_dims=2)
three = dict(spatial_dims=3)
halving = dict(channels=[16, 32, 64, 128], strides=[2, 2, 2])
judge = dict(in_shape=[1, 64, 64, 64], channels=[16, 32, 64], strides=[2, 2, 2])
resnets = dict(**three, n_input_channels=1, num_classes=2)

# name: our type, MONAI's class, its parameters, size. Ours have the same names, but for `renamed`.
renamed = dict(num_classes="out_channels", n_input_channels="in_channels", num_channels="in_channels")
NETS = {
    "unet brain": ("unet", "UNet", {**three, **one, "channels": [8, 16, 32, 64], "strides": [2, 2, 2],
                                    "num_res_units": 1}, solid),
    "unet spleen": ("unet", "UNet", {**three, **one, "channels": [16, 32, 64, 128, 256],
                                     "strides": [2, 2, 2, 2], "num_res_units": 2, "norm": "batch"},
                    [2, 1, 96, 96, 96]),
    "unet 2-D": ("unet", "UNet", {**two, **one, **halving, "num_res_units": 2}, flat),
    "dynunet": ("dynunet", "DynUNet", {**three, **one, "kernel_size": [3, 3, 3, 3], "strides": [1, 2, 2, 2],
                                       "upsample_kernel_size": [2, 2, 2]}, solid),
    "segresnet": ("segresnet", "SegResNet", {**three, **one, "init_filters": 16}, solid),
    "unetr": ("unetr", "UNETR", {**one, "img_size": [64, 64, 64]}, solid),
    "densenet121": ("densenet121", "DenseNet121", {**two, **one}, flat),
    "resnet18": ("resnet18", "resnet18", resnets, solid),
    "efficientnet": ("efficientnet", "EfficientNetBN", {**two, "in_channels": 1, "num_classes": 2, "pretrained": False,
                                                        "model_name": "efficientnet-b0"}, flat),
    "attention_unet": ("attention_unet", "AttentionUnet", {**three, **one, **halving}, solid),
    "basic_unet": ("basic_unet", "BasicUNet", {**three, **one}, solid),
    "segresnet_ds": ("segresnet_ds", "SegResNetDS", {**three, **one, "init_filters": 16}, solid),
    "segresnet_vae": ("segresnet_vae", "SegResNetVAE", {**one, "input_image_size": [64, 64, 64]}, solid),
    "vnet": ("vnet", "VNet", {**three, **one}, solid),
    "high_res_net": ("high_res_net", "HighResNet", {**three, **one}, solid),
    "vit": ("vit", "ViT", {"in_channels": 1, "img_size": [64, 64, 64], "patch_size": [16, 16, 16],
                           "classification": True, "num_classes": 2}, solid),
    "swin_unetr": ("swin_unetr", "SwinUNETR", {**one}, solid),
    "med_next": ("med_next", "MedNeXt", {**three, **one}, solid),
    "resnet10": ("resnet10", "resnet10", resnets, solid),
    "resnet50": ("resnet50", "resnet50", resnets, solid),
    "se_resnet50": ("se_resnet50", "SEResNet50", {**two, "in_channels": 1, "num_classes": 2}, flat),
    "classifier": ("classifier", "Classifier", {**judge, "classes": 2}, solid),
    "regressor": ("regressor", "Regressor", {**judge, "out_shape": [2]}, solid),
    "discriminator": ("discriminator", "Discriminator", judge, solid),
    "critic": ("critic", "Critic", judge, solid),
    "auto_encoder": ("auto_encoder", "AutoEncoder", {**three, **one, "channels": [16, 32, 64],
                                                    "strides": [2, 2, 2]}, solid),
    "autoencoder_kl": ("autoencoder_kl", "AutoencoderKL", {**two, "in_channels": 1, "out_channels": 1}, flat),
    "vqvae": ("vqvae", "VQVAE", {**two, "in_channels": 1, "out_channels": 1}, flat),
    "patch_discriminator": ("patch_discriminator", "PatchDiscriminator", {**two, "channels": 64, "in_channels": 1}, flat),
    "reg_unet": ("reg_unet", "RegUNet", {**three, "in_channels": 1, "num_channel_initial": 16, "depth": 3,
                                         "out_channels": 3}, solid),
    "flexible_unet": ("flexible_unet", "FlexibleUNet", {**two, **one, "backbone": "efficientnet-b0"}, flat),
    "ahnet": ("ahnet", "AHNet", {**three, **one}, [1, 1, 128, 128, 128]),
    "daf3d": ("daf3d", "DAF3D", {**one}, solid),
    "quicknat": ("quicknat", "Quicknat", {"num_classes": 2, "num_channels": 1}, flat),
    "hover_net": ("hover_net", "HoVerNet", {"in_channels": 3, "out_classes": 5}, [2, 3, 256, 256]),
}


def ours(job, cpu):
    env = {**os.environ, **({"SLUICE_CPU": cpu} if cpu else {})}
    text = subprocess.run([f"{root}/build/bench_network", json.dumps(job)], check=True, env=env,
                          capture_output=True, text=True).stdout
    return json.loads(text)


class Peer:
    """A process that has imported MONAI, before the first job, and forks for each."""
    def __init__(self, python):
        self.process = subprocess.Popen([python, __file__, "--serve"], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, env={**os.environ, **raised})
        self.process.stdout.readline()

    def __call__(self, job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        if "error" in result:
            print(f"{job['class']}: {result['error']}", file=sys.stderr)
        return result


def resident(which):
    for line in open("/proc/self/status"):
        if line.startswith(which):
            return int(line.split()[1]) / 1024


def peer_step(job):
    import time
    import torch
    from monai.networks import nets
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    net = getattr(nets, job["class"])(**job["params"]).train()
    size, layout = job["size"], torch.contiguous_format
    if job["last"]:
        layout = torch.channels_last_3d if len(size) == 5 else torch.channels_last
    net = net.to(memory_format=layout)
    n = 1
    for s in size:
        n *= s
    x = torch.sin(torch.arange(n, dtype=torch.float32)).reshape(size).contiguous(memory_format=layout)
    open("/proc/self/clear_refs", "w").write("5")
    before, times, cpu = resident("VmRSS"), [], 0
    for i in range(-1, job["steps"]):
        start, cpu_start = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=job["precision"] == "bfloat16"):
            y = net(x)
        # The last of a discriminator's features is what it says; else the first output.
        y = y[-1 if job["class"] == "PatchDiscriminator" else 0] if isinstance(y, (tuple, list)) else y
        y = next(iter(y.values())) if isinstance(y, dict) else y
        y.float().square().mean().backward()
        net.zero_grad(set_to_none=True)
        if i >= 0:
            times.append(1e3 * (time.perf_counter() - start))
            cpu += 1e3 * (time.process_time() - cpu_start)
    return {"min_ms": min(times), "median_ms": statistics.median(times), "cpu_ms": cpu / len(times),
            "peak_mb": resident("VmHWM") - before}


def serve():
    from monai.networks import nets  # noqa: F401  (before the first fork)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            job = json.loads(line)
            signal.alarm(job["limit"])
            try:
                print(json.dumps(peer_step(job)), flush=True)
            except Exception as e:
                print(json.dumps({"error": str(e)[:300]}), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print(json.dumps({"error": "it took too long, or was killed"}), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("types", nargs="*", default=list(NETS))
    p.add_argument("--precision", nargs="+", default=["float32", "bfloat16"])
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--cpu")
    p.add_argument("--limit", type=int, default=240)
    p.add_argument("--out")
    a = p.parse_args()
    peer, rows = Peer(a.python), []
    print("| network | precision | ours ms | MONAI's better ms | its layout | MONAI / ours | memory MB |\n|---|---|---|---|---|---|---|")
    for name in a.types or NETS:
        kind, cls, params, size = NETS[name]
        named = {renamed.get(k, k): v for k, v in params.items() if k != "pretrained"}
        for precision in a.precision:
            job = dict(size=size, precision=precision, steps=a.steps, threads=a.threads, limit=a.limit)
            arms = {"ours": [], "channels first": [], "channels last": []}
            for _ in range(a.repeats):
                arms["ours"].append(ours({**job, "type": kind, "params": named}, a.cpu))
                for last in (False, True):
                    arms["channels last" if last else "channels first"].append(
                        peer({**job, "class": cls, "params": params, "last": last}))
            rows.append(dict(name=name, precision=precision, arms=arms))
            ms = {k: statistics.median(r.get("median_ms", float("inf")) for r in v) for k, v in arms.items()}
            best = min(("channels first", "channels last"), key=ms.get)
            mb = [statistics.median(r.get("peak_mb", 0) for r in arms[k]) for k in ("ours", best)]
            print(f"| {name} | {precision} | {ms['ours']:.0f} | {ms[best]:.0f} | {best} | "
                  f"{ms[best] / ms['ours']:.2f} | {mb[0]:.0f} / {mb[1]:.0f} |", flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
