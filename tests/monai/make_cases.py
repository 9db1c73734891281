#!/usr/bin/env python3
"""Writes the cases that tests/nodes/test_monai.cpp runs.

    make_cases.py DIR --count N [--seed S]   random inputs: DIR/cases.json and .npy files
    make_cases.py --golden FILE              small inputs inside FILE, one of GOLDEN's in tests/golden

Needs MONAI 1.6.1; tests/monai/compare.sh makes the environment.
"""
import argparse
import json
import pathlib
import re
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import monai  # noqa: E402

import cases  # noqa: E402
import field_cases  # noqa: E402
import further_cases  # noqa: E402
import intensity_cases  # noqa: E402
import inverse_cases  # noqa: E402
import label_cases  # noqa: E402
import pathology_cases  # noqa: E402
import spatial_cases  # noqa: E402

GOLDEN = {"transforms.json": spatial_cases.MAKERS + intensity_cases.MAKERS + label_cases.MAKERS,
          "more_transforms.json": field_cases.MAKERS,
          "further_transforms.json": further_cases.MAKERS,
          "inverse_transforms.json": inverse_cases.MAKERS,
          "pathology_transforms.json": pathology_cases.MAKERS}


def tensor_of(t):
    a = torch.as_tensor(t).detach().cpu().numpy()
    return a.astype(np.uint8) if a.dtype == bool else np.ascontiguousarray(a)


def affine_of(t):
    m = getattr(t, "affine", None)
    if m is None or m.shape != (4, 4):
        return {}
    return {"affine": [float(f"{v:.12g}") for v in np.asarray(m, np.float64).flatten()]}


class Files:
    """Tensors as .npy files beside cases.json."""

    def __init__(self, folder):
        self.folder, self.count = pathlib.Path(folder), 0

    def __call__(self, t, expected):
        name = f"{self.count}.npy"
        self.count += 1
        np.save(self.folder / name, tensor_of(t))
        return {"file": name, **affine_of(t)}


class Numbers:
    """Tensors inside the document: inputs once each, of what is expected about every tenth value
    to eight digits."""

    def __init__(self):
        self.inputs = {}

    def __call__(self, t, expected):
        a = tensor_of(t)
        every = max(1, a.size // 10) | 1 if expected else 1
        flat = a.flatten()[::every].tolist()
        values = [v if isinstance(v, int) else float(f"{v:.7g}") for v in flat]
        if expected:
            return {"shape": list(a.shape), "every": every, "values": values, **affine_of(t)}
        tensor = {"dtype": str(a.dtype), "shape": list(a.shape), "values": values, **affine_of(t)}
        key = json.dumps(tensor)
        name = self.inputs.setdefault(key, (f"t{len(self.inputs)}", tensor))[0]
        return {"input": name}

    def document(self):
        return dict(self.inputs.values())


def write_case(case, store):
    inputs = {k: store(t, False) for k, t in case["in"].items()}
    outs = []
    for out in case["out"]:
        outs.append({k: store(t, True) for k, t in out.items()})
        if not case["affine"]:
            for o in outs[-1].values():
                o.pop("affine", None)
    plain = ("type", "params", "tolerance", "ties")
    return {**{k: case[k] for k in plain}, "in": inputs, "out": outs}


def make(makers, count, seed, span, store):
    made = []
    for maker in makers:
        for n in range(count):
            rng = np.random.default_rng([seed, n, sum(map(ord, maker.__name__))])
            for case in maker(cases.Inputs(rng, span)):
                made.append(write_case(case, store))
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--golden")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    assert monai.__version__ == "1.6.1", monai.__version__
    head = {"made_by": "make_cases.py", "monai": monai.__version__}
    if a.golden:
        store = Numbers()
        made = make(GOLDEN[pathlib.Path(a.golden).name], 1, 11, (3, 5), store)
        document = {**head, "inputs": store.document(), "cases": made}
        text = json.dumps(document, indent=1)
        text = re.sub(r"\[[^][{}]*\]", lambda m: re.sub(r"\s+", " ", m[0]), text)
        pathlib.Path(a.golden).write_text(text + "\n")
        return
    document = {**head, "cases": make(sum(GOLDEN.values(), []), a.count, a.seed, (6, 22), Files(a.folder))}
    (pathlib.Path(a.folder) / "cases.json").write_text(json.dumps(document))


main()
