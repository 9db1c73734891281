"""What gpu_check.sh runs. One JSON document: ceilings, tests, sanitizer, ours, peers, ratios; and
graphs/unet_speed.json's step, alone and fed from host memory, beside PyTorch's (gpu_peers.py).

Every step has a limit of its own and the whole has one; a step that fails or does not get its turn
says so in the document and the others go on. Exit status 1 where a test or the sanitizer failed.
"""
import argparse
import array
import json
import math
import os
import re
import shutil
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
    """(status, stdout, stderr); status "timeout" where it took too long, "missing" without it."""
    try:
        p = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=env,
                           errors="replace")
        return p.returncode, p.stdout, p.stderr
    except subprocess.TimeoutExpired:
        return "timeout", "", f"stopped after {limit:.0f} s"
    except OSError as e:
        return "missing", "", str(e)


def floats(file):
    """All numbers of a .safetensors file, one behind the other."""
    with open(file, "rb") as f:
        f.seek(struct.unpack("<Q", f.read(8))[0], os.SEEK_CUR)
        return array.array("f", f.read())


def distance(a, b):
    """Of b from a, relative to a."""
    size = sum(x * x for x in a)
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / size) if len(a) == len(b) else math.inf


# ---- the check ----------------------------------------------------------------------------------

# unet_speed.json in seconds on a CPU: what it measures there says nothing, but it runs.
SMALL = ("vars.size=[64,64,64]", "vars.batch=2", "nodes.volumes.num_samples=4",
         "nodes.volumes.rad_max=20", "models.net.channels=[4,8,8,8,8,8]")


# Its kernels take microseconds on a GPU; 70 steps an epoch.
LAUNCH_BOUND = ("vars.size=[32,32,32]", "vars.batch=2", "nodes.volumes.num_samples=140",
                "nodes.volumes.rad_max=10", "nodes.volumes.rad_min=4")


class Check:
    def __init__(self, args):
        self.args, self.out, self.failed = args, {}, []

    def left(self, limit):
        return min(limit, self.args.seconds - (time.monotonic() - began))

    def part(self, what, limit, *more):
        """A part of gpu_peers.py in a process of its own: {"error": ...} where it failed."""
        limit = self.left(limit)
        if limit < 5:
            return {"error": "no time left"}
        code, out, err = run([sys.executable, os.path.join(here, "gpu_peers.py"), what, *more], limit)
        try:
            return json.loads(out) if code == 0 else {"error": f"{code}: {err.strip()[-600:]}"}
        except ValueError:
            return {"error": "no JSON: " + out[-300:]}

    def tests(self, program, limit, *prefix):
        limit = self.left(limit)
        if limit < 5:
            return {"error": "no time left"}
        code, out, err = run([*prefix, os.path.join(self.args.bin, program)], limit)
        text = out + err
        cases = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", text)
        result = {"status": code, "launched": "nothing was launched" not in text}
        if cases:
            result.update(zip(("cases", "passed", "failed"), map(int, cases.groups())))
        sanitizer = re.search(r"ERROR SUMMARY: (\d+) error", text)
        if sanitizer:
            result["sanitizer_errors"] = int(sanitizer.group(1))
        if code != 0 and code != "timeout" and code != "missing":
            self.failed.append(" ".join([*(os.path.basename(p) for p in prefix), program]))
            result["end_of_output"] = text[-1500:]
        return result

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

    def sluice(self, limit, *words, **more):
        """(status, stdout, stderr) of a command of the binary itself; more environment."""
        starter = os.path.join(self.args.bin, "run.sh")
        start = starter if os.path.exists(starter) else os.path.join(self.args.bin, "sluice")
        return run([start, *words], limit, dict(self.environment(), **more))

    def graph(self, name):
        """Where it is, in a bundle or in the sources."""
        return next((g for g in (os.path.join(self.args.bin, "graphs", name),
                                 os.path.join(here, "../graphs", name)) if os.path.exists(g)), name)

    def program(self):
        """Does it start, load its runtime, and run a graph end to end?"""
        code, out, err = self.sluice(self.left(60), "doctor", "--json")
        result = {"doctor": json.loads(out) if out.startswith(("{", "[")) else {"error": err[-400:]}}
        if "TORCH_LIB" not in self.environment():
            result["profile"] = {"error": "no torch in " + sys.executable}
            return result
        limit = self.left(75)
        if limit > 20:
            code, out, err = self.sluice(limit, "profile", self.graph("fast_integration.json"),
                                         "--seconds", "15", "--json")
            result["profile"] = json.loads(out) if code == 0 and out.startswith("{") else {
                "error": f"{code}: {err.strip()[-600:]}"}
            if code not in (0, "timeout"):
                self.failed.append("sluice profile")
        return result

    def rate(self, name, graphs, epochs, settings=(), limit=60):
        """Samples/s of a graph and the GPU memory it took. Of two runs, the second of more epochs, so
        that what a run costs once (start, first epoch, end) drops out."""
        runs = []
        for n in epochs:
            if self.left(limit) < 5:
                return {"name": name, "error": "no time left"}
            with tempfile.TemporaryDirectory() as folder:
                sets = [w for s in (f"run.epochs={n}", *settings) for w in ("--set", s)]
                code, _, err = self.sluice(self.left(limit), "run", *graphs, "--quiet", *sets,
                                           "--out", f"{folder}/run")
                if code != 0:
                    if code not in ("timeout", "missing"):
                        self.failed.append("sluice run " + os.path.basename(graphs[0]))
                    return {"name": name, "error": f"{code}: {err.strip()[-600:]}"}
                with open(f"{folder}/run/summary.json") as f:
                    summary = json.load(f)
                with open(f"{folder}/run/profile.json") as f:
                    gpus = json.load(f).get("gpus", [])
            runs.append((summary["samples"]["emitted"], summary["wall_s"]))
        (few, short), (many, long) = runs
        result = {"name": name, "samples_s": (many - few) / max(long - short, 1e-9)}
        if "cuda_graphs" in summary:
            result["cuda_graphs"] = summary["cuda_graphs"]
        if "step.loss" in summary.get("metrics", {}):
            result["loss"] = summary["metrics"]["step.loss"]["last"]
        if gpus:
            result["device_gib"] = max(g["memory_mb"] for g in gpus) * 1e6 / 2**30
        return result

    def unet(self, epochs, *settings):
        """Our arms of the U-Net step: volumes that stay on the GPU; and cached in host memory, moved
        and augmented there. Settings make it another step, whose times mean nothing."""
        graph = self.graph("unet_speed.json")
        alone = self.rate("3-D U-Net step, 128^3, batch 7, bf16, sluice",
                          [graph, self.graph("parts/unet_speed_resident.json")], epochs, settings)
        fed = self.rate("the same from host memory, augmented", [graph], epochs, settings)
        if settings:
            return [alone, fed]
        for arm in (alone, fed):
            if "samples_s" in arm:
                arm["ms"] = 7000 / arm["samples_s"]
        if "samples_s" in alone and "samples_s" in fed:
            self.out["end_to_end"] = fed["samples_s"] / alone["samples_s"]
        return [alone, fed]

    def small_step(self, epochs, *settings):
        """A step whose kernels are shorter than their launches, with and without CUDA graphs, and
        PyTorch's two. The same samples in the same order, so the losses must agree."""
        graphs = [self.graph("unet_speed.json"), self.graph("parts/unet_speed_resident.json")]
        settings = (*LAUNCH_BOUND, *settings)
        arms = [self.rate("32^3, batch 2, sluice", graphs, epochs, settings),
                self.rate("32^3, batch 2, sluice, CUDA graphs", graphs, epochs,
                          (*settings, "run.cuda_graphs=true"))]
        a, b = (arm.get("loss") for arm in arms)
        if a is not None and b is not None and not abs(a - b) <= 0.05 * abs(a):
            self.failed.append(f"CUDA graphs: loss {b} after the same epochs, {a} without")
        return arms

    def small_ratio(self):
        """Ours recorded beside ours queued and PyTorch's better arm."""
        arms = [a for a in self.out.get("small", []) if "samples_s" in a]
        ours = {a["name"]: a["samples_s"] for a in arms if "sluice" in a["name"]}
        peers = [a["samples_s"] for a in arms if "sluice" not in a["name"]]
        if len(ours) == 2:
            queued, recorded = ours.values()
            self.out["recorded"] = {"of_queued": recorded / queued}
            if peers:
                self.out["recorded"]["of_best_peer"] = recorded / max(peers)

    def to_device(self):
        """What to_device moves in a second, of the ceiling: volumes of 64 MiB out of a cache."""
        nodes = {"volumes": {"type": "synthetic", "num_samples": 4, "spatial_size": [256, 256, 256]},
                 "image": {"type": "select_items", "in": "volumes", "keys": "image"},
                 "kept": {"type": "cache", "in": "image"},
                 "gpu": {"type": "to_device", "in": "kept"}}
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/g.json", "w") as f:
                json.dump({"run": {"epochs": 1}, "nodes": nodes}, f)
            result = self.rate("to_device, 64 MiB a sample", [f"{folder}/g.json"], (2, 102))
        if "samples_s" in result:
            result["gb_s"] = result["samples_s"] * 2**26 / 1e9
            ceiling = self.out.get("ceilings", {}).get("h2d_gb_s_64mib")
            if ceiling:
                result["of_h2d"] = result["gb_s"] / ceiling
        return result

    def shared(self, gpus):
        """multi_gpu_test by one GPU and by all; with one, by that one as two, a stream for each. How
        far the weights are from each other: sums are rounded otherwise, no more. Adam's first steps
        make much of that: on a CPU one step thread and two are 0.003 apart."""
        result, found = {"gpus": gpus}, []
        for devices, more in ((1, {}), (0, {} if gpus > 1 else {"SLUICE_DEVICE": "gpu:2"})):
            if self.left(60) < 5:
                return dict(result, error="no time left")
            with tempfile.TemporaryDirectory() as folder:
                code, _, err = self.sluice(self.left(60), "run", self.graph("multi_gpu_test.json"),
                                           "--quiet", "--set", f"run.devices={devices}", "--out",
                                           f"{folder}/run", **more)
                if code != 0:
                    if code not in ("timeout", "missing"):
                        self.failed.append("sluice run multi_gpu_test.json")
                    return dict(result, error=f"{code}: {err.strip()[-600:]}")
                with open(f"{folder}/run/summary.json") as f:
                    result["places"] = json.load(f)["devices"]
                found.append(floats(f"{folder}/run/checkpoints/last/model.safetensors"))
        result["distance"] = distance(*found)
        if not result["distance"] < 0.03:
            self.failed.append("weights of multi_gpu_test.json")
        return result

    def without_gpu(self, why):
        print(f"gpu_check: no GPU is checked here ({why}); the kernels run on a device that the "
              "host plays", file=sys.stderr)
        self.out["gpu"] = None
        self.out["why"] = why
        self.out["library"] = self.tests("cuda_tests", 60)
        self.out["emulated"] = self.tests("emulated_cuda_tests", 240)
        say(f"emulated: {self.out['emulated']}")
        self.out["program"] = self.program()
        if "TORCH_LIB" in self.environment():
            say("the U-Net step's graphs, small")
            self.out["unet"] = self.unet((1, 2), *SMALL)
            self.out["small"] = self.small_step((1, 2), SMALL[2], SMALL[4])

    def with_gpu(self, gpus):
        say("ceilings")
        self.out["ceilings"] = self.part("ceilings", 60)
        say("every kernel against its functor")
        self.out["tests"] = self.tests("cuda_tests", 60)
        say(f"{self.out['tests']}")
        say("our benchmarks")
        code, out, err = run([os.path.join(self.args.bin, "bench_cuda")], self.left(60))
        self.out["ours"] = json.loads(out) if code == 0 else {"error": f"{code}: {err[-400:]}"}
        say("PyTorch's")
        self.out["peers"] = self.part("peers", 120)
        sanitizer = shutil.which("compute-sanitizer") or next(
            (p for p in ("/usr/local/cuda/bin/compute-sanitizer",) if os.path.exists(p)), None)
        for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
            say(f"compute-sanitizer {tool}")
            self.out[tool] = {"error": "no compute-sanitizer"} if not sanitizer else self.tests(
                "cuda_tests", 60 if tool == "memcheck" else 35, sanitizer, "--tool", tool,
                "--error-exitcode", "9")
        say("the program")
        self.out["program"] = self.program()
        say("several GPUs" if gpus > 1 else "one GPU, as two")
        self.out["shared"] = self.shared(gpus)
        say("to_device")
        self.out["to_device"] = self.to_device()
        say("U-Net step, ours")
        self.out["unet"] = self.unet((2, 8))
        for how, limit in (("eager", 45), ("channels-last", 45), ("compile, channels-last", 110)):
            say(f"U-Net step, {how}")
            self.out["unet"].append(self.part("unet", limit, how))
        say("a step whose launches are its time")
        self.out["small"] = self.small_step((2, 22))
        for how in ("eager", "graph"):
            self.out["small"].append(self.part("small", 30, how))

    def unet_ratio(self):
        arms = [a for a in self.out.get("unet", []) if "ms" in a]
        ours = [a for a in arms if a["name"].endswith(", sluice")]
        peers = [a for a in arms if a["name"].startswith("3-D") and a not in ours]
        if ours and peers:
            best = min(peers, key=lambda p: p["ms"])
            self.out.setdefault("ratios", []).append(
                {"name": "3-D U-Net step", "ms": ours[0]["ms"], "peer": best["name"],
                 "peer_ms": best["ms"], "ratio": best["ms"] / ours[0]["ms"]})

    def ratios(self):
        """Ours beside PyTorch's best arm and the ceiling, where both ran."""
        self.unet_ratio()
        ours, peers = self.out.get("ours"), self.out.get("peers")
        if not isinstance(ours, list) or not isinstance(peers, list):
            return
        copy = self.out["ceilings"].get("d2d_gb_s_read_and_written")
        mine = {o["name"]: o["ms"] for o in ours}
        mine["DiceCE forward and backward"] = sum(v for k, v in mine.items() if "DiceCE" in k)
        for key, fragments in {
                "augment: crop, flips, affine, batch 8": ("augment: affine", "batch 8"),
                "augment: nnU-Net's chain, all on, batch 8": ("augment: nnU-Net", "batch 8"),
                "norm + activation backward, 7x128^3x32 bf16": ("norm + activation backward",),
                "DiceCE forward and backward": ("DiceCE",), "Adam, 100 tensors": ("Adam",),
                "SGD, 100 tensors": ("SGD",)}.items():
            arms = [p for p in peers if all(f in p["name"] for f in fragments)]
            if arms and key in mine:
                best = min(arms, key=lambda p: p["ms"])
                self.out.setdefault("ratios", []).append(
                    {"name": key, "ms": mine[key], "peer": best["name"], "peer_ms": best["ms"],
                     "ratio": best["ms"] / mine[key]})
        for o in ours:
            if copy and "augment" not in o["name"]:
                o["of_copy"] = o["gb_s"] / copy

    def finish(self):
        self.ratios()
        if "gpu" not in self.out:  # else it is none, and both arms ran on the CPU
            self.small_ratio()
        self.out["seconds"] = time.monotonic() - began
        self.out["failed"] = self.failed
        with open(self.args.out, "w") as f:
            json.dump(self.out, f, indent=1)
        for r in self.out.get("ratios", []):
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
        return 1 if self.failed else 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin")
    p.add_argument("--out", default="gpu_check.json")
    p.add_argument("--seconds", type=float, default=450)
    args = p.parse_args()
    check = Check(args)
    try:
        import torch
        why = None if torch.cuda.is_available() else f"torch {torch.__version__} sees none"
    except ImportError:
        why = f"{sys.executable} has no torch"
    if why:
        check.without_gpu(why)
    else:
        check.with_gpu(torch.cuda.device_count())
    return check.finish()


if __name__ == "__main__":
    sys.exit(main())
