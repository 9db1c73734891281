"""Makes edges.json: what MONAI's transforms do where an array is as small as it can be.

    python make_edges.py > edges.json      (monai 1.6.1, scikit-image)

Axes of one voxel under a sheared affine, arrays without spatial axes, no component to keep.
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


spacing()
activations()
components()
json.dump({"monai": monai.__version__, "cases": cases}, sys.stdout, indent=None)
print()
