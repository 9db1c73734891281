"""What the metrics of our nodes are called, with MONAI's reduction of their rows: for make_metrics.py and
tests/monai/metrics.py."""
import math

from monai.metrics.utils import do_metric_reduction


def value(v):
    v = float(v)
    return None if math.isnan(v) else v if math.isinf(v) else float(f"{v:.8g}")


def by_name(rows, reduction, not_nans, first):
    """The metrics of our node; `first`: the class of a row's first value, None: one value a case."""
    def reduced(how):
        f, n = do_metric_reduction(rows.clone(), how)
        return [None if how.startswith("mean") and m == 0 else value(v) for v, m in
                zip(f.reshape(-1).tolist(), n.reshape(-1).tolist())], [int(v) for v in n.reshape(-1).tolist()]

    if reduction == "none":
        return {f"case_{i}" + ("" if first is None else f"_class_{first + c}"): value(v)
                for i, row in enumerate(rows.tolist()) for c, v in enumerate(row)}
    found = {}

    def put(names, how):
        for name, v, n in zip(names, *reduced(how)):
            found[name] = v
            if not_nans:
                found[name + "_not_nans"] = n

    if reduction in ("mean", "sum"):
        put([reduction], reduction)
    if reduction.endswith("channel"):
        put([f"case_{i}" for i in range(len(rows))], reduction)
    elif first is not None:
        put([f"class_{first + c}" for c in range(rows.shape[1])], reduction.split("_")[0] + "_batch")
    return found


def panoptic_measure(name):
    """Of a class's counts: true and false positives, false negatives, the sum of overlaps."""
    return dict(
        pq=lambda n: n[..., 3] / (n[..., 0] + 0.5 * n[..., 1] + 0.5 * n[..., 2] + 1e-6),
        sq=lambda n: n[..., 3] / (n[..., 0] + 1e-6),
        rq=lambda n: n[..., 0] / (n[..., 0] + 0.5 * n[..., 1] + 0.5 * n[..., 2] + 1e-6))[name]


def by_count(rows, measure, reduction, first):
    """The same of counts, which are reduced before the measure is taken."""
    def found(how):
        return [value(v) for v in measure(do_metric_reduction(rows.clone(), how)[0]).reshape(-1)]

    if reduction == "none":
        return {f"case_{i}_class_{first + c}": value(v) for i, row in enumerate(measure(rows)) for c, v in enumerate(row)}
    if reduction.endswith("channel"):
        return {f"case_{i}": v for i, v in enumerate(found(reduction))}
    metrics = {f"class_{first + c}": v for c, v in enumerate(found(reduction.split("_")[0] + "_batch"))}
    if reduction in ("mean", "sum"):
        metrics[reduction] = found(reduction)[0]
    return metrics
