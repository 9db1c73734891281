"""The workbench in a real browser, in sentences.

    python tests/web/page.py build/sluice [FOLDER FOR SCREENSHOTS]

Playwright (PyPI) drives Debian's chromium-headless-shell; where one of them is missing this says so and
skips. String predicates would need eval, which the page's policy forbids: selectors and functions only.
"""
import json, pathlib, re, shutil, sys, time

from workbench import GRAPH, Sentences, Workbench, made_run

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: no playwright here")
    sys.exit(0)
BROWSER = next(filter(None, map(shutil.which, ["chromium-headless-shell", "chromium", "google-chrome"])), None)
if not BROWSER:
    print("skipped: no Chromium here")
    sys.exit(0)

s = Sentences()
EVIL = "<img src=x onerror=alert(1)>"


class Page:
    """A page that remembers what its console said and where its requests went."""

    def __init__(self, browser, w, width=1280, height=860, dark=False):
        self.w = w
        self.context = browser.new_context(viewport={"width": width, "height": height},
                                           color_scheme="dark" if dark else "light")
        self.page = self.context.new_page()
        self.said, self.elsewhere, self.asked = [], [], []
        self.page.on("console", lambda m: self.said.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.page.on("request", lambda r: self.note(r.url))
        self.page.goto(w.address)
        self.page.wait_for_selector("html[data-ready=yes]", timeout=30000)

    def note(self, url):
        if not url.startswith((f"http://127.0.0.1:{self.w.port}/", "blob:")):
            self.elsewhere.append(url)

    def text(self):
        return self.page.evaluate("() => document.querySelector('.CodeMirror').CodeMirror.getValue()")

    def set_text(self, text):
        self.page.evaluate("t => document.querySelector('.CodeMirror').CodeMirror.setValue(t)", text)

    def at(self, selector, timeout=15000):
        return self.page.wait_for_selector(selector, timeout=timeout)

    def gone(self, selector, timeout=15000):
        self.page.wait_for_selector(selector, state="detached", timeout=timeout)


def lines_apart(old, new):
    return [(a, b) for a, b in zip(old.split("\n"), new.split("\n")) if a != b]


def writing(p, w):
    page = p.page
    p.at("#picture svg g.pick")
    s.check(page.locator("#picture svg g.pick").count() == 7, "the picture has a node for each in the text")
    s.check("ok, 7 nodes" in page.inner_text("#graph-bar .pill"), "a right graph is said to be right")

    p.set_text(GRAPH.replace('"rand_flip"', '"rand_flpi"'))
    begin = time.time()
    p.at(".CodeMirror-lint-mark-error")
    s.check(True, f"a typo is marked, after {time.time() - begin:.2f} s")
    p.at("#picture .sheet.stale svg")
    s.check(True, "the last right picture stays, greyed")
    page.click("#problems .fix >> nth=0")
    p.gone(".CodeMirror-lint-mark-error")
    s.check(p.text() == GRAPH, "its fix leaves the text right", lines_apart(GRAPH, p.text()))
    page.click(".CodeMirror")
    page.keyboard.press("Control+z")
    s.until(lambda: "rand_flpi" in p.text(), "undo takes the fix back")
    page.keyboard.press("Control+y")
    s.until(lambda: p.text() == GRAPH, "redo brings it again")

    def opens(path):  # a click on a picture that gives way to the next one is lost
        page.click(f'#picture g.pick[data-path="{path}"]')
        return page.locator(f'#form h2:has-text("{path}")').count() > 0

    for path in ("made", "crop", "flip", "batch", "fwd", "loss", "step"):
        s.until(lambda: opens(path), f"a click on {path} opens its form")
    cursor = page.evaluate("() => document.querySelector('.CodeMirror').CodeMirror.getCursor('from').line")
    s.check('"step"' in p.text().split("\n")[cursor], "and moves the cursor there")
    page.evaluate("""() => { const e = document.querySelector('.CodeMirror').CodeMirror; e.focus();
        e.setCursor(e.getValue().split('\\n').findIndex(l => l.includes('"flip":')), 8); }""")
    page.wait_for_selector('#form h2:has-text("flip")')
    s.check(page.locator('g.pick.chosen[data-path="flip"]').count() == 1, "the cursor chooses its node in the picture")

    page.fill("#p-prob", "0.25")
    page.keyboard.press("Tab")
    s.until(lambda: '"prob": 0.25' in p.text(), "a form's change is in the text")
    apart = lines_apart(GRAPH, p.text())
    s.check(len(apart) == 1 and "// mirror" in apart[0][1], "in one line, and its comment stays", apart)
    page.click('#picture g.pick[data-path="crop"]')
    page.wait_for_selector('#form h2:has-text("crop")')
    page.fill("#p-roi_size", "[6, 6, 6]")
    page.keyboard.press("Tab")
    page.click("#dialog button:has-text('for all who use it')")
    s.until(lambda: '"size": [6, 6, 6] },   // of a patch' in p.text(),
            "a value of a variable asks where, and changes there")

    p.at('#picture .sheet[aria-busy="false"]')  # lines lie where they stay
    page.fill("#palette input", "rotate90")
    entry = page.locator('#palette [data-type="rand_rotate90"]')
    edge = page.evaluate("""() => { for (const g of document.querySelectorAll('#picture g.edge'))
        if (/^crop(:\\w+)?->flip/.test(g.querySelector('title').textContent)) {
          const l = g.querySelector('path'), q = l.getPointAtLength(l.getTotalLength() / 2)
            .matrixTransform(l.getScreenCTM()), box = document.querySelector('#picture .sheet').getBoundingClientRect();
          return {x: q.x - box.x, y: q.y - box.y}; } }""")
    entry.drag_to(page.locator("#picture .sheet"), target_position=edge)
    s.until(lambda: re.search(r'"rotate90":\s*{ "type": "rand_rotate90", "in": "crop" }', p.text()) and
            re.search(r'"flip":\s*{ "type": "rand_flip", "in": "rotate90"', p.text()),
            "a node that is dragged from the palette onto a line stands between the two")
    p.at('#picture g.pick[data-path="rotate90"]')
    entry.click()
    p.at("#dialog[open] h2")
    s.check("rand_rotate90" in page.inner_text("#dialog h2") and
            "max_k" in page.inner_text("#dialog"), "a type's documentation opens")
    page.keyboard.press("Escape")

    page.click('#picture g.pick[data-path="rotate90"]')
    page.wait_for_selector('#form h2:has-text("rotate90")')
    page.evaluate("() => document.querySelector('.CodeMirror').CodeMirror.focus()")
    page.keyboard.press("Control+s")
    s.until(lambda: (w.folder / "small.json").read_text() == p.text(), "Ctrl-S saves")

    page.once("dialog", lambda d: d.accept("copy.json"))
    page.click("#graph-bar button:has-text('Save as')")
    s.until(lambda: page.title().startswith("copy.json") and (w.folder / "copy.json").read_text() == p.text(),
            "Save as makes a file beside it and opens that")
    page.select_option("#graph-bar select", label="small.json")
    s.until(lambda: page.title().startswith("small.json"), "another graph is chosen from the list")
    page.wait_for_selector("#graph-bar .pill.good")

    other = p.text().replace('"lr": 0.01', '"lr": 0.02')
    (w.folder / "small.json").write_text(other)
    s.until(lambda: p.text() == other, "what another editor wrote comes by itself")
    p.set_text(other.replace('"seed": 1', '"seed": 2'))
    (w.folder / "small.json").write_text(other.replace('"seed": 1', '"seed": 3'))
    page.keyboard.press("Control+s")
    p.at("#dialog[open] h2:has-text('Another program changed')")
    s.check('"seed": 3' in (w.folder / "small.json").read_text(), "nothing is saved over another's text unasked")
    page.click("#dialog button:has-text('Mine')")
    s.until(lambda: '"seed": 2' in (w.folder / "small.json").read_text(), "unless it is wished")
    page.reload()
    page.wait_for_selector("html[data-ready=yes]")
    s.check(p.w.token not in page.url, "the address shows no token, and a reload needs none")


def meanwhile(p, w):
    """What is typed while the server answers stays, and so does what another answer brought."""
    page = p.page
    before = p.text()
    line = lambda name: next(l for l in p.text().split("\n") if f'"{name}":' in l)
    page.evaluate("""() => { const e = document.querySelector('.CodeMirror').CodeMirror; e.focus();
        const line = e.getValue().split('\\n').findIndex(l => l.includes('"batch":')), ch = e.getLine(line).indexOf(' }');
        e.replaceRange(', ', {line, ch}); e.setCursor({line, ch: ch + 2}); }""")
    page.keyboard.type('"')
    p.at(".CodeMirror-hints")
    s.check(True, "a quote opens the list of what may stand there")
    page.keyboard.type("dro")
    s.until(lambda: page.locator(".CodeMirror-hints li").count() == 1, "which letters make shorter")
    page.keyboard.press("Enter")
    s.until(lambda: line("batch").endswith('"size": 2, "drop_last":  },'), "what is chosen takes their place")
    p.set_text(before)
    page.wait_for_selector("#graph-bar .pill.good")

    def slowly(route):
        time.sleep(0.3)
        route.continue_()
    page.click('#picture g.pick[data-path="flip"]')
    page.wait_for_selector('#form h2:has-text("flip")')
    page.route("**/api/edit", slowly)
    page.evaluate("""() => { for (const [id, value] of [["p-prob", "0.125"], ["p-in", "made"]]) {
        const field = document.getElementById(id); field.value = value; field.dispatchEvent(new Event("change")); }
        document.querySelector('.CodeMirror').CodeMirror.replaceRange("// typed\\n", {line: 0, ch: 0}); }""")
    s.until(lambda: '"prob": 0.125' in line("flip") and '"in": "made"' in line("flip"),
            "of two changes of a form that overlap both are in the text")
    s.check(p.text().startswith("// typed\n"), "and what was typed meanwhile")
    page.unroute("**/api/edit")
    page.evaluate("""() => { const field = document.getElementById("p-desc"); field.value = "5";
        field.dispatchEvent(new Event("change")); }""")
    s.until(lambda: '"desc": "5"' in line("flip"), "a number in a text's field is a text")
    p.set_text(before)
    page.wait_for_selector("#graph-bar .pill.good")

    held = []
    page.route("**/api/picture", lambda route: held.append(route))
    for seed in range(10, 16):
        p.set_text(before.replace('"seed": 2', f'"seed": {seed}'))
        page.wait_for_timeout(150)
    s.until(lambda: page.wait_for_timeout(50) or held, "a picture is asked for while one types")
    page.wait_for_timeout(500)
    s.check(len(held) == 1, "and one is drawn at a time", len(held))

    def drawn():
        while held:
            held.pop().continue_()
        return page.locator('#picture .sheet[aria-busy="false"]').count() == 1
    s.until(drawn, "the picture comes when typing has ended")
    page.unroute("**/api/picture")
    p.set_text(before)
    page.wait_for_selector("#graph-bar .pill.good")

    page.once("dialog", lambda d: d.accept("a copy's.json"))
    page.click("#graph-bar button:has-text('Save as')")
    s.until(lambda: page.title().startswith("a copy's.json"), "Save as takes a name with a blank and a quote")
    p.set_text(before + "\n// mine")
    page.once("dialog", lambda d: d.dismiss())
    page.select_option("#graph-bar select", label="small.json")
    shown = lambda: page.evaluate("""() => { const list = document.querySelector('#graph-bar select');
        return list.options[list.selectedIndex].text; }""")
    s.until(lambda: shown() == "a copy's.json", "a graph that is not left stays the one in the list")
    p.set_text(before)
    page.select_option("#graph-bar select", label="small.json")
    s.until(lambda: page.title().startswith("small.json"), "and is left when it is saved")
    page.wait_for_selector("#graph-bar .pill.good")


def running(p, w, shots):
    page = p.page
    page.fill(".sets", "run.epochs=1000000")
    page.click("#graph-bar button.main:has-text('Run')")
    p.at("#view-run:not([hidden]) .pill.now", timeout=40000)
    run = w.folder / "runs" / "small-1"
    s.check(run.is_dir(), "Run makes runs/small-1 and shows it")
    s.until(lambda: (run / "live.json").exists() and (run / "live.json").stat().st_size <= 16384,
            "live.json is there, at most 16 KB")
    rate = lambda: page.locator('.run-cards .card:has-text("samples a second") b').inner_text()
    s.until(lambda: re.match(r"[\d,.]+$", rate()) and float(rate().replace(",", "")) > 0, "samples a second, live")
    points = lambda: int(page.locator('[data-curve="step.loss"] .plot').get_attribute("data-points") or 0)
    s.until(lambda: page.locator('[data-curve="step.loss"]').count() and points() >= 2, "the loss's curve has points")
    before = points()
    s.until(lambda: points() > before, "and moves")
    s.until(lambda: page.locator(".run-nodes tbody tr").count() >= 7, "each node's rate and queue")
    page.click("#tab-graph")
    s.until(lambda: page.locator("#picture .rate text").count() >= 1, "the picture shows rates")
    shots("graph-live")
    page.click("#tab-run")
    shots("run-live")
    page.click(".run-head button:has-text('Stop')")
    s.until(lambda: (run / "summary.json").exists() and
            json.loads((run / "summary.json").read_text())["status"] == "cut", "Stop ends it with a checkpoint")
    s.check((run / "checkpoints" / "last" / "state.json").exists() or any((run / "checkpoints").iterdir()),
            "the checkpoint is there")
    s.until(lambda: not (run / "live.json").exists(), "live.json goes with the run")
    p.at(".run-head .pill.warn:has-text('interrupted')")
    steps = json.loads((run / "summary.json").read_text())["steps"]
    page.click(".run-head button:has-text('Resume')")
    page.click("#dialog button.main")
    p.at(".run-head .pill.now", timeout=40000)
    s.until(lambda: json.loads((run / "live.json").read_text() or "{}").get("steps", 0) > steps
            if (run / "live.json").exists() else False, "Resume goes on from there")
    pid = json.loads((run / "live.json").read_text())["pid"]
    import os, signal
    os.kill(pid, signal.SIGKILL)
    p.at(".run-head .pill:has-text('did not end')", timeout=30000)
    s.check(True, "a run that is killed -9 shows as ended")


def comparing(p, w, shots):
    page = p.page
    made_run(w.folder, "runs/b", lr=0.1, name=EVIL, tags=["bold"], note="n < 1 & more")
    made_run(w.folder, "runs/c", lr=0.3)
    page.click("#tab-runs")
    page.wait_for_selector('tr[data-run="runs/c"]')
    s.check(page.locator("img[src=x]").count() == 0 and EVIL in page.inner_text('tr[data-run="runs/b"]'),
            "a run named " + EVIL + " draws as text")
    page.fill("#view-runs input[type=search]", "lr>0.05")
    s.until(lambda: page.locator("table.runs tbody tr").count() == 2, "a filter by a setting")
    page.fill("#view-runs input[type=search]", "mean<0.8")
    s.until(lambda: page.locator("table.runs tbody tr").count() == 1, "a filter by a metric")
    page.fill("#view-runs input[type=search]", "runs/")
    for name in ("runs/b", "runs/c", "runs/small-1"):
        page.check(f'tr[data-run="{name}"] input')
    page.click("#view-runs button.main")
    page.wait_for_selector("table.settings")
    shots("compare")
    rows = page.evaluate("""() => [...document.querySelectorAll('table.settings tbody tr')].map(r =>
        [...r.children].map(c => c.textContent))""")
    order = page.evaluate("() => [...document.querySelectorAll('table.settings th')].slice(1).map(t => t.textContent)")
    names = [{"runs/b": "runs/b", EVIL: "runs/b"}.get(n, n) for n in order]
    told = json.loads(w.sluice("compare", *names, "--json").stdout)
    expected = [[x["path"]] + [json.dumps(v, separators=(",", ":")) if i in x["in"] else "–"
                               for i, v in enumerate(x["values"])] for x in told["settings"]]
    same = lambda a: [[re.sub(r"\s", "", c) for c in r] for r in a]
    s.check(same(rows) == same(expected), "settings that differ are those of `sluice compare --json`",
            [(a, b) for a, b in zip(rows, expected) if same([a]) != same([b])][:2])
    page.locator(".compared [data-curve]").first.scroll_into_view_if_needed()
    s.until(lambda: page.locator('.compared [data-curve] path').count() > 0, "curves of runs over each other")
    page.click('tr[data-run="runs/c"] button[title=Change]')
    page.fill("#n-note", "the third")
    page.click("#dialog button.main")
    s.until(lambda: "the third" in page.inner_text('tr[data-run="runs/c"]'), "a note is kept")

    for i in range(1000):
        made_run(w.folder, f"many/{i // 100}/r{i}", lr=0.001 * (i + 1))
    page.fill("#view-runs input[type=search]", "")
    begin = time.time()
    page.click("#tab-graph")
    page.click("#tab-runs")
    page.wait_for_selector('[data-count="1003"]')
    s.check(True, f"1,003 runs are listed, after {time.time() - begin:.2f} s")
    page.fill("#view-runs input[type=search]", "r999")
    s.until(lambda: page.locator("table.runs tbody tr").count() == 1, "and filtered")
    page.click("#tab-graph")


def by_keyboard(p, w):
    page = p.page
    p.at("#picture svg g.pick")
    page.evaluate("() => document.getElementById('tab-graph').focus()")
    reached = set()
    for _ in range(90):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("""() => { const e = document.activeElement;
            return e.closest('#editor') ? 'editor' : e.dataset.path ? 'node' : e.closest('#palette') ? 'palette'
              : e.closest('#form') ? 'form' : e.textContent.trim().slice(0, 12); }"""))
        if page.evaluate("() => document.activeElement.dataset.path") == "flip":
            page.keyboard.press("Enter")
            page.wait_for_selector('#form h2:has-text("flip")')
    s.check({"editor", "node", "palette", "form", "Save", "Run", "Profile"} <= reached,
            "Tab reaches text, nodes, form, palette and commands", reached)
    s.check(page.locator('g.pick.chosen[data-path="flip"]').count() == 1, "Enter on a node opens its form")
    page.focus("#palette input")
    page.keyboard.type("rand_zoom")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#dialog[open] button.main")
    page.focus("#dialog button.main")
    page.keyboard.press("Enter")
    s.until(lambda: '"zoom"' in p.text(), "a node is added by keys alone")
    page.evaluate("() => document.querySelector('.CodeMirror').CodeMirror.undo()")
    page.focus("#tab-graph")
    page.keyboard.press("ArrowRight")
    s.check(page.locator("#view-run:not([hidden])").count() == 1, "arrows change views")
    page.keyboard.press("ArrowLeft")


def together(p, w):
    tabs = [p.context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.goto(w.address)
        tab.wait_for_selector("#picture svg g.pick")
    s.check(True, "eight more tabs of one browser are served, though it makes six connections")
    text = p.text().replace('"seed": 2', '"seed": 4')
    (w.folder / "small.json").write_text(text)
    heard = lambda tab: tab.evaluate("() => document.querySelector('.CodeMirror').CodeMirror.getValue()") == text
    s.until(lambda: all(heard(tab) for tab in tabs) and p.text() == text, "and each hears what happens")
    text = text.replace('"seed": 4', '"seed": 5')
    p.set_text(text)
    p.page.click("#graph-bar button:text-is('Save')")
    s.until(lambda: all(heard(tab) for tab in tabs), "also what one of them saves")
    s.check(p.page.locator("#dialog[open]").count() == 0, "which asks nothing of that one")
    for tab in tabs:
        tab.close()


def checking_data(p, w):
    page = p.page
    page.select_option("#graph-bar select", label="data.json")
    s.until(lambda: page.title().startswith("data.json"), "a graph of files is opened")
    page.wait_for_selector("#graph-bar .pill.warn, #graph-bar .pill.good")
    page.click("#graph-bar button:has-text('Check data')")
    s.until(lambda: page.locator("#dialog[open] td:has-text('a.nii')").count() == 1, "Check data shows what is wrong with them")
    page.keyboard.press("Escape")
    page.select_option("#graph-bar select", label="small.json")
    s.until(lambda: page.title().startswith("small.json"), "and the other graph comes back")


def advice(p, w):
    """As it comes after minutes in which the text may have become another one."""
    page = p.page
    before = p.text()
    come = """async changed => {
        const {showAdvice} = await import("/page/measures.js"), {replaceText} = await import("/page/editor.js");
        const {state} = await import("/page/state.js"), before = state.editor.getValue() + changed;
        showAdvice({title: state.graph.name, graph: state.graph.id, before,
          text: before.replace('"size": 2', '"size": 4'),
          result: {before: {rate: 1, verdict: ""}, after: {rate: 2}, changes: []}}, replaceText); }"""
    page.evaluate(come, "\n// that is gone")
    p.at("#dialog[open] :text('another text than this advice began with')")
    s.check(page.locator("#dialog button.main").count() == 0 and page.locator("#dialog ins").count() == 1,
            "advice for another text is shown, and not taken")
    page.keyboard.press("Escape")
    page.evaluate(come, "")
    page.click("#dialog button.main")
    s.check(p.text() == before.replace('"size": 2', '"size": 4'), "advice for this text is taken", p.text())
    p.set_text(before)


def without_a_graph(browser, w):
    (w.folder / "nothing here").mkdir()
    with Workbench(w.binary, w.folder, what="nothing here") as other:
        p = Page(browser, other)
        p.page.click("#tab-graph")
        p.page.click(".CodeMirror")
        p.page.keyboard.type("x")
        s.check(p.text() == "", "in a folder without a graph nothing is typed")
        for button in ("Save", "Save as", "Run"):
            p.page.evaluate("() => { document.getElementById('toast').textContent = ''; }")
            p.page.click(f"#graph-bar button:text-is('{button}')")
            s.until(lambda: "no graph is open" in p.page.text_content("#toast"), f"and {button} says so")
        p.context.close()


def looks(browser, w, folder):
    for width in (1280, 400):
        for dark in (False, True):
            p = Page(browser, w, width, 860, dark)
            p.at("#picture svg g.pick")
            p.page.click('#picture g.pick[data-path="crop"]', force=True)
            p.page.wait_for_selector('#form h2:has-text("crop")')
            wide = p.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            s.check(wide <= 0, f"{width} pixels wide, {'dark' if dark else 'light'}: nothing stands out", wide)
            name = f"{width}-{'dark' if dark else 'light'}"
            if folder:
                p.page.screenshot(path=folder / f"graph-{name}.png")
            for tab in ("run", "runs"):
                p.page.click("#tab-" + tab)
                if tab == "runs":
                    p.at("table.runs tbody tr")
                if folder:
                    p.page.screenshot(path=folder / f"{tab}-{name}.png")
            p.context.close()


def main(binary, folder=None):
    folder = folder and pathlib.Path(folder)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with Workbench(binary) as w, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        data = w.folder / "d"
        data.mkdir()
        (data / "dataset.json").write_text('{ "training": [{ "image": "a.nii", "label": "b.nii" }] }')
        (w.folder / "data.json").write_text("""{ "nodes": { "cases": { "type": "decathlon", "root": "d" },
          "load": { "type": "load_image", "in": "cases", "keys": ["image", "label"] } } }""")
        p = Page(browser, w)
        shots = lambda name: folder and p.page.screenshot(path=folder / (name + ".png"))
        writing(p, w)
        meanwhile(p, w)
        checking_data(p, w)
        advice(p, w)
        by_keyboard(p, w)
        together(p, w)
        running(p, w, shots)
        comparing(p, w, shots)
        # What a conflict or a wrong text answers with is told by the browser too.
        said = [m for m in p.said if not re.search(r"status of (409|422)", m)]
        s.check(not said, "the console has no error", said[:5])
        s.check(not p.elsewhere, "no request leaves the machine", p.elsewhere[:3])
        without_a_graph(browser, w)
        looks(browser, w, folder)
        browser.close()
    s.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
