"""Makes warp.json: MONAI's Warp and DVF2DDF on made images.

    python make_warp.py > warp.json      (monai 1.6.1)
"""
import json
import sys
import warnings

import monai
import numpy as np
import torch
from monai.networks.blocks import DVF2DDF, Warp

warnings.filterwarnings("ignore")


def wave(*shape, speed, size=1.0):
    n = int(np.prod(shape))
    return torch.from_numpy(size * np.sin(speed * np.arange(n)).reshape(shape)).float()


def flat(t):
    return [float(f"{v:.7g}") for v in t.flatten().tolist()]


cases = []
for extents in ((6, 5), (4, 3, 5)):
    image = wave(2, 2, *extents, speed=0.7)
    ddf = wave(2, len(extents), *extents, speed=1.9, size=1.6)
    for mode in ("bilinear", "nearest"):
        for padding in ("border", "zeros"):
            out = Warp(mode=mode, padding_mode=padding)(image, ddf)
            cases.append({"type": "warp", "extents": extents, "mode": mode, "padding_mode": padding,
                          "want": flat(out)})
    cases.append({"type": "dvf2ddf", "extents": extents, "num_steps": 5,
                  "want": flat(DVF2DDF(num_steps=5, padding_mode="zeros")(ddf))})
json.dump({"monai": monai.__version__, "cases": cases}, sys.stdout)
print()
