"""Holds the first steps of whole graphs against MONAI's and nnU-Net's own: network, loss, optimizer and schedule
together. Both sides begin with the same weights and take the same batches, which the graph prepares; after that each
goes by itself.

    PYTHON_WITH_MONAI tests/monai/curves.py [--sluice build/sluice] [--data TASK04] [GRAPH...]

TASK04 is the decathlon's Task04_Hippocampus (else that of SLUICE_TEST_DATA). A row a graph: the first and the last
loss of ours in float32, and the largest difference of any step from the peer in float64, relative to that step's loss;
then the largest between any two of the peer in float64, in float32, and in float32 with weights that every step moves
by a rounding. The first is at most 1e-4, or twice the second: a bias before a norm has no gradient but rounding's, and
Adam takes whole steps along it. Exit code 1 where it is larger.
The interpreter needs monai 1.6.1, nibabel and, for nnunet, nnunetv2 2.8.1.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from monai import losses, optimizers
from monai.networks import blocks, nets
from monai.networks.utils import one_hot
from safetensors.torch import save_file

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tools/python"))
torch.set_num_threads(2)
BOUND, EPOCHS, BATCHES = 1e-4, 2, 10
STEPS = EPOCHS * BATCHES


class Training:
    """The peer's side: a network, loss(net, batch), an optimizer, whose rate is lr(the share of epochs done)."""

    def __init__(self, net, loss, optimizer, lr=None, clip=None):
        self.net, self.loss, self.optimizer, self.lr, self.clip = net.train(), loss, optimizer, lr, clip

    def weights(self):
        """Under the names that ours has: nnU-Net's modules are known under several."""
        state = self.net.state_dict()
        again = ("all_modules", "decoder.encoder")
        return {name: tensor.clone() for name, tensor in state.items() if not any(part in name for part in again)}

    def make_double(self):
        self.net.double()
        for module in self.net.modules():  # the grid of MONAI's AffineHead is neither parameter nor buffer
            for name, value in list(vars(module).items()):
                if torch.is_tensor(value) and value.dtype == torch.float32:
                    setattr(module, name, value.double())

    def move_by_rounding(self):
        with torch.no_grad():
            for p in self.net.parameters():
                p *= 1 + torch.finfo(torch.float32).eps * torch.randn_like(p)

    def step(self, batch):
        if self.lr:
            self.optimizer.param_groups[0]["lr"] = self.lr(batch.epoch / EPOCHS)
        loss = self.loss(self.net, batch)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.optimizer.step()
        return loss.item()


def adam(net, lr):
    return torch.optim.Adam(net.parameters(), lr)


def cosine(base):
    return lambda done: base * 0.5 * (1 + numpy.cos(numpy.pi * done))


def shipped(name, root_of_data, **more):
    """A graph of graphs/ with what is set in it."""
    return str(root / f"graphs/{name}.json"), {"run.epochs": EPOCHS, "vars.root": root_of_data, **more}


# ---- graphs: file, what is set in it, the node whose batches both take, and the peer's training ----

def hippocampus(data, folder):
    net = nets.UNet(3, 1, 3, channels=[16, 32, 64], strides=[2, 2], num_res_units=1)
    loss = losses.DiceCELoss(to_onehot_y=True, softmax=True)
    changed = {"+nodes.train.limit": 80, "models.net.precision": "float32"}
    return (*shipped("hippocampus", data, **changed), "batch",
            Training(net, lambda n, b: loss(n(b["image"]), b["label"]), adam(net, 0.005), cosine(0.005)))


def cifar10(data, folder):
    """The network of PyTorch's tutorial."""
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = torch.nn.Conv2d(3, 6, 5), torch.nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = (torch.nn.Linear(*n) for n in ((400, 120), (120, 84), (84, 10)))

        def forward(self, x):
            for conv in (self.conv1, self.conv2):
                x = torch.max_pool2d(conv(x).relu(), 2)
            return self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())
    net = Net()
    changed = {"+nodes.train.limit": 40, "+nodes.test.limit": 40}
    return (*shipped("cifar10", f"{data}/../cifar-10-batches-bin", **changed), "pre/batch",
            Training(net, lambda n, b: torch.nn.functional.cross_entropy(n(b["image"]), b["label"]),
                     torch.optim.SGD(net.parameters(), 0.001, momentum=0.9)))


def spleen_regular(data, folder):
    net = nets.UNet(3, 1, 3, channels=[32, 64, 128, 256, 512], strides=[2] * 4, num_res_units=2, norm="batch")
    loss = losses.DiceLoss(to_onehot_y=True, softmax=True)
    changed = {"+nodes.train.limit": 20, "vars.patch": [16, 32, 16], "vars.roi": [16, 32, 16], "models.net.dropout": 0,
               "models.net.out_channels": 3,
               "parts.prepare.nodes.scale.a_min": 0, "parts.prepare.nodes.scale.a_max": 1000, "parts.prepare.nodes.grid.pixdim": 1}
    return (*shipped("spleen_regular", data, **changed), "batch",
            Training(net, lambda n, b: loss(n(b["image"]), b["label"]), adam(net, 2e-4)))


def diffusion(data, folder):
    net = nets.DiffusionModelUNet(2, 1, 1, channels=[32, 64, 64], attention_levels=[False, False, True],
                                  num_res_blocks=1, num_head_channels=64)
    changed = {"+nodes.train.limit": 4, "vars.batch": 8}
    return (*shipped("diffusion", data, **changed), "noisy",
            Training(net, lambda n, b: torch.nn.functional.mse_loss(n(b["noisy"], b["timesteps"]), b["target"]),
                     adam(net, 1e-3), cosine(1e-3)))


def register_affine2d(data, folder):
    """Not from its own first weights, which leave every pixel where it is: there linear interpolation has a kink, and
    what its gradient is hangs on rounding."""
    net, warp = nets.GlobalNet([64, 64], 2, 2, 16, 3), blocks.Warp("bilinear", "border")
    with torch.no_grad():
        net.output_block.fc.bias += torch.tensor([0.02, 0.01, 0.3, -0.01, 0.03, 0.4])

    def loss(n, b):
        return torch.nn.functional.mse_loss(warp(b["moving"], n(b["both"])), b["image"])
    changed = {"+nodes.train.limit": 160}
    return *shipped("register_affine2d", data, **changed), "pairs/batch", Training(net, loss, adam(net, 2e-5))


def register_hippocampus(data, folder):
    backbone = nets.VoxelMorphUNet(3, 2, 16, [16, 32, 32, 32, 32, 32], [16], norm="instance")
    net = nets.VoxelMorph(backbone, integration_steps=7, half_res=True)
    warp, bending = blocks.Warp("bilinear", "border"), losses.BendingEnergyLoss()
    dice = losses.DiceLoss(to_onehot_y=False, include_background=False)

    def loss(n, b):
        moved, ddf = n(b["moving_image"], b["fixed_image"])
        return (torch.nn.functional.mse_loss(moved, b["fixed_image"]) + 0.05 * bending(ddf) +
                dice(warp(b["moving_label"], ddf), one_hot(b["fixed_label"], 3)))
    changed = {"+nodes.train.limit": 20}
    return *shipped("register_hippocampus", data, **changed), "pairs/batch", Training(net, loss, adam(net, 0.001))


def brats(data, folder):
    """Four contrasts of hippocampi with MSD's numbering of tumours, since Task01 is not at hand."""
    import nibabel
    listed = json.load(open(f"{data}/dataset.json"))
    made = {"name": "made", "modality": dict(enumerate("abcd")), "labels": dict(enumerate("0123")),
            "training": [], "validation": []}
    for number, item in enumerate(listed["training"][:12]):
        image, label = (nibabel.load(f"{data}/{item[key]}") for key in ("image", "label"))
        x, y = (numpy.asarray(i.dataobj).astype(numpy.float32) for i in (image, label))
        inner = (y > 0) & numpy.all([numpy.roll(y > 0, s, a) for a in range(3) for s in (-1, 1)], axis=0)
        contrasts = [x, x.max() - x, x ** 0.5, numpy.abs(numpy.gradient(x, axis=0))]
        for name, what in (("image", numpy.stack(contrasts, -1)), ("label", (y + inner).astype(numpy.uint8))):
            nibabel.Nifti1Image(what, image.affine).to_filename(f"{folder}/{name}{number}.nii.gz")
        split = "training" if number < 10 else "validation"
        made[split].append({key: f"{key}{number}.nii.gz" for key in ("image", "label")})
    json.dump(made, open(f"{folder}/dataset.json", "w"))
    net = nets.SegResNet(init_filters=16, in_channels=4, out_channels=3, blocks_down=[1, 2, 2, 4], blocks_up=[1, 1, 1])
    loss = losses.DiceFocalLoss(sigmoid=True, squared_pred=True, batch=True)
    changed = {"vars.patch": [32, 48, 32], "vars.roi": [32, 48, 32], "models.net.precision": "float32"}
    return (*shipped("brats", folder, **changed), "batch",
            Training(net, lambda n, b: loss(n(b["image"]), b["label"].float()),
                     optimizers.Novograd(net.parameters(), 1e-4), cosine(1e-4)))


def nnunet(data, folder):
    from batchgeneratorsv2.transforms.utils.deep_supervision_downsampling import DownsampleSegForDSTransform
    from dynamic_network_architectures.architectures.unet import PlainConvUNet
    from dynamic_network_architectures.initialization.weight_init import InitWeights_He
    from nnunetv2.training.loss.compound_losses import DC_and_CE_loss
    from nnunetv2.training.loss.deep_supervision import DeepSupervisionWrapper
    from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss
    net = PlainConvUNet(1, 4, [32, 64, 128, 256], torch.nn.Conv3d, 3, [1, 2, 2, 2], [2] * 4, 3, [2] * 3,
                        conv_bias=True, norm_op=torch.nn.InstanceNorm3d, norm_op_kwargs={"eps": 1e-5, "affine": True},
                        nonlin=torch.nn.LeakyReLU, nonlin_kwargs={"inplace": True}, deep_supervision=True)
    net.apply(InitWeights_He(1e-2))
    terms = DC_and_CE_loss({"batch_dice": False, "smooth": 1e-5, "do_bg": False, "ddp": False}, {}, weight_ce=1,
                           weight_dice=1, dice_class=MemoryEfficientSoftDiceLoss)
    heads = DeepSupervisionWrapper(terms, numpy.array([2 / 3, 1 / 3, 0]))
    smaller = DownsampleSegForDSTransform([[1, 1, 1], [0.5] * 3, [0.25] * 3])

    def loss(n, b):
        labels = [smaller(segmentation=label.float())["segmentation"] for label in b["label"]]
        return 1 + heads(n(b["image"]), [torch.stack(of) for of in zip(*labels)])  # nnU-Net's counts Dice from 0 down
    sgd = torch.optim.SGD(net.parameters(), 0.01, momentum=0.99, nesterov=True, weight_decay=3e-5)
    changed = {"vars.epochs": EPOCHS, "nodes.draw.num_samples": 6 * BATCHES, "nodes.o_draw.num_samples": 6}
    return (recipe(data, folder), changed, "batch",
            Training(net, loss, sgd, lambda done: 0.01 * (1 - done) ** 0.9, clip=12))


def recipe(data, folder):
    graph = f"{folder}/plan/3d_fullres.json"
    if not os.path.exists(graph):
        subprocess.run([os.environ["SLUICE"], "new", "segmentation", data, "--recipe", "nnunet", "-o",
                        f"{folder}/plan"], check=True, capture_output=True)
    return graph


GRAPHS = {graph.__name__: graph for graph in (cifar10, hippocampus, spleen_regular, diffusion, register_affine2d,
                                              register_hippocampus, brats, nnunet)}


# ---- both sides ----------------------------------------------------------------------------------

def our_losses(graph, changes, out):
    words = [w for path, value in changes.items() for w in ("--set", f"{path}={json.dumps(value)}")]
    subprocess.run([os.environ["SLUICE"], "run", graph, "--quiet", "--overwrite", "--out", out, *words], check=True)
    rows = map(json.loads, open(f"{out}/metrics.jsonl"))
    return [row["value"] for row in rows if row.get("log") == "step.loss"]


class Double:
    """A batch whose float32 is float64."""

    def __init__(self, batch):
        self.batch, self.epoch = batch, batch.epoch

    def __getitem__(self, key):
        tensor = self.batch[key]
        return tensor.double() if tensor.dtype == torch.float32 else tensor


def peer_losses(training, graph, changes, node, arm):
    import sluice
    torch.set_default_dtype(torch.float64 if arm == "float64" else torch.float32)
    if arm == "float64":
        training.make_double()
    losses = []
    with sluice.batches(graph, node, set=changes) as loader:
        for batch in loader:
            if arm == "moved":
                training.move_by_rounding()
            losses.append(training.step(Double(batch) if arm == "float64" else batch))
    torch.set_default_dtype(torch.float32)
    return losses


def held(name, data):
    """Losses of ours, and of the peer's arms: in float64, in float32, and that moved by roundings."""
    with tempfile.TemporaryDirectory() as folder:
        peers = []
        for arm in ("float64", "float32", "moved"):
            torch.manual_seed(1)
            graph, changes, node, training = GRAPHS[name](data, folder)
            if arm == "float32":
                save_file(training.weights(), f"{folder}/first.safetensors")
            peers.append(peer_losses(training, graph, changes, node, arm))
        ours = our_losses(graph, changes | {"+models.net.weights": f"{folder}/first.safetensors"}, f"{folder}/run")
    return [losses[:STEPS] for losses in (ours, *peers)]


def apart(some, others):
    return max(abs(x - y) / abs(y) for x, y in zip(some, others, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", default=str(root / "build/sluice"))
    parser.add_argument("--data", default=f"{os.environ.get('SLUICE_TEST_DATA', 'data')}/Task04_Hippocampus")
    parser.add_argument("names", nargs="*", default=list(GRAPHS))
    a = parser.parse_args()
    os.environ["SLUICE"] = os.path.abspath(a.sluice)
    failed = False
    print(f"{'graph':<24}{'steps':>6}{'first':>10}{'last':>10}{'ours':>10}{'peer':>10}")
    for name in a.names:
        ours, *peers = held(name, os.path.abspath(a.data))
        far, rounding = apart(ours, peers[0]), max(apart(x, y) for x, y in itertools.combinations(peers, 2))
        failed |= not far <= max(BOUND, 2 * rounding) or len(ours) < STEPS
        print(f"{name:<24}{len(ours):>6}{ours[0]:>10.5f}{ours[-1]:>10.5f}{far:>10.1e}{rounding:>10.1e}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
