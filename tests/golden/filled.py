"""How the inputs and the networks of golden values are filled, and how answers are rounded."""
import math
import zlib

import torch


def sines(shape, first=0, scale=1.0):
    k = torch.arange(first, first + math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(k)).float().reshape(shape)


def number(v):
    return float(f"{float(v):.8g}")


def floats(t):
    return [number(v) for v in t.double().flatten().tolist()]


def first_of(name):
    return zlib.crc32(name.encode()) % 1000


# Parameters that are not trained are constants, as buffers are, and named like those.
def parts(net):
    every = dict(net.named_parameters())
    trained = {n: p for n, p in every.items() if p.requires_grad}
    constant = {n: p.data for n, p in every.items() if not p.requires_grad}
    return trained, constant | dict(net.named_buffers())


# Weights of a size that keeps activations near 1, or a deep network answers only zeros.
def fill(net):
    for name, p in parts(net)[0].items():
        if p.dim() > 1:
            p.data = sines(p.shape, first_of(name), 1.5 / math.sqrt(p[0].numel()))
        else:
            p.data = 0.5 + sines(p.shape, first_of(name), 0.3)
    for name, b in parts(net)[1].items():
        if name.endswith(("embedding.weight", "ema_w", "gaussian_matrix")):
            b.copy_(sines(b.shape, first_of(name)))
        if name.endswith("ema_cluster_size"):
            b.copy_(1 + sines(b.shape, first_of(name), 0.5))
    for name, b in net.named_buffers():
        if name.endswith("running_mean"):
            b.data = sines(b.shape, first_of(name), 0.1)
        if name.endswith("running_var"):
            b.data = 1 + sines(b.shape, first_of(name), 0.5)
