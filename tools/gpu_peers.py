"""PyTorch's side of gpu_check.py: what the machine can do at most, and its own way of doing what our
kernels do. Prints one JSON document:

    gpu_peers.py ceilings | peers | unet eager | unet channels-last | unet "compile, channels-last"
    gpu_peers.py small eager | small graph
"""
import json
import statistics
import sys


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


def monai_unet(channels=(32, 64, 128, 256, 320, 320), classes=3):
    """MONAI's UNet with two convolutions in a residual unit and strides of 2: our `unet`."""
    import torch
    from torch import nn

    def unit(a, b, n, stride=1, last=False):
        layers = []
        for i in range(n):
            layers.append(nn.Conv3d(b if i else a, b, 3, 1 if i else stride, 1))
            if not (last and i == n - 1):
                layers += [nn.InstanceNorm3d(b), nn.PReLU()]
        skip = (nn.Conv3d(a, b, 3, stride, 1) if stride > 1 else
                nn.Conv3d(a, b, 1) if a != b else nn.Identity())
        return nn.ModuleList([nn.Sequential(*layers), skip])

    def through(u, x):
        return u[0](x) + u[1](x)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            down = list(zip((1,) + channels, channels))
            self.down = nn.ModuleList(unit(a, b, 2, 2) for a, b in down[:-1])
            self.bottom = unit(channels[-2], channels[-1], 2)
            self.up, self.join = nn.ModuleList(), nn.ModuleList()
            for i, c in enumerate(channels[:-1]):
                below = channels[-1] if i == len(channels) - 2 else c
                out = channels[i - 1] if i else classes
                self.up.append(nn.Sequential(nn.ConvTranspose3d(c + below, out, 3, 2, 1, 1),
                                             nn.InstanceNorm3d(out), nn.PReLU()))
                self.join.append(unit(out, out, 1, last=i == 0))

        def forward(self, x):
            kept = []
            for d in self.down:
                x = through(d, x)
                kept.append(x)
            x = through(self.bottom, x)
            for i in reversed(range(len(kept))):
                x = through(self.join[i], self.up[i](torch.cat([kept[i], x], 1)))
            return x

    return UNet()


def device_gib():
    """What the driver counts, PyTorch's reserve and CUDA's own included."""
    import torch
    free, all_of_it = torch.cuda.mem_get_info()
    return (all_of_it - free) / 2**30


def recorded(step):
    """The whole step as one CUDA graph, as PyTorch's notes on CUDA graphs do it."""
    import torch
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def unet_step(how, seconds, size=128, batch=7):
    """A 3-D U-Net step, by default in MLPerf's shape: bf16 autocast, data on the GPU."""
    import torch
    import torch.nn.functional as F
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    net = monai_unet().cuda()
    x = torch.randn(batch, 1, size, size, size, device="cuda")
    y = torch.randint(0, 3, (batch, size, size, size), device="cuda")
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

    ms = median_ms(recorded(step) if how == "graph" else step, rounds=3, budget=seconds)
    return timed(f"3-D U-Net step, {size}^3, batch {batch}, bf16, {how}", ms,
                 samples_s=1000 * batch / ms,
                 peak_gib=torch.cuda.max_memory_allocated() / 2**30, device_gib=device_gib())


if __name__ == "__main__":
    what, *more = sys.argv[1:]
    parts = {"ceilings": ceilings, "peers": peers, "unet": lambda: unet_step(more[0], 2),
             "small": lambda: unet_step(more[0], 1, size=32, batch=2)}
    json.dump(parts[what](), sys.stdout)
