#!/usr/bin/env python3
"""Transforms beside MONAI's, one thread each, on an image of 160^3 and its label.

    ninja -C build bench_transforms
    MONAI_PYTHON tools/bench/transforms.py build      (tests/monai/compare.sh makes one)

Prints milliseconds (best of five) of both and the ratio.
"""
import json
import subprocess
import sys
import time
import warnings

import monai.transforms as mt
import numpy as np
import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
IMAGE, LABEL, BOTH = ["image"], ["label"], ["image", "label"]
MODES = {"mode": ["bilinear", "nearest"]}
CASES = [  # node, MONAI's class, parameters
    ("zoom", "Zoom", {"keys": BOTH, "zoom": 1.2, "mode": ["area", "nearest"]}),
    ("zoom", "Zoom", {"keys": BOTH, "zoom": 0.8, "mode": ["trilinear", "nearest"]}),
    ("resize", "Resize", {"keys": BOTH, "spatial_size": [128, 128, 96], "mode": ["area", "nearest"]}),
    ("rotate", "Rotate", {"keys": BOTH, "angle": [0.3, 0.2, 0.1], **MODES}),
    ("rand_affine", "RandAffine", {"keys": BOTH, "prob": 1.0, "rotate_range": [0.3, 0.3, 0.3], **MODES}),
    ("rand_grid_distortion", "RandGridDistortion", {"keys": BOTH, "prob": 1.0, **MODES}),
    ("divisible_pad", "DivisiblePad", {"keys": BOTH, "k": 64}),
    ("gaussian_smooth", "GaussianSmooth", {"keys": IMAGE, "sigma": 1.5}),
    ("rand_gaussian_sharpen", "RandGaussianSharpen", {"keys": IMAGE, "prob": 1.0}),
    ("rand_histogram_shift", "RandHistogramShift", {"keys": IMAGE, "prob": 1.0}),
    ("rand_std_shift_intensity", "RandStdShiftIntensity", {"keys": IMAGE, "prob": 1.0, "factors": 1.0}),
    ("rand_coarse_dropout", "RandCoarseDropout", {"keys": IMAGE, "prob": 1.0, "holes": 8, "spatial_size": 32}),
    ("scale_intensity_range_percentiles", "ScaleIntensityRangePercentiles",
     {"keys": IMAGE, "lower": 1, "upper": 99, "b_min": 0, "b_max": 1}),
    ("affine", "Affine", {"keys": BOTH, "rotate_params": [0.3, 0.2, 0.1], **MODES}),
    ("pad", None, {"keys": IMAGE, "to_pad": [[0, 0], [8, 8], [8, 8], [8, 8]]}),
    ("rand_rician_noise", "RandRicianNoise", {"keys": IMAGE, "prob": 1.0}),
    ("gibbs_noise", "GibbsNoise", {"keys": IMAGE, "alpha": 0.5}),
    ("rand_k_space_spike_noise", "RandKSpaceSpikeNoise", {"keys": IMAGE, "prob": 1.0}),
    ("rand_smooth_field_adjust_contrast", "RandSmoothFieldAdjustContrast",
     {"keys": IMAGE, "spatial_size": [160] * 3, "rand_size": [8] * 3, "prob": 1.0, "mode": "trilinear"}),
    ("rand_smooth_deform", "RandSmoothDeform",
     {"keys": IMAGE, "spatial_size": [160] * 3, "rand_size": [8] * 3, "prob": 1.0, "def_range": 0.1,
      "field_mode": "trilinear", "grid_mode": "bilinear"}),
    ("rand_coarse_shuffle", "RandCoarseShuffle", {"keys": IMAGE, "prob": 1.0, "holes": 8, "spatial_size": 32}),
    ("rand_intensity_remap", "RandIntensityRemap", {"keys": IMAGE, "prob": 1.0}),
    ("sobel_gradients", "SobelGradients", {"keys": IMAGE}),
    ("bounding_rect", "BoundingRect", {"keys": LABEL}),
    ("histogram_normalize", "HistogramNormalize", {"keys": IMAGE}),
    ("normalize_intensity", "NormalizeIntensity", {"keys": IMAGE, "nonzero": True}),
    ("label_to_contour", "LabelToContour", {"keys": LABEL}),
    ("fg_bg_to_indices", "FgBgToIndices", {"keys": LABEL}),
    ("keep_largest_connected_component", "KeepLargestConnectedComponent", {"keys": LABEL}),
    ("fill_holes", "FillHoles", {"keys": LABEL}),
]


def sample():
    at = torch.sin(torch.arange(160) * 0.21)
    blobs = at.view(160, 1, 1) * at.view(1, 160, 1) * at.view(1, 1, 160)
    return {"image": mt.ToTensor(track_meta=True)(torch.rand(1, 160, 160, 160)),
            "label": mt.ToTensor(track_meta=True)((blobs > 0.2).float()[None])}


def monai(name, params):
    data = sample()
    if name:
        transform = getattr(mt, name + "d")(**params)
    else:  # MONAI's Pad has no form for dictionaries
        pad = mt.Pad(to_pad=params["to_pad"])
        transform = lambda d: pad(d["image"])  # noqa: E731
    best = 1e9
    for _ in range(5):
        fresh = {k: v.clone() for k, v in data.items()}
        begin = time.perf_counter()
        transform(fresh)
        best = min(best, 1e3 * (time.perf_counter() - begin))
    return best


def main(build):
    nodes = json.dumps([{"type": t, "params": p} for t, _, p in CASES])
    ours = json.loads(subprocess.run([f"{build}/bench_transforms"], input=nodes, text=True, check=True,
                                     stdout=subprocess.PIPE).stdout)
    print(f"{'transform':36} {'Sluice ms':>9} {'MONAI ms':>9} {'ratio':>6}")
    for (kind, name, params), mine in zip(CASES, ours):
        other = monai(name, params)
        print(f"{kind:36} {mine:9.1f} {other:9.1f} {other / mine:6.1f}")
    assert np.all(np.isfinite(ours))


main(sys.argv[1] if len(sys.argv) > 1 else "build")
