"""Makes slides.json: MONAI's pathology on made pictures.

    python make_slides.py > slides.json    (monai 1.6.1, scikit-image, tifffile, imagecodecs, openslide-python)

Places are those of MONAI's data sets over a slide that is written here, with the formula that
tests/nodes/test_slides.cpp writes its own with.
"""
import json
import os
import sys
import tempfile
import warnings

import monai
import numpy as np
import tifffile
from monai.apps.pathology.metrics import LesionFROC
from monai.apps.pathology.utils import (PathologyProbNMS, compute_isolated_tumor_cells,
                                        compute_multi_instance_mask)
from monai.data import MaskedPatchWSIDataset, SlidingPatchWSIDataset
from monai.transforms import ForegroundMask, GridPatch, ProbNMS

warnings.filterwarnings("ignore")


def grid(rows, columns):
    return np.mgrid[:rows, :columns].astype(np.int64)


def tissue(rows, columns):
    """Pink in a disc, light glass around it: uint8 [rows, columns, 3]."""
    y, x = grid(rows, columns)
    inside = (y - rows // 2) ** 2 + (x - columns // 2) ** 2 < (rows // 3) ** 2
    pink = np.stack([200 - (7 * x + 3 * y) % 40, 120 + (5 * x + 11 * y) % 50, 170 + x % 3], -1)
    return np.where(inside[..., None], pink, np.array([243, 242, 244])).astype(np.uint8)


def halved(a, nearest=False):
    h, w = a.shape[0] // 2, a.shape[1] // 2
    a = a[:2 * h, :2 * w]
    return a[::2, ::2] if nearest else a.reshape(h, 2, w, 2, -1).mean((1, 3)).round().astype(np.uint8)


def write(path, image, levels, nearest=False):
    with tifffile.TiffWriter(path) as t:
        for level in range(levels):
            t.write(image, tile=(64, 64), subfiletype=1 if level else 0, metadata=None,
                    compression="deflate", resolution=(1e4 / 0.5 / 2**level,) * 2,
                    resolutionunit="CENTIMETER",
                    photometric="rgb" if image.ndim == 3 else "minisblack")
            image = halved(image, nearest)


def tumour_mask(rows, columns):
    """A disc, a ring and two small spots: uint8 0 and 1."""
    y, x = grid(rows, columns)
    r = lambda cy, cx: (y - cy) ** 2 + (x - cx) ** 2
    ring = (r(60, 190) < 900) & (r(60, 190) > 400)
    return ((r(70, 60) < 500) | ring | (r(160, 60) < 9) | (r(150, 180) < 40)).astype(np.uint8)


def probability(rows, columns):
    """Several peaks of different heights in [0, 1): float64, no two alike."""
    y, x = grid(rows, columns)
    bump = lambda cy, cx, s, a: a * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / s)
    return bump(17, 15, 30, .9) + bump(15, 47, 20, .8) + bump(40, 16, 9, .65) + bump(50, 50, 40, .75)


def numbers(a):
    return [float(f"{v:.9g}") for v in np.asarray(a, np.float64).flatten()]


out = {"monai": monai.__version__, "foreground_mask": [], "grid_patch": [], "prob_nms": [], "places": []}
bytes_ = tissue(48, 56).transpose(2, 0, 1)
for kind, image in (("uint8", bytes_), ("float32", (bytes_ / 255).astype(np.float32))):
    for params in ({"threshold": "otsu"}, {"hsv_threshold": {"S": "otsu"}}, {"hsv_threshold": "otsu"},
                   {"threshold": {"R": 190 if kind == "uint8" else .75, "G": "otsu"}, "hsv_threshold": {"S": .3}},
                   {"threshold": "otsu", "invert": True},
                   {"threshold": None, "hsv_threshold": {"H": .9, "V": .94}}):
        mask = ForegroundMask(**params)(image)
        out["foreground_mask"].append({"dtype": kind, "params": params, "sum": int(np.asarray(mask).sum()),
                                       "rows": np.asarray(mask)[0].sum(1).astype(int).tolist()})
image = np.sin(np.arange(2 * 11 * 14)).reshape(2, 11, 14).astype(np.float32)
for params in ({"patch_size": [4, 5]}, {"patch_size": [4, 5], "offset": [1, 2], "overlap": .5},
               {"patch_size": [4, 0], "num_patches": 2, "sort_fn": "max"},
               {"patch_size": [4, 5], "num_patches": 3, "sort_fn": "min"},
               {"patch_size": [4, 5], "num_patches": 9}, {"patch_size": [3, 3], "threshold": 0.0, "num_patches": 5},
               {"patch_size": [0, 5], "offset": [3, 0], "pad_mode": "constant"},
               {"patch_size": [4, 5], "pad_mode": "constant"}, {"patch_size": [5, 5], "pad_mode": "edge"}):
    made = GridPatch(**params)(image)
    out["grid_patch"].append({"params": params, "shape": list(made.shape), "values": numbers(made),
                              "location": np.asarray(made.meta["location"]).T.astype(int).tolist()})
for params, level in (({"box_size": 6}, None), ({"box_size": [9, 4], "prob_threshold": .6}, None),
                      ({"box_size": 8}, 2)):  # sigma does nothing to a map [H, W] there
    if level is None:
        found = ProbNMS(**params)(probability(64, 64).copy())
    else:
        found = PathologyProbNMS(**params)(probability(64, 64).copy(), resolution_level=level)
        params = {**params, "resolution_level": level}
    out["prob_nms"].append({"params": params, "probs": [float(f[0]) for f in found],
                            "coords": [[int(v) for v in f[1:]] for f in found]})
with tempfile.TemporaryDirectory() as folder:
    slide, mask = os.path.join(folder, "s.tif"), os.path.join(folder, "m.tif")
    write(slide, tissue(300, 401), 4)
    write(mask, np.repeat(tumour_mask(256, 256)[..., None], 3, 2), 3, nearest=True)
    for params in ({"patch_size": [40, 56], "mask_level": 2}, {"patch_size": [33, 64], "overlap": .3, "mask_level": 3},
                   {"patch_size": [30, 20], "patch_level": 1, "offset": [7, 3], "mask_level": 2}):
        data = SlidingPatchWSIDataset([{"image": slide}], reader="openslide", include_label=False, **{"patch_level": 0, **params})
        out["places"].append({"mask": "none", "params": params,
                              "location": [[int(v) for v in d["location"]] for d in data.data],
                              "mask_location": [[int(v) for v in d["mask_location"]] for d in data.data]})
    data = MaskedPatchWSIDataset([{"image": slide}], patch_size=[40, 40], patch_level=0, mask_level=3, reader="openslide")
    out["places"].append({"mask": "otsu", "params": {"patch_size": [40, 40], "mask_level": 3},
                          "location": [[int(v) for v in d["location"]] for d in data.data],
                          "mask_location": [[int(v) for v in d["mask_location"]] for d in data.data]})
    whole = compute_multi_instance_mask(tumour_mask(256, 256), 3.2)
    out["lesions"] = {"grow": 3.2, "itc": 20.0, "labels": whole.max().item(),
                      "sizes": np.bincount(whole.flatten())[1:].tolist(),
                      "isolated": compute_isolated_tumor_cells(whole, 20.0)}
    np.save(os.path.join(folder, "p.npy"), probability(64, 64))
    out["lesion_froc"] = []
    for params in ({"grow_distance": 8.0, "itc_diameter": 0.0}, {"grow_distance": 8.0, "itc_diameter": 12.0}):
        froc = LesionFROC([{"prob_map": os.path.join(folder, "p.npy"), "tumor_mask": mask, "level": 2, "pixel_spacing": .5}],
                          nms_box_size=6, image_reader_name="tifffile", **params)
        out["lesion_froc"].append({"params": params, "mean": float(froc.evaluate())})
json.dump(out, sys.stdout)
print()
