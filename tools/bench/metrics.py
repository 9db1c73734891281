#!/usr/bin/env python3
"""Metrics beside MONAI's, one thread each.

    ninja -C build bench_losses_metrics
    MONAI_PYTHON tools/bench/metrics.py build      (tests/monai/compare.sh makes one)

Prints processor milliseconds (the least of five) of both and MONAI's divided by ours, how far the means are
apart, and the peak memory of both, by the kernel's count of resident pages, with ours divided by MONAI's.
"""
import sys
import warnings

import monai.metrics as M
import numpy as np
import torch

from beside_monai import compare

warnings.filterwarnings("ignore")
rng = np.random.default_rng(1)


def balls(shift):
    at = np.stack(np.meshgrid(*[np.arange(n) for n in (96, 96, 64)], indexing="ij"))
    label = np.zeros((2, 1, 96, 96, 64), np.float32)
    for n in range(2):
        for c, centre in ((1, (40, 45, 30)), (2, (60, 60, 40))):
            far = ((at - np.array(centre).reshape(3, 1, 1, 1) - shift * (n + 1)) ** 2).sum(0)
            label[n, 0][far < (18 - 4 * c + shift) ** 2] = c
    return label


def hot(label):
    return np.concatenate([label == c for c in range(3)], 1).astype(np.float32)


truth, guess = hot(balls(0)), hot(balls(2))
images = [rng.random((2, 1, 96, 96, 64), np.float32) for _ in range(2)]
vectors = [rng.standard_normal((256, 64)).astype(np.float32) for _ in range(2)]
at = np.indices((512, 512)) // 32
cells = (at[0] * 16 + at[1] + 1) * (np.indices((512, 512)) % 32 < 25).all(0)
cells = np.stack([cells, (cells > 0) * (1 + cells % 2)])[None].astype(np.float32)
instances = np.roll(cells, (2, 1), (2, 3)), cells
scores = rng.random((4000, 1), np.float32)
classes = (rng.random((4000, 1)) < scores).astype(np.float32)
ONE_HOT = dict(include_background=True)
MASKS = dict(argmax=False, **ONE_HOT)  # each channel a mask of its own, as MONAI takes them


def case(node, make, pred=guess, label=truth, **params):
    return node, params, {"pred": pred} | ({} if label is None else {"label": label}), make


def monai(name, **given):
    def run(t):
        m = getattr(M, name)(**given)
        m(t["pred"], t["label"])
        value = m.aggregate()
        return float((value[0] if isinstance(value, list) else value).mean())

    return run


CASES = [
    case("dice_metric", monai("DiceMetric", **ONE_HOT), num_classes=3, **MASKS),
    case("mean_iou", monai("MeanIoU", **ONE_HOT), num_classes=3, **MASKS),
    case("generalized_dice_score", monai("GeneralizedDiceScore", reduction="mean"), num_classes=3, **MASKS),
    case("f_beta_score", monai("FBetaScore", **ONE_HOT), num_classes=3, **MASKS),
    case("confusion_matrix_metric", monai("ConfusionMatrixMetric", metric_name="precision", **ONE_HOT),
         metric_name="precision", num_classes=3, **MASKS),
    case("hausdorff_distance_metric", monai("HausdorffDistanceMetric", percentile=95.0), percentile=95.0,
         argmax=False, include_background=False),
    case("surface_distance_metric", monai("SurfaceDistanceMetric", symmetric=True), symmetric=True,
         argmax=False, include_background=False),
    case("surface_dice_metric", monai("SurfaceDiceMetric", class_thresholds=[1.0, 1.0]),
         class_thresholds=[1.0, 1.0],
         argmax=False),
    case("absolute_volume_difference_metric", monai("AbsoluteVolumeDifferenceMetric", **ONE_HOT),
         num_classes=3, **MASKS),
    case("mse_metric", monai("MSEMetric"), *images),
    case("mae_metric", monai("MAEMetric"), *images),
    case("rmse_metric", monai("RMSEMetric"), *images),
    case("psnr_metric", monai("PSNRMetric", max_val=1.0), *images, max_val=1.0),
    case("ssim_metric", monai("SSIMMetric", spatial_dims=3), *images),
    case("multi_scale_ssim_metric", monai("MultiScaleSSIMMetric", spatial_dims=3, kernel_size=3), *images, kernel_size=[3]),
    case("mape_metric", monai("MAPEMetric"), *images),
    case("calibration_error_metric", monai("CalibrationErrorMetric"), guess, truth),
    case("fid_metric", lambda t: float(M.FIDMetric()(t["pred"], t["label"])), *vectors),
    case("mmd_metric", lambda t: float(M.MMDMetric()(t["pred"], t["label"])), *vectors),
    case("variance_metric", lambda t: float(M.VarianceMetric()(t["pred"])), np.abs(guess - 0.3), None, key="pred"),
    case("panoptic_quality_metric", monai("PanopticQualityMetric", num_classes=2, reduction="mean"), *instances,
         num_classes=2, spatial_dims=2),
    case("rocauc", lambda t: M.compute_roc_auc(t["pred"], t["label"]), scores, classes),
    case("average_precision_metric", lambda t: float(M.compute_average_precision(t["pred"], t["label"])),
         scores, classes),
]

if __name__ == "__main__":
    torch.manual_seed(0)
    compare(sys.argv[1] if len(sys.argv) > 1 else "build", CASES, lambda call, t: call(t), False)
