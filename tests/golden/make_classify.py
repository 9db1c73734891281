"""Writes classify.json: how MONAI 1.6.1 names the parameters of its large classifiers.

Run with a Python that has both; the results are kept in the repository:
    python tests/golden/make_classify.py
Their outputs and gradients, of small ones, are with make_nets.py.
"""
import hashlib
import json
import pathlib

import torch
from monai.networks.nets import DenseNet121, DenseNet169, DenseNet201, DenseNet264, resnet18, resnet50

HERE = pathlib.Path(__file__).parent


def digest(names):
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def net_case(kind, args, net):
    names = [n for n, _ in net.named_parameters()]
    buffers = [n for n, _ in net.named_buffers()]
    return dict(type=kind, params=args, count=sum(p.numel() for p in net.parameters()),
                parameters=len(names), parameters_sha256=digest(names),
                buffers=len(buffers), buffers_sha256=digest(buffers))


def nets():
    cases = []
    for name, make in (("121", DenseNet121), ("169", DenseNet169), ("201", DenseNet201), ("264", DenseNet264)):
        for dims in (2, 3):
            args = dict(spatial_dims=dims, in_channels=1, out_channels=6)
            cases.append(net_case("densenet" + name, args, make(**args)))
    for kind, make in (("resnet18", resnet18), ("resnet50", resnet50)):
        for dims in (2, 3):
            args = dict(spatial_dims=dims, n_input_channels=1, num_classes=4)
            cases.append(net_case(kind, dict(spatial_dims=dims, in_channels=1, out_channels=4), make(**args)))
    return cases


text = json.dumps({"monai": "1.6.1", "torch": torch.__version__, "nets": nets()}, indent=0)
(HERE / "classify.json").write_text(text.replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
