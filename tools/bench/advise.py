"""What `sluice advise` makes of badly written graphs, beside the graphs as they should be.

    tools/bench/advise.py --hippocampus DIR --brain DIR [--seconds 10] [--rounds 3] [-o F.json]

Each graph of tools/bench/badly is given to `sluice advise --write`; then the badly written one, the
advised one and the hand-tuned one of graphs/ are profiled in turn, `--rounds` times, and the medians
compared. A cache where none can stand is left out of the badly written one, which would not run.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLUICE = ROOT / "build" / "sluice"
# Long enough that neither an epoch's number nor a stop rule ends a run before its time.
ALWAYS = {"hippocampus": ["--set", "run.epochs=1000"],
          "brain": ["--set", "run.epochs=1000", "--set", "~run.stop"]}
WITHOUT = {"brain": ["--set", "nodes.cached.disabled=true"]}


def sluice(*words):
    done = subprocess.run([SLUICE, *map(str, words), "--quiet", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def bench(name, data, args, folder):
    options = [*ALWAYS[name], "--set", f"vars.root={data}", "--seconds", args.seconds]
    bad, good, advised = ROOT / "tools/bench/badly" / f"{name}.json", ROOT / "graphs" / f"{name}.json", folder / f"{name}.json"
    advice = sluice("advise", bad, *options, "--write", advised)
    arms = {"badly written": [bad, *WITHOUT.get(name, [])], "advised": [advised], "hand-tuned": [good]}
    rates = {arm: [] for arm in arms}
    for _ in range(args.rounds):
        for arm, words in arms.items():
            rates[arm].append(sluice("profile", *words, *options)["rate"])
    medians = {arm: statistics.median(all) for arm, all in rates.items()}
    return {"graph": name, "changes": [c["change"] for c in advice["changes"]], "rates": rates, "median": medians,
            "advised_to_hand_tuned": medians["advised"] / medians["hand-tuned"],
            "advised_to_badly_written": medians["advised"] / medians["badly written"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hippocampus")
    parser.add_argument("--brain")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--out")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("hippocampus", "brain"):
            if getattr(args, name):
                results.append(bench(name, getattr(args, name), args, pathlib.Path(folder)))
    text = json.dumps(results, indent=2)
    print(text)
    if args.out:
        pathlib.Path(args.out).write_text(text + "\n")


main()
