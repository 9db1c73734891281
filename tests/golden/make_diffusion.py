"""Writes diffusion.json: what MONAI 1.6.1's schedulers make of a noisy image, with a function for a network.

Run with a Python that has MONAI; the result is kept in the repository. The n-th noise that a chain draws is
cos(0.7 k + n) at element k; the network says 0.6 x + 0.3 sin(3 x + t / 100).
"""
import json
import pathlib

import torch
from monai.inferers import DiffusionInferer
from monai.networks.schedulers import DDIMScheduler, DDPMScheduler, PNDMScheduler, RFlowScheduler

SHAPE = (2, 1, 4, 3)
CLASSES = {"ddpm": DDPMScheduler, "ddim": DDIMScheduler, "pndm": PNDMScheduler, "rflow": RFlowScheduler}


def numbers(t):
    return [float(f"{v:.7g}") for v in t.reshape(-1).tolist()]


def network(x, timesteps, context=None):
    return 0.6 * x + 0.3 * torch.sin(3 * x + timesteps.view(-1, 1, 1, 1).float() / 100)


def likelihood(scheduler, x, noise):
    torch.randn_like, before = lambda *_, **__: noise, torch.randn_like
    try:
        return DiffusionInferer(scheduler).get_likelihood(x, network, scheduler, verbose=False,
                                                          original_input_range=(0, 255), scaled_input_range=(-1, 1))
    finally:
        torch.randn_like = before


def case(scheduler, steps, **params):
    eta = params.get("eta")  # an argument of step() in MONAI
    made = CLASSES[scheduler](**{k: v for k, v in params.items() if k != "eta"})
    if eta:
        plain = made.step
        made.step = lambda output, t, image: plain(output, t, image, eta=eta)
    x = torch.sin(torch.arange(24.0)).reshape(SHAPE)
    noise = torch.cos(1.3 * torch.arange(24.0)).reshape(SHAPE)
    n = params.get("num_train_timesteps", 1000)
    at = torch.tensor([n // 5, n - 1])
    out = {"params": {"scheduler": scheduler, **params}, "steps": steps, "at": at.tolist(),
           "noisy": numbers(made.add_noise(x, noise, at))}
    if scheduler != "rflow":
        out["velocity"] = numbers(made.get_velocity(x, noise, at))
    size = {"input_img_size_numel": 12} if scheduler == "rflow" else {}
    made.set_timesteps(steps, **size)
    if scheduler == "ddpm" and "clip_sample_min" not in params:  # there MONAI clips from -1 to 1 all the same
        out["likelihood"] = numbers(likelihood(made, x, noise))
    calls = iter(range(10 ** 6))
    torch.randn, before = lambda *_, **__: torch.cos(0.7 * torch.arange(24.0) + next(calls)).reshape(SHAPE), torch.randn
    try:
        end = DiffusionInferer(made).sample(noise, network, made, verbose=False)
    finally:
        torch.randn = before
    return {**out, "timesteps": numbers(made.timesteps.float()), "end": numbers(end)}


cases = [
    case("ddpm", 20, num_train_timesteps=20),
    case("ddpm", 1000),
    case("ddpm", 50, schedule="scaled_linear_beta", prediction_type="v_prediction", beta_start=0.0015, beta_end=0.0195,
         clip_sample=False),
    case("ddpm", 30, schedule="sigmoid_beta", prediction_type="sample", variance_type="fixed_large"),
    case("ddpm", 25, schedule="cosine", num_train_timesteps=100, clip_sample_min=-2, clip_sample_max=1.5),
    case("ddim", 50),
    case("ddim", 7, num_train_timesteps=100, set_alpha_to_one=False, steps_offset=1, prediction_type="v_prediction"),
    case("ddim", 10, eta=0.5, clip_sample=False),
    case("ddim", 1, prediction_type="sample", schedule="cosine"),
    case("pndm", 50),
    case("pndm", 10, num_train_timesteps=200, set_alpha_to_one=True, prediction_type="v_prediction"),
    case("pndm", 12, skip_prk_steps=True, steps_offset=1),
    case("rflow", 10),
    case("rflow", 7, use_discrete_timesteps=False),
    case("rflow", 9, use_timestep_transform=True, base_img_size_numel=8, spatial_dim=2),
]
text = ",\n".join(json.dumps(c) for c in cases)
pathlib.Path(__file__).with_name("diffusion.json").write_text(f"[{text}]\n")
