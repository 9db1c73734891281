"""What `sluice open` costs a run that it watches: the server's own CPU, and the run's speed beside one unwatched.

usage: watched.py [SLUICE] [--data data/brain] [--epochs 12] [--repeats 5] [--browser] [--out F.json]

Runs of graphs/brain.json with and without, in turn. The watcher listens to the page's events and asks for the run's
curves at each, as the page does; with --browser it is the page itself in a headless Chromium (Playwright), whose own
drawing then takes cores too. Prints a Markdown table: seconds (medians), CPU of the server over the run's time.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
sys.path.insert(0, str(root / "tests/web"))
from measures import cpu_seconds_of  # noqa: E402
from workbench import Workbench  # noqa: E402


class Listener:
    """The page's questions without its drawing."""

    def __init__(self, workbench):
        self.w, self.events, self.done = workbench, 0, False
        self.link = http.client.HTTPConnection("127.0.0.1", workbench.port, timeout=5)
        threading.Thread(target=self.listen, daemon=True).start()

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.w.port, timeout=30)
        headers = {"Authorization": "Bearer " + self.w.token, "Content-Type": "application/json",
                   "Origin": f"http://127.0.0.1:{self.w.port}"}
        c.request(method, "/api/" + path, json.dumps(body) if body else None, headers)
        answer = json.loads(c.getresponse().read())
        c.close()
        return answer

    def listen(self):
        self.link.request("GET", "/api/events", headers={"Authorization": "Bearer " + self.w.token})
        stream = self.link.getresponse()
        kind = ""
        while not self.done:
            try:
                line = stream.fp.readline()
                if not line:
                    return
            except OSError:
                continue
            if line.startswith(b"event:"):
                kind = line[6:].strip()
            elif line.startswith(b"data:") and kind == b"live":
                self.events += 1
                run = json.loads(line[5:])["run"]
                page = self.ask("GET", "runs/" + run)
                for steps in (True, False):
                    names = page["by_step" if steps else "by_epoch"]
                    if names:
                        self.ask("POST", "curves", {"runs": [run], "names": names, "steps": steps,
                                                    "x": "step" if steps else "epoch", "columns": 400})


@contextlib.contextmanager
def page_of(workbench):
    from playwright.sync_api import sync_playwright
    chromium = next(filter(None, map(shutil.which, ["chromium-headless-shell", "chromium", "google-chrome"])))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(workbench.address)
        page.wait_for_selector("html[data-ready=yes]")
        page.click("#tab-runs")
        yield
        browser.close()


def run(a, folder, name):
    words = [a.sluice, "run", root / "graphs/brain.json", "--quiet", "--out", folder / "runs" / name,
             "--set", f"vars.root={a.data.resolve()}", "--set", f"run.epochs={a.epochs}", "--set", "~run.stop"]
    subprocess.run([str(w) for w in words], check=True)
    return json.loads((folder / "runs" / name / "summary.json").read_text())["wall_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sluice", nargs="?", default=str(root / "build/sluice"))
    p.add_argument("--data", type=pathlib.Path, default=root / "data/brain")
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--browser", action="store_true")
    p.add_argument("--out", type=pathlib.Path)
    a = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for repeat in range(a.repeats):
            alone = run(a, folder, f"alone{repeat}")
            with Workbench(a.sluice, folder) as w:
                listener = None if a.browser else Listener(w)
                with page_of(w) if a.browser else contextlib.nullcontext():
                    begin = cpu_seconds_of(w.process.pid)
                    watched = run(a, folder, f"watched{repeat}")
                    cpu = cpu_seconds_of(w.process.pid) - begin
                if listener:
                    listener.done = True
            rows.append({"alone_s": alone, "watched_s": watched, "server_cpu_s": cpu,
                         "events": listener.events if listener else None})
            print(f"{repeat}: alone {alone:.2f} s, watched {watched:.2f} s, server {cpu:.2f} s of CPU, "
                  f"{rows[-1]['events']} events", file=sys.stderr, flush=True)
    if a.out:
        a.out.write_text(json.dumps({"epochs": a.epochs, "rows": rows}, indent=1))
    middle = lambda key: statistics.median(r[key] for r in rows)
    ratio = statistics.median(r["alone_s"] / r["watched_s"] for r in rows)
    share = statistics.median(r["server_cpu_s"] / r["watched_s"] for r in rows)
    print("| run alone, s | watched, s | speed watched / alone | server's CPU |\n|---|---|---|---|")
    print(f"| {middle('alone_s'):.2f} | {middle('watched_s'):.2f} | {ratio:.3f} | {100 * share:.1f} % |")


if __name__ == "__main__":
    main()
