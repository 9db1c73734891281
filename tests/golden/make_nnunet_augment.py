"""What batchgeneratorsv2's transforms make of a small image with fixed parameters: nnunet_augment.json.

    python make_nnunet_augment.py > nnunet_augment.json
"""
import json

import numpy as np
import torch
from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
from batchgeneratorsv2.transforms.intensity.contrast import ContrastTransform
from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
from batchgeneratorsv2.transforms.nnunet import random_binary_operator
from batchgeneratorsv2.transforms.nnunet.random_binary_operator import ApplyRandomBinaryOperatorTransform
from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform


def image(shape, channels=2):
    c, *rest = np.meshgrid(*[np.arange(n) for n in (channels, *shape)], indexing="ij")
    x = np.sin(1 + sum(f * r for f, r in zip((0.7, 1.3, 0.4), rest)) + 2 * c) + 0.1 * rest[0]
    return torch.from_numpy(x.astype(np.float32))


def label(shape):
    rest = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij")
    y = sum(f * r for f, r in zip((1, 2, 1), rest)) // 4 % 3
    return torch.from_numpy(y[None].astype(np.int16))


def rounded(x):
    return np.round(x.double().numpy(), 4).tolist()


def spatial(patch, angles, scale):
    turns = angles is not None
    return SpatialTransform(
        patch, patch_center_dist_from_border=0, random_crop=False, p_elastic_deform=0, p_rotation=float(turns),
        rotation=(lambda image, dim: angles[dim]) if turns else 0, p_scaling=float(scale is not None),
        scaling=(scale, scale) if scale else 1, p_synchronize_scaling_across_axes=1, border_mode_seg="constant",
        padding_value_seg=-1)


shape = (7, 9, 8)
out = {"shape": shape, "intensity": [], "spatial": []}
fixed = [
    ("rand_multiplicative_brightness", {"multiplier_range": [1.2, 1.2]},
     MultiplicativeBrightnessTransform((1.2, 1.2), False)),
    ("rand_contrast", {"contrast_range": [1.2, 1.2]}, ContrastTransform((1.2, 1.2), True, False)),
    ("rand_contrast", {"contrast_range": [1.2, 1.2], "preserve_range": False},
     ContrastTransform((1.2, 1.2), False, False)),
    ("rand_gamma", {"gamma": [1.3, 1.3]}, GammaTransform((1.3, 1.3), 0, False, 1, 1)),
    ("rand_gamma", {"gamma": [1.3, 1.3], "invert_prob": 1}, GammaTransform((1.3, 1.3), 1, False, 1, 1)),
    ("rand_gamma", {"gamma": [1.3, 1.3], "retain_stats_prob": 0}, GammaTransform((1.3, 1.3), 0, False, 1, 0)),
    ("rand_gaussian_blur", {"sigma": [0.8, 0.8]}, GaussianBlurTransform((0.8, 0.8), False, False, 1, True)),
    ("rand_gaussian_blur", {"sigma": [0.5, 0.5]}, GaussianBlurTransform((0.5, 0.5), False, False, 1, True)),
    ("rand_low_resolution", {"scale": [0.6, 0.6]}, SimulateLowResolutionTransform((0.6, 0.6), False, True, None)),
    ("rand_low_resolution", {"scale": [0.6, 0.6], "ignore_axes": [0]},
     SimulateLowResolutionTransform((0.6, 0.6), False, True, (0,))),
]
for name, params, transform in fixed:
    out["intensity"].append({"node": name, "params": params,
                             "image": rounded(transform(image=image(shape))["image"])})
for patch, angles, scale in (((5, 6, 6), None, None), ((5, 6, 6), None, 1.3), ((5, 6, 6), None, 0.8),
                             ((5, 6, 6), (0.3, 0.3, 0.3), None), ((7, 9, 10), (-0.4, -0.4, -0.4), 1.2)):
    done = spatial(patch, angles, scale)(image=image(shape), segmentation=label(shape))
    out["spatial"].append({"patch": patch, "angle": angles[0] if angles else None, "scale": scale,
                           "image": rounded(done["image"]), "label": done["segmentation"].int().tolist()})
for patch, angles, scale in (((6, 6), (0.3, 0.3), None), ((6, 6), (0.5, 0.5), 1.3)):
    done = spatial(patch, angles, scale)(image=image(shape[1:]), segmentation=label(shape[1:]))
    out["spatial"].append({"patch": patch, "angle": angles[0], "scale": scale,
                           "image": rounded(done["image"]), "label": done["segmentation"].int().tolist()})
def map_of(shape, classes=3):  # one-hot, of the label above
    y = label(shape)[0]
    return torch.stack([y == c for c in range(classes)]).float()


# Of the second label alone: the others lose what it gains.
def operated(name, radius):
    operator = getattr(random_binary_operator, f"binary_{name}_torch")
    transform = ApplyRandomBinaryOperatorTransform([1], (operator,), radius)
    transform.channel_idx = [0, 1, 2]
    params = {"apply_to_channels": [1], "operators": [operator], "strel_size": [radius]}
    return transform._apply_to_image(map_of((9, 8, 11)), **params)


out["binary"] = [{"operator": name, "radius": radius, "map": operated(name, radius).int().tolist()}
                 for name, radius in (("dilation", 1.4), ("dilation", 2.7), ("erosion", 1.0), ("erosion", 1.6),
                                      ("closing", 2.2), ("opening", 1.0))]
print(json.dumps(out))
