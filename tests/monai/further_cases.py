"""Transforms of MRI's artefacts, smooth fields, batches, points, boxes and signals; and what nodes
take that came later to them: images of two axes, types, lists a key."""
import copy

import monai.transforms as mt
import numpy as np
import torch
from monai.apps.detection.transforms import dictionary as boxes_of

from cases import FLOAT64, affine_of, entry, half_way, modes, same, smooth_noise, snake

IMAGE, BOTH = ["image"], ["image", "label"]


def flat_image(i, shape=None):
    """A picture with an affine of its own: MONAI's is 4x4."""
    m = np.eye(4)
    m[:2, :2] = affine_of(i.rng, "oblique")[:2, :2]
    m[:2, 3] = i.rng.uniform(-20, 20, 2)
    return i.image(shape=shape or i.shape(2), affine=np.round(m, 6))


def two_axes(i):
    image = flat_image(i)
    data = {"image": image, "label": i.label(image)}
    yield same("Spacing", data, keys=BOTH, pixdim=i.numbers(0.8, 2.5, 2), diagonal=i.flag(),
               mode=modes(BOTH), padding_mode=i.choice("zeros", "border", "reflection"),
               align_corners=i.flag(), scale_extent=i.flag(), ties=2e-2)
    bounded = dict(pixdim=[1.2], min_pixdim=[None, 0.5], max_pixdim=[1.5, None], recompute_affine=i.flag())
    yield same("Spacing", data, keys=BOTH, **bounded, mode=modes(BOTH), ties=half_way("Spacing", data, **bounded))
    codes = list(i.choice("RA", "LP", "AR", "PL", "RP"))
    yield same("Orientation", data, keys=BOTH, axcodes=codes, labels=(("L", "R"), ("P", "A"), ("I", "S")))
    names = [["x-", "x+"], ["y-", "y+"], ["z-", "z+"]]
    case = same("Orientation", i.pair(), keys=BOTH, axcodes=["y-", "z+", "x+"], labels=names)
    yield case
    other = flat_image(i)
    other.affine = image.affine.numpy() @ np.array([[1.1, 0.1, 0, 1], [-0.1, 0.9, 0, -1], [0, 0, 1, 0], [0, 0, 0, 1]])
    yield same("ResampleToMatch", {"image": image, "other": other}, keys=["other"], key_dst="image",
               mode="bilinear", padding_mode=i.choice("zeros", "border", "reflection"),
               align_corners=i.flag(), tolerance=FLOAT64)


def types(i):
    data = {"image": i.image(axes=i.choice(2, 3))}
    name, dtype = i.choice(("uint8", torch.uint8), ("int16", torch.int16), ("float64", torch.float64))
    def typed(case):
        case["params"]["dtype"] = name
        return case
    # What lies on a whole number is cut off above or below it by the last bit. MONAI's ScaleIntensity
    # makes the image of that type beforehand too: of whole numbers only the result matters.
    yield typed(same("ScaleIntensity", {"label": data["image"].abs().round()}, keys=["label"], minv=0.0, maxv=200.0,
                     dtype=dtype, ties=0.02))
    yield typed(same("ScaleIntensityRange", {"label": data["image"]}, keys=["label"], a_min=-60, a_max=90,
                     b_min=0.0, b_max=199.9, clip=True, dtype=dtype, ties=0.02))
    yield typed(same("ScaleIntensityRangePercentiles", {"label": data["image"]}, keys=["label"], lower=10,
                     upper=90, b_min=0.0, b_max=77.7, clip=True, dtype=dtype, ties=0.02))


def outputs(i):
    scores = {"image": torch.from_numpy(smooth_noise(i.rng, (5,))) / 30,
              "other": torch.from_numpy(smooth_noise(i.rng, (3, 4))) / 30}
    keys = ["image", "other"]
    yield same("Activations", scores, keys=keys, softmax=[True, False], sigmoid=[False, True])
    case = same("Activations", scores, keys=keys, other=torch.tanh)
    case["params"]["other"] = "tanh"
    yield case
    yield same("AsDiscrete", scores, keys=keys, argmax=True, to_onehot=[5, 3])
    yield same("AsDiscrete", scores, keys=keys, argmax=[True, False], threshold=[None, 0.2])
    yield same("AsDiscrete", scores, keys=keys, rounding="torchrounding")
    yield same("AsDiscrete", scores, keys=["other"], argmax=True, dim=1, keepdim=i.flag())


def crops(i):
    data = i.pair(channels=3)
    yield same("CropForeground", {**data, "image": data["image"] - 60}, keys=BOTH, source_key="image",
               channel_indices=[int(i.rng.integers(3))], allow_smaller=i.flag())
    axes = i.choice(2, 3)
    image = i.image(axes=axes)
    widths = [[0, 0], *[[int(a), int(b)] for a, b in i.rng.integers(0, 3, (axes, 2))]]
    mode = i.choice("constant", "edge")
    yield entry("pad", {"keys": IMAGE, "to_pad": widths, "mode": mode}, {"image": image},
                {"image": mt.Pad(to_pad=widths, mode=mode)(image)})


def affines(i):
    axes = i.choice(2, 3, 3)
    data = i.pair(axes=axes)
    params = dict(mode=modes(BOTH), padding_mode=i.choice("zeros", "border", "reflection"),
                  spatial_size=i.shape(axes), align_corners=i.flag(), tolerance=FLOAT64, ties=2e-2)
    params["affine"] = not params["align_corners"]  # MONAI's affine leaves them out of account
    yield same("Affine", data, keys=BOTH, rotate_params=i.numbers(-1, 1, 3 if axes == 3 else 1),
               shear_params=i.numbers(-0.3, 0.3, 6 if axes == 3 else 2),
               translate_params=i.numbers(-3, 3, axes), scale_params=i.numbers(0.7, 1.3, axes), **params)
    m = np.eye(axes + 1)
    m[:axes, :axes] += i.rng.uniform(-0.3, 0.3, (axes, axes))
    m[:axes, axes] = i.rng.uniform(-2, 2, axes)
    # The matrix is named as this module's `affine`: made by hand.
    matrix = np.round(m, 4)
    own = dict(mode=modes(BOTH), padding_mode="border")
    made = mt.Affined(keys=BOTH, affine=torch.as_tensor(matrix, dtype=torch.float32), **own)(copy.deepcopy(data))
    yield entry("affine", {"keys": BOTH, "affine": matrix.tolist(), **own}, data, {k: made[k] for k in BOTH},
                tolerance=FLOAT64, ties=2e-2)


def grids(i):
    axes = i.choice(2, 3, 3)
    cells = [int(c) for c in i.rng.integers(1, 4 if i.span[1] > 9 else 3, axes)]
    shape = [int(c * c + i.rng.integers(c, 4 + c)) for c in cells]  # no voxels behind the last cell
    steps = [i.numbers(0.7, 1.3, c + 1) for c in cells]
    yield same("GridDistortion", i.pair(shape=shape), keys=BOTH, num_cells=cells, distort_steps=steps,
               mode=modes(BOTH), padding_mode=i.choice("zeros", "border", "reflection"),
               tolerance=FLOAT64, ties=2e-2)
    image = i.image()
    change = np.eye(4)
    change[:3, :3] += i.rng.uniform(-0.2, 0.2, (3, 3))
    target = torch.as_tensor(np.round(image.affine.numpy() @ change, 6), dtype=torch.float32)
    data = {"image": image, "dst_affine": target}
    case = same("SpatialResample", data, keys=IMAGE, mode="bilinear", align_corners=i.flag(),
                padding_mode=i.choice("zeros", "border"), tolerance=FLOAT64)
    yield case


def spikes(data, **params):
    case = same("KSpaceSpikeNoise", data, keys=IMAGE, tolerance=FLOAT64, **params)
    case["type"] = "k_space_spike_noise"
    return case


def elastic(i):
    data = i.pair(axes=2)
    point = lambda low, high, n: [[v, v] for v in i.numbers(low, high, n)]  # noqa: E731
    params = dict(prob=1.0, spacing=i.numbers(1.5, 5, 2), magnitude_range=[0.0, 0.0], spatial_size=i.shape(2),
                  rotate_range=point(-1, 1, 1), translate_range=point(-3, 3, 2), scale_range=point(-0.3, 0.3, 2),
                  padding_mode=i.choice("zeros", "border", "reflection"))
    case = same("Rand2DElastic", data, keys=BOTH, mode=modes(BOTH), **params, tolerance=1e-3, ties=3e-2, affine=False)
    case["type"] = "rand_2d_elastic"
    yield case


def artefacts(i):
    axes = i.choice(2, 3, 3)
    data = {"image": i.image(axes=axes)}
    alpha = i.number(0.1, 0.9)
    yield same("GibbsNoise", data, keys=IMAGE, alpha=alpha, tolerance=FLOAT64)
    yield same("RandGibbsNoise", data, keys=IMAGE, prob=1.0, alpha=[alpha, alpha], tolerance=FLOAT64)
    places = [tuple(int(i.rng.integers(n)) for n in data["image"].shape[1:]) for _ in range(2)]
    some = (places[0], (int(i.rng.integers(2)), *places[1]))
    yield spikes(data, loc=some, k_intensity=i.numbers(5, 9, 2))
    yield spikes(data, loc=tuple((c, *places[0]) for c in range(2)), k_intensity=None)
    mean = i.number(-20, 20)
    yield same("RandRicianNoise", data, keys=IMAGE, prob=1.0, mean=mean, std=0.0)
    yield same("RandRicianNoise", data, keys=IMAGE, prob=1.0, mean=i.numbers(-20, 20, 2), std=0.0,
               channel_wise=True, relative=True)
    plain = mt.DetectEnvelope(axis=i.choice(1, axes), n=i.choice(None, 9, 4))
    yield entry("detect_envelope", {"keys": IMAGE, "axis": plain.axis, "n": plain.n}, data,
                {"image": plain(data["image"].clone())}, affine=False)


def smooth(i):
    axes = i.choice(2, 3)
    image = i.image(axes=axes)
    shape = [int(n) for n in image.shape[1:]]
    params = dict(spatial_size=shape, rand_size=[int(n) for n in i.rng.integers(2, 5, axes)],
                  pad=i.choice(0, 1), prob=1.0)
    mode = i.choice("area", "nearest", "bilinear" if axes == 2 else "trilinear")
    more = {"align_corners": i.flag()} if mode.endswith("linear") else {}
    seed = int(i.rng.integers(1 << 30))
    for name, cls in (("contrast", mt.RandSmoothFieldAdjustContrast),
                      ("intensity", mt.RandSmoothFieldAdjustIntensity)):
        t = cls(**params, mode=mode, gamma=(0.5, 2.0), **more)
        t.set_random_state(seed)
        out = t(image.clone())
        yield entry("kernel.smooth_" + name, {**coarse(t), "mode": mode, **more}, {"image": image},
                    {"image": out}, tolerance=FLOAT64, affine=False)
    how = dict(grid_mode=i.choice("nearest", "bilinear", *["bicubic"] * (axes == 2)), grid_align_corners=i.flag(),
               grid_padding_mode=i.choice("zeros", "border", "reflection"))
    t = mt.RandSmoothDeform(**params, field_mode=mode, def_range=0.3, **how, **more)
    t.set_random_state(seed)
    out = t(image.clone())
    if how["grid_mode"] != "nearest":  # the nearest voxel of a place between two is torch's rounding
        yield entry("kernel.smooth_deform", {**coarse(t), "mode": mode, **more, **how}, {"image": image},
                    {"image": out}, tolerance=1e-3, affine=False)


def coarse(t):
    field = t.sfield.field[0]
    return {"shape": list(field.shape), "coarse": [float(v) for v in field.flatten()]}


def remap(i):
    image = i.image(axes=i.choice(2, 3)).round()
    width, slope, seed = int(i.rng.integers(1, 9)), i.number(-1, 1), int(i.rng.integers(1 << 30))
    t = mt.IntensityRemap(kernel_size=width, slope=slope)
    t.set_random_state(seed)
    values = torch.unique(image.as_tensor()).tolist()
    noise = np.random.RandomState(seed).choice(values, len(values) - 1 + width)
    yield entry("kernel.intensity_remap", {"noise": [float(v) for v in noise], "slope": slope},
                {"image": image}, {"image": t(image.clone())}, tolerance=FLOAT64)


def mixes(i):
    n = int(i.rng.integers(2, 5))
    axes = i.choice(2, 3)
    shape = i.shape(axes)
    batch = torch.from_numpy(smooth_noise(i.rng, (n, 2, *shape)))
    for name, cls in (("mix_up", mt.MixUp), ("cut_mix", mt.CutMix), ("cut_out", mt.CutOut)):
        t = cls(n, 0.7)
        t.set_random_state(int(i.rng.integers(1 << 30)))
        t.randomize(batch)
        weight, partner, corner = t._params
        out = t(batch, randomize=False)
        yield entry("kernel." + name, {"weight": weight.tolist(), "partner": partner.tolist(),
                                       "corner": [int(c) for c in corner]},
                    {"image": batch}, {"image": out}, affine=False)


def edges(i):
    axes = i.choice(2, 3)
    data = {"image": i.image(axes=axes)}
    case = same("SobelGradients", data, keys=IMAGE, kernel_size=i.choice(3, 3, 5),
                spatial_axes=i.choice(None, [axes - 1]), normalize_kernels=i.flag(),
                normalize_gradients=i.flag(), padding_mode=i.choice("reflect", "replicate", "constant"),
                tolerance=FLOAT64, affine=False)
    yield case
    label = i.label(axes=axes)
    hot = torch.cat([label == k for k in range(5)]).to(torch.uint8)
    yield same("BoundingRect", {"label": hot}, keys=["label"], out=["label_bbox"], affine=False)
    repeated = {"image": data["image"].repeat_interleave(2, 0)}
    yield same("RemoveRepeatedChannel", repeated, keys=IMAGE, repeats=2, affine=False)
    # An object with one voxel at each end: nothing is left to chance.
    label = torch.zeros(1, *[n + 6 for n in data["image"].shape[1:]])
    middle = [int(n) // 2 for n in label.shape[1:]]
    for a in range(axes):
        place = [slice(m, m + 1) for m in middle]
        place[a] = slice(1 + a, label.shape[a + 1] - 2)
        label[(0, *place)] = 1
    image = torch.from_numpy(smooth_noise(i.rng, (2, *label.shape[1:])))
    yield same("AddExtremePointsChannel", {"image": image, "label": label}, keys=IMAGE,
               label_key="label", sigma=i.number(0.8, 2), affine=False, tolerance=FLOAT64)
    cells = torch.from_numpy(np.kron(i.rng.permutation(9).reshape(3, 3), np.ones((4, 5))))
    holes = torch.from_numpy(i.rng.random(cells.shape) > 0.1)
    cells = (cells * holes)[None].to(torch.uint8)
    case = same("ComputeHoVerMaps", {"label": cells}, keys=["label"], out=["hover_label"], affine=False)
    case["type"] = "compute_hover_maps"
    yield case


def heatmaps(i):
    axes = i.choice(2, 3)
    image = i.image(axes=axes)
    shape = [int(n) for n in image.shape[1:]]
    points = torch.tensor([[i.number(-1, n + 1) for n in shape] for _ in range(4)])
    yield same("GenerateHeatmap", {"points": points}, keys=["points"], spatial_shape=shape,
               sigma=i.choice([i.number(0.6, 2)], i.numbers(0.6, 2, axes)), normalize=i.flag(),
               truncated=i.number(2, 5), out=["points_heatmap"], affine=False, tolerance=FLOAT64)
    if axes == 3:
        m = image.affine.numpy()
        world = torch.as_tensor(points.numpy() @ m[:3, :3].T + m[:3, 3], dtype=torch.float32)
        yield same("GenerateHeatmap", {"points": world, "image": image}, keys=["points"],
                   ref_image_keys="image", coordinate_space="world", sigma=2.0,
                   out=["points_heatmap"], tolerance=1.0, ties=1.0)


def box(i, shape, count=4):
    low = np.stack([i.rng.integers(0, n - 1, count) for n in shape], 1)
    high = np.stack([i.rng.integers(a + 1, n + 1) for a, n in zip(low.T, shape)], 1)
    return torch.from_numpy(np.concatenate([low, high], 1).astype(np.float32))


def of_boxes(name, data, *, out, **params):
    made = getattr(boxes_of, name + "d")(**params)(copy.deepcopy(data))
    for key, value in list(params.items()):
        if isinstance(value, torch.dtype):
            params.pop(key)
    outs = made if isinstance(made, list) else [made]
    return entry(snake(name), params, data, [{k: o[k] for k in out} for o in outs], affine=False, tolerance=FLOAT64)


def detection(i):
    axes = i.choice(2, 3)
    image = i.image(axes=axes, affine=None if axes == 3 else np.eye(4))
    shape = [int(n) for n in image.shape[1:]]
    some = box(i, shape)
    plain = mt.ConvertBoxToPoints()(some)
    yield entry("convert_box_to_points", {"keys": ["box"]}, {"box": some}, {"points": plain}, affine=False)
    yield entry("convert_points_to_boxes", {"keys": ["points"]}, {"points": plain},
                {"box": mt.ConvertPointsToBoxes()(plain)}, affine=False)
    names = ["xyxy", "xxyy", "xywh", "ccwh"] if axes == 2 else ["xyzxyz", "xxyyzz", "xyxyzz", "xyzwhd", "cccwhd"]
    yield of_boxes("ConvertBoxMode", {"box": some}, out=["box"], box_keys=["box"], src_mode=None,
                   dst_mode=i.choice(*names))
    yield of_boxes("ConvertBoxToStandardMode", {"box": some}, out=["box"], box_keys=["box"],
                   mode=i.choice(*names))
    labels = torch.from_numpy(i.rng.integers(0, 3, 4))
    data = {"image": image, "box": some, "label": labels.to(torch.int32)}
    for way in ("Image", "World"):
        if axes == 3:
            yield of_boxes(f"AffineBoxTo{way}Coordinate", data, out=["box"], box_keys=["box"],
                           box_ref_image_keys="image", affine_lps_to_ras=i.flag())
    both = dict(out=["image", "box"], image_keys=["image"], box_keys=["box"], box_ref_image_keys=["image"])
    yield of_boxes("FlipBox", data, spatial_axis=i.choice(None, [axes - 1]), **both)
    yield of_boxes("RandFlipBox", data, prob=1.0, spatial_axis=0, **both)
    turn = [int(a) for a in i.rng.permutation(axes)[:2]]
    yield of_boxes("RotateBox90", data, k=int(i.rng.integers(1, 4)), spatial_axes=turn, **both)
    yield of_boxes("RandRotateBox90", data, prob=1.0, max_k=1, spatial_axes=turn, **both)
    around = {**data, "box": some * 1.5 - 2}
    yield of_boxes("ClipBoxToImage", around, out=["box", "label"], box_keys="box", label_keys=["label"],
                   box_ref_image_keys="image", remove_empty=True)
    # Around a box of one voxel a patch of two or three has one place.
    at = [int(i.rng.integers(n)) for n in shape]
    one = torch.tensor([at + [n + 1 for n in at]] * 2, dtype=torch.float32)
    yield of_boxes("RandCropBoxByPosNegLabel", {"image": image, "box": one, "label": labels[:2].to(torch.int32)},
                   out=["image", "box", "label"], image_keys=["image"], box_keys="box", label_keys=["label"],
                   spatial_size=[int(n) for n in i.rng.integers(2, 4, axes)], neg=0, num_samples=2)
    case = of_boxes("BoxToMask", data, out=["box_mask"], box_keys="box", box_mask_keys="box_mask",
                    label_keys="label", box_ref_image_keys="image", min_fg_label=0, ellipse_mask=i.flag())
    yield case
    mask = case["out"][0]["box_mask"].to(torch.float32)
    yield of_boxes("MaskToBox", {"box_mask": mask}, out=["box", "label"], box_keys="box",
                   box_mask_keys="box_mask", label_keys="label", min_fg_label=0)
    factors = i.numbers(0.6, 1.6, axes)
    for keep in (True, False):
        yield of_boxes("RandZoomBox", data, prob=1.0, min_zoom=factors, max_zoom=factors, keep_size=keep,
                       mode=i.choice("area", "nearest"), padding_mode=i.choice("constant", "edge"), **both)


def signals(i):
    signal = torch.from_numpy(smooth_noise(i.rng, (2, 60)))
    v, f = i.number(0.1, 0.3), i.number(0.01, 0.3)
    for name, params in (("SignalRandScale", {}), ("SignalRandAddSine", {"frequencies": [f, f]}),
                         ("SignalRandAddSquarePulse", {"frequencies": [f, f]})):
        t = getattr(mt, name)(boundaries=[v, v], **params)
        yield entry(snake(name), {"boundaries": [v, v], **params}, {"signal": signal},
                    {"signal": t(signal.clone())}, tolerance=FLOAT64, affine=False)
    if i.span[1] < 6:
        return  # stored cases are JSON, which has no NaN
    holed = signal.clone()
    holed[:, 3:9] = float("nan")
    yield entry("signal_fill_empty", {"replacement": v}, {"signal": holed},
                {"signal": mt.SignalFillEmpty(v)(holed.clone())}, affine=False)


def filters(i):
    axes = i.choice(2, 3)
    data, size, mode = {"image": i.image(axes=axes)}, i.choice(3, 5), i.choice("zeros", "replicate", "circular")
    along = {"order": i.choice(1, 2), "axis": i.choice(2, axes + 1), "mode": mode}
    kinds = {"gauss": {"sigma": i.number(0.5, 1.5)}, "savitzky_golay": along,
             "sobel": {"padding_mode": "replicate", "normalize_gradients": i.flag()}}
    plain = ["mean", "laplace", "elliptical", "sharpen", "median"]
    for kind, more in ((i.choice(*plain), {}), *kinds.items()):
        for name, prob in (("ImageFilter", {}), ("RandImageFilter", {"prob": 1.0})):
            made = getattr(mt, name + "d")(keys=IMAGE, kernel=kind, kernel_size=size, **prob, **more)
            params = {"keys": IMAGE, "filter": kind, "filter_size": size, **prob, **more}
            if "sigma" in more:
                params["sigma"] = [more["sigma"]]
            yield entry(snake(name), params, data, made(copy.deepcopy(data)), tolerance=FLOAT64)
    yield same("SavitzkyGolaySmooth", data, keys=IMAGE, window_length=size, order=along["order"],
               axis=along["axis"] - 1, mode=mode, tolerance=FLOAT64)


MAKERS = [two_axes, types, outputs, crops, affines, grids, elastic, artefacts, smooth, remap, mixes, edges, heatmaps,
          detection, signals, filters]
