"""What gpu_check.sh runs. One JSON document: ceilings, tests, sanitizer, ours, peers (PyTorch's, and
image filters on one core), ratios; and graphs/unet_speed.json's step, alone and fed from host memory,
beside PyTorch's (gpu_peers.py).

Every step has a limit of its own and the whole has one; a step that fails or does not get its turn
says so in the document and the others go on, what matters most first. The document is written after
each step, so a kill leaves what was done. Exit status 1 where a step failed for another reason than
want of time or of a program.
"""
import argparse
import array
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

began = time.monotonic()
here = os.path.dirname(os.path.abspath(__file__))


def say(text):
    print(f"[{time.monotonic() - began:5.0f} s] {text}", file=sys.stderr, flush=True)


def run(command, limit, env=None):
    """(status, stdout, stderr), with what was printed until it was stopped; status "timeout" where
    it took too long, "missing" without it. Whatever it started ends with it: a sanitizer's target
    or a compiler's workers would keep the GPU busy. Files, since such could hold a pipe open."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                 start_new_session=True)
        except OSError as e:
            return "missing", "", str(e)
        try:
            status = p.wait(limit)
        except subprocess.TimeoutExpired:
            status = "timeout"
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
        out.seek(0)
        err.seek(0)
        return status, out.read().decode(errors="replace"), err.read().decode(errors="replace")


def objects(text):
    """Its lines that are JSON objects; a library may print others."""
    for line in text.splitlines():
        try:
            if line.startswith("{"):
                yield json.loads(line)
        except ValueError:
            pass


def floats(file):
    """All numbers of a .safetensors file, one behind the other."""
    with open(file, "rb") as f:
        f.seek(struct.unpack("<Q", f.read(8))[0], os.SEEK_CUR)
        return array.array("f", f.read())


def distance(a, b):
    """Of b from a, relative to a."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} numbers")
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(x * x for x in a))


# ---- the check ----------------------------------------------------------------------------------

# unet_speed.json in seconds on a CPU: what it measures there says nothing, but it runs.
SMALL = ("vars.size=[64,64,64]", "vars.batch=2", "nodes.volumes.num_samples=4",
         "nodes.volumes.rad_max=20", "models.net.filters=[4,8,8,8,8,8]")

# Its kernels take microseconds on a GPU; 70 steps an epoch. Not below 64^3, of which the strides
# leave 2^3: PyTorch normalises no single voxel. gpu_peers.py's `small` is the same.
LAUNCH_BOUND = ("vars.size=[64,64,64]", "vars.batch=1", "nodes.volumes.num_samples=70",
                "nodes.volumes.rad_max=20", "models.net.filters=[8,16,32,64,80,80]")

# Trained on the CPU and on the GPU, in small: the losses must agree.
BOTH = {
    "fast_integration.json": (
        "vars.size=[64,64,64]", "vars.patch=[32,32,32]", "nodes.train.num_samples=6", "+nodes.train.rad_max=12",
        "nodes.val.num_samples=2", "+nodes.val.rad_max=12", "nodes.batch.size=8",
        "models.net.channels=[8,16,32]", "models.net.strides=[2,2]", "nodes.infer.roi_size=[32,32,32]",
        "run.epochs=2"),
    "lamp.json": ("vars.size=[32,32,32]", "nodes.train.rad_max=12", "nodes.val.rad_max=12", "vars.features=4",
                  "run.epochs=2"),
    "multi_gpu_test.json": (),
    "unet_speed.json": (*SMALL, "models.net.precision=float32", "run.epochs=2"),
}
FAST = "fast_integration.json"
TRAIN_ALONE = ("~nodes.val", "~nodes.vscale", "~nodes.vfore", "~nodes.vcached", "~nodes.vgpu", "~nodes.infer",
               "~nodes.val_dice")

# The golden values that the CPU is held to, computed on the GPU (tests/nodes/on_device.h).
GOLDEN = ("networks have MONAI's*", "losses and their gradients equal MONAI's", "metrics equal MONAI's*",
          "transforms give MONAI 1.6.1's stored values", "four and two hundred steps*", "a device's kernels*")

# A step of the CPU's, by cores.
CORES = ("vars.size=[64,64,64]", "vars.batch=2", "nodes.volumes.num_samples=4", "nodes.volumes.rad_max=20",
         "models.net.filters=[8,16,32,64,80,80]")

# Keys of the document that are lists, to which several steps add.
ARMS = ("fast", "predict", "ours", "peers", "unet", "small", "golden", "both", "memory", "cores")
ALONE, FED = "3-D U-Net step, sluice", "3-D U-Net step from host memory, augmented, sluice"
RECORDED_UNET = "3-D U-Net step, sluice, CUDA graphs"
QUEUED, RECORDED = "small step, sluice", "small step, sluice, CUDA graphs"


class Unfinished(Exception):
    """No result for want of time or of a program, which is no failure."""


class Check:
    def __init__(self, args):
        self.args, self.out, self.failed = args, {}, []

    def step(self, key, name, do, *args):
        """What do(*args) found, or the error that it raised, goes into the document."""
        say(name)
        try:
            found = do(*args)
        except Exception as e:
            found = {"error": f"{type(e).__name__}: {e}"}
            say(found["error"])
            if not isinstance(e, Unfinished):
                self.failed.append(name)
        if key in ARMS:
            self.out.setdefault(key, []).extend(
                found if isinstance(found, list) else [{"name": name, **found}])
        else:
            self.out[key] = found
        self.write()

    def write(self):
        self.out.update(seconds=time.monotonic() - began, failed=self.failed)
        with open(self.args.out + ".part", "w") as f:
            json.dump(self.out, f, indent=1)
        os.replace(self.args.out + ".part", self.args.out)

    def run(self, limit, command, env=None):
        """run() within what is left of the whole."""
        limit = min(limit, self.args.seconds - (time.monotonic() - began))
        return run(command, limit, env) if limit > 5 else ("no time left", "", "")

    def output(self, limit, command, env=None):
        """Its stdout, of a command that must succeed."""
        code, out, err = self.run(limit, command, env)
        if code != 0:
            raise (Unfinished if isinstance(code, str) else RuntimeError)(
                f"{code}: {err.strip()[-600:]}")
        return out

    def part(self, limit, *words):
        """The arms of a part of gpu_peers.py, in a process of its own, and why there are no more."""
        peers = os.path.join(here, "gpu_peers.py")
        code, out, err = self.run(limit, [sys.executable, peers, *words])
        found = list(objects(out))
        if code != 0:
            found.append({"name": " ".join(words), "error": f"{code}: {err.strip()[-600:]}"})
        return found

    def ceilings(self):
        return {a["name"]: a.get("value", a) for a in self.part(60, "ceilings")}

    def tests(self, limit, program, *prefix, words=(), env=None, name=""):
        code, out, err = self.run(limit, [*prefix, os.path.join(self.args.bin, program), *words], env)
        text = out + err
        cases = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", text)
        result = {"status": code, "launched": "nothing was launched" not in text}
        if cases:
            result.update(zip(("cases", "passed", "failed"), map(int, cases.groups())))
        sanitizer = re.search(r"ERROR SUMMARY: (\d+) error", text)
        if sanitizer:
            result["sanitizer_errors"] = int(sanitizer.group(1))
        if code != 0:
            result["end_of_output"] = text[-1500:]
            with open(self.args.out + ".log", "a") as f:
                f.write(text[:1000000])
        name = name or " ".join([*(os.path.basename(p) for p in prefix), program])
        if code == 0 and result.get("cases") == 0:
            self.failed.append(f"{name}: there is no such test")
        elif code != 0 and not isinstance(code, str):
            self.failed.append(name)
        return result

    def kernels(self):
        """Every kernel, on a GPU that PyTorch sees: the driver may be too old for ours."""
        result = self.tests(60, "cuda_tests")
        if not result["launched"]:
            self.failed.append("cuda_tests launched nothing")
        return result

    def sanitizer(self, tool):
        found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        return self.tests(90, "cuda_tests", found, "--tool", tool, "--error-exitcode", "9")

    def environment(self):
        env = dict(os.environ, PYTHON=sys.executable)
        try:
            import torch
            lib = os.path.join(os.path.dirname(torch.__file__), "lib")
            env["TORCH_LIB"] = lib
            env["LD_LIBRARY_PATH"] = os.pathsep.join(
                [self.args.bin, os.path.join(self.args.bin, "lib"), lib,
                 env.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
        except ImportError:
            pass
        return env

    def program(self, *words):
        """A command of the binary itself."""
        starter = os.path.join(self.args.bin, "run.sh")
        return [starter if os.path.exists(starter) else os.path.join(self.args.bin, "sluice"), *words]

    def graph(self, name):
        """Where it is, in a bundle or in the sources."""
        return next((g for g in (os.path.join(self.args.bin, "graphs", name),
                                 os.path.join(here, "../graphs", name)) if os.path.exists(g)), name)

    def doctor(self):
        """Does the program start and load its runtime? Its status is about the machine."""
        code, out, err = self.run(60, self.program("doctor", "--json"), self.environment())
        return json.loads(out) if out else {"error": f"{code}: {err[-400:]}"}

    def profile(self):
        """Does a graph run end to end?"""
        return json.loads(self.output(75, self.program(
            "profile", self.graph("fast_integration.json"), "--seconds", "15", "--json"),
            self.environment()))

    def trained(self, folder, graphs, *settings, **more):
        """The summary of a run into a folder; more environment."""
        sets = [w for s in settings for w in ("--set", s)]
        self.output(60, self.program("run", *graphs, "--quiet", *sets, "--out", folder),
                    dict(self.environment(), **more))
        with open(f"{folder}/summary.json") as f:
            return json.load(f)

    def rate(self, graphs, warm, epochs, settings=(), batch=0, **more):
        """Samples/s of a graph, with a batch its milliseconds, and the GPU memory it took: of a run
        of so many epochs, those after the first `warm` ones."""
        with tempfile.TemporaryDirectory() as folder:
            summary = self.trained(folder, graphs, f"run.epochs={epochs}", *settings, **more)
            with open(f"{folder}/profile.json") as f:
                profile = json.load(f)
        ends = profile["epoch_ends_s"]
        each = summary["samples"]["emitted"] / epochs
        result = {"samples_s": each * (epochs - warm) / (ends[-1] - ends[warm - 1])}
        if batch:
            result["ms"] = 1000 * batch / result["samples_s"]
        if "cuda_graphs" in summary:
            result["cuda_graphs"] = summary["cuda_graphs"]
        if gpus := profile.get("gpus"):
            result["device_gib"] = max(g["memory_mb"] for g in gpus) * 1e6 / 2**30
        return result

    def unet_graphs(self):
        """Of the U-Net step fed from host memory and augmented on the GPU; and of the step alone, on
        volumes that stay on the GPU."""
        fed = [self.graph("unet_speed.json")]
        return fed, [*fed, self.graph("parts/unet_speed_resident.json")]

    def recorded_loss(self, *settings):
        """Does a recorded step do what a queued one does? The same samples in the same order, by
        algorithms that give the same bits each time: what unet_speed.json chooses for speed may
        differ between two runs, and differences grow with every step of bfloat16. Another choice of
        algorithm is within the tolerance; old weights or an old batch are not."""
        sums = []
        for recorded in ("false", "true"):
            with tempfile.TemporaryDirectory() as folder:
                sums.append(self.trained(
                    folder, self.unet_graphs()[1], "run.epochs=1", "run.deterministic=true",
                    "run.cudnn_benchmark=false", *LAUNCH_BOUND, *settings,
                    f"run.cuda_graphs={recorded}"))
        a, b = (s["metrics"]["step.loss"]["last"] for s in sums)
        if not abs(a - b) <= 0.02 * abs(a):
            self.failed.append(f"CUDA graphs: loss {b} after the same steps, {a} without")
        return {"queued": a, "recorded": b,
                "same_weights": sums[0]["weights_sha256"] == sums[1]["weights_sha256"]}

    def golden(self, case):
        """A test of nodes_tests, with its inputs on the GPU."""
        folder = next(g for g in (os.path.join(self.args.bin, "golden"), os.path.join(here, "../tests/golden"))
                      if os.path.exists(g))
        env = dict(self.environment(), SLUICE_TEST_DEVICE="gpu", SLUICE_GOLDEN=folder)
        return self.tests(120, "nodes_tests", words=("-tc=" + case, "-nc"), env=env, name=case)

    def both(self, name, settings):
        """A graph's losses after training on the CPU and on the GPU, in float32."""
        found = {}
        for where, env in {"cpu": {"SLUICE_DEVICE": "none"}, "gpu": {}}.items():
            with tempfile.TemporaryDirectory() as folder:
                summary = self.trained(folder, [self.graph(name)], "run.cuda_graphs=false", *settings,
                                       "run.deterministic=true", "run.cudnn_benchmark=false", "run.tf32=false", **env)
                found[where] = summary["metrics"]["step.loss"]["last"]
        if not abs(found["cpu"] - found["gpu"]) <= 0.02 * abs(found["cpu"]):
            self.failed.append(f"{name}: loss {found['gpu']} on the GPU, {found['cpu']} on the CPU")
        return found

    def processes(self):
        """Do two processes that share a GPU come to one's weights?"""
        sums = []
        for n in ("1", "2"):
            with tempfile.TemporaryDirectory() as folder:
                self.output(60, self.program(
                    "run", self.graph("multi_gpu_test.json"), "--quiet", "--processes", n,
                    "--set", "run.shards=2", "--set", "run.step_threads=1",
                    "--set", "run.deterministic=true", "--out", folder), self.environment())
                with open(f"{folder}/summary.json") as f:
                    sums.append(json.load(f)["weights_sha256"])
        if sums[0] != sums[1]:
            self.failed.append("two processes come to other weights than one")
        return {"same_weights": sums[0] == sums[1]}

    def cores(self):
        """Steps of a U-Net on 1 to 16 cores of the CPU, beside PyTorch's."""
        found, most = [], len(os.sched_getaffinity(0))
        for n in (1, 4, 16):
            if n > most:
                break
            for precision in ("float32", "bfloat16"):
                ours = self.rate(self.unet_graphs()[1], 1, 4, (
                    *CORES, f"models.net.precision={precision}", f"run.step_threads={n}", f"run.threads={min(n, 2)}"),
                    2, SLUICE_DEVICE="none")
                peer = self.part(60, "cores", str(n), precision)[0]
                found.append({"cores": n, "precision": precision, "ms": ours["ms"], "peer_ms": peer.get("ms", peer)})
        return found

    def filters(self, where):
        """Bilateral filters, lattice, random field, mixture, median, Gaussian and resampler."""
        names = {"cpu": "{}, one core", "gpu": "{}"}
        out = self.output(120, [os.path.join(self.args.bin, "bench_image_filters"), where],
                          self.environment())
        return [{**a, "name": names[where].format(a["name"])} for a in objects(out)]

    def to_device(self):
        """What to_device moves in a second, of the ceiling: volumes of 64 MiB out of a cache."""
        nodes = {"volumes": {"type": "synthetic", "num_samples": 4, "spatial_size": [256, 256, 256]},
                 "image": {"type": "select_items", "in": "volumes", "keys": "image"},
                 "kept": {"type": "cache", "in": "image"},
                 "gpu": {"type": "to_device", "in": "kept"}}
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/g.json", "w") as f:
                json.dump({"run": {"epochs": 1}, "nodes": nodes}, f)
            result = self.rate([f"{folder}/g.json"], 2, 102)
        result["gb_s"] = result["samples_s"] * 2**26 / 1e9
        ceiling = self.out.get("ceilings", {}).get("h2d_gb_s_64mib")
        if isinstance(ceiling, float):
            result["of_h2d"] = result["gb_s"] / ceiling
        return result

    def prediction(self, size=192, volumes=8, epochs=60, roi=96, channels=(32, 64, 128, 256)):
        """Volumes/s of a bfloat16 U-Net's windows, which overlap by half; gpu_peers.py's `predict` is the same. What a
        run of more epochs takes more than one of four, since epochs without training have no end of their own."""
        graph = {
            "run": {"epochs": 1},
            "models": {"net": {"type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 3,
                               "channels": channels, "strides": [2] * (len(channels) - 1), "num_res_units": 2,
                               "norm": "BATCH", "precision": "bfloat16"}},
            "nodes": {"made": {"type": "synthetic", "num_samples": volumes, "spatial_size": [size] * 3,
                               "rad_max": size // 5, "num_seg_classes": 2},
                      "kept": {"type": "cache", "in": "made"},
                      "gpu": {"type": "to_device", "in": "kept"},
                      "infer": {"type": "sliding_window", "in": "gpu", "net": "net", "roi_size": [roi] * 3,
                                "sw_batch_size": 4, "overlap": 0.5, "mode": "gaussian"},
                      "dice": {"type": "dice_metric", "in": "infer"}}}
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/g.json", "w") as f:
                json.dump(graph, f)
            walls = [self.trained(f"{folder}/{n}", [f"{folder}/g.json"], f"run.epochs={n}")["wall_s"]
                     for n in (4, 4 + epochs)]
        return {"samples_s": volumes * epochs / (walls[1] - walls[0])}

    def shared(self, gpus):
        """multi_gpu_test by one GPU and by all; with one, by that one as two, a stream for each. How
        far the weights are from each other: sums are rounded otherwise, no more. Adam's first steps
        make much of that: on a CPU one step thread and two are 0.003 apart."""
        found = []
        for devices, more in ((1, {}), (0, {} if gpus > 1 else {"SLUICE_DEVICE": "gpu:2"})):
            with tempfile.TemporaryDirectory() as folder:
                places = self.trained(folder, [self.graph("multi_gpu_test.json")],
                                      f"run.devices={devices}", **more)["devices"]
                found.append(floats(f"{folder}/checkpoints/last/model.safetensors"))
        apart = distance(*found)
        if not apart < 0.03:
            raise ValueError(f"the weights are {apart} apart")
        return {"gpus": gpus, "places": places, "distance": apart}

    def without_gpu(self, why):
        print(f"gpu_check: no GPU is checked here ({why}); the kernels run on a device that the "
              "host plays", file=sys.stderr)
        self.out.update(gpu=None, why=why)
        self.step("library", "the library", self.tests, 60, "cuda_tests")
        self.step("emulated", "every kernel, emulated", self.tests, 240, "emulated_cuda_tests")
        self.step("doctor", "doctor", self.doctor)
        if "TORCH_LIB" not in self.environment():
            return
        self.step("profile", "profile", self.profile)
        fed, alone = self.unet_graphs()
        self.step("unet", ALONE, self.rate, alone, 1, 2, SMALL)
        self.step("unet", FED, self.rate, fed, 1, 2, SMALL)
        self.step("recorded_loss", "recorded and queued", self.recorded_loss, SMALL[2])
        self.step("small", "small step, PyTorch", self.part, 60, "small", "eager")

    def parts(self, gpus):
        """Their steps, by name."""
        fed, alone = self.unet_graphs()
        unet = lambda how, limit: ("unet", f"3-D U-Net step, {how}", self.part, limit, "unet", how)
        # cuDNN's trials take more memory than the step.
        memory = lambda how: ("memory", f"3-D U-Net step, sluice, memory {how}", self.rate, alone, 2, 5,
                              (f"models.net.memory={how}", "run.cudnn_benchmark=false"), 7)
        return {
            "ceilings": [("ceilings", "ceilings", self.ceilings)],
            "tests": [("tests", "every kernel against its functor", self.kernels),
                      *(("golden", case, self.golden, case) for case in GOLDEN)],
            "both": [("both", name, self.both, name, settings) for name, settings in BOTH.items()],
            "graphs": [("both", f"{name}, CUDA graphs", self.both, name, (*BOTH[name], "run.cuda_graphs=true"))
                       for name in (FAST, "lamp.json", "unet_speed.json")],
            "fast": [("fast", "MONAI's fast recipe, sluice", self.rate, [self.graph(FAST)], 3, 23,
                      (*TRAIN_ALONE, "run.cuda_graphs=false")),
                     ("fast", "MONAI's fast recipe, sluice, CUDA graphs", self.rate, [self.graph(FAST)], 3, 23,
                      TRAIN_ALONE),
                     ("fast", "MONAI's fast recipe, MONAI", self.part, 90, "fast")],
            "doctor": [("doctor", "doctor", self.doctor), ("profile", "profile", self.profile)],
            "unet": [("unet", ALONE, self.rate, alone, 3, 15, (), 7)],
            "recorded": [("unet", RECORDED_UNET, self.rate, alone, 3, 15, ("run.cuda_graphs=true",), 7)],
            "fed": [("unet", FED, self.rate, fed, 3, 15, (), 7)],
            "small": [("small", QUEUED, self.rate, alone, 2, 22, LAUNCH_BOUND),
                      ("small", RECORDED, self.rate, alone, 2, 22, (*LAUNCH_BOUND, "run.cuda_graphs=true")),
                      ("recorded_loss", "recorded and queued", self.recorded_loss)],
            "to_device": [("to_device", "to_device", self.to_device)],
            "shared": [("shared", "several GPUs" if gpus > 1 else "one GPU, as two", self.shared, gpus),
                       ("processes", "two processes", self.processes)],
            "unet_peers": [unet("eager", 60), unet("channels-last", 60), unet("compile, channels-last", 110),
                           *(("small", f"small step, {how}", self.part, 45, "small", how)
                             for how in ("eager", "graph"))],
            "kernels": [("ours", "our kernels", lambda: json.loads(
                            self.output(60, [os.path.join(self.args.bin, "bench_cuda")]))),
                        ("ours", "image filters", self.filters, "gpu"),
                        ("peers", "PyTorch's", self.part, 120, "peers"),
                        ("peers", "image filters, one core", self.filters, "cpu")],
            "predict": [("predict", "windows, sluice", self.prediction),
                        ("predict", "windows, MONAI", self.part, 60, "predict")],
            "memory": [memory(how) for how in ("keep", "light", "recompute", "offload")],
            "sanitizer": [(tool, f"compute-sanitizer {tool}", self.sanitizer, tool)
                          for tool in ("racecheck", "memcheck", "synccheck", "initcheck")],
            "cores": [("cores", "1 to 16 cores of the CPU", self.cores)],
        }

    def with_gpu(self, gpus):
        parts = self.parts(gpus)
        for part in self.args.only or parts:
            for step in parts[part]:
                self.step(*step)

    def ratios(self):
        """Ours beside PyTorch's best arm and the ceiling, where both ran."""
        ms = {key: {a["name"]: a["ms"] for a in self.out.get(key, []) if "ms" in a}
              for key in ("ours", "peers", "unet")}
        small = {a["name"]: a["samples_s"] for a in self.out.get("small", []) if "samples_s" in a}
        if ALONE in ms["unet"] and FED in ms["unet"]:
            self.out["end_to_end"] = ms["unet"][ALONE] / ms["unet"][FED]
        if QUEUED in small and RECORDED in small:
            peers = [rate for name, rate in small.items() if name not in (QUEUED, RECORDED)]
            self.out["recorded"] = {"of_queued": small[RECORDED] / small[QUEUED]}
            if peers:
                self.out["recorded"]["of_best_peer"] = small[RECORDED] / max(peers)
        copy = self.out.get("ceilings", {}).get("d2d_gb_s_read_and_written")
        for o in self.out.get("ours", []):
            if isinstance(copy, float) and "gb_s" in o and "augment" not in o["name"]:
                o["of_copy"] = o["gb_s"] / copy

        mine = dict(ms["ours"])
        if any("DiceCE" in name for name in mine):
            mine["DiceCE forward and backward"] = sum(t for n, t in mine.items() if "DiceCE" in n)
        ratios = []

        def beside(name, ours, peers):
            if ours and peers:
                best = min(peers, key=peers.get)
                ratios.append({"name": name, "ms": ours, "peer": best, "peer_ms": peers[best],
                               "ratio": peers[best] / ours})

        beside("3-D U-Net step", ms["unet"].get(ALONE),
               {n: t for n, t in ms["unet"].items() if not n.startswith((ALONE, FED))})
        for name, fragments in {
                "augment: crop, flips, affine, batch 8": ("augment: affine", "batch 8"),
                "augment: nnU-Net's chain, all on, batch 8": ("augment: nnU-Net", "batch 8"),
                "norm + activation backward, 7x128^3x32 bf16": ("norm + activation backward",),
                "convolution 3 to 3, forward and backward": ("convolution 3 to 3",),
                "DiceCE forward and backward": ("DiceCE",), "Adam, 100 tensors": ("Adam",),
                "SGD, 100 tensors": ("SGD",),
                **{o["name"]: (o["name"] + ",",) for o in self.out.get("ours", [])
                   if o["name"] + ", one core" in ms["peers"]}}.items():
            beside(name, mine.get(name),
                   {n: t for n, t in ms["peers"].items() if all(f in n for f in fragments)})
        return ratios

    def report(self):
        """The document in a few lines."""
        for r in self.out["ratios"] if isinstance(self.out["ratios"], list) else []:
            print(f"{r['name']:50} {r['ms']:9.4f} ms   {r['peer_ms']:9.4f} ms   {r['ratio']:6.2f} x"
                  f"   {r['peer']}")
        for a in self.out.get("unet", []):
            if "ms" in a:
                peak = f"   PyTorch's {a['peak_gib']:.1f} GiB" if "peak_gib" in a else ""
                print(f"{a['name']:60} {a['ms']:8.1f} ms {a['samples_s']:7.2f} samples/s   "
                      f"device {a.get('device_gib', 0):.1f} GiB{peak}")
        if "end_to_end" in self.out:
            print(f"end to end / the step alone: {self.out['end_to_end']:.3f}")
        for what, ratio in self.out.get("recorded", {}).items():
            print(f"a small step as a CUDA graph, {what.replace('_', ' ')}: {ratio:.2f}")
        moved = self.out.get("to_device", {})
        if "of_h2d" in moved:
            print(f"to_device: {moved['gb_s']:.1f} GB/s, {moved['of_h2d']:.2f} of the ceiling")
        shared = self.out.get("shared", {})
        if "distance" in shared:
            who = f"{shared['gpus']} GPUs" if shared["gpus"] > 1 else "one GPU, as two places"
            print(f"multi_gpu_test: {who}: weights {shared['distance']:.1e} from one place's")
        print(f"{self.args.out}: " + ("failed: " + ", ".join(self.failed) if self.failed
                                      else "nothing failed"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", required=True)
    p.add_argument("--out", default="gpu_check.json")
    p.add_argument("--seconds", type=float, default=450)
    p.add_argument("--only", nargs="*", help="parts: as parts() names them")
    check = Check(p.parse_args())
    parts = check.parts(0)
    for part in check.args.only or ():
        if part not in parts:
            p.error(f"no part {part}; there are {' '.join(parts)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children end, the document is written
    try:
        import torch
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        why = f"torch {torch.__version__} sees none"
    except ImportError:
        gpus, why = 0, f"{sys.executable} has no torch"
    try:
        if gpus:
            check.with_gpu(gpus)
        else:
            check.without_gpu(why)
    finally:
        check.step("ratios", "ratios", check.ratios)
    check.report()
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
