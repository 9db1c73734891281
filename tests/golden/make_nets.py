"""Writes nets/*.json: what MONAI 1.6.1's networks answer, a file for each of ours.

Run with a Python that has MONAI and torch; the results are kept in the repository:
    python tests/golden/make_nets.py [NAME...]
A parameter is filled by its name (tests/nodes/test_networks.cpp does the same), so the order in which a network
declares its parameters does not matter. A new network is an entry of NETS here, and no C++.
"""
import json
import math
import pathlib
import sys
import zlib

import torch
from monai.networks.nets import UNETR, DynUNet, EfficientNetBN
from monai.networks.nets import SwinUNETR, ViT, ViTAutoEnc
from monai.networks.nets import resnet10

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def sines(shape, first=0, scale=1.0):
    n = math.prod(shape)
    k = torch.arange(first, first + n, dtype=torch.float64)
    return (scale * torch.sin(k)).float().reshape(shape)


def first_of(name):
    return zlib.crc32(name.encode()) % 1000


# Parameters that are not trained are constants, as buffers are, and named like those.
def parts(net):
    every = dict(net.named_parameters())
    trained = {n: p for n, p in every.items() if p.requires_grad}
    constant = {n: p.data for n, p in every.items() if not p.requires_grad}
    return trained, constant | dict(net.named_buffers())


# Weights of a size that keeps activations near 1, or a deep network answers only zeros.
def fill(net):
    for name, p in parts(net)[0].items():
        if p.dim() > 1:
            p.data = sines(p.shape, first_of(name), 1.5 / math.sqrt(p[0].numel()))
        else:
            p.data = 0.5 + sines(p.shape, first_of(name), 0.3)
    for name, b in net.named_buffers():
        if name.endswith("running_mean"):
            b.data = sines(b.shape, first_of(name), 0.1)
        if name.endswith("running_var"):
            b.data = 1 + sines(b.shape, first_of(name), 0.5)


def number(v):
    return float(f"{float(v):.8g}")


def outputs_of(net, x, args):
    y = net(*x)
    if isinstance(y, (list, tuple)):  # and lists within it
        return [v for part in y for v in (part if isinstance(part, (list, tuple)) else [part])]
    return list(y.unbind(1)) if args.get("deep_supervision") and net.training else [y]


# MONAI's names of what every network of ours has by one name.
RENAMED = dict(num_classes="out_channels", n_input_channels="in_channels")


# `more`: sizes of further inputs, filled like the first; `outputs`: as many as are compared.
def case(make, args, size, train, more=(), outputs=None, **ours):
    net = make(**args)
    fill(net)
    net.train(train)
    x = sines(size).requires_grad_()
    ys = outputs_of(net, [x, *(sines(s, 2 + k) for k, s in enumerate(more))], args)[:outputs]
    sum((y * sines(y.shape, 5 + k)).sum() for k, y in enumerate(ys)).backward()
    params = {RENAMED.get(k, k): v for k, v in args.items() if k != "pretrained"}
    trained, constants = parts(net)
    return dict(
        params={**params, **ours}, size=size, train=train, **(dict(more=list(more)) if more else {}),
        outputs=[dict(size=list(y.shape), sum=number(y.double().sum()), abs=number(y.double().abs().sum()),
                      first=[number(v) for v in y.detach().flatten()[:16]]) for y in ys],
        grads={n: number(p.grad.double().norm()) if p.grad is not None else None for n, p in trained.items()},
        shapes={n: list(p.shape) for n, p in trained.items()},
        buffers={n: number(b.double().sum()) for n, b in constants.items()},
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


# No instance norm of the two voxels at the bottom: MONAI's own gradients in float32 are 2% off there.
def swin_unetr():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, feature_size=12, window_size=3, num_heads=[1, 2, 3, 4],
                depths=[2, 1, 2, 2], mlp_ratio=1.5, qkv_bias=False, patch_norm=True, norm_name="batch")
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, feature_size=12, window_size=[3, 4, 5],
                 num_heads=[2, 1, 3, 2], depths=[2, 2, 1, 1], downsample="mergingv2", use_v2=True, normalize=False,
                 mlp_ratio=1.0, norm_name=["group", {"num_groups": 2}])
    plain = dict(spatial_dims=3, in_channels=1, out_channels=2, feature_size=12, window_size=[4, 4, 2],
                 num_heads=[1, 1, 1, 1], depths=[1, 2, 1, 1], mlp_ratio=1.0,
                 norm_name=["group", {"num_groups": 3}])
    return [case(SwinUNETR, flat, [2, 2, 64, 96], True), case(SwinUNETR, solid, [1, 1, 32, 64, 32], True),
            case(SwinUNETR, plain, [1, 1, 32, 32, 64], True)]


def vit():
    flat = dict(spatial_dims=2, in_channels=2, img_size=[18, 12], patch_size=[6, 4], hidden_size=16, mlp_dim=20,
                num_layers=2, num_heads=2, classification=True, num_classes=3, pos_embed_type="sincos")
    solid = dict(spatial_dims=3, in_channels=1, img_size=[8, 8, 12], patch_size=4, hidden_size=12, mlp_dim=16,
                 num_layers=3, num_heads=3, proj_type="perceptron", qkv_bias=True)
    bare = dict(solid, proj_type="conv", pos_embed_type="sincos", classification=True, post_activation="none")
    return [case(ViT, flat, [2, 2, 18, 12], True), case(ViT, solid, [2, 1, 8, 8, 12], True),
            case(ViT, bare, [1, 1, 8, 8, 12], True)]


def vit_auto_enc():
    flat = dict(spatial_dims=2, in_channels=2, img_size=[16, 32], patch_size=[4, 16], out_channels=2, deconv_chns=5,
                hidden_size=12, mlp_dim=16, num_layers=2, num_heads=3)
    solid = dict(spatial_dims=3, in_channels=1, img_size=8, patch_size=4, out_channels=1, deconv_chns=3,
                 hidden_size=8, mlp_dim=12, num_layers=1, num_heads=2, proj_type="perceptron", qkv_bias=True)
    listed = dict(solid, img_size=[8], patch_size=[4])
    return [case(ViTAutoEnc, flat, [2, 2, 16, 32], True),
            case(ViTAutoEnc, solid, [2, 1, 8, 8, 8], True, img_size=listed["img_size"], patch_size=listed["patch_size"])]


def resnets():
    flat = dict(spatial_dims=2, n_input_channels=2, num_classes=3, widen_factor=0.0625)
    zeros = dict(spatial_dims=3, n_input_channels=1, num_classes=3, widen_factor=0.125, shortcut_type="A",
                 no_max_pool=True)
    stem = dict(flat, conv1_t_size=[5, 3], conv1_t_stride=[2, 1], feed_forward=False, bias_downsample=False,
                norm=["group", {"num_groups": 2}], act=["prelu", {"init": 0.1}])
    return [case(resnet10, zeros, [3, 1, 12, 10, 8], True), case(resnet10, stem, [3, 2, 48, 32], True)]


NETS = dict(unetr=unetr, dynunet=dynunet, efficientnet=efficientnet)
NETS |= dict(resnet10=resnets)
NETS |= dict(swin_unetr=swin_unetr, vit=vit, vit_auto_enc=vit_auto_enc)

(HERE / "nets").mkdir(exist_ok=True)
for name, cases in NETS.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    text = json.dumps(dict(monai="1.6.1", torch=torch.__version__, type=name, cases=cases()), indent=0)
    (HERE / "nets" / f"{name}.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
