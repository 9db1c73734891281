"""Holds every network against a living MONAI 1.6.1, in random configurations, through `sluice apply`:
names and shapes, outputs, the gradient of the input and of every parameter.

    PYTHON_WITH_MONAI tests/monai/networks.py [--sluice build/sluice] [--cases 20] [--seed 0] [TYPE...]

`apply` draws the weights, MONAI loads them by name (strict=True), both answer the same images in
training mode without dropout, in float32. A row a network: cases, the largest error of outputs
(relative to their largest value; at most 1e-4), of the gradients of parameters and of the input (relative to a
tensor's norm, where that is not rounding alone; at most 1e-3). Then how far MONAI's own gradients in float32 are from
those in float64, and, where ours are further from MONAI's than 1e-3, how far both of them move when all numbers move
by as much as rounding does, the worst of 12 such draws: a gradient that is rounding (a bias before a norm, a weight
whose scale a norm takes away) or jumps (at an activation's kink, at equal maxima) may differ from float64's by twice
as much. Exit code 1 where an error is larger.
"""
import json
import pathlib
import random
import subprocess
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file

from held import held

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
import further_networks  # noqa: E402
import network_cases  # noqa: E402

CASES = network_cases.CASES | further_networks.CASES
torch.set_num_threads(1)
RENAMED = dict(num_classes="out_channels", n_input_channels="in_channels")


# ---- one case -------------------------------------------------------------------------------------

def listed(y):
    if not isinstance(y, (list, tuple)):
        return [y]
    return [t for part in y for t in listed(part)]


# All by name; what a network has by two names (DynUNet's skip_layers), by the one that we have.
def load(net, state):
    own = net.state_dict(keep_vars=True)
    ours = {id(t): state[n] for n, t in own.items() if n in state}
    net.load_state_dict(state | {n: ours[id(t)] for n, t in own.items() if n not in state}, strict=True)


# What begins as 0 or 1 (biases, scales and statistics of norms) drawn anew: in evaluation, exact zeros behind them would
# be where activations have no derivative, and what a network multiplies by 0 would say nothing.
def redrawn(state, generator):
    for t in state.values():
        if t.is_floating_point() and (t == t.flatten()[0]).all() and t.flatten()[0] in (0, 1):
            t += 0.3 * torch.rand(t.shape, generator=generator) - (0.1 if t.flatten()[0] == 0 else 0)
    return {n: torch.zeros_like(t) if n.endswith("num_batches_tracked") else t for n, t in state.items()}


def relative(ours, theirs, floor):
    return float((ours - theirs).norm() / max(float(theirs.norm()), floor))


def one(sluice, kind, seed, folder):
    make, args, size, *options = CASES[kind](random.Random(f"{kind} {seed}"))
    options = options[0] if options else {}
    train, more = options.get("train", True), options.get("more", {})
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, generator=generator)
    params = {RENAMED.get(k, k): v for k, v in args.items() if k != "pretrained"} | options.get("ours", {})
    call = [sluice, "apply", kind, f"--seed={options.get('seed', seed)}", *(["--train"] if train else [])]
    call += [f"--param={k}={json.dumps(v)}" for k, v in params.items()]
    key = options.get("key", "image")
    numpy.save(folder / "x.npy", x.numpy())
    call.append(f"--in={key}={folder}/x.npy")
    for name, values in more.items():
        numpy.save(folder / f"{name}.npy", numpy.array(values, dtype=numpy.float32))
        call.append(f"--in={name}={folder}/{name}.npy")
    # Twice: the weights and the outputs' sizes come first.
    weights = folder / "weights.safetensors"
    outputs = ["pred", *(f"pred_{k}" for k in range(1, options.get("outputs", 1)))]
    call += [f"--out={o}={folder}/{o}.npy" for o in outputs]
    subprocess.run([*call, f"--out=state={weights}"], check=True)
    state = redrawn(load_file(weights), generator)
    save_file(state, weights)
    gs = [torch.randn(numpy.load(folder / f"{o}.npy").shape, generator=generator) for o in outputs]
    for o, g in zip(outputs, gs):
        numpy.save(folder / f"grad_{o}.npy", g.numpy())
    subprocess.run([*call, f"--param=weights={weights}", *(f"--grad={o}={folder}/grad_{o}.npy" for o in outputs),
                    f"--out-grad={key}={folder}/dx.npy", f"--out-grad=state={folder}/ds.safetensors"], check=True)
    ys = [torch.from_numpy(numpy.load(folder / f"{o}.npy")) for o in outputs]

    # `moved`: every number of the network and of its input by a relative 2^-20 at most, as rounding does it.
    # MONAI computes some networks in float32 alone.
    def monai(dtype, moved=None):
        dtype = torch.float32 if options.get("single") else dtype
        net = make(**args)
        load(net, state)
        net.to(dtype).train(options.get("peer_train", train))
        leaf = x.to(dtype, copy=True)
        if moved is not None:
            draws = torch.Generator().manual_seed(moved)
            for t in (leaf, *(p.data for p in net.parameters())):
                t *= 1 + 2 ** -20 * (2 * torch.rand(t.shape, generator=draws, dtype=dtype) - 1)
        leaf.requires_grad_()
        theirs = listed(net(leaf, *(torch.tensor(v).to(dtype) for v in more.values())))
        sum((t * g).sum() for t, g in zip(theirs, gs)).backward()
        grads = {n: p.grad for n, p in net.named_parameters() if p.grad is not None}
        return [t.detach() for t in theirs], grads, leaf.grad

    theirs, grads, input_grad = monai(torch.float32)
    output = max(float((y - t).abs().max() / t.abs().max()) for y, t in zip(ys, theirs))
    ours = load_file(folder / "ds.safetensors"), torch.from_numpy(numpy.load(folder / "dx.npy"))
    largest = max(float(v.norm()) for v in grads.values())

    def apart(one, other):  # of parameters, of the input
        return (max(relative(one[0][n], v, 1e-4 * largest) for n, v in other[0].items()), relative(one[1], other[1], 1e-12))

    exact = monai(torch.float64)[1:]
    found = apart(ours, (grads, input_grad))
    own = apart((grads, input_grad), exact)
    # A gradient jumps where an activation's input or a maximum's margin is nearer to 0 than rounding is: then MONAI's
    # own moves as far.
    moved = [0.0, 0.0]
    if max(found) > 1e-3:
        for k in range(12):
            there = monai(torch.float64, k)[1:]
            moved = [max(pair) for pair in zip(moved, apart(there, exact))]
            own = [max(pair) for pair in zip(own, apart(monai(torch.float32, k)[1:], there))]
    errors = apart(ours, exact)
    bad = output > 1e-4 or any(f > 1e-3 and e > 2 * max(o, m) for f, e, o, m in zip(found, errors, own, moved))
    return bad, (output, *found, max(own), max(moved)), args


if __name__ == "__main__":
    sys.exit(held("network", ["outputs", "parameters", "input", "MONAI", "moved"], CASES, one, 24, 20))
