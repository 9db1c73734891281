"""Writes unet.json, segresnet.json and optimizers.json: what MONAI 1.6.1 and torch 2.11 answer.

Run with a Python that has both; the results are kept in the repository:
    python tests/golden/make_train.py
Weights and inputs are filled with sines, so that no random generator has to agree.
"""
import json
import math
import pathlib

import torch
from monai.networks.nets import SegResNet, UNet
from monai.optimizers import Novograd

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def sines(shape, first=0, scale=1.0):
    n = math.prod(shape)
    k = torch.arange(first, first + n, dtype=torch.float64)
    return (scale * torch.sin(k)).float().reshape(shape)


def fill(net):
    k = 1
    for p in net.parameters():
        p.data = sines(p.shape, k, 0.1)
        k += p.numel()
    k = 1
    for name, b in net.named_buffers():
        if b.dtype != torch.float32:
            continue
        b.data = sines(b.shape, k, 0.1) if name.endswith("mean") else 1 + sines(b.shape, k, 0.5)
        k += b.numel()


def floats(t):
    return [float(f"{v:.8g}") for v in t.double().flatten().tolist()]


def unet_case(args, size=None, train=True, cls=UNet):
    net = cls(**args)
    case = dict(args=args, count=sum(p.numel() for p in net.parameters()),
                parameters=[n for n, _ in net.named_parameters()],
                buffers=[n for n, _ in net.named_buffers()])
    if size:
        fill(net)
        net.train(train)
        x = sines([2, args["in_channels"], *size]).requires_grad_()
        y = net(x)
        case.update(size=size, train=train, sum=y.double().sum().item(), abs=y.double().abs().sum().item(),
                    first=floats(y.detach().flatten()[:24]))
        (y * sines(y.shape, 5)).sum().backward()
        case["grads"] = [float(f"{p.grad.double().norm().item():.8g}") for p in net.parameters()]
        case["input_grad"] = float(f"{x.grad.double().norm().item():.8g}")
        case["running"] = [float(f"{b.double().sum().item():.8g}") for b in net.buffers()]
    return case


def unets():
    d = dict(spatial_dims=3, in_channels=1, out_channels=2)
    five = dict(channels=[16, 32, 64, 128, 256], strides=[2, 2, 2, 2])
    hippo = dict(spatial_dims=3, in_channels=1, out_channels=3, channels=[16, 32, 64], strides=[2, 2],
                 num_res_units=1)
    flat = dict(spatial_dims=2, in_channels=1, out_channels=1, channels=[8, 16, 32], strides=[2, 2],
                num_res_units=2)
    return [
        unet_case({**d, **five, "num_res_units": 2, "norm": "BATCH"}),
        unet_case({**d, "channels": [32, 64, 128, 256, 512], "strides": [2] * 4, "num_res_units": 2,
                   "norm": "BATCH", "dropout": 0.2}),
        unet_case({**d, "out_channels": 1, **five, "num_res_units": 2}),
        unet_case({**flat, "channels": [16, 32, 64, 128, 256], "strides": [2] * 4}),
        unet_case(flat, [12, 16]),
        unet_case(hippo, [8, 12, 8]),
        unet_case({**hippo, "norm": "BATCH"}, [8, 12, 8]),
        unet_case({**hippo, "norm": "BATCH"}, [8, 12, 8], train=False),
        unet_case({**d, "channels": [6, 10], "strides": [2], "bias": False, "act": "RELU"}, [6, 8, 6]),
        unet_case({**d, "in_channels": 3, "channels": [4, 8, 8], "strides": [[2, 2, 1], [2, 1, 2]],
                   "kernel_size": [3, 3, 1], "up_kernel_size": [3, 3, 5], "adn_ordering": "AN",
                   "act": "LEAKYRELU", "num_res_units": 3}, [8, 8, 6]),
    ]


def segresnets():
    brats = dict(spatial_dims=3, init_filters=16, in_channels=4, out_channels=3, dropout_prob=0.2,
                 blocks_down=[1, 2, 2, 4], blocks_up=[1, 1, 1])
    small = dict(spatial_dims=3, init_filters=8, in_channels=2, out_channels=3, blocks_down=[1, 2],
                 blocks_up=[1])
    flat = dict(spatial_dims=2, init_filters=8, in_channels=1, out_channels=2)
    return [unet_case(brats, cls=SegResNet), unet_case(small, [6, 8, 4], cls=SegResNet),
            unet_case(flat, [16, 8], cls=SegResNet)]


def optimizers():
    out = []

    def add(name, make, **params):
        ps = [sines([3, 5], 1).requires_grad_(), sines([4], 40).requires_grad_()]
        opt = make(ps, **{k: tuple(v) if k == "betas" else v for k, v in params.items()})
        for step in range(4):
            for i, q in enumerate(ps):
                q.grad = sines(q.shape, 7 * step + 3 * i, 0.5)
            opt.step()
        out.append(dict(type=name, params=params, result=[floats(q.detach()) for q in ps]))

    o = torch.optim
    add("sgd", o.SGD, lr=0.1)
    add("sgd", o.SGD, lr=0.1, momentum=0.9, weight_decay=0.01)
    add("sgd", o.SGD, lr=0.1, momentum=0.9, nesterov=True)
    add("adam", o.Adam, lr=0.01)
    add("adam", o.Adam, lr=0.01, betas=[0.8, 0.9], eps=1e-4, weight_decay=0.1)
    add("adam", o.Adam, lr=0.01, amsgrad=True)
    add("adamw", o.AdamW, lr=0.01, weight_decay=0.1)
    add("novograd", Novograd, lr=0.01)
    add("novograd", Novograd, lr=0.01, betas=[0.8, 0.9], weight_decay=0.1, grad_averaging=True,
        amsgrad=True)
    return out


for name, make in (("unet", unets), ("segresnet", segresnets), ("optimizers", optimizers)):
    text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, "cases": make()}, indent=0)
    (HERE / f"{name}.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
