// One run: how far it is, its curves and pictures, while it goes on and after its end.
import {bytes, get, on, post} from "./api.js";
import {el, refill, svg} from "./dom.js";
import {colors, legend, lineChart, smooth} from "./chart.js";
import {duration, percent, short} from "./words.js";
import {changesIn, resume, stopJob} from "./bar.js";
import {volumeViewer} from "./volume.js";
import {say, state, tell, when} from "./state.js";

let home, parts = {}, page = null, share = 0.6, busy = false, again = false;

export const states = {done: ["done", "good"], stopped: ["stopped by its rule", "good"],
  cut: ["interrupted", "warn"], failed: ["failed", "bad"], stalled: ["stalled", "bad"],
  running: ["running", "now"], open: ["did not end", "warn"]};

export function setUpRun() {
  home = document.getElementById("view-run");
  blank();
  on("live", ({run, row}) => {
    if (run !== state.run) return;
    state.live = row.status === "running" ? row.live : null;
    tell("live", state.live);
    if (page) drawHead({...page, row});
    soon(row.status !== "running");
  });
  when("job", job => { if (job.run && job.run === state.run) { log(job); soon(job.state === "ended"); } });
  when("view", () => soon(true));
  when("drawn", () => tell("live", state.live));
}

function blank() {
  refill(home, el("div", {class: "alone"}, el("p", {class: "empty"},
    "No run is chosen: Run starts one, and Runs has those that were.")));
}

export async function openRun(id, wait = false) {
  state.run = id;
  state.live = null;
  page = null;
  shownPictures = "";
  parts = Object.fromEntries(["head", "cards", "note", "curves", "nodes", "pictures", "volumes", "log"]
    .map(name => [name, el("div", {class: "run-" + name})]));
  refill(home, el("div", {class: "run"}, Object.values(parts)));
  for (let i = 0; wait && i < 100 && state.run === id; ++i) {
    const found = await get("runs/" + id);
    if (found.row.started) break;
    await new Promise(resolve => setTimeout(resolve, 150));
  }
  if (state.run !== id) return;
  await refresh();
  const job = [...state.jobs.values()].filter(j => j.run === id).pop();
  if (job) log(job);
  volumes(id);
}

// Curves anew every two seconds, while somebody looks.
let asked = 0;
function soon(now) {
  if (state.view !== "run" || !state.run || (!now && Date.now() - asked < 1900)) return;
  asked = Date.now();
  refresh();
}

// One question at a time; what changed meanwhile is asked for once more.
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  const id = state.run;
  try {
    const found = await get("runs/" + id);
    if (id !== state.run) return;
    page = found;
    state.live = found.row.status === "running" ? found.row.live : null;
    tell("live", state.live);
    drawHead(found);
    await drawCurves(found);
    drawPictures(found);
  } finally {
    busy = false;
    if (again || id !== state.run) { again = false; refresh(); }
  }
}

// ---- head ---------------------------------------------------------------------------------------

const card = (value, label, more, line) => el("div", {class: "card"}, el("span", {}, label),
  el("b", {}, value), more ? el("small", {}, more) : null, line);

// The last minutes of a live figure.
const past = {};
function spark(run, what, value) {
  const key = run + what, y = past[key] ||= [];
  y.push(value ?? 0);
  if (y.length > 150) y.shift();
  const most = Math.max(...y, 1e-9), points = y.map((v, i) =>
    `${(i / Math.max(y.length - 1, 1) * 100).toFixed(1)},${(23 - v / most * 21).toFixed(1)}`);
  return svg("svg", {class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none",
    "aria-hidden": "true"}, svg("polyline", {points: points.join(" ")}));
}

function drawHead({row, verdict}) {
  const live = row.status === "running" ? row.live : null;
  const [text, kind] = states[row.status] || [row.status, ""];
  const job = [...state.jobs.values()].find(j => j.run === row.id && j.state !== "ended");
  refill(parts.head, el("h1", {}, row.title || row.name),
    el("span", {class: "pill " + kind}, live?.state || text),
    row.title ? el("span", {class: "faint"}, row.name) : null,
    el("span", {class: "gap"}),
    job ? el("button", {class: "main", onclick: () => { stopJob(job.id); say("stopping: it writes a checkpoint"); }},
      "Stop") : null,
    !live && !job && !state.readOnly ? el("button", {onclick: () => askResume(row)}, "Resume") : null);
  const done = live ? (live.epoch - 1 + (live.validating ? 1 : live.share || 0)) / live.epochs : null;
  const metrics = Object.entries(row.metrics).filter(([n]) => !/\.lr$|grad_norm/.test(n))
    .sort((a, b) => /\.mean$/.test(b[0]) - /\.mean$/.test(a[0])).slice(0, 3);
  refill(parts.cards,
    live ? el("div", {class: "progress", role: "progressbar", "aria-valuenow": Math.round(100 * done),
      "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "Progress"},
    el("i", {style: {width: 100 * done + "%"}})) : null,
    el("div", {class: "cards"},
      live ? [card(`${live.epoch} of ${live.epochs}`, live.validating ? "validating" : "epoch",
        live.share !== null ? percent(live.share) : ""),
      card(live.rate === null ? "–" : short(+live.rate.toPrecision(3)), "samples a second", "",
        spark(row.id, "rate", live.rate)),
      live.loss !== null ? card(short(live.loss), "loss") : null,
      live.metric_last !== null ? card(short(live.metric_last), live.metric,
        "best " + short(live.metric_best)) : null,
      card(live.eta_s === null ? "–" : duration(live.eta_s), "left"),
      card(Math.round(live.rss_mb) + " MB", "memory", live.cores.toFixed(1) + " cores",
        spark(row.id, "rss", live.rss_mb))]
        : [metrics.map(([n, m]) => card(short(m.best), n, "best, epoch " + (m.best_epoch + 1))),
          card(short(row.epochs), "epochs"), card(short(row.steps), "steps"),
          card(duration(row.wall_s), "wall time")]),
    live?.bottleneck ? el("div", {class: "verdict"}, el("b", {}, "What limits"),
      el("span", {}, live.bottleneck + (live.advice ? ": " + live.advice : "")))
      : verdict && !live ? el("div", {class: "verdict"}, el("b", {}, "What limits"),
        el("span", {}, verdict.replaceAll("`", ""))) : null);
  drawNodes(live);
}

function askResume(row) {
  const dialog = document.getElementById("dialog");
  const set = el("input", {placeholder: "run.epochs=60", spellcheck: "false",
    "aria-label": "Changes"});
  const go = () => { dialog.close(); resume(row.id, changesIn(set.value)); };
  refill(dialog, el("h2", {}, "Go on with " + row.name), el("p", {},
    "It goes on exactly where it was. For longer, say so:"), set, el("div", {class: "buttons"},
    el("button", {class: "main", onclick: go}, "Resume"),
    el("button", {onclick: () => dialog.close()}, "Close")));
  dialog.showModal();
}

function drawNodes(live) {
  if (!live) return refill(parts.nodes);
  const bar = (share, kind) => el("span", {class: "meter " + kind}, el("i", {style: {width:
    100 * Math.min(1, share) + "%"}}));
  refill(parts.nodes, el("h2", {}, "Nodes"), el("div", {class: "scroll"}, el("table", {},
    el("thead", {}, el("tr", {}, ["node", "per s", "busy", "queue"].map((n, i) =>
      el("th", {class: i ? null : "left"}, n)))),
    el("tbody", {}, live.nodes.map(n => el("tr", {class: n.path === live.bottleneck ? "hot" : null},
      el("td", {class: "left"}, n.path), el("td", {}, short(+n.rate.toPrecision(3))),
      el("td", {}, bar(n.busy, "busy"), percent(n.busy)),
      el("td", {}, n.room ? bar(n.queue / n.room, "queue") : null, n.room ? n.queue + "/" + n.room
        : n.queue || "")))))));
}

// ---- curves -------------------------------------------------------------------------------------

const charts = new Map();

async function drawCurves(found) {
  const columns = Math.max(100, Math.round(parts.curves.clientWidth / 2) || 400);
  const ask = (steps, names) => names.length ? post("curves", {runs: [found.row.id], names, steps,
    x: steps ? "step" : "epoch", columns}).then(a => a.curves) : {};
  const names = found.by_epoch.filter(n => !found.by_step.includes(n));
  const [steps, epochs] = await Promise.all([ask(true, found.by_step), ask(false, names)]);
  const all = [...Object.entries(epochs).map(e => [...e, "epoch"]),
    ...Object.entries(steps).map(e => [...e, "step"])];
  const rank = n => /\.mean$/.test(n) ? 0 : /loss/.test(n) ? 1 : /\.lr$|grad_norm/.test(n) ? 9 : 3;
  all.sort((a, b) => rank(a[0]) - rank(b[0]));
  if (!parts.curves.firstChild || parts.curves.dataset.names !== all.map(a => a[0]).join()) {
    charts.clear();
    parts.curves.dataset.names = all.map(a => a[0]).join();
    const slider = el("input", {type: "range", min: 0, max: 0.98, step: 0.02, value: share,
      oninput: () => { share = +slider.value; drawCurves(found); }});
    refill(parts.curves, all.length ? el("h2", {}, "Curves") : "",
      found.by_step.length ? el("div", {class: "tools"}, el("label", {}, "Smoothing", slider)) : null,
      el("div", {class: "charts"}, all.map(([name, , x]) => {
        const spec = {title: name, series: [], xname: x, whole: true}, chart = lineChart(spec);
        charts.set(name, {spec, chart});
        return el("div", {class: "chart", "data-curve": name}, el("h3", {}, name), chart.element);
      })));
  }
  for (const [name, runs, x] of all) {
    const c = runs[found.row.id], {spec, chart} = charts.get(name);
    spec.series = x === "step" && c.x.length > 20
      ? [{name, ...c, color: colors(0), raw: true}, {name: "smoothed", x: c.x,
        y: smooth(c.y, share), color: colors(0)}] : [{name, ...c, color: colors(0)}];
    chart.element.dataset.points = c.x.length;
    chart.draw();
  }
}

// ---- pictures, volumes, log ---------------------------------------------------------------------

let shownPictures = "";
async function drawPictures(found) {
  const last = found.pictures.length ? found.pictures[found.pictures.length - 1].epoch : -1;
  const all = found.pictures.filter(p => p.epoch === last).slice(0, 12);
  const key = found.row.id + ":" + last + ":" + all.length;
  if (key === shownPictures) return;
  shownPictures = key;
  if (!all.length) return refill(parts.pictures);
  const images = await Promise.all(all.map(async p => {
    const url = URL.createObjectURL(new Blob([await bytes(
      `runs/${found.row.id}/picture/${p.n}`)], {type: "image/png"}));
    return el("figure", {}, el("img", {src: url, alt: p.sample + ", slice " + p.slice,
      onload: () => URL.revokeObjectURL(url)}),
      el("figcaption", {}, p.sample));
  }));
  if (key !== shownPictures) return;
  const classes = all[0].classes || [], cs = all[0].colors || [];
  refill(parts.pictures, el("h2", {}, "Pictures, epoch " + last),
    legend(classes.map((c, i) => ({name: "class " + c, color: cs[i]}))),
    el("div", {class: "pictures"}, images));
}

async function volumes(id) {
  const {volumes: all} = await get(`runs/${id}/volumes`);
  if (!all.length || id !== state.run) return refill(parts.volumes);
  const viewer = el("div");
  const list = el("select", {"aria-label": "Volume", onchange: () => volumeViewer(viewer, id, list.value)},
    el("option", {value: ""}, "choose one"), all.map(v => el("option", {value: v.name}, v.name)));
  refill(parts.volumes, el("h2", {}, "Volumes"), el("div", {class: "tools"}, list), viewer);
}

function log(job) {
  const text = job.err.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r/g, "\n");
  if (!text.trim()) return;
  const open = parts.log.querySelector("details")?.open || (job.state === "ended" && job.code && job.code < 129);
  refill(parts.log, el("details", open ? {open: ""} : {}, el("summary", {}, "What it said"),
    el("pre", {}, text.split("\n").slice(-200).join("\n"))));
}
