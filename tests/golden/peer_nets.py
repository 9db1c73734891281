"""MONAI's networks (and those that MONAI is used for) with the inputs and the outputs of ours, without their noise.

What make_nets.py stores the answers of, and tests/monai/networks.py runs.
"""
import contextlib
import io

import numpy
import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet, ResidualEncoderUNet
from monai.apps.detection.networks.retinanet_network import RetinaNet, resnet_fpn_feature_extractor
from monai.apps.generation.maisi.networks.autoencoderkl_maisi import AutoencoderKlMaisi
from monai.apps.generation.maisi.networks.controlnet_maisi import ControlNetMaisi
from monai.apps.generation.maisi.networks.diffusion_model_unet_maisi import DiffusionModelUNetMaisi
from monai.networks import nets
from monai.networks.blocks import Convolution, MaxAvgPool, ResidualSELayer, SimpleASPP, UpSample
from monai.networks.nets import (
    AutoencoderKL, ControlNet, DiNTS, EfficientNetBNFeatures, HoVerNet, MaskedAutoEncoderViT, MILModel,
    MultiScalePatchDiscriminator, PatchDiscriminator, SegResNetVAE, SPADEAutoencoderKL, SPADENet, TopologyInstance,
    VoxelMorph, VoxelMorphUNet, VQVAE)
from monai.networks.nets.basic_unet import UpCat

from prompted import prompted  # noqa: F401  (for those who look here)


# MONAI's research contribution (coplenet.py), of MONAI's blocks.
class CopleNet(torch.nn.Module):
    def __init__(self, in_channels=1, out_channels=2, feature_channels=(32, 64, 128, 256, 512),
                 dropout=(0.0, 0.0, 0.3, 0.4, 0.5)):
        super().__init__()
        f, act = feature_channels, dict(norm="batch", act="leakyrelu")

        def block(i, c, p):
            m = torch.nn.Module()
            m.conv_conv_se = torch.nn.Sequential(
                Convolution(2, i, c, kernel_size=3, **act), torch.nn.Dropout(p), Convolution(2, c, c, kernel_size=3, **act),
                ResidualSELayer(spatial_dims=2, in_channels=c, r=2))
            return m

        self.in_conv, self.pool = block(in_channels, f[0], dropout[0]), MaxAvgPool(spatial_dims=2, kernel_size=2)
        for k in range(4):
            down, up = torch.nn.Module(), torch.nn.Module()
            down.conv = block(2 * f[k], f[k + 1], dropout[k + 1])
            up.up = UpSample(2, f[k + 1], f[k] // 2, scale_factor=2, mode="nontrainable")
            up.conv = block(f[k], f[k], dropout[k])
            self.add_module(f"bridge{k}", Convolution(2, f[k], f[k] // 2, kernel_size=1, **act))
            self.add_module(f"down{k + 1}", down)
            self.add_module(f"up{4 - k}", up)
        self.aspp = SimpleASPP(2, f[4], f[4] // 4, kernel_sizes=[1, 3, 3, 3], dilations=[1, 2, 4, 6])
        self.out_conv = Convolution(2, f[0], out_channels, conv_only=True)

    def forward(self, x):
        if x.dim() == 5:
            return self(x.transpose(1, 2).flatten(0, 1)).unflatten(0, (x.shape[0], x.shape[2])).transpose(1, 2)
        x, skips = self.in_conv.conv_conv_se(x), []
        for k in range(4):
            skips.append(getattr(self, f"bridge{k}")(x))
            y = self.pool(x)
            x = getattr(self, f"down{k + 1}").conv.conv_conv_se(y) + y
        x = self.aspp(x)
        for k in (3, 2, 1, 0):
            up = getattr(self, f"up{4 - k}")
            y = torch.cat([skips[k], up.up(x)], 1)
            x = up.conv.conv_conv_se(y) + y
        return self.out_conv(x)


class LeNet(torch.nn.Module):  # of PyTorch's CIFAR-10 tutorial
    def __init__(self, in_channels=3, out_channels=10, image_size=32):
        super().__init__()
        side = ((image_size - 4) // 2 - 4) // 2
        self.conv1, self.conv2 = torch.nn.Conv2d(in_channels, 6, 5), torch.nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2 = torch.nn.Linear(16 * side * side, 120), torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, out_channels)

    def forward(self, x):
        for c in (self.conv1, self.conv2):
            x = torch.max_pool2d(torch.relu(c(x)), 2)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


# MONAI's research contribution (LAMP), of MONAI's blocks; in one part.
class UNetPipe(torch.nn.Module):
    def __init__(self, spatial_dims, in_channels, out_channels, n_feat=32, depth=4):
        super().__init__()
        f = [min(n_feat * 2**k, 1024) for k in range(depth + 1)]

        def named(**modules):
            m = torch.nn.Module()
            for name, module in modules.items():
                m.add_module(name, module)
            return m

        def normed(i, o, stride):
            return Convolution(spatial_dims, i, o, strides=stride, act="leakyrelu", norm="batch", bias=False)

        def double(i, o, stride):
            second = Convolution(spatial_dims, o, o, conv_only=True)
            return named(conv=torch.nn.Sequential(normed(i, o, stride), second))

        def up(i, o):
            return UpSample(spatial_dims, i, o, 2, mode="deconv")

        conv = torch.nn.Conv2d if spatial_dims == 2 else torch.nn.Conv3d
        low = min(n_feat // 2, 32)
        self.encoder = torch.nn.ModuleList([named(Conv=normed(in_channels, f[0], 2))])
        self.encoder.extend(named(Down=double(f[k - 1], f[k], 2)) for k in range(1, depth + 1))
        self.decoder = torch.nn.ModuleList(
            named(Up=up(f[k], f[k - 1]), Conv1x1x1=conv(2 * f[k - 1], f[k], 1), Conv=double(f[k], f[k - 1], 1))
            for k in range(depth, 0, -1))
        self.decoder.append(named(Up=up(f[0], low), out=conv(low, out_channels, 3, padding=1)))

    def forward(self, x):
        skips = [self.encoder[0].Conv(x)]
        for level in self.encoder[1:]:
            skips.append(level.Down.conv(skips[-1]))
        x = skips.pop()
        for level in self.decoder[:-1]:
            x = level.Conv.conv(level.Conv1x1x1(torch.cat([level.Up(x), skips.pop()], 1)))
        last = self.decoder[-1]
        return last.out(torch.nn.functional.leaky_relu(last.Up(x), 0.01))


# One sample, and latent numbers without noise: ours are so outside training.
class PlainVae(SegResNetVAE):
    def forward(self, x):
        drawn, torch.randn_like = torch.randn_like, torch.zeros_like
        y, loss = super().forward(x)
        torch.randn_like = drawn
        return y, loss.reshape(1)


# nnU-Net's, from a plan's architecture.
def nnunet(cls, spatial_dims, in_channels, out_channels, features_per_stage, dropout=0.0, **args):
    from torch import nn

    conv, norm = ((nn.Conv2d, nn.InstanceNorm2d), (nn.Conv3d, nn.InstanceNorm3d))[spatial_dims - 2]
    return cls(input_channels=in_channels, n_stages=len(features_per_stage), features_per_stage=features_per_stage,
               conv_op=conv, num_classes=out_channels, norm_op=norm, norm_op_kwargs=dict(affine=True, eps=1e-5),
               dropout_op=(nn.Dropout2d, nn.Dropout3d)[spatial_dims - 2] if dropout else None,
               dropout_op_kwargs=dict(p=dropout), nonlin=nn.LeakyReLU, nonlin_kwargs=dict(inplace=True), **args)


def plain_conv_unet(**args):
    return nnunet(PlainConvUNet, **args)


def residual_encoder_unet(**args):
    return nnunet(ResidualEncoderUNet, **args)


def moved(integration_steps=7, half_res=False, **unet):
    return VoxelMorph(VoxelMorphUNet(**unet), integration_steps, half_res, unet["spatial_dims"])


# Without what it prints; a code is lists.
def searched(arch_code_a=None, arch_code_c=None, node_a=None, in_channels=1, num_classes=1, **space):
    codes = None if arch_code_a is None else [numpy.array(arch_code_a), numpy.array(arch_code_c)]
    with contextlib.redirect_stdout(io.StringIO()):
        topology = TopologyInstance(codes, **space)
    if "num_blocks" not in space:
        topology.num_blocks = 6
    same = {k: space[k] for k in ("spatial_dims", "use_downsample", "act_name", "norm_name") if k in space}
    return DiNTS(topology, in_channels, num_classes, node_a=None if node_a is None else torch.tensor(node_a), **same)


def of_bags(out_channels=1, **args):
    return MILModel(num_classes=out_channels, pretrained=False, **args)


# Without MONAI's check of sizes: what it computes is the same for smaller ones.
def hovered(**args):
    net = HoVerNet(**args)

    def forward(x):
        x, levels = net.conv0(x), []
        for block in net.res_blocks:
            x = block(x)
            levels.append(x)
        x = net.upsample(net.bottleneck(x))
        heads = (net.nucleus_prediction, net.horizontal_vertical, net.type_prediction)
        return [head(x, levels[:3]) for head in heads if head is not None]

    net.forward = forward
    return net


# MONAI's own sum is in place, and has no gradient there.
def resting(cls):
    def make(**args):
        net = cls(**args)
        net.reparameterize = lambda mu, logvar: mu if net.use_mean_at_inference else mu + torch.exp(0.5 * logvar)
        return net

    return make


def quicknat(in_channels=1, **args):
    return nets.Quicknat(num_channels=in_channels, **args)


class Sampled(AutoencoderKL):  # without its noise
    def sampling(self, z_mu, z_sigma):
        return z_mu


class SampledMaisi(AutoencoderKlMaisi):  # and in one piece
    def __init__(self, **args):
        super().__init__(**args, num_splits=1, save_mem=False)

    def sampling(self, z_mu, z_sigma):
        return z_mu


class JudgementFirst(PatchDiscriminator):  # as ours
    def forward(self, x):
        *between, judgement = super().forward(x)
        return [judgement, *between]


def multi_scale_judge(**args):
    net = MultiScalePatchDiscriminator(**args)
    plain = net.forward

    def forward(x):
        judged, between = plain(x)
        return judged + [v for part in between for v in part]

    net.forward = forward
    return net


# The commitment loss is the mean of ours, which is of each sample.
def with_commitment(**args):
    net = VQVAE(**args)

    def forward(x):
        code = net.encode(x)
        away, quantized = net.quantizer(code)
        each = net.quantizer.quantizer.commitment_cost * (quantized.detach() - code).square().flatten(1).mean(1)
        assert (each.mean() - away).abs() < 1e-6
        return [net.decode(quantized), each]

    net.forward = forward
    return net


def timed(cls, seg=False):
    def make(additional_residuals=False, **args):
        net = cls(**args)
        plain = net.forward

        def forward(x, timesteps, *more):
            more, kw = list(more), {}
            if seg:
                kw["seg"] = more.pop(0)
            if args.get("with_conditioning"):
                kw["context"] = more.pop(0)
            if args.get("num_class_embeds"):
                kw["class_labels"] = more.pop(0)
            for of in ("top_region_index", "bottom_region_index", "spacing"):
                if args.get(f"include_{of}_input"):
                    kw[f"{of}_tensor"] = more.pop(0)
            if additional_residuals:
                kw.update(down_block_additional_residuals=more[:-1], mid_block_additional_residual=more[-1])
            return plain(x, timesteps=timesteps, **kw)

        net.forward = forward
        return net

    return make


# MONAI's adds the residuals in place, so the middle reads the last of them too; such sums have no gradient in training.
class UNetMaisi(DiffusionModelUNetMaisi):
    def _apply_down_blocks(self, h, emb, context, residuals):
        h, skips = super()._apply_down_blocks(h, emb, context, None)
        if residuals is not None:
            skips = [skip + residual for skip, residual in zip(skips, residuals)]
            h = skips[-1]
        return h, skips


def controlling(cls=ControlNet, **args):
    net = cls(**args)
    plain = net.forward

    def forward(x, timesteps, cond, *more):
        more = dict(zip([k for k, given in (("context", "with_conditioning"), ("class_labels", "num_class_embeds"))
                         if args.get(given)], more))
        down, middle = plain(x, timesteps, cond, **more)
        return [*down, middle]

    net.forward = forward
    return net


def controlling_maisi(**args):
    return controlling(ControlNetMaisi, use_checkpointing=False, **args)


def spade(**args):
    net = SPADENet(**dict(args, channels=list(args["channels"])))
    if args.get("is_vae", True):
        net.encoder.reparameterize = lambda mu, logvar: mu
    return net


def spade_autoencoder(**args):
    net = SPADEAutoencoderKL(**args)
    net.sampling = lambda mean, deviation: mean
    return net


# The patches that our draws choose with the key 0 (Philox4x32-10; kernels/net/dropout_step.cpp).
def chosen(samples, tokens, count):
    def philox(low, high):
        c, k = [low, 0, high, 0], [0, 0]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c[0]

    draws = torch.tensor([philox(i, 3) for i in range(samples * tokens)], dtype=torch.float64)
    return draws.reshape(samples, tokens).argsort(dim=1, stable=True)[:, :count]


def masked(**args):
    net = MaskedAutoEncoderViT(**args)

    def masking(x, masking_ratio=None):
        keep = chosen(x.shape[0], x.shape[1], int((1 - net.masking_ratio) * x.shape[1]))
        mask = torch.ones(x.shape[:2])
        mask[torch.arange(x.shape[0]).unsqueeze(-1), keep] = 0
        return x[torch.arange(x.shape[0]).unsqueeze(1), keep], keep, mask

    net._masking = masking
    return net


# A classifier with a segmentation head on MONAI's EfficientNet and UpCat, named as FlexibleUNet.
class RanzcrNet(torch.nn.Module):
    def __init__(self, encoder, in_channels, out_channels, seg_channels, decoder_channels):
        super().__init__()
        self.encoder = EfficientNetBNFeatures(encoder, pretrained=False, in_channels=in_channels,
                                              norm=("batch", {"eps": 1e-3, "momentum": 0.1}))
        skips = {"efficientnet-b0": (16, 24, 40, 112, 320)}[encoder]
        before = [skips[-1], *decoder_channels[:-1]]
        self.decoder = torch.nn.Module()
        self.decoder.blocks = torch.nn.ModuleList(
            UpCat(2, i, s, o, ("relu", {"inplace": True}), "batch", False, 0.0, "nontrainable", None, "nearest",
                  None, halves=k < 4)
            for k, (i, s, o) in enumerate(zip(before, [*skips[-2::-1], 0], decoder_channels)))
        self.segmentation_head = torch.nn.Sequential(torch.nn.Conv2d(decoder_channels[-1], seg_channels, 3, padding=1))
        self.fc = torch.nn.Linear(skips[-1], out_channels)

    def forward(self, x):
        f = self.encoder(x)
        y = f[-1]
        for k, block in enumerate(self.decoder.blocks):
            y = block(y, f[3 - k] if k < 4 else None)
        return [self.fc(torch.amax(f[-1], (2, 3))), self.segmentation_head(y)]


# As retinanet_resnet50_fpn_detector puts them together, of any ResNet.
def retina(spatial_dims, num_classes, num_anchors, backbone="resnet50", returned_layers=(1, 2, 3), **of_resnet):
    body = getattr(nets, backbone)(spatial_dims=spatial_dims, **of_resnet)
    features = resnet_fpn_feature_extractor(body, spatial_dims, returned_layers=returned_layers)
    return RetinaNet(spatial_dims, num_classes, num_anchors, features, use_list_output=True)
