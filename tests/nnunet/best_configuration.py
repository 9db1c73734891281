"""nnU-Net's own choice between configurations, of validations as Sluice's runs leave them.

    python best_configuration.py DATA RECIPE FOLDER

DATA is a data set in nnU-Net's layout, RECIPE what `sluice new segmentation --recipe nnunet` wrote
with the folds' runs in it; FOLDER is for the copies in nnU-Net's layout. Prints what
find_best_configuration found.
"""
import contextlib
import io
import json
import multiprocessing.pool
import os
import pickle
import sys
import types
from pathlib import Path

data, recipe, folder = (Path(a).resolve() for a in sys.argv[1:4])
for kind in ("raw", "preprocessed", "results"):
    (folder / kind).mkdir(parents=True, exist_ok=True)
    os.environ["nnUNet_" + kind] = str(folder / kind)
# Threads in place of processes: nothing is imported anew.
threads = types.SimpleNamespace(Pool=multiprocessing.pool.ThreadPool)
multiprocessing.get_context = lambda *_: threads

import numpy as np
import SimpleITK as sitk
from nnunetv2.evaluation.find_best_configuration import find_best_configuration
from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

name = "Dataset901_made"
dataset = json.loads((data / "dataset.json").read_text())
labels, truths = [], folder / "preprocessed" / name / "gt_segmentations"
truths.mkdir(parents=True)
for file in (data / "labelsTr").iterdir():
    sitk.WriteImage(sitk.Cast(sitk.ReadImage(str(file)), sitk.sitkUInt8), str(truths / file.name))

models = []
for place in sorted(recipe.glob("*__*__*")):
    trainer, plans_name, configuration = place.name.split("__")
    if not (recipe / configuration / "each.json").exists():
        continue
    plans = json.loads((place / "plans.json").read_text()) | {"dataset_name": name}
    (folder / "preprocessed" / name / (plans_name + ".json")).write_text(json.dumps(plans))
    out = folder / "results" / name / place.name
    out.mkdir(parents=True)
    (out / "plans.json").write_text(json.dumps(plans))
    (out / "dataset.json").write_text(json.dumps(dataset))
    models.append({"plans": plans_name, "configuration": configuration, "trainer": trainer})
    for fold, run in enumerate(json.loads((recipe / configuration / "each.json").read_text())["runs"]):
        to = out / f"fold_{fold}" / "validation"
        to.mkdir(parents=True)
        for file in (recipe / configuration / run["folder"] / "validation").glob("*_probabilities.nii"):
            case = file.name.removesuffix("_probabilities.nii")
            labels, about = SimpleITKIO().read_seg(str(file.with_name(case + ".nii")))
            SimpleITKIO().write_seg(labels[0].astype(np.uint8), str(to / (case + ".nii")), about)
            np.savez(to / (case + ".npz"), probabilities=sitk.GetArrayFromImage(sitk.ReadImage(str(file))))
            (to / (case + ".pkl")).write_bytes(pickle.dumps(about))

order = ["2d", "3d_fullres", "3d_lowres", "3d_cascade_fullres"]
models.sort(key=lambda m: order.index(m["configuration"]))
with contextlib.redirect_stdout(io.StringIO()):
    found = find_best_configuration(name, models, folds=(0, 1, 2), num_processes=1)
best = found["best_model_or_ensemble"]
_, rules = pickle.loads(Path(best["postprocessing_file"]).read_bytes())
as_list = lambda x: [int(i) for i in x] if isinstance(x, (list, tuple)) else [int(x)]
print(json.dumps({"all_results": found["all_results"],
                  "selected_model_or_models": best["selected_model_or_models"],
                  "result_on_crossval_pre_pp": best["result_on_crossval_pre_pp"],
                  "result_on_crossval_post_pp": best["result_on_crossval_post_pp"],
                  "postprocessing_kwargs": [as_list(r["labels_or_regions"]) for r in rules]}, indent=1))
