"""Computes networks with OpenVINO: a line of JSON each, {"name", "apart"} or {"name", "error"}.

    openvino_referee.py FOLDER

FOLDER/list.json holds {"name", "file", "inputs": [{"name", "file", "shape"}], "output", "want"} for
each; numbers are raw float32. `apart` is the largest difference, in the wanted output's largest number.
"""
import json
import sys
from pathlib import Path

import numpy as np
import openvino

folder = Path(sys.argv[1])
core = openvino.Core()


def numbers(file):
    return np.fromfile(folder / file, np.float32)


def apart(case):
    # Its default precision on a CPU that multiplies bfloat16 would be that.
    model = core.compile_model(folder / case["file"], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    inputs = {i["name"]: numbers(i["file"]).reshape(i["shape"]) for i in case["inputs"]}
    got = model(inputs)[case["output"]]
    want = numbers(case["want"]).reshape(got.shape)
    return float(np.abs(got - want).max() / np.abs(want).max())


for case in json.loads((folder / "list.json").read_text()):
    try:
        print(json.dumps({"name": case["name"], "apart": apart(case)}), flush=True)
    except Exception as e:  # noqa: BLE001  # the test names it
        print(json.dumps({"name": case["name"], "error": str(e)[-600:]}), flush=True)
