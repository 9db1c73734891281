"""Holds every metric that MONAI 1.6.1 has against it, on random inputs, through `sluice apply`: all values of the node,
by their names.

    PYTHON_WITH_MONAI tests/monai/metrics.py [--sluice build/sluice] [--cases 30] [--seed 0] [METRIC...]

Batches of 1 to 3 members, images of 2 or 3 axes, of 1 to 4 classes; classes that a member or its prediction lacks, empty
masks, parts without a label, NaN in images; every reduction. A row a metric: cases, 1 where some value is not defined on both
sides, the largest error (relative, or of 1e-3 where values are smaller; at most 1e-4). Exit code 1 where an error is
larger, or a name or a NaN is on one side alone.
"""
import json
import pathlib
import random
import subprocess
import sys
import warnings

import monai.metrics as M
import monai.metrics.regression as regression
import numpy
import torch
import torch.nn.functional as F
from monai.metrics.confusion_matrix import compute_confusion_matrix_metric
from monai.metrics.f_beta_score import compute_f_beta_score

from held import held
from losses import one_hot

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
from metric_names import by_count, by_name, panoptic_measure, value  # noqa: E402

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
REDUCTIONS = ["mean", "sum", "mean_batch", "sum_batch", "mean_channel", "sum_channel", "none"]


def size_of(r, low=5, high=9, least=2):
    return [r.randint(low, high) for _ in range(r.randint(least, 3))]


def classes(r, g):
    """Scores and class indices, and what MONAI takes: one-hot of both."""
    size, c, n = size_of(r), r.randint(2, 4), r.randint(1, 3)
    blobs = F.interpolate(torch.randn(n, c, *(3 for _ in size), generator=g), size, mode="trilinear" if len(size) == 3 else "bilinear")
    label = blobs.argmax(1, keepdim=True)
    scores = blobs + 0.5 * torch.randn(blobs.shape, generator=g)
    for part in (label, scores):
        if r.random() < 0.3:  # a class that one of them lacks, or all background
            member, k = r.randrange(n), r.randrange(c)
            if part is label:
                part[member][part[member] == k] = 0
            else:
                part[member, k] = -9
        if r.random() < 0.15:
            member = r.randrange(n)
            if part is label:
                part[member] = 0
            else:
                part[member, 1:] = -9
    return scores, label


def segmentation(r, g, background=True, void=True):
    """Parameters, our inputs and MONAI's; the label may be silent on a part, or one class may be left out."""
    scores, label = classes(r, g)
    c, axes = scores.shape[1], scores.dim() - 2
    params = dict(include_background=r.random() < 0.6 if background else False, reduction=r.choice(REDUCTIONS))
    theirs = one_hot(scores.argmax(1, keepdim=True), c), one_hot(label, c)
    if void and r.random() < 0.3:
        params["ignore_index"] = 255
        silent = torch.rand(label.shape, generator=g) < 0.2
        label[silent] = 255
        theirs[1].masked_fill_(silent, 0)
    return params, (scores, label), theirs, axes


def rows(make, of, extra=lambda r, c, axes: ({}, {}), first=None, not_nans=False):
    """A metric of rows: one value a case and class, or a case (first: None)."""
    def case(r, g):
        params, ours, theirs, axes = of(r, g)
        more, call = extra(r, theirs[0].shape[1], axes)
        reduction = params["reduction"]
        if not_nans and reduction != "none":
            params["get_not_nans"] = r.random() < 0.3
        own = {k: v for k, v in more.items() if k not in call}
        metric = make(axes)(**{k: v for k, v in {**params, **own}.items() if k not in ("reduction", "get_not_nans")},
                            reduction="none")
        metric(*theirs, **call)
        at = first(params) if first else None
        return {**params, **more, "spatial_dims": axes}, ours, by_name(
            metric.get_buffer().float(), reduction, params.get("get_not_nans", False), at)
    return case


def plain(cls):
    return lambda axes: cls


def of_class(params):
    return int(not params["include_background"])


def empty(r, c, axes):
    return dict(ignore_empty=r.random() < 0.6), {}


def distance(r, c, axes, more=lambda r, c: {}):
    extra = dict(distance_metric=r.choice(["euclidean", "euclidean", "chessboard", "taxicab"])) | more(r, c)
    call = {}
    if extra["distance_metric"] == "euclidean" and r.random() < 0.5:
        call = dict(spacing=[round(r.uniform(0.5, 2), 2) for _ in range(axes)])
    return extra | call, call


def hausdorff(r, c):
    return dict(percentile=r.choice([None, 95.0, 50.0]), directed=r.random() < 0.4)


def thresholds(r, g):
    params, ours, theirs, axes = segmentation(r, g)
    n = theirs[0].shape[1] - int(not params["include_background"])
    params["class_thresholds"] = [round(r.uniform(0.5, 2.5), 2) for _ in range(n)]
    return params, ours, theirs, axes


def generalized(r, g):
    params, ours, theirs, axes = segmentation(r, g, void=False)
    params["weight_type"] = r.choice(["square", "simple", "uniform"])
    metric = M.GeneralizedDiceScore(**params)
    metric(*theirs)
    by_class = params["reduction"] == "none" or params["reduction"].endswith("batch")
    return {**params, "spatial_dims": axes}, ours, by_name(metric.get_buffer().float(), params["reduction"], False,
                                                           of_class(params) if by_class else None)


def counts(make, measure):
    """A metric of counts."""
    def case(r, g):
        params, ours, theirs, axes = segmentation(r, g, void=False)
        params |= (own := make(r))
        metric = M.ConfusionMatrixMetric(include_background=params["include_background"], reduction="none")
        metric(*theirs)
        buffer, first = metric.get_buffer().float(), of_class(params)
        wanted = by_name(measure(own)(buffer), params["reduction"], False, first) if params.get("compute_sample") else \
            by_count(buffer, measure(own), params["reduction"], first)
        return {**params, "spatial_dims": axes}, ours, wanted
    return case


NAMES = ["tpr", "tnr", "ppv", "npv", "fnr", "fpr", "fdr", "for", "threat_score", "acc", "balanced accuracy", "f1", "mcc",
         "fm", "youden", "mk"]


def images(r, g, low=5, high=9, nan=0.0, positive=False):
    size, c, n = size_of(r, low, high), r.randint(1, 3), r.randint(1, 3)
    x, y = torch.randn(2, n, c, *size, generator=g)
    if positive:
        x, y = x.sigmoid(), y.sigmoid()
    if r.random() < nan:
        x[r.randrange(n)].view(-1)[0] = float("nan")
    return dict(reduction=r.choice(REDUCTIONS)), (x, y), (x, y), len(size)


def in_float64(cls):
    """MONAI's similarity in float64: differences of squares leave its float32 three digits."""
    def make(axes):
        def metric(**params):
            def call(*images):
                cast = regression.convert_data_type
                regression.convert_data_type = lambda t, output_type=None, dtype=None: cast(t, output_type, dtype=torch.double)
                torch.set_default_dtype(torch.double)
                try:
                    inner(*(t.double() for t in images))
                finally:
                    regression.convert_data_type = cast
                    torch.set_default_dtype(torch.float)
            inner = cls(axes, **params)
            call.get_buffer = inner.get_buffer
            return call
        return metric
    return make


def some_nan(r, g):
    return images(r, g, nan=0.2)


def ssim(r, c, axes):
    return dict(win_size=r.choice([3, 5]), kernel_type=r.choice(["gaussian", "uniform"]), data_range=r.choice([1.0, 2.0]),
                kernel_sigma=r.choice([0.7, 1.5])), {}


def scales(r, c, axes):
    return dict(kernel_size=3, kernel_type=r.choice(["gaussian", "uniform"]), weights=[0.4, 0.6]), {}


def calibration(r, g):
    params, (x, y), _, axes = images(r, g, positive=True)
    y = (y > 0.5).float()
    params |= dict(include_background=r.random() < 0.6 or x.shape[1] == 1, num_bins=r.randint(2, 20),
                   calibration_reduction=r.choice(["expected", "average", "maximum"]), right=r.random() < 0.5)
    own = {k: v for k, v in params.items() if k != "reduction"}
    metric = M.CalibrationErrorMetric(**own, metric_reduction="none")
    metric(x, y)
    return {**params, "spatial_dims": axes}, (x, y), by_name(metric.get_buffer().float(), params["reduction"], False,
                                                             of_class(params))


def panoptic(r, g):
    n, size = r.randint(1, 3), [r.randint(8, 12) for _ in range(2)]

    def instances():
        index = torch.stack(torch.meshgrid(*(torch.arange(s) for s in size), indexing="ij"))
        number = (index[0] + r.randint(0, 3)) // 4 * 4 + index[1] // r.randint(3, 5) + 1
        number[torch.rand(*size, generator=g) < 0.15] = 0
        return torch.stack([number, number % 3 + 1]).float()

    x, y = (torch.stack([instances() for _ in range(n)]) for _ in range(2))
    params = dict(num_classes=3, metric_name=r.choice(["pq", "sq", "rq"]), match_iou_threshold=r.choice([0.5, 0.6]))
    metric = M.PanopticQualityMetric(**params, reduction="none")
    metric(x, y)
    reduction = r.choice(["mean", "mean_batch", "sum", "none"])
    return {**params, "reduction": reduction, "spatial_dims": 2}, (x, y), by_count(
        metric.get_buffer().float(), panoptic_measure(params["metric_name"]), reduction, 1)


def features(make, same_number=True):
    def case(r, g):
        n, width = r.randint(4, 12), r.randint(2, 8)
        x, y = (torch.randn(k, width, generator=g) for k in (n, n if same_number else r.randint(4, 12)))
        return {}, (x, y), {"mean": value(make(x, y))}
    return case


def curve(cls):
    def case(r, g):
        n, c = r.randint(6, 40), r.choice([1, 2, 3, 5])
        scores = (torch.randn(n, c, generator=g) * 4).round() / 4  # ties
        index = torch.randint(0, max(c, 2), (n,), generator=g)
        if c > 1:
            index[:c] = torch.arange(c)  # each class once: MONAI refuses others
        else:
            index[:2] = torch.arange(2)
        average = r.choice(["macro", "micro", "weighted", "none"]) if c > 1 else "macro"
        metric = cls(average)
        metric(scores, F.one_hot(index, c).float() if c > 1 else index.float()[:, None])
        found = metric.aggregate()
        wanted = {f"class_{k}": value(v) for k, v in enumerate(found)} if average == "none" else {"mean": value(found)}
        return dict(average=average), (scores, index), wanted
    return case


def pooled(r, g):
    n, c = r.randint(10, 60), r.randint(2, 5)
    found, truth = (torch.randint(0, c, (n,), generator=g) for _ in range(2))
    found = torch.where(torch.rand(n, generator=g) < 0.5, truth, found)
    name = r.choice(NAMES)
    metric = M.ConfusionMatrixMetric(metric_name=name, reduction="none")
    metric(F.one_hot(found, c).float(), F.one_hot(truth, c).float())
    by_class = compute_confusion_matrix_metric(name, metric.get_buffer().sum(0))
    return dict(metric_name=name), (F.one_hot(found, c).float(), truth), {
        "mean": value(by_class.nanmean()), **{f"class_{k}": value(v) for k, v in enumerate(by_class)}}


METRICS = dict(
    dice_metric=rows(plain(M.DiceMetric), segmentation, empty, of_class, True),
    mean_iou=rows(plain(M.MeanIoU), segmentation, empty, of_class, True),
    generalized_dice_score=generalized,
    hausdorff_distance_metric=rows(plain(M.HausdorffDistanceMetric), segmentation,
                                   lambda r, c, a: distance(r, c, a, hausdorff), of_class, True),
    surface_distance_metric=rows(plain(M.SurfaceDistanceMetric), segmentation, lambda r, c, a: distance(
        r, c, a, lambda r, c: dict(symmetric=r.random() < 0.5)), of_class, True),
    surface_dice_metric=rows(plain(M.SurfaceDiceMetric), thresholds, distance, of_class, True),
    absolute_volume_difference_metric=rows(plain(M.AbsoluteVolumeDifferenceMetric), lambda r, g: segmentation(
        r, g, void=False), empty, of_class, True),
    confusion_matrix_metric=counts(lambda r: dict(metric_name=r.choice(NAMES), compute_sample=r.random() < 0.4),
                                   lambda p: lambda n: compute_confusion_matrix_metric(p["metric_name"], n)),
    f_beta_score=counts(lambda r: dict(beta=r.choice([0.5, 1.0, 2.0])), lambda p: lambda n: compute_f_beta_score(n, p["beta"])),
    mse_metric=rows(plain(M.MSEMetric), some_nan, not_nans=True), mae_metric=rows(plain(M.MAEMetric), some_nan, not_nans=True),
    rmse_metric=rows(plain(M.RMSEMetric), some_nan, not_nans=True),
    mape_metric=rows(plain(M.MAPEMetric), images, lambda r, c, a: (dict(epsilon=r.choice([1e-7, 0.5])), {})),
    psnr_metric=rows(plain(M.PSNRMetric), images, lambda r, c, a: (dict(max_val=r.choice([1.0, 2.5])), {})),
    ssim_metric=rows(in_float64(M.SSIMMetric), lambda r, g: images(r, g, 8, 11), ssim),
    multi_scale_ssim_metric=rows(in_float64(M.MultiScaleSSIMMetric), lambda r, g: images(r, g, 10, 13, positive=True), scales),
    calibration_error_metric=calibration, panoptic_quality_metric=panoptic,
    mmd_metric=features(lambda x, y: M.MMDMetric()(y.double(), x.double())),
    fid_metric=features(lambda x, y: M.FIDMetric()(x, y), same_number=False),
    rocauc=curve(M.ROCAUCMetric), average_precision_metric=curve(M.AveragePrecisionMetric), confusion_matrix=pooled)


def one(sluice, kind, seed, folder):
    params, ours, wanted = METRICS[kind](random.Random(f"{kind} {seed}"), torch.Generator().manual_seed(seed))
    call = [sluice, "apply", kind, "--json", *(f"--param={k}={json.dumps(v)}" for k, v in params.items())]
    for name, t in zip(("pred", "label"), ours):
        numpy.save(folder / f"{name}.npy", t.numpy())
        call.append(f"--in={name}={folder}/{name}.npy")
    found = json.loads(subprocess.run(call, check=True, stdout=subprocess.PIPE).stdout)["values"]
    found.pop("value", None)
    off, undefined, wrong = 0.0, 0.0, []
    for k, v in wanted.items():
        v = None if v is not None and abs(v) == float("inf") else v  # JSON has none
        if k not in found or (v is None) != (found[k] is None):
            wrong.append(k)
        elif v is None:
            undefined = 1.0
        else:
            off = max(off, abs(found[k] - v) / max(abs(v), 1e-3))
    return bool(wrong) or off > 1e-4, (undefined, off), dict(params, wrong=wrong) if wrong else params


if __name__ == "__main__":
    sys.exit(held("metric", ["not defined", "error"], METRICS, one, 38, 30))
