// The page: its views, what is open, and what the server tells.
import {el, fill, refill} from "./dom.js";
import {get, listen, on} from "./api.js";
import {setUpEditor, openGraph} from "./editor.js";
import {setUpPicture} from "./picture.js";
import {setUpForm} from "./form.js";
import {setUpPalette} from "./palette.js";
import {setUpBar} from "./bar.js";
import {openRun, setUpRun} from "./run.js";
import {setUpRuns, showRuns} from "./runs.js";
import {say, state, tell} from "./state.js";

const views = [["graph", "Graph"], ["run", "Run"], ["runs", "Runs"]];

export function show(view) {
  for (const [id] of views) {
    document.getElementById("view-" + id).hidden = id !== view;
    const tab = document.getElementById("tab-" + id);
    tab.setAttribute("aria-selected", id === view);
    tab.tabIndex = id === view ? 0 : -1;
  }
  state.view = view;
  tell("view", view);
  if (view === "runs") showRuns();
  if (view === "graph") state.editor?.refresh();
}

function setUpTabs() {
  const home = document.getElementById("tabs");
  const move = event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const at = views.findIndex(([id]) => id === state.view);
    const next = views[(at + step + views.length) % views.length][0];
    show(next);
    document.getElementById("tab-" + next).focus();
  };
  fill(home, views.map(([id, name]) => el("button", {id: "tab-" + id, role: "tab",
    "aria-controls": "view-" + id, onclick: () => show(id), onkeydown: move}, name)));
}

async function begin() {
  setUpTabs();
  let opened;
  try {
    opened = await get("open");
  } catch (why) {
    refill(document.body, el("main", {class: "alone"}, el("h1", {}, "Sluice"),
      el("p", {}, "This page needs the address that `sluice open` printed, with what follows its #."),
      el("p", {class: "faint"}, why.message)));
    return;
  }
  Object.assign(state, {readOnly: opened.read_only, root: opened.root, version: opened.version});
  state.jobs = new Map(opened.jobs.map(j => [j.id, j]));
  state.show = show;
  setUpEditor();
  setUpPicture();
  setUpForm();
  await Promise.all([setUpPalette(), setUpBar()]);
  setUpRun();
  setUpRuns();
  const {kind, id} = opened.opened;
  show(kind === "run" ? "run" : "graph");
  if (kind === "run") openRun(id);
  const first = kind === "graph" ? id : state.graphs.length ? state.graphs[0].id : "";
  if (first) await openGraph(first).catch(why => say(why.message, true));
  else if (kind === "folder") show("runs");
  document.documentElement.dataset.ready = "yes";
  listen();
}

on("connected", well => {
  const sign = document.getElementById("connection");
  sign.textContent = well ? "" : "the server is gone; looking for it";
  sign.className = well ? "" : "lost";
});
on("reload", () => location.reload());
addEventListener("beforeunload", event => {
  if (state.graph?.dirty) event.preventDefault();
});
addEventListener("unhandledrejection", event => {
  event.preventDefault();
  say(event.reason?.message || String(event.reason), true);
});
addEventListener("DOMContentLoaded", begin);
