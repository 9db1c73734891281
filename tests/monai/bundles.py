#!/usr/bin/env python3
"""Small bundles, shaped as the Model Zoo's, with random weights: MONAI's own run beside the graph
that `sluice new bundle` makes of them.

    MONAI_PYTHON tests/monai/bundles.py [BUILD]
    MONAI_PYTHON tests/monai/bundles.py BUILD --zoo MODELS [BUNDLE...]

Needs nibabel and pytorch-ignite beside what tests/monai/compare.sh installs. --zoo goes over the Model Zoo's own bundles
in the folder MODELS (of github.com/Project-MONAI/model-zoo) instead: see zoo.py.

Prints of each network the largest difference of probabilities and the share of voxels with the same
label; exits with 1 where a probability is more than 1e-4 off or a label of 10,000 differs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import nibabel as nib
import numpy as np
import torch
from monai.bundle import ConfigParser

NETWORKS = {
    "UNet": dict(channels=[8, 16, 32], strides=[2, 2], num_res_units=2, norm="batch"),
    "SegResNet": dict(init_filters=8, blocks_down=[1, 1], blocks_up=[1]),
    "DynUNet": dict(kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2], filters=[8, 16, 32]),
    "BasicUNet": dict(features=[8, 8, 16, 16, 32, 8]),
    "AttentionUnet": dict(channels=[8, 16, 32], strides=[2, 2]),
    "SwinUNETR": dict(feature_size=12, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4]),
}


def dictionary(name, keys, **params):
    return {"_target_": name + "d", "keys": keys, **params}


def config(network, params, folder):
    before = [dictionary("LoadImage", "image"), dictionary("EnsureChannelFirst", "image"),
              dictionary("Orientation", "image", axcodes="RAS"),
              dictionary("Spacing", "image", pixdim=[1.5, 1.5, 2.0], mode="bilinear"),
              dictionary("ScaleIntensityRange", "image", a_min=-57, a_max=164, b_min=0, b_max=1, clip=True),
              dictionary("EnsureType", "image")]
    save = dict(output_dir="@output_dir", separate_folder=False)
    after = [dictionary("Activations", "pred", softmax=True),
             dictionary("Invert", "pred", transform="@preprocessing", orig_keys="image", nearest_interp=False,
                        to_tensor=True),
             dictionary("SaveImage", "pred", output_postfix="prob", output_dtype="$np.float32", **save),
             dictionary("AsDiscrete", "pred", argmax=True),
             dictionary("SaveImage", "pred", output_postfix="label", output_dtype="$np.uint8", **save)]
    dims = {"in_channels": 1, "out_channels": 3, "spatial_dims": 3}
    return {
        "imports": ["$import glob", "$import os", "$import numpy as np"],
        "bundle_root": str(folder), "output_dir": "$@bundle_root + '/eval'",
        "datalist": "$list(sorted(glob.glob(@bundle_root + '/data/*.nii.gz')))",
        "device": "$torch.device('cpu')",
        "network_def": {"_target_": network, **dims, **params}, "network": "$@network_def.to(@device)",
        "preprocessing": {"_target_": "Compose", "transforms": before},
        "dataset": {"_target_": "Dataset", "data": "$[{'image': i} for i in @datalist]", "transform": "@preprocessing"},
        "dataloader": {"_target_": "DataLoader", "dataset": "@dataset", "batch_size": 1, "shuffle": False,
                       "num_workers": 0},
        "inferer": {"_target_": "SlidingWindowInferer", "roi_size": [64, 32, 32], "sw_batch_size": 2, "overlap": 0.5,
                    "mode": "gaussian"},
        "postprocessing": {"_target_": "Compose", "transforms": after},
        "handlers": [{"_target_": "CheckpointLoader", "load_path": "$@bundle_root + '/models/model.pt'",
                      "load_dict": {"model": "@network"}}],
        "evaluator": {"_target_": "SupervisedEvaluator", "device": "@device", "val_data_loader": "@dataloader",
                      "network": "@network", "inferer": "@inferer", "postprocessing": "@postprocessing",
                      "val_handlers": "@handlers"},
        "evaluating": ["$@evaluator.run()"],
    }


def write_volume(folder):
    """A few blobs on an oblique grid of uneven voxels."""
    at = np.stack(np.meshgrid(*[np.arange(n) for n in (40, 36, 24)], indexing="ij"))
    x = sum(200 * np.exp(-(((at - np.array(c).reshape(3, 1, 1, 1)) / s) ** 2).sum(0))
            for c, s in (((12, 14, 9), 7), ((26, 20, 14), 9), ((20, 30, 6), 4)))
    affine = np.array([[-1.2, 0.1, 0, 30], [0.1, 1.1, 0, -20], [0, 0, 2.5, 5], [0, 0, 0, 1]])
    x += np.random.default_rng(0).normal(0, 20, x.shape) - 60
    nib.save(nib.Nifti1Image(x.astype(np.float32), affine), folder / "data" / "case.nii.gz")


def saved(folder):
    files = [nib.load(next(folder.rglob(f"case_{kind}.nii.gz"))) for kind in ("prob", "label")]
    return files[0].affine, *(f.get_fdata() for f in files)


def compare(build, network, params, folder):
    for name in ("configs", "models", "data"):
        (folder / name).mkdir()
    write_volume(folder)
    made = config(network, params, folder)
    (folder / "configs" / "inference.json").write_text(json.dumps(made, indent=1))
    parser = ConfigParser(made)
    parser.get_parsed_content("imports")
    torch.manual_seed(0)
    net = parser.get_parsed_content("network_def", instantiate=True).eval()
    torch.save(net.state_dict(), folder / "models" / "model.pt")
    parser.get_parsed_content("evaluating")
    theirs = saved(folder / "eval")
    os.rename(folder / "eval", folder / "monai")
    for command in (["new", "bundle", str(folder), "-o", str(folder / "graph.json")],
                    ["run", str(folder / "graph.json"), "--quiet", "--no-out"]):
        subprocess.run([f"{build}/sluice", *command], check=True, stderr=subprocess.PIPE)
    ours = saved(folder / "eval")
    assert np.allclose(ours[0], theirs[0], atol=1e-4)
    apart = np.abs(ours[1] - theirs[1]).max()
    same = (ours[2] == theirs[2]).mean()
    print(f"{network:16} {apart:12.1e} {100 * same:9.3f} %", flush=True)
    return apart < 1e-4 and same > 0.9999


if __name__ == "__main__":
    if "--zoo" in sys.argv:
        import zoo
        sys.exit(not zoo.table(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[3]), sys.argv[4:]))
    print(f"{'network':16} {'probability':>12} {'labels':>11}")
    good = True
    for network, params in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            good &= compare(sys.argv[1] if len(sys.argv) > 1 else "build", network, params, pathlib.Path(folder))
    sys.exit(not good)
