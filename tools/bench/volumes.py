"""Reading and resampling of one real volume beside MONAI and SimpleITK, one thread each.

usage: volumes.py IMAGE.nii.gz LABEL.nii.gz PYTHON_WITH_MONAI_AND_SIMPLEITK [--rounds 5] [--out F]

IMAGE and LABEL are of the same grid (a pair of the quickstart's data/brain). Arms are interleaved;
best of five in a process, medians of the rounds. A case is the image alone but load (both files).
Needs `ninja -C build bench_transforms`.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import time

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
MM, TURN = [1.5, 1.5, 2.0], 0.3  # spacing; radians about the first axis
CASES = {
    "load": ("load_image", {}),
    "orientation": ("orientation", {"keys": "image", "axcodes": "RAS"}),
    "spacing linear": ("spacing", {"keys": "image", "pixdim": MM, "mode": "bilinear"}),
    "spacing nearest": ("spacing", {"keys": "label", "pixdim": MM, "mode": "nearest"}),
    "affine linear": ("rotate", {"keys": "image", "angle": [TURN, 0, 0], "mode": "bilinear"}),
    "affine nearest": ("rotate", {"keys": "label", "angle": [TURN, 0, 0], "mode": "nearest"}),
    "smooth, sigma 1": ("gaussian_smooth", {"keys": "image", "sigma": 1.0}),
    "normalize": ("normalize_intensity", {"keys": "image"}),
    "crop foreground": ("crop_foreground", {"keys": ["image", "label"], "source_key": "image"}),
}


def best(work):
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


def sluice(a):
    nodes = json.dumps([{"type": t, "params": p} for t, p in CASES.values()])
    text = subprocess.run([f"{root}/build/bench_transforms", a.image, a.label], input=nodes,
                          text=True, check=True, stdout=subprocess.PIPE).stdout
    return dict(zip(CASES, json.loads(text)))


def monai(a):
    import warnings
    warnings.filterwarnings("ignore")
    import torch
    from monai import transforms as mt
    torch.set_num_threads(1)
    keys = ["image", "label"]
    load = mt.Compose([mt.LoadImaged(keys), mt.EnsureChannelFirstd(keys)])
    data = load({"image": a.image, "label": a.label})
    chain = {
        "orientation": mt.Orientationd("image", axcodes="RAS"),
        "spacing linear": mt.Spacingd("image", pixdim=MM, mode="bilinear"),
        "spacing nearest": mt.Spacingd("label", pixdim=MM, mode="nearest"),
        "affine linear": mt.Rotated("image", angle=[TURN, 0, 0], mode="bilinear"),
        "affine nearest": mt.Rotated("label", angle=[TURN, 0, 0], mode="nearest"),
        "smooth, sigma 1": mt.GaussianSmoothd("image", sigma=1.0),
        "normalize": mt.NormalizeIntensityd("image"),
        "crop foreground": mt.CropForegroundd(keys, source_key="image")}
    found = {"load": best(lambda: load({"image": a.image, "label": a.label}))}
    for name, transform in chain.items():
        found[name] = best(lambda: transform(dict(data)))
    return found


def simple_itk(a):
    import SimpleITK as sitk
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    image = sitk.ReadImage(a.image, sitk.sitkFloat32)
    label = sitk.ReadImage(a.label, sitk.sitkUInt8)

    def spacing(x, how):
        size = [round(n * s / t) for n, s, t in zip(x.GetSize(), x.GetSpacing(), MM)]
        return sitk.Resample(x, size, sitk.Transform(), how, x.GetOrigin(), MM, x.GetDirection())

    def rotate(x, how):
        turn = sitk.Euler3DTransform()
        turn.SetCenter(x.TransformContinuousIndexToPhysicalPoint([(n - 1) / 2 for n in x.GetSize()]))
        turn.SetRotation(TURN, 0, 0)
        size = list(x.GetSize())  # the whole turned volume, as keep_size=False has it
        c, s = math.cos(TURN), math.sin(TURN)
        size[1:] = [round(size[1] * c + size[2] * s), round(size[1] * s + size[2] * c)]
        return sitk.Resample(x, size, turn, how, x.GetOrigin(), x.GetSpacing(), x.GetDirection())

    return {
        "load": best(lambda: (sitk.GetArrayFromImage(sitk.ReadImage(a.image, sitk.sitkFloat32)),
                              sitk.GetArrayFromImage(sitk.ReadImage(a.label, sitk.sitkFloat32)))),
        "orientation": best(lambda: sitk.DICOMOrient(image, "LPS")),
        "spacing linear": best(lambda: spacing(image, sitk.sitkLinear)),
        "spacing nearest": best(lambda: spacing(label, sitk.sitkNearestNeighbor)),
        "affine linear": best(lambda: rotate(image, sitk.sitkLinear)),
        "affine nearest": best(lambda: rotate(label, sitk.sitkNearestNeighbor)),
        "smooth, sigma 1": best(lambda: sitk.DiscreteGaussian(image, 1.0, useImageSpacing=False)),
        "normalize": best(lambda: sitk.Normalize(image))}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("image")
    p.add_argument("label")
    p.add_argument("python")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--out")
    p.add_argument("--arm", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.arm:
        print(json.dumps({"MONAI": monai, "SimpleITK": simple_itk}[a.arm](a)))
        return
    rows = {"Sluice": [], "MONAI": [], "SimpleITK": []}
    for _ in range(a.rounds):
        rows["Sluice"].append(sluice(a))
        for arm in ("MONAI", "SimpleITK"):
            text = subprocess.run(
                [a.python, __file__, a.image, a.label, "-", "--arm", arm],
                check=True, stdout=subprocess.PIPE, text=True).stdout
            rows[arm].append(json.loads(text.splitlines()[-1]))
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)
    print("| ms, one thread | Sluice | MONAI | SimpleITK | Sluice / best |\n|---|---|---|---|---|")
    for case in CASES:
        found = {arm: statistics.median(r[case] for r in got) for arm, got in rows.items()
                 if case in got[0]}
        cells = " | ".join(f"{found[x]:.2f}" if x in found else "-" for x in rows)
        ratio = found["Sluice"] / min(v for k, v in found.items() if k != "Sluice")
        print(f"| {case} | {cells} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
