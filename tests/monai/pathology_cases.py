"""HoVerNet's post-processing and nuclick's labels, of monai.apps."""
import copy

import numpy as np
import torch
from monai.apps.nuclick import transforms as nuclick
from monai.apps.pathology.transforms.post import dictionary as post

from cases import entry, snake


def made(module, name, data, keys, /, rename=None, given=None, **params):
    """The node and MONAI's class with the same parameters; `given`: those whose names differ."""
    d = getattr(module, name + "d")(**params)(copy.deepcopy(data))
    out = {k: torch.as_tensor(np.asarray(d[k])) for k in keys}
    return entry(snake(rename or name), given if given is not None else params, data, out,
                 tolerance=1e-4, affine=False)


def nuclei(i):
    """Logits of nuclei as touching disks, their maps of distances, and logits of types."""
    rows, columns = 26, 22
    at = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")).astype(np.float64)
    inside = np.full((rows, columns), -2.0)
    hover = np.zeros((2, rows, columns))
    for centre, radius in (((8, 7), 5.6), ((13, 14), 5.2), ((20, 6), 4.4)):
        c = np.array(centre) + i.rng.uniform(-0.6, 0.6, 2)
        d = at - c[:, None, None]
        far = np.hypot(*d)
        here = far < radius
        inside[here] = 1 + i.rng.uniform(0, 1)
        hover[0][here], hover[1][here] = d[1][here] / radius, d[0][here] / radius
    noise = i.rng.normal(0, 0.05, (4, rows, columns))
    logits = np.stack([-inside, inside]) + noise[:2]
    types = i.rng.normal(0, 1, (3, rows, columns))
    as_tensor = lambda x: torch.from_numpy(np.round(x, 4).astype(np.float32))  # noqa: E731
    return {"nucleus_prediction": as_tensor(logits), "horizontal_vertical": as_tensor(hover + noise[2:]),
            "type_prediction": as_tensor(types)}


def step_by_step(i):
    data = nuclei(i)
    d = {"seg": data["nucleus_prediction"]}
    params = {"activation": "softmax", "min_object_size": int(i.rng.integers(5, 20))}
    yield made(post, "GenerateWatershedMask", d, ["mask"], keys="seg", **params,
               given={"key": "seg", **params})
    d = post.GenerateWatershedMaskd(keys="seg", **params)(copy.deepcopy(d))
    d = {"mask": d["mask"], "hover_map": data["horizontal_vertical"]}
    params = {"kernel_size": i.choice(3, 5, 7)}
    yield made(post, "GenerateInstanceBorder", d, ["border"], **params)
    d = post.GenerateInstanceBorderd(**params)(copy.deepcopy(d))
    d = {k: d[k] for k in ("mask", "border")}
    yield made(post, "GenerateDistanceMap", d, ["dist_map"])
    params = {"threshold": i.number(0.3, 0.6), "radius": i.choice(1, 2), "min_object_size": i.choice(4, 8)}
    yield made(post, "GenerateWatershedMarkers", d, ["markers"], **params)
    d = post.GenerateWatershedMarkersd(**params)(post.GenerateDistanceMapd()(copy.deepcopy(d)))
    d = {k: d[k] for k in ("mask", "dist_map", "markers")}
    d["dist_map"] = d["dist_map"].round(decimals=1)  # plateaus: the order of equal heights shows
    params = {"connectivity": i.choice(1, 2)}
    yield made(post, "Watershed", d, ["dist_map"], keys=["dist_map"], markers_key="markers", **params)


def hover_net(i):
    data = nuclei(i)
    threshold = i.number(0.35, 0.5)
    d = {k: data[k] for k in ("nucleus_prediction", "horizontal_vertical")}
    yield made(post, "HoVerNetInstanceMapPostProcessing", d, ["instance_map"],
               rename="HoverNetInstanceMapPostProcessing", marker_threshold=threshold)
    d = post.HoVerNetInstanceMapPostProcessingd(marker_threshold=threshold)(copy.deepcopy(data))
    made_of = {"type_prediction": data["type_prediction"],
               "instance_map": torch.as_tensor(np.asarray(d["instance_map"])).to(torch.float32)}
    done = post.HoVerNetNuclearTypePostProcessingd()(d)
    # The table: MONAI adds a column's offset to the centroid's row, and cuts it to whole pixels.
    rows = []
    instances = np.asarray(made_of["instance_map"][0])
    for number, info in sorted(done["instance_info"].items()):
        at = np.argwhere(instances == number)
        rows.append([number, *np.asarray(info["bounding_box"]).ravel(), *at.mean(0), info["type"], info["type_prob"]])
    out = {"type_map": torch.as_tensor(np.asarray(done["type_map"])),
           "instance_info": torch.tensor(rows, dtype=torch.float32)}
    yield entry("hover_net_nuclear_type_post_processing", {}, made_of, out, affine=False)


def clicks(i):
    label = torch.as_tensor(np.asarray(i.label(axes=2)))
    image = torch.as_tensor(np.asarray(i.image(shape=list(label.shape[1:]), channels=3)))
    params = {"mask_value": None, "others_value": i.choice(2, 3), "to_binary_mask": i.flag()}
    yield made(nuclick, "SplitLabel", {"label": label}, ["label", "others"], keys="label", **params)
    yield made(nuclick, "AddLabelAsGuidance", {"image": image, "label": label}, ["image"], keys=["image"])
    # One pixel, and all points: nothing is left to draw.
    one = torch.zeros_like(label)
    one[0, 1, 2] = 1
    others = torch.as_tensor(np.asarray(nuclick.SplitLabeld("label", mask_value=None, others_value=2)(
        {"label": label})["others"]))
    params = {"drop_rate": 0.0, "gaussian": i.flag(), "use_distance": i.flag(), "sigma": i.number(0.6, 1.5)}
    yield made(nuclick, "AddPointGuidanceSignal", {"image": image, "label": one, "others": others}, ["image"], **params)


MAKERS = [step_by_step, hover_net, clicks]
