"""Spatial transforms."""
import monai.transforms as mt
import numpy as np

from cases import FLOAT64, entry, modes, same

BOTH = ["image", "label"]


def zoom(i):
    axes = i.choice(2, 3, 3)
    data = i.pair(axes=axes)
    mode = i.choice("area", "bilinear", "trilinear" if axes == 3 else "bicubic", "nearest")
    if mode == "trilinear":
        mode = "bilinear"
    more = {"align_corners": [i.flag(), None]} if mode in ("bilinear", "bicubic") else {}
    params = dict(mode=[mode, "nearest-exact" if i.flag() else "nearest"], keep_size=i.flag(),
                  padding_mode=i.choice("edge", "constant", "reflect", "symmetric", "wrap"))
    if params["padding_mode"] in ("reflect", "wrap", "symmetric"):
        low = 0.8  # torch pads by less than what is there
    else:
        low = 0.5
    factors = i.numbers(low, 1.7, axes)
    case = same("Zoom", data, keys=BOTH, zoom=factors, **params, **more)
    yield clean(case)
    case = same("RandZoom", data, keys=BOTH, min_zoom=factors, max_zoom=factors, prob=1.0,
                **params, **more)
    yield clean(case)


def clean(case):
    """align_corners null is false."""
    if "align_corners" in case["params"]:
        case["params"]["align_corners"] = [bool(a) for a in case["params"]["align_corners"]]
    return case


def rotate(i):
    axes = i.choice(2, 3, 3)
    data = i.pair(axes=axes)
    params = dict(keep_size=i.flag(), mode=["bilinear", "nearest"], align_corners=i.flag(),
                  padding_mode=i.choice("zeros", "border", "reflection"))
    angles = i.numbers(-1.5, 1.5, 3 if axes == 3 else 1)
    yield same("Rotate", data, keys=BOTH, angle=angles if axes == 3 else angles[0], **params,
               tolerance=FLOAT64, ties=2e-2)
    ranges = {f"range_{a}": [v, v] for a, v in zip("xyz", angles)}
    yield same("RandRotate", data, keys=BOTH, prob=1.0, **ranges, **params, tolerance=FLOAT64,
               ties=2e-2)


def resize(i):
    axes = i.choice(2, 3, 3)
    data = i.pair(axes=axes)
    mode = i.choice("area", "bilinear", "nearest") if axes == 3 else i.choice("area", "bicubic")
    more = {"align_corners": [i.flag(), None]} if mode in ("bilinear", "bicubic") else {}
    if mode in ("area", "bilinear") and i.flag():
        more["anti_aliasing"] = [True, False]
        if i.flag():
            more["anti_aliasing_sigma"] = i.number(0.4, 1.5)
    if i.flag():
        yield clean(same("Resize", data, keys=BOTH, spatial_size=i.shape(axes), mode=[mode, "nearest"],
                         **more))
    else:
        yield clean(same("Resize", data, keys=BOTH, spatial_size=int(i.rng.integers(5, 20)),
                         size_mode="longest", mode=[mode, "nearest"], **more))


def match(i):
    image, other = i.image(), i.image(channels=1)
    yield same("ResampleToMatch", {"image": image, "label": i.label(other)}, keys=["label"],
               key_dst="image", mode="nearest", padding_mode="border", ties=2e-2)
    middle = other.clone()  # a grid of its own that overlaps the first
    shift = np.eye(4)
    shift[:3, :3] += i.rng.uniform(-0.2, 0.2, (3, 3))
    shift[:3, 3] = i.rng.uniform(-2, 2, 3)
    middle.affine = image.affine.numpy() @ shift
    yield same("ResampleToMatch", {"image": image, "other": middle}, keys=["other"], key_dst="image",
               mode="bilinear", padding_mode=i.choice("zeros", "border", "reflection"),
               align_corners=i.flag(), tolerance=FLOAT64)


def pads(i):
    axes = i.choice(2, 3)
    data = i.pair(axes=axes)
    more = dict(method=i.choice("symmetric", "end"), mode=i.choice("constant", "edge", "wrap", "minimum", "maximum"))
    if more["mode"] == "constant":
        more["value"] = 3
    yield same("DivisiblePad", data, keys=BOTH, k=[int(k) for k in i.rng.integers(1, 6, axes)], **more)
    shape = data["image"].shape[1:]
    yield same("SpatialPad", data, keys=BOTH,
               spatial_size=[int(n + i.rng.integers(-2, 4)) for n in shape], **more)
    yield same("ResizeWithPadOrCrop", data, keys=BOTH,
               spatial_size=[int(n + i.rng.integers(-2, 4)) for n in shape], **more)


def flips(i):
    data = i.pair()
    axis = int(i.rng.integers(3))
    yield same("RandFlip", data, keys=BOTH, prob=1.0, spatial_axis=axis)


    axes = [int(a) for a in i.rng.permutation(3)[:2]]
    yield same("RandRotate90", data, keys=BOTH, prob=1.0, max_k=1, spatial_axes=axes)


def axis_flip(i):
    """The axis is drawn: every MONAI flip is compared with a one-axis rand_flip's result."""
    data = i.pair()
    t = mt.RandAxisFlipd(keys=BOTH, prob=1.0)
    t.set_random_state(int(i.rng.integers(1 << 30)))
    out = t(data)
    yield entry("rand_flip", {"keys": BOTH, "prob": 1.0, "spatial_axis": int(t.flipper._axis)}, data,
                {k: out[k] for k in BOTH})


def orientation(i):
    data = i.pair()
    codes = "".join(i.choice(*pair) for pair in ("LR", "PA", "IS"))
    codes = "".join(np.array(list(codes))[i.rng.permutation(3)])
    case = same("Orientation", data, keys=BOTH, axcodes=codes)
    yield case


def spacing(i):
    data = i.pair()
    yield same("Spacing", data, keys=BOTH, pixdim=i.numbers(0.8, 2.5, 3), diagonal=i.flag(),
               mode=modes(BOTH), padding_mode=i.choice("zeros", "border", "reflection"),
               align_corners=i.flag(), scale_extent=i.flag(), ties=2e-2)


def affine(i):
    axes = i.choice(2, 3, 3)
    data = i.pair(axes=axes)
    point = lambda low, high, n: [[v, v] for v in i.numbers(low, high, n)]  # noqa: E731
    params = dict(prob=1.0, rotate_range=point(-1, 1, 3 if axes == 3 else 1),
                  shear_range=point(-0.3, 0.3, 6 if axes == 3 else 2),
                  translate_range=point(-3, 3, axes), scale_range=point(-0.3, 0.3, axes),
                  spatial_size=i.shape(axes), padding_mode=i.choice("zeros", "border", "reflection"))
    yield same("RandAffine", data, keys=BOTH, mode=modes(BOTH), **params, tolerance=FLOAT64, ties=2e-2)


def elastic(i):
    data = i.pair()
    point = lambda low, high, n: [[v, v] for v in i.numbers(low, high, n)]  # noqa: E731
    params = dict(prob=1.0, sigma_range=[5, 6], magnitude_range=[0, 0], rotate_range=point(-1, 1, 3),
                  translate_range=point(-3, 3, 3), scale_range=point(-0.3, 0.3, 3),
                  padding_mode=i.choice("zeros", "border", "reflection"))
    case = same("Rand3DElastic", data, keys=BOTH, mode=modes(BOTH), **params, tolerance=FLOAT64,
                ties=2e-2, affine=False)
    case["type"] = "rand_elastic"
    yield case


def distortion(i):
    axes = i.choice(2, 3, 3)
    cells = [int(c) for c in i.rng.integers(1, 4 if i.span[1] > 9 else 3, axes)]
    shape = [int(c * c + i.rng.integers(c, 4 + c)) for c in cells]  # no voxels behind the last cell
    data = i.pair(shape=shape)
    limit = i.number(-0.3, 0.3)
    padding = i.choice("zeros", "border", "reflection")
    yield same("RandGridDistortion", data, keys=BOTH, prob=1.0, num_cells=cells,
               distort_limit=[limit, limit], mode=modes(BOTH), padding_mode=padding,
               tolerance=FLOAT64, ties=2e-2)


    steps = [i.numbers(0.7, 1.3, c + 1) for c in cells]
    t = mt.GridDistortion(num_cells=cells, distort_steps=steps, padding_mode=padding)
    yield entry("kernel.grid_distortion", {"steps": steps, "padding_mode": padding},
                {"image": data["image"]}, {"image": t(data["image"])}, tolerance=FLOAT64)


def crops(i):
    data = i.pair()
    shape = data["image"].shape[1:]
    yield same("CropForeground", data, keys=BOTH, source_key="label", margin=int(i.rng.integers(0, 3)),
               k_divisible=[int(k) for k in i.rng.integers(1, 5, 3)], allow_smaller=i.flag(),
               start_coord_key="start", end_coord_key="end", out=[*BOTH, "start", "end"])
    size = [int(n) for n in i.rng.integers(2, 5, 3)]
    centre = [int(i.rng.integers(n)) for n in shape]
    one = data["label"].clone()
    one[:] = 0
    one[0, centre[0], centre[1], centre[2]] = 1
    yield same("RandCropByPosNegLabel", {"image": data["image"], "label": one}, keys=BOTH,
               label_key="label", spatial_size=size, pos=1, neg=0, num_samples=2)
    # As large as the image: one place.
    yield same("RandSpatialCrop", data, keys=BOTH, roi_size=[int(shape[0]), -1, int(shape[2]) + 3],
               random_size=False)


def split(i):
    shape = [int(n) for n in i.rng.integers(6, 1 + max(6, i.span[1]), 2)]
    image = i.image(shape=shape, channels=3)
    label = i.label(image)
    image.affine = np.eye(4)
    grid = [int(g) for g in i.rng.integers(1, 4, 2)]
    more = {"size": [int(n) for n in i.rng.integers(2, 6, 2)]} if i.flag() else {}
    case = same("GridSplit", {"image": image, "label": label}, keys=BOTH, grid=tuple(grid), affine=False,
                **({"size": tuple(more["size"])} if more else {}))
    case["params"]["grid"] = grid
    if more:
        case["params"]["size"] = more["size"]
    yield case


MAKERS = [zoom, rotate, resize, match, pads, flips, axis_flip, orientation, spacing, affine, elastic,
          distortion, crops, split]
