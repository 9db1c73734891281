"""What losses.py, metrics.py and networks.py share: the command line, the cases of each kind, a row of largest errors a kind."""
import argparse
import json
import pathlib
import tempfile


def held(what, columns, kinds, one, width, cases):
    """one(sluice, kind, seed, folder): whether the case is wrong, its errors by column, its parameters. Prints the
    table and what is wrong; the exit code is 1 where something is. `width`: of the kinds' names; `cases`: of each kind
    where no number is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sluice", default="build/sluice")
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(kinds):
        parser.error(f"no {what} here: {', '.join(sorted(unknown))}; there are {', '.join(kinds)}")
    failed = 0
    print(f"{what:<{width}}{'cases':>6}{''.join(f'{c:>11}' for c in columns)}")
    with tempfile.TemporaryDirectory() as name:
        for kind in given.kinds or kinds:
            worst = [0.0] * len(columns)
            for seed in range(given.seed, given.seed + given.cases):
                bad, errors, params = one(given.sluice, kind, seed, pathlib.Path(name))
                worst = [max(pair) for pair in zip(worst, errors)]
                if bad:
                    failed += 1
                    print(f"{kind}, seed {seed}: {' '.join(f'{e:.1e}' for e in errors)}: {json.dumps(params)}")
            print(f"{kind:<{width}}{given.cases:>6}{''.join(f'{w:>11.1e}' for w in worst)}", flush=True)
    return 1 if failed else 0
