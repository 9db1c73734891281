"""Holds every loss that MONAI 1.6.1 or torch has against it, on random inputs, through `sluice apply`: the value and
the gradient of the output.

    PYTHON_WITH_MONAI tests/monai/losses.py [--sluice build/sluice] [--cases 30] [--seed 0] [LOSS...]

Images of 1 to 3 axes, of 1 to 4 classes, with classes that a sample lacks and truths that are all background. A row a
loss: cases, 1 where some are NaN or infinite on both sides, the largest error of values (relative, or of 1e-3 where they
are smaller) and of gradients (relative to their norm); both at most 1e-4. Where a loss can be a map (`reduction` none), its
shape too. Exit code 1 where an error is larger or a shape another.
"""
import json
import math
import random
import subprocess
import sys
import warnings

import monai.losses as L
import numpy
import torch
import torch.nn.functional as F

from held import held

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def shape(r, least=1, low=5, high=9):
    return [r.randint(low, high) for _ in range(r.randint(least, 3))]


def noise(g, size, scale=2.0):
    return torch.randn(size, generator=g) * scale


def map_of(r, g, n, classes, size):
    """Class indices [n, 1, ...]; now and then without a class, or all 0."""
    label = torch.randint(0, classes, (n, 1, *size), generator=g)
    if r.random() < 0.3:
        label[label == r.randrange(classes)] = 0
    if r.random() < 0.15:
        label[r.randrange(n)] = 0
    return label.float()


def one_hot(label, classes):
    return F.one_hot(label[:, 0].long(), classes).movedim(-1, 1).float()


def reduction(r, maps=True):
    return r.choice(["mean", "sum", "none"] if maps else ["mean", "sum"])


def of_classes(cls, least=2, extra=lambda r, c: {}, sigmoid=True, batch=True, low=5, axes=1):
    """Losses over classes: softmax of indices, or sigmoid of maps."""
    def make(r, g):
        size, c, n = shape(r, axes, low), r.randint(least, 4), r.randint(1, 3)
        label = map_of(r, g, n, c, size)
        soft = not sigmoid or r.random() < 0.6
        params = dict(softmax=True, to_onehot_y=True) if soft else dict(sigmoid=True)
        maps = cls in (L.DiceLoss, L.TverskyLoss, L.GeneralizedDiceLoss)
        params |= dict(include_background=r.random() < 0.7, reduction=reduction(r, maps)) | extra(r, c)
        if batch:
            params["batch"] = r.random() < 0.5
        theirs = dict(params)
        if maps and r.random() < 0.2:
            # Shares of classes, and outputs that may be below 0.
            for of in (params, theirs):
                for name in ("softmax", "sigmoid", "to_onehot_y"):
                    of.pop(name, None)
                of["soft_label"] = True
            if r.random() < 0.5:
                params["other_act"], theirs["other_act"] = "tanh", torch.tanh
            soft, label = True, torch.rand((n, c, *size), generator=g)
        return cls(**theirs), params, noise(g, (n, c, *size)), label if soft else one_hot(label, c)
    return make


def smooth(r, c):
    return dict(smooth_nr=r.choice([1e-5, 0.1, 1.0]), smooth_dr=r.choice([1e-5, 0.1, 1.0]))


def dice(r, c):
    return smooth(r, c) | dict(squared_pred=r.random() < 0.4, jaccard=r.random() < 0.4)


def tversky(r, c):
    return smooth(r, c) | dict(alpha=r.random(), beta=r.random())


def generalized(r, c):
    return smooth(r, c) | dict(w_type=r.choice(["square", "simple", "uniform"]))


def focal(r, g):
    size, c, n = shape(r), r.randint(1, 4), r.randint(1, 3)
    label = map_of(r, g, n, max(c, 2), size)
    params = dict(gamma=r.choice([0.0, 0.5, 2.0]), include_background=r.random() < 0.7 or c == 1,
                  reduction=reduction(r))
    if c > 1:
        params |= dict(to_onehot_y=True, use_softmax=r.random() < 0.5)
    if r.random() < 0.4:
        by_class = c if params["include_background"] else c - 1
        params["alpha"] = r.choice([round(r.random(), 2), [round(r.uniform(0, 2), 2) for _ in range(by_class)]])
    return L.FocalLoss(**params), dict(params), noise(g, (n, c, *size)), label


def pairs(make_loss, scale=2.0, least=1, low=5, high=9, extra=lambda r, axes: {}, positive=False,
          maps=False):
    """Losses of two images."""
    def make(r, g):
        size, c, n = shape(r, least, low, high), r.randint(1, 3), r.randint(1, 3)
        params = dict(reduction=reduction(r, maps)) | extra(r, len(size))
        x, y = (noise(g, (n, c, *size), scale) for _ in range(2))
        return make_loss(params, len(size)), params, *((x.sigmoid(), y.sigmoid()) if positive else (x, y))
    return make


def field(cls):
    def make(r, g):
        size, n = shape(r), r.randint(1, 3)
        params = dict(normalize=r.random() < 0.5, reduction=reduction(r, False))
        return cls(**params), params, noise(g, (n, len(size), *size)), None
    return make


def vectors(cls, extra):
    def make(r, g):
        params = extra(r)
        size = r.randint(4, 8), r.randint(3, 20)  # two rows, normalised, are signs: no gradient but rounding
        return cls(**params), params, noise(g, size), noise(g, size)
    return make


def wasserstein(r, g):
    size, c, n = shape(r), r.randint(2, 4), r.randint(1, 3)
    d = numpy.array([[abs(i - j) / (c - 1) for j in range(c)] for i in range(c)])
    params = dict(weighting_mode=r.choice(["default", "GDL"]))
    return (L.GeneralizedWassersteinDiceLoss(d, **params), dict(params, dist_matrix=d.tolist()),
            noise(g, (n, c, *size)), map_of(r, g, n, c, size))


def unified(r, g):
    size, n = shape(r, 2), r.randint(1, 3)
    params = dict(gamma=round(r.uniform(0.2, 0.8), 2), delta=round(r.uniform(0.5, 0.9), 2), to_onehot_y=True)
    label = map_of(r, g, n, 2, size)
    return L.AsymmetricUnifiedFocalLoss(**params), params, noise(g, (n, 2, *size)).softmax(1), label


def skeletons(cls, extra=lambda r: {}):
    def make(r, g):
        size, n = shape(r, 2, 6, 10), r.randint(1, 2)
        params = dict(iter_=r.randint(1, 4)) | extra(r)
        return cls(**params), params, noise(g, (n, 2, *size)).softmax(1), one_hot(map_of(r, g, n, 2, size), 2)
    return make


def nacl(r, g):
    size, c, n = shape(r, 2), r.randint(2, 4), r.randint(1, 3)
    params = dict(kernel_size=3, kernel_ops=r.choice(["mean", "gaussian"]), distance_type=r.choice(["l1", "l2"]),
                  alpha=round(r.random(), 2))
    loss = L.NACLLoss(c, len(size), **params)
    return lambda x, y: loss(x, y[:, 0].long()), params, noise(g, (n, c, *size)), map_of(r, g, n, c, size)


def cross_entropy(r, g):
    size, c, n = shape(r), r.randint(2, 4), r.randint(1, 3)
    params = dict(reduction=reduction(r), label_smoothing=r.choice([0.0, 0.1]))
    if r.random() < 0.5:
        params["weight"] = [round(r.uniform(0.2, 2), 2) for _ in range(c)]
    given = dict(params, weight=torch.tensor(params["weight"])) if "weight" in params else params
    return torch.nn.CrossEntropyLoss(**given), params, noise(g, (n, c, *size)), map_of(r, g, n, c, size)[:, 0].long()


def torch_pair(cls, **more):
    return pairs(lambda p, axes: cls(**p), maps=True, **more)


def lncc(p, axes):
    return L.LocalNormalizedCrossCorrelationLoss(spatial_dims=axes, **p)


def ssim(p, axes):
    return L.SSIMLoss(spatial_dims=axes, **p)


LOSSES = dict(
    dice_loss=of_classes(L.DiceLoss, extra=dice), dice_ce_loss=of_classes(L.DiceCELoss, extra=dice, sigmoid=False),
    dice_focal_loss=of_classes(L.DiceFocalLoss, extra=lambda r, c: dice(r, c) | dict(gamma=r.choice([0.5, 2.0]))),
    tversky_loss=of_classes(L.TverskyLoss, extra=tversky),
    generalized_dice_loss=of_classes(L.GeneralizedDiceLoss, extra=generalized),
    generalized_dice_focal_loss=of_classes(L.GeneralizedDiceFocalLoss, extra=generalized, batch=False),
    focal_loss=focal, generalized_wasserstein_dice_loss=wasserstein, asymmetric_unified_focal_loss=unified,
    hausdorff_dt_loss=of_classes(L.HausdorffDTLoss, axes=2), log_hausdorff_dt_loss=of_classes(L.LogHausdorffDTLoss, axes=2),
    mcc_loss=of_classes(L.MCCLoss), boundary_loss=of_classes(L.BoundaryLoss, axes=2),
    soft_cl_dice_loss=skeletons(L.SoftclDiceLoss),
    soft_dice_cl_dice_loss=skeletons(L.SoftDiceclDiceLoss, lambda r: dict(alpha=round(r.random(), 2))),
    nacl_loss=nacl, ssim_loss=pairs(ssim, least=2, low=12, high=15, positive=True),
    local_normalized_cross_correlation_loss=pairs(lncc, extra=lambda r, axes: dict(
        kernel_size=r.choice([3, 5]), kernel_type=r.choice(["rectangular", "triangular", "gaussian"]))),
    global_mutual_information_loss=pairs(lambda p, axes: L.GlobalMutualInformationLoss(**p), positive=True),
    bending_energy_loss=field(L.BendingEnergyLoss), diffusion_loss=field(L.DiffusionLoss),
    contrastive_loss=vectors(L.ContrastiveLoss, lambda r: dict(temperature=r.choice([0.1, 0.5, 1.0]))),
    barlow_twins_loss=vectors(L.BarlowTwinsLoss, lambda r: dict(lambd=r.choice([0.005, 0.05]))),
    jukebox_loss=pairs(lambda p, axes: L.JukeboxLoss(axes, **p)),
    mse_loss=torch_pair(torch.nn.MSELoss), l1_loss=torch_pair(torch.nn.L1Loss), huber_loss=torch_pair(torch.nn.HuberLoss),
    smooth_l1_loss=torch_pair(torch.nn.SmoothL1Loss), bce_loss=torch_pair(torch.nn.BCELoss, positive=True),
    bce_with_logits_loss=lambda r, g: (lambda m, p, x, y: (m, p, x, y.sigmoid()))(*torch_pair(torch.nn.BCEWithLogitsLoss)(r, g)),
    kl_div_loss=lambda r, g: (lambda m, p, x, y: (m, p, x.log(), y))(*torch_pair(torch.nn.KLDivLoss, positive=True)(r, g)),
    cross_entropy_loss=cross_entropy)


def one(sluice, kind, seed, folder):
    r, g = random.Random(f"{kind} {seed}"), torch.Generator().manual_seed(seed)
    loss, params, x, y = LOSSES[kind](r, g)
    files = {"pred": x} | ({} if y is None else {"label": y})
    call = [sluice, "apply", kind, *(f"--param={k}={json.dumps(v)}" for k, v in params.items())]
    for name, t in files.items():
        numpy.save(folder / f"{name}.npy", t.numpy())
        call.append(f"--in={name}={folder}/{name}.npy")
    leaf = x.clone().requires_grad_()
    wanted = loss(leaf) if y is None else loss(leaf, y)
    numpy.save(folder / "g.npy", torch.ones_like(wanted).detach().numpy())
    subprocess.run([*call, f"--out=loss={folder}/loss.npy", f"--grad=loss={folder}/g.npy",
                    f"--out-grad=pred={folder}/dx.npy"], check=True, stdout=subprocess.DEVNULL)
    value, slope = (torch.from_numpy(numpy.load(folder / f"{f}.npy")).double() for f in ("loss", "dx"))
    wanted.sum().backward()
    wanted, gradient = wanted.detach().double(), leaf.grad.double()
    if wanted.dim() == 0:
        value = value.view([])
    if value.shape != wanted.shape:
        return True, (0.0, math.inf, 0.0), params
    if not bool(wanted.isfinite().all()) or not bool(gradient.isfinite().all()):
        same = torch.equal(value.isfinite(), wanted.isfinite()) and torch.equal(slope.isfinite(), gradient.isfinite())
        return not same, (1.0, 0.0, 0.0), params
    off = float(((value - wanted).abs() / wanted.abs().clamp_min(1e-3)).max())
    apart = float((slope - gradient).norm() / gradient.norm().clamp_min(1e-7))
    return not max(off, apart) <= 1e-4, (0.0, off, apart), params


if __name__ == "__main__":
    sys.exit(held("loss", ["not finite", "values", "gradients"], LOSSES, one, 42, 30))
