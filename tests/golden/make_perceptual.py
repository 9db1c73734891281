"""Writes perceptual.json: what MONAI 1.6.1's PerceptualLoss says in float64, on torchvision's resnet50 with weights that
follow from their names. In float32 its gradients are 1e-3 from that, and other processors' from one another.

Run with a Python that has MONAI, torch and torchvision; the result is kept in the repository:
    python tests/golden/make_perceptual.py
tests/nodes/test_perceptual.cpp makes the same inputs and the same network.
"""
import json
import pathlib

import torch
from monai.losses import PerceptualLoss

from filled import fill, floats, number, sines

torch.set_num_threads(1)


def case(size):
    loss = PerceptualLoss(len(size) - 2, "resnet50", pretrained=False, fake_3d_ratio=1.0)
    net = loss.perceptual_function.model
    for p in net.parameters():  # fill() leaves constants alone
        p.requires_grad = True
    fill(net)
    loss.double()
    forward = net.forward
    net.forward = lambda image: forward(image.double())  # MONAI makes slices of volumes float32
    x = (0.5 + sines(size, 1, 20.0)).double().requires_grad_()
    value = loss(x * 1, (0.5 + sines(size, 3, 0.4)).double())  # MONAI normalises pictures of three channels in place
    value.backward()
    return dict(size=size, value=number(value.detach()), grad=floats(x.grad)[:40])


cases = [case(size) for size in ([2, 1, 40, 64], [1, 3, 33, 32], [1, 1, 20, 24, 18])]
text = json.dumps(dict(monai="1.6.1", torch=torch.__version__, cases=cases), indent=0)
text = text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]")
(pathlib.Path(__file__).parent / "perceptual.json").write_text(text + "\n")
