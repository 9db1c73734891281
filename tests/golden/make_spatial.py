"""Makes spatial.json: what MONAI's spatial transforms do to a small made volume.

    python make_spatial.py > spatial.json      (monai 1.6.1)

Values are kept for every 29th voxel, to six digits; the tests make the same input themselves.
"""
import json
import sys
import warnings

import monai
import monai.transforms as mt
import numpy as np
import torch
from monai.data import MetaTensor
from monai.networks.layers import GaussianFilter
from monai.transforms.utils import create_grid

warnings.filterwarnings("ignore")
EVERY = 29  # shares no factor with the shapes, so all rows and columns are met
SHAPE = (13, 9, 11)


def volume(shape=SHAPE, channels=2):
    i = np.meshgrid(*[np.arange(n, dtype=np.float64) for n in (channels, *shape)], indexing="ij")
    v = np.sin(0.7 * i[1] + 0.3) * np.cos(0.9 * i[2]) + 0.3 * i[0]
    if len(shape) == 3:
        v = v + 0.5 * np.sin(1.3 * i[3] + i[0])
    return torch.from_numpy(v.astype(np.float32))


def rotation(a, b, c):
    x = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    y = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    z = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return x @ y @ z


def affine(angles, zooms, order, offset):
    m = np.eye(4)
    m[:3, :3] = (rotation(*angles) @ np.diag(zooms))[:, order]
    m[:3, 3] = offset
    return m


AFFINES = {
    "straight": affine((0, 0, 0), (-0.8, -0.8, 2.5), [0, 1, 2], (50, 60, -70)),
    "permuted": affine((0, 0, 0), (1.2, -0.9, 2.0), [2, 0, 1], (-5, 8, 3)),
    "oblique": affine((0.2, -0.3, 0.15), (0.9, -1.3, 2.1), [1, 2, 0], (-20, 30, 10)),
}
SHEARED = AFFINES["oblique"] @ np.array([[1, 0.1, 0, 0], [0, 1, 0.05, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
cases = []


def numbers(t):
    flat = torch.as_tensor(t).double().flatten()[::EVERY]
    return [float(f"{v:.6g}") for v in flat.tolist()]


def matrix(m):
    return [float(f"{v:.12g}") for v in np.asarray(m, dtype=np.float64).flatten()]


def case(name, out, **more):
    entry = {"case": name, **more, "out_shape": list(out.shape)}
    if isinstance(out, MetaTensor):
        entry["out_affine"] = matrix(out.affine)
    entry["values"] = numbers(out)
    cases.append(entry)


def node(kind, transform, params, which="oblique", m=None):
    m = AFFINES[which] if m is None else m
    out = transform(MetaTensor(volume(), affine=torch.from_numpy(m)))
    case(kind, out, params=params, affine=matrix(m))


for which in AFFINES:
    for codes in ("RAS", "PIL"):
        node("orientation", mt.Orientation(axcodes=codes, labels=(("L", "R"), ("P", "A"), ("I", "S"))),
             {"axcodes": codes}, which)

for which, pixdim, more in (
        ("straight", (1.1, 1.5, 1.9), {}), ("straight", (0.5,), {}), ("straight", (0.8, 0.8, 2.5004), {}),
        ("straight", (1.1, 1.5, 1.9), {"padding_mode": "zeros"}),
        ("straight", (1.1, 1.5, 1.9), {"scale_extent": True}),
        ("straight", (1.1, 1.5, 1.9), {"min_pixdim": (0.7,), "max_pixdim": (1.0,)}),
        ("oblique", (1.1, 1.5, 1.9), {}), ("oblique", (1.1, 1.5, 1.9), {"diagonal": True}),
        ("oblique", (1.1, 1.5, 1.9), {"diagonal": True, "padding_mode": "reflection"}),
        ("oblique", (1.1, 1.5, 1.9), {"diagonal": True, "padding_mode": "reflection", "align_corners": True}),
        ("oblique", (1.1, 1.5, 1.9), {"diagonal": True, "padding_mode": "zeros", "mode": "nearest"}),
        ("permuted", (1.37, 0.83, 1.71), {"mode": "nearest"}),
        ("sheared", (1.1, 1.5, 1.9), {})):
    extra = {k: v for k, v in more.items() if k in ("min_pixdim", "max_pixdim", "scale_extent")}
    ctor = {k: v for k, v in more.items() if k in ("diagonal", "align_corners", "mode", "padding_mode", *extra)}
    node("spacing", mt.Spacing(pixdim=pixdim, **ctor), {"pixdim": list(pixdim), **more}, which,
         SHEARED if which == "sheared" else None)

node("resize_with_pad_or_crop", mt.ResizeWithPadOrCrop((12, 12, 6)), {"spatial_size": [12, 12, 6]})
node("resize_with_pad_or_crop", mt.ResizeWithPadOrCrop((-1, 8, 14), method="end"),
     {"spatial_size": [-1, 8, 14], "method": "end"})
node("spatial_pad", mt.SpatialPad((16, 4, 14), value=2), {"spatial_size": [16, 4, 14], "value": 2})


def above(x):
    return x > 0


for more in ({}, {"margin": [3, 0, 2], "k_divisible": [4, 1, 8]},
             {"margin": [3, 0, 2], "k_divisible": [4, 1, 8], "allow_smaller": True}):
    m = AFFINES["oblique"]
    img = MetaTensor(hill := volume() * 0 + (volume() - 1.2).clamp(min=0), affine=torch.from_numpy(m))
    out = mt.CropForeground(select_fn=above, **more)(img)
    case("crop_foreground", out, params=more, affine=matrix(m))

PARAMS = {"rotate": [0.3, -0.2, 0.4], "shear": [0.1, -0.05, 0.07, 0.02, -0.03, 0.04],
          "translate": [1.5, -2.0, 0.7], "scale": [1.1, 0.85, 1.3]}
for mode, pad, size in (("bilinear", "zeros", None), ("bilinear", "border", None), ("bilinear", "reflection", None),
                        ("nearest", "zeros", None), ("nearest", "reflection", None),
                        ("bilinear", "reflection", (15, 8, 13))):
    t = mt.Affine(**{k + "_params": v for k, v in PARAMS.items()}, spatial_size=size, mode=mode, padding_mode=pad,
                  dtype=np.float64, image_only=True)
    out = t(MetaTensor(volume(), affine=torch.from_numpy(AFFINES["oblique"])))
    case("affine", out, params={**PARAMS, "mode": mode, "padding_mode": pad}, affine=matrix(AFFINES["oblique"]),
         size=list(size or SHAPE))
FLAT = {"rotate": [0.5], "shear": [0.1, -0.2], "translate": [1.5, -2.0], "scale": [1.1, 0.85]}
t = mt.Affine(**{k + "_params": v for k, v in FLAT.items()}, mode="bilinear", padding_mode="reflection",
              dtype=np.float64, image_only=True)
case("affine_2d", t(volume(SHAPE[:2])).as_tensor(), params={**FLAT, "mode": "bilinear", "padding_mode": "reflection"},
     size=list(SHAPE[:2]))

for k in (1, 2, 3):
    for axes in ((0, 1), (1, 2), (2, 0)):
        out = mt.Rotate90(k, axes)(MetaTensor(volume(), affine=torch.from_numpy(AFFINES["oblique"])))
        case("rotate90", out, params={"k": k, "axes": list(axes)}, affine=matrix(AFFINES["oblique"]))

noise = volume(channels=3) * 0.5
for sigma in (1.0, 2.3):
    case("gaussian", GaussianFilter(3, sigma, 3.0)(noise[None])[0], params={"sigma": sigma})
offset = GaussianFilter(3, 1.0, 3.0)(noise[None])[0] * 4.0
grid = create_grid(SHAPE, backend="torch")
grid[:3] += offset
grid = mt.AffineGrid(rotate_params=PARAMS["rotate"], dtype=np.float64)(grid=grid)[0]
out = mt.Resample(mode="bilinear", padding_mode="reflection")(volume(), grid)
case("elastic", torch.as_tensor(out), params={"sigma": 1.0, "magnitude": 4.0, "rotate": PARAMS["rotate"]})

head = {"made_by": "make_spatial.py", "monai": monai.__version__, "torch": torch.__version__, "every": EVERY,
        "shape": list(SHAPE)}
lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
sys.stdout.write(json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n")
