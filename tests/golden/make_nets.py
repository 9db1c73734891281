"""Writes nets/*.json: what MONAI 1.6.1's networks answer, a file for each of ours.

Run with a Python that has MONAI and torch; the results are kept in the repository:
    python tests/golden/make_nets.py [NAME...]
A parameter is filled by its name (tests/nodes/test_networks.cpp does the same), so the order in which a network
declares its parameters does not matter. A new network is an entry of NETS here, and no C++.
"""
import json
import math
import os
import pathlib
import sys
import zlib

import torch
from monai.networks.nets import (
    AHNet, AttentionUnet, AutoEncoder, BasicUNet, BasicUNetPlusPlus, Classifier, Critic, DAF3D, DenseNet, DenseNet169,
    DenseNet201, DenseNet264, DiffusionModelUNet, Discriminator, DynUNet, EfficientNetBN, FlexibleUNet, FullyConnectedNet,
    Generator, GlobalNet, HighResNet, LocalNet, MedNeXt, Regressor, RegUNet, SegResNet, SegResNetDS, SegResNetDS2,
    SENet154, SEResNet50, SEResNet101, SEResNet152, SEResNext50, SEResNext101, SPADEDiffusionModelUNet, SwinUNETR, UNet,
    UNETR, VarAutoEncoder, VarFullyConnectedNet, ViT, ViTAutoEnc, VNet, resnet10, resnet18, resnet34, resnet50, resnet101,
    resnet152, resnet200)

import peer_nets
from filled import fill, number, parts, sines
from peer_nets import (
    CopleNet, JudgementFirst, LeNet, PlainVae, RanzcrNet, Sampled, SampledMaisi, UNetMaisi, UNetPipe,
    controlling, controlling_maisi, hovered, masked, moved, multi_scale_judge, of_bags, resting, retina, searched, spade,
    spade_autoencoder, timed, with_commitment)
from prompted import prompted

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def outputs_of(net, x, args):
    y = net(*x)
    if isinstance(y, (list, tuple)):  # and lists within it
        return [v for part in y for v in (part if isinstance(part, (list, tuple)) else [part])]
    return list(y.unbind(1)) if args.get("deep_supervision") and net.training else [y]


# MONAI's names of what every network of ours has by one name.
RENAMED = dict(num_classes="out_channels", n_input_channels="in_channels")


# Numbers of samples are 1, 2, ...; those of prompts 0, 1, 2, 3, 0, ...
def further(k, size, whole):
    if k in whole:
        return (torch.arange(math.prod(size)) % 4).reshape(size)
    return torch.arange(1, size[0] + 1) if len(size) == 1 else sines(size, 2 + k)


# `more`: sizes of further inputs, filled like the first, but for those that `whole` lists; `outputs`: as many as are
# compared; `double`: computed in float64, here and in the test, where float32 is far from it.
def case(make, args, size, train, more=(), outputs=None, double=False, whole=(), **ours):
    net = make(**args)
    fill(net)
    net.train(train)
    x = sines(size)
    if double:
        net, x = net.double(), x.double()
    x.requires_grad_()
    ys = outputs_of(net, [x, *(further(k, s, whole) for k, s in enumerate(more))], args)[:outputs]
    sum((y * sines(y.shape, 5 + k)).sum() for k, y in enumerate(ys)).backward()
    params = {RENAMED.get(k, k): v for k, v in args.items() if k != "pretrained"}
    trained, constants = parts(net)
    return dict(
        params={**params, **ours}, size=size, train=train, **(dict(more=list(more)) if more else {}),
        **(dict(whole=list(whole)) if whole else {}), **(dict(double=True) if double else {}),
        outputs=[dict(size=list(y.shape), sum=number(y.double().sum()), abs=number(y.double().abs().sum()),
                      first=[number(v) for v in y.detach().flatten()[:16]]) for y in ys],
        grads={n: number(p.grad.double().norm()) if p.grad is not None else None for n, p in trained.items()},
        shapes={n: list(p.shape) for n, p in trained.items()},
        buffers={n: number(b.double().sum()) for n, b in constants.items()},
        input_grad=number(x.grad.double().norm()))


# Of a deep network its names and shapes as one number, and of the rest a part.
def brief(full):
    trained = full["shapes"]
    rows = [f"{n} {list(s)}" for n, s in trained.items()] + list(full["buffers"])
    grads = full.pop("grads", None)
    if grads is not None:
        full["grads"] = {n: g for i, (n, g) in enumerate(grads.items()) if i % 16 == 0 or i == len(grads) - 1}
        full["all_grads"] = number(sum(g for g in grads.values() if g is not None))
        full["buffers"] = {n: b for i, (n, b) in enumerate(full["buffers"].items()) if i % 16 == 0}
    else:
        del full["buffers"]
    del full["shapes"]
    return full | dict(names=zlib.crc32("\n".join(sorted(rows)).encode()), tensors=len(rows))


# Names and shapes alone.
def named(make, args, **ours):
    trained, constants = parts(make(**args))
    params = {RENAMED.get(k, k): v for k, v in args.items() if k != "pretrained"}
    return brief(dict(params={**params, **ours}, shapes={n: list(p.shape) for n, p in trained.items()},
                      buffers=dict.fromkeys(constants)))


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
    wide = dict(args, model_name="efficientnet-b2", spatial_dims=3)
    others = [dict(args, model_name=f"efficientnet-b{n}") for n in (1, 2, 3, 4, 5, 6, 7, 8)]
    return [case(EfficientNetBN, args, [2, 1, 64, 96], False),
            brief(case(EfficientNetBN, wide, [1, 1, 32, 32, 32], False)),
            *(named(EfficientNetBN, a) for a in others)]


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


def unet():
    solid = dict(spatial_dims=3, in_channels=1, out_channels=3, channels=[6, 8, 12], strides=[2, 2], num_res_units=1)
    flat = dict(solid, spatial_dims=2, num_res_units=2, dropout=0.2)
    plain = dict(spatial_dims=3, in_channels=1, out_channels=2, channels=[6, 10], strides=[2], bias=False, act="RELU")
    uneven = dict(spatial_dims=3, in_channels=3, out_channels=2, channels=[4, 8, 8], strides=[[2, 2, 1], [2, 1, 2]],
                  kernel_size=[3, 3, 1], up_kernel_size=[3, 3, 5], adn_ordering="AN", act="LEAKYRELU",
                  num_res_units=3)
    normed = dict(solid, norm="BATCH")
    return [case(UNet, args, size, train, channels_last=last) for args, size, train, last in (
        (flat, [2, 1, 12, 16], False, True), (solid, [2, 1, 8, 12, 8], True, True),
        (solid, [2, 1, 8, 12, 8], True, False), (normed, [2, 1, 8, 12, 8], True, True),
        (normed, [2, 1, 8, 12, 8], True, False), (normed, [2, 1, 8, 12, 8], False, True),
        (plain, [2, 1, 6, 8, 6], True, True), (uneven, [2, 3, 8, 8, 6], True, True))]


def segresnet():
    small = dict(spatial_dims=3, init_filters=8, in_channels=2, out_channels=3, blocks_down=[1, 2], blocks_up=[1])
    flat = dict(spatial_dims=2, init_filters=8, in_channels=1, out_channels=2)
    shuffled = dict(flat, norm="batch", act="elu", upsample_mode="pixelshuffle", blocks_down=[1, 1], blocks_up=[1])
    return [case(SegResNet, shuffled, [2, 1, 8, 8], True), case(SegResNet, small, [2, 2, 6, 8, 4], True), case(SegResNet, flat, [2, 1, 16, 8], True),
            case(SegResNet, dict(small, dropout_prob=0.2, use_conv_final=False), [2, 2, 6, 8, 4], False),
            *(case(SegResNet, dict(shuffled, act=act, upsample_mode="deconv"), [2, 1, 8, 8], True)
              for act in ("PRELU", ["gelu", {"approximate": "tanh"}], ["swish", {"alpha": 1.7}])),
            case(SegResNet, dict(shuffled, act=["prelu", {"num_parameters": 8}], blocks_down=[2], blocks_up=[]),
                 [2, 1, 8, 8], True)]


def densenet121():
    small = dict(in_channels=1, out_channels=3, init_features=8, growth_rate=4, block_config=[2, 3, 2], bn_size=2)
    flat, solid = dict(spatial_dims=2, **small), dict(spatial_dims=3, **small)
    return [case(DenseNet, args, size, train) for train in (True, False)
            for args, size in ((flat, [3, 1, 32, 36]), (solid, [2, 1, 32, 32, 36]))]


# Not in training: so deep, and with few samples a statistic, torch's own float32 gradients differ
# from float64's by a tenth.
def resnet(make, thinner):
    flat = dict(spatial_dims=2, n_input_channels=1, num_classes=4, widen_factor=thinner)
    solid = dict(flat, spatial_dims=3, conv1_t_size=5, conv1_t_stride=2, no_max_pool=True, bias_downsample=False)
    return [case(make, flat, [2, 1, 32, 40], False), case(make, solid, [2, 1, 16, 16, 20], False)]


def deep_resnet(make, thinner):
    flat = dict(spatial_dims=2, n_input_channels=1, num_classes=4, widen_factor=thinner)
    return [brief(case(make, flat, [1, 1, 32, 40], False))]


def lenet():
    small = dict(in_channels=1, out_channels=7, image_size=28)
    return [case(LeNet, {}, [4, 3, 32, 32], True), case(LeNet, small, [3, 1, 28, 28], True)]


def cople_net():
    small = dict(in_channels=2, out_channels=3, feature_channels=[4, 8, 16, 32, 64], dropout=[0.0] * 5)
    volume = dict(in_channels=1, out_channels=2, feature_channels=[4, 8, 16, 32, 64])
    return [case(CopleNet, small, [2, 2, 32, 48], True), case(CopleNet, volume, [2, 1, 3, 32, 32], False),
            case(CopleNet, {}, [1, 1, 32, 32], False)]


def unet_pipe():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, n_feat=4, depth=3)
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, n_feat=6, depth=2)
    return [case(UNetPipe, flat, [2, 2, 32, 48], True), case(UNetPipe, solid, [2, 1, 16, 24, 16], False)]


def basic_unet():
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, features=[2, 4, 4, 6, 8, 3])
    flat = dict(solid, spatial_dims=2, in_channels=2, norm="batch", act="elu", bias=False, upsample="nontrainable")
    shuffled = dict(flat, norm=["group", {"num_groups": 2}], features=[2, 4, 4, 6, 8, 4], upsample="pixelshuffle")
    # Extents that do not halve evenly are padded.
    return [case(BasicUNet, solid, [1, 1, 32, 48, 34], True), case(BasicUNet, flat, [2, 2, 48, 39], True),
            case(BasicUNet, shuffled, [2, 2, 32, 32], True)]


def basic_unet_plus_plus():
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, features=[2, 4, 4, 6, 8, 3])
    flat = dict(solid, spatial_dims=2, deep_supervision=True, norm="batch", act="mish", upsample="nontrainable")
    return [case(BasicUNetPlusPlus, solid, [1, 1, 32, 32, 16], True),
            case(BasicUNetPlusPlus, flat, [2, 1, 48, 39], True)]


def attention_unet():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, channels=[4, 6, 8], strides=[2, 2])
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, channels=[4, 5], strides=[2], kernel_size=5,
                 up_kernel_size=5, dropout=0.1)
    return [case(AttentionUnet, flat, [2, 2, 16, 24], True),
            case(AttentionUnet, solid, [2, 1, 8, 8, 12], False, kernel_size=[5], up_kernel_size=[5])]


# Not in training: its skips have dropout, whatever is set.
def vnet():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, act="prelu", bias=True, dropout_dim=1,
                dropout_prob_up=[None, 0.2], dropout_prob_down=None)
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2)
    return [case(VNet, flat, [2, 2, 32, 48], False), case(VNet, solid, [1, 1, 16, 16, 16], False)]


def segresnet_vae():
    small = dict(spatial_dims=3, init_filters=4, in_channels=2, out_channels=3, blocks_down=[1, 1], blocks_up=[1],
                 input_image_size=[8, 12, 8], norm=["group", {"num_groups": 4}], vae_nz=6)
    flat = dict(small, spatial_dims=2, input_image_size=[16, 8], vae_estimate_std=True, act="elu",
                norm=["instance", {"affine": True}], upsample_mode="deconv")
    return [case(PlainVae, small, [1, 2, 8, 12, 8], True) | dict(train=False),
            case(PlainVae, flat, [1, 2, 16, 8], True) | dict(train=False),
            case(PlainVae, dict(flat, act=["prelu", {"init": 0.1}]), [1, 2, 16, 8], True) | dict(train=False)]


def segresnet_ds():
    flat = dict(spatial_dims=2, init_filters=4, in_channels=2, out_channels=3, blocks_down=[1, 2, 1], dsdepth=2,
                norm=["group", {"num_groups": 2}], act="leakyrelu", upsample_mode="nontrainable")
    solid = dict(spatial_dims=3, init_filters=4, in_channels=1, out_channels=2, blocks_down=[1, 1, 1, 1],
                 blocks_up=[2, 1, 1], resolution=[1.0, 1.2, 5.0], norm="instance")
    normed = dict(spatial_dims=3, init_filters=2, in_channels=1, out_channels=2, blocks_down=[1, 1], dsdepth=3,
                  upsample_mode="pixelshuffle")
    return [case(SegResNetDS, flat, [2, 2, 16, 24], True), case(SegResNetDS, solid, [1, 1, 16, 24, 4], True),
            case(SegResNetDS, normed, [2, 1, 8, 6, 8], True),
            case(SegResNetDS, dict(flat, norm=["batch", {"affine": False}], act="prelu"), [2, 2, 16, 24], True)]


def segresnet_ds2():
    flat = dict(spatial_dims=2, init_filters=4, in_channels=2, out_channels=3, blocks_down=[1, 1, 1], dsdepth=2,
                norm=["group", {"num_groups": 2}])
    solid = dict(spatial_dims=3, init_filters=4, in_channels=1, out_channels=2, blocks_down=[1, 1],
                 resolution=[1.0, 1.2, 5.0], norm="instance")
    return [case(SegResNetDS2, flat, [2, 2, 16, 24], True), case(SegResNetDS2, solid, [1, 1, 16, 24, 4], False)]


def high_res_net():
    layers = [dict(n_features=4, kernel_size=3), dict(n_features=4, kernels=[3, 3], repeat=2),
              dict(n_features=7, kernels=[5, 1], repeat=2), dict(n_features=6, kernel_size=1), dict(kernel_size=1)]
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, layer_params=layers, dropout_prob=0.3)
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, layer_params=layers, channel_matching="project",
                 bias=True, norm_type=["instance", {"affine": True}], acti_type="prelu")
    return [case(HighResNet, flat, [2, 2, 12, 16], False), case(HighResNet, solid, [2, 1, 8, 6, 8], True)]


# Not in training: few samples a statistic, and a torch that is itself a tenth off.
def ahnet():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, layers=[1, 1, 1, 1], psp_block_num=2,
                upsample_mode="bilinear")
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, layers=[1, 1, 1, 1], psp_block_num=1)
    return [case(AHNet, flat, [1, 2, 64, 32], False), case(AHNet, solid, [1, 1, 32, 32, 32], False)]


def quicknat():
    args = dict(num_classes=3, in_channels=2, num_filters=4, se_block="CSE")
    plain = dict(num_classes=3, num_filters=4, kernel_size=3)
    return [case(peer_nets.quicknat, args, [2, 2, 16, 32], True),
            case(peer_nets.quicknat, plain, [1, 1, 32, 32], True, kernel_size=[3])]


def reg_unet():
    flat = dict(spatial_dims=2, in_channels=2, num_channel_initial=3, depth=2, out_channels=2, extract_levels=[0, 2],
                concat_skip=True, encode_kernel_sizes=[5, 3, 3])
    solid = dict(spatial_dims=3, in_channels=2, num_channel_initial=2, depth=2, pooling=False, extract_levels=[0, 1, 2],
                 out_activation="sigmoid")
    return [case(RegUNet, flat, [2, 2, 16, 24], True), case(RegUNet, solid, [2, 2, 8, 12, 8], True)]


def global_net():
    flat = dict(spatial_dims=2, image_size=[16, 24], in_channels=2, num_channel_initial=2, depth=2)
    solid = dict(spatial_dims=3, image_size=[8, 12, 8], in_channels=2, num_channel_initial=2, depth=1, pooling=False)
    return [case(GlobalNet, flat, [2, 2, 16, 24], True, out_channels=2),
            case(GlobalNet, solid, [2, 2, 8, 12, 8], True, out_channels=3)]


def local_net():
    flat = dict(spatial_dims=2, in_channels=2, num_channel_initial=2, extract_levels=[0, 2], out_channels=2,
                mode="bilinear", align_corners=True)
    solid = dict(spatial_dims=3, in_channels=2, num_channel_initial=2, extract_levels=[0, 1], out_channels=3)
    bare = dict(flat, use_additive_sampling=False, concat_skip=True)
    return [case(LocalNet, flat, [2, 2, 16, 24], True), case(LocalNet, solid, [2, 2, 8, 12, 8], True),
            case(LocalNet, bare, [2, 2, 16, 24], True)]


def med_next():
    flat = dict(spatial_dims=2, init_filters=4, in_channels=2, out_channels=3, encoder_expansion_ratio=[2, 3],
                blocks_down=[1, 2], blocks_up=[2, 1], blocks_bottleneck=1, kernel_size=3, deep_supervision=True,
                use_residual_connection=True)
    solid = dict(spatial_dims=3, init_filters=3, in_channels=1, out_channels=2, blocks_down=[1, 1], blocks_up=[1, 1],
                 blocks_bottleneck=1, kernel_size=5, global_resp_norm=True)
    return [case(MedNeXt, flat, [2, 2, 16, 24], True, encoder_expansion_ratio=[2, 3]),
            case(MedNeXt, solid, [1, 1, 8, 12, 8], True)]


def nnunets(make, name):
    # n_conv_per_stage or n_blocks_per_stage.
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, features_per_stage=[4, 6, 6], conv_bias=True,
                kernel_sizes=[3, [5, 3], 3], strides=[1, [2, 1], 2], n_conv_per_stage_decoder=[1, 2],
                deep_supervision=True, **{name: [1, 2, 1]})
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, features_per_stage=[4, 8], conv_bias=False,
                 kernel_sizes=[[1, 3, 3], 3], strides=[1, 2], n_conv_per_stage_decoder=[1], deep_supervision=False,
                 dropout=0.2, **{name: [2, 2]})
    return [case(make, flat, [2, 2, 16, 24], True), case(make, solid, [2, 1, 6, 8, 8], False)]


def plain_conv_unet():
    return nnunets(peer_nets.plain_conv_unet, "n_conv_per_stage")


def residual_encoder_unet():
    return nnunets(peer_nets.residual_encoder_unet, "n_blocks_per_stage")


# Not in training, where MONAI's dropout draws other numbers than ours.
def flexible_unet():
    flat = dict(in_channels=1, out_channels=3, backbone="efficientnet-b0", decoder_channels=[16, 12, 8, 6, 4])
    solid = dict(flat, backbone="resnet10", spatial_dims=3, upsample="deconv", decoder_channels=[8, 6, 6, 4, 4])
    zeros = dict(flat, backbone="resnet18", is_pad=False, pre_conv=None)
    return [case(FlexibleUNet, flat, [2, 1, 64, 96], False), case(FlexibleUNet, solid, [1, 1, 32, 64, 32], False),
            case(FlexibleUNet, zeros, [2, 1, 32, 64], False)]


def voxel_morph():
    flat = dict(spatial_dims=2, in_channels=2, unet_out_channels=4, channels=[3, 4, 5, 4], final_conv_channels=[3],
                integration_steps=0, norm="batch", use_maxpool=False)
    solid = dict(spatial_dims=3, in_channels=2, unet_out_channels=4, channels=[3, 4], final_conv_channels=[4, 3],
                 half_res=True, act="relu")
    # Ours counts the channels of one image.
    return [case(moved, flat, [2, 1, 16, 24], True, more=[[2, 1, 16, 24]], in_channels=1),
            case(moved, solid, [1, 1, 8, 12, 8], True, more=[[1, 1, 8, 12, 8]], in_channels=1)]


# Not in training, as the other deep networks of classes.
def senet(make, **more):
    args = dict(spatial_dims=2, in_channels=1, num_classes=3, layers=[1, 2, 1, 1], dropout_prob=None, **more)
    return [case(make, args, [2, 1, 36, 30], False)]


def se_resnet50():
    solid = dict(spatial_dims=3, in_channels=2, num_classes=3, layers=[1, 1, 1, 1], inplanes=24, reduction=8)
    return [*senet(SEResNet50), case(SEResNet50, solid, [1, 2, 20, 18, 24], False)]


# Needs torchvision too. Not in training, as the other deep networks of classes.
def torchvision_fc_model():
    from monai.networks.nets import TorchVisionFCModel

    plain = dict(model_name="resnet18", num_classes=3)
    own = dict(model_name="resnext50_32x4d", num_classes=2, pool=None, bias=False)
    maps = dict(model_name="resnet18", num_classes=2, use_conv=True, pool="")
    pooled = dict(model_name="resnet18", use_conv=True, pool=["max", {"kernel_size": 2, "stride": 1}])
    means = dict(model_name="resnet18", use_conv=True, pool=None)
    inception = dict(model_name="inception_v3", pool=None)
    return [case(TorchVisionFCModel, args, [1, 3, *size], False) for args, size in (
        (plain, [200, 224]), (own, [40, 64]), (maps, [64, 40]), (pooled, [96, 64]), (means, [64, 64]))] + [
            brief(case(TorchVisionFCModel, dict(inception, **more), [1, 3, *size], False)) for more, size in (
                (dict(num_classes=4), [80, 96]), (dict(use_conv=True, transform_input=True), [75, 75]))]


# What MONAI's PerceptualLoss makes of torchvision's ResNets. Not in training, where it never is.
def torchvision_features():
    from torchvision import models
    from torchvision.models.feature_extraction import create_feature_extractor

    class Features(torch.nn.Module):
        def __init__(self, model_name, last):
            super().__init__()
            whole = create_feature_extractor(getattr(models, model_name)(weights=None), [last])
            for name, part in whole.named_children():
                setattr(self, name, part)
            self.last, self.forward = last, lambda x: whole(x)[last]

    return [brief(case(lambda model_name, last=last: Features(model_name, last), dict(model_name=name), size, False))
            for name, last, size in (("resnet18", "layer4.1.relu_1", [2, 3, 40, 64]), ("resnet50", "layer4.2.relu_2", [1, 3, 64, 40]))]


# Without noise, which MONAI draws in evaluation too.
def autoencoder_kl():
    flat = dict(spatial_dims=2, in_channels=2, num_res_blocks=[1, 2, 1], channels=[4, 8, 8], latent_channels=2,
                attention_levels=[False, True, False], norm_num_groups=2)
    solid = dict(spatial_dims=3, num_res_blocks=1, channels=[4, 8], attention_levels=[False, True], norm_num_groups=4,
                 use_combined_linear=True, include_fc=False, use_convtranspose=True, with_encoder_nonlocal_attn=False)
    return [case(Sampled, flat, [2, 2, 16, 12], False), case(Sampled, solid, [1, 1, 8, 6, 4], False)]


def regressor():
    flat = dict(in_shape=[2, 17, 12], out_shape=[2, 3], channels=[4, 6], strides=[2, 2])
    solid = dict(in_shape=[1, 8, 9, 6], out_shape=[4], channels=[4, 6], strides=[2, 1], num_res_units=0, norm="batch",
                 act="relu", bias=False, kernel_size=[5, 3, 3])
    groups = dict(flat, num_res_units=0, norm=["group", {"num_groups": 2}])  # they do not take a bias away
    return [case(Regressor, flat, [2, 2, 17, 12], True), case(Regressor, solid, [2, 1, 8, 9, 6], True),
            case(Regressor, groups, [2, 2, 17, 12], True)]


# Not in training with dropout, which draws other numbers than ours.
def adversary(make, **more):
    args = dict(in_shape=[1, 16, 12], channels=[4, 6], strides=[2, 2], **more)
    return [case(make, args, [2, 1, 16, 12], False), case(make, dict(args, dropout=None), [2, 1, 16, 12], True)]


# Its code: paths that there are, an operation each; the lowest resolution is entered by a path alone.
def dints():
    flat = dict(spatial_dims=2, in_channels=2, num_classes=3, num_blocks=2, num_depths=3, channel_mul=0.125,
                use_downsample=False, norm_name="batch", act_name=["leakyrelu", {"negative_slope": 0.1}])
    solid = dict(spatial_dims=3, num_classes=2, num_blocks=3, num_depths=3, channel_mul=0.125,
                 arch_code_a=[[1, 1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 0, 1, 1, 1, 1]],
                 arch_code_c=[[2, 1, 0, 3, 0, 0, 0], [4, 0, 1, 0, 0, 2, 0], [0, 3, 0, 1, 4, 0, 2]],
                 node_a=[[1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0]])
    return [case(searched, flat, [2, 2, 16, 24], True), case(searched, solid, [1, 1, 16, 24, 16], True)]


def auto_encoder():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, channels=[4, 6], strides=[2, 2], num_res_units=2,
                inter_channels=[5, 6], inter_dilations=[1, 2], num_inter_units=1, act="RELU")
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, channels=[3, 4], strides=[1, 2], norm="BATCH", bias=False,
                 kernel_size=[3, 5, 3], up_kernel_size=5, inter_channels=[4], num_inter_units=0)
    return [case(AutoEncoder, flat, [2, 2, 16, 24], True), case(AutoEncoder, solid, [2, 1, 8, 10, 6], True)]


# Not in training, where MONAI's noise is other than ours.
def var_auto_encoder():
    make = resting(VarAutoEncoder)
    flat = dict(spatial_dims=2, in_shape=[2, 16, 12], out_channels=2, latent_size=3, channels=[4, 6], strides=[2, 2])
    solid = dict(spatial_dims=3, in_shape=[1, 8, 8, 4], out_channels=1, latent_size=4, channels=[3, 4], strides=[1, 2],
                 num_res_units=1, use_sigmoid=False, use_mean_at_inference=True)
    return [case(make, flat, [2, 2, 16, 12], False), case(make, solid, [2, 1, 8, 8, 4], False)]


def fully_connected_net():
    deep = dict(in_channels=24, out_channels=3, hidden_channels=[8, 5])
    other = dict(in_channels=7, out_channels=2, hidden_channels=[6], act="tanh", bias=False, adn_ordering="AD", dropout=0.2)
    return [case(FullyConnectedNet, deep, [3, 2, 4, 3], True), case(FullyConnectedNet, other, [2, 7], False)]


def var_fully_connected_net():
    deep = dict(in_channels=6, out_channels=4, latent_size=3, encode_channels=[8, 5], decode_channels=[5, 7])
    bare = dict(deep, encode_channels=[6], act="relu", bias=False, use_mean_at_inference=True)
    make = resting(VarFullyConnectedNet)
    return [case(make, deep, [3, 6], False), case(make, bare, [2, 6], False)]


def generator():
    flat = dict(latent_shape=[3, 4], start_shape=[6, 4, 3], channels=[5, 2], strides=[2, 2])
    solid = dict(latent_shape=[5], start_shape=[4, 3, 2, 4], channels=[4, 3], strides=[2, 1], num_res_units=0, norm="BATCH",
                 act="RELU", bias=False, kernel_size=5)
    return [case(Generator, flat, [2, 3, 4], True), case(Generator, solid, [2, 5], True)]


def patch_discriminator():
    flat = dict(spatial_dims=2, channels=3, in_channels=2, num_layers_d=2)
    solid = dict(spatial_dims=3, channels=2, in_channels=1, out_channels=2, num_layers_d=2, norm="INSTANCE", kernel_size=3,
                 last_conv_kernel_size=1, bias=True, activation="PRELU")
    return [case(JudgementFirst, flat, [2, 2, 24, 20], True), case(JudgementFirst, solid, [2, 1, 12, 16, 12], True)]


def multi_scale_patch_discriminator():
    flat = dict(num_d=2, num_layers_d=1, spatial_dims=2, channels=3, in_channels=1, minimum_size_im=32)
    return [case(multi_scale_judge, flat, [2, 1, 32, 32], True), case(multi_scale_judge, dict(flat, spatial_dims=3), [1, 1, 16, 16, 16], False)]


def mil_model():
    args = [dict(mil_mode=mode, backbone="resnet18", out_channels=2) for mode in ("mean", "max", "att")]
    more = [dict(mil_mode="att_trans", backbone="resnet18", trans_blocks=1, out_channels=2),
            dict(mil_mode="att_trans_pyramid", trans_blocks=1, out_channels=2)]
    return [case(of_bags, a, [2, 3, 3, 32, 32], False, double=a is more[-1]) for a in args + more]


def hover_net():
    padded = dict(mode="FAST", in_channels=3, decoder_padding=True, out_classes=3, act="prelu")
    return [case(hovered, padded, [1, 3, 32, 32], False), case(hovered, dict(in_channels=1), [1, 1, 96, 96], False)]


def vqvae():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=2, channels=[4, 6], num_res_layers=1, num_res_channels=[3, 5],
                downsample_parameters=[[2, 4, 1, 1], [2, 3, 1, 1]], upsample_parameters=[[2, 4, 1, 1, 0], [2, 3, 1, 1, 1]],
                num_embeddings=7, embedding_dim=5, act="prelu")
    solid = dict(spatial_dims=3, in_channels=1, out_channels=1, channels=[3, 4], num_res_layers=2, num_res_channels=4,
                 downsample_parameters=[2, 4, 1, 1], upsample_parameters=[2, 4, 1, 1, 0], num_embeddings=5, embedding_dim=4,
                 output_act="tanh", decay=0.9)
    return [case(with_commitment, flat, [2, 2, 16, 12], True), case(with_commitment, solid, [2, 1, 8, 8, 12], False)]


# Zeros that it begins with are filled as all else. Not in training: no dropout.
def diffusion(cls, seg=False):
    make = timed(cls, seg)
    more = dict(label_nc=3, spade_intermediate_channels=5) if seg else {}
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, num_res_blocks=1, channels=[4, 8, 8], norm_num_groups=2,
                attention_levels=[False, True, False], num_head_channels=4, num_class_embeds=5, use_combined_linear=True,
                **more)
    # Two channels a group: a norm of single channels takes all that an embedding adds away, and leaves gradients of rounding.
    solid = dict(spatial_dims=3, in_channels=1, out_channels=1, num_res_blocks=[1, 2], channels=[4, 8], norm_num_groups=2,
                 attention_levels=[False, True], num_head_channels=[2, 4], with_conditioning=True, cross_attention_dim=6,
                 resblock_updown=True, transformer_num_layers=2, include_fc=False, **more)
    maps = lambda n, *extents: [[n, 3, *extents]] if seg else []
    cases = [case(make, flat, [2, 2, 16, 12], True, more=[[2], *maps(2, 16, 12), [2]]),
             case(make, solid, [2, 1, 8, 4, 4], True, more=[[2], *maps(2, 8, 4, 4), [2, 5, 6]])]
    if seg:
        return cases
    small = dict(spatial_dims=2, in_channels=1, out_channels=1, num_res_blocks=1, channels=[4, 6], norm_num_groups=2,
                 attention_levels=[False, False], num_head_channels=2, additional_residuals=True)
    added = [[1, 4, 8, 8], [1, 4, 8, 8], [1, 4, 4, 4], [1, 6, 4, 4], [1, 6, 4, 4]]
    return cases + [case(make, small, [1, 1, 8, 8], True, more=[[1], *added])]


def controlnet():
    flat = dict(spatial_dims=2, in_channels=2, num_res_blocks=1, channels=[4, 8], norm_num_groups=2,
                attention_levels=[False, True], num_head_channels=4, conditioning_embedding_num_channels=[3, 5],
                conditioning_embedding_in_channels=2)
    solid = dict(spatial_dims=3, in_channels=1, num_res_blocks=[1, 2], channels=[4, 4], norm_num_groups=4,
                 attention_levels=[True, False], num_head_channels=2, with_conditioning=True, cross_attention_dim=3,
                 conditioning_embedding_num_channels=[4])
    return [case(controlling, flat, [2, 2, 8, 12], True, more=[[2], [2, 2, 16, 24]]),
            case(controlling, solid, [1, 1, 4, 8, 4], True, more=[[1], [1, 1, 4, 8, 4], [1, 3, 3]])]


def vista3d():
    common = dict(encoder_embed_dim=8, n_classes=6, last_supported=1, blocks_down=[1, 1])
    points = dict(more=[[2, 3], [2, 3, 2, 3], [2, 3, 2]], whole=[0, 2])
    return [case(prompted, dict(prompts=["class"], in_channels=2, **common), [2, 2, 8, 8, 4], True, more=[[2, 3]], whole=[0]),
            case(prompted, dict(prompts=["point"], **common), [2, 1, 8, 4, 8], True, **points),
            case(prompted, dict(prompts=["class", "point"], radius=1.5, **common), [2, 1, 8, 8, 8], False, **points)]


def spade_autoencoder_kl():
    flat = dict(spatial_dims=2, label_nc=3, in_channels=2, num_res_blocks=[1, 1], channels=[4, 8], latent_channels=2,
                attention_levels=[False, True], norm_num_groups=2, spade_intermediate_channels=5)
    solid = dict(spatial_dims=3, label_nc=2, num_res_blocks=1, channels=[4, 4], attention_levels=[False, False],
                 norm_num_groups=4, spade_intermediate_channels=3, with_encoder_nonlocal_attn=False)
    return [case(spade_autoencoder, flat, [2, 2, 16, 12], False, more=[[2, 3, 16, 12]]),
            case(spade_autoencoder, solid, [1, 1, 8, 6, 4], False, more=[[1, 2, 8, 6, 4]])]


def spade_net():
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, label_nc=4, input_shape=[16, 24], channels=[4, 6], z_dim=3,
                spade_intermediate_channels=5)
    solid = dict(spatial_dims=3, in_channels=1, out_channels=2, label_nc=2, input_shape=[16, 16, 24], channels=[3, 4],
                 is_vae=False, spade_intermediate_channels=3, last_act="sigmoid", upsampling_mode="trilinear",
                 norm=["batch", {}], act="relu")
    return [case(spade, flat, [2, 4, 16, 24], False, more=[[2, 2, 16, 24]]),
            case(spade, solid, [2, 2, 16, 16, 24], True)]


def masked_auto_encoder_vit():
    flat = dict(spatial_dims=2, in_channels=2, img_size=[16, 12], patch_size=4, hidden_size=16, mlp_dim=12, num_layers=2,
                num_heads=2, decoder_hidden_size=8, decoder_mlp_dim=10, decoder_num_layers=1, decoder_num_heads=4)
    solid = dict(flat, spatial_dims=3, in_channels=1, img_size=[8, 8, 12], pos_embed_type="learnable", masking_ratio=0.5,
                 decoder_pos_embed_type="learnable", proj_type="perceptron", qkv_bias=True)
    return [case(masked, flat, [2, 2, 16, 12], True), case(masked, solid, [2, 1, 8, 8, 12], True)]


# MAISI's. Not in training, where MONAI's noise is other than ours.
def autoencoder_kl_maisi():
    plain = dict(spatial_dims=3, in_channels=2, out_channels=1, num_res_blocks=[1, 2], num_channels=[4, 8],
                 attention_levels=[False, True], norm_num_groups=2, latent_channels=2, with_decoder_nonlocal_attn=True)
    transposed = dict(plain, in_channels=1, num_res_blocks=[1, 1], attention_levels=[False, False], use_convtranspose=True,
                      with_encoder_nonlocal_attn=True, with_decoder_nonlocal_attn=False, include_fc=True)
    return [case(SampledMaisi, plain, [2, 2, 8, 6, 4], False), case(SampledMaisi, transposed, [1, 1, 8, 4, 6], False)]


def diffusion_model_unet_maisi():
    make = timed(UNetMaisi)
    told = dict(include_top_region_index_input=True, include_bottom_region_index_input=True, include_spacing_input=True)
    flat = dict(spatial_dims=2, in_channels=2, out_channels=3, num_res_blocks=1, num_channels=[4, 8], norm_num_groups=2,
                attention_levels=[False, True], num_head_channels=[0, 4], num_class_embeds=5, include_spacing_input=True)
    solid = dict(spatial_dims=3, in_channels=1, out_channels=1, num_res_blocks=[1, 2], num_channels=[4, 8],
                 norm_num_groups=2, attention_levels=[False, True], num_head_channels=[2, 4], with_conditioning=True,
                 cross_attention_dim=6, resblock_updown=True, **told)
    small = dict(spatial_dims=2, in_channels=1, out_channels=1, num_res_blocks=1, num_channels=[4, 6], norm_num_groups=2,
                 attention_levels=[False, False], num_head_channels=2, additional_residuals=True, **told)
    added = [[1, 4, 8, 8], [1, 4, 8, 8], [1, 4, 4, 4], [1, 6, 4, 4], [1, 6, 4, 4]]
    return [case(make, flat, [2, 2, 8, 12], True, more=[[2], [2], [2, 3]]),
            case(make, solid, [2, 1, 8, 4, 4], True, more=[[2], [2, 5, 6], [2, 4], [2, 4], [2, 3]]),
            case(make, small, [1, 1, 8, 8], True, more=[[1], [1, 4], [1, 4], [1, 3], *added])]


def controlnet_maisi():
    flat = dict(spatial_dims=2, in_channels=2, num_res_blocks=1, num_channels=[4, 8], norm_num_groups=2,
                attention_levels=[False, True], num_head_channels=[0, 4], conditioning_embedding_num_channels=[3, 5],
                conditioning_embedding_in_channels=8, num_class_embeds=4)
    solid = dict(spatial_dims=3, in_channels=1, num_res_blocks=[1, 2], num_channels=[4, 8], norm_num_groups=2,
                 attention_levels=[True, False], num_head_channels=2, with_conditioning=True, cross_attention_dim=3,
                 conditioning_embedding_num_channels=[4])
    return [case(controlling_maisi, flat, [2, 2, 8, 12], True, more=[[2], [2, 8, 16, 24], [2]]),
            case(controlling_maisi, solid, [1, 1, 4, 8, 4], True, more=[[1], [1, 1, 4, 8, 4], [1, 3, 3]])]


NETS |= dict(auto_encoder=auto_encoder, var_auto_encoder=var_auto_encoder)
NETS |= dict(fully_connected_net=fully_connected_net, var_fully_connected_net=var_fully_connected_net)
NETS |= dict(generator=generator, patch_discriminator=patch_discriminator)
NETS |= dict(multi_scale_patch_discriminator=multi_scale_patch_discriminator)
NETS |= dict(mil_model=mil_model, hover_net=hover_net, vqvae=vqvae)
NETS |= dict(diffusion_model_unet=lambda: diffusion(DiffusionModelUNet))
NETS |= dict(spade_diffusion_model_unet=lambda: diffusion(SPADEDiffusionModelUNet, True))
NETS |= dict(controlnet=controlnet, spade_net=spade_net, spade_autoencoder_kl=spade_autoencoder_kl)
NETS |= dict(autoencoder_kl_maisi=autoencoder_kl_maisi, diffusion_model_unet_maisi=diffusion_model_unet_maisi)
NETS |= dict(controlnet_maisi=controlnet_maisi)
NETS |= dict(masked_auto_encoder_vit=masked_auto_encoder_vit)
NETS |= dict(dints=dints, vista3d=vista3d)
NETS |= dict(torchvision_fc_model=torchvision_fc_model, torchvision_features=torchvision_features)
NETS |= dict(autoencoder_kl=autoencoder_kl)
NETS |= dict(regressor=regressor, classifier=lambda: adversary(Classifier, classes=3, last_act="tanh"))
NETS |= dict(discriminator=lambda: adversary(Discriminator), critic=lambda: adversary(Critic))
NETS |= dict(senet154=lambda: senet(SENet154, groups=8), se_resnet50=se_resnet50, se_resnext50=lambda: senet(SEResNext50))
NETS |= dict(flexible_unet=flexible_unet, voxel_morph=voxel_morph)
NETS |= dict(ahnet=ahnet, quicknat=quicknat, med_next=med_next)
NETS |= dict(reg_unet=reg_unet, global_net=global_net, local_net=local_net)
NETS |= dict(plain_conv_unet=plain_conv_unet, residual_encoder_unet=residual_encoder_unet)
NETS |= dict(segresnet_vae=segresnet_vae, segresnet_ds=segresnet_ds, segresnet_ds2=segresnet_ds2, high_res_net=high_res_net)
NETS |= dict(cople_net=cople_net, unet_pipe=unet_pipe)


def ranzcr_net():
    args = dict(encoder="efficientnet-b0", in_channels=1, out_channels=7, seg_channels=3,
                decoder_channels=[24, 16, 12, 8, 6])
    return [case(RanzcrNet, args, [2, 1, 64, 96], False)]


def retina_net():
    flat = dict(spatial_dims=2, n_input_channels=2, num_classes=3, num_anchors=2, backbone="resnet10", widen_factor=0.125,
                returned_layers=[1, 3])
    solid = dict(spatial_dims=3, n_input_channels=1, num_classes=2, num_anchors=1, backbone="resnet18", widen_factor=0.125,
                 returned_layers=[1, 2], conv1_t_size=[5, 3, 3], conv1_t_stride=[2, 2, 1], bias_downsample=False)
    deep = dict(spatial_dims=2, n_input_channels=1, num_classes=1, num_anchors=3, widen_factor=0.125)
    return [case(retina, flat, [2, 2, 32, 40], True), case(retina, solid, [1, 1, 16, 24, 12], False),
            brief(case(retina, deep, [2, 1, 64, 64], True, double=True))]


# In evaluation: batch norms of training make MONAI's own gradients in float32 differ from float64's by more than 1e-3.
def daf3d():
    return [brief(case(DAF3D, dict(in_channels=1, out_channels=2, visual_output=True), [1, 1, 4, 16, 24], False, double=True)),
            brief(case(DAF3D, dict(in_channels=2, out_channels=3), [1, 2, 4, 16, 16], False, double=True))]


# The Model Zoo's own network: UNEST is the folder of its bundle wholeBrainSeg_Large_UNEST_segmentation. Whole samples
# are not left out, which others draw. With group norms: of instance norms of so few voxels MONAI's own gradients in
# float32 are 0.3% off.
def unest():
    sys.path.insert(0, os.environ["UNEST"])
    from scripts.networks.unest_base_patch_4 import UNesT

    def small(img_size, dropout_path_rate, **args):
        UNesT.__init__.__globals__["NestTransformer3D"] = lambda **a: NestTransformer3D(
            **a | dict(img_size=img_size, drop_path_rate=dropout_path_rate))
        return UNesT(**args)

    NestTransformer3D = UNesT.__init__.__globals__["NestTransformer3D"]
    args = dict(in_channels=1, out_channels=3, feature_size=2, embed_dim=[12, 16, 64], depths=[1, 2, 2], num_heads=[2, 2, 4],
                img_size=64, dropout_path_rate=0.0, norm_name=["group", {"num_groups": 2}])
    theirs = dict(args, patch_size=4)
    cases = [brief(case(small, theirs, [1, 1, 64, 64, 64], True, double=True)),
             brief(case(small, dict(theirs, res_block=False, norm_name="batch"), [1, 1, 64, 64, 64], False, double=True))]
    whole = dict(in_channels=1, out_channels=4, embed_dim=[128, 256, 512], depths=[2, 2, 8], num_heads=[4, 8, 16], img_size=96,
                 dropout_path_rate=0.5)
    cases.append(named(small, dict(whole, patch_size=4)))
    for c in cases:
        del c["params"]["patch_size"]
    return cases


NETS |= dict(unest=unest)


# Further ones of the Model Zoo's: ZOO is its folder "models".
def of_bundle(path):
    import importlib.util
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, pathlib.Path(os.environ["ZOO"]) / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reg_resnet():
    make = of_bundle("mednist_reg/scripts/net.py").RegResNet
    solid = dict(spatial_dims=3, image_size=[16, 24, 16], padding_mode="zeros")
    return [brief(case(make, dict(image_size=[32, 48]), [2, 2, 32, 48], False)),
            brief(case(make, solid, [1, 2, 16, 24, 16], False))]


def point_regressor():
    import numpy
    numpy.product = numpy.prod  # which the script wants and NumPy 2 lacks
    make = of_bundle("valve_landmarks/scripts/valve_landmarks.py").PointRegressor
    units = dict(in_shape=[1, 16, 24], out_shape=[2, 3], channels=[4, 8, 13], strides=[2, 2, 1])
    plain = dict(units, in_shape=[2, 16, 24], channels=[5, 8], strides=[2, 1], num_res_units=0, norm="batch", act="relu",
                 bias=False, kernel_size=5)
    return [case(make, units, [2, 1, 16, 24], True), case(make, plain, [2, 2, 16, 24], True)]


NETS |= dict(reg_resnet=reg_resnet, point_regressor=point_regressor)
NETS |= dict(ranzcr_net=ranzcr_net, retina_net=retina_net, daf3d=daf3d)
NETS |= dict(basic_unet=basic_unet, basic_unet_plus_plus=basic_unet_plus_plus)
NETS |= dict(attention_unet=attention_unet, vnet=vnet)
NETS |= dict(unet=unet, segresnet=segresnet, densenet121=densenet121, lenet=lenet)
NETS |= dict(resnet18=lambda: resnet(resnet18, 0.125), resnet50=lambda: resnet(resnet50, 0.0625))
NETS |= dict(resnet10=resnets, resnet34=lambda: deep_resnet(resnet34, 0.125))
NETS |= dict(resnet101=lambda: deep_resnet(resnet101, 0.0625), resnet152=lambda: deep_resnet(resnet152, 0.0625))
NETS |= dict(resnet200=lambda: deep_resnet(resnet200, 0.0625))
NETS |= dict(se_resnet101=lambda: [named(SEResNet101, dict(spatial_dims=3, in_channels=1, num_classes=2))],
             se_resnet152=lambda: [named(SEResNet152, dict(spatial_dims=2, in_channels=3, num_classes=5))],
             se_resnext101=lambda: [named(SEResNext101, dict(spatial_dims=2, in_channels=3, num_classes=5))])
NETS |= dict(densenet169=lambda: [named(DenseNet169, dict(spatial_dims=3, in_channels=1, out_channels=2))],
             densenet201=lambda: [named(DenseNet201, dict(spatial_dims=2, in_channels=1, out_channels=2))],
             densenet264=lambda: [named(DenseNet264, dict(spatial_dims=2, in_channels=1, out_channels=2))])
NETS |= dict(swin_unetr=swin_unetr, vit=vit, vit_auto_enc=vit_auto_enc)

# Of signals, [N, C, X].
def signal_cases():
    one, classes = dict(spatial_dims=1, in_channels=2, out_channels=3), dict(spatial_dims=1, in_channels=2, num_classes=3)
    u = dict(one, channels=[4, 8, 8], strides=[2, 2])
    layers = [dict(name="a", n_features=4, kernel_size=3), dict(name="b", n_features=4, kernels=[3, 3], repeat=2),
              dict(name="c", n_features=6, kernels=[3, 3], repeat=1), dict(name="d", n_features=6, kernel_size=1),
              dict(name="e", kernel_size=1)]
    return dict(
        unet=lambda: [case(UNet, dict(u, num_res_units=2, kernel_size=5), [2, 2, 20], True),
                      case(UNet, dict(u, strides=[2, 1], norm="BATCH"), [2, 2, 16], False)],
        attention_unet=lambda: [case(AttentionUnet, u, [2, 2, 16], True)],
        # The first, which float16 is tried with, by batches: a signal of one frequency is nearly constant after four pools,
        # and norms of an instance make so much of what is left that MONAI's own float16 is 0.03 from its float64.
        basic_unet=lambda: [case(BasicUNet, dict(one, features=[4, 4, 4, 8, 8, 4], norm="batch", upsample="nontrainable"), [2, 2, 140], True),
                            case(BasicUNet, dict(one, features=[4, 4, 4, 8, 8, 4], upsample="nontrainable"), [2, 2, 140], True),
                            case(BasicUNet, dict(one, features=[4, 4, 4, 8, 8, 4], upsample="pixelshuffle"), [2, 2, 128], True)],
        basic_unet_plus_plus=lambda: [case(BasicUNetPlusPlus, dict(one, features=[4, 4, 4, 8, 8, 4]), [2, 2, 32], True, double=True)],
        dynunet=lambda: [case(DynUNet, dict(one, kernel_size=[3, 1, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2],
                                            filters=[4, 6, 8], res_block=True), [2, 2, 16], True)],
        segresnet_ds=lambda: [case(SegResNetDS, dict(one, init_filters=8, blocks_down=[1, 2, 1],
                                                     upsample_mode="nontrainable"), [2, 2, 16], True)],
        high_res_net=lambda: [case(HighResNet, dict(one, layer_params=layers, channel_matching="project"), [2, 2, 12], True)],
        resnet10=lambda: [case(resnet10, dict(spatial_dims=1, n_input_channels=2, num_classes=3, widen_factor=0.125), [3, 2, 64], True)],
        densenet121=lambda: [brief(case(DenseNet, dict(one, init_features=8, growth_rate=4, block_config=[2, 2, 2]), [3, 2, 64], True))],
        se_resnet50=lambda: [brief(case(SEResNet50, classes, [2, 2, 64], False))],
        efficientnet=lambda: [brief(case(EfficientNetBN, dict(model_name="efficientnet-b0", pretrained=False, **classes), [2, 2, 65], False))],
        auto_encoder=lambda: [case(AutoEncoder, dict(one, channels=[4, 6], strides=[2, 2], num_res_units=1), [2, 2, 16], True)],
        regressor=lambda: [case(Regressor, dict(in_shape=[2, 13], out_shape=[3], channels=[4, 6], strides=[2, 2]), [2, 2, 13], True)],
        generator=lambda: [case(Generator, dict(latent_shape=[5], start_shape=[4, 3], channels=[4, 2], strides=[2, 2]), [2, 5], True)],
        autoencoder_kl=lambda: [case(Sampled, dict(one, num_res_blocks=1, channels=[4, 8], attention_levels=[False, True],
                                                   latent_channels=2, norm_num_groups=2), [2, 2, 16], False)],
        patch_discriminator=lambda: [case(JudgementFirst, dict(spatial_dims=1, channels=4, in_channels=2, num_layers_d=2), [2, 2, 32], True),
                                     case(JudgementFirst, dict(spatial_dims=1, channels=4, in_channels=2, num_layers_d=2, norm="INSTANCE"), [2, 2, 48], True)],
        unetr=lambda: [case(UNETR, dict(one, img_size=[64], feature_size=2, hidden_size=12, mlp_dim=16, num_heads=2), [2, 2, 64], True)],
        local_net=lambda: [case(LocalNet, dict(spatial_dims=1, in_channels=2, num_channel_initial=2, extract_levels=[0, 1, 2],
                                               out_kernel_initializer="kaiming_uniform", out_activation=None, out_channels=1),
                                [2, 2, 32], True)],
        reg_unet=lambda: [case(RegUNet, dict(spatial_dims=1, in_channels=2, num_channel_initial=2, depth=2, out_channels=1),
                               [2, 2, 16], True)])


NETS |= {f"{name}_1d": cases for name, cases in signal_cases().items()}

(HERE / "nets").mkdir(exist_ok=True)
for name, cases in NETS.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    text = json.dumps(dict(monai="1.6.1", torch=torch.__version__, type=name.removesuffix("_1d"), cases=cases()), indent=0)
    (HERE / "nets" / f"{name}.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
