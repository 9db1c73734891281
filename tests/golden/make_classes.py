"""Writes monai_classes.json: the names of MONAI 1.6.1's classes that nodes/MONAI.md accounts for.

Run with a Python that has monai and pytorch-ignite:  python tests/golden/make_classes.py
Of a dictionary transform's several names (RandFlipd, RandFlipD, RandFlipDict) the plain one stands.
"""
import importlib
import inspect
import json
import pathlib
import re




def classes(module, wanted=lambda c: True):
    m = importlib.import_module(module)
    return {n for n, c in vars(m).items() if inspect.isclass(c) and not n.startswith("_")
            and c.__module__.startswith("monai.") and wanted(c)}


def plain(name, names):
    for mark in ("Dict", "d", "D"):
        if name.endswith(mark) and name[:-len(mark)] in names:
            return name[:-len(mark)]
    for mark in ("Dict", "D"):
        if name.endswith(mark) and name[:-len(mark)] + "d" in names:
            return name[:-len(mark)] + "d"
    return name


transforms = classes("monai.transforms")
networks = {}
for name in sorted(classes("monai.networks.nets")):
    networks.setdefault(name.lower(), name)
data = re.compile("Dataset|DataLoader|CrossValidation|Sampler|ThreadBuffer|Reader|Writer|Patch")
groups = {
    "transforms": sorted({plain(n, transforms) for n in transforms}),
    "losses": sorted(classes("monai.losses")),
    "metrics": sorted(classes("monai.metrics")),
    "networks": sorted(networks.values()),
    "inferers": sorted(classes("monai.inferers")),
    "data": sorted(n for n in classes("monai.data") | classes("monai.apps") if data.search(n)),
    "handlers": sorted(classes("monai.handlers")),
}
path = pathlib.Path(__file__).parent / "monai_classes.json"
path.write_text(json.dumps(groups, indent=0) + "\n")
