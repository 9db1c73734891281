"""Makes edges.json: what MONAI's transforms do where an array is as small as it can be.

    python make_edges.py > edges.json      (monai 1.6.1, scikit-image)

Axes of one voxel under a sheared affine, arrays without spatial axes, no component to keep,
signals [C, X].
"""
import json
import sys
import warnings

import monai
import monai.transforms as mt
import numpy as np
import torch
from monai.data import MetaTensor

warnings.filterwarnings("ignore")
cases = []
SHEARED = np.array([[0.9, 0.3, -0.2, -20], [-0.25, 1.3, 0.4, 30], [0.15, -0.35, 2.1, 10], [0, 0, 0, 1]])


def wave(*shape):
    n = int(np.prod(shape))
    return np.sin(0.7 * np.arange(n) + 0.3).reshape(shape).astype(np.float32)


def field(array, affine=None):
    f = {"dtype": str(array.dtype), "shape": list(array.shape),
         "values": [float(f"{v:.9g}") for v in array.flatten().tolist()]}
    if affine is not None:
        f["affine"] = affine.flatten().tolist()
    return f


def add(node, params, array, out, affine=None):
    case = {"type": node, "params": params, "in": field(array, affine),
            "want": field(np.asarray(out))}
    if affine is not None:
        case["affine"] = out.affine.flatten().tolist()
    cases.append(case)


def spacing():
    for shape in ((7, 1, 6), (1, 8, 5), (6, 7, 1), (1, 1, 6), (1, 1, 1), (4, 2, 3)):
        for pixdim in ((1.1, 1.7, 1.6), (2.0, 3.0, 9.0)):
            for mode in ("bilinear",):  # nearest: ties are not MONAI's yet
                for padding in ("border", "zeros"):
                    array = wave(2, *shape)
                    image = MetaTensor(torch.from_numpy(array), affine=torch.from_numpy(SHEARED))
                    out = mt.Spacing(pixdim=pixdim, mode=mode, padding_mode=padding,
                                     align_corners=True)(image)
                    add("spacing", {"pixdim": list(pixdim), "mode": mode, "padding_mode": padding,
                                    "align_corners": True}, array, out, SHEARED)


def activations():
    for shape in ((5,), (4, 3), (3, 4, 5)):
        for sigmoid, softmax in ((True, False), (False, True), (True, True)):
            array = wave(*shape)
            out = mt.Activations(sigmoid=sigmoid, softmax=softmax)(torch.from_numpy(array))
            add("activations", {"sigmoid": sigmoid, "softmax": softmax}, array, out)


def components():
    one = np.zeros((1, 6, 5, 4), np.float32)
    one[0, :2, :2, :2] = 1
    one[0, 4:, 3:, 2:] = 2
    one[0, 4, 0, 0] = 1
    hot = np.stack([one[0] == c for c in (0, 1, 2)]).astype(np.float32)
    for array, more in ((one, {}), (one, {"independent": False}), (hot, {}),
                        (one, {"applied_labels": [1]}), (np.zeros_like(one), {})):
        out = mt.KeepLargestConnectedComponent(num_components=0, **more)(torch.from_numpy(array))
        add("keep_largest_connected_component", {"num_components": 0, **more}, array, out)


def signals():
    x = wave(2, 11)

    def one(node, transform, params, array=x):
        add(node, params, array, transform(torch.from_numpy(array)))

    def same(node, name, array=x, **params):
        one(node, getattr(mt, name)(**params), params, array)

    for more in ({"roi_center": [4], "roi_size": [5]}, {"roi_center": [9], "roi_size": [6]},
                 {"roi_start": [3], "roi_end": [20]}):
        same("spatial_crop", "SpatialCrop", **more)
    for size in (6, 7, -1, 30):
        same("center_spatial_crop", "CenterSpatialCrop", roi_size=[size])
    same("center_scale_crop", "CenterScaleCrop", roi_scale=[0.5])
    for mode in ("constant", "edge", "symmetric", "reflect", "wrap"):
        same("pad", "Pad", to_pad=[[0, 0], [2, 3]], mode=mode)
        same("spatial_pad", "SpatialPad", spatial_size=[16], mode=mode)
    for method in ("symmetric", "end"):
        same("divisible_pad", "DivisiblePad", k=[4], method=method)
        for size in (14, 8):
            same("resize_with_pad_or_crop", "ResizeWithPadOrCrop", spatial_size=[size], method=method)
    for border in ([2], [1, 4]):
        same("border_pad", "BorderPad", spatial_border=border)
    same("rand_spatial_crop", "RandSpatialCrop", roi_size=[7], random_center=False,
         random_size=False)
    same("rand_scale_crop", "RandScaleCrop", roi_scale=[0.7], random_center=False,
         random_size=False)
    params = {"roi_size": [6], "num_samples": 1, "random_center": False, "random_size": False}
    add("rand_spatial_crop_samples", params, x,
        mt.RandSpatialCropSamples(**params)(torch.from_numpy(x))[0])
    peak = np.zeros((1, 11), np.float32)
    peak[0, 7] = 1
    out = mt.RandWeightedCropd("image", "image", [5])({"image": torch.from_numpy(peak)})
    add("rand_weighted_crop", {"w_key": "image", "spatial_size": [5]}, peak, out[0]["image"])
    for axis in (None, [0], [-1]):
        same("flip", "Flip", spatial_axis=axis)
        same("rand_flip", "RandFlip", prob=1, spatial_axis=axis)
    same("rand_axis_flip", "RandAxisFlip", prob=1)
    for mode in ("nearest", "nearest-exact", "linear", "area"):
        for more in ({}, {"align_corners": True}) if mode == "linear" else ({},):
            for factor in (0.6, 1.7):
                for keep in (True, False):
                    same("zoom", "Zoom", zoom=[factor], mode=mode, keep_size=keep, **more)
                if mode == "linear":
                    same("rand_zoom", "RandZoom", prob=1, min_zoom=[factor], max_zoom=[factor],
                         mode=mode, **more)
            for size in (7, 23):
                same("resize", "Resize", spatial_size=[size], mode=mode, **more)
    same("resize", "Resize", spatial_size=8, size_mode="longest", mode="linear")
    same("resize", "Resize", spatial_size=[4], mode="linear", anti_aliasing=True)


spacing()
activations()
components()
signals()
json.dump({"monai": monai.__version__, "cases": cases}, sys.stdout, indent=None)
print()
