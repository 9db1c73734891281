"""The cases in which Sluice's transforms are compared with MONAI's: for each node type, parameters
under which MONAI's result depends on no draw, inputs, and what MONAI makes of them.

A random transform is held against itself with ranges of one point: RandZoomd(min_zoom=1.1,
max_zoom=1.1, prob=1). Where no range says all (a hole's place), the type is "kernel.NAME": the
function behind the node, with the drawn numbers as parameters.
"""
import copy
import inspect
import re
import warnings

import monai.transforms as mt
import numpy as np
import torch
from monai.data import MetaTensor

warnings.filterwarnings("ignore")

FLOAT64 = 1e-4  # MONAI computes in float64 or a float32 grid where Sluice does the other


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def affine_of(rng, kind):
    """An affine with voxels of 0.7 to 2.5 mm: straight, permuted or oblique."""
    angles = rng.uniform(-0.4, 0.4, 3) if kind == "oblique" else np.zeros(3)
    c, s = np.cos(angles), np.sin(angles)
    x = np.array([[1, 0, 0], [0, c[0], -s[0]], [0, s[0], c[0]]])
    y = np.array([[c[1], 0, s[1]], [0, 1, 0], [-s[1], 0, c[1]]])
    z = np.array([[c[2], -s[2], 0], [s[2], c[2], 0], [0, 0, 1]])
    m = np.eye(4)
    m[:3, :3] = x @ y @ z @ np.diag(rng.uniform(0.7, 2.5, 3) * rng.choice([-1, 1], 3))
    if kind != "straight":
        m[:3, :3] = m[:3, :3][:, rng.permutation(3)]
    m[:3, 3] = rng.uniform(-80, 80, 3)
    return np.round(m, 6)


def smooth_noise(rng, shape):
    """Values that differ from voxel to voxel, rounded so that they write short."""
    return np.round(rng.normal(0, 1, shape) * 30 + 20, 2).astype(np.float32)


def blocks(rng, shape, classes=4):
    """A label of blobs with holes and islands: few values, many components."""
    coarse = rng.integers(0, classes, [(n + 2) // 3 for n in shape])
    label = coarse
    for axis, n in enumerate(shape):
        label = np.repeat(label, 3, axis)
        label = np.take(label, range(n), axis)
    speckle = rng.random(shape) < 0.06
    label[speckle] = rng.integers(0, classes, int(speckle.sum()))
    return label.astype(np.uint8)


class Inputs:
    """Makes the inputs of one case; `span` bounds the extents."""

    def __init__(self, rng, span):
        self.rng, self.span = rng, span

    def shape(self, axes=3):
        return [int(n) for n in self.rng.integers(self.span[0], self.span[1] + 1, axes)]

    def affine(self):
        return affine_of(self.rng, self.rng.choice(["straight", "permuted", "oblique"]))

    def image(self, shape=None, channels=2, axes=3, zeros=False, affine=None):
        shape = shape or self.shape(axes)
        x = smooth_noise(self.rng, (channels, *shape))
        if zeros:
            x[self.rng.random(x.shape) < 0.3] = 0
        m = affine if affine is not None else self.affine() if len(shape) == 3 else np.eye(4)
        return MetaTensor(torch.from_numpy(x), affine=torch.as_tensor(np.asarray(m, np.float64)))

    def label(self, like=None, classes=4, axes=3):
        shape = list(like.shape[1:]) if like is not None else self.shape(axes)
        m = like.affine.clone() if like is not None else torch.eye(4, dtype=torch.float64)
        return MetaTensor(torch.from_numpy(blocks(self.rng, shape, classes)[None]), affine=m)

    def pair(self, **more):
        image = self.image(**more)
        return {"image": image, "label": self.label(image)}

    def number(self, low, high):
        return round(float(self.rng.uniform(low, high)), 4)

    def numbers(self, low, high, n):
        return [self.number(low, high) for _ in range(n)]

    def flag(self):
        return bool(self.rng.random() < 0.5)

    def choice(self, *of):
        return of[int(self.rng.integers(len(of)))]


def entry(kind, params, data, out, *, tolerance=1e-5, ties=0.0, affine=True):
    """`ties`: share of the voxels of a nearest resampling that may differ: where a coordinate lies
    half way between two voxels (a whole plane may), MONAI's choice is its rounding's."""
    outs = out if isinstance(out, list) else [out]
    return {"type": kind, "params": params, "in": data, "out": outs, "tolerance": tolerance,
            "ties": ties, "affine": affine}


def same(name, data, /, *, keys, drop=(), out=None, tolerance=1e-5, ties=0.0, affine=True, **params):
    """The node and MONAI's class of the same name with the same parameters. `out`: the keys to
    compare; `drop`: parameters that MONAI's class does not have."""
    cls = getattr(mt, name + "d")
    known = inspect.signature(cls).parameters
    plain = {k: v for k, v in params.items() if k not in drop}
    open_ended = any(p.kind == p.VAR_KEYWORD for p in known.values())
    unknown = [k for k in plain if k not in known and not open_ended]
    assert not unknown, f"{name}d has no {unknown}"
    made = cls(keys=keys, **plain)(copy.deepcopy(data))
    outs = made if isinstance(made, list) else [made]
    wanted = out or keys
    outs = [{k: o[k] for k in wanted} for o in outs]
    return entry(snake(name), {"keys": list(keys), **params}, data, outs, tolerance=tolerance,
                 ties=ties, affine=affine)


def half_way(name, data, **params):
    """The share of the voxels that a resampling takes from half way between two along an axis, where
    the nearest is a matter of rounding: what it makes of each axis's coordinates says where it looks."""
    image, apart = data["label"], False
    for axis, n in enumerate(image.shape[1:]):
        line = torch.arange(n, dtype=torch.float64).view([-1 if a == axis else 1 for a in range(image.ndim - 1)])
        at = MetaTensor(line.expand(image.shape[1:])[None].clone(), affine=image.affine)
        at = getattr(mt, name + "d")(keys=["label"], mode="bilinear", padding_mode="border", **params)({"label": at})
        apart = apart | ((at["label"].as_tensor() % 1 - 0.5).abs() < 1e-3)
    return float(apart.float().mean())


def modes(keys):
    return ["bilinear" if k == "image" else "nearest" for k in keys]
