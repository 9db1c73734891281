"""Writes losses/*.json: what MONAI 1.6.1 and torch 2.11 answer, a file for each loss node.

Run with a Python that has both; the results are kept in the repository:
    python tests/golden/make_losses.py
A new loss: an entry in `losses`, or its own calls of add(). Inputs are made by formula, the same in
tests/nodes/test_losses.cpp.
"""
import json
import pathlib
from functools import partial

import monai.losses as L
import torch
from monai.apps.pathology.losses import HoVerNetLoss

from filled import floats, sines

HERE = pathlib.Path(__file__).parent / "losses"
torch.set_num_threads(1)
files = {}


p = torch.arange(36).reshape(2, 2, 3, 3).float() / 10 - 1.5
y = (torch.arange(18).reshape(2, 1, 3, 3) % 3 == 0).float()
p3 = sines([2, 3, 4, 5, 3], 1, 2.0)
y3 = (torch.arange(2 * 60).reshape(2, 1, 4, 5, 3) * 7 % 3).float()
hot = torch.nn.functional.one_hot(y3[:, 0].long(), 3).movedim(-1, 1).float()
lacking = torch.where(y3 == 2, 0, y3)  # no voxel of class 2
DATA = {"a": (p, y), "b": (p3, y3), "hot": (p3, hot), "one": (p[:, :1].contiguous(), y), "lacking": (p3, lacking),
        "soft": (p3, torch.softmax(sines([2, 3, 4, 5, 3], 5, 2.0), 1)), "far": (p3, torch.where(y3 == 2, 255, y3)),
        "two": (0.5 + sines([2, 2, 4, 5, 3], 1, 0.4), (y3 == 2).float()),
        "share": (0.5 + sines([2, 1, 4, 5, 3], 1, 0.4), (y3 == 2).float()),
        "views": (sines([5, 4], 1), sines([5, 4], 3)), "images": (sines([2, 2, 5, 4, 6], 1), sines([2, 2, 5, 4, 6], 3)),
        "shares": (0.5 + sines([2, 2, 5, 4, 6], 1, 0.4), 0.5 + sines([2, 2, 5, 4, 6], 3, 0.4)),
        "field": (sines([2, 3, 4, 5, 6], 1), None), "field2": (sines([2, 2, 5, 6], 1), None),
        "corners": tuple(torch.cat([low, low + 1.5 + 0.4 * low.flip(1)], 1) for low in (sines([4, 3], 1), sines([4, 3], 4))),
        "classes": (sines([6, 5], 1, 2.0), torch.arange(6) * 7 % 5),
        # hover_net's three outputs side by side; nuclei, their distances, their types
        "nuclei": (sines([2, 7, 9, 9], 1, 2.0), torch.cat([(torch.arange(162).reshape(2, 1, 9, 9) % 4 == 1).float(),
                                                          sines([2, 2, 9, 9], 3),
                                                          (torch.arange(162).reshape(2, 1, 9, 9) * 7 % 3).float()], 1)),
        "patches": (sines([2, 4, 12], 1), sines([2, 2, 4, 6], 3, 2.0))}  # of 2 x 3 pixels


def add(name, make, data, **params):
    pred, label = DATA[data]
    x = pred.clone().requires_grad_()
    kw = {k: torch.tensor(v) if k == "weight" and isinstance(v, list) else v for k, v in params.items()}
    value = make(**kw)(*((x,) if label is None else (x, label)))
    value.sum().backward()
    values = dict(values=floats(value.detach())[:40]) if params.get("reduction") == "none" else {}
    files.setdefault(name, []).append(
        dict(data=data, params=params, value=value.sum().item(), **values, grad=floats(x.grad)[:40]))


class GaussianKl:
    def __init__(self, reduction="mean", spread="deviation"):
        self.reduction, self.spread = reduction, spread

    def __call__(self, mean, spread):
        normal = torch.distributions.Normal
        deviation = (spread / 2).exp() if self.spread == "logvar" else spread
        all = torch.distributions.kl_divergence(normal(mean, deviation), normal(0.0, 1.0)).sum()
        return all if self.reduction == "sum" else all / len(mean)


add("gaussian_kl_loss", GaussianKl, "soft")
add("gaussian_kl_loss", GaussianKl, "soft", reduction="sum")
add("gaussian_kl_loss", GaussianKl, "images", spread="logvar")
class Adversarial:
    def __init__(self, target_is_real=True, **params):
        self.loss, self.real = L.PatchAdversarialLoss(**params), target_is_real

    def __call__(self, said, _):
        return self.loss(said, self.real, for_discriminator=True)


for criterion in ("least_squares", "bce", "hinge"):
    for real in (True, False):
        add("patch_adversarial_loss", Adversarial, "a", criterion=criterion, target_is_real=real)
add("patch_adversarial_loss", Adversarial, "a", no_activation_leastsq=True, reduction="sum", target_is_real=False)
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
for params in (dict(), dict(weight=[0.5, 1.0, 2.0, 1.5, 0.25], ignore_index=2), dict(reduction="sum")):
    add("nll_loss", torch.nn.NLLLoss, "classes", **params)
add("sum_loss", lambda: lambda x, _: x.sum(), "a")

# ---- of classes, with parameters of their own ---------------------------------------------------

for params in (dict(soft_label=True), dict(ignore_index=1), dict(ignore_index=1, batch=True, include_background=False)):
    for name in ("dice_loss", "tversky_loss"):
        add(name, losses[name], "b", **soft, **params)
add("dice_loss", L.DiceLoss, "soft", softmax=True, soft_label=True)
add("dice_loss", L.DiceLoss, "soft", softmax=True, soft_label=True, jaccard=True)
add("tversky_loss", L.TverskyLoss, "soft", softmax=True, soft_label=True, alpha=0.3, beta=0.7)
add("generalized_dice_loss", L.GeneralizedDiceLoss, "soft", softmax=True, soft_label=True)
add("dice_loss", L.DiceLoss, "far", **soft, ignore_index=255)
add("dice_loss", L.DiceLoss, "hot", softmax=True, ignore_index=1)
add("dice_ce_loss", L.DiceCELoss, "b", **soft, label_smoothing=0.1)
add("dice_ce_loss", L.DiceCELoss, "one", sigmoid=True, weight=[2.5])
ACTS = {"tanh": torch.tanh, "relu": torch.relu, "elu": torch.nn.functional.elu, "softplus": torch.nn.functional.softplus}
for act, f in ACTS.items():
    add("dice_loss", lambda other_act, **kw: L.DiceLoss(other_act=f, **kw), "b", to_onehot_y=True, other_act=act)
for params in (dict(sigmoid=True), dict(softmax=True)):
    add("dice_loss", lambda mask_key, **kw: lambda x, t: L.MaskedDiceLoss(**kw)(x, t, (t > 0)[:, :1].float()), "hot",
        **params, mask_key="mask")
    add("tversky_loss", lambda mask_key, **kw: lambda x, t: L.MaskedLoss(L.TverskyLoss(**kw))(x, t, (t > 0)[:, :1].float()),
        "hot", **params, mask_key="mask")
add("dice_loss", lambda mask_key, **kw: lambda x, t: L.MaskedDiceLoss(**kw)(x, t, (t > 0).float()), "lacking", **soft,
    mask_key="mask")
for params in (dict(), dict(reduction="sum"), dict(alpha=0.25), dict(alpha=[0.2, 0.3, 0.4]), dict(ignore_index=1),
               dict(ignore_index=1, reduction="sum"), dict(include_background=False, gamma=1.5, alpha=0.6),
               dict(weight=[0.5, 1.0, 2.0])):
    for use_softmax in (False, True):
        add("focal_loss", L.FocalLoss, "b", to_onehot_y=True, use_softmax=use_softmax, **params)
add("focal_loss", L.FocalLoss, "one")
for alpha in (0.25, [0.25], [1.5]):  # of the foreground, of the one class
    add("focal_loss", L.FocalLoss, "one", alpha=alpha)
    add("focal_loss", L.FocalLoss, "a", to_onehot_y=True, include_background=False, alpha=alpha)
for name, make in (("hausdorff_dt_loss", L.HausdorffDTLoss), ("log_hausdorff_dt_loss", L.LogHausdorffDTLoss),
                   ("boundary_loss", L.BoundaryLoss), ("mcc_loss", L.MCCLoss)):
    for params in (dict(), dict(reduction="sum"), dict(batch=True), dict(include_background=name[0] in "hl")):
        add(name, make, "b", **soft, **params)
    add(name, make, "one", sigmoid=True)
    add(name, make, "a", **soft)
for name, make in (("soft_cl_dice_loss", L.SoftclDiceLoss), ("soft_dice_cl_dice_loss", L.SoftDiceclDiceLoss)):
    for params in (dict(), dict(reduction="sum", iter_=1), dict(include_background=False, smooth_nr=0.5, smooth_dr=0.7)):
        add(name, make, "b", **soft, **params)
    add(name, make, "one", sigmoid=True)
add("soft_dice_cl_dice_loss", L.SoftDiceclDiceLoss, "a", **soft, alpha=0.2)
for params in (dict(), dict(weight=0.3, gamma=0.4, delta=0.6), dict(ignore_index=255)):
    add("asymmetric_unified_focal_loss", L.AsymmetricUnifiedFocalLoss, "two", to_onehot_y=True, **params)
add("asymmetric_unified_focal_loss", L.AsymmetricUnifiedFocalLoss, "share")
for params in (dict(), dict(kernel_size=5, distance_type="l2"), dict(kernel_ops="gaussian", sigma=0.7, alpha=0.4)):
    for data, (classes, dim) in (("a", (2, 2)), ("b", (3, 3))):
        add("nacl_loss", lambda **kw: lambda x, t: L.NACLLoss(classes, dim, **kw)(x, t[:, 0].long()), data, **params)
for params in (dict(), dict(weighting_mode="GDL"), dict(reduction="sum", smooth_nr=0.1, smooth_dr=0.2)):
    add("generalized_wasserstein_dice_loss",
        lambda dist_matrix, **kw: L.GeneralizedWassersteinDiceLoss(torch.tensor(dist_matrix), **kw), "b",
        dist_matrix=[[0.0, 2.0, 2.0], [2.0, 0.0, 1.0], [2.0, 0.5, 0.0]], **params)


# ---- of two images, or of a field ---------------------------------------------------------------

for name, make, data, *own in (
        ("mse_loss", torch.nn.MSELoss, "images"), ("l1_loss", torch.nn.L1Loss, "images"),
        ("smooth_l1_loss", torch.nn.SmoothL1Loss, "images", dict(beta=0.3), dict(beta=0.0)),
        ("huber_loss", torch.nn.HuberLoss, "images", dict(delta=0.3)), ("bce_loss", torch.nn.BCELoss, "shares"),
        ("kl_div_loss", torch.nn.KLDivLoss, "shares", dict(reduction="batchmean"), dict(log_target=True)),
        ("jukebox_loss", partial(L.JukeboxLoss, spatial_dims=3), "images"),
        ("local_normalized_cross_correlation_loss", L.LocalNormalizedCrossCorrelationLoss, "images",
         dict(kernel_size=5, kernel_type="triangular"), dict(kernel_type="gaussian", smooth_nr=0.1, smooth_dr=0.2)),
        ("global_mutual_information_loss", L.GlobalMutualInformationLoss, "shares",
         dict(num_bins=11, sigma_ratio=0.8), dict(kernel_type="b-spline", num_bins=9)),
        ("ssim_loss", partial(L.SSIMLoss, spatial_dims=3, win_size=3), "shares",
         dict(win_size=4, kernel_sigma=0.9, data_range=2.0), dict(kernel_type="uniform", k1=0.02, k2=0.05)),
        ("box_giou_loss", L.BoxGIoULoss, "corners"),
        ("bending_energy_loss", L.BendingEnergyLoss, "field", dict(normalize=True)),
        ("diffusion_loss", L.DiffusionLoss, "field", dict(normalize=True))):
    for params in (dict(), dict(reduction="sum"), *own):
        add(name, make, data, **params, **(dict(win_size=3) if name == "ssim_loss" and "win_size" not in params else {}))
for name, make in (("bending_energy_loss", L.BendingEnergyLoss), ("diffusion_loss", L.DiffusionLoss)):
    add(name, make, "field2", normalize=True)
for params in (dict(), dict(reduction="sum"), dict(pos_weight=[3.0, 0.5]), dict(weight=[1.0, 2.0])):
    tensors = {k: torch.tensor(v).view(2, 1, 1, 1) for k, v in params.items() if k != "reduction"}
    add("bce_with_logits_loss", lambda **kw: torch.nn.BCEWithLogitsLoss(**{**kw, **tensors}), "shares", **params)
for name, make, params in (("contrastive_loss", L.ContrastiveLoss, dict(temperature=0.2)),
                           ("barlow_twins_loss", L.BarlowTwinsLoss, dict(lambd=0.1))):
    add(name, make, "views")
    add(name, make, "views", **params)
for kernel in ("gaussian", "cauchy"):
    add("mse_loss", lambda scales, scale_kernel: lambda x, t: L.MultiScaleLoss(torch.nn.MSELoss(), scales, scale_kernel)(t, x),
        "images", scales=[0.0, 1.0, 2.0], scale_kernel=kernel)
add("mse_loss", lambda mask_key: lambda x, t: L.MaskedLoss(torch.nn.MSELoss())(x, t, (t > 0)[:, :1].float()), "images",
    mask_key="mask")

# ---- not reduced --------------------------------------------------------------------------------

for name in ("dice_loss", "tversky_loss", "generalized_dice_loss"):
    add(name, losses[name], "b", **soft, reduction="none")
    add(name, losses[name], "b", **soft, reduction="none", include_background=False, batch=True)
add("focal_loss", L.FocalLoss, "b", to_onehot_y=True, reduction="none")
add("focal_loss", L.FocalLoss, "b", to_onehot_y=True, reduction="none", use_softmax=True, weight=[0.5, 1.0, 2.0])
for name, make, data in (("mse_loss", torch.nn.MSELoss, "images"), ("l1_loss", torch.nn.L1Loss, "images"),
                         ("smooth_l1_loss", torch.nn.SmoothL1Loss, "images"),
                         ("huber_loss", torch.nn.HuberLoss, "images"), ("bce_loss", torch.nn.BCELoss, "shares"),
                         ("bce_with_logits_loss", torch.nn.BCEWithLogitsLoss, "shares"),
                         ("kl_div_loss", torch.nn.KLDivLoss, "shares"),
                         ("cross_entropy_loss", torch.nn.CrossEntropyLoss, "classes"),
                         ("nll_loss", torch.nn.NLLLoss, "classes")):
    add(name, make, data, reduction="none")


# Wang et al. 2020 (COPLE-Net), sums over the batch or each sample.
def nr_dice(gamma=1.5, batch=False, include_background=True, softmax=False, sigmoid=False, to_onehot_y=False,
            reduction="mean", smooth_nr=0.0, smooth_dr=1e-5):
    def loss(x, t):
        q = torch.softmax(x, 1) if softmax else torch.sigmoid(x)
        g = torch.nn.functional.one_hot(t[:, 0].long(), x.shape[1]).movedim(-1, 1).float() if to_onehot_y else t
        if not include_background:
            q, g = q[:, 1:], g[:, 1:]
        axes = [0] * batch + list(range(2, x.dim()))
        ratio = (((q - g).abs() ** gamma).sum(axes) + smooth_nr) / ((q * q + g * g).sum(axes) + smooth_dr)
        return ratio.mean() if reduction == "mean" else ratio.sum()
    return loss


for data in ("a", "b"):
    for params in (dict(), dict(batch=True, include_background=False), dict(gamma=2.0, reduction="sum"),
                   dict(gamma=1.0, smooth_nr=0.5, smooth_dr=0.1)):
        add("nr_dice_loss", nr_dice, data, **soft, **params)
add("nr_dice_loss", nr_dice, "one", sigmoid=True)


def hover_net(nc=True, **factors):
    def hot(t, classes):
        return torch.nn.functional.one_hot(t.long(), classes).movedim(-1, 1).float()

    def loss(x, t):
        pred = {"nucleus_prediction": x[:, :2], "horizontal_vertical": x[:, 2:4]}
        truth = {"nucleus_prediction": hot(t[:, 0], 2), "horizontal_vertical": t[:, 1:3]}
        if nc:
            pred["type_prediction"], truth["type_prediction"] = x[:, 4:], hot(t[:, 3], 3)
        return HoVerNetLoss(**factors)(pred, truth)
    return loss


add("hover_net_loss", hover_net, "nuclei")
add("hover_net_loss", hover_net, "nuclei", lambda_hv_mse=0.5, lambda_hv_mse_grad=3.0, lambda_np_ce=0.25,
    lambda_np_dice=2.0, lambda_nc_ce=0.75, lambda_nc_dice=1.5)


# He et al. 2022; every third patch is masked.
def masked_patch(patch_size, normalize=False):
    def loss(x, image):
        a, b = patch_size
        n, c, h, w = image.shape
        t = image.reshape(n, c, h // a, a, w // b, b).permute(0, 2, 4, 3, 5, 1).reshape(n, -1, a * b * c)
        if normalize:
            t = (t - t.mean(-1, keepdim=True)) / (t.var(-1, keepdim=True) + 1e-6) ** 0.5
        mask = (torch.arange(8) % 3 == 0).float().reshape(2, 4)
        return (((x - t) ** 2).mean(-1) * mask).sum() / mask.sum()
    return loss


add("masked_patch_loss", masked_patch, "patches", patch_size=[2, 3])
add("masked_patch_loss", masked_patch, "patches", patch_size=[2, 3], normalize=True)

for name, cases in files.items():
    text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, "cases": cases}, indent=0)
    (HERE / f"{name}.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
