"""Random configurations of the networks that network_cases.py does not have, as there."""
import torch
from monai.networks import nets
from monai.networks.nets import SPADEDiffusionModelUNet

import peer_nets
from network_cases import act, image, norm, shared


def numbers(r, *size):
    return torch.randn(size, generator=torch.Generator().manual_seed(r.randrange(1000))).tolist()


def basic_unet_plus_plus(r):
    a = shared(r, 1) | dict(features=[4 * r.randint(1, 2) for _ in range(6)], act=act(r), norm=norm(r),
                            bias=r.random() < 0.5, upsample=r.choice(["deconv", "nontrainable"]),
                            deep_supervision=r.random() < 0.5)
    return nets.BasicUNetPlusPlus, a, image(r, a["spatial_dims"], a["in_channels"], 16, 2, 2), dict(
        outputs=4 if a["deep_supervision"] else 1)


# In evaluation: a batch's statistics of so few numbers are rounding.
def ahnet(r):
    dims = r.choice([2, 3])
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 2), out_channels=r.randint(1, 3),
             layers=[1, 1, r.randint(1, 2), 1], psp_block_num=r.randint(0, 2),
             upsample_mode=r.choice(["transpose", *(["bilinear"] if dims == 2 else ["trilinear"])]))
    return nets.AHNet, a, image(r, dims, a["in_channels"], 32, 1, 2, 1), dict(train=False)


def quicknat(r):
    a = dict(num_classes=r.randint(2, 4), in_channels=r.randint(1, 2), num_filters=4, kernel_size=r.choice([3, 5]),
             se_block=r.choice(["None", "CSE"]))
    return peer_nets.quicknat, a, image(r, 2, a["in_channels"], 16, 1, 2), dict(ours=dict(kernel_size=[a["kernel_size"]]))


def flexible_unet(r):
    dims = r.choice([2, 3])
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 3), out_channels=r.randint(1, 3), norm=norm(r), act=act(r),
             backbone=r.choice(["resnet10", "resnet18"] + (["efficientnet-b0"] if dims == 2 else [])),
             decoder_channels=[16, 12, 8, 6, 4], upsample=r.choice(["deconv", "nontrainable"]),
             decoder_bias=r.random() < 0.5, is_pad=r.random() < 0.5)
    return nets.FlexibleUNet, a, image(r, dims, a["in_channels"], 32, 1, 2, 1), dict(train=False)


def reg_levels(r, depth):
    return sorted({depth, *r.sample(range(depth), r.randint(0, depth))})


def global_net(r):
    dims, depth = r.choice([2, 3]), r.randint(1, 2)
    size = image(r, dims, 2, 2**depth, 2, 4)
    a = dict(spatial_dims=dims, image_size=size[2:], in_channels=2, num_channel_initial=2, depth=depth,
             pooling=r.random() < 0.5, concat_skip=r.random() < 0.5)
    return nets.GlobalNet, a, size, dict(single=True, ours=dict(out_channels=dims))


def local_net(r):
    dims, depth = r.choice([2, 3]), r.randint(1, 3)
    a = dict(spatial_dims=dims, in_channels=2, num_channel_initial=2, extract_levels=reg_levels(r, depth), out_channels=dims,
             pooling=r.random() < 0.5, concat_skip=r.random() < 0.5, use_additive_sampling=r.random() < 0.5,
             mode=r.choice(["nearest", "bilinear" if dims == 2 else "trilinear"]))
    if a["mode"] != "nearest":
        a["align_corners"] = r.choice([None, True, False])
    return nets.LocalNet, a, image(r, dims, 2, 2**depth, 2, 3)


# MONAI's half resolution is 3-D alone.
def voxel_morph(r):
    dims = r.choice([2, 3])
    levels = r.randint(1, 2)
    size = image(r, dims, 1, 2**levels, 2, 3)
    a = dict(spatial_dims=dims, in_channels=2, unet_out_channels=4, channels=[r.randint(2, 4) for _ in range(2 * levels)],
             final_conv_channels=[r.randint(2, 4) for _ in range(r.randint(1, 2))], use_maxpool=r.random() < 0.5,
             integration_steps=r.choice([0, 3]), half_res=dims == 3 and r.random() < 0.5, act=act(r), norm=r.choice([None, "batch"]))
    return peer_nets.moved, a, size, dict(key="moving", more=dict(fixed=numbers(r, *size)), outputs=2,
                                          ours=dict(in_channels=1))


def nnunet(make, blocks):
    def draw(r):
        stages = r.randint(2, 3)
        a = dict(spatial_dims=r.choice([2, 3]), in_channels=r.randint(1, 3), out_channels=r.randint(2, 4),
                 features_per_stage=[4 * r.randint(1, 2) for _ in range(stages)], conv_bias=r.random() < 0.5,
                 kernel_sizes=[r.choice([1, 3, 5]) for _ in range(stages)], strides=[1] + [2] * (stages - 1),
                 n_conv_per_stage_decoder=[r.randint(1, 2) for _ in range(stages - 1)],
                 deep_supervision=r.random() < 0.5, **{blocks: [r.randint(1, 2) for _ in range(stages)]})
        size = image(r, a["spatial_dims"], a["in_channels"], 2 ** (stages - 1), 2, 4)
        return make, a, size, dict(outputs=stages - 1 if a["deep_supervision"] else 1)

    return draw


def senet(cls, **more):
    def draw(r):
        a = dict(spatial_dims=r.randint(1, 3), in_channels=r.randint(1, 3), num_classes=r.randint(1, 4),
                 layers=[1, r.randint(1, 2), 1, 1], dropout_prob=None, **more)
        return cls, a, image(r, a["spatial_dims"], a["in_channels"], 16, 1, 2), dict(train=False)

    return draw


def dints(r):
    a = dict(spatial_dims=r.choice([2, 3]), in_channels=r.randint(1, 2), num_classes=r.randint(1, 3), channel_mul=0.125,
             num_blocks=r.randint(1, 3), num_depths=3, use_downsample=r.random() < 0.5,
             norm_name=norm(r), act_name=act(r))
    return peer_nets.searched, a, image(r, a["spatial_dims"], a["in_channels"], 16, 1, 2)


def segresnet_vae(r):
    size = image(r, r.choice([2, 3]), r.randint(1, 2), 4, 2, 3, 1)
    a = dict(spatial_dims=len(size) - 2, init_filters=4, in_channels=size[1], out_channels=r.randint(1, 3), blocks_down=[1, 1],
             blocks_up=[1], input_image_size=size[2:], norm=["group", {"num_groups": r.choice([2, 4])}], vae_nz=6,
             vae_estimate_std=r.random() < 0.5, act=r.choice(["relu", "elu"]),
             upsample_mode=r.choice(["deconv", "nontrainable"]))
    return peer_nets.PlainVae, a, size, dict(train=False, peer_train=True, outputs=2)


def vit_auto_enc(r):
    dims, heads = r.choice([2, 3]), r.randint(1, 3)
    patch = r.choice([4, 9])
    size = [patch * r.randint(2, 3) for _ in range(dims)]
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 2), out_channels=r.randint(1, 2), img_size=size,
             patch_size=[patch] * dims, hidden_size=12 * heads, mlp_dim=16, num_layers=r.randint(1, 2), num_heads=heads,
             deconv_chns=r.randint(2, 5), proj_type=r.choice(["conv", "perceptron"]), qkv_bias=r.random() < 0.5)
    return nets.ViTAutoEnc, a, [2, a["in_channels"], *size]


def masked_auto_encoder_vit(r):
    dims, heads = r.choice([2, 3]), r.randint(1, 3)
    size = [4 * r.randint(1, 3) for _ in range(dims)]
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 2), img_size=size, patch_size=4, hidden_size=12 * heads, mlp_dim=16,
             num_layers=r.randint(1, 2), num_heads=heads, decoder_hidden_size=24, decoder_mlp_dim=10, decoder_num_layers=1,
             decoder_num_heads=r.choice([1, 2, 4]), masking_ratio=r.choice([0.25, 0.5, 0.75]),
             pos_embed_type=r.choice(["learnable", "sincos"]), decoder_pos_embed_type=r.choice(["learnable", "sincos"]),
             proj_type=r.choice(["conv", "perceptron"]), qkv_bias=r.random() < 0.5)
    return peer_nets.masked, a, [2, a["in_channels"], *size], dict(
        seed=0,
        train=False, outputs=2, ours=dict(patch_size=[4] * dims))


def cople_net(r):
    size = image(r, r.choice([2, 3]), r.randint(1, 2), 16, 1, 2)
    if len(size) == 5:
        size[2] = r.randint(1, 3)
    f = 4 * r.randint(1, 2)
    a = dict(in_channels=size[1], out_channels=r.randint(1, 3), feature_channels=[f * 2**k for k in range(5)])
    return peer_nets.CopleNet, a, size, dict(train=False)


def unet_pipe(r):
    depth = r.randint(1, 3)
    a = shared(r) | dict(n_feat=2 * r.randint(1, 3), depth=depth)
    return peer_nets.UNetPipe, a, image(r, a["spatial_dims"], a["in_channels"], 2 ** (depth + 1), 1, 2), dict(train=False)


def segresnet_ds2(r):
    a = shared(r) | dict(init_filters=4, blocks_down=[1, r.randint(1, 2), 1], norm=norm(r), act=r.choice(["relu", "elu"]),
                         upsample_mode=r.choice(["deconv", "nontrainable"]))
    return nets.SegResNetDS2, a, image(r, a["spatial_dims"], a["in_channels"], 4, 2, 3), dict(outputs=2)


def hover_net(r):
    a = dict(mode="FAST", in_channels=r.randint(1, 3), out_classes=r.choice([0, 3]),
             act=r.choice(["relu", "prelu"]), decoder_padding=True)
    return peer_nets.hovered, a, [1, a["in_channels"], 32, 32], dict(train=False, outputs=3 if a["out_classes"] else 2)


def mil_model(r):
    a = dict(mil_mode=r.choice(["mean", "max", "att", "att_trans"]), backbone=r.choice(["resnet18", "resnet34"]),
             trans_blocks=r.randint(1, 2), out_channels=r.randint(1, 3))
    return peer_nets.of_bags, a, [2, r.randint(1, 3), 3, 32, 32], dict(train=False)


def torchvision_fc_model(r):
    a = dict(model_name=r.choice(["resnet18", "resnet34", "resnet50"]), num_classes=r.randint(1, 3), use_conv=r.random() < 0.5,
             pool=r.choice([None, ["max", {"kernel_size": 2, "stride": 1}]]), bias=r.random() < 0.5)
    if not a["use_conv"]:
        a["pool"] = None
    return nets.TorchVisionFCModel, a, [1, 3, 64, 32 * r.randint(2, 3)], dict(train=False)


def vqvae(r):
    levels = r.randint(1, 2)
    a = shared(r) | dict(channels=[2 * r.randint(1, 3) for _ in range(levels)], num_res_layers=r.randint(1, 2),
                         num_res_channels=[r.randint(2, 5) for _ in range(levels)], num_embeddings=r.randint(3, 8),
                         downsample_parameters=[[2, 4, 1, 1]] * levels, upsample_parameters=[[2, 4, 1, 1, 0]] * levels,
                         embedding_dim=r.randint(2, 5), act=r.choice(["relu", "prelu"]), output_act=r.choice([None, "tanh"]))
    return peer_nets.with_commitment, a, image(r, a["spatial_dims"], a["in_channels"], 4, 2, 3), dict(
        train=False, outputs=2, single=True)


def var_auto_encoder(r):
    size = image(r, r.choice([2, 3]), r.randint(1, 2), 4, 1, 3)
    a = dict(spatial_dims=len(size) - 2, in_shape=size[1:], out_channels=r.randint(1, 3), latent_size=r.randint(2, 4),
             channels=[4, 6], strides=[2, r.choice([1, 2])], num_res_units=r.randint(0, 2), use_sigmoid=r.random() < 0.5,
             use_mean_at_inference=r.random() < 0.5, act=act(r))
    return peer_nets.resting(nets.VarAutoEncoder), a, size, dict(train=False, outputs=4)


def var_fully_connected_net(r):
    a = dict(in_channels=r.randint(3, 8), out_channels=r.randint(1, 4), latent_size=r.randint(2, 4), act=act(r),
             encode_channels=[r.randint(3, 8)], decode_channels=[r.randint(3, 8)], bias=r.random() < 0.5,
             use_mean_at_inference=r.random() < 0.5)
    return peer_nets.resting(nets.VarFullyConnectedNet), a, [3, a["in_channels"]], dict(train=False, outputs=4)


def multi_scale_patch_discriminator(r):
    dims = r.choice([2, 3])
    a = dict(num_d=r.randint(1, 2), num_layers_d=1, spatial_dims=dims, channels=r.randint(2, 4), in_channels=r.randint(1, 2),
             minimum_size_im=16)
    return peer_nets.multi_scale_judge, a, image(r, dims, a["in_channels"], 16, 1, 2), dict(train=False, outputs=a["num_d"])


def ranzcr_net(r):
    a = dict(encoder="efficientnet-b0", in_channels=r.randint(1, 3), out_channels=r.randint(1, 4),
             seg_channels=r.randint(1, 3), decoder_channels=[4 * r.randint(1, 3) for _ in range(5)])
    return peer_nets.RanzcrNet, a, image(r, 2, a["in_channels"], 32, 1, 2), dict(train=False, outputs=2)


def timed(r, seg):
    dims = r.choice([2, 3])
    size = image(r, dims, r.randint(1, 2), 2, 2, 3)
    a = dict(spatial_dims=dims, in_channels=size[1], out_channels=r.randint(1, 2), num_res_blocks=1, channels=[4, 8],
             norm_num_groups=r.choice([1, 2]), attention_levels=[r.random() < 0.5, True], num_head_channels=r.choice([2, 4]),
             resblock_updown=r.random() < 0.5, use_combined_linear=r.random() < 0.5)
    more = dict(timesteps=[3.0, 900.0])
    if seg:
        a |= dict(label_nc=r.randint(1, 3), spade_intermediate_channels=4)
        more |= dict(seg=numbers(r, size[0], a["label_nc"], *size[2:]))
    if r.random() < 0.5:
        a |= dict(with_conditioning=True, cross_attention_dim=3, transformer_num_layers=r.randint(1, 2))
        more |= dict(context=numbers(r, size[0], r.randint(1, 4), 3))
    return a, size, more


def spade_diffusion_model_unet(r):
    a, size, more = timed(r, True)
    return peer_nets.timed(SPADEDiffusionModelUNet, True), a, size, dict(more=more)


def diffusion_model_unet_maisi(r):
    a, size, more = timed(r, False)
    a["num_channels"] = a.pop("channels")
    for of, count in (("top_region_index", 4), ("bottom_region_index", 4), ("spacing", 3)):
        if r.random() < 0.7:
            a[f"include_{of}_input"] = True
            more[f"{of}_tensor"] = numbers(r, size[0], count)
    return peer_nets.timed(peer_nets.UNetMaisi), a, size, dict(more=more)


def controlnet_maisi(r):
    _, a, *rest = controlnet(r)
    a["num_channels"] = a.pop("channels")
    return peer_nets.controlling_maisi, a, *rest


def controlnet(r):
    a, size, more = timed(r, False)
    del a["out_channels"]
    embeddings = [r.randint(2, 4) for _ in range(r.randint(1, 2))]
    finer = 2 ** (len(embeddings) - 1)
    a |= dict(conditioning_embedding_num_channels=embeddings, conditioning_embedding_in_channels=r.randint(1, 2))
    cond = numbers(r, size[0], a["conditioning_embedding_in_channels"], *(finer * n for n in size[2:]))
    more = dict(timesteps=more["timesteps"], controlnet_cond=cond) | {k: v for k, v in more.items() if k == "context"}
    return peer_nets.controlling, a, size, dict(more=more, outputs=5)


def spade_autoencoder_kl(r):
    dims = r.choice([2, 3])
    size = image(r, dims, r.randint(1, 2), 2, 2, 4)
    a = dict(spatial_dims=dims, label_nc=r.randint(1, 3), in_channels=size[1], out_channels=r.randint(1, 2),
             num_res_blocks=[1, r.randint(1, 2)], channels=[4, 8], latent_channels=2, norm_num_groups=r.choice([2, 4]),
             attention_levels=[False, r.random() < 0.5], spade_intermediate_channels=4,
             with_encoder_nonlocal_attn=r.random() < 0.5, with_decoder_nonlocal_attn=r.random() < 0.5)
    return peer_nets.spade_autoencoder, a, size, dict(
        train=False, outputs=3, more=dict(seg=numbers(r, size[0], a["label_nc"], *size[2:])))


def spade_net(r):
    dims = r.choice([2, 3])
    extents = image(r, dims, 1, 8, 1, 2)[2:]
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 2), out_channels=r.randint(1, 3), label_nc=r.randint(1, 3),
             input_shape=extents, channels=[4, 6], spade_intermediate_channels=4, norm=r.choice(["INSTANCE", "BATCH"]),
             upsampling_mode=r.choice(["nearest", "bilinear" if dims == 2 else "trilinear"]), is_vae=r.random() < 0.5)
    options = dict(key="seg", train=False)
    if a["is_vae"]:
        a["z_dim"] = r.randint(2, 4)
        options |= dict(more=dict(image=numbers(r, 2, a["in_channels"], *extents)), outputs=3)
    return peer_nets.spade, a, [2, a["label_nc"], *extents], options


CASES = dict(
    basic_unet_plus_plus=basic_unet_plus_plus, ahnet=ahnet, quicknat=quicknat, flexible_unet=flexible_unet,
    global_net=global_net, local_net=local_net, voxel_morph=voxel_morph, dints=dints, cople_net=cople_net,
    plain_conv_unet=nnunet(peer_nets.plain_conv_unet, "n_conv_per_stage"), unet_pipe=unet_pipe,
    residual_encoder_unet=nnunet(peer_nets.residual_encoder_unet, "n_blocks_per_stage"),
    se_resnet50=senet(nets.SEResNet50), se_resnext50=senet(nets.SEResNext50), senet154=senet(nets.SENet154, groups=8),
    segresnet_vae=segresnet_vae, segresnet_ds2=segresnet_ds2, vit_auto_enc=vit_auto_enc,
    masked_auto_encoder_vit=masked_auto_encoder_vit, hover_net=hover_net, mil_model=mil_model,
    torchvision_fc_model=torchvision_fc_model, vqvae=vqvae, var_auto_encoder=var_auto_encoder,
    var_fully_connected_net=var_fully_connected_net, multi_scale_patch_discriminator=multi_scale_patch_discriminator,
    ranzcr_net=ranzcr_net, spade_diffusion_model_unet=spade_diffusion_model_unet, controlnet=controlnet,
    diffusion_model_unet_maisi=diffusion_model_unet_maisi, controlnet_maisi=controlnet_maisi,
    spade_autoencoder_kl=spade_autoencoder_kl, spade_net=spade_net)
