"""What gpu_check.sh runs. One JSON document: ceilings, tests, sanitizer, ours, peers, ratios.

Every step has a limit of its own and the whole has one; a step that fails or does not get its turn
says so in the document and the others go on. Exit status 1 where a test or the sanitizer failed.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

began = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - began:5.0f} s] {text}", file=sys.stderr, flush=True)


def run(command, limit, env=None):
    """(status, stdout, stderr); status "timeout" where it took too long, "missing" without it."""
    try:
        p = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=env,
                           errors="replace")
        return p.returncode, p.stdout, p.stderr
    except subprocess.TimeoutExpired:
        return "timeout", "", f"stopped after {limit:.0f} s"
    except OSError as e:
        return "missing", "", str(e)


# ---- what runs in processes of its own, with torch ----------------------------------------------

def median_ms(launch, rounds=9, budget=0.02):
    import torch
    for _ in range(3):
        launch()
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def timed(n):
        a.record()
        for _ in range(n):
            launch()
        b.record()
        b.synchronize()
        return a.elapsed_time(b) / n

    n = max(1, min(5000, int(budget * 1000 / max(timed(2), 1e-4))))
    return statistics.median(timed(n) for _ in range(rounds))


def ceilings():
    import torch
    out = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
           "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
           "capability": list(torch.cuda.get_device_capability()),
           "memory_gib": round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)}
    for mib in (0.0039, 0.0625, 1, 4, 64, 256):
        n = int(mib * 2**20)
        host = torch.randint(0, 255, (n,), dtype=torch.uint8).pin_memory()
        there = torch.empty(n, dtype=torch.uint8, device="cuda")
        out[f"h2d_gb_s_{mib:g}mib"] = n / median_ms(lambda: there.copy_(host, non_blocking=True)) / 1e6
        out[f"d2h_gb_s_{mib:g}mib"] = n / median_ms(lambda: host.copy_(there, non_blocking=True)) / 1e6
    a = torch.randint(0, 255, (2**31,), dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    out["d2d_gb_s_read_and_written"] = 2 * a.numel() / median_ms(lambda: b.copy_(a)) / 1e6
    del a, b
    x, y = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    out["gemm_bf16_8192_tflop_s"] = 2 * 8192**3 / median_ms(lambda: torch.mm(x, y)) / 1e9
    small = torch.zeros(1, device="cuda")
    out["launch_us"] = 1000 * median_ms(lambda: small.add_(1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(100):
            small.add_(1)
    out["graph_replay_us_per_node"] = 10 * median_ms(graph.replay)
    return out


def timed(name, ms, **more):
    return {"name": name, "ms": ms, **more}


def peers():
    import torch
    import torch.nn.functional as F
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    out = []

    # Augmentation, as a batch on the GPU: what MONAI's and kornia's GPU paths come down to.
    for batch in (2, 8):
        volume = torch.randn(batch, 1, 128, 128, 128, device="cuda")
        label = torch.randint(0, 3, (batch, 1, 128, 128, 128), device="cuda").float()
        theta = torch.tensor([[[.98, -.2, 0, 0], [.2, .98, .1, 0], [0, -.1, 1.1, 0]]] * batch,
                             device="cuda")
        taps = torch.tensor([.0044, .054, .242, .3992, .242, .054, .0044], device="cuda")

        def affine():
            grid = F.affine_grid(theta, list(volume.shape), align_corners=False)
            return (F.grid_sample(volume, grid, "bilinear", "border", align_corners=False),
                    F.grid_sample(label, grid, "nearest", "border", align_corners=False))

        def chain():
            x, y = affine()
            x = x + .1 * torch.randn_like(x)
            for shape in ((7, 1, 1), (1, 7, 1), (1, 1, 7)):
                x = F.conv3d(x, taps.view(1, 1, *shape), padding=[s // 2 for s in shape])
            x = x * 1.1
            low, high = x.amin((2, 3, 4), True), x.amax((2, 3, 4), True)
            mean = x.mean((2, 3, 4), keepdim=True)
            x = torch.maximum(torch.minimum((x - mean) * 1.2 + mean, high), low)
            x = F.interpolate(F.interpolate(x, (90, 90, 90), mode="nearest"), (128, 128, 128),
                              mode="trilinear")
            low, high = x.amin((2, 3, 4), True), x.amax((2, 3, 4), True)
            mean, std = x.mean((2, 3, 4), keepdim=True), x.std((2, 3, 4), keepdim=True)
            z = ((x - low) / (high - low + 1e-7)) ** 1.3 * (high - low) + low
            z = (z - z.mean((2, 3, 4), keepdim=True)) / (z.std((2, 3, 4), keepdim=True) + 1e-8)
            return (z * std + mean).bfloat16(), y.byte()

        arms = {"affine, eager": affine, "nnU-Net's chain, eager": chain,
                "nnU-Net's chain, compile": torch.compile(chain, dynamic=False)}
        for name, f in arms.items():
            out.append(timed(f"augment: {name}, batch {batch}", median_ms(f) / batch, per=batch))

    # Norm and activation, 7 x 128^3 x 32 in bf16.
    weight, bias = torch.rand(32, device="cuda") + .5, torch.rand(32, device="cuda")
    for layout in ("contiguous", "channels-last"):
        x = torch.randn(7, 32, 128, 128, 128, device="cuda", dtype=torch.bfloat16)
        if layout == "channels-last":
            x = x.to(memory_format=torch.channels_last_3d)
        grad = torch.randn_like(x)
        x.requires_grad_()

        def norm(x):
            return F.leaky_relu(F.instance_norm(x, weight=weight.to(x.dtype), bias=bias.to(x.dtype)))

        for how in ("eager", "compile"):
            f = norm if how == "eager" else torch.compile(norm, dynamic=False)
            forward = median_ms(lambda: f(x))

            def both():
                x.grad = None
                f(x).backward(grad)

            total = median_ms(both)
            out.append(timed(f"norm + activation forward, {layout}, {how}", forward))
            out.append(timed(f"norm + activation backward, {layout}, {how}", total - forward))
        del x, grad

    # DiceCE, 7 x 3 x 128^3.
    logits = torch.randn(7, 3, 128, 128, 128, device="cuda", requires_grad=True)
    target = torch.randint(0, 3, (7, 128, 128, 128), device="cuda")

    def dice_ce(z):
        p, t = z.softmax(1), F.one_hot(target, 3).movedim(-1, 1).float()
        both, ps, ts = (p * t).sum((2, 3, 4)), p.sum((2, 3, 4)), t.sum((2, 3, 4))
        return (1 - (2 * both + 1e-5) / (ps + ts + 1e-5)).mean() + F.cross_entropy(z, target)

    for how in ("eager", "compile"):
        f = dice_ce if how == "eager" else torch.compile(dice_ce, dynamic=False)

        def both():
            logits.grad = None
            f(logits).backward()

        out.append(timed(f"DiceCE forward and backward, {how}", median_ms(both)))
    del logits, target

    # Optimizers over the same 100 tensors as bench_cuda.
    sizes = [27 * 256 * (32 + i) if i % 4 == 0 else 256 + i for i in range(100)]
    weights = [torch.randn(n, device="cuda", requires_grad=True) for n in sizes]
    for w in weights:
        w.grad = torch.randn_like(w)
    for name, make in {
            "Adam, foreach": lambda: torch.optim.Adam(weights, foreach=True),
            "Adam, fused": lambda: torch.optim.Adam(weights, fused=True),
            "SGD, foreach": lambda: torch.optim.SGD(weights, 1e-4, .9, foreach=True),
            "SGD, fused": lambda: torch.optim.SGD(weights, 1e-4, .9, fused=True)}.items():
        optimizer = make()

        def step():
            torch.nn.utils.clip_grad_norm_(weights, 1e9, foreach=True)
            optimizer.step()

        out.append(timed(f"{name}, clipping to a norm", median_ms(step)))
    return out


def unet_step(how, seconds):
    """MLPerf's 3-D U-Net step: 128^3, batch 7, bf16 autocast, data on the GPU."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True

    class Block(nn.Sequential):
        def __init__(self, a, b, stride=1):
            layers = []
            for i, o, s in ((a, b, stride), (b, b, 1)):
                layers += [nn.Conv3d(i, o, 3, s, 1, bias=False), nn.InstanceNorm3d(o, affine=True),
                           nn.ReLU(inplace=True)]
            super().__init__(*layers)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            c = (32, 64, 128, 256, 320, 320)
            self.down = nn.ModuleList([Block(1, 32)] + [Block(a, b, 2) for a, b in zip(c, c[1:])])
            self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(c, c[1:]))
            self.join = nn.ModuleList(Block(2 * a, a) for a in c[:-1])
            self.out = nn.Conv3d(32, 3, 1)

        def forward(self, x):
            kept = []
            for d in self.down:
                x = d(x)
                kept.append(x)
            for i in reversed(range(5)):
                x = self.join[i](torch.cat([self.up[i](x), kept[i]], 1))
            return self.out(x)

    net = UNet().cuda()
    x = torch.randn(7, 1, 128, 128, 128, device="cuda")
    y = torch.randint(0, 3, (7, 128, 128, 128), device="cuda")
    if "channels-last" in how:
        net, x = net.to(memory_format=torch.channels_last_3d), x.to(
            memory_format=torch.channels_last_3d)
    model = torch.compile(net) if "compile" in how else net
    optimizer = torch.optim.SGD(net.parameters(), .1, .9, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            z = model(x)
        z = z.float()
        p, t = z.softmax(1), F.one_hot(y, 3).movedim(-1, 1).float()
        both, ps, ts = (p * t).sum((2, 3, 4)), p.sum((2, 3, 4)), t.sum((2, 3, 4))
        loss = (1 - (2 * both + 1e-5) / (ps + ts + 1e-5)).mean() + F.cross_entropy(z, y)
        loss.backward()
        optimizer.step()

    ms = median_ms(step, rounds=3, budget=seconds)
    return timed(f"3-D U-Net step, 128^3, batch 7, bf16, {how}", ms, samples_s=7000 / ms,
                 peak_gib=torch.cuda.max_memory_allocated() / 2**30)


# ---- the check ----------------------------------------------------------------------------------

class Check:
    def __init__(self, args):
        self.args, self.out, self.failed = args, {}, []

    def left(self, limit):
        return min(limit, self.args.seconds - (time.monotonic() - began))

    def part(self, what, limit, *more):
        """A function of this file in a process of its own: {"error": ...} where it failed."""
        limit = self.left(limit)
        if limit < 5:
            return {"error": "no time left"}
        code, out, err = run([sys.executable, __file__, "--part", what, *more], limit)
        try:
            return json.loads(out) if code == 0 else {"error": f"{code}: {err.strip()[-600:]}"}
        except ValueError:
            return {"error": "no JSON: " + out[-300:]}

    def tests(self, program, limit, *prefix):
        limit = self.left(limit)
        if limit < 5:
            return {"error": "no time left"}
        code, out, err = run([*prefix, os.path.join(self.args.bin, program)], limit)
        text = out + err
        cases = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", text)
        result = {"status": code, "launched": "nothing was launched" not in text}
        if cases:
            result.update(zip(("cases", "passed", "failed"), map(int, cases.groups())))
        sanitizer = re.search(r"ERROR SUMMARY: (\d+) error", text)
        if sanitizer:
            result["sanitizer_errors"] = int(sanitizer.group(1))
        if code != 0 and code != "timeout" and code != "missing":
            self.failed.append(" ".join([*(os.path.basename(p) for p in prefix), program]))
            result["end_of_output"] = text[-1500:]
        return result

    def environment(self):
        env = dict(os.environ)
        try:
            import torch
            lib = os.path.join(os.path.dirname(torch.__file__), "lib")
            env["TORCH_LIB"] = lib
            env["LD_LIBRARY_PATH"] = os.pathsep.join(
                [self.args.bin, os.path.join(self.args.bin, "lib"), lib,
                 env.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
        except ImportError:
            pass
        return env

    def program(self):
        """The binary itself: does it start, load its runtime, and run a graph end to end?"""
        starter = os.path.join(self.args.bin, "run.sh")
        start = [starter] if os.path.exists(starter) else [os.path.join(self.args.bin, "sluice")]
        env = self.environment()
        env["PYTHON"] = sys.executable
        graph = next((g for g in (os.path.join(self.args.bin, "graphs/fast_integration.json"),
                                  os.path.join(self.args.bin, "../graphs/fast_integration.json"))
                      if os.path.exists(g)), None)
        code, out, err = run(start + ["doctor", "--json"], self.left(60), env)
        result = {"doctor": json.loads(out) if out.startswith(("{", "[")) else {"error": err[-400:]}}
        if "TORCH_LIB" not in env:
            result["profile"] = {"error": "no torch in " + sys.executable}
            return result
        limit = self.left(75)
        if graph and limit > 20:
            code, out, err = run(start + ["profile", graph, "--seconds", "15", "--json"], limit, env)
            result["profile"] = json.loads(out) if code == 0 and out.startswith("{") else {
                "error": f"{code}: {err.strip()[-600:]}"}
            if code not in (0, "timeout"):
                self.failed.append("sluice profile")
        return result

    def without_gpu(self, why):
        print(f"gpu_check: no GPU is checked here ({why}); the kernels run on a device that the "
              "host plays", file=sys.stderr)
        self.out["gpu"] = None
        self.out["why"] = why
        self.out["library"] = self.tests("cuda_tests", 60)
        self.out["emulated"] = self.tests("emulated_cuda_tests", 240)
        say(f"emulated: {self.out['emulated']}")
        self.out["program"] = self.program()

    def with_gpu(self):
        say("ceilings")
        self.out["ceilings"] = self.part("ceilings", 60)
        say("every kernel against its functor")
        self.out["tests"] = self.tests("cuda_tests", 60)
        say(f"{self.out['tests']}")
        say("our benchmarks")
        code, out, err = run([os.path.join(self.args.bin, "bench_cuda")], self.left(60))
        self.out["ours"] = json.loads(out) if code == 0 else {"error": f"{code}: {err[-400:]}"}
        say("PyTorch's")
        self.out["peers"] = self.part("peers", 120)
        sanitizer = shutil.which("compute-sanitizer") or next(
            (p for p in ("/usr/local/cuda/bin/compute-sanitizer",) if os.path.exists(p)), None)
        for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
            say(f"compute-sanitizer {tool}")
            self.out[tool] = {"error": "no compute-sanitizer"} if not sanitizer else self.tests(
                "cuda_tests", 60 if tool == "memcheck" else 35, sanitizer, "--tool", tool,
                "--error-exitcode", "9")
        say("the program")
        self.out["program"] = self.program()
        self.out["unet"] = []
        for how, limit in (("eager", 45), ("channels-last", 45), ("compile, channels-last", 110)):
            say(f"U-Net step, {how}")
            self.out["unet"].append(self.part("unet", limit, how))

    def ratios(self):
        """Ours beside PyTorch's best arm and the ceiling, where both ran."""
        ours, peers = self.out.get("ours"), self.out.get("peers")
        if not isinstance(ours, list) or not isinstance(peers, list):
            return
        copy = self.out["ceilings"].get("d2d_gb_s_read_and_written")
        mine = {o["name"]: o["ms"] for o in ours}
        mine["DiceCE forward and backward"] = sum(v for k, v in mine.items() if "DiceCE" in k)
        for key, fragments in {
                "augment: crop, flips, affine, batch 8": ("augment: affine", "batch 8"),
                "augment: nnU-Net's chain, all on, batch 8": ("augment: nnU-Net", "batch 8"),
                "norm + activation backward, 7x128^3x32 bf16": ("norm + activation backward",),
                "DiceCE forward and backward": ("DiceCE",), "Adam, 100 tensors": ("Adam",),
                "SGD, 100 tensors": ("SGD",)}.items():
            arms = [p for p in peers if all(f in p["name"] for f in fragments)]
            if arms and key in mine:
                best = min(arms, key=lambda p: p["ms"])
                self.out.setdefault("ratios", []).append(
                    {"name": key, "ms": mine[key], "peer": best["name"], "peer_ms": best["ms"],
                     "ratio": best["ms"] / mine[key]})
        for o in ours:
            if copy and "augment" not in o["name"]:
                o["of_copy"] = o["gb_s"] / copy

    def finish(self):
        self.ratios()
        self.out["seconds"] = time.monotonic() - began
        self.out["failed"] = self.failed
        with open(self.args.out, "w") as f:
            json.dump(self.out, f, indent=1)
        for r in self.out.get("ratios", []):
            print(f"{r['name']:50} {r['ms']:9.4f} ms   {r['peer_ms']:9.4f} ms   {r['ratio']:6.2f} x"
                  f"   {r['peer']}")
        print(f"{self.args.out}: " + ("failed: " + ", ".join(self.failed) if self.failed
                                      else "nothing failed"))
        return 1 if self.failed else 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin")
    p.add_argument("--out", default="gpu_check.json")
    p.add_argument("--seconds", type=float, default=450)
    p.add_argument("--part", nargs="+")
    args = p.parse_args()
    if args.part:
        what, *more = args.part
        parts = {"ceilings": ceilings, "peers": peers, "unet": lambda: unet_step(more[0], 2)}
        json.dump(parts[what](), sys.stdout)
        return 0
    check = Check(args)
    try:
        import torch
        why = None if torch.cuda.is_available() else f"torch {torch.__version__} sees none"
    except ImportError:
        why = f"{sys.executable} has no torch"
    if why:
        check.without_gpu(why)
    else:
        check.with_gpu()
    return check.finish()


if __name__ == "__main__":
    sys.exit(main())
