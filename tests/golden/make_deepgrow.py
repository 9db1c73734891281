"""Makes deepgrow.json: what MONAI's deepgrow transforms give, and how likely each draw is.

    python make_deepgrow.py > deepgrow.json      (monai 1.6.1, scipy, scikit-image)

Draws are replaced by one that takes the first candidate and writes down all candidates with their
probabilities.
"""
import json
import logging
import random
import sys

import monai.apps.deepedit.transforms as de
import numpy as np
from monai.apps.deepgrow.transforms import (AddGuidanceSignald, AddInitialSeedPointd, AddRandomGuidanced,
                                            FindAllValidSlicesd, FindDiscrepancyRegionsd,
                                            SpatialCropForegroundd)


logging.disable()


class Spy:
    def __init__(self):
        self.draws = []

    def choice(self, candidates, size=None, replace=True, p=None):
        candidates = np.asarray(candidates)
        if candidates.dtype != bool:
            p = np.full(len(candidates), 1 / len(candidates)) if p is None else np.asarray(p)
            self.draws.append({"at": candidates.tolist(), "p": [float(f"{x:.10g}") for x in p]})
        return candidates[0] if size is None else candidates[:size]


def blobs(shape, spheres):
    grid = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing="ij"))
    out = np.zeros(shape, np.float32)
    for centre, radius in spheres:
        d = grid - np.asarray(centre).reshape(-1, *[1] * len(shape))
        out[(d**2).sum(0) <= radius**2] = 1
    return out[None]


LABELS = {
    "two regions": blobs((14, 12), [((3, 3), 3), ((10, 8), 2.5)]),
    "at the border": blobs((9, 11), [((0, 10), 4)]),
    "seven regions": blobs((16, 16), [((x, y), 1) for x in (2, 8, 13) for y in (2, 8)] + [((13, 13), 2)]),
    "all set": np.ones((1, 4, 5), np.float32),
    "by a corner": np.kron(np.eye(2, dtype=np.float32), np.ones((3, 3), np.float32))[None],
    "volume": blobs((8, 9, 7), [((3, 4, 3), 2.5), ((7, 8, 6), 2)]),
    "a corner of a volume": blobs((5, 6, 4), [((0, 0, 0), 4.2)]),
}


def bits(a):
    return {"shape": list(a.shape), "set": np.flatnonzero(a).tolist()}


def seeds():
    for name, label in LABELS.items():
        for sids in ((False, True) if label.ndim == 4 else (False,)):
            t, d = AddInitialSeedPointd(), {"label": label}
            t.R = Spy()
            if sids:
                d = FindAllValidSlicesd()(d)
            out = t(d)
            case = {"name": name, "label": bits(label), "draws": t.R.draws, "guidance": json.loads(out["guidance"])}
            if sids:
                case["sids"] = d["sids"].tolist()
            yield case


def signals():
    rows = {2: [[[2, 3, 4], [1, 3, 4], [-1, -1, -1], [0, 30, 2]], [[-1, -1, -1]] * 3 + [[5, 8, -1]]],
            3: [[[2, 3, 4, 1]], [[1, 0, 0, 0]]]}
    for shape, sigma, channels in (((10, 12), 2, 1), ((20, 17), 3, 2), ((7, 8, 6), 2, 1), ((12, 5, 9), 1, 1)):
        n = int(np.prod(shape))
        image = np.zeros((3, *shape), np.float32)
        guidance = rows[len(shape)]
        out = AddGuidanceSignald(sigma=sigma, number_intensity_ch=channels)({"image": image, "guidance": guidance})
        yield {"shape": list(image.shape), "sigma": sigma, "channels": channels, "guidance": guidance,
               "signal": [float(f"{x:.8g}") for x in out["image"][channels:].flatten()]}


def corrections():
    for name, label in LABELS.items():
        for shift in (1, -1, 0):
            pred = np.roll(label, shift, 1) * 0.9 + np.roll(label, shift, 2) * 0.05
            if shift < 0:
                pred = np.maximum(pred, np.roll(label, -2, 1) * 0.8)
            d = FindDiscrepancyRegionsd()({"label": label, "pred": pred})
            axes = label.ndim - 1
            d["guidance"] = [[[3] + [1] * axes], [[-1] * (axes + 1)]]
            d["probability"] = 1.0
            t = AddRandomGuidanced()
            t.R = Spy()
            out = t(d)
            yield {"name": f"{name}, {shift}", "label": bits(label), "pred": bits(pred > 0.5),
                   "missed": bits(d["discrepancy"][0])["set"], "excess": bits(d["discrepancy"][1])["set"],
                   "draws": t.R.draws, "guidance": json.loads(out["guidance"])}


def deepedit():
    random.randint = lambda low, high: 1000  # keeps all clicks
    shape = (10, 11, 9)
    label = blobs(shape, [((3, 3, 4), 3)]) * 7 + blobs(shape, [((8, 8, 4), 2)]) * 2
    label[label > 7] = 0
    names = {"spleen": 7, "background": 0, "liver": 2, "aorta": 9}
    d = de.RemapLabelsToSequentiald("label", names)({"label": label})
    sequential = d["label"]
    d = de.FindAllValidSlicesMissingLabelsd("label")(d)
    sids = {k: np.asarray(v).tolist() for k, v in d["sids"].items()}
    seed = de.AddInitialSeedPointMissingLabelsd("label")
    seed.R = Spy()
    d = seed(d)
    seeds = {k: json.loads(v) for k, v in d["guidance"].items()}
    d["image"] = np.zeros((1, *shape), np.float32)
    signal = de.AddGuidanceSignalDeepEditd("image")(dict(d))["image"][1:]
    d["pred"] = np.roll(sequential, 2, 1)
    d["pred"][:, 6:, :5] = 1
    d = de.FindDiscrepancyRegionsDeepEditd("label")(d)
    d["probability"] = 1.0
    t = de.AddRandomGuidanceDeepEditd(None)
    t.R = Spy()
    out = t(dict(d))
    return {"label": [int(v) for v in label.flatten()], "shape": [1, *shape], "label_names": names,
            "sequential": [int(v) for v in sequential.flatten()], "pred": [int(v) for v in d["pred"].flatten()],
            "sids": sids, "seed_draws": seed.R.draws, "seeds": seeds,
            "signal": [float(f"{x:.7g}") for x in signal[:, ::3, ::2, ::2].flatten()],
            "missed": {k: bits(v[0])["set"] for k, v in d["discrepancy"].items()},
            "excess": {k: bits(v[1])["set"] for k, v in d["discrepancy"].items()},
            "draws": t.R.draws, "guidance": {k: np.asarray(v).tolist() for k, v in out["guidance"].items()}}


def crops():
    for name, label in LABELS.items():
        for size in (4, 7, 12):
            for margin in (0, 2):
                n = label[0].size
                image = np.arange(n, dtype=np.float32).reshape(label.shape)
                t = SpatialCropForegroundd(("image", "label"), "label", [size] * (label.ndim - 1), margin=margin)
                out = t({"image": image, "label": label, "image_meta_dict": {}, "label_meta_dict": {}})["image"]
                yield {"label": bits(label), "size": size, "margin": margin, "shape": list(out.shape),
                       "first": int(out.flatten()[0]), "last": int(out.flatten()[-1])}


json.dump({"crops": list(crops()), "deepedit": deepedit(), "seeds": list(seeds()), "signals": list(signals()), "corrections": list(corrections())}, sys.stdout,
          separators=(",", ":"))
