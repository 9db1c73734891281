"""Runs beside each other on the page: how soon they are there, and how smoothly their curves scroll.

usage: page.py [SLUICE] [--runs 10] [--curves 20] [--points 100000] [--folder F]

Playwright (PyPI) and a Chromium are needed. Runs are made, of noise; the page compares all of them, and
the wheel goes down through the charts and up again, while each frame's time is noted: the first way
loads and draws every chart, the second moves what is drawn. Prints a Markdown table.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent.parent / "tests/web"))
from playwright.sync_api import sync_playwright  # noqa: E402
from workbench import Workbench, made_run  # noqa: E402


def fill(folder, runs, curves, points):
    noise = [random.random() for _ in range(9973)]
    for r in range(runs):
        run = made_run(folder, f"runs/r{r}", lr=0.001 * (r + 1), steps=1)
        with open(run / "metrics.jsonl", "w") as f:
            for e in range(points):
                f.write("".join('{"epoch":%d,"step":%d,"metric":"m%d.mean","value":%.6f}\n' %
                                (e, e + 1, c, noise[(e * (c + 1) + r) % 9973] + 1000.0 * r / (e + 1000))
                                for c in range(curves)))


def frames(page, way):
    """The milliseconds of each frame while the wheel goes one way through the view."""
    page.evaluate("""() => { window.frames_ = []; let last = performance.now(); window.on_ = true;
        const next = now => { frames_.push(now - last); last = now; if (on_) requestAnimationFrame(next); };
        requestAnimationFrame(next); }""")
    end = """way => { let s = document.querySelector('.compared');
        while (s && !(s.scrollHeight > s.clientHeight + 2 && /auto|scroll/.test(getComputedStyle(s).overflowY)))
          s = s.parentElement;
        s = s || document.scrollingElement;
        return way > 0 ? s.scrollTop + s.clientHeight >= s.scrollHeight - 2 : s.scrollTop <= 2; }"""
    for _ in range(2000):
        page.mouse.wheel(0, way * 60)
        if page.evaluate(end, way):
            break
    return page.evaluate("() => { on_ = false; return frames_.slice(1); }")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("sluice", nargs="?", default=str(here.parent.parent / "build/sluice"))
    p.add_argument("--runs", type=int, default=10)
    p.add_argument("--curves", type=int, default=20)
    p.add_argument("--points", type=int, default=100_000)
    p.add_argument("--folder", help="made runs are kept there and used again")
    a = p.parse_args()
    chromium = next(filter(None, map(shutil.which, ["chromium-headless-shell", "chromium", "google-chrome"])), None)
    if not chromium:
        sys.exit("no Chromium here")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as driver:
        folder = pathlib.Path(a.folder or made)
        if not (folder / "runs").exists():
            folder.mkdir(exist_ok=True)
            fill(folder, a.runs, a.curves, a.points)
        with Workbench(a.sluice, folder) as w:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(w.address)
            page.wait_for_selector("html[data-ready=yes]")
            page.click("#tab-runs")
            page.wait_for_selector("table.runs tbody tr")
            for box in page.locator("table.runs tbody input").all():
                box.check()
            begin = time.perf_counter()
            page.click("#view-runs button.main")
            page.wait_for_selector("table.settings", timeout=300_000)
            table = time.perf_counter() - begin
            page.locator(".compared [data-curve]").first.scroll_into_view_if_needed()
            page.wait_for_selector(".compared [data-curve] path", timeout=300_000)
            chart = time.perf_counter() - begin
            page.mouse.move(640, 500)
            rows = [("down, drawing", frames(page, 1))]
            page.wait_for_function("n => document.querySelectorAll('.compared [data-curve] svg').length >= n",
                                   arg=a.curves, timeout=300_000)
            rows += [("up, drawn", frames(page, -1)), ("down, drawn", frames(page, 1))]
            drawn = page.evaluate("() => document.querySelectorAll('.compared [data-curve] path').length")
            browser.close()
    print(f"{a.runs} runs, {a.curves} curves, {a.points:,} points: settings after {table:.1f} s, the first chart after "
          f"{chart:.1f} s, {drawn} lines\n")
    print("| scrolling | frames/s | median ms | 99 % ms | longest ms |\n|---|---|---|---|---|")
    for name, ms in rows:
        ms.sort()
        print(f"| {name} | {1000 * len(ms) / sum(ms):.0f} | {statistics.median(ms):.1f} | "
              f"{ms[int(0.99 * (len(ms) - 1))]:.1f} | {ms[-1]:.1f} |")


if __name__ == "__main__":
    main()
