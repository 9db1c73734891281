"""Transforms of intensities."""
import monai.transforms as mt
import numpy as np
import torch

from cases import FLOAT64, entry, same

IMAGE = ["image"]


def images(i, **more):
    return {"image": i.image(axes=i.choice(2, 3, 3), zeros=i.flag(), **more)}


def scaling(i):
    data = images(i)
    yield same("ScaleIntensity", data, keys=IMAGE, minv=i.number(-2, 0), maxv=i.number(1, 3),
               channel_wise=i.flag())
    yield same("ScaleIntensityRange", data, keys=IMAGE, a_min=i.number(-60, 0), a_max=i.number(10, 90),
               b_min=i.number(-2, 0), b_max=i.number(1, 3), clip=i.flag())
    yield same("NormalizeIntensity", data, keys=IMAGE, nonzero=i.flag(), channel_wise=i.flag())
    lower, upper = i.number(0, 20), i.number(70, 100)
    relative = i.flag()
    yield same("ScaleIntensityRangePercentiles", data, keys=IMAGE, lower=lower, upper=upper,
               b_min=i.number(-2, 0) if relative or i.flag() else None, b_max=i.number(1, 3),
               clip=i.flag(), relative=relative, channel_wise=i.flag())


def clipping(i):
    data = images(i)
    more = {"sharpness_factor": i.number(0.1, 3)} if i.flag() else {}
    lower, upper = i.choice((i.number(0, 20), i.number(70, 100)), (None, i.number(70, 100)),
                            (i.number(0, 20), None))
    yield same("ClipIntensityPercentiles", data, keys=IMAGE, lower=lower, upper=upper,
               channel_wise=i.flag(), **more)
    yield same("ThresholdIntensity", data, keys=IMAGE, threshold=i.number(0, 40), above=i.flag(),
               cval=i.number(-5, 5))


def masking(i):
    image = i.image()
    mask = i.image(shape=list(image.shape[1:]), channels=i.choice(1, 2), affine=image.affine)
    yield same("MaskIntensity", {"image": image, "mask": mask}, keys=IMAGE, mask_key="mask")


def drawn(i):
    """Random ones with ranges of one point."""
    data = images(i)
    f = i.number(-0.9, 0.9)
    yield same("RandScaleIntensity", data, keys=IMAGE, prob=1.0, factors=[f, f])
    yield same("RandShiftIntensity", data, keys=IMAGE, prob=1.0, offsets=[30 * f, 30 * f])
    yield same("RandStdShiftIntensity", data, keys=IMAGE, prob=1.0, factors=[f, f], nonzero=i.flag(),
               channel_wise=i.flag())
    yield same("RandGaussianNoise", data, keys=IMAGE, prob=1.0, mean=f, std=0.0)
    gamma = i.number(0.5, 3)
    yield same("RandAdjustContrast", data, keys=IMAGE, prob=1.0, gamma=[gamma, gamma],
               invert_image=i.flag(), retain_stats=i.flag())


def smoothing(i):
    axes = i.choice(2, 3, 3)
    data = {"image": i.image(axes=axes)}
    approx = i.choice("erf", "sampled", "scalespace")
    yield same("GaussianSmooth", data, keys=IMAGE, sigma=i.numbers(0.3, 2, axes), approx=approx)
    sigma = i.numbers(0.3, 2, 3)
    ranges = {f"sigma_{a}": [s, s] for a, s in zip("xyz", sigma)}
    yield same("RandGaussianSmooth", data, keys=IMAGE, prob=1.0, approx=approx, **ranges)
    zoom = i.number(0.3, 1)
    yield same("RandSimulateLowResolution", data, keys=IMAGE, prob=1.0, zoom_range=[zoom, zoom],
               downsample_mode=i.choice("nearest", "nearest-exact", "area"),
               upsample_mode="bilinear" if axes == 2 else "trilinear", align_corners=i.flag())
    yield same("GaussianSharpen", data, keys=IMAGE, sigma1=i.numbers(0.5, 3, axes),
               sigma2=i.number(0.4, 1), alpha=i.number(1, 30), approx=approx)
    ranges = {f"sigma{k}_{a}": [s, s] for k in (1, 2) for a, s in zip("xyz", i.numbers(0.3, 1.5, 3))}
    alpha = i.number(5, 30)
    yield same("RandGaussianSharpen", data, keys=IMAGE, prob=1.0, alpha=[alpha, alpha], approx=approx,
               **ranges)


def histogram(i):
    data = images(i)
    points = int(i.rng.integers(3, 12))
    t = mt.RandHistogramShift(num_control_points=points, prob=1.0)
    t.set_random_state(int(i.rng.integers(1 << 30)))
    t.randomize()
    yield entry("kernel.histogram_shift", {"to": [float(v) for v in t.floating_control_points]}, data,
                {"image": t(data["image"].clone(), randomize=False)})


def dropout(i):
    image = i.image()
    holes = int(i.rng.integers(1, 5))
    keep = i.flag()
    fill = i.number(-5, 5)
    t = mt.RandCoarseDropout(holes=holes, spatial_size=[2, 3, 2], max_spatial_size=[4, 4, 4], prob=1.0,
                             dropout_holes=not keep, fill_value=fill)
    t.set_random_state(int(i.rng.integers(1 << 30)))
    t.randomize(image.shape[1:])
    boxes = [[[s.start for s in h[1:]], [s.stop - s.start for s in h[1:]]] for h in t.hole_coords]
    boxes = [[[int(v) for v in part] for part in box] for box in boxes]
    yield entry("kernel.coarse_dropout", {"holes": boxes, "inside": not keep, "value": fill},
                {"image": image}, {"image": t(image.clone(), randomize=False)})
    whole = [int(n) for n in image.shape[1:]]
    yield same("RandCoarseDropout", {"image": image}, keys=IMAGE, holes=1, spatial_size=whole,
               fill_value=fill, prob=1.0)


def bias(i):
    image = i.image(axes=i.choice(2, 3))
    degree = int(i.rng.integers(1, 5))
    c = i.number(-0.2, 0.2)
    yield same("RandBiasField", {"image": image}, keys=IMAGE, prob=1.0, degree=degree,
               coeff_range=[c, c], tolerance=FLOAT64)


def jitter(i):
    from torchvision.transforms import functional as F
    unit = torch.from_numpy(i.rng.random((3, *i.shape(2))).astype(np.float32))
    byte = i.flag()
    image = (unit * 255).to(torch.uint8) if byte else unit
    name = i.choice("brightness", "contrast", "saturation")
    v = i.number(0.3, 1.7)
    more = {k: [1, 1] for k in ("brightness", "contrast", "saturation")}
    more[name] = [v, v]
    yield entry("rand_color_jitter", {"keys": IMAGE, "prob": 1.0, **more}, {"image": image},
                {"image": getattr(F, "adjust_" + name)(image, v)}, affine=False)
    h = i.number(-0.5, 0.5)
    yield entry("rand_color_jitter", {"keys": IMAGE, "prob": 1.0, "hue": [h, h]}, {"image": image},
                {"image": F.adjust_hue(image, h)}, affine=False)
    order = [int(n) for n in i.rng.permutation(4)]
    by = [v, i.number(0.3, 1.7), i.number(0.3, 1.7), h]
    step = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    out = image
    for n in order:
        out = step[n](out, by[n])
    yield entry("kernel.color_jitter", {"order": order, "by": by}, {"image": image}, {"image": out},
                affine=False)


def outputs(i):
    scores = {"image": i.image(channels=3)}
    case = same("Activations", scores, keys=IMAGE, softmax=True)
    yield case
    yield same("Activations", scores, keys=IMAGE, sigmoid=True)
    case = same("AsDiscrete", scores, keys=IMAGE, argmax=True)
    yield entry("argmax", {"keys": IMAGE}, scores, case["out"][0])
    yield same("AsDiscrete", scores, keys=IMAGE, threshold=i.number(0, 40))
    other = i.image(shape=list(scores["image"].shape[1:]), affine=scores["image"].affine)
    yield same("ConcatItems", {**scores, "other": other}, keys=["image", "other"], name="image",
               out=["image"])


MAKERS = [scaling, clipping, masking, drawn, smoothing, histogram, dropout, bias, jitter, outputs]
