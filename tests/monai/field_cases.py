"""Transforms of fields, and crops, pads and turns that draw nothing."""
import monai.transforms as mt
import torch

from cases import entry, same

IMAGE, BOTH = ["image"], ["image", "label"]


def crops_by_size(i):
    axes = i.choice(2, 3)
    data = i.pair(axes=axes)
    shape = data["image"].shape[1:]
    roi = [int(i.rng.integers(0, n + 2)) for n in shape]
    yield same("CenterSpatialCrop", data, keys=BOTH, roi_size=roi)
    scale = i.numbers(0.3, 1, axes)
    yield same("CenterScaleCrop", data, keys=BOTH, roi_scale=scale)
    yield same("RandScaleCrop", data, keys=BOTH, roi_scale=scale, random_center=False,
               random_size=False)
    yield same("RandSpatialCropSamples", data, keys=BOTH, roi_size=roi, num_samples=2,
               random_center=False, random_size=False)
    start = [int(i.rng.integers(0, n)) for n in shape]
    end = [a + 1 + int(i.rng.integers(0, n)) for a, n in zip(start, shape)]
    given = i.choice(axes, axes - 1)
    yield same("SpatialCrop", data, keys=BOTH, roi_start=start[:given], roi_end=end[:given])
    yield same("SpatialCrop", data, keys=BOTH, roi_center=start,
               roi_size=[int(n) for n in i.rng.integers(1, 6, axes)])
    border = [int(n) for n in i.rng.integers(-1, 3, i.choice(1, axes, 2 * axes))]
    yield same("BorderPad", data, keys=BOTH, spatial_border=border,
               mode=i.choice("constant", "edge"))


def turns(i):
    axes = i.choice(2, 3)
    data = i.pair(axes=axes)
    yield same("Flip", data, keys=BOTH, spatial_axis=i.choice(0, axes - 1, None))
    order = [int(a) for a in i.rng.permutation(axes)[:2]]
    yield same("Rotate90", data, keys=BOTH, k=int(i.rng.integers(-2, 4)), spatial_axes=order)


def fields(i):
    data = i.pair(channels=2)
    whole = {**data, "image": data["image"].abs()}
    case = same("CastToType", whole, keys=BOTH, dtype=[torch.uint8, torch.float32])
    case["params"]["dtype"] = ["uint8", "float32"]
    yield case
    yield same("RepeatChannel", data, keys=BOTH, repeats=2)
    yield same("Transpose", data, keys=IMAGE, indices=[0, 3, 1, 2], affine=False)
    yield same("SqueezeDim", data, keys=["label"], dim=0, affine=False)
    yield same("CopyItems", data, keys=BOTH, times=1, names=["a", "b"], out=["a", "b"])
    yield same("SplitDim", data, keys=IMAGE, output_postfixes=["x", "y"], dim=0,
               keepdim=i.flag(), out=["image_x", "image_y"])
    yield entry("select_channels", {"keys": IMAGE, "from": 1}, data,
                {"image": data["image"][1:]})


def values(i):
    data = {"image": i.image(axes=i.choice(2, 3))}
    yield same("ShiftIntensity", data, keys=IMAGE, offset=i.number(-20, 20))
    f, each = i.number(-0.9, 0.9), i.flag()
    yield same("StdShiftIntensity", data, keys=IMAGE, factor=f, nonzero=i.flag(), channel_wise=each)
    yield same("AdjustContrast", data, keys=IMAGE, gamma=i.number(0.5, 3), invert_image=i.flag(),
               retain_stats=i.flag())
    more = dict(preserve_range=i.flag(), fixed_mean=i.flag())
    plain = mt.ScaleIntensityFixedMean(factor=f, channel_wise=each, **more)  # has no dictionary form
    yield entry("scale_intensity_fixed_mean",
                {"keys": IMAGE, "factor": f, "channel_wise": each, **more}, data,
                {"image": plain(data["image"].clone())})
    yield same("RandScaleIntensityFixedMean", data, keys=IMAGE, prob=1.0, factors=[f, f], **more)
    yield same("MedianSmooth", data, keys=IMAGE, radius=i.choice(1, [1, 2, 0][:data["image"].ndim - 1]))
    yield same("HistogramNormalize", data, keys=IMAGE, num_bins=i.choice(5, 256), min=1, max=100)
    mask = (i.image(shape=list(data["image"].shape[1:])) > 10).to(torch.uint8)
    yield same("HistogramNormalize", {**data, "mask": mask}, keys=IMAGE, num_bins=20,
               mask_key="mask")
    yield same("AddCoordinateChannels", data, keys=IMAGE, spatial_dims=[1, 0])


def masks(i):
    label = i.label(axes=i.choice(2, 3), classes=4)
    data, key = {"label": label}, ["label"]
    hot = {"label": torch.cat([label == k for k in range(4)]).to(torch.uint8)}
    yield same("LabelFilter", data, keys=key, applied_labels=[1, 3])
    yield same("LabelToMask", data, keys=key, select_labels=[1, 2])
    yield same("LabelToMask", hot, keys=key, select_labels=[1, 2], merge_channels=i.flag())
    yield same("LabelToContour", {"label": (label > 1).to(torch.float32)}, keys=key)
    # A size between two: scikit-image 0.26 lets those of just this size go too, older ones do not.
    # With connectivity 2 objects of two channels may touch in MONAI: of one channel only.
    yield same("RemoveSmallObjects", hot, keys=key, min_size=2.5, independent_channels=i.flag())
    one = {"label": (label > 1).to(torch.float32)}
    yield same("RemoveSmallObjects", one, keys=key, min_size=i.choice(1.5, 4.5),
               connectivity=i.choice(1, 2), independent_channels=i.flag())
    yield same("RemoveSmallObjects", {"label": label.to(torch.int32)}, keys=key, min_size=40.5,
               independent_channels=i.flag())
    holed = label.clone()  # without a voxel of 0 scipy's distances mean nothing
    holed[:, 1:3, 0] = 0
    yield same("DistanceTransformEDT", {"label": holed}, keys=key,
               sampling=i.choice(None, i.numbers(0.5, 2, label.ndim - 1)))


def ensembles(i):
    first = i.image()
    data = {k: i.image(shape=list(first.shape[1:])) for k in "abc"}
    yield same("MeanEnsemble", data, keys=list("abc"), output_key="mean", out=["mean"],
               weights=i.choice(None, [1.0, 2.0, 4.0], [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]]),
               affine=False)
    labels = {k: i.label(first).to(torch.float32) for k in "abc"}
    yield same("VoteEnsemble", labels, keys=list("abc"), output_key="vote", out=["vote"],
               num_classes=4, affine=False)
    hot = {k: torch.cat([v == c for c in range(4)]).to(torch.float32) for k, v in labels.items()}
    yield same("VoteEnsemble", hot, keys=list("abc"), output_key="vote", out=["vote"], affine=False)


MAKERS = [crops_by_size, turns, fields, values, masks, ensembles]
