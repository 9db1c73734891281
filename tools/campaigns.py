"""Runs campaigns one after the other and tabulates what they say. See tools/campaigns.sh."""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def tests(binary, *cases):
    """Test cases of a binary, by parts of their names."""
    return [str(BUILD / binary), "--test-case=" + ",".join(f"*{c}*" for c in cases)]


def files(binary, *names):
    """All test cases of a binary's files."""
    return [str(BUILD / binary), "--source-file=" + ",".join(f"*{n}" for n in names)]


def with_settings(graph, settings):
    return [str(ROOT / f"graphs/{graph}.json"), *(word for s in settings for word in ("--set", s))]


def kills(graph, count):
    """Of a shipped graph in small."""
    return [sys.executable, str(ROOT / "tests/kills.py"), str(BUILD / "sluice"), *with_settings(graph, SMALL[graph]),
            "--kills", str(count)]


def made(graph, settings):
    """A run whose files others read."""
    return [str(BUILD / "sluice"), "run", *with_settings(graph, settings), "--quiet", "--overwrite", "--out",
            str(BUILD / f"campaign-{graph}")]


HIPPOCAMPUS = f"vars.root={os.path.abspath(os.environ.get('SLUICE_TEST_DATA', 'data'))}/Task04_Hippocampus"
SLIDES = BUILD / "campaign-slides"
FEW = ("+nodes.train.limit=6", "+nodes.val.limit=2")
SMALL = {  # each a run of seconds
    "lamp": ("vars.size=[32,32,32]", "nodes.train.rad_max=12", "nodes.val.rad_max=12", "vars.features=4",
             "run.epochs=6"),
    "deepgrow": (HIPPOCAMPUS, "vars.volumes=3", "vars.val_volumes=1", "vars.clicks=4", "run.epochs=3"),
    "deepgrow3d": (HIPPOCAMPUS, "vars.volumes=6", "vars.val_volumes=1", "vars.clicks=4", "run.epochs=3"),
    "deepedit": (HIPPOCAMPUS, "vars.volumes=8", "vars.val_volumes=1", "run.epochs=3"),
    "vista3d": (HIPPOCAMPUS, *FEW, "vars.embed=8", "vars.blocks=[1,1]", "run.epochs=2"),
    "camelyon": (f"vars.slides={SLIDES}/train/images", f"vars.csv={SLIDES}/train/regions.csv"),
    "register_hippocampus": (HIPPOCAMPUS, *FEW, "run.epochs=3"),
    "diffusion": (HIPPOCAMPUS, *FEW, "vars.batch=8", "vars.channels=[32,32,64]", "vars.epochs=2"),
    "controlnet": (HIPPOCAMPUS, *FEW[:1], "nodes.val.limit=1", "vars.batch=8", "vars.channels=[32,32,64]",
                   "vars.epochs=2", "vars.steps=4", "~models.net.weights", "~models.controlnet.weights"),
    "gan": (HIPPOCAMPUS, *FEW[:1], "vars.batch=8", "vars.epochs=4"),
    "coplenet": (HIPPOCAMPUS, *FEW, "vars.features=[4,8,16,32,64]"),
}

# Name: what is done to it, the command or commands. They are in the order of what would hurt most.
CAMPAIGNS = {
    "kills": ("kill -9 at random times, then resume", tests("cli_tests", "a run killed at any moment")),
    "graph_kills": (
        "the same to shipped graphs, in small",
        kills("lamp", 200),
    ),
    "application_kills": (
        "the same to the applications' graphs, on real volumes and made slides",
        made("make_slides", (f"vars.train={SLIDES}/train", f"vars.test={SLIDES}/test", "vars.size=1024",
                             "vars.regions=12")),
        *(kills(graph, 30) for graph in SMALL if graph != "lamp"),
    ),
    "rank_kills": (
        "kill -9 of one of several processes, and of all within an epoch",
        tests("cli_tests", "a rank that is killed"),
        tests("cli_tests", "processes killed behind a checkpoint"),
    ),
    "each_step": (
        "a cut after each of 200 steps, resumed at other threads and buffers",
        tests("cli_tests", "a run that ends after any step"),
    ),
    "determinism": (
        "the same run at 1 to 16 threads, buffers of 1 to 32",
        tests("cli_tests", "the same at any number of data threads"),
    ),
    "signals": ("TERM, INT, HUP, USR1 at random times", tests("cli_tests", "a signal at any moment")),
    "crash_order": (
        "power lost: writes missing, torn and reordered between syncs",
        tests("nodes_tests", "whatever a loss of power leaves"),
    ),
    "file_calls": (
        "the k-th file call fails: ENOSPC, EIO, EMFILE, EACCES, EINTR, half a write",
        tests("cli_tests", "whichever file call"),
    ),
    "disk_full": ("no more space after so many bytes", tests("cli_tests", "finds no more space")),
    "allocations": ("the k-th allocation fails", tests("cli_tests", "finds no memory")),
    "random_graphs": (
        "random graphs with faults, delays, cuts and resumes, against an interpreter",
        tests("engine_tests", "random graph", "a failure beside a device"),
    ),
    "worlds": (
        "worlds of several schedulers, against steps worked out one by one",
        tests("engine_tests", "worlds of 1 to 5", "a world that", "that a step asks for"),
    ),
    "damaged_volumes": (
        "damaged .nii, .nii.gz, .nrrd, .mha, pictures, .npy",
        tests("kernels_tests", "No damaged"),
    ),
    "damaged_weights": (
        "damaged files of torch.save()",
        tests("nodes_tests", "damaged files of torch"),
    ),
    "graph_fuzz": (
        "damaged graph files",
        tests("engine_tests", "A damaged graph gives a plan or diagnostics"),
    ),
    "agreement": ("mutants that check and the JSON Schema must judge alike", tests("cli_tests", "The schema refuses")),
    "typos": ("a letter wrong anywhere: the right word is offered", tests("cli_tests", "One letter wrong")),
    "edits": ("random edits of an open document", tests("lsp_tests", "after random edits")),
    "caches": (
        "other parameters, versions, files; flipped bits; two processes on one cache",
        files("engine_tests", "test_cache_folder.cpp"),
        files("nodes_tests", "test_cache.cpp"),
        files("cli_tests", "test_cache.cpp"),
    ),
    "convolutions": (
        "random shapes, every set of instructions, against LibTorch in float64",
        tests("kernels_tests", "of random shapes"),
    ),
    "large_images": ("filters of more than 2^31 voxels", tests("kernels_tests", "filters reach every voxel")),
    "serve": ("clients that cut off, damaged and too large files", tests("cli_tests", "a served prediction", "a full queue")),
    "soak": (
        "one run for long: memory, descriptors, rate",
        [sys.executable, str(ROOT / "tests/soak.py"), str(BUILD / "sluice")],
    ),
    "sanitizers": (
        "engine_tests under AddressSanitizer and UBSan, with a planted fault",
        [str(ROOT / "tests/sanitize.sh")],
    ),
    "random_mutants": (
        "one place of engine/ changed at random: engine_tests notice",
        [sys.executable, str(ROOT / "tests/random_mutants.py")],
    ),
    "coverage": ("lines and branches of engine/ that tests reach", [str(ROOT / "tests/coverage.sh")]),
}

SAID = re.compile(r"^campaign (\S+): (\d+) cases, seed (\d+)(?:, (.*))?$", re.M)
SUMMARY = re.compile(r"assertions:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed")


def run(name, minutes, seed):
    env = dict(os.environ, SLUICE_LONG="1", SLUICE_MINUTES=str(minutes), SLUICE_SEED=str(seed))
    env["SLUICE_CATALOGUE"] = str(BUILD / "campaign-catalogue.json")  # then graph_fuzz damages the shipped graphs
    with open(env["SLUICE_CATALOGUE"], "w") as file:
        subprocess.run([str(BUILD / "sluice"), "inspect", "--json"], check=True, stdout=file)
    begin = time.monotonic()
    said, failed = "", False
    for command in CAMPAIGNS[name][1:]:
        ran = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", cwd=BUILD)
        said += ran.stdout + ran.stderr
        failed |= ran.returncode != 0
    parts = [(m[1], int(m[2]), m[4] or "") for m in SAID.finditer(said)]
    checks = SUMMARY.findall(said)
    return {
        "campaign": name,
        "cases": sum(n for _, n, _ in parts),
        "parts": {part: n for part, n, _ in parts},
        "notes": "; ".join(f"{part}: {note}" for part, _, note in parts if note),
        "checks": sum(int(c[0]) for c in checks),
        "failures": sum(int(c[2]) for c in checks) or int(failed),
        "seed": seed,
        "minutes": round((time.monotonic() - begin) / 60, 2),
        "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }, said


def test_cases(name):
    """How many test cases a campaign is of; None where it is a script."""
    count = None
    for command in CAMPAIGNS[name][1:]:
        if command[0].endswith("_tests"):
            said = subprocess.run([*command, "-ltc"], capture_output=True, text=True).stdout
            count = (count or 0) + int(re.search(r"current filters: (\d+)", said)[1])
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--minutes", type=float, default=3, help="of each campaign at most (3)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="what each does, and of how many test cases it is")
    asked = parser.parse_args()
    if asked.list:
        counts = {name: test_cases(name) for name in CAMPAIGNS}
        for name, count in counts.items():
            print(f"{name:<16} {'script' if count is None else count:>6}  {CAMPAIGNS[name][0]}")
        small = [subprocess.run([str(BUILD / "sluice"), "check", *with_settings(*graph)], stdout=subprocess.DEVNULL)
                 for graph in SMALL.items()]
        return int(0 in counts.values() or any(checked.returncode for checked in small))
    unknown = [n for n in asked.names if n not in CAMPAIGNS]
    if unknown:
        parser.error(f"no campaign is called {', '.join(unknown)}; --list names them")
    failed = False
    print(f"{'campaign':<16} {'cases':>9} {'checks':>9} {'failures':>8} {'seed':>6} {'minutes':>8}")
    for name in asked.names or CAMPAIGNS:
        row, said = run(name, asked.minutes, asked.seed)
        print(
            f"{name:<16} {row['cases']:>9} {row['checks']:>9} {row['failures']:>8} {row['seed']:>6} "
            f"{row['minutes']:>8.2f}  {row['notes']}",
            flush=True,
        )
        if row["failures"]:
            failed = True
            log = BUILD / f"campaign-{name}.log"
            log.write_text(said)
            print(f"  what failed stands in {log}", flush=True)
        with open(BUILD / "campaigns.json", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
