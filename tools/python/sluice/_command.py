"""What the command answers from the graph alone, asked with --json: there is no second way to it."""

import dataclasses
import json
import os
import subprocess
import tempfile

from . import _errors, _library
from ._loader import files, overrides, to_json


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """What is wrong with a graph; `place` as text, `line` and `column` from 1, 0 where there is none."""

    severity: str
    code: str
    message: str
    path: str = ""
    hint: str = ""
    notes: tuple = ()
    file: str = ""
    place: str = ""
    line: int = 0
    column: int = 0
    length: int = 0

    def __str__(self):
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.place}: {self.severity}[{self.code}]: {self.message}{hint}"


def _run(*words, text=None):
    # The command writes UTF-8, whatever the locale says.
    done = subprocess.run([_library.binary(), *words], input=text, capture_output=True, encoding="utf-8")
    if done.returncode and not done.stdout:
        raise _errors.from_json({"exit": done.returncode, "text": done.stderr.removeprefix("error: ")})
    return done


def _ask(graph, set, *words):
    """What the command says of a graph; a dict goes to its stdin, as "graph" in the current folder."""
    sets = ["--set=" + text for text in overrides(set)]
    if isinstance(graph, dict):
        return _run(*words, *sets, "-", text=to_json(graph, indent=2))
    return _run(*words, *sets, "--", *("./-" if f == "-" else f for f in files(graph)))


def check(graph, set=None):
    """Everything that is wrong with a graph (a file, files to be merged, or a dict); [] for nothing."""
    found = _ask(graph, set, "check", "--json", "--merge")
    known = {f.name for f in dataclasses.fields(Diagnostic)}
    return [
        Diagnostic(**{k: tuple(v) if k == "notes" else v for k, v in d.items() if k in known})
        for d in json.loads(found.stdout)["graphs"][0]["diagnostics"]
    ]


def dot(graph, set=None):
    """The graph's picture as Graphviz text."""
    return _ask(graph, set, "dot").stdout


def svg(graph, set=None):
    """The graph's picture as SVG; nodes have the ids node0, node1, ..."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "picture.svg")
        _ask(graph, set, "dot", "-o", file)
        with open(file, encoding="utf-8") as drawn:
            return drawn.read()


def inspect(name):
    """What a node, network or family takes and gives, as `sluice inspect --json`."""
    return json.loads(_run("inspect", "--json", "--", name).stdout)
