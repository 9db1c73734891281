"""Where the engine is, and its C functions (tools/runtime/sluice.h) through ctypes."""

import ctypes
import functools
import json
import os
import pathlib
import shutil
import sysconfig

_HERE = pathlib.Path(__file__).resolve().parent
_ABI = 3


def runtime_file():
    """libsluice_runtime.so: SLUICE_RUNTIME, beside this file (a wheel), or in the build folder."""
    if given := os.environ.get("SLUICE_RUNTIME"):
        return pathlib.Path(given)
    name = "libsluice_runtime.so"
    for folder in (_HERE, _HERE.parents[2] / "build"):
        if (folder / name).exists():
            return folder / name
    raise ImportError(f"{name} is neither in {_HERE} nor named in SLUICE_RUNTIME")


def binary():
    """The command: beside the runtime (a build), among this environment's scripts, or in PATH."""
    places = [os.path.join(sysconfig.get_path("scripts"), "sluice"), shutil.which("sluice")]
    try:
        places.insert(0, str(runtime_file().parent / "sluice"))
    except ImportError:
        pass
    for place in places:
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    raise FileNotFoundError("there is no `sluice` command beside the package or in PATH")


def _require_torch(file):
    import torch

    try:
        built = json.loads((file.parent / "sluice_built.json").read_text())
    except OSError:
        return
    here = torch.__version__.split("+")[0]
    if built["torch"] != here:
        raise ImportError(f"torch {here} is installed, and this sluice was built for torch {built['torch']}")


def _require_cpu(cpuinfo="/proc/cpuinfo"):
    with open(cpuinfo) as lines:
        flags = next((line.split() for line in lines if line.startswith("flags")), None)
    for needed in ("avx2", "fma", "bmi2"):
        if flags and needed not in flags:
            raise ImportError(f"this processor has no {needed.upper()}, which sluice is compiled for (x86-64-v3)")


@functools.cache
def load():
    file = runtime_file()
    _require_cpu()
    _require_torch(file)  # and LibTorch is there before what needs it
    lib = ctypes.CDLL(str(file))
    if not hasattr(lib, "sluice_abi") or lib.sluice_abi() != _ABI:
        raise ImportError(f"{file} is not of this package's version")
    text, pointer, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("open", pointer, [text]),
        ("next", None, [pointer, number, ctypes.POINTER(number), ctypes.POINTER(pointer)]),
        ("close", None, [pointer]),
        ("fields", number, [pointer]),
        ("field", text, [pointer, number]),
        ("tensor", pointer, [pointer, number]),
        ("taken", None, [pointer]),
        ("meta", text, [pointer]),
        ("free", None, [pointer]),
        ("state", text, [pointer]),
        ("profile", text, [pointer]),
        ("messages", text, []),
        ("error", text, []),
    ):
        function = getattr(lib, "sluice_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype = ctypes.py_object
capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
