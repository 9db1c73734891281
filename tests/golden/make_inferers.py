"""Writes inferers.json: what MONAI 1.6.1's SaliencyInferer and ControlNetDiffusionInferer say of small networks.

Run with a Python that has MONAI; the result is kept in the repository. Networks are filled as make_nets.py's.
"""
import json
import pathlib

import torch
from monai.inferers import ControlNetDiffusionInferer, SaliencyInferer
from monai.networks.nets import ControlNet, DenseNet, DiffusionModelUNet, resnet18
from monai.networks.schedulers import DDIMScheduler

from filled import fill, floats, number, sines


# Of a map a part, and sums of all.
def brief(t):
    return dict(sum=number(t.double().sum()), abs=number(t.double().abs().sum()), some=floats(t.flatten()[::37]))


def filled(make, args):
    net = make(**args)
    fill(net)
    return net.eval()


# One image at a time: of a batch MONAI takes each image's class for all of them.
def saliency(make, kind, args, size, layers, fc=None, **ours):
    net, x, cases = filled(make, args), sines(size), []

    def said(method, layer, more, idx=None):
        inferer = SaliencyInferer(method, layer, idx, **more)
        return torch.cat([inferer(x[i:i + 1], net) for i in range(len(x))])

    for layer in layers:
        for method in ("CAM", "GradCAM", "GradCAMpp"):
            if method == "CAM" and (fc is None or layer != layers[0]):
                continue
            more = dict(fc_layers=fc) if method == "CAM" else {}
            idx = 1 if method == "GradCAM" else None
            cases.append(dict(cam_name=method, target_layers=layer, class_idx=idx, **more,
                              map=brief(said(method, layer, dict(more, postprocessing=lambda m: m), idx))))
    turned = brief(said("GradCAM", layers[0], {}))
    return dict(type=kind, params={**{"out_channels" if k == "num_classes" else k: v for k, v in args.items()}, **ours},
                size=size, cases=cases, turned=turned)


def controlled(cfg):
    both = dict(spatial_dims=2, num_res_blocks=1, channels=[4, 8], norm_num_groups=2, attention_levels=[False, True],
                num_head_channels=4, with_conditioning=True, cross_attention_dim=3, in_channels=1)
    follows = dict(conditioning_embedding_in_channels=2, conditioning_embedding_num_channels=[3, 5])
    net, control = filled(DiffusionModelUNet, dict(both, out_channels=1)), filled(ControlNet, both | follows)
    scheduler = DDIMScheduler(clip_sample=False)
    scheduler.set_timesteps(4)
    noise, image, context = sines([2, 1, 8, 12]), sines([2, 2, 16, 24], 2), sines([2, 5, 3], 3)
    with torch.no_grad():
        end = ControlNetDiffusionInferer(scheduler).sample(noise, net, control, image, scheduler, conditioning=context,
                                                           verbose=False, cfg=cfg)
    return dict(net=dict(both, out_channels=1, additional_residuals=True), controlnet=both | follows, cfg=cfg,
                image=floats(end))


dense = dict(spatial_dims=2, in_channels=1, out_channels=3, init_features=8, growth_rate=4, block_config=[2, 3, 2], bn_size=2)
flat = dict(spatial_dims=2, n_input_channels=1, num_classes=4, widen_factor=0.125)
renamed = {"n_input_channels": "in_channels"}
result = dict(
    saliency=[saliency(DenseNet, "densenet121", dense, [2, 1, 32, 36], ["class_layers.relu", "features.denseblock2"],
                       "class_layers.out"),
              saliency(DenseNet, "densenet121", dict(dense, spatial_dims=3), [1, 1, 32, 32, 36], ["class_layers.relu"],
                       "class_layers.out"),
              saliency(resnet18, "resnet18", flat, [2, 1, 64, 80], ["layer4", "layer3", "layer2.0"], "fc")],
    controlnet=[controlled(None), controlled(3.0)])
for one in result["saliency"]:
    one["params"] = {renamed.get(k, k): v for k, v in one["params"].items()}
text = json.dumps(result, indent=0).replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]")
pathlib.Path(__file__).with_name("inferers.json").write_text(text + "\n")
