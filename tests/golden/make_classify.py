"""Writes classify.json: what torch 2.11 and MONAI 1.6.1 answer about classifiers.

Run with a Python that has both; the results are kept in the repository:
    python tests/golden/make_classify.py
Weights and inputs are filled with sines, as in make_train.py.
"""
import hashlib
import json
import math
import pathlib

import torch
import torch.nn.functional as F
from monai.networks.nets import DenseNet, DenseNet121, DenseNet169, DenseNet201, DenseNet264, resnet18, resnet50
from torch import nn

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def sines(shape, first=0, scale=1.0):
    n = math.prod(shape)
    k = torch.arange(first, first + n, dtype=torch.float64)
    return (scale * torch.sin(k)).float().reshape(shape)


def floats(t):
    return [float(f"{v:.8g}") for v in t.double().flatten().tolist()]


class LeNet(nn.Module):
    def __init__(self, cin=3, classes=10, side=32):
        super().__init__()
        side = ((side - 4) // 2 - 4) // 2
        self.conv1 = nn.Conv2d(cin, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * side * side, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


# Weights of a size that keeps activations near 1, or a deep network answers only zeros.
def fill(net):
    k = 1
    for p in net.parameters():
        fan = p[0].numel() if p.dim() > 1 else 0
        p.data = sines(p.shape, k, 1.5 / math.sqrt(fan)) if fan else 0.5 + sines(p.shape, k, 0.3)
        k += p.numel()
    k = 1
    for name, b in net.named_buffers():
        if b.dtype != torch.float32:
            continue
        b.data = sines(b.shape, k, 0.1) if name.endswith("mean") else 1 + sines(b.shape, k, 0.5)
        k += b.numel()


def digest(names):
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def net_case(kind, args, net, size=None, train=True):
    names = [n for n, _ in net.named_parameters()]
    buffers = [n for n, _ in net.named_buffers()]
    case = dict(type=kind, params=args, count=sum(p.numel() for p in net.parameters()),
                parameters=len(names), parameters_sha256=digest(names),
                buffers=len(buffers), buffers_sha256=digest(buffers))
    if size:
        fill(net)
        net.train(train)
        x = sines(size).requires_grad_()
        y = net(x)
        case.update(size=size, train=train, output=floats(y.detach()))
        (y * sines(y.shape, 5)).sum().backward()
        case["grads"] = [float(f"{p.grad.double().norm().item():.8g}") for p in net.parameters()]
        case["input_grad"] = float(f"{x.grad.double().norm().item():.8g}")
        case["running"] = float(f"{sum(b.double().sum().item() for b in net.buffers()):.8g}")
    return case


def nets():
    cases = [net_case("lenet", {}, LeNet(), [4, 3, 32, 32]),
             net_case("lenet", dict(in_channels=1, out_channels=7, image_size=28), LeNet(1, 7, 28), [3, 1, 28, 28])]
    for name, make in (("121", DenseNet121), ("169", DenseNet169), ("201", DenseNet201), ("264", DenseNet264)):
        for dims in (2, 3):
            args = dict(spatial_dims=dims, in_channels=1, out_channels=6)
            cases.append(net_case("densenet" + name, args, make(**args)))
    small = dict(init_features=8, growth_rate=4, block_config=[2, 3, 2], bn_size=2)
    for dims, size in ((2, [3, 1, 32, 36]), (3, [2, 1, 32, 32, 36])):
        args = dict(spatial_dims=dims, in_channels=1, out_channels=3, **small)
        for train in (True, False):
            cases.append(net_case("densenet121", args, DenseNet(**args), size, train))
    args = dict(spatial_dims=2, in_channels=3, out_channels=5)
    cases.append(net_case("densenet121", args, DenseNet121(**args), [2, 3, 64, 64], False))
    for kind, make in (("resnet18", resnet18), ("resnet50", resnet50)):
        for dims, size in ((2, [2, 1, 32, 40]), (3, [2, 1, 16, 16, 20])):
            args = dict(spatial_dims=dims, n_input_channels=1, num_classes=4)
            ours = dict(spatial_dims=dims, in_channels=1, out_channels=4)
            # Not in training: so deep, and with few samples a statistic, torch's own float32
            # gradients differ from float64's by a tenth.
            cases.append(net_case(kind, ours, make(**args), size, False))
    return cases


text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, "nets": nets()}, indent=0)
(HERE / "classify.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
