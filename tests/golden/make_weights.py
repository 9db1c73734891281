"""Writes weights/*.pt: small files of torch.save(), in its forms, and two that no reader may follow.

Run with a Python that has torch and numpy; the results are kept in the repository:
    python tests/golden/make_weights.py
Every tensor holds sin(0.1 * i + its length), so a test knows what it reads.
"""
import collections
import os
import pathlib
import pickle
import zipfile

import numpy
import torch

OUT = pathlib.Path(__file__).parent / "weights"


def waves(*shape, dtype=torch.float32):
    n = 1
    for s in shape:
        n *= s
    return torch.sin(0.1 * torch.arange(n, dtype=torch.float64) + n).reshape(shape).to(dtype)


def state():
    s = collections.OrderedDict()
    s["conv.weight"] = torch.nn.Parameter(waves(3, 2, 3))
    s["conv.bias"] = waves(3, dtype=torch.bfloat16)
    s["half"] = waves(4, dtype=torch.float16)
    s["double"] = waves(2, 2, dtype=torch.float64)
    s["turned"] = waves(2, 3).t()                  # strides that are not its own
    s["part"] = waves(10)[3:7]                     # of a larger storage
    s["shared"] = s["part"]
    s["count"] = torch.tensor(7)
    s["flags"] = torch.tensor([True, False])
    s["none"] = torch.zeros(0, 3)
    s._metadata = {"": {"version": 1}}
    return s


class Evil:
    def __reduce__(self):
        return os.system, ("touch ran",)


OUT.mkdir(exist_ok=True)
torch.save(state(), OUT / "state.pt")
torch.save(state(), OUT / "old.pt", _use_new_zipfile_serialization=False)
torch.save(state(), OUT / "protocol5.pt", pickle_protocol=5)
# As MONAI's, Lightning's and nnU-Net's trainers save.
torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state().items()},
            "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}},
           OUT / "trainer.pt")
torch.save({"network_weights": state(), "best": numpy.float64(0.5), "trainer_name": "nnUNetTrainer",
            "path": pathlib.Path("a"), "log": {"x": [numpy.float32(1)]}}, OUT / "nnunet.pt")
torch.save({"net": state(), "ema": state()}, OUT / "two.pt")
torch.save(state(), OUT / "old4.pt", pickle_protocol=4, _use_new_zipfile_serialization=False)
torch.save({"best": torch.tensor(0.5), "net": state()}, OUT / "beside.pt")
torch.save({**state(), "conv._extra_state": {"scale": torch.tensor(2.0)}}, OUT / "extra.pt")
# What is refused: a view that repeats its storage, one that is negated, a type without readers.
torch.save({"rows": torch.zeros(1).expand(5)}, OUT / "repeated.pt")
torch.save({"minus": torch._neg_view(waves(3))}, OUT / "negated.pt")
torch.save({"count": torch.zeros(3, dtype=torch.uint16)}, OUT / "uint16.pt")
rows = numpy.array([[1, 0, -200], [2, 300, 4]])
torch.save({"rows": rows, "small": rows.clip(-100, 100).astype(numpy.int8), "real": rows[1] / 4, "columns": rows.T.copy(order="F")},
           OUT / "arrays.pt")
torch.save({"state_dict": state(), "callback": Evil()}, OUT / "evil.pt")
with zipfile.ZipFile(OUT / "evil_raw.pt", "w") as z:
    z.writestr("evil_raw/data.pkl", pickle.dumps(Evil(), protocol=2))

# A network of MONAI's as nn.DataParallel names its weights.
from monai.networks.nets import UNet  # noqa: E402

net = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=[2, 4], strides=[2])
for parameter in net.parameters():
    parameter.data = waves(*parameter.shape)
torch.save({"epoch": 1, "state_dict": torch.nn.DataParallel(net).state_dict()}, OUT / "unet.pt")

small = torch.nn.Sequential(torch.nn.Conv3d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Dropout(0.2),
                            torch.nn.Conv3d(4, 2, 1))
for parameter in small.parameters():
    parameter.data = waves(*parameter.shape)
torch.jit.save(torch.jit.script(small), OUT / "script.pt")
