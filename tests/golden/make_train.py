"""Writes optimizers.json and schedules.json: what MONAI 1.6.1 and torch 2.11 answer.

Run with a Python that has both; the results are kept in the repository:
    python tests/golden/make_train.py
Parameters and gradients are filled with sines, so that no random generator has to agree.
"""
import json
import math
import pathlib

import torch
from monai.optimizers import Novograd
from monai.optimizers.lr_scheduler import WarmupCosineSchedule

from filled import floats, sines

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def optimizers():
    out = []

    def add(name, make, **params):
        ps = [sines([3, 5], 1).requires_grad_(), sines([4], 40).requires_grad_()]
        opt = make(ps, **{k: tuple(v) if k == "betas" else v for k, v in params.items()})
        results = {}
        for step in range(200):
            for i, q in enumerate(ps):
                q.grad = sines(q.shape, 7 * step + 3 * i, 0.5)
            opt.step()
            if step + 1 in (4, 200):
                results[f"after_{step + 1}"] = [floats(q.detach()) for q in ps]
        out.append(dict(type=name, params=params, **results))

    o = torch.optim
    add("sgd", o.SGD, lr=0.1)
    add("sgd", o.SGD, lr=0.1, momentum=0.9, weight_decay=0.01)
    add("sgd", o.SGD, lr=0.1, momentum=0.9, nesterov=True)
    add("adam", o.Adam, lr=0.01)
    add("adam", o.Adam, lr=0.01, betas=[0.8, 0.9], eps=1e-4, weight_decay=0.1)
    add("adam", o.Adam, lr=0.01, amsgrad=True)
    add("adamw", o.AdamW, lr=0.01, weight_decay=0.1)
    add("novograd", Novograd, lr=0.01)
    add("novograd", Novograd, lr=0.01, betas=[0.8, 0.9], weight_decay=0.1, grad_averaging=True,
        amsgrad=True)
    add("sgd", o.SGD, lr=0.1, momentum=0.9, dampening=0.3)
    add("adamax", o.Adamax, lr=0.01, weight_decay=0.1)
    add("nadam", o.NAdam, lr=0.01, weight_decay=0.1)
    add("nadam", o.NAdam, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)
    add("radam", o.RAdam, lr=0.01, weight_decay=0.1)
    add("radam", o.RAdam, lr=0.01, betas=[0.9, 0.8], decoupled_weight_decay=True)
    add("rmsprop", o.RMSprop, lr=0.01, weight_decay=0.1)
    add("rmsprop", o.RMSprop, lr=0.01, momentum=0.9, centered=True, alpha=0.9)
    add("adagrad", o.Adagrad, lr=0.1, weight_decay=0.1)
    add("adagrad", o.Adagrad, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5)
    add("adadelta", o.Adadelta, lr=1.0, weight_decay=0.1)
    add("lion", Lion, lr=0.01, weight_decay=0.1)
    add("lion", Lion, lr=0.01, betas=[0.8, 0.7])
    add("lamb", Lamb, lr=0.01)
    add("lamb", Lamb, lr=0.01, weight_decay=0.1, betas=[0.8, 0.9], eps=1e-4)
    add("asgd", o.ASGD, lr=0.1, weight_decay=0.1)
    add("asgd", o.ASGD, lr=0.1, lambd=0.01, alpha=0.5, t0=20.0)
    add("lars", Lars, lr=1.0)
    add("lars", Lars, lr=1.0, weight_decay=0.1, momentum=0.8, trust_coefficient=0.02, nesterov=True)
    return out


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2, in float32 as torch's own; torch has none."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"])
                p.sub_((b1 * m + (1 - b1) * p.grad).sign(), alpha=lr)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class Lars(torch.optim.Optimizer):
    """You, Gitman, Ginsburg 2017, with the rate outside of the momentum as in torch's SGD; torch
    has none."""

    def __init__(self, params, lr, momentum=0.9, weight_decay=0.0, trust_coefficient=0.001, eps=1e-8,
                 nesterov=False):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay,
                                      trust=trust_coefficient, eps=eps, nesterov=nesterov))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            decay, m = group["weight_decay"], group["momentum"]
            for p in group["params"]:
                w, g, s = p.double(), p.grad.double(), self.state[p]
                ratio = group["trust"] * w.norm() / (g.norm() + decay * w.norm() + group["eps"])
                along = (g + decay * w) * ratio
                s["m"] = m * s.get("m", 0) + along
                p.copy_(w - group["lr"] * (along + m * s["m"] if group["nesterov"] else s["m"]))


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2 with the identity for phi, in double; torch has none."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                (b1, b2), g, s = group["betas"], p.grad.double(), self.state[p]
                n = s["n"] = s.get("n", 0) + 1
                m = s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
                v = s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
                w = p.double()
                r = (m / (1 - b1**n)) / ((v / (1 - b2**n)).sqrt() + group["eps"])
                r = r + group["weight_decay"] * w
                p.copy_(w - group["lr"] * w.norm() / r.norm() * r)


def schedules():
    out, steps = [], 200
    s = torch.optim.lr_scheduler

    def add(name, make, **params):
        """`make` takes an optimizer; `params` are the node's."""
        opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
        scheduler, rates, momenta = make(opt), [], []
        for step in range(steps):
            rates.append(opt.param_groups[0]["lr"])
            momenta.append(opt.param_groups[0]["momentum"])
            opt.step()
            if step + 1 < steps:
                scheduler.step()
        params["lr_schedule"] = name
        every = slice(None, None, 7)
        case = dict(params=params, rates=rates[every])
        if name in ("one_cycle", "cyclic"):
            case["momenta"] = momenta[every]
        out.append(case)

    add("step", lambda o: s.StepLR(o, 30, 0.5), step_size=30, gamma=0.5)
    add("multi_step", lambda o: s.MultiStepLR(o, [20, 50, 150], 0.3), milestones=[20, 50, 150],
        gamma=0.3)
    add("exponential", lambda o: s.ExponentialLR(o, 0.98), gamma=0.98)
    add("linear", lambda o: s.LinearLR(o, total_iters=100), total_steps=100)
    add("linear", lambda o: s.LinearLR(o, 0.1, 0.7, 250), total_steps=250, start_factor=0.1,
        end_factor=0.7)
    add("polynomial", lambda o: s.PolynomialLR(o, 200, 0.9), total_steps=200, power=0.9)
    add("polynomial", lambda o: s.PolynomialLR(o, 120, 2.0), total_steps=120, power=2.0)
    add("cosine", lambda o: s.CosineAnnealingLR(o, 200, 0.01), total_steps=200, eta_min=0.01)
    add("cosine_annealing_warm_restarts", lambda o: s.CosineAnnealingWarmRestarts(o, 30),
        T_0=30)
    add("cosine_annealing_warm_restarts",
        lambda o: s.CosineAnnealingWarmRestarts(o, 15, 2, 0.005), T_0=15, T_mult=2, eta_min=0.005)
    add("one_cycle", lambda o: s.OneCycleLR(o, 0.1, total_steps=200), total_steps=200)
    add("one_cycle", lambda o: s.OneCycleLR(o, 0.1, total_steps=240, pct_start=0.2, div_factor=10,
                                            final_div_factor=100, anneal_strategy="linear"),
        total_steps=240, pct_start=0.2, div_factor=10.0, final_div_factor=100.0,
        anneal_strategy="linear")
    # lightning's LinearWarmupCosineAnnealingLR, of torch's parts: its climb ends a step before the cosine begins.
    add("linear_warmup_cosine_annealing", lambda o: s.SequentialLR(o, [
        s.LinearLR(o, 0.01, 1, 19), s.CosineAnnealingLR(o, 180, 0.002)], [20]),
        warmup_steps=20, warmup_multiplier=0.01, total_steps=200, eta_min=0.002)
    add("warmup_cosine", lambda o: WarmupCosineSchedule(o, 20, 200), warmup_steps=20,
        total_steps=200)
    add("warmup_cosine", lambda o: WarmupCosineSchedule(o, 20, 150, 0.01, 0.5, -1, 0.1),
        warmup_steps=20, total_steps=150, eta_min=0.01, warmup_multiplier=0.1)
    add("cyclic", lambda o: s.CyclicLR(o, 0.01, 0.1, 30), eta_min=0.01, step_size_up=30)
    add("cyclic", lambda o: s.CyclicLR(o, 0.01, 0.1, 25, None, "exp_range"), eta_min=0.01, step_size_up=25,
        cyclic_mode="exp_range")
    add("cyclic", lambda o: s.CyclicLR(o, 0.02, 0.1, 10, 25, "triangular2", base_momentum=0.7), eta_min=0.02,
        step_size_up=10, step_size_down=25, cyclic_mode="triangular2", base_momentum=0.7,
        max_momentum=0.9)
    add("cyclic", lambda o: s.CyclicLR(o, 0.01, 0.1, 15, None, "exp_range", 0.99), eta_min=0.01,
        step_size_up=15, cyclic_mode="exp_range", gamma=0.99, base_momentum=0.8, max_momentum=0.9)
    add("cosine", lambda o: s.SequentialLR(
        o, [s.LinearLR(o, 0.25, 1, 40), s.CosineAnnealingLR(o, 160)], [40]),
        warmup_steps=40, warmup_multiplier=0.25, total_steps=200)
    return out


def plateaus():
    """The rates after each of the metric's values."""
    out = []

    def add(values, **params):
        opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, **params)
        rates = []
        for v in values:
            scheduler.step(v)
            rates.append(opt.param_groups[0]["lr"])
        out.append(dict(params=params, values=values, rates=rates))

    falling = [round(1 / (1 + k) + 0.02 * math.sin(k), 4) for k in range(40)]
    add(falling, patience=2)
    add(falling, patience=1, factor=0.5, cooldown=3, min_lr=0.01)
    add(falling, patience=0, factor=0.5, threshold=0.05, threshold_mode="abs")
    add([1 - v for v in falling], mode="max", patience=3, factor=0.3, threshold=0.01)
    return out


def write(name, **content):
    text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, **content}, indent=0)
    text = text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]")
    (HERE / name).write_text(text + "\n")


write("optimizers.json", cases=optimizers())
write("schedules.json", cases=schedules(), plateaus=plateaus())
