"""Writes losses/*.json: what MONAI 1.6.1 and torch 2.11 answer, a file for each loss node.

Run with a Python that has both; the results are kept in the repository:
    python tests/golden/make_losses.py
A new loss: an entry in `losses`, or its own calls of add(). Inputs are made by formula, the same in
tests/nodes/test_losses.cpp.
"""
import json
import math
import pathlib

import monai.losses as L
import torch

HERE = pathlib.Path(__file__).parent / "losses"
torch.set_num_threads(1)
files = {}


def sines(shape, first=0, scale=1.0):
    k = torch.arange(first, first + math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(k)).float().reshape(shape)


def floats(t):
    return [float(f"{v:.8g}") for v in t.double().flatten().tolist()]


p = torch.arange(36).reshape(2, 2, 3, 3).float() / 10 - 1.5
y = (torch.arange(18).reshape(2, 1, 3, 3) % 3 == 0).float()
p3 = sines([2, 3, 4, 5, 3], 1, 2.0)
y3 = (torch.arange(2 * 60).reshape(2, 1, 4, 5, 3) * 7 % 3).float()
hot = torch.nn.functional.one_hot(y3[:, 0].long(), 3).movedim(-1, 1).float()
lacking = torch.where(y3 == 2, 0, y3)  # no voxel of class 2
DATA = {"a": (p, y), "b": (p3, y3), "hot": (p3, hot), "one": (p[:, :1].contiguous(), y), "lacking": (p3, lacking),
        "classes": (sines([6, 5], 1, 2.0), torch.arange(6) * 7 % 5)}


def add(name, make, data, **params):
    pred, label = DATA[data]
    x = pred.clone().requires_grad_()
    kw = {k: torch.tensor(v) if k == "weight" and isinstance(v, list) else v for k, v in params.items()}
    value = make(**kw)(x, label)
    value.backward()
    files.setdefault(name, []).append(
        dict(data=data, params=params, value=value.item(), grad=floats(x.grad)[:40]))


soft = dict(to_onehot_y=True, softmax=True)
losses = {"dice_loss": L.DiceLoss, "dice_ce_loss": L.DiceCELoss, "dice_focal_loss": L.DiceFocalLoss,
          "tversky_loss": L.TverskyLoss, "generalized_dice_loss": L.GeneralizedDiceLoss,
          "generalized_dice_focal_loss": L.GeneralizedDiceFocalLoss}
weighted = {"dice_loss", "dice_ce_loss", "dice_focal_loss", "generalized_dice_focal_loss"}

for name, make in losses.items():
    own = {}
    if name.startswith("dice_"):
        own = dict(squared_pred=True)
    for data in ("a", "b"):
        add(name, make, data, **soft)
        add(name, make, data, **soft, **own, batch=True)
        add(name, make, data, **soft, include_background=False, smooth_nr=0.01, smooth_dr=0.1)
        add(name, make, data, **soft, reduction="sum")
    add(name, make, "hot", sigmoid=True)
    if name != "generalized_dice_focal_loss":
        add(name, make, "hot", softmax=True, include_background=False, **own)
    add(name, make, "one", sigmoid=True)
for name in ("dice_loss", "dice_ce_loss"):
    for data in ("a", "b"):
        add(name, losses[name], data, **soft, jaccard=True, reduction="sum")
    add(name, losses[name], "b", **soft, jaccard=True, squared_pred=True, weight=[0.5, 1.0, 2.0])
add("dice_loss", L.DiceLoss, "b", **soft, include_background=False, weight=[1.0, 3.0])
add("dice_ce_loss", L.DiceCELoss, "b", **soft, include_background=False, weight=[0.5, 1.0, 2.0], lambda_dice=0.3,
    lambda_ce=0.7)
for name, first in (("dice_focal_loss", "lambda_dice"), ("generalized_dice_focal_loss", "lambda_gdl")):
    make = losses[name]
    more = dict(squared_pred=True) if name == "dice_focal_loss" else {}
    add(name, make, "b", **soft, **more, batch=True, gamma=1.5)
    add(name, make, "b", **soft, include_background=False, weight=[1.0, 3.0])
    add(name, make, "b", **soft, reduction="sum", **{first: 0.3}, lambda_focal=0.7)
add("dice_focal_loss", L.DiceFocalLoss, "b", **soft, include_background=False, weight=[1.0, 3.0], alpha=0.75)
# The loss of MONAI's BraTS tutorial.
add("dice_focal_loss", L.DiceFocalLoss, "hot", sigmoid=True, squared_pred=True, batch=True)
add("tversky_loss", L.TverskyLoss, "b", **soft, alpha=0.3, beta=0.7)
add("tversky_loss", L.TverskyLoss, "a", **soft, alpha=0.7, beta=0.3)
for w_type in ("square", "simple", "uniform"):
    for batch in (False, True):
        add("generalized_dice_loss", L.GeneralizedDiceLoss, "lacking", **soft, w_type=w_type, batch=batch)
for params in (dict(), dict(weight=[0.5, 1.0, 2.0, 1.5, 0.25]), dict(label_smoothing=0.1), dict(ignore_index=2),
               dict(reduction="sum"), dict(weight=[0.5, 1.0, 2.0, 1.5, 0.25], label_smoothing=0.2, ignore_index=4)):
    add("cross_entropy_loss", torch.nn.CrossEntropyLoss, "classes", **params)
add("sum_loss", lambda: lambda x, _: x.sum(), "a")

for name, cases in files.items():
    text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, "cases": cases}, indent=0)
    (HERE / f"{name}.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
