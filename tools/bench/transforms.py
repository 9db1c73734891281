#!/usr/bin/env python3
"""Transforms of volumes beside MONAI's, one thread each, on an image of 160^3 and its label.

    ninja -C build bench_transforms
    MONAI_PYTHON tools/bench/transforms.py build [NODE...]      (tests/monai/compare.sh makes one)

Prints processor milliseconds (the least of five) of both and the ratio, then those that are slower than MONAI's.
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
CASES = [  # node, MONAI's class, parameters, and MONAI's where they are others
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
    ("pad", "Pad", {"keys": IMAGE, "to_pad": [[0, 0], [8, 8], [8, 8], [8, 8]]}),
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
    ("activations", "Activations", {"keys": IMAGE, "sigmoid": True}),
    ("add_coordinate_channels", "AddCoordinateChannels", {"keys": IMAGE, "spatial_dims": [0, 1, 2]}),
    ("adjust_contrast", "AdjustContrast", {"keys": IMAGE, "gamma": 1.5}),
    ("as_discrete", "AsDiscrete", {"keys": LABEL, "to_onehot": 3}),
    ("as_discrete", "AsDiscrete", {"keys": IMAGE, "threshold": 0.5}),
    ("border_pad", "BorderPad", {"keys": BOTH, "spatial_border": 8}),
    ("cast_to_type", "CastToType", {"keys": IMAGE, "dtype": "float64"}),
    ("center_scale_crop", "CenterScaleCrop", {"keys": BOTH, "roi_scale": 0.7}),
    ("center_spatial_crop", "CenterSpatialCrop", {"keys": BOTH, "roi_size": [96, 96, 96]}),
    ("classes_to_indices", "ClassesToIndices", {"keys": LABEL, "num_classes": 2}),
    ("clip_intensity_percentiles", "ClipIntensityPercentiles", {"keys": IMAGE, "lower": 1, "upper": 99}),
    ("crop_foreground", "CropForeground", {"keys": BOTH, "source_key": "label"}),
    ("detect_envelope", "DetectEnvelope", {"keys": IMAGE}),
    ("distance_transform_edt", "DistanceTransformEDT", {"keys": LABEL}),
    ("flip", "Flip", {"keys": BOTH, "spatial_axis": [0, 2]}),
    ("gaussian_sharpen", "GaussianSharpen", {"keys": IMAGE}),
    ("grid_distortion", "GridDistortion",
     {"keys": BOTH, "num_cells": 4, "distort_steps": [[1.1, 0.9, 1.05, 1.0, 1.0]] * 3, **MODES}),
    ("grid_patch", "GridPatch", {"keys": IMAGE, "patch_size": [64, 64, 64]}),
    ("k_space_spike_noise", "KSpaceSpikeNoise", {"keys": IMAGE, "loc": [0, 40, 40, 40]}),
    ("label_filter", "LabelFilter", {"keys": LABEL, "applied_labels": [1]}),
    ("label_to_mask", "LabelToMask", {"keys": LABEL, "select_labels": [1]}),
    ("map_label_value", "MapLabelValue", {"keys": LABEL, "orig_labels": [0, 1], "target_labels": [3, 5]}),
    ("mask_intensity", "MaskIntensity", {"keys": IMAGE, "mask_key": "label"}),
    ("mean_ensemble", "MeanEnsemble", {"keys": BOTH, "output_key": "mean"}),
    ("median_smooth", "MedianSmooth", {"keys": IMAGE, "radius": 1}),
    ("orientation", "Orientation", {"keys": BOTH, "axcodes": "PLI"}),
    ("rand_adjust_contrast", "RandAdjustContrast", {"keys": IMAGE, "prob": 1.0}),
    ("rand_axis_flip", "RandAxisFlip", {"keys": BOTH, "prob": 1.0}),
    ("rand_bias_field", "RandBiasField", {"keys": IMAGE, "prob": 1.0}),
    ("rand_crop_by_label_classes", "RandCropByLabelClasses",
     {"keys": BOTH, "label_key": "label", "spatial_size": [96] * 3, "num_classes": 2, "num_samples": 2}),
    ("rand_crop_by_pos_neg_label", "RandCropByPosNegLabel",
     {"keys": BOTH, "label_key": "label", "spatial_size": [96] * 3, "num_samples": 2}),
    ("rand_elastic", "Rand3DElastic",
     {"keys": BOTH, "prob": 1.0, "sigma_range": [5, 6], "magnitude_range": [50, 60], **MODES}),
    ("rand_flip", "RandFlip", {"keys": BOTH, "prob": 1.0, "spatial_axis": 1}),
    ("rand_gaussian_noise", "RandGaussianNoise", {"keys": IMAGE, "prob": 1.0}),
    ("rand_gaussian_smooth", "RandGaussianSmooth", {"keys": IMAGE, "prob": 1.0}),
    ("rand_gibbs_noise", "RandGibbsNoise", {"keys": IMAGE, "prob": 1.0}),
    ("rand_grid_patch", "RandGridPatch", {"keys": IMAGE, "patch_size": [64, 64, 64]}),
    ("rand_rotate", "RandRotate", {"keys": BOTH, "prob": 1.0, "range_x": 0.3, **MODES}),
    ("rand_rotate90", "RandRotate90", {"keys": BOTH, "prob": 1.0}),
    ("rand_scale_crop", "RandScaleCrop", {"keys": BOTH, "roi_scale": 0.6, "random_size": False}),
    ("rand_scale_intensity", "RandScaleIntensity", {"keys": IMAGE, "prob": 1.0, "factors": 0.3}),
    ("rand_scale_intensity_fixed_mean", "RandScaleIntensityFixedMean",
     {"keys": IMAGE, "prob": 1.0, "factors": 0.3}),
    ("rand_shift_intensity", "RandShiftIntensity", {"keys": IMAGE, "prob": 1.0, "offsets": 0.3}),
    ("rand_simulate_low_resolution", "RandSimulateLowResolution",
     {"keys": IMAGE, "prob": 1.0, "zoom_range": [0.5, 0.9]}),
    ("rand_smooth_field_adjust_intensity", "RandSmoothFieldAdjustIntensity",
     {"keys": IMAGE, "spatial_size": [160] * 3, "rand_size": [8] * 3, "prob": 1.0, "mode": "trilinear"}),
    ("rand_spatial_crop", "RandSpatialCrop", {"keys": BOTH, "roi_size": [96] * 3}),
    ("rand_spatial_crop_samples", "RandSpatialCropSamples",
     {"keys": BOTH, "roi_size": [96] * 3, "num_samples": 4, "random_size": False}),
    ("rand_weighted_crop", "RandWeightedCrop",
     {"keys": BOTH, "w_key": "label", "spatial_size": [96] * 3, "num_samples": 2}),
    ("rand_zoom", "RandZoom", {"keys": BOTH, "prob": 1.0, "mode": ["trilinear", "nearest"]}),
    ("remove_small_objects", "RemoveSmallObjects", {"keys": LABEL}),
    ("repeat_channel", "RepeatChannel", {"keys": IMAGE, "repeats": 3}),
    ("resize_with_pad_or_crop", "ResizeWithPadOrCrop", {"keys": BOTH, "spatial_size": [192, 96, 128]}),
    ("rotate90", "Rotate90", {"keys": BOTH}),
    ("scale_intensity", "ScaleIntensity", {"keys": IMAGE}),
    ("scale_intensity_fixed_mean", "ScaleIntensityFixedMean", {"keys": IMAGE, "factor": 0.2}),
    ("scale_intensity_range", "ScaleIntensityRange",
     {"keys": IMAGE, "a_min": 0.1, "a_max": 0.9, "b_min": 0, "b_max": 1, "clip": True}),
    ("shift_intensity", "ShiftIntensity", {"keys": IMAGE, "offset": 0.2}),
    ("spacing", "Spacing", {"keys": BOTH, "pixdim": [1.3, 1.3, 0.9], **MODES}),
    ("spatial_crop", "SpatialCrop", {"keys": BOTH, "roi_center": [80] * 3, "roi_size": [96] * 3}),
    ("spatial_pad", "SpatialPad", {"keys": BOTH, "spatial_size": [192] * 3}),
    ("std_shift_intensity", "StdShiftIntensity", {"keys": IMAGE, "factor": 0.2}),
    ("threshold_intensity", "ThresholdIntensity", {"keys": IMAGE, "threshold": 0.5}),
    ("transpose", "Transpose", {"keys": IMAGE, "indices": [0, 3, 1, 2]}),
    ("concat_items", "ConcatItems", {"keys": ["image", "image"], "name": "both"}),
    ("split_dim", "SplitDim", {"keys": IMAGE, "dim": 1, "keepdim": False, "output_postfixes": [str(i) for i in range(160)]}),
    ("convert_to_multi_channel_based_on_brats_classes", "ConvertToMultiChannelBasedOnBratsClasses", {"keys": LABEL}),
    ("resample_to_match", "ResampleToMatch", {"keys": IMAGE, "key_dst": "label"}),
    *(("image_filter", "ImageFilter", {"keys": IMAGE, "filter": kind, "filter_size": 3},
       {"keys": IMAGE, "kernel": kind, "kernel_size": 3})
      for kind in ("mean", "laplace", "elliptical", "sharpen")),
    ("savitzky_golay_filter", "SavitzkyGolaySmooth", {"image_key": "image", "window_length": 5, "order": 2, "axis": 2},
     {"keys": IMAGE, "window_length": 5, "order": 2, "axis": 3}),
    ("vote_ensemble", "VoteEnsemble", {"keys": ["label", "label"], "output_key": "vote", "num_classes": 2}),
]


def sample():
    at = torch.sin(torch.arange(160) * 0.21)
    blobs = at.view(160, 1, 1) * at.view(1, 160, 1) * at.view(1, 1, 160)
    return {"image": mt.ToTensor(track_meta=True)(torch.rand(1, 160, 160, 160)),
            "label": mt.ToTensor(track_meta=True)((blobs > 0.2).float()[None])}


def monai(name, params):
    data = sample()
    if hasattr(mt, name + "d") and name != "Pad":  # Padd takes a padder
        transform = getattr(mt, name + "d")(**params)
    else:  # of arrays alone
        one = getattr(mt, name)(**{k: v for k, v in params.items() if k != "keys"})
        transform = lambda d: [one(d[k]) for k in params["keys"]]  # noqa: E731
    best = 1e9
    for _ in range(5):
        fresh = {k: v.clone() for k, v in data.items()}
        begin = time.process_time()
        made = transform(fresh)
        for one in made.values() if isinstance(made, dict) else made:  # a view is written down later
            if isinstance(one, torch.Tensor):
                one.contiguous()
        best = min(best, 1e3 * (time.process_time() - begin))
    return best


def main(build, wanted):
    cases = [c for c in CASES if not wanted or c[0] in wanted]
    print(f"{'transform':36} {'Sluice ms':>9} {'MONAI ms':>9} {'ratio':>6}")
    ratios = []
    for kind, name, params, *others in cases:
        ours = json.loads(subprocess.run([f"{build}/bench_transforms"], text=True, check=True,
                                         input=json.dumps([{"type": kind, "params": params}]),
                                         stdout=subprocess.PIPE).stdout)[0]
        other = monai(name, *others or [params])
        ratios.append((other / ours, kind))
        print(f"{kind:36} {ours:9.2f} {other:9.2f} {other / ours:6.1f}", flush=True)
    print(f"median {np.median([r for r, _ in ratios]):.1f}; below 1:",
          ", ".join(f"{kind} {r:.2f}" for r, kind in sorted(ratios) if r < 1) or "none")


main(sys.argv[1] if len(sys.argv) > 1 else "build", sys.argv[2:])
