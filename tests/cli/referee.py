#!/usr/bin/env python3
"""Compares the verdicts of `sluice check` with those of the jsonschema package.

    referee.py SCHEMA GRAPHS

GRAPHS has a line {"graph": ..., "refused": bool, "may_be_refused": bool, "codes": [...]} for each
graph; some must be refused, and of what is wrong through a variable a schema need not know. Prints
each graph on which the two differ, then counts as JSON; exits with 1 where there is a difference and
with 77 where the package is missing.
"""
import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)


def main(schema_file, graphs_file):
    with open(schema_file) as f:
        schema = json.load(f)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    validator = kind(schema)
    counts = {"graphs": 0, "refused": 0, "different": 0}
    with open(graphs_file) as f:
        for line in f:
            case = json.loads(line)
            counts["graphs"] += 1
            counts["refused"] += case["refused"]
            if not case["refused"] if validator.is_valid(case["graph"]) else case["may_be_refused"]:
                continue
            counts["different"] += 1
            if counts["different"] > 10:
                continue
            found = [e.json_path + ": " + e.message[:200]
                     for e in validator.iter_errors(case["graph"])]
            print(json.dumps({"mutations": case["mutations"], "check": case["codes"],
                              "schema": found[:3]}))
    print(json.dumps(counts))
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
