"""A folder as a user has it, and `sluice open` in it."""
import json, os, pathlib, re, signal, subprocess, sys, tempfile, time

GRAPH = """{
  // A training on made data, small enough to be watched.
  "name": "small",
  "vars": { "size": [8, 8, 8] },   // of a patch
  "run": { "epochs": 3, "seed": 1 },
  "models": {
    "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
             "channels": [4, 8], "strides": [2] }
  },
  "nodes": {
    "made":  { "type": "synthetic", "num_samples": 8, "spatial_size": [24, 24, 24],
               "rad_max": 8, "rad_min": 3, "num_seg_classes": 1 },
    "crop":  { "type": "rand_spatial_crop", "in": "made", "keys": ["image", "label"],
               "roi_size": "@size", "random_size": false },
    "flip":  { "type": "rand_flip", "in": "crop", "keys": ["image", "label"], "prob": 0.5 },  // mirror
    "batch": { "type": "batch", "in": "flip", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 }
  }
}
"""


class Workbench:
    def __init__(self, binary, folder=None, *options, what="small.json"):
        self.binary = os.path.abspath(binary)
        self.own = None if folder else tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(folder or self.own.name)
        if not (self.folder / "small.json").exists():
            (self.folder / "small.json").write_text(GRAPH)
        self.process = subprocess.Popen(
            [self.binary, "open", what, "--no-browser", *options], cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{64})", self.address)
        if not found:
            sys.exit("no address: " + self.address + self.process.stderr.read())
        self.port, self.token = int(found[1]), found[2]

    def sluice(self, *words):
        return subprocess.run([self.binary, *words], cwd=self.folder, capture_output=True, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        if self.own:
            for live in self.folder.rglob("live.json"):  # runs go on, unless a test that failed left one
                try:
                    os.kill(json.loads(live.read_text())["pid"], signal.SIGKILL)
                except (OSError, ValueError):
                    pass
            self.own.cleanup()


class Sentences:
    """Says each thing that holds, and what does not."""

    def __init__(self):
        self.failed = 0

    def check(self, holds, sentence, why=""):
        print(("ok    " if holds else "FAILS ") + sentence + ("" if holds else f": {why}"), flush=True)
        self.failed += not holds

    def until(self, holds, sentence, seconds=30):
        end = time.time() + seconds
        value = None
        while time.time() < end:
            value = holds()
            if value:
                return self.check(True, sentence)
            time.sleep(0.1)
        self.check(False, sentence, f"not within {seconds} s")

    def end(self):
        sys.exit(1 if self.failed else 0)


def made_run(folder, at, lr=0.01, steps=3, **notes):
    """A run's folder as a run leaves it."""
    run = folder / at
    run.mkdir(parents=True)
    write = lambda file, value: (run / file).write_text(json.dumps(value))
    write("run.json", {"id": "0" * 32, "graph_sha256": "", "graphs": ["g.json"], "step_threads": 1})
    write("graph.json", {"nodes": {"step": {"type": "adam", "lr": lr}}, "run": {"epochs": steps}})
    write("summary.json", {"status": "done", "epochs": steps, "steps": steps, "wall_s": 1.5, "metrics": {
        "step.loss": {"last": lr, "best": lr, "epoch": steps - 1, "best_epoch": 0},
        "dice.mean": {"last": 1 - lr, "best": 1 - lr, "epoch": steps - 1, "best_epoch": 0}}})
    (run / "sessions.jsonl").write_text(
        json.dumps({"event": "begin", "time": "2026-01-01T00:00:00Z", "steps": 0,
                    "command": ["sluice", "run", "g.json", "--set", f"nodes.step.lr={lr}"]}) + "\n" +
        json.dumps({"event": "end", "status": "done", "steps": steps, "wall_s": 1.5}) + "\n")
    (run / "metrics.jsonl").write_text("".join(
        json.dumps({"epoch": e, "step": e + 1, "metric": m, "value": v}, separators=(",", ":")) + "\n"
        for e in range(steps) for m, v in (("step.loss", lr * (2 - e / steps)),
                                           ("dice.mean", 1 - lr * (2 - e / steps)))))
    if notes:
        write("notes.json", notes)
    return run
