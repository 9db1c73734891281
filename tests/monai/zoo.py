"""The bundles of MONAI's Model Zoo, on small data that are made here, with random weights: which translate and run, and how
far their outputs are from MONAI's own run of the bundle. `bundles.py --zoo MODELS` prints the table.

A bundle is copied, its configuration changed in the ids that CASES names (data, sizes that a test has no time for), and
both take the same one. MONAI runs in a process of its own, as scripts of bundles are modules of the same name.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

CASES = {}
TASKS = ("inference", "train", "inference_autoencoder", "train_autoencoder")  # configurations' names


def case(*bundles):
    def add(function):
        CASES.update(dict.fromkeys(bundles, function))
        return function

    return add


# ---- data ------------------------------------------------------------------------------------------

def blobs(size, seed=0, low=-200.0, high=300.0):
    """A few blobs in noise, and the label 1, 2, ... of each."""
    random = np.random.default_rng(seed)
    at = np.stack(np.meshgrid(*[np.arange(n) for n in size], indexing="ij")).astype(np.float32)
    image, label = np.full(size, low, np.float32), np.zeros(size, np.uint8)
    for k in range(3):
        centre = [n * random.uniform(0.25, 0.75) for n in size]
        near = sum(((a - c) / (0.16 * n)) ** 2 for a, c, n in zip(at, centre, size))
        image += (high - low) * np.exp(-near)
        label[near < 1] = k + 1
    return image + random.normal(0, (high - low) / 20, size).astype(np.float32), label


def write(path, array, spacing=(1.0, 1.0, 1.0)):
    import nibabel as nib
    path.parent.mkdir(parents=True, exist_ok=True)
    affine = np.diag([*spacing, 1.0])
    affine[:2] *= -1  # as most scanners have it
    nib.save(nib.Nifti1Image(array, affine), path)


def volumes(folder, names, size, spacing=(1.0, 1.0, 1.0), labels=1, **how):
    """images/NAME.nii.gz and labels/NAME.nii.gz of `folder`."""
    for k, name in enumerate(names):
        image, label = blobs(size, k, **how)
        write(folder / "images" / f"{name}.nii.gz", image, spacing)
        write(folder / "labels" / f"{name}.nii.gz", np.minimum(label, labels), spacing)


def datalist(path, keys, folder="."):
    """A decathlon's list of the same cases under each key."""
    pairs = [dict(image=f"{folder}/images/{n}.nii.gz", label=f"{folder}/labels/{n}.nii.gz") for n in "ab"]
    path.write_text(json.dumps({k: [dict(image=p["image"]) for p in pairs[:1]] if k.startswith("test") else pairs
                                for k in keys}))


def pictures(folder, names, size, labels=None):
    """NAME.png of `folder`, and of `labels` those of the nucleus in the middle."""
    from PIL import Image
    random = np.random.default_rng(0)
    for path in [folder] + ([labels] if labels else []):
        path.mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.fromarray(random.integers(0, 256, size, dtype=np.uint8)).save(folder / f"{name}.png")
        if labels:
            near = sum(((np.arange(n) - n / 2) ** 2).reshape([-1, 1] if a == 0 else [1, -1])
                       for a, n in enumerate(size[:2]))
            Image.fromarray((near < 400).astype(np.uint8)).save(labels / f"{name}.png")


# ---- bundles: ids that change, by task ------------------------------------------------------------

@case("renalStructures_UNEST_segmentation", "wholeBrainSeg_Large_UNEST_segmentation")
def unest(folder):
    volumes(folder / "data", "ab", (96, 96, 96), labels=3)
    lists = {key: f"$sorted(glob.glob(@dataset_dir + '/{sub}/*.nii.gz'))"
             for key, sub in (("images", "images"), ("labels", "labels"))}
    train = {**lists, "train#dataset#data": "$[{'image': i, 'label': l} for i, l in zip(@images[:1], @labels[:1])]",
             "validate#dataset#data": "$[{'image': i, 'label': l} for i, l in zip(@images[1:], @labels[1:])]",
             "val_interval": 1}
    if "renal" in folder.name:
        train["train#random_transforms#0#num_samples"] = 1
    return dict(inference={"datalist": "$sorted(glob.glob(@dataset_dir + '/images/*.nii.gz'))[:1]"}, train=train)


@case("multi_organ_segmentation", "pancreas_ct_dints_segmentation")
def dints(folder):
    import torch
    volumes(folder / "data", "ab", (64, 64, 64), labels=2)
    datalist(folder / "data.json", ("training", "validation", "testing"))
    random = np.random.default_rng(1)
    paths = np.ones((12, 10), int)
    codes = random.integers(1, 5, (12, 10))
    torch.save(dict(node_a=np.ones((13, 4), int), arch_code_a=paths, arch_code_c=codes),
               folder / "models" / "search_code_18590.pt")
    shared = {"data_list_file_path": str(folder / "data.json"), "dints_space#device": "$torch.device('cpu')",
              "arch_ckpt": "$torch.load(@arch_ckpt_path, map_location=torch.device('cpu'))",
              "dints_space#channel_mul": 0.25}
    crop = {"train#random_transforms#0#spatial_size": [32, 32, 32], "validate#inferer#roi_size": [32, 32, 32],
            "val_interval": 1}
    return dict(inference={**shared, "inferer#roi_size": [48, 48, 48]}, train={**shared, **crop})


@case("pathology_nuclei_classification")
def nuclei(folder):
    pictures(folder / "data" / "Test" / "Images", ["a", "b"], (128, 128, 3), folder / "data" / "Test" / "Labels")
    pictures(folder / "data" / "Train" / "Images", ["a", "b"], (128, 128, 3), folder / "data" / "Train" / "Labels")
    return dict(inference={"evaluator#amp": False}, train=None)


@case("pathology_nuclick_annotation")
def nuclick(folder):
    pictures(folder / "data" / "Test" / "Images", ["a"], (160, 150, 3))
    (folder / "data" / "Test" / "Centroids").mkdir()
    (folder / "data" / "Test" / "Centroids" / "a.txt").write_text("[[70, 40]]")
    return dict(inference={"evaluator#amp": False}, train=None)


@case("pathology_tumor_detection")
def tumor(folder):
    import tifffile
    random = np.random.default_rng(0)
    at = np.stack(np.meshgrid(np.arange(1024), np.arange(1024), indexing="ij"))
    near = np.exp(-(((at - 500) / 200) ** 2).sum(0))[..., None]
    slide = np.clip(240 - near * np.array([60, 170, 70]) + random.normal(0, 4, (1024, 1024, 3)), 0, 255).astype(np.uint8)
    for sub in ("testing", "training"):
        (folder / "data" / sub / "images").mkdir(parents=True)
        with tifffile.TiffWriter(folder / "data" / sub / "images" / "s.tif") as out:
            for level in range(7):
                out.write(slide[::2 ** level, ::2 ** level], tile=(256, 256), photometric="rgb", subfiletype=int(level > 0))
    (folder / "testing.csv").write_text("s\n")
    rows = "".join(f"s,{x},{y},{','.join(str((x + k) % 2) for k in range(9))}\n" for x, y in ((500, 500), (401, 600)))
    for name in ("training", "validation"):
        (folder / f"{name}.csv").write_text(rows)
    # NumPy 2 takes no arrays of one number for numbers, as MONAI's ProbMapProducer has them.
    flat = {"_target_": "Lambdad", "keys": "pred", "func": "$lambda x: x.reshape(-1).numpy()"}
    return dict(monai={"postprocessing#transforms#2": flat},
                inference={"wsi_reader": "tifffile", "evaluator#amp": False, "network_def#pretrained": False},
                train={"wsi_reader": "tifffile", "train#dataloader#batch_size": 2, "validate#dataloader#batch_size": 2})


@case("spleen_ct_segmentation", "wholeBody_ct_segmentation", "swin_unetr_btcv_segmentation")
def tested_images(folder):
    volumes(folder / "data", "ab", (96, 80, 48) if "swin" not in folder.name else (96, 96, 96), spacing=(1.7, 1.4, 2.2))
    shutil.copytree(folder / "data" / "images", folder / "data" / "imagesTs")
    size = {} if "swin" in folder.name else {"inferer#roi_size": [48, 48, 48]}
    more = {"modelname": "model.pt"} if "whole" in folder.name else {}
    if "swin" in folder.name:  # MONAI 1.6.1 refuses it
        more = {"network_def": {"_target_": "SwinUNETR", "spatial_dims": 3, "in_channels": 1, "out_channels": 14,
                                "feature_size": 12, "use_checkpoint": False},
                "preprocessing#transforms#0#reader": "NibabelReader"}
    return dict(inference={"datalist": "$sorted(glob.glob(@dataset_dir + '/imagesTs/*.nii.gz'))[:1]", "evaluator#amp": False,
                           **size, **more}, train=None)


NARROW = [4, 8, 8, 8, 16, 16]  # filters of a DynUNet of six levels


@case("spleen_deepedit_annotation")
def deepedit(folder):
    volumes(folder / "data", "ab", (80, 72, 48), spacing=(1.7, 1.4, 2.2))
    size = {"spatial_size": [64, 64, 64]}
    lists = {part: f"$sorted(glob.glob(@dataset_dir + '/{part}/*.nii.gz'))" for part in ("images", "labels")}
    pairs = "$[{'image': i, 'label': l} for i, l in zip(@images[%s], @labels[%s])]"
    return dict(inference={"datalist": "$sorted(glob.glob(@dataset_dir + '/images/*.nii.gz'))[:1]", "evaluator#amp": False,
                           **size, "preprocessing_transforms#0#reader": "NibabelReader"},
                train={**size, **lists, "network_def#filters": NARROW, "train#dataset#data": pairs % (":1", ":1"),
                       "validate#dataset#data": pairs % ("1:", "1:")})


@case("pediatric_abdominal_ct_segmentation")
def pediatric(folder):
    volumes(folder / "data", "ab", (72, 66, 60), spacing=(1.5, 1.5, 3.0), labels=3)
    datalist(folder / "list.json", ("training", "validation"), "data")
    shared = {"data_list_file_path": str(folder / "list.json"), "network_def#filters": NARROW}
    return dict(inference={**shared, "handlers#0#load_path": str(folder / "models" / "model.pt"), "evaluator#amp": False,
                           "inferer": {"_target_": "SlidingWindowInferer", "roi_size": [64, 64, 64], "sw_batch_size": 2},
                           "preprocessing#transforms#0#reader": "NibabelReader"},
                train={**shared, "spatial_size": [64, 64, 64], "train#random_transforms#0#num_samples": 2, "val_interval": 1})


@case("renalStructures_CECT_segmentation")
def phases(folder):
    for k, name in enumerate(("12", "22-", "32-", "merged")):
        image, label = blobs((72, 64, 56), k)
        write(folder / "data" / "case" / f"{name}.nii.gz", label if name == "merged" else image)
    return dict(inference={"inferer#roi_size": [48, 48, 48], "network_def#init_filters": 8, "evaluator#amp": False}, train=None)


@case("pathology_nuclei_segmentation_classification")
def hovernet(folder):
    pictures(folder / "data", ["a"], (180, 170, 3))
    return dict(inference={"evaluator#amp": False, "num_cpus": 0}, train=None)


@case("classification_template")
def classes(folder):
    pictures(folder / "data", "abcdef", (64, 64))
    (folder / "samples.json").write_text(json.dumps([{"image": str(folder / "data" / f"{n}.png"), "label": k % 4}
                                                     for k, n in enumerate("abcdef")]))
    return dict(inference={"test_json": str(folder / "samples.json")}, train=None)


@case("breast_density_classification")
def density(folder):
    pictures(folder / "data", ["a", "b"], (160, 200, 3))
    entries = [{"image": str(folder / "data" / f"{n}.png"), "label": [1, 0, 0, 0]} for n in "ab"]
    (folder / "list.json").write_text(json.dumps({"Test": entries}))
    # What torchvision does to its own weights' input, without these weights.
    own = {"network_def#pretrained": False, "network_def#transform_input": True, "network_def#init_weights": False}
    return dict(monai=own, inference={"data#filename": str(folder / "list.json"), "evaluator#amp": False}, train=None)


@case("mednist_gan")
def generator(_):
    latents = "$[torch.rand(@latent_size, generator=torch.Generator().manual_seed(i)) for i in range(@num_samples)]"
    return dict(monai={"dataset#data": latents}, levels=1, inference={"num_samples": 3}, train=None)


@case("brats_mri_generative_diffusion", "brats_mri_axial_slices_generative_diffusion")
def diffusion(folder):
    flat = "axial" in folder.name
    latents = [1, 16, 16] if flat else [8, 8, 12, 8]
    noise = f"$torch.randn([1] + {latents}, generator=torch.Generator().manual_seed(0))"
    narrow = {"autoencoder_def#channels": [16, 32, 32], "autoencoder_def#norm_num_groups": 8,
              "network_def#channels": [16, 32, 32, 32] if flat else [16, 32, 32], "network_def#norm_num_groups": 8,
              "network_def#num_head_channels": [0, 16, 16, 16] if flat else [0, 16, 16]}
    task = folder / "data" / "Task01_BrainTumour"
    names = [f"{k}" for k in range(5)]
    for k, name in enumerate(names):
        channels = [blobs((48, 40, 36), 4 * k + c, 0.0, 300.0)[0] for c in range(4)]
        write(task / "imagesTr" / f"{name}.nii.gz", np.stack(channels, -1), (1.1, 1.1, 1.1))
    words = dict.fromkeys(("name", "description", "reference", "licence", "tensorImageSize"), "")
    (task / "dataset.json").write_text(json.dumps(dict(words, modality={}, labels={}, numTraining=5, numTest=0, training=[
        dict(image=f"./imagesTr/{n}.nii.gz", label=f"./imagesTr/{n}.nii.gz") for n in names], test=[])))
    autoencoder = {k: v for k, v in narrow.items() if k.startswith("autoencoder")}
    size = [32, 32] if flat else [32, 32, 32]
    # One slice, as which of several is drawn; MONAI's saver would take an axis of the image for its channels, and its
    # network draws about the latent image's mean.
    one = {"infer_patch_size": size, "preprocessing_transforms#6#roi_size": [*size, 1]} if flat else {"infer_patch_size": size}
    slices = {"train_batch_size_slice": 3} if flat else {"perceptual_loss_def#fake_3d_ratio": 0.1}
    mean = f"$@autoencoder.reconstruct(@input_img)[0{', 0' if flat else ''}]"
    own = {"inference": {"noise": noise}, "inference_autoencoder": {
        "recon_img": mean, **({} if flat else {"run#1": "$@saver_orig(@input_img[0])"})}}
    both = {"inference": {"network_def": "model.pt", "autoencoder_def": "model_autoencoder.pt"},
            "inference_autoencoder": {"autoencoder_def": "model_autoencoder.pt"}}
    renamed = {"0_synimg_sample.png": "synimg_sample.png",
               "2_orig_img_sample.png": "orig_img_sample.png", "2_recon_img_sample.png": "recon_img_sample.png"}
    return dict(monai=own, weights=both, names=renamed, train=None,
                inference={**narrow, "latent_shape": latents, "output_postfix": "sample",
                           "set_timesteps": "$@noise_scheduler.set_timesteps(num_inference_steps=6)"},
                inference_autoencoder={**autoencoder, **one, **({"output_postfix": "sample"} if flat else {})},
                train_autoencoder={**autoencoder, **slices, "train_patch_size": size})


@case("prostate_mri_anatomy")
def prostate(folder):
    volumes(folder / "data", "a", (96, 96, 24), spacing=(0.6, 0.6, 3.0))
    (folder / "data" / "test.csv").write_text("t2\nimages/a.nii.gz\n")
    return dict(inference={"dataset_dir": str(folder / "data") + "/", "inferer#roi_size": [64, 64, 32], "evaluator#amp": False},
                train=None)


@case("ventricular_short_axis_3label")
def ventricular(folder):
    write(folder / "data" / "a.nii.gz", blobs((96, 80, 6))[0])
    slices = [blobs((64, 64), k) for k in range(10)]
    np.savez(folder / "data" / "allimages3label.npz", images=np.stack([s[0] for s in slices]),
             segs=np.stack([s[1] for s in slices]))
    return dict(inference={"inferer#roi_size": [64, 64]}, train={"num_iters": 8, "batch_size": 4, "num_substeps": 2})


@case("endoscopic_tool_segmentation")
def tools(folder):
    from PIL import Image
    pictures(folder / "data" / "test" / "a", ["1"], (160, 200, 3))
    Image.open(folder / "data" / "test" / "a" / "1.png").save(folder / "data" / "test" / "a" / "1.jpg")
    return dict(inference={"evaluator#amp": False}, train=None)


@case("endoscopic_inbody_classification")
def inbody(folder):
    pictures(folder / "data", ["a", "b"], (160, 200, 3))
    (folder / "samples.json").write_text(json.dumps([{"image": str(folder / "data" / f"{n}.png"), "label": 0} for n in "ab"]))
    return dict(inference={"test_json": str(folder / "samples.json")}, train=None)


@case("segmentation_template")
def template(folder):
    volumes(folder / "data", "ab", (64, 48, 48))
    return dict(inference={"dataset_dir": str(folder / "data" / "images"), "file_pattern": "*.nii*"}, train=None)


@case("brats_mri_segmentation")
def brats(folder):
    for k in range(4):
        write(folder / "data" / f"{k}.nii.gz", blobs((64, 56, 48), k)[0])
    (folder / "data.json").write_text(json.dumps({"testing": [{"image": [f"{k}.nii.gz" for k in range(4)]}]}))
    return dict(inference={"data_list_file_path": str(folder / "data.json"), "inferer#roi_size": [48, 48, 48],
                           "evaluator#amp": False}, train=None)


@case("maisi_ct_generative")
def maisi(folder):
    import torch
    from monai.apps.generation.maisi.networks.controlnet_maisi import ControlNetMaisi
    from monai.apps.generation.maisi.networks.diffusion_model_unet_maisi import DiffusionModelUNetMaisi
    random = np.random.default_rng(0)
    for name in "ab":  # latents of four channels, labels of four times their size
        write(folder / "data" / f"{name}.nii.gz", random.normal(0, 1, (8, 8, 8, 4)).astype(np.float32))
        label = blobs((32, 32, 32))[1]
        write(folder / "data" / f"{name}_label.nii.gz", np.where(label == 1, 129, label).astype(np.uint8))
    entries = [dict(image=f"{n}.nii.gz", label=f"{n}_label.nii.gz", fold=k, top_region_index=[0, 1, 0, 0],
                    bottom_region_index=[0, 0, 1, 0], spacing=[1.0, 1.0, 1.5]) for k, n in enumerate("ab")]
    (folder / "list.json").write_text(json.dumps(dict(training=entries)))
    small = dict(num_channels=[32, 32], attention_levels=[False, True], num_head_channels=[0, 32])
    shared = dict(small, spatial_dims=3, in_channels=4, num_res_blocks=2)
    told = {f"include_{of}_input": True for of in ("top_region_index", "bottom_region_index", "spacing")}
    net = DiffusionModelUNetMaisi(**shared, **told, out_channels=4)
    torch.nn.init.normal_(net.out[2].conv.weight, std=0.1)  # it begins with zeros, which no gradient passes
    control = ControlNetMaisi(**shared, conditioning_embedding_in_channels=8, conditioning_embedding_num_channels=[8, 32, 64])
    torch.save(dict(unet_state_dict=net.state_dict(), scale_factor=torch.tensor(1.0)), folder / "models" / "net.pt")
    torch.save(dict(controlnet_state_dict=control.state_dict()), folder / "models" / "controlnet.pt")
    sizes = {f"{of}_def#{k}": v for of in ("diffusion_unet", "controlnet") for k, v in small.items()}
    return dict(inference=None, train={**sizes, "data_list_file_path": str(folder / "list.json"), "scale_factor": 1.0,
                                       "trained_diffusion_path": str(folder / "models" / "net.pt"),
                                       "trained_controlnet_path": str(folder / "models" / "controlnet.pt")})


# What turns the fixed image is given, as draws are others; MONAI's files have a number by the order that it draws.
@case("mednist_reg")
def registration(folder):
    from monai.data import Dataset, ShuffleBuffer
    from PIL import Image
    names = [f"{k:06}" for k in range(6)]
    (folder / "data").mkdir()
    for k, name in enumerate(names):
        Image.fromarray(blobs((64, 64), k, 20.0, 220.0)[0].clip(0, 255).astype(np.uint8)).save(folder / "data" / f"{name}.png")
    files, turned = "$list(sorted(glob.glob(@dataset_dir + '/*.png')))", dict(
        _target_="monai.transforms.Affine", rotate_params=0.2, translate_params=[3, -2], mode="bilinear", padding_mode="border", image_only=True)
    order = list(ShuffleBuffer(Dataset(names[1:4]), seed=2))
    renamed = {f"{n}_{p}.png": f"{n}_{p}_{order.index(n)}.png" for n in names[1:4] for p in ("moving", "fixed", "pred")}
    return dict(names=renamed, levels=1, inference={"datalist": files + "[1:4]", "image_aug": [turned]},
                train={"datalist": files + "[:5]", "val_datalist": files + "[3:]", "data_loader#batch_size": 2,
                       "val#data_loader#batch_size": 2})


@case("valve_landmarks")
def landmarks(folder):
    slices = [blobs((256, 256), k)[0] for k in range(6)]
    marks = np.zeros((6, 256, 256), np.int32)
    for k, label in enumerate((10, 15, 20, 25, 30, 35, 100, 150, 200, 250)):
        marks[:, 40 + 15 * k, 200 - 12 * k] = label
    write(folder / "data" / "a.nii.gz", np.stack(slices[:3], -1)[:, :, None])
    np.savez(folder / "data" / "valves.npz", trainImgs=np.stack(slices), trainLMImgs=marks, testImgs=np.stack(slices[:3]),
             testLMImgs=marks[:3])
    narrow = {"network_def#channels": [4, 8, 12, 16, 20], "num_iters": 7, "batch_size": 2, "num_workers": 0}
    return dict(inference={}, train={**narrow, "dataset_file": str(folder / "data" / "valves.npz")})


@case("vista3d")
def vista(folder):
    volumes(folder / "data", "a", (56, 48, 40), spacing=(1.5, 1.5, 1.8))
    net = "$monai.networks.nets.vista3d132(encoder_embed_dim=16, in_channels=@input_channels)"
    asked = {"image": str(folder / "data" / "images" / "a.nii.gz"), "label_prompt": [2, 3]}
    return dict(inference={"network_def": net, "patch_size": [32, 32, 32], "input_dict": f"${asked}",
                           "evaluator#amp": False}, train=None)


@case("lung_nodule_ct_detection")
def nodules(folder):
    data, size = folder / "data", (60, 56, 44)
    volumes(data, "a", (72, 64, 48))  # larger than a window
    volumes(data, "bcd", size)
    random = np.random.default_rng(2)

    def boxes():  # centres and extents in mm: the images' first two axes grow to the left and back
        return [[float(random.uniform(0.3, 0.7) * n) for n in size] + [9.0, 11.0, 7.0] for _ in range(3)]

    cases = [dict(image=f"images/{n}.nii.gz", box=boxes(), label=[0, 0, 0]) for n in "abcd"]
    (folder / "list.json").write_text(json.dumps(dict(training=cases, validation=[dict(image=c["image"]) for c in cases[:2]])))
    shared = {"data_list_file_path": str(folder / "list.json")}
    (folder / "eval").mkdir()  # MONAI's saver wants it
    inference = {**shared, "infer_patch_size": [64, 64, 48], "dataloader#num_workers": 0}
    train = {**shared, "patch_size": [32, 32, 16], "val_patch_size": [64, 64, 48], "batch_size": 2, "val_interval": 1,
             "train#dataset#data": "$@train_datalist[: int(0.5 * len(@train_datalist))]",
             "validate#dataset#data": "$@train_datalist[int(0.5 * len(@train_datalist)): ]"}
    return dict(inference=inference, train=train)


# ---- running --------------------------------------------------------------------------------------

def configuration(folder, task):
    return next(folder / "configs" / (task + end) for end in (".json", ".yaml") if
                (folder / "configs" / (task + end)).exists())


def parser_of(folder, task):
    from monai.bundle import ConfigParser
    parser = ConfigParser()
    parser.read_config(str(configuration(folder, task)))
    for key, value in json.loads((folder / f"{task}.sets.json").read_text()).items():
        parser[key] = value
    return parser


def monai(folder, task):
    """MONAI's own run of the bundle in `folder`, with the weights that are there."""
    import torch
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    np.product = np.prod  # which a script wants and NumPy 2 lacks
    parser = parser_of(folder, task)
    parser.get_parsed_content("imports", default=None)
    torch.manual_seed(0)
    name = "network_def" if "network_def" in parser.get() else "network"
    for name, file in (json.loads((folder / "weights.json").read_text()) or {name: "model.pt"}).items():
        net = parser.get_parsed_content(name, instantiate=True)
        for p in net.parameters():  # a diffusion model's last ones begin as zeros
            if p.dim() > 1 and not p.any():
                torch.nn.init.normal_(p, std=0.05)
        torch.save(net.state_dict(), folder / "models" / file)
    parser = parser_of(folder, task)
    for key in ("imports", "initialize", "run", "evaluating", "eval", "inferring"):
        if key in parser.get():
            parser.get_parsed_content(key)
    if not (folder / "eval").exists():  # it only measures
        metrics = parser.get_parsed_content("evaluator").state.metrics
        (folder / "metrics.json").write_text(json.dumps({k: float(v) for k, v in metrics.items()}))


def compared(ours, theirs, levels=0):
    """The files of two folders: worst difference, smallest share of equal values. `levels`: how far apart equal whole
    numbers may be, of pictures whose fractions are cut off."""
    import nibabel as nib
    from PIL import Image
    names = [{str(p.relative_to(f)) for p in f.rglob("*") if p.is_file()} for f in (ours, theirs)]
    if not names[1] or names[0] != names[1]:
        return f"other files: {sorted(names[0] ^ names[1])[:4]}", False
    worst, same = 0.0, 1.0

    def values(path):
        if path.name.endswith((".nii.gz", ".nii")):
            return nib.load(path).get_fdata()
        if path.suffix in (".png", ".jpg"):
            return np.asarray(Image.open(path)).astype(float)
        if path.suffix == ".npy":
            return np.load(path).astype(float)
        if path.suffix == ".json":
            entries = json.loads(path.read_text())
            if "idx" in entries[0]:
                return np.array([[e["idx"], e["score"]] for e in entries])
            rows = [np.column_stack([np.array(e["box"]) / 10, e["label"], e["label_scores"]]) for e in entries]
            return np.concatenate(rows)  # boxes in cm: of some 50 mm float32 has 5 digits behind the point
        return np.array([[float(v) for v in line.split(",")[1:]] for line in path.read_text().splitlines()])

    for name in sorted(names[0]):
        a, b = values(ours / name), values(theirs / name)
        if a.shape != b.shape:
            return f"{name}: {a.shape} for {b.shape}", False
        apart = np.abs(a - b)
        whole = np.all(b == np.round(b))
        same = min(same, float((apart <= (levels if whole else 1e-4)).mean()))
        worst = worst if whole else max(worst, float(apart.max()))
    return f"{len(names[0])} files, {100 * same:.3f} % equal, {worst:.1e}", same >= 0.9999 and worst <= 1e-4


def measured(printed, theirs):
    """What our run prints of metrics beside MONAI's."""
    ours = {k[:-5]: v["last"] for k, v in json.loads(printed)["metrics"].items() if k.endswith(".mean")}
    apart = {k: abs(ours.get(k, np.inf) - v) for k, v in theirs.items()}
    return f"{theirs} by MONAI, {ours}", max(apart.values()) <= 1e-4


def sets_of(folder, task, given):
    """What every bundle has in common, where its configuration has it."""
    text = configuration(folder, task).read_text()
    shared = {"bundle_root": str(folder), "device": "$torch.device('cpu')", "dataset_dir": str(folder / "data"),
              "output_dir": str(folder / "eval"), "amp": False}
    shared = {k: v for k, v in shared.items() if f'"{k}":' in text or f"\n{k}:" in text}
    return {**shared, **given}


def one(build, models, name, task):
    said = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / name
        shutil.copytree(models / name, folder, ignore=shutil.ignore_patterns("docs", "*.pt", "*.ts"))
        (folder / "models").mkdir(exist_ok=True)
        cases = CASES[name](folder)
        given = cases.get(task)
        if given is None:
            return None
        infers = task.startswith("inference")
        own, weights = ({} if of is None else of.get(task, of) for of in (cases.get("monai"), cases.get("weights")))
        sets = sets_of(folder, task, given)
        (folder / f"{task}.sets.json").write_text(json.dumps({**sets, **own}))
        (folder / "weights.json").write_text(json.dumps(weights))
        if infers:
            with open(folder / "monai.log", "w") as log:
                subprocess.run([sys.executable, __file__, "--monai", str(folder), task], check=False, stdout=log, stderr=log,
                               env=os.environ | {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "CUDA_VISIBLE_DEVICES": ""})
            if (folder / "eval").exists():
                os.rename(folder / "eval", folder / "monai")
            else:
                lines = (folder / "monai.log").read_text().splitlines()
                said["MONAI"] = next((x for x in lines if "Error" in x), "it wrote nothing")[:200]
        call = [f"{build}/sluice", "new", "bundle", str(folder), "-o", str(folder / "graph.json"),
                "--task", "inference" if infers else "train", "--config", configuration(folder, task).name]
        call += [f"--set={k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in sets.items()]
        made = subprocess.run(call, capture_output=True, text=True)
        if made.returncode:
            return dict(said, translates=False, why=[line for line in made.stderr.splitlines() if "no counterpart" in line
                                                     or line.startswith("error")][:3])
        has_metrics = (folder / "metrics.json").exists()
        more = ["--no-out", *["--json"] * has_metrics] if infers else ["--out", str(folder / "run"), "--set", "run.epochs=1"]
        ran = subprocess.run([f"{build}/sluice", "run", str(folder / "graph.json"), "--quiet", *more], capture_output=True,
                             text=True, cwd=folder)
        said |= dict(translates=True, runs=ran.returncode == 0)
        if ran.returncode:
            said["why"] = ran.stderr.strip().splitlines()[-3:]
        elif has_metrics:
            said.pop("MONAI", None)
            said["outputs"], said["equal"] = measured(ran.stdout, json.loads((folder / "metrics.json").read_text()))
        elif infers and (folder / "monai").exists():
            for made_name, other in cases.get("names", {}).items():  # where a script names its file itself
                if (folder / "eval" / made_name).exists():
                    os.rename(folder / "eval" / made_name, folder / "eval" / other)
            said["outputs"], said["equal"] = compared(folder / "eval", folder / "monai", cases.get("levels", 0))
        elif not infers:
            said["outputs"] = ran.stdout.strip().replace("\n", "; ")[:150]
        if os.environ.get("KEEP"):
            shutil.copytree(folder, pathlib.Path(os.environ["KEEP"]) / f"{name}.{task}", dirs_exist_ok=True)
    return said


def table(build, models, names):
    good = True
    print(f"{'bundle':<48}{'task':<22} translates runs  equal  what")
    for name in names or sorted(CASES):
        for task in TASKS:
            if not any((models / name / "configs" / (task + end)).exists() for end in (".json", ".yaml")):
                continue
            said = one(build, models, name, task)
            if said is None:  # translation alone
                continue
            word = {True: "yes", False: "no", None: "-"}
            print(f"{name:<48}{task:<22} {word[said['translates']]:<10} {word[said.get('runs')]:<5} "
                  f"{word[said.get('equal')]:<5}  {said.get('outputs', '')} {said.get('MONAI', '')} {said.get('why', '')}",
                  flush=True)
            good &= said["translates"] and said.get("runs", False) and said.get("equal", True)
    return good


if __name__ == "__main__" and sys.argv[1:2] == ["--monai"]:
    monai(pathlib.Path(sys.argv[2]), sys.argv[3])
