#!/usr/bin/env python3
"""Changes one place of engine/ at random and expects engine_tests to notice; again and again.

    tests/random_mutants.py [--count 50] [--seed 1] [--minutes M] [--jobs 1]

A mutant turns a comparison, a logical or an arithmetic operator, a truth value or a number into its
neighbour, or leaves out a call. Those that do not build are drawn again; what nobody can notice (a
buffer's spare room, a reserve(), a hint to the machine) is left alone. Works on a copy in a temporary
folder. Prints each with its place, the change and the first test that failed, then the share that was
found; exit status 1 below nine tenths.
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_CAMPAIGNS = ("SLUICE_LONG", "SLUICE_MINUTES", "SLUICE_SEED", "SLUICE_CATALOGUE")
SHORT = {k: v for k, v in os.environ.items() if k not in OF_CAMPAIGNS}  # as in CI
SWAPS = [(f" {a} ", f" {b} ") for a, b in
         (("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"), ("==", "!="), ("!=", "=="), ("&&", "||"), ("||", "&&"),
          ("+", "-"), ("-", "+"), ("*", "+"), ("+=", "-="), ("-=", "+="))]
HINT = re.compile(r"\b(?:reserve|madvise)\(")
ROOM = re.compile(r"\bchar \w+\[\d+\]")
CALL = re.compile(r"^\s+[a-z_]\w*(?:(?:\.|->|::)\w+)*\(.*\);\s*$")


def without_raw_strings(text):
    """With _ in the place of each sign of a raw string, which may have many lines."""
    return re.sub(r'R"(\w*)\(.*?\)\1"', lambda m: re.sub(r"[^\n]", "_", m[0]), text, flags=re.S)


def changes(line, code):
    """Every line that one change makes of `line`, without what stands in text or behind it as a comment. `code` is the
    line without raw strings."""
    code = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: '"' + "_" * (len(m[0]) - 2) + '"', code).split("//")[0]
    code = ROOM.sub(lambda m: "_" * len(m[0]), code)
    if code.lstrip().startswith(("#", "static_assert", "template", "case ")) or HINT.search(code):
        return
    for old, new in SWAPS:
        for m in re.finditer(re.escape(old), code):
            yield line[:m.start()] + new + line[m.end():]
    for m in re.finditer(r"\b(true|false)\b", code):
        yield line[:m.start()] + ("false" if m[0] == "true" else "true") + line[m.end():]
    for m in re.finditer(r"(?<![\w.])\d+(?![\w.'])", code):
        yield line[:m.start()] + str(int(m[0]) + 1) + line[m.end():]
    for m in re.finditer(r"(?<=[(\s])!(?=[\w(])", code):
        yield line[:m.start()] + line[m.end():]
    if CALL.match(code):
        yield re.match(r"\s*", line)[0] + ";\n"


WITH_LIBTORCH = ("state", "session")  # rooms of engine/ that engine_tests do not link


def places(tree):
    """(file, line number, line, what one change makes of it), outside of multi-line text."""
    for file in sorted((tree / "engine").rglob("*.cpp")):
        if file.relative_to(tree).parts[1] in WITH_LIBTORCH:
            continue
        text = file.read_text()
        code = without_raw_strings(text).splitlines(keepends=True)
        for number, line in enumerate(text.splitlines(keepends=True)):
            made = list(changes(line, code[number]))
            if made:
                yield file, number, line, made


def verdict(build, jobs):
    """None where it does not build; else the first test that failed, or ""."""
    made = subprocess.run(["ninja", f"-j{jobs}", "-C", str(build), "engine_tests"], capture_output=True)
    if made.returncode:
        return None
    try:
        ran = subprocess.run([str(build / "engine_tests"), "--abort-after=1"], capture_output=True, text=True,
                             errors="replace", timeout=300, cwd=build, env=SHORT)
    except subprocess.TimeoutExpired:
        return "ran out of time"
    if ran.returncode == 0:
        return ""
    name = "crashed"
    for said in ran.stdout.splitlines():
        if said.startswith("TEST CASE:"):
            name = said[10:].strip()
        if "ERROR" in said or "CRASHED" in said:
            break
    return name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SLUICE_SEED", 1)))
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("SLUICE_MINUTES", 1e9)))
    parser.add_argument("--jobs", type=int, default=1)
    a = parser.parse_args()
    rng = random.Random(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines():
            to = tree / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to)
        build = tree / "build"
        os.environ["CCACHE_BASEDIR"] = str(tree)
        venv = os.environ.get("SLUICE_VENV", ROOT / ".venv")
        subprocess.run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", f"-DSLUICE_VENV={venv}"], check=True,
                       stdout=subprocess.DEVNULL)
        if (wrong := verdict(build, a.jobs)) != "":
            sys.exit(f"engine_tests fail before anything is changed: {wrong or 'they do not build'}")
        every, found, tried = list(places(tree)), 0, 0
        end = time.monotonic() + 60 * a.minutes
        while tried < a.count and (tried == 0 or time.monotonic() < end):
            file, number, line, made = rng.choice(every)
            changed = rng.choice(made)
            kept = file.read_text()
            lines = kept.splitlines(keepends=True)
            lines[number] = changed
            file.write_text("".join(lines))
            noticed = verdict(build, a.jobs)
            file.write_text(kept)
            if noticed is None:
                continue
            tried += 1
            found += noticed != ""
            print(f"{file.relative_to(tree)}:{number + 1}: {line.strip()}  ->  {changed.strip()}\n"
                  f"    {noticed or 'SURVIVED'}", flush=True)
        print(f"campaign random_mutants: {tried} cases, seed {a.seed}, {found} found ({100 * found / tried:.0f} %)")
        sys.exit(found < 0.9 * tried)


main()
