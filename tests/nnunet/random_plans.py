"""Plans of random data sets by nnU-Net itself, a JSON document a line.

    python random_plans.py COUNT SEED FOLDER [PLANNER ...]

FOLDER is for the files that nnU-Net's planners want to find. Each line holds "dataset" (dataset.json),
"fingerprint", "planner" and "plans" (nnU-Net's plans.json).
"""
import contextlib
import io
import json
import os
import random
import sys
from pathlib import Path

count, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).resolve()
wanted = sys.argv[4:] or ["default", "resenc_m", "resenc_l", "resenc_xl"]
for kind in ("raw", "preprocessed", "results"):
    (folder / kind).mkdir(parents=True, exist_ok=True)
    os.environ["nnUNet_" + kind] = str(folder / kind)
os.environ.setdefault("nnUNet_n_proc_DA", "1")

import torch
from nnunetv2.experiment_planning.experiment_planners.default_experiment_planner import ExperimentPlanner
from nnunetv2.experiment_planning.experiment_planners.residual_unets import residual_encoder_unet_planners as residual

planners = {
    "default": ExperimentPlanner,
    "resenc_m": residual.nnUNetPlannerResEncM,
    "resenc_l": residual.nnUNetPlannerResEncL,
    "resenc_xl": residual.nnUNetPlannerResEncXL,
}
# Planning builds networks by the hundred to count their outputs; weights that nobody draws take no time.
torch.nn.modules.conv._ConvNd.reset_parameters = lambda self: None
torch.nn.init.kaiming_normal_ = lambda weight, *_, **__: weight
# The image is not there; nnU-Net opens one only to choose a reader.
ExperimentPlanner.determine_reader_writer = lambda self: type("SimpleITKIO", (), {})


def random_dataset(draw):
    channels = draw.sample(["CT", "MRI", "T1", "T2", "PET", "noNorm", "rescale_to_0_1", "rgb_to_0_1", "zscore"],
                           draw.choice([1, 1, 1, 2, 4]))
    classes = draw.choice([1, 2, 3, 7, 20, 104])
    labels = {"background": 0}
    extra = {}
    if classes >= 2 and classes < 8 and draw.random() < 0.3:
        for i in range(classes):
            labels[f"region{i}"] = list(range(i + 1, classes + 1)) if i + 1 < classes else [classes]
        extra["regions_class_order"] = list(range(1, classes + 1))
    else:
        labels.update({f"class{i}": i + 1 for i in range(classes)})
    if draw.random() < 0.2:
        labels["ignore"] = classes + 1
    return {"channel_names": {str(i): c for i, c in enumerate(channels)}, "labels": labels,
            "file_ending": ".nii.gz", **extra}


def random_fingerprint(draw, dataset):
    n = draw.choice([1, 2, 3, 5, 10, 33, 100, 400])
    flat = draw.random() < 0.15
    base = [draw.choice([0.3, 0.5, 0.7, 0.9, 1, 1, 1.5, 2]) for _ in range(3)]
    if draw.random() < 0.5:
        base = [base[0]] * 3
    if draw.random() < 0.4:
        base[draw.randrange(3)] *= draw.choice([2, 3, 5, 8, 12])
    shape = [draw.choice([12, 30, 64, 100, 180, 256, 400, 512, 700]) for _ in range(3)]
    if draw.random() < 0.4:
        shape[base.index(max(base))] = draw.choice([5, 9, 16, 24, 40])
    spread = draw.choice([0, 0.02, 0.2, 0.5])
    spacings, shapes = [], []
    for _ in range(n):
        grow = [1 + spread * draw.uniform(-1, 1) for _ in range(3)]
        spacings.append([round(s * g, draw.choice([2, 4, 7])) for s, g in zip(base, grow)])
        shapes.append([max(1, round(x * (1 + spread * draw.uniform(-1, 1)))) for x in shape])
    if flat:
        spacings = [[999.0 * max(s[1:]), s[1], s[2]] for s in spacings]
        shapes = [[1, *s[1:]] for s in shapes]
    intensity = {"max": 1000.0, "mean": 100.0, "median": 90.0, "min": -100.0, "percentile_00_5": -50.0,
                 "percentile_99_5": 900.0, "std": 50.0}
    return {"spacings": spacings, "shapes_after_crop": shapes,
            "median_relative_size_after_cropping": draw.choice([1.0, 0.9, 0.75, 0.7499, 0.4]),
            "foreground_intensity_properties_per_channel":
                {str(c): intensity for c in range(len(dataset["channel_names"]))}}


def plan(name, dataset, fingerprint, planner):
    raw, prepared = folder / "raw" / name, folder / "preprocessed" / name
    for place in (raw / "imagesTr", raw / "labelsTr", prepared):
        place.mkdir(parents=True, exist_ok=True)
    (raw / "dataset.json").write_text(json.dumps(dataset))
    (prepared / "dataset_fingerprint.json").write_text(json.dumps(fingerprint))
    with contextlib.redirect_stdout(io.StringIO()):
        plans = planners[planner](name)
        plans.plan_experiment()
    return json.loads((prepared / (plans.plans_identifier + ".json")).read_text())


draw = random.Random(seed)
for i in range(count):
    name = f"Dataset{i % 900 + 1:03d}_random"
    dataset = random_dataset(draw)
    fingerprint = random_fingerprint(draw, dataset)
    dataset["numTraining"] = len(fingerprint["spacings"])
    planner = wanted[i % len(wanted)]
    for old in (folder / "preprocessed" / name).glob("*Plans.json"):
        old.unlink()
    try:
        plans = plan(name, dataset, fingerprint, planner)
    except Exception as e:  # what nnU-Net cannot plan is no case
        print(f"{name} {planner}: {type(e).__name__}: {e}", file=sys.stderr)
        continue
    print(json.dumps({"name": name, "dataset": dataset, "fingerprint": fingerprint, "planner": planner,
                      "plans": plans}), flush=True)
