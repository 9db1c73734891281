"""Invertd behind transforms that sample, crop and pad: nodes in a row inside by_epoch."""
import copy

import monai.transforms as mt
import torch
from monai.data import MetaTensor

from cases import FLOAT64, entry, snake

IMAGE = ["image"]


def undone(data, chain, nearest=False, resize_mode=None, **more):
    """`chain`: the transforms' names and parameters."""
    key = "label" if nearest else "image"
    data = {key: data}
    forward = mt.Compose([getattr(mt, name + "d")(keys=[key], **params) for name, params in chain])
    there = forward(copy.deepcopy(data))
    back = mt.Invertd(keys=[key], transform=forward, orig_keys=[key], nearest_interp=nearest)(there)
    nodes = [{"type": snake(name), "keys": [key], **params} for name, params in chain]
    mode = "nearest" if nearest else "bilinear"
    nodes.append({"type": "invert", "keys": [key], "mode": [mode], "resize_mode": resize_mode})
    return entry("by_epoch", {"from": [0], "transforms": [nodes]}, data, back, tolerance=FLOAT64, **more)


def sampled(i):
    axes = i.choice(2, 3)
    image = i.image(axes=axes)
    how = dict(mode=["bilinear"], padding_mode=[i.choice("zeros", "border", "reflection")])
    turn = ("Rotate", dict(angle=i.numbers(-0.8, 0.8, 3 if axes == 3 else 1), keep_size=i.flag(), **how))
    yield undone(image, [turn])
    move = ("Affine", dict(rotate_params=i.numbers(-0.5, 0.5, 3 if axes == 3 else 1),
                           scale_params=i.numbers(0.8, 1.2, axes), translate_params=i.numbers(-2, 2, axes), **how))
    yield undone(image, [move])
    yield undone(image, [turn, ("Flip", dict(spatial_axis=0)), move])


def behind_crops(i):
    image = i.image(channels=1)
    how = dict(mode=["bilinear"], padding_mode=[i.choice("zeros", "border", "reflection")])
    axcodes = ("Orientation", dict(axcodes=i.choice("RAS", "LPS", "SRA"),
                                   labels=(("L", "R"), ("P", "A"), ("I", "S"))))
    grid = ("Spacing", dict(pixdim=i.numbers(0.9, 2.0, 3), **how))
    box = ("SpatialCrop", dict(roi_start=[1, 0, 1], roi_end=[i.choice(3, 4), 3, 9]))
    yield undone(image, [axcodes, grid, box])
    yield undone(image, [axcodes, box, grid])
    yield undone(image, [grid, box, ("SpatialPad", dict(spatial_size=[7, 6, 7]))])
    label = MetaTensor(image.round().to(torch.uint8), affine=image.affine)
    yield undone(label, [axcodes, ("Spacing", dict(pixdim=grid[1]["pixdim"], mode=["nearest"])), box], nearest=True,
                 ties=0.02)


def resized(i):
    axes = i.choice(2, 3)
    image = i.image(axes=axes)
    mode = i.choice("area", "nearest", "bilinear" if axes == 2 else "trilinear")
    zoom = ("Zoom", dict(zoom=i.numbers(0.7, 1.5, axes), mode=mode, keep_size=i.flag(),
                         padding_mode=i.choice("edge", "constant")))
    size = [int(n) for n in i.rng.integers(3, 9, axes)]
    yield undone(image, [zoom], resize_mode=mode)
    yield undone(image, [zoom, ("Resize", dict(spatial_size=size, mode=mode))], resize_mode=mode)


MAKERS = [sampled, behind_crops, resized]
