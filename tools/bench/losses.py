#!/usr/bin/env python3
"""Losses beside MONAI's and torch's, forwards and backwards, one thread each.

    ninja -C build bench_losses_metrics
    MONAI_PYTHON tools/bench/losses.py build      (tests/monai/compare.sh makes one)

Prints processor milliseconds (the least of five) of both and MONAI's divided by ours, how far the values are
apart, and the peak memory of one pass forwards and backwards of both, by the kernel's count of resident pages,
with ours divided by MONAI's.
"""
import sys
import warnings

import monai.losses as L
import numpy as np
import torch
import torch.nn.functional as F

from beside_monai import compare

warnings.filterwarnings("ignore")
rng = np.random.default_rng(1)
SHAPE = (2, 3, 64, 64, 48)


def noise(shape, scale=2.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


coarse = rng.integers(0, 3, (2, 1, 8, 8, 6))
label = np.kron(coarse, np.ones((1, 1, 8, 8, 8))).astype(np.float32)
hot = np.concatenate([label == c for c in range(3)], 1).astype(np.float32)
logits, images = noise(SHAPE), (noise((2, 1, 64, 64, 48)), noise((2, 1, 64, 64, 48)))
shares = [1 / (1 + np.exp(-x)) for x in images]
flow = noise((2, 3, 64, 64, 48))
two = np.concatenate([label == 0, label > 0], 1).astype(np.float32)
two_logits = noise((2, 2, 64, 64, 48))
two_shares = np.exp(two_logits) / np.exp(two_logits).sum(1, keepdims=True)
vectors = noise((256, 128)), noise((256, 128))
BY_CLASS = dict(to_onehot_y=True, softmax=True)
distances = [[0.0, 1.0, 1.0], [1.0, 0.0, 0.5], [1.0, 0.5, 0.0]]


def case(node, make, pred, truth, **params):
    arrays = {"pred": pred} | ({} if truth is None else {"label": truth})
    return node, params, arrays, make


CASES = [
    case("dice_loss", L.DiceLoss, logits, label, **BY_CLASS),
    case("dice_ce_loss", L.DiceCELoss, logits, label, **BY_CLASS),
    case("dice_focal_loss", L.DiceFocalLoss, logits, label, **BY_CLASS),
    case("focal_loss", L.FocalLoss, logits, label, to_onehot_y=True),
    case("tversky_loss", L.TverskyLoss, logits, label, **BY_CLASS),
    case("generalized_dice_loss", L.GeneralizedDiceLoss, logits, label, **BY_CLASS),
    case("generalized_dice_focal_loss", L.GeneralizedDiceFocalLoss, logits, label, **BY_CLASS),
    case("generalized_wasserstein_dice_loss",
         lambda dist_matrix: L.GeneralizedWassersteinDiceLoss(np.array(dist_matrix)), logits, label,
         dist_matrix=distances),
    case("hausdorff_dt_loss", L.HausdorffDTLoss, logits, label, **BY_CLASS),
    case("soft_cl_dice_loss", L.SoftclDiceLoss, two_shares, two),
    case("mcc_loss", L.MCCLoss, logits, label, **BY_CLASS),
    case("asymmetric_unified_focal_loss", L.AsymmetricUnifiedFocalLoss, two_shares,
         two[:, 1:], to_onehot_y=True),
    case("log_hausdorff_dt_loss", L.LogHausdorffDTLoss, logits, label, **BY_CLASS),
    case("boundary_loss", L.BoundaryLoss, logits, label, **BY_CLASS),
    case("soft_dice_cl_dice_loss", L.SoftDiceclDiceLoss, two_shares, two),
    case("nacl_loss", lambda: lambda p, y: L.NACLLoss(3, 3)(p, y[:, 0].long()), logits, label),
    case("ssim_loss", lambda: L.SSIMLoss(3), shares[0], shares[1]),
    case("local_normalized_cross_correlation_loss", L.LocalNormalizedCrossCorrelationLoss, *images),
    case("global_mutual_information_loss", L.GlobalMutualInformationLoss, *shares),
    case("bending_energy_loss", L.BendingEnergyLoss, flow, None),
    case("diffusion_loss", L.DiffusionLoss, flow, None),
    case("contrastive_loss", L.ContrastiveLoss, *vectors),
    case("barlow_twins_loss", L.BarlowTwinsLoss, *vectors),
    case("jukebox_loss", lambda: L.JukeboxLoss(3), *images),
    case("mse_loss", torch.nn.MSELoss, *images),
    case("l1_loss", torch.nn.L1Loss, *images),
    case("huber_loss", torch.nn.HuberLoss, *images),
    case("bce_with_logits_loss", torch.nn.BCEWithLogitsLoss, logits, hot),
    case("bce_loss", torch.nn.BCELoss, shares[0], (shares[1] > 0.5).astype(np.float32)),
    case("cross_entropy_loss", lambda: lambda p, y: F.cross_entropy(p, y.long()), logits,
         label[:, 0].astype(np.int64)),
    case("smooth_l1_loss", torch.nn.SmoothL1Loss, *images),
    case("kl_div_loss", torch.nn.KLDivLoss, np.log(shares[0]), shares[1]),
]


def run(make, t, params):
    pred = t["pred"].detach().requires_grad_()
    value = make(**params)(*([pred, t["label"]] if "label" in t else [pred]))
    value.backward()
    return value.item()


if __name__ == "__main__":
    cases = [(n, p, a, (m, p)) for n, p, a, m in CASES]
    compare(sys.argv[1] if len(sys.argv) > 1 else "build", cases, lambda m, t: run(m[0], t, m[1]), True)
