"""Writes intensity.json and inference.json: small inputs by formula, outputs by MONAI itself.

Run with MONAI 1.6.1: python tests/golden/make_intensity.py
The tests rebuild the inputs from the same formulas (tests/nodes/test_intensity.cpp and
test_inference.cpp), so only outputs are kept.
"""
import json
import pathlib
import re

import monai
import numpy as np
import torch
from monai.apps.pathology.inferers import SlidingWindowHoVerNetInferer
from monai.data.utils import compute_importance_map
from monai.inferers import sliding_window_inference
from monai.metrics import DiceMetric
from monai.transforms import (AdjustContrast, NormalizeIntensity, RandBiasField, ScaleIntensity,
                              ScaleIntensityRange)

here = pathlib.Path(__file__).parent


def rounded(t):
    return [float(f"{v:.8g}") for v in torch.as_tensor(np.asarray(t)).flatten().tolist()]


def image(shape):
    """100 sin(0.7 i) + 20, with every fifth voxel 0."""
    i = np.arange(np.prod(shape))
    x = 100 * np.sin(0.7 * i) + 20
    x[i % 5 == 0] = 0
    return torch.from_numpy(x.astype(np.float32).reshape(shape))


def case(kind, params, transform, shape=(2, 4, 3, 3)):
    return {"type": kind, "params": params, "shape": shape, "expected": rounded(transform(image(shape)))}


def same(kind, cls, **params):
    return case(kind, params, cls(**params))


def field(degree, shape):
    """RandBiasField with the coefficients 0.02 k - 0.1, k = 0, 1, ... instead of drawn ones."""
    t = RandBiasField(degree=degree, prob=1.0)
    t.randomize(shape[1:])
    t._coeff = [0.02 * k - 0.1 for k in range(len(t._coeff))]
    return {"degree": degree, "shape": shape,
            "expected": rounded(t(image(shape), randomize=False))}


def contrast(gamma, **params):
    return case("rand_adjust_contrast", {"prob": 1.0, "gamma": [gamma, gamma], **params},
                AdjustContrast(gamma, **params))


intensity = [
    same("normalize_intensity", NormalizeIntensity),
    same("normalize_intensity", NormalizeIntensity, nonzero=True),
    same("normalize_intensity", NormalizeIntensity, channel_wise=True),
    same("normalize_intensity", NormalizeIntensity, nonzero=True, channel_wise=True),
    same("normalize_intensity", NormalizeIntensity, subtrahend=[10.0, -5.0], channel_wise=True),
    same("normalize_intensity", NormalizeIntensity, divisor=[2.0, 0.0], channel_wise=True,
         nonzero=True),
    same("scale_intensity", ScaleIntensity),
    same("scale_intensity", ScaleIntensity, minv=-1.0, maxv=3.0, channel_wise=True),
    same("scale_intensity", ScaleIntensity, minv=None, maxv=2.0),
    same("scale_intensity", ScaleIntensity, minv=None, maxv=None, factor=0.25),
    same("scale_intensity_range", ScaleIntensityRange, a_min=-57.0, a_max=164.0),
    same("scale_intensity_range", ScaleIntensityRange, a_min=-30.0, a_max=60.0, b_min=-1.0,
         b_max=2.0, clip=True),
    same("scale_intensity_range", ScaleIntensityRange, a_min=5.0, a_max=5.0, b_min=1.0, b_max=2.0),
    case("rand_scale_intensity", {"prob": 1.0, "factors": [0.3, 0.3]},
         ScaleIntensity(minv=None, maxv=None, factor=0.3)),
    contrast(2.2),
    contrast(0.5),
    contrast(1.7, invert_image=True),
    contrast(3.0, retain_stats=True),
    contrast(1.5, invert_image=True, retain_stats=True),
]
bias = [field(3, (2, 4, 3, 5)), field(1, (1, 3, 4, 2)), field(5, (1, 2, 3, 7)),
        field(3, (2, 5, 6)), field(2, (1, 1, 4, 3))]


def net(x):
    """Two channels that depend on the place in the window, so that blending shows."""
    ramp = torch.arange(x[0, 0].numel(), dtype=torch.float32).reshape(x.shape[2:]) / 50
    return torch.cat([2 * x + 1, x * ramp], 1)


# `ours`: how a node says what MONAI is told otherwise.
def windows(shape, ours=None, **params):
    y = sliding_window_inference(image(shape), predictor=net, **params)
    return {"shape": shape, "params": params | (ours or {}), "expected": rounded(y)}


sliding = [
    windows((1, 1, 7, 6, 5), roi_size=[4, 4, 4], sw_batch_size=1),
    windows((1, 1, 7, 6, 5), roi_size=[4, 4, 4], sw_batch_size=3, overlap=0.5, mode="gaussian"),
    windows((1, 1, 9, 3, 4), roi_size=[4, 5, 4], sw_batch_size=2, overlap=0.6, mode="gaussian",
            sigma_scale=0.25, padding_mode="reflect"),
    windows((1, 1, 3, 3, 3), roi_size=[4, 6, 3], sw_batch_size=1, cval=-7.0),
    windows((2, 1, 5, 4, 4), roi_size=[3, 4, 2], sw_batch_size=4, overlap=0.25, mode="gaussian"),
    windows((3, 1, 6, 7), roi_size=[4, 4], sw_batch_size=2, overlap=0.5),
    windows((1, 1, 3, 5, 7), {"roi_size": [4, 0, 0], "roi_divisible": [0, 4, 4]}, roi_size=[4, 8, 8],
            sw_batch_size=2, overlap=0.0, padding_mode="circular"),
    windows((1, 1, 2, 5, 4), {"roi_size": [0], "roi_divisible": [3, 4, 1]}, roi_size=[3, 8, 4], sw_batch_size=1,
            padding_mode="replicate"),
]


# Networks whose two outputs are the middle of a window, `margin` voxels from its edges.
def middles(shape, margin, **params):
    def middle(x):
        y = net(x)[(..., *[slice(margin, -margin)] * (len(shape) - 2))]
        return y, 3 - y
    outputs = SlidingWindowHoVerNetInferer(**params)(image(shape), middle)
    return {"shape": shape, "margin": margin, "params": params, "expected": [rounded(y) for y in outputs]}


middle = [
    middles((1, 1, 11, 8), 1, roi_size=[6, 6], sw_batch_size=2, overlap=0.34, extra_input_padding=[1, 1, 1, 1]),
    middles((1, 1, 9, 10), 2, roi_size=[8, 8], sw_batch_size=3, overlap=0.5, mode="gaussian", padding_mode="reflect",
            extra_input_padding=[3, 2, 2, 4]),
    middles((2, 1, 3, 3, 4), 1, roi_size=[5, 5, 5], sw_batch_size=1, overlap=0.5, cval=2.0,
            extra_input_padding=[1, 1, 1, 1, 1, 1]),
]


def coarse(shape, factors, **params):
    """Of all of a window, on grids so many times coarser."""
    def maps(x):
        return tuple(net(x)[(..., *[slice(None, None, k)] * (len(shape) - 2))] for k in factors)
    outputs = sliding_window_inference(image(shape), predictor=maps, **params)
    return {"shape": shape, "factors": factors, "params": params, "expected": [rounded(y) for y in outputs]}


coarse_maps = [
    coarse((1, 1, 12, 8), [2, 4], roi_size=[8, 8], sw_batch_size=2, overlap=0.5),
    coarse((2, 1, 16, 12), [1, 2], roi_size=[8, 4], sw_batch_size=3, overlap=0.5, mode="gaussian"),
    coarse((1, 1, 12, 5), [2, 4], roi_size=[8, 8], sw_batch_size=1, overlap=0.5),
]
importance = rounded(compute_importance_map((4,), mode="gaussian"))


def dice_inputs(n=3, c=3, shape=(6, 5, 4)):
    """Scores sin(1.3 i) and a label (7 i mod 11) mod 3; the second sample's label lacks class 2."""
    scores = np.sin(1.3 * np.arange(n * c * np.prod(shape))).reshape(n, c, *shape)
    label = (7 * np.arange(n * np.prod(shape)) % 11 % c).reshape(n, 1, *shape)
    label[1][label[1] == 2] = 0
    return torch.from_numpy(scores.astype(np.float32)), torch.from_numpy(label)


def one_hot(label, classes):
    return torch.cat([(label == k).float() for k in range(classes)], 1)


def dice(include_background, ignore_empty):
    scores, label = dice_inputs()
    got = {}
    for reduction in ("mean", "mean_batch"):
        m = DiceMetric(include_background=include_background, reduction=reduction,
                       ignore_empty=ignore_empty)
        m(one_hot(scores.argmax(1, keepdim=True), 3), one_hot(label, 3))
        got[reduction] = rounded(m.aggregate())
    return {"params": {"include_background": include_background, "ignore_empty": ignore_empty},
            "mean": got["mean"][0], "classes": got["mean_batch"]}


dices = [dice(b, i) for b in (True, False) for i in (True, False)]


def write(name, document):
    document = {"made_by": "make_intensity.py", "monai": monai.__version__, **document}
    text = json.dumps(document, indent=1)
    text = re.sub(r"\[\s+([^][]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    (here / name).write_text(text + "\n")


write("intensity.json", {"cases": intensity, "bias": bias})
write("inference.json", {"sliding_window": sliding, "middles": middle, "coarse": coarse_maps,
                         "importance_4": importance, "dice": dices})
