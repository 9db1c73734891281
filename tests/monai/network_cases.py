"""Random configurations of networks for networks.py: type -> (MONAI's class, its arguments, the size of the first input,
options). Options: `train`; `key` of the first input; `more`, the values of further inputs by their keys; `outputs`, how many
are compared; `ours`, parameters that are ours alone; `peer_train`, where MONAI has it;
`single`, where MONAI computes in float32 alone."""
from monai.networks import nets

import peer_nets
from prompted import prompted


def image(r, dims, channels, step, least=2, most=4, batch=2):
    more = 2 if dims == 1 else 1  # norms of two numbers are signs
    return [batch, channels, *(more * step * r.randint(least, most) for _ in range(dims))]


def norm(r, groups=2):
    return r.choice(["batch", ["instance", {"affine": True}], ["group", {"num_groups": groups}]])


def act(r):
    return r.choice(["relu", "prelu", "elu", ["leakyrelu", {"negative_slope": 0.1}]])


def shared(r, least=2):
    return dict(spatial_dims=r.randint(least, 3), in_channels=r.randint(1, 3), out_channels=r.randint(1, 4))


def unet(r):
    a = shared(r, 1) | dict(channels=[4 * r.randint(1, 2) for _ in range(3)], strides=[2, r.choice([1, 2])],
                            kernel_size=r.choice([3, 5]), num_res_units=r.randint(0, 3),
                            norm=r.choice(["INSTANCE", "BATCH", "batch", ["Instance", {"affine": True}], ["batch", {"eps": 1e-2}]]),
                            act=r.choice(["PRELU", "ReLU", "leakyrelu", ["LeakyReLU", {"negative_slope": 0.2}], "elu"]),
                            bias=r.random() < 0.5)
    return nets.UNet, a, image(r, a["spatial_dims"], a["in_channels"], 4)


def attention_unet(r):
    a = shared(r, 1) | dict(channels=[4, 6, 8], strides=[2, 2])
    return nets.AttentionUnet, a, image(r, a["spatial_dims"], a["in_channels"], 4, 3)


def basic_unet(r):
    a = shared(r, 1) | dict(features=[4 * r.randint(1, 2) for _ in range(6)], act=act(r), norm=norm(r),
                            bias=r.random() < 0.5, upsample=r.choice(["deconv", "nontrainable"]))
    return nets.BasicUNet, a, image(r, a["spatial_dims"], a["in_channels"], 16, 2, 2)


def dynunet(r):
    levels = r.randint(3, 4)
    a = shared(r, 1) | dict(kernel_size=[r.choice([1, 3]) for _ in range(levels)], strides=[1] + [2] * (levels - 1),
                            upsample_kernel_size=[2] * (levels - 1), filters=[4 * r.randint(1, 2) for _ in range(levels)],
                            norm_name=norm(r), res_block=r.random() < 0.5, trans_bias=r.random() < 0.5)
    return nets.DynUNet, a, image(r, a["spatial_dims"], a["in_channels"], 2 ** (levels - 1), 2, 3)


def segresnet(r):
    a = shared(r) | dict(init_filters=8, blocks_down=[r.randint(1, 2) for _ in range(3)], blocks_up=[1, r.randint(1, 2)],
                         upsample_mode=r.choice(["deconv", "nontrainable", "pixelshuffle"]),
                         norm=["group", {"num_groups": r.choice([2, 4])}])
    return nets.SegResNet, a, image(r, a["spatial_dims"], a["in_channels"], 4, 2, 3)


def segresnet_ds(r):
    a = shared(r, 1) | dict(init_filters=8, blocks_down=[1, r.randint(1, 2), 1], norm=norm(r, 4), act=r.choice(["relu", "elu"]),
                            upsample_mode=r.choice(["deconv", "nontrainable"]))
    return nets.SegResNetDS, a, image(r, a["spatial_dims"], a["in_channels"], 4, 2, 3)


def vnet(r):
    a = dict(spatial_dims=2, in_channels=r.choice([1, 2, 4]), out_channels=r.randint(1, 3), dropout_prob_down=0.0,
             dropout_prob_up=[0.0, 0.0], act=r.choice(["relu", "prelu"]), bias=r.random() < 0.5)
    return nets.VNet, a, image(r, 2, a["in_channels"], 16, 2, 3), dict(train=False)  # two of its dropouts stay at 0.5


def high_res_net(r):
    layers = [dict(name="a", n_features=4, kernel_size=3), dict(name="b", n_features=4, kernels=[3, 3], repeat=r.randint(1, 2)),
              dict(name="c", n_features=6, kernels=[3, 3], repeat=1), dict(name="d", n_features=6, kernel_size=1),
              dict(name="e", kernel_size=1)]
    a = shared(r, 1) | dict(layer_params=layers, norm_type=norm(r), acti_type=act(r), bias=r.random() < 0.5,
                            channel_matching=r.choice(["pad", "project"]))
    a["out_channels"] *= 2  # their norm has two groups
    return nets.HighResNet, a, image(r, a["spatial_dims"], a["in_channels"], 4)


def unetr(r):
    dims = r.choice([2, 3])
    size = [16 * r.randint(1, 2) for _ in range(dims)]
    heads = r.randint(1, 3)
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 2), out_channels=r.randint(1, 3), img_size=size, feature_size=4,
             hidden_size=12 * heads, mlp_dim=16, num_heads=heads, res_block=r.random() < 0.5,
             proj_type=r.choice(["conv", "perceptron"]), norm_name=norm(r))
    return nets.UNETR, a, [2, a["in_channels"], *size]


def vit(r):
    dims = r.choice([2, 3])
    patch = [r.choice([2, 4]) for _ in range(dims)]
    size = [p * r.randint(2, 3) for p in patch]
    heads = r.randint(1, 3)
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 2), img_size=size, patch_size=patch, hidden_size=12 * heads,
             mlp_dim=16, num_layers=r.randint(1, 3), num_heads=heads, classification=r.random() < 0.5, num_classes=3,
             proj_type=r.choice(["conv", "perceptron"]), pos_embed_type=r.choice(["learnable", "sincos"]),
             qkv_bias=r.random() < 0.5)
    return nets.ViT, a, [2, a["in_channels"], *size]


def swin_unetr(r):
    a = dict(spatial_dims=2, in_channels=r.randint(1, 2), out_channels=r.randint(1, 3), feature_size=12, mlp_ratio=1.5,
             window_size=r.choice([3, 4]), num_heads=[r.choice([1, 2, 3]) for _ in range(4)],
             depths=[r.randint(1, 2) for _ in range(4)], qkv_bias=r.random() < 0.5, norm_name="batch",
             use_v2=r.random() < 0.5, downsample=r.choice(["merging", "mergingv2"]))
    return nets.SwinUNETR, a, image(r, 2, a["in_channels"], 32, 2, 3)


def med_next(r):
    a = shared(r) | dict(init_filters=4, encoder_expansion_ratio=r.randint(1, 3), decoder_expansion_ratio=2,
                         bottleneck_expansion_ratio=2, blocks_down=[1, r.randint(1, 2)], blocks_up=[1, 1],
                         blocks_bottleneck=1, kernel_size=r.choice([3, 5]), use_residual_connection=r.random() < 0.5)
    return nets.MedNeXt, a, image(r, a["spatial_dims"], a["in_channels"], 4, 2, 3)


def resnet(cls):
    def make(r):
        a = dict(spatial_dims=r.randint(1, 3), n_input_channels=r.randint(1, 3), num_classes=r.randint(1, 5),
                 widen_factor=0.125, conv1_t_size=r.choice([3, 5, 7]), conv1_t_stride=r.choice([1, 2]),
                 no_max_pool=r.random() < 0.5, shortcut_type=r.choice("AB"), bias_downsample=r.random() < 0.5)
        return cls, a, image(r, a["spatial_dims"], a["n_input_channels"], 16, 2, 3, 3)

    return make


def densenet(r):
    a = shared(r, 1) | dict(init_features=8, growth_rate=r.choice([2, 4]), block_config=[2, r.randint(1, 3), 2], bn_size=2)
    return nets.DenseNet, a, image(r, a["spatial_dims"], a["in_channels"], 32, 2, 2, 3)


def efficientnet(r):
    dims = r.randint(1, 2)
    a = dict(model_name="efficientnet-b0", pretrained=False, spatial_dims=dims, in_channels=r.randint(1, 3), num_classes=4)
    return nets.EfficientNetBN, a, image(r, dims, a["in_channels"], 32, 2, 3), dict(train=False)


def adversary(cls):
    def make(r):
        dims = r.randint(1, 3)
        size = [r.randint(8, 13) for _ in range(dims)]
        a = dict(in_shape=[r.randint(1, 2), *size], channels=[4, 6], strides=[2, r.choice([1, 2])], act=act(r), norm=norm(r),
                 num_res_units=r.randint(0, 2), bias=r.random() < 0.5, dropout=None)
        if cls is nets.Classifier:
            a["classes"] = r.randint(1, 4)
        if cls is nets.Regressor:
            a["out_shape"] = [r.randint(1, 4)]
        return cls, a, [2, a["in_shape"][0], *size]

    return make


def auto_encoder(r):
    a = shared(r, 1) | dict(channels=[4, 6], strides=[2, r.choice([1, 2])], num_res_units=r.randint(0, 2), act=act(r),
                            norm=r.choice(["batch", "instance"]), bias=r.random() < 0.5, kernel_size=r.choice([3, 5]),
                            **r.choice([{}, dict(inter_channels=[4, 6], inter_dilations=[1, 2], num_inter_units=r.randint(0, 2))]))
    return nets.AutoEncoder, a, image(r, a["spatial_dims"], a["in_channels"], 4)


def fully_connected_net(r):
    a = dict(in_channels=r.randint(3, 12), out_channels=r.randint(1, 4), hidden_channels=[r.randint(2, 8)] * r.randint(1, 3),
             act=act(r), bias=r.random() < 0.5)
    return nets.FullyConnectedNet, a, [3, a["in_channels"]]


def generator(r):
    dims = r.randint(1, 3)
    a = dict(latent_shape=[r.randint(3, 8)], start_shape=[4, *(r.randint(2, 4) for _ in range(dims))], channels=[6, 4, 2],
             strides=[2, 1, 2], num_res_units=r.randint(0, 2), act=act(r), norm=r.choice(["batch", "instance"]), bias=r.random() < 0.5)
    return nets.Generator, a, [2, *a["latent_shape"]], dict(key="latent")


def autoencoder_kl(r):
    a = shared(r, 1) | dict(num_res_blocks=r.randint(1, 2), channels=[4, 8], attention_levels=[False, r.random() < 0.5],
                            latent_channels=2, norm_num_groups=r.choice([2, 4]), use_combined_linear=r.random() < 0.5,
                            include_fc=r.random() < 0.5, use_convtranspose=r.random() < 0.5)
    return peer_nets.Sampled, a, image(r, a["spatial_dims"], a["in_channels"], 4), dict(train=False)


def autoencoder_kl_maisi(r):
    _, a, *_ = autoencoder_kl(r)
    a |= dict(spatial_dims=3, num_res_blocks=[1, r.randint(1, 2)], num_channels=a.pop("channels"),
              with_encoder_nonlocal_attn=r.random() < 0.5, with_decoder_nonlocal_attn=r.random() < 0.5)
    return peer_nets.SampledMaisi, a, image(r, 3, a["in_channels"], 2, 2, 4), dict(train=False, outputs=3, single=True)


def diffusion_model_unet(r):
    dims = r.choice([2, 3])
    a = dict(spatial_dims=dims, in_channels=r.randint(1, 2), out_channels=r.randint(1, 2), num_res_blocks=r.randint(1, 2),
             channels=[4, 8], norm_num_groups=r.choice([2, 4]), attention_levels=[r.random() < 0.5, True],
             num_head_channels=r.choice([2, 4]), resblock_updown=r.random() < 0.5, use_combined_linear=r.random() < 0.5)
    return nets.DiffusionModelUNet, a, image(r, dims, a["in_channels"], 2, 2, 4), dict(more=dict(timesteps=[3.0, 900.0]))


def vista3d(r):
    a = dict(prompts=r.choice([["class"], ["point"], ["class", "point"]]), in_channels=r.randint(1, 2), n_classes=6,
             encoder_embed_dim=8, last_supported=r.randint(1, 3), blocks_down=[1] * r.randint(2, 3))
    size = image(r, 3, a["in_channels"], 4, 2, 3)
    prompts, points = r.randint(2, 3), r.randint(1, 4)
    table = lambda draw: [[draw() for _ in range(prompts)] for _ in range(2)]
    more = dict(class_vector=table(lambda: float(r.randrange(6))))
    if "point" in a["prompts"]:
        a["radius"] = r.choice([None, 2.5])
        place = lambda: [float(r.randrange(n)) for n in size[2:]]
        more["point_coords"] = table(lambda: [place() for _ in range(points)])
        more["point_labels"] = table(lambda: [float(r.randint(0, 3)), *(float(r.randint(-1, 3)) for _ in range(points - 1))])
    return prompted, a, size, dict(more=more)


def patch_discriminator(r):
    a = dict(spatial_dims=r.randint(1, 3), channels=r.randint(2, 4), in_channels=r.randint(1, 2), num_layers_d=r.randint(1, 2),
             kernel_size=r.choice([3, 4]), norm=r.choice(["BATCH", "INSTANCE"]), bias=r.random() < 0.5)
    return peer_nets.JudgementFirst, a, image(r, a["spatial_dims"], a["in_channels"], 8, 2, 3), dict(
        outputs=a["num_layers_d"] + 2)


def reg_unet(r):
    dims = r.randint(1, 3)
    a = dict(spatial_dims=dims, in_channels=2, num_channel_initial=r.randint(2, 3), depth=2, out_channels=dims,
             pooling=r.random() < 0.5, concat_skip=r.random() < 0.5)
    return nets.RegUNet, a, image(r, dims, 2, 4, 2, 4)


def retina_net(r):
    layers = sorted(r.sample([1, 2, 3], r.randint(1, 2)))
    a = dict(spatial_dims=r.choice([2, 3]), n_input_channels=r.randint(1, 2), num_classes=r.randint(1, 3),
             num_anchors=r.randint(1, 3), backbone=r.choice(["resnet10", "resnet18", "resnet50"]), widen_factor=0.125,
             returned_layers=layers, conv1_t_size=r.choice([3, 7]), conv1_t_stride=r.choice([1, 2]),
             shortcut_type=r.choice("AB"), bias_downsample=r.random() < 0.5)
    return peer_nets.retina, a, image(r, a["spatial_dims"], a["n_input_channels"], 16, 3, 4), dict(outputs=2 * len(layers) + 2)


CASES = dict(
    unet=unet, attention_unet=attention_unet, basic_unet=basic_unet, dynunet=dynunet, segresnet=segresnet,
    segresnet_ds=segresnet_ds, vnet=vnet, high_res_net=high_res_net, unetr=unetr, vit=vit, swin_unetr=swin_unetr,
    med_next=med_next, resnet10=resnet(nets.resnet10), resnet18=resnet(nets.resnet18), resnet50=resnet(nets.resnet50),
    densenet121=densenet, efficientnet=efficientnet, classifier=adversary(nets.Classifier),
    regressor=adversary(nets.Regressor), discriminator=adversary(nets.Discriminator), critic=adversary(nets.Critic),
    auto_encoder=auto_encoder, fully_connected_net=fully_connected_net, generator=generator,
    autoencoder_kl=autoencoder_kl, autoencoder_kl_maisi=autoencoder_kl_maisi, diffusion_model_unet=diffusion_model_unet,
    patch_discriminator=patch_discriminator, reg_unet=reg_unet, retina_net=retina_net, vista3d=vista3d)
