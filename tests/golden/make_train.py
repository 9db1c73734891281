"""Writes optimizers.json: what MONAI 1.6.1 and torch 2.11 answer.

Run with a Python that has both; the results are kept in the repository:
    python tests/golden/make_train.py
Parameters and gradients are filled with sines, so that no random generator has to agree.
"""
import json
import math
import pathlib

import torch
from monai.optimizers import Novograd

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def sines(shape, first=0, scale=1.0):
    n = math.prod(shape)
    k = torch.arange(first, first + n, dtype=torch.float64)
    return (scale * torch.sin(k)).float().reshape(shape)


def floats(t):
    return [float(f"{v:.8g}") for v in t.double().flatten().tolist()]


def optimizers():
    out = []

    def add(name, make, **params):
        ps = [sines([3, 5], 1).requires_grad_(), sines([4], 40).requires_grad_()]
        opt = make(ps, **{k: tuple(v) if k == "betas" else v for k, v in params.items()})
        for step in range(4):
            for i, q in enumerate(ps):
                q.grad = sines(q.shape, 7 * step + 3 * i, 0.5)
            opt.step()
        out.append(dict(type=name, params=params, result=[floats(q.detach()) for q in ps]))

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
    return out


text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, "cases": optimizers()}, indent=0)
(HERE / "optimizers.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
