"""Transforms of labels."""
import copy

import monai.transforms as mt
import numpy as np
import torch

from cases import entry, same

LABEL = ["label"]


def one_hot(i, like, channels=4):
    return torch.stack([like[0] == k for k in range(channels)]).to(torch.uint8)


def mapping(i):
    label = i.label(classes=5)
    to = [int(v) for v in i.rng.permutation(8)[:5]]
    yield same("MapLabelValue", {"label": label}, keys=LABEL, orig_labels=list(range(5)),
               target_labels=to)


def brats(i):
    label = i.label(classes=5)
    yield same("ConvertToMultiChannelBasedOnBratsClasses", {"label": label}, keys=LABEL,
               et_label=i.choice(3, 4))


def components(i):
    axes = i.choice(2, 3)
    label = i.label(axes=axes)
    hot = i.flag()
    data = {"label": label.clone() if not hot else one_hot(i, label)}
    more = {} if i.flag() else {"applied_labels": [1, 3]}
    connectivity = int(i.rng.integers(1, axes + 1)) if i.flag() else None
    # Of components of equal size MONAI keeps what its sort puts first: left out.
    case = same("KeepLargestConnectedComponent", data, keys=LABEL, independent=i.flag(),
                connectivity=connectivity, is_onehot=hot, **more)
    if not ambiguous(data["label"], case["params"], axes):
        yield case
    more = {} if i.flag() else {"applied_labels": [1, 2]}
    yield same("FillHoles", data, keys=LABEL, connectivity=connectivity, **more)


def ambiguous(label, params, axes):
    from skimage import measure
    x = label.numpy()
    hot = params["is_onehot"]
    labels = params.get("applied_labels") or [k for k in range(4) if hot or k]
    masks = [x[k] > 0 if hot else x[0] == k for k in labels]
    if not params["independent"]:
        masks = [np.any(masks, axis=0)]
    for m in masks:
        sizes = np.sort(np.bincount(measure.label(m, connectivity=params["connectivity"]).ravel())[1:])
        if len(sizes) > 1 and sizes[-1] == sizes[-2]:
            return True
    return False


def indices(i):
    image = i.image()
    label = i.label(image).float()  # of uint8 ones MONAI takes every voxel for background
    more = {"image_key": "image", "image_threshold": i.number(0, 30)} if i.flag() else {}
    t = mt.FgBgToIndicesd(keys="label", **more)
    out = t(copy.deepcopy({"image": image, "label": label}))
    names = ["label_fg_indices", "label_bg_indices"]
    yield entry("fg_bg_to_indices", {"keys": LABEL, **more}, {"image": image, "label": label},
                {k: torch.as_tensor(out[k]) for k in names}, affine=False)


MAKERS = [mapping, brats, components, indices]
