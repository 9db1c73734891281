"""Trained checkpoints go both ways between nnU-Net and Sluice, and predict the same there.

    python checkpoints.py SLUICE TASK04 FOLDER [--cases 30] [--steps 250] [--features 32,64,128,256] [--reuse]

The Python has nnunetv2 2.8.1; TASK04 is a folder in the decathlon's layout; FOLDER is for all that is made; it is
new, or --reuse takes nnU-Net's trained model that a run before has left there.
nnU-Net's own trainer trains its own plan on fold 0 of the first cases; its checkpoint_final.pth predicts the fold's
validation images there and here. Then Sluice trains the graph of `new segmentation --recipe nnunet`, writes its weights
as a checkpoint, and both predict with that. Prints the share of equal voxels; exit 1 below 99.9 % of any image (nnU-Net
adds the logits of mirrored images and of windows in float16, in another order), and where few steps have taught a
network nothing but background, which shows nothing. --features, one a stage, changes both plans: narrow networks learn
as well in a fraction of the time.
"""
import argparse
import contextlib
import json
import multiprocessing.pool
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("sluice", type=Path)
parser.add_argument("data", type=Path)
parser.add_argument("folder", type=Path)
parser.add_argument("--cases", type=int, default=30)
parser.add_argument("--steps", type=int, default=250)
parser.add_argument("--features", type=lambda text: [int(n) for n in text.split(",")])
parser.add_argument("--reuse", action="store_true")
given = parser.parse_args()
sluice, work = str(given.sluice.resolve()), given.folder.resolve()
work.mkdir(parents=True, exist_ok=given.reuse)
for kind in ("raw", "preprocessed", "results"):
    (work / kind).mkdir(exist_ok=given.reuse)
    os.environ["nnUNet_" + kind] = str(work / kind)
for left in work.iterdir():  # of a run before
    if left.name not in ("raw", "preprocessed", "results"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
os.environ["nnUNet_compile"] = "f"
os.environ["nnUNet_n_proc_DA"] = "1"
# Threads in place of processes: nothing is imported anew.
threads = types.SimpleNamespace(Pool=multiprocessing.pool.ThreadPool)
multiprocessing.get_context = lambda *_: threads

import numpy as np
import SimpleITK as sitk
import torch
from nnunetv2.experiment_planning.plan_and_preprocess_api import extract_fingerprints, plan_experiments, preprocess
from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

name, configuration = "Dataset004_Part", "3d_fullres"
model = "nnUNetTrainer__nnUNetPlans__" + configuration


def copy_cases(raw):
    about = json.loads((given.data / "dataset.json").read_text())
    for folder in ("imagesTr", "labelsTr"):
        (raw / folder).mkdir(parents=True)
    for case in about["training"][:given.cases]:
        label = Path(case["label"]).name
        shutil.copy(given.data / case["image"], raw / "imagesTr" / label.replace(".nii.gz", "_0000.nii.gz"))
        shutil.copy(given.data / case["label"], raw / "labelsTr" / label)
    (raw / "dataset.json").write_text(json.dumps({
        "channel_names": about["modality"], "labels": {v: int(k) for k, v in about["labels"].items()},
        "numTraining": given.cases, "file_ending": ".nii.gz"}))


def architecture(plans):
    return plans["configurations"][configuration]["architecture"]["arch_kwargs"]


def train_there():
    extract_fingerprints([4], num_processes=1, show_progress_bar=False)
    plan_experiments([4])
    preprocess([4], configurations=(configuration,), num_processes=(1,), show_progress_bar=False)
    prepared = work / "preprocessed" / name
    os.environ["nnUNet_n_proc_DA"] = "0"  # not before: the planner fails on 0
    plans = json.loads((prepared / "nnUNetPlans.json").read_text()) | {"continue_training": False}
    architecture(plans)["features_per_stage"] = given.features or architecture(plans)["features_per_stage"]
    trainer = nnUNetTrainer(plans, configuration, 0, json.loads((prepared / "dataset.json").read_text()),
                            torch.device("cpu"))
    trainer.num_epochs, trainer.num_val_iterations_per_epoch = 2, 1
    trainer.num_iterations_per_epoch = given.steps // 2
    trainer.run_training()


def predict_there(folder, images, out):
    out.mkdir(exist_ok=True)
    predictor = nnUNetPredictor(device=torch.device("cpu"), perform_everything_on_device=False, allow_tqdm=False)
    predictor.initialize_from_trained_model_folder(str(folder), use_folds=(0,), checkpoint_name="checkpoint_final.pth")
    predictor.predict_from_files_sequential(str(images), str(out))


def here(*arguments):
    subprocess.run([sluice, *map(str, arguments)], check=True, cwd=work, stdout=sys.stderr)


def predict_here(folder, images, out):
    here("new", "prediction", images, "--weights", folder, "-o", f"{out}.json")
    here("run", f"{out}.json", "--quiet", "--out", out)


def read(file):
    return sitk.GetArrayFromImage(sitk.ReadImage(str(file)))


def compare(what, theirs, ours):
    worst, foreground = 1.0, 0
    for file in sorted(theirs.glob("*.nii.gz")):
        a, b = read(file), read(ours / "segmentations" / file.name)
        worst = min(worst, float(np.mean(a == b)))
        foreground += int(np.count_nonzero(a))
    print(f"{what}: at least {100 * worst:.4f} % of an image's voxels equal, {foreground} voxels of foreground",
          flush=True)
    return worst >= 0.999 and foreground > 0


raw = work / "raw" / name
trained = work / "results" / name / model
with contextlib.redirect_stdout(sys.stderr):
    if not (trained / "fold_0" / "checkpoint_final.pth").exists():
        copy_cases(raw)
        train_there()
    images = work / "images"
    images.mkdir(exist_ok=True)
    for case in json.loads((work / "preprocessed" / name / "splits_final.json").read_text())[0]["val"]:
        shutil.copy(raw / "imagesTr" / f"{case}_0000.nii.gz", images)
    predict_there(trained, images, work / "theirs_there")
    predict_here(trained, images, work / "theirs_here")
good = compare("nnU-Net's checkpoint", work / "theirs_there", work / "theirs_here")

with contextlib.redirect_stdout(sys.stderr):
    here("new", "segmentation", raw, "--recipe", "nnunet", "-o", "recipe")
    written = work / "recipe" / model
    plans = json.loads((written / "plans.json").read_text())
    batch = plans["configurations"][configuration]["batch_size"]
    if given.features:
        architecture(plans)["features_per_stage"] = given.features
        (written / "plans.json").write_text(json.dumps(plans))
    here("run", f"recipe/{configuration}.json", "--quiet", "--out", "run", "--set", "vars.epochs=2", "--set",
         f"nodes.draw.num_samples={batch * given.steps // 2}", "--set", f"nodes.o_draw.num_samples={batch}", "--set",
         f"models.net.features_per_stage={architecture(plans)['features_per_stage']}")
    here("convert", "run", written / "fold_0" / "checkpoint_final.pth")
    predict_there(written, images, work / "ours_there")
    predict_here(written, images, work / "ours_here")
good = compare("Sluice's checkpoint", work / "ours_there", work / "ours_here") and good
sys.exit(0 if good else 1)
