"""Writes metrics/*.json: what MONAI 1.6.1 answers, a file for each metric node.

Run with a Python that has monai, torch and scipy; the results are kept in the repository:
    python tests/golden/make_metrics.py
A new metric of cases: one call of cases(). Inputs are made by formula, the same in
tests/nodes/test_metrics.cpp. null: not defined (MONAI's reductions answer 0 there).
"""
import json
import pathlib
from functools import partial

import monai.metrics as M
import numpy as np
import torch
import torch.nn.functional as F
from monai.metrics.confusion_matrix import compute_confusion_matrix_metric
from monai.metrics.f_beta_score import compute_f_beta_score
from monai.metrics.utils import do_metric_reduction

from filled import sines
from metric_names import by_count, by_name, panoptic_measure, value

HERE = pathlib.Path(__file__).parent / "metrics"
torch.set_num_threads(1)
files = {}


def one_hot(label, classes):
    return torch.cat([(label == k).float() for k in range(classes)], 1)


# ---- cases --------------------------------------------------------------------------------------

def scores():
    """Scores sin(1.3 i) and a label (7 i mod 11) mod 3; the second case's label lacks class 2."""
    s = torch.sin(1.3 * torch.arange(360 * 3, dtype=torch.float64)).float().reshape(3, 3, 6, 5, 4)
    label = (7 * torch.arange(360) % 11 % 3).reshape(3, 1, 6, 5, 4)
    label[1][label[1] == 2] = 0
    return one_hot(s.argmax(1, keepdim=True), 3), one_hot(label, 3)


def boxes():
    """Classes 1 and 2 are boxes, shifted in the prediction; the second case's label lacks class 2, its
    prediction too in the third."""
    pred, label = torch.zeros(3, 1, 12, 10, 8), torch.zeros(3, 1, 12, 10, 8)
    for n in range(3):
        label[n, 0, 1:6, 2:7, 1:5] = 1
        pred[n, 0, 2:8, 1:6 + n, 1:7] = 1
        if n == 0:
            label[n, 0, 7:12, 5:9, 2:8] = 2
        if n < 2:
            pred[n, 0, 8:11, 6:10, 3:8] = 2
    return one_hot(pred, 3), one_hot(label, 3)


def images():
    return sines([3, 2, 5, 4, 3], 1), sines([3, 2, 5, 4, 3], 3)


def chances():
    return 0.5 + sines([3, 2, 5, 4, 3], 1, 0.5), (sines([3, 2, 5, 4, 3], 3) > 0).float()


def numbers():
    """Two numbers a case, as of a regression."""
    return sines([5, 2], 1), sines([5, 2], 3)


def larger():
    image = sines([2, 1, 12, 10, 8], 1)
    return image, image + sines([2, 1, 12, 10, 8], 4, 0.3)


def void():
    """boxes() with a part that the label says nothing of: no class in MONAI's one-hot label, 255 in ours."""
    pred, label = boxes()
    label[:, :, 3:7, 3:9, 2:6] = 0
    return pred, label


DATA = {"void": void, "scores": scores, "boxes": boxes, "images": images, "chances": chances, "larger": larger,
        "numbers": numbers}


def cases(name, make, data, first, ours=None, call=None, tolerance=None, **params):
    """`ours`: parameters of the node that MONAI's class lacks, `call`: those of MONAI's call."""
    reduction, not_nans = params.get("reduction", "mean"), params.get("get_not_nans", False)
    m = make(**{k: v for k, v in params.items() if k not in ("reduction", "get_not_nans")}, reduction="none")
    m(*DATA[data](), **(call or {}))
    put_case(name, data, {**params, **(ours or {})}, by_name(m.get_buffer().float(), reduction, not_nans, first), tolerance)


def put_case(name, data, params, metrics, tolerance=None):
    files.setdefault(name, []).append(
        dict(data=data, params=params, **({} if tolerance is None else dict(tolerance=tolerance)), metrics=metrics))


def counted(name, make, data, measure, first=None, ours=None, tolerance=None, **params):
    """Of the counts, which are reduced before the measure is taken."""
    m = make(**{k: v for k, v in params.items() if k not in ("reduction", "get_not_nans")}, reduction="none")
    m(*DATA[data]())
    first = int(not params.get("include_background", True)) if first is None else first
    metrics = by_count(m.get_buffer().float(), measure, params.get("reduction", "mean"), first)
    put_case(name, data, {**params, **(ours or {})}, metrics, tolerance)


REDUCTIONS = ("mean", "sum", "mean_batch", "sum_batch", "mean_channel", "sum_channel", "none")
for name, make in (("dice_metric", M.DiceMetric), ("mean_iou", M.MeanIoU)):
    for background in (True, False):
        for empty in (True, False):
            for data in ("scores", "boxes"):
                cases(name, make, data, 0 if background else 1, include_background=background, ignore_empty=empty)
    for reduction in REDUCTIONS:
        cases(name, make, "boxes", 0, reduction=reduction, get_not_nans=reduction != "none")
for params in (dict(), dict(percentile=95.0), dict(directed=True), dict(include_background=True)):
    cases("hausdorff_distance_metric", M.HausdorffDistanceMetric, "boxes", int(not params.get("include_background")),
          **params)
cases("hausdorff_distance_metric", M.HausdorffDistanceMetric, "scores", 1)
cases("hausdorff_distance_metric", M.HausdorffDistanceMetric, "boxes", 1, ours=dict(spacing=[0.85, 1.2, 0.9]),
      call=dict(spacing=[0.85, 1.2, 0.9]), percentile=80.0)
for symmetric in (False, True):
    for background in (False, True):
        cases("surface_distance_metric", M.SurfaceDistanceMetric, "boxes", int(not background), symmetric=symmetric,
              include_background=background)
cases("surface_distance_metric", M.SurfaceDistanceMetric, "boxes", 1, ours=dict(spacing=[0.85, 1.2, 0.9]),
      call=dict(spacing=[0.85, 1.2, 0.9]))
for metric in ("chessboard", "taxicab"):
    cases("hausdorff_distance_metric", M.HausdorffDistanceMetric, "boxes", 1, distance_metric=metric)
    cases("surface_distance_metric", M.SurfaceDistanceMetric, "boxes", 1, distance_metric=metric)
    cases("surface_dice_metric", M.SurfaceDiceMetric, "boxes", 1, distance_metric=metric, class_thresholds=[1.0, 2.0])
for index in (1, 255):  # a class; none of them
    for name, make in (("dice_metric", M.DiceMetric), ("mean_iou", M.MeanIoU)):
        for empty in (True, False):
            cases(name, make, "void" if index == 255 else "boxes", 0, ignore_index=index, ignore_empty=empty)
    m = M.GeneralizedDiceScore(ignore_index=index, reduction="mean")
    m(*DATA["void" if index == 255 else "boxes"]())
    put_case("generalized_dice_score", "void" if index == 255 else "boxes", dict(ignore_index=index),
             by_name(m.get_buffer().float(), "mean", False, None), 1e-6)
    counted("confusion_matrix_metric", M.ConfusionMatrixMetric, "void" if index == 255 else "boxes",
            lambda n: compute_confusion_matrix_metric("tnr", n), metric_name="tnr", ignore_index=index)
for name, make, params in (("hausdorff_distance_metric", M.HausdorffDistanceMetric, {}),
                           ("surface_distance_metric", M.SurfaceDistanceMetric, {}),
                           ("surface_dice_metric", M.SurfaceDiceMetric, dict(class_thresholds=[1.0, 2.0]))):
    cases(name, make, "void", 1, ignore_index=255, **params)
cases("hausdorff_distance_metric", M.HausdorffDistanceMetric, "boxes", 1, ignore_index=1)
for name, make in (("mse_metric", M.MSEMetric), ("mae_metric", M.MAEMetric), ("rmse_metric", M.RMSEMetric)):
    for reduction in ("mean", "sum", "none"):
        cases(name, make, "images", None, reduction=reduction)
    cases(name, make, "numbers", None, ours=dict(spatial_dims=0))
cases("mape_metric", M.MAPEMetric, "images", None)
cases("mape_metric", M.MAPEMetric, "images", None, epsilon=0.5, reduction="mean_channel")
cases("psnr_metric", M.PSNRMetric, "images", None, max_val=2.5)

for params in (dict(), dict(reduction="none"), dict(include_background=True, class_thresholds=[0.5, 1.0, 2.0])):
    params.setdefault("class_thresholds", [1.0, 2.0])
    cases("surface_dice_metric", M.SurfaceDiceMetric, "boxes", int(not params.get("include_background")), **params)
cases("surface_dice_metric", M.SurfaceDiceMetric, "boxes", 1, ours=dict(spacing=[0.85, 1.2, 0.9]),
      call=dict(spacing=[0.85, 1.2, 0.9]), class_thresholds=[0.9, 1.5])
for empty in (True, False):
    for background in (True, False):
        cases("absolute_volume_difference_metric", M.AbsoluteVolumeDifferenceMetric, "boxes", int(not background),
              ignore_empty=empty, include_background=background)
for reduction in REDUCTIONS:
    for weight in ("square", "simple", "uniform"):
        m = M.GeneralizedDiceScore(weight_type=weight, reduction=reduction)
        m(*DATA["boxes"]())
        by_class = reduction == "none" or reduction.endswith("batch")
        put_case("generalized_dice_score", "boxes", dict(weight_type=weight, reduction=reduction),
                 by_name(m.get_buffer().float(), reduction, False, 0 if by_class else None), 1e-6)
cases("generalized_dice_score", lambda **kw: M.GeneralizedDiceScore(**{**kw, "reduction": "mean_batch"}), "scores", 1,
      include_background=False, reduction="mean_batch", tolerance=1e-6)
for reduction in REDUCTIONS:
    for beta in (1.0, 2.0):
        counted("f_beta_score", M.FBetaScore, "boxes", lambda n: compute_f_beta_score(n, beta), reduction=reduction, beta=beta)
    counted("confusion_matrix_metric", M.ConfusionMatrixMetric, "boxes", lambda n: compute_confusion_matrix_metric("f1", n),
            reduction=reduction, metric_name="f1", include_background=False)
for name in ("tpr", "tnr", "ppv", "npv", "fnr", "fpr", "fdr", "for", "pt", "threat_score", "acc", "balanced accuracy", "mcc",
             "fm", "youden", "mk"):
    counted("confusion_matrix_metric", M.ConfusionMatrixMetric, "scores", lambda n: compute_confusion_matrix_metric(name, n),
            metric_name=name, tolerance=2e-5 if name == "pt" else None)  # MONAI's float32 cancels there
for reduction in ("mean", "none"):
    m = M.ConfusionMatrixMetric(metric_name="sensitivity", reduction="none")
    m(*DATA["boxes"]())
    put_case("confusion_matrix_metric", "boxes", dict(metric_name="sensitivity", compute_sample=True, reduction=reduction),
             by_name(compute_confusion_matrix_metric("sensitivity", m.get_buffer().float()), reduction, False, 0))
for params in (dict(), dict(kernel_type="uniform", data_range=2.0), dict(k1=0.05, k2=0.1, kernel_sigma=0.7, reduction="none")):
    cases("ssim_metric", partial(M.SSIMMetric, 3), "images", None, win_size=3, tolerance=2e-5, **params)
    cases("multi_scale_ssim_metric", partial(M.MultiScaleSSIMMetric, 3), "larger", None, kernel_size=3, weights=[0.4, 0.6],
          tolerance=2e-5, **params)
for params in (dict(), dict(calibration_reduction="average", num_bins=7), dict(calibration_reduction="maximum", right=True),
               dict(include_background=False), dict(reduction="none")):
    cases("calibration_error_metric", lambda reduction, **kw: M.CalibrationErrorMetric(metric_reduction=reduction, **kw),
          "chances", int(not params.get("include_background", True)), tolerance=1e-5, **params)
for params in (dict(), dict(scalar_reduction="mean", include_background=False)):
    quality = M.LabelQualityScore(**{"scalar_reduction": "sum", **params})(*(t.double() for t in DATA["images"]()))
    put_case("label_quality_score", "images", params, by_name(quality.float()[:, None], "mean", False, None), 1e-6)

def instances(first):
    """Instance numbers and classes of blocks; `first` shifts them."""
    grid = torch.stack(torch.meshgrid(torch.arange(12), torch.arange(10), indexing="ij"))
    number = (grid[0] + first) // 4 * 3 + grid[1] // 4 + 1
    number[(grid[0] + 2 * grid[1]) % 7 == 0] = 0
    return torch.stack([number, number % 2 + 1])


def panoptic():
    return (torch.stack([instances(1), instances(0), instances(2)]).float(),
            torch.stack([instances(0), instances(0), instances(0)]).float())


DATA["panoptic"] = panoptic
for name in ("pq", "sq", "rq"):
    for reduction in ("mean_batch", "mean", "sum", "none"):
        measured = panoptic_measure(name)
        counted("panoptic_quality_metric", lambda reduction, **kw: M.PanopticQualityMetric(reduction=reduction, **kw), "panoptic",
                measured, 1, num_classes=2, metric_name=name, reduction=reduction, ours=dict(spatial_dims=2))
    m = M.PanopticQualityMetric(num_classes=2, metric_name=name, reduction="mean_batch")
    m(*panoptic())
    assert torch.allclose(m.aggregate(), measured(do_metric_reduction(m.get_buffer().float(), "mean_batch")[0]))
FEATURES = sines([7, 3], 1), sines([7, 3], 4)
put_case("mmd_metric", "features", {}, {"mean": value(M.MMDMetric()(FEATURES[1].double(), FEATURES[0].double()))})
put_case("fid_metric", "features", {}, {"mean": value(M.FIDMetric()(*FEATURES))}, 1e-6)
put_case("fid_metric", "fewer", {}, {"mean": value(M.FIDMetric()(FEATURES[0], FEATURES[1][:5]))}, 1e-6)
for params in (dict(), dict(scalar_reduction="mean", include_background=False)):
    put_case("variance_metric", "images", params,
             {"mean": value(M.VarianceMetric(**params)(sines([3, 2, 5, 4, 3], 1)))})

MASK = torch.zeros(8, 9, dtype=torch.long)
MASK[1:3, 1:4], MASK[4:7, 3:5], MASK[0:2, 6:9] = 1, 2, 3
for params in (dict(), dict(eval_thresholds=[1.0, 2.5, 6.0])):
    found = [], []
    for first in (1, 2, 5):
        i = torch.arange(12) + first
        fp, tp, targets = M.compute_fp_tp_probs_nd((0.5 + sines([12], first, 0.5)).numpy(),
                                                   torch.stack([i * 5 % 8, i * 7 % 9], 1).numpy(), MASK.numpy())
        found[0].extend(fp), found[1].extend(tp)
    curve = M.compute_froc_curve_data(np.array(found[0]), np.array(found[1]), 9, 3)
    put_case("froc", "points", params, {"mean": value(M.compute_froc_score(*curve, **params))})


# ---- classifiers --------------------------------------------------------------------------------

FIVE = [i * 7 % 5 for i in range(40)]
LACKING = [i * 5 % 3 for i in range(30)]  # of four classes
BINARY = [i * 7 % 2 for i in range(20)]
FOUND = [(i * i // 3) % 4 if i % 3 == 0 else i * 7 % 4 for i in range(60)]
CLASSES = {"five": (5, FIVE), "lacking": (4, LACKING), "binary": (1, BINARY)}


def pooled(name, data, params, metrics):
    files.setdefault(name, []).append(dict(data=data, params=params, metrics=metrics))


CURVES = {"rocauc": M.ROCAUCMetric, "average_precision_metric": M.AveragePrecisionMetric}
for name, make in CURVES.items():  # several classes may be true at once
    for average in ("macro", "micro", "weighted"):
        m = make(average)
        m((sines([12, 3], 1) * 6).round() / 6, (sines([12, 3], 5) > 0).float())
        pooled(name, "several", dict(average=average), {"mean": value(m.aggregate())})
for data, (classes, truth) in CLASSES.items():
    s = (sines([len(truth), classes], 1) * 6).round() / 6
    t = torch.tensor(truth)
    for average in ("macro", "weighted", "micro", "none") if classes > 1 else ("macro",):
        for name, make in CURVES.items():
            m = make(average)
            m(s, F.one_hot(t, classes).float() if classes > 1 else t.float()[:, None])
            v = m.aggregate()
            pooled(name, data, dict(average=average),
                   {f"class_{k}": value(x) for k, x in enumerate(v)} if average == "none" else {"mean": value(v)})
    found = s.argmax(1) if classes > 1 else (s[:, 0] > 0).long()
    right = (found == t).double()
    share = {"mean": value(right.mean())}
    for k in range(max(2, classes)):
        share[f"class_{k}"] = value(right[t == k].mean())
    pooled("accuracy", data, {}, share)

# What ignite's Accuracy says of masks: the share of equal elements.
same = [(a == b).double().mean() for a, b in (scores(), ((sines([12, 3], 1) * 6).round() / 6, (sines([12, 3], 5) > 0)))]
pooled("element_accuracy", "scores", dict(argmax=True), {"mean": value(same[0])})
pooled("element_accuracy", "several", {}, {"mean": value(same[1])})

truth = torch.tensor([i * 7 % 4 for i in range(60)])
for name in ("sensitivity", "specificity", "precision", "negative predictive value", "miss rate", "fall out",
             "false discovery rate", "false omission rate", "prevalence threshold", "threat score", "accuracy",
             "balanced accuracy", "f1 score", "matthews correlation coefficient", "fowlkes mallows index",
             "informedness", "markedness"):
    m = M.ConfusionMatrixMetric(metric_name=name, reduction="none")
    m(F.one_hot(torch.tensor(FOUND), 4).float(), F.one_hot(truth, 4).float())
    by_class = compute_confusion_matrix_metric(name, m.get_buffer().sum(0))
    pooled("confusion_matrix", "found", dict(metric_name=name),
           {"mean": value(by_class.mean()), **{f"class_{k}": value(v) for k, v in enumerate(by_class)}})

for name, all_cases in files.items():
    text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, "cases": all_cases}, indent=0)
    text = text.replace("Infinity", '"inf"')
    (HERE / f"{name}.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
