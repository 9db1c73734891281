"""Writes nets/*.json: what MONAI 1.6.1's networks answer, a file for each of ours.

Run with a Python that has MONAI and torch; the results are kept in the repository:
    python tests/golden/make_nets.py
A parameter is filled by its name (tests/nodes/test_networks.cpp does the same), so the order in which a network
declares its parameters does not matter. A new network is an entry of NETS here, and no C++.
"""
import json
import math
import pathlib
import zlib

import torch
from monai.networks.nets import UNETR, DynUNet, EfficientNetBN

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def sines(shape, first=0, scale=1.0):
    n = math.prod(shape)
    k = torch.arange(first, first + n, dtype=torch.float64)
    return (scale * torch.sin(k)).float().reshape(shape)


def first_of(name):
    return zlib.crc32(name.encode()) % 1000


# Weights of a size that keeps activations near 1, or a deep network answers only zeros.
def fill(net):
    for name, p in net.named_parameters():
        if p.dim() > 1:
            p.data = sines(p.shape, first_of(name), 1.5 / math.sqrt(p[0].numel()))
        else:
            p.data = 0.5 + sines(p.shape, first_of(name), 0.3)
    for name, b in net.named_buffers():
        if b.dtype == torch.float32:
            b.data = sines(b.shape, first_of(name), 0.1) if name.endswith("mean") else \
                1 + sines(b.shape, first_of(name), 0.5)


def number(v):
    return float(f"{float(v):.8g}")


def outputs_of(net, x, args):
    y = net(x)
    return list(y.unbind(1)) if args.get("deep_supervision") and net.training else [y]


def case(make, args, size, train, **ours):
    net = make(**args)
    fill(net)
    net.train(train)
    x = sines(size).requires_grad_()
    ys = outputs_of(net, x, args)
    sum((y * sines(y.shape, 5 + k)).sum() for k, y in enumerate(ys)).backward()
    params = {k: v for k, v in args.items() if k not in ("pretrained", "num_classes")}
    if "num_classes" in args:
        params["out_channels"] = args["num_classes"]
    return dict(
        params={**params, **ours}, size=size, train=train,
        outputs=[dict(size=list(y.shape), sum=number(y.double().sum()), abs=number(y.double().abs().sum()),
                      first=[number(v) for v in y.detach().flatten()[:16]]) for y in ys],
        grads={n: number(p.grad.double().norm()) if p.grad is not None else None
               for n, p in net.named_parameters()},
        shapes={n: list(p.shape) for n, p in net.named_parameters()},
        buffers={n: number(b.double().sum()) for n, b in net.named_buffers()},
        input_grad=number(x.grad.double().norm()))


def unetr():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, img_size=[32, 48], feature_size=4, hidden_size=24,
                mlp_dim=32, num_heads=3)
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, img_size=[32, 32, 16], feature_size=4,
                 hidden_size=24, mlp_dim=32, num_heads=4, norm_name=["instance", {"affine": True}],
                 proj_type="perceptron", qkv_bias=True, conv_block=False, res_block=False)
    monai = dict(solid, norm_name=("instance", {"affine": True}))
    return [case(UNETR, flat, [2, 2, 32, 48], True),
            case(UNETR, monai, [1, 1, 32, 32, 16], True, norm_name=solid["norm_name"])]


def dynunet():
    flat = dict(spatial_dims=2, in_channels=1, out_channels=2, kernel_size=[3, 3, 3], strides=[1, 2, 2],
                upsample_kernel_size=[2, 2], filters=[4, 6, 8], res_block=True)
    deep = dict(spatial_dims=3, in_channels=1, out_channels=3, kernel_size=[[3, 3, 1], 3, 3, 3],
                strides=[1, [2, 2, 1], 2, 2], upsample_kernel_size=[[2, 2, 1], 2, 2], filters=[4, 6, 8, 8],
                deep_supervision=True, deep_supr_num=2, trans_bias=True)
    return [case(DynUNet, flat, [2, 1, 16, 24], True), case(DynUNet, deep, [2, 1, 16, 16, 8], True)]


def efficientnet():
    args = dict(model_name="efficientnet-b0", pretrained=False, spatial_dims=2, in_channels=1, num_classes=5)
    # Not in training, where MONAI's dropout draws other numbers than ours.
    return [case(EfficientNetBN, args, [2, 1, 64, 96], False)]


NETS = dict(unetr=unetr, dynunet=dynunet, efficientnet=efficientnet)

(HERE / "nets").mkdir(exist_ok=True)
for name, cases in NETS.items():
    text = json.dumps(dict(monai="1.6.1", torch=torch.__version__, type=name, cases=cases()), indent=0)
    (HERE / "nets" / f"{name}.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
