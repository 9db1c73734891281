"""PyTorch's side of gpu_check.py: what the machine can do at most, and its own way of doing what our
kernels do.

    gpu_peers.py ceilings | peers | unet HOW | small HOW | fast | predict | cores N PRECISION
                                 HOW: eager | channels-last | "compile, channels-last" | graph

Prints one line of JSON for each arm as soon as it is measured, so that one that fails (it says why)
or is cut off leaves the others. Without a GPU `peers` and `small` run tiny, to see that they do.
"""
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

gpu = torch.cuda.is_available()
device = "cuda" if gpu else "cpu"


def arm(name, measure, *args):
    """Prints what measure(*args) found, if anything, or why it could not."""
    try:
        found = measure(*args)
    except Exception as e:
        found = {"error": f"{type(e).__name__}: {e}"[:600]}
    if found:
        print(json.dumps({"name": name, **found}), flush=True)


def median_ms(launch, rounds=9, budget=0.02):
    """Of rounds of as many launches as take the budget, as bench_cuda does it."""
    def timed(n):
        if gpu:
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(n):
            launch()
        if gpu:
            torch.cuda.synchronize()
        return 1000 * (time.perf_counter() - began) / n

    if not gpu:
        return timed(2)
    timed(3)
    n = max(1, min(5000, int(budget * 1000 / max(timed(2), 1e-4))))
    return statistics.median(timed(n) for _ in range(rounds))


def ceilings():
    def put(name, measure):
        arm(name, lambda: {"value": measure()})

    put("gpu", torch.cuda.get_device_name)
    for name, value in {"torch": torch.__version__, "cuda": torch.version.cuda}.items():
        put(name, lambda: value)
    put("cudnn", torch.backends.cudnn.version)
    put("capability", lambda: list(torch.cuda.get_device_capability()))
    put("memory_gib",
        lambda: round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1))

    def link(n, to_device):
        host = torch.randint(0, 255, (n,), dtype=torch.uint8).pin_memory()
        there = torch.empty(n, dtype=torch.uint8, device="cuda")
        to, of = (there, host) if to_device else (host, there)
        return n / median_ms(lambda: to.copy_(of, non_blocking=True)) / 1e6

    for mib in (0.0039, 0.0625, 1, 4, 64, 256):
        put(f"h2d_gb_s_{mib:g}mib", lambda: link(int(mib * 2**20), True))
        put(f"d2h_gb_s_{mib:g}mib", lambda: link(int(mib * 2**20), False))

    def copy():
        a = torch.randint(0, 255, (2**31,), dtype=torch.uint8, device="cuda")
        b = torch.empty_like(a)
        return 2 * a.numel() / median_ms(lambda: b.copy_(a)) / 1e6

    put("d2d_gb_s_read_and_written", copy)

    def gemm():
        x, y = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        return 2 * 8192**3 / median_ms(lambda: torch.mm(x, y)) / 1e9

    put("gemm_bf16_8192_tflop_s", gemm)
    small = torch.zeros(1, device="cuda")
    put("launch_us", lambda: 1000 * median_ms(lambda: small.add_(1)))

    def replay():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(100):
                small.add_(1)
        return 10 * median_ms(graph.replay)

    put("graph_replay_us_per_node", replay)


def dice_ce(z, target):
    p, t = z.softmax(1), F.one_hot(target, 3).movedim(-1, 1).float()
    both, ps, ts = (p * t).sum((2, 3, 4)), p.sum((2, 3, 4)), t.sum((2, 3, 4))
    return (1 - (2 * both + 1e-5) / (ps + ts + 1e-5)).mean() + F.cross_entropy(z, target)


def optimizers(size):
    """Over the same 100 tensors as bench_cuda."""
    sizes = [27 * 256 * (32 + i) if i % 4 == 0 else 256 + i for i in range(100)]
    weights = [torch.randn(n, device=device, requires_grad=True) for n in sizes]
    for w in weights:
        w.grad = torch.randn_like(w)

    def measure(make, **how):
        optimizer = make(weights, 1e-4, **how)

        def step():
            torch.nn.utils.clip_grad_norm_(weights, 1e9, foreach=True)
            optimizer.step()

        return {"ms": median_ms(step)}

    for how in ("foreach", "fused"):
        arm(f"Adam, {how}, clipping to a norm", lambda: measure(torch.optim.Adam, **{how: True}))
        arm(f"SGD, {how}, clipping to a norm",
            lambda: measure(torch.optim.SGD, momentum=.9, **{how: True}))


def losses(size):
    """DiceCE of 7 x 3 x 128^3."""
    logits = torch.randn(7, 3, size, size, size, device=device, requires_grad=True)
    target = torch.randint(0, 3, (7, size, size, size), device=device)

    def measure(f):
        def both():
            logits.grad = None
            f(logits, target).backward()

        return {"ms": median_ms(both)}

    arm("DiceCE forward and backward, eager", measure, dice_ce)
    arm("DiceCE forward and backward, compile",
        lambda: measure(torch.compile(dice_ce, dynamic=False)))


def resampler(size):
    """grid_sample of random points, as bench_image_filters' pull."""
    size = 96 if gpu else size
    image = torch.rand(1, 1, size, size, size, device=device)
    grid = torch.rand(1, size, size, size, 3, device=device) * 2 - 1
    for order, mode in enumerate(("nearest", "bilinear")):
        arm(f"pull 96 order {order}, grid_sample", lambda: {"ms": median_ms(
            lambda: F.grid_sample(image, grid, mode=mode, align_corners=True))})


def norm_activation(size):
    """7 x 128^3 x 32 in bf16."""
    weight, bias = torch.rand(32, device=device) + .5, torch.rand(32, device=device)

    def norm(x):
        return F.leaky_relu(F.instance_norm(x, weight=weight.to(x.dtype), bias=bias.to(x.dtype)))

    def measure(how, layout, backward):
        f = norm if how == "eager" else torch.compile(norm, dynamic=False)
        x = torch.randn(7, 32, size, size, size, device=device, dtype=torch.bfloat16)
        if layout == "channels-last":
            x = x.to(memory_format=torch.channels_last_3d)
        grad = torch.randn_like(x)
        x.requires_grad_()

        def both():
            x.grad = None
            f(x).backward(grad)

        forward = median_ms(lambda: f(x))
        return {"ms": median_ms(both) - forward if backward else forward}

    for how in ("eager", "compile"):
        for layout in ("contiguous", "channels-last"):
            arm(f"norm + activation forward, {layout}, {how}", measure, how, layout, False)
            arm(f"norm + activation backward, {layout}, {how}", measure, how, layout, True)


def augmentation(size):
    """As a batch on the GPU: what MONAI's and kornia's GPU paths come down to."""
    taps = torch.tensor([.0044, .054, .242, .3992, .242, .054, .0044], device=device)

    def affine(volume, label, theta):
        grid = F.affine_grid(theta, list(volume.shape), align_corners=False)
        return (F.grid_sample(volume, grid, "bilinear", "border", align_corners=False),
                F.grid_sample(label, grid, "nearest", "border", align_corners=False))

    def chain(volume, label, theta):
        x, y = affine(volume, label, theta)
        x = x + .1 * torch.randn_like(x)
        for shape in ((7, 1, 1), (1, 7, 1), (1, 1, 7)):
            x = F.conv3d(x, taps.view(1, 1, *shape), padding=[s // 2 for s in shape])
        x = x * 1.1
        low, high = x.amin((2, 3, 4), True), x.amax((2, 3, 4), True)
        mean = x.mean((2, 3, 4), keepdim=True)
        x = torch.maximum(torch.minimum((x - mean) * 1.2 + mean, high), low)
        x = F.interpolate(F.interpolate(x, (size * 90 // 128,) * 3, mode="nearest"), (size,) * 3,
                          mode="trilinear")
        low, high = x.amin((2, 3, 4), True), x.amax((2, 3, 4), True)
        mean, std = x.mean((2, 3, 4), keepdim=True), x.std((2, 3, 4), keepdim=True)
        z = ((x - low) / (high - low + 1e-7)) ** 1.3 * (high - low) + low
        z = (z - z.mean((2, 3, 4), keepdim=True)) / (z.std((2, 3, 4), keepdim=True) + 1e-8)
        return (z * std + mean).bfloat16(), y.byte()

    def measure(f, batch):
        volume = torch.randn(batch, 1, size, size, size, device=device)
        label = torch.randint(0, 3, (batch, 1, size, size, size), device=device).float()
        theta = torch.tensor([[[.98, -.2, 0, 0], [.2, .98, .1, 0], [0, -.1, 1.1, 0]]] * batch,
                             device=device)
        return {"ms": median_ms(lambda: f(volume, label, theta)) / batch, "per": batch}

    for batch in (8, 2):
        arm(f"augment: affine, eager, batch {batch}", measure, affine, batch)
        arm(f"augment: nnU-Net's chain, eager, batch {batch}", measure, chain, batch)
    for batch in (8, 2):
        arm(f"augment: nnU-Net's chain, compile, batch {batch}",
            lambda: measure(torch.compile(chain, dynamic=False), batch))


def thin_convolutions(size):
    """The U-Net's with few channels, 7 x 128^3 in bf16: whether padding to 8 channels, or the two
    of a residual unit as one, would pay."""
    def measure(kind, a, b, side, layout=torch.channels_last_3d, **how):
        conv = kind(a, b, 3, padding=1, bias=False, device=device, dtype=torch.bfloat16, **how)
        x = torch.randn(7, a, side, side, side, device=device, dtype=torch.bfloat16)
        if layout:
            conv, x = conv.to(memory_format=layout), x.to(memory_format=layout)
        if a > 1:
            x.requires_grad_()
        grad = torch.randn_like(conv(x))
        return {"ms": median_ms(lambda: conv(x).backward(grad))}

    up = {"stride": 2, "output_padding": 1}
    for name, *what, how in (
            ("1 to 32, stride 2", nn.Conv3d, 1, 32, size, {"stride": 2}),
            ("1 to 32, stride 2, contiguous", nn.Conv3d, 1, 32, size, {"stride": 2, "layout": None}),
            ("1 to 64, stride 2", nn.Conv3d, 1, 64, size, {"stride": 2}),
            ("3 to 3", nn.Conv3d, 3, 3, size, {}), ("8 to 8", nn.Conv3d, 8, 8, size, {}),
            ("64 to 3, transposed", nn.ConvTranspose3d, 64, 3, size // 2, up),
            ("64 to 8, transposed", nn.ConvTranspose3d, 64, 8, size // 2, up)):
        arm(f"convolution {name}, forward and backward", lambda: measure(*what, **how))


def peers():
    for group in (optimizers, losses, norm_activation, augmentation, resampler, thin_convolutions):
        arm(group.__name__, group, 128 if gpu else 8)


class UNet(nn.Module):
    """MLPerf's 3-D U-Net, as graphs/unet_speed.json has it: our `dynunet`."""

    def __init__(self, channels, classes=3):
        super().__init__()
        self.down = nn.ModuleList(self.block(a, b, 2 if i else 1)
                                  for i, (a, b) in enumerate(zip((1,) + channels, channels)))
        pairs = list(zip(channels, channels[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2, bias=False) for a, b in pairs)
        self.join = nn.ModuleList(self.block(2 * a, a) for a, _ in pairs)
        self.out = nn.Conv3d(channels[0], classes, 1)

    @staticmethod
    def block(a, b, stride=1):
        def unit(a, stride):
            return (nn.Conv3d(a, b, 3, stride, 1, bias=False), nn.InstanceNorm3d(b, affine=True),
                    nn.ReLU(inplace=True))

        return nn.Sequential(*unit(a, stride), *unit(b, 1))

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        for up, join, k in reversed(list(zip(self.up, self.join, kept))):
            x = join(torch.cat([up(x), k], 1))
        return self.out(x)


def recorded(step):
    """The whole step as one CUDA graph, as PyTorch's notes on CUDA graphs do it."""
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


def unet_step(how, seconds, size, batch, channels, precision="bfloat16"):
    """A 3-D U-Net step, in bfloat16 by autocast; data where the step is."""
    net = UNet(channels).to(device)
    x = torch.randn(batch, 1, size, size, size, device=device)
    y = torch.randint(0, 3, (batch, size, size, size), device=device)
    if "channels-last" in how:
        net, x = net.to(memory_format=torch.channels_last_3d), x.to(
            memory_format=torch.channels_last_3d)

    def loss(x, y):
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            z = net(x)
        return dice_ce(z.float(), y)

    optimizer = torch.optim.SGD(net.parameters(), .01, .9, fused=True)
    compiled = torch.compile(loss, dynamic=False) if "compile" in how else loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        compiled(x, y).backward()
        optimizer.step()

    ms = median_ms(recorded(step) if how == "graph" else step, rounds=3, budget=seconds)
    found = {"ms": ms, "samples_s": 1000 * batch / ms}
    if gpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        free, all_of_it = torch.cuda.mem_get_info()  # the driver's: reserved and CUDA's own too
        found["device_gib"] = (all_of_it - free) / 2**30
    return found


def windows(how, size=192, volumes=8, roi=96, channels=(32, 64, 128, 256)):
    """MONAI's sliding_window_inference in bfloat16, volumes on the GPU; gpu_check.py's prediction() is the same."""
    from monai.inferers import sliding_window_inference
    from monai.networks.nets import UNet as MonaiUNet

    net = MonaiUNet(3, 1, 3, channels, (2,) * (len(channels) - 1), num_res_units=2, norm="batch").to(device).eval()
    images = torch.rand(volumes, 1, 1, size, size, size, device=device)
    if how == "channels-last":
        net = net.to(memory_format=torch.channels_last_3d)

    def predict():
        with torch.inference_mode(), torch.autocast(device, torch.bfloat16):
            for image in images:
                sliding_window_inference(image, roi, 4, net, 0.5, "gaussian").argmax(1)

    return {"samples_s": 1000 * volumes / median_ms(predict, rounds=3)}


def fast_recipe(volumes=32, size=128, patch=64, epochs=20):
    """MONAI's own code for what graphs/fast_integration.json trains: its integration test of fast training, with
    volumes and their transforms on the GPU and without what its best settings leave out (metadata)."""
    import numpy
    from monai.data import CacheDataset, ThreadDataLoader, create_test_image_3d
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet as MonaiUNet
    from monai.optimizers import Novograd
    import monai.transforms as t

    state, keys = numpy.random.RandomState(0), ["image", "label"]
    data = []
    for _ in range(volumes):
        image, label = create_test_image_3d(size, size, size, num_seg_classes=1, rad_max=size // 5, random_state=state)
        data.append({"image": image[None].astype("float32"), "label": label[None].astype("uint8")})
    chain = t.Compose([
        t.EnsureTyped(keys, track_meta=False), t.ScaleIntensityd("image"), t.CropForegroundd(keys, "image"),
        t.FgBgToIndicesd("label", image_key="image"), t.ToDeviced(keys, device),
        t.RandCropByPosNegLabeld(keys, "label", (patch,) * 3, num_samples=4, fg_indices_key="label_fg_indices",
                                 bg_indices_key="label_bg_indices"),
        t.RandFlipd(keys, 0.5, [1, 2]), t.RandAxisFlipd(keys, 0.5), t.RandRotate90d(keys, 0.5, spatial_axes=(1, 2)),
        t.RandZoomd(keys, 0.5, 0.8, 1.2, mode=["trilinear", "nearest"]),
        t.RandRotated(keys, range_x=torch.pi / 4, prob=0.5, mode=["bilinear", "nearest"], align_corners=True),
        t.RandAffined(keys, prob=0.5, rotate_range=torch.pi / 2, mode=["bilinear", "nearest"]),
        t.RandGaussianNoised("image", 0.5), t.RandStdShiftIntensityd("image", 0.05, prob=0.5, nonzero=True),
        t.SelectItemsd(keys)])
    loader = ThreadDataLoader(CacheDataset(data, chain, progress=False, copy_cache=False), num_workers=0, batch_size=4,
                              shuffle=True)
    net = MonaiUNet(3, 1, 2, (16, 32, 64, 128, 256), (2, 2, 2, 2), num_res_units=2, norm="batch").to(device)
    loss_of = DiceCELoss(to_onehot_y=True, softmax=True, squared_pred=True, batch=True)
    optimizer = Novograd(net.parameters(), 2e-3)

    def epoch():
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16):
                loss = loss_of(net(batch["image"].to(device)), batch["label"].to(device))
            loss.backward()
            optimizer.step()
        return float(loss)  # waits for the GPU

    for _ in range(3):
        last = epoch()
    began = time.perf_counter()
    for _ in range(epochs):
        last = epoch()
    return {"samples_s": volumes * epochs / (time.perf_counter() - began), "loss": last}


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    what, *more = sys.argv[1:]
    if what == "unet":  # MLPerf's
        arm(f"3-D U-Net step, {more[0]}", unet_step, more[0], 2, 128, 7,
            (32, 64, 128, 256, 320, 320))
    elif what == "small":
        arm(f"small step, {more[0]}", unet_step, more[0], 1, 64, 1, (8, 16, 32, 64, 80, 80))
    elif what == "predict":
        for how in ("eager", "channels-last"):
            arm(f"windows, MONAI, {how}", windows, how)
    elif what == "fast":
        arm("MONAI's fast recipe, MONAI", fast_recipe)
    elif what == "cores":  # of the CPU; gpu_check.py's CORES
        gpu, device = False, "cpu"
        torch.set_num_threads(int(more[0]))
        arm(" ".join(more), unet_step, "channels-last", 0.5, 64, 2, (8, 16, 32, 64, 80, 80), more[1])
    else:
        {"ceilings": ceilings, "peers": peers}[what]()
