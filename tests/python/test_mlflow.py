"""The node `mlflow`: what a run is in MLflow's file store, also after a kill and a resume.

MLFLOW_PYTHON names a Python that has mlflow (or mlflow-skinny): then its own client reads the store too.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from sluice import _library

SYNTHETIC = {"type": "synthetic", "spatial_size": [16, 16, 16], "rad_max": 6, "rad_min": 3, "num_seg_classes": 1}
GRAPH = {
    "name": 'it\'s a "tiny" run: #1',
    "desc": "For the tracker",
    "run": {"epochs": 3, "seed": 3, "step_threads": 1, "checkpoint": {"every_epochs": 1}},
    "models": {
        "net": {"type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": [2, 4], "strides": [2]}
    },
    "nodes": {
        "train": SYNTHETIC | {"num_samples": 6},
        "batch": {"type": "batch", "in": "train", "size": 2},
        "fwd": {"type": "model", "in": "batch", "net": "net"},
        "loss": {"type": "dice_ce_loss", "in": "fwd", "to_onehot_y": True, "softmax": True},
        "step": {"type": "adam", "in": "loss", "net": "net", "lr": 0.01},
        "val": SYNTHETIC | {"num_samples": 2, "after": "step"},
        "infer": {"type": "sliding_window", "in": "val", "net": "net", "roi_size": [16, 16, 16]},
        "dice": {"type": "dice_metric", "in": "infer", "include_background": False},
        "track": {"type": "mlflow", "in": "step", "tags": {"team": "liver"}},
    },
}

READER = """
import json, sys
from mlflow.tracking import MlflowClient
client, runs = MlflowClient(sys.argv[1]), {}
for e in client.search_experiments():
    for r in client.search_runs([e.experiment_id]):
        runs[r.info.run_name] = {
            "experiment": e.name, "status": r.info.status, "params": r.data.params, "tags": r.data.tags,
            "artifacts": [a.path for a in client.list_artifacts(r.info.run_id)],
            "metrics": {k: [[m.step, m.value] for m in client.get_metric_history(r.info.run_id, k)]
                        for k in r.data.metrics}}
print(json.dumps(runs))
"""


class Store(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "g.json").write_text(json.dumps(GRAPH))

    def sluice(self, *words):
        done = subprocess.run(
            [_library.binary(), "run", *words, "--quiet"], cwd=self.path, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    # By the run's folder: status and the points of each metric.
    def stored(self):
        found = {}
        for meta in (self.path / "mlruns").glob("*/*/meta.yaml"):
            text = dict(line.split(": ", 1) for line in meta.read_text().splitlines())
            metrics = {}
            for file in (meta.parent / "metrics").rglob("*"):
                if file.is_file():
                    lines = [line.split() for line in file.read_text().splitlines()]
                    metrics[str(file.relative_to(meta.parent / "metrics"))] = [[int(s), float(v)] for _, v, s in lines]
            found[json.loads(text["run_name"])] = (int(text["status"]), metrics)
        return found

    # The run's own record, in the store's words.
    def recorded(self, run):
        metrics = {}
        for line in (self.path / run / "metrics.jsonl").read_text().splitlines():
            j = json.loads(line)
            name = "epoch/" + j["metric"] if "metric" in j else "batch/" + j["log"]
            metrics.setdefault(name, []).append([j["step"], j["value"]])
        return metrics

    def test_every_value_is_there_once_also_after_a_resume(self):
        self.sluice("g.json", "--out", "a")
        self.sluice("g.json", "--out", "b", "--set", "run.epochs=2")
        self.sluice("--resume", "b", "--set", "run.epochs=3")
        found = self.stored()
        self.assertEqual(set(found), {"a", "b"})
        self.assertEqual(found["a"][0], 3)  # finished
        self.assertEqual(found["a"][1], self.recorded("a"))
        self.assertEqual(found["b"], found["a"])
        self.assertEqual(len(found["a"][1]["batch/step.loss"]), 9)
        self.assertEqual(len(found["a"][1]["epoch/dice.mean"]), 3)
        runs = self.by_mlflow()
        if runs is None:
            return
        self.assertEqual(runs["a"]["experiment"], GRAPH["name"])
        self.assertEqual(runs["a"]["status"], "FINISHED")
        self.assertEqual(runs["a"]["params"]["nodes.step.lr"], "0.01")
        self.assertEqual(runs["a"]["params"]["models.net.channels"], "[2,4]")
        self.assertEqual(runs["a"]["tags"]["team"], "liver")
        self.assertEqual(runs["a"]["tags"]["mlflow.note.content"], GRAPH["desc"])
        self.assertIn("checkpoints", runs["a"]["artifacts"])
        self.assertEqual(runs["b"]["metrics"], found["a"][1])

    def by_mlflow(self):
        python = os.environ.get("MLFLOW_PYTHON", sys.executable)
        done = subprocess.run(
            [python, "-c", READER, str(self.path / "mlruns")], capture_output=True, text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"MLFLOW_ALLOW_FILE_STORE": "true"},
        )  # fmt: skip
        if "No module named 'mlflow'" in done.stderr:
            print("not read by MLflow: it is not installed (MLFLOW_PYTHON)", file=sys.stderr)
            return None
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_after_kill_9_no_point_is_doubled(self):
        words = [_library.binary(), "run", "g.json", "--quiet", "--out", "r", "--set", "run.epochs=80"]
        with subprocess.Popen(words, cwd=self.path, stderr=subprocess.DEVNULL) as run:
            until = time.monotonic() + 30
            while time.monotonic() < until and run.poll() is None:
                if len(list((self.path / "r/checkpoints").glob("epoch_*"))) >= 2:
                    run.kill()
                time.sleep(0.001)
        self.assertEqual(self.stored()["r"][0], 1 if run.returncode == -9 else 3)
        self.sluice("--resume", "r")
        status, metrics = self.stored()["r"]
        self.assertEqual(status, 3)
        self.assertEqual([step for step, _ in metrics["batch/step.loss"]], list(range(1, 241)))
        self.assertEqual(metrics, self.recorded("r"))

    def test_a_failed_run_says_so(self):
        done = subprocess.run(
            [_library.binary(), "run", "g.json", "--quiet", "--out", "r", "--set", "nodes.step.lr=1e30"],
            cwd=self.path, capture_output=True, text=True,
        )  # fmt: skip
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertEqual(self.stored()["r"][0], 4)

    def test_without_a_run_folder_nothing_is_written(self):
        self.assertIn("MLflow is told nothing", self.sluice("g.json", "--no-out").stderr)
        self.assertFalse((self.path / "mlruns").exists())


if __name__ == "__main__":
    unittest.main()
