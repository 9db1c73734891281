"""What nnU-Net (nnunetv2 2.8.1) makes of small images given by formula: nnunet_prepare.json.

    python make_nnunet.py > nnunet_prepare.json
"""
import json

import numpy as np
from nnunetv2.preprocessing.cropping.cropping import crop_to_nonzero
from nnunetv2.preprocessing.normalization import default_normalization_schemes as schemes
from nnunetv2.preprocessing.resampling.default_resampling import (
    compute_new_shape, resample_data_or_seg_to_shape)


def image(shape, channels=2):
    c, i, j, k = np.meshgrid(*[np.arange(n) for n in (channels, *shape)], indexing="ij")
    x = np.sin(1 + 0.7 * i + 1.3 * j + 0.4 * k + 2 * c) * 40 + 100
    body = ((i - 4) ** 2 + (j - 5) ** 2 + (k - 4) ** 2 <= 12) & ~((i == 4) & (j == 5) & (k == 4))
    return (x * body).astype(np.float32)


def label(shape):
    i, j, k = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij")
    return (((i + 2 * j + k) // 5) % 3 * ((i - 4) ** 2 + (j - 5) ** 2 <= 5))[None].astype(np.int16)


def rounded(x, digits=4):
    return np.round(x.astype(np.float64), digits).tolist()


shape = (9, 11, 10)
x, y = image(shape), label(shape)
cropped, seg, box = crop_to_nonzero(x.copy(), y.copy())
out = {"shape": shape, "box": [list(map(int, b)) for b in box], "label": seg.tolist()}

properties = {"mean": 95.0, "std": 20.0, "percentile_00_5": 70.0, "percentile_99_5": 130.0}
out["normalized"] = {}
for name, masked in (("ZScore", False), ("ZScore", True), ("CT", False), ("RescaleTo01", False), ("RGBTo01", False)):
    scheme = getattr(schemes, name + "Normalization")(masked, properties)
    done = np.stack([scheme.run(c.copy(), seg[0]) for c in cropped])
    out["normalized"][name + ("_masked" if masked else "")] = rounded(done)

out["resampled"] = []
for spacing, new in (((1, 1, 1), (0.8, 1.3, 0.7)), ((4, 1, 1), (3, 0.8, 1.2)), ((1, 1, 4), (1.1, 0.9, 4)),
                     ((3.5, 3.5, 1), (2, 2, 1)), ((1, 1, 1), (4, 1, 1))):
    to = [int(n) for n in compute_new_shape(cropped.shape[1:], spacing, new)]
    out["resampled"].append({
        "spacing": spacing, "new_spacing": new, "shape": to,
        "image": rounded(resample_data_or_seg_to_shape(cropped.astype(np.float64), to, spacing, new, is_seg=False,
                                                       order=3, order_z=0, force_separate_z=None)),
        "label": resample_data_or_seg_to_shape(seg, to, spacing, new, is_seg=True, order=1, order_z=0,
                                               force_separate_z=None).astype(int).tolist()})
print(json.dumps(out))
