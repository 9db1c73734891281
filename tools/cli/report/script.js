// Draws the report from the JSON in the page. All text from the run goes through textContent or
// setAttribute, never through HTML, so names may hold anything.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const summary = data.summary || {}, environment = data.environment || {};
const profile = data.profile || {}, nodes = profile.nodes || {};
const section = id => document.getElementById("s-" + id);

// ---- elements -----------------------------------------------------------------------------------

function put(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(9).filter(c => c !== null && c !== undefined && c !== false));
  return element;
}
const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// ---- numbers ------------------------------------------------------------------------------------

function short(v) {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 1e6 || a < 1e-4) return v.toExponential(2);
  if (Number.isInteger(v)) return v.toLocaleString("en");
  return a >= 1000 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(4));
}
const percent = v => (100 * v < 0.95 && v > 0 ? "<1" : Math.round(100 * v)) + " %";
function duration(s) {
  if (s === null || s === undefined) return "–";
  if (s < 60) return (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + String(Math.round(s % 60) % 60).padStart(2, "0") + " s";
  return Math.floor(s / 3600) + " h " + String(Math.floor(s / 60) % 60).padStart(2, "0") + " min";
}
function ms(v) {
  if (v >= 1000) return (v / 1000).toFixed(2) + " s";
  return v >= 1 ? v.toFixed(v >= 10 ? 0 : 1) + " ms" : (1000 * v).toFixed(v >= 0.01 ? 0 : 1) + " µs";
}
const day = t => t ? t.replace("T", " ").replace("Z", " UTC") : "";
// `this` as code.
const quoted = text => text.split("`").map((part, i) => i % 2 ? el("code", {}, part) : part);
const plural = (n, word) => short(n) + " " + word + (n === 1 ? "" : "s");

// ---- head and headline --------------------------------------------------------------------------

const states = {
  done: ["done", "good"], stopped: ["stopped by its rule", "good"], cut: ["interrupted", "warn"],
  failed: ["failed", "bad"], stalled: ["stalled", "bad"], open: ["did not end", "warn"],
};

function head() {
  const [text, kind] = states[data.status] || [String(data.status), ""];
  put(document.getElementById("head"), {},[
    el("div", {class: "title"}, el("h1", {}, data.graph.name || "run"), el("span", {class: "pill " + kind}, text)),
    data.graph.desc ? el("p", {class: "desc"}, data.graph.desc) : null,
    el("p", {class: "meta"}, [data.folder, environment.started && "started " + day(environment.started),
      environment.cpu, data.version && "Sluice " + data.version].filter(Boolean).join("  ·  ")),
  ]);
  document.getElementById("foot").textContent = "Made by sluice report, " + day(data.made) +
    ". One file, no network: it may be kept and sent.";
}

function card(value, label, more, main) {
  return el("div", {class: "card" + (main ? " main" : "")}, el("span", {}, label), el("b", {}, value),
    more ? el("small", {}, more) : null);
}

// The stop rule's metric, else means of validation, else losses come first.
function ranked(names) {
  const rule = ((data.graph.json || {}).run || {}).stop;
  const rank = n => rule && n === rule.metric ? 0 : /\.mean$/.test(n) ? 1 : /loss/.test(n) ? 2 : /\.lr$/.test(n) ? 9 : 3;
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

function headline() {
  const metrics = summary.metrics || data.best || {};
  const shown = ranked(Object.keys(metrics)).filter(n => !/\.lr$/.test(n) && metrics[n].best !== null);
  const samples = summary.samples || {};
  const lost = Object.entries(samples).filter(([k, n]) => n > 0 && k !== "emitted" && k !== "delivered");
  const cards = shown.slice(0, 3).map((name, i) => card(short(metrics[name].best), name, "best, epoch " +
    (metrics[name].best_epoch + 1) + (metrics[name].last === metrics[name].best ? "" : "; last " + short(metrics[name].last)), i === 0));
  if (data.wall_s !== null) cards.push(card(duration(data.wall_s), "wall time",
    data.sessions_s ? duration(data.sessions_s) + " in " + plural(data.sessions_n, "session") : ""));
  if (summary.epochs !== undefined || data.epochs)
    cards.push(card(short(summary.epochs ?? data.epochs), "epochs", data.planned_epochs ? "of " + short(data.planned_epochs) : ""));
  if (summary.steps || data.steps) cards.push(card(short(summary.steps ?? data.steps), "steps", ""));
  if (samples.emitted) cards.push(card(short(samples.emitted), "samples read",
    lost.length ? lost.map(([k, n]) => short(n) + " " + k.replace("_", " ")).join(", ") : "none lost"));
  put(section("headline"), {}, [
    summary.error ? el("p", {class: "note bad"}, summary.error) : null,
    el("div", {class: "cards"}, cards),
    profile.verdict ? el("div", {class: "verdict"}, el("b", {}, "What limits"), el("span", {}, quoted(profile.verdict))) : null,
  ]);
  if (data.missing.length)
    put(section("missing"), {}, [el("div", {class: "note"}, "Not everything is here:",
      el("ul", {}, data.missing.map(m => el("li", {}, m))))]).hidden = false;
}

// ---- charts -------------------------------------------------------------------------------------

const colors = i => `var(--c${i % 6})`;

function ticks(low, high, count) {
  const span = high - low || 1, raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(m => m * power >= raw);
  const all = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) all.push(+v.toPrecision(12));
  return all;
}

function smooth(y, share) {  // exponential, without the bias of its beginning
  let sum = 0, weight = 0;
  return y.map(v => {
    if (v === null) return null;
    sum = share * sum + (1 - share) * v;
    weight = share * weight + (1 - share);
    return sum / weight;
  });
}

function path(x, y, sx, sy) {
  let d = "", pen = false;
  for (let i = 0; i < x.length; ++i) {
    if (y[i] === null || !isFinite(y[i])) { pen = false; continue; }
    d += (pen ? "L" : "M") + sx(x[i]).toFixed(1) + " " + sy(y[i]).toFixed(1);
    pen = true;
  }
  return d;
}

const nearest = (x, value) => {
  let low = 0, high = x.length - 1;
  while (high - low > 1) { const m = (low + high) >> 1; if (x[m] < value) low = m; else high = m; }
  return high > low && value - x[low] > x[high] - value ? high : low;
};

// series: {name, x, y, color, raw?: drawn faintly, best?: index, unit}. Redrawn when it is resized.
function lineChart(spec) {
  const plot = el("div", {class: "plot"}), tip = el("div", {class: "tip"});
  const height = spec.height || 210, pad = {left: 46, right: 12, top: 10, bottom: 24};
  let width = 0;
  const draw = () => {
    const all = spec.series.filter(s => s.x.length);
    const xs = all.flatMap(s => [s.x[0], s.x[s.x.length - 1]]);
    const ys = all.flatMap(s => s.y).filter(v => v !== null && isFinite(v)).sort((a, b) => a - b);
    if (!ys.length) return plot.replaceChildren(el("p", {class: "empty"}, "No finite values."));
    let low = ys[0], high = ys[ys.length - 1];
    if (spec.rule) { low = Math.min(low, spec.rule.y); high = Math.max(high, spec.rule.y); }
    if (high - low < 1e-12) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
    const room = (high - low) * 0.06, x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1e-9);
    low = low >= 0 && low < room * 3 ? 0 : low - room;
    high += room;
    const sx = v => pad.left + (v - x0) / (x1 - x0) * (width - pad.left - pad.right);
    const sy = v => pad.top + (high - v) / (high - low) * (height - pad.top - pad.bottom);
    const grid = ticks(low, high, 4).map(v => [
      svg("line", {class: "grid", x1: pad.left, x2: width - pad.right, y1: sy(v), y2: sy(v)}),
      svg("text", {x: pad.left - 8, y: sy(v) + 4, "text-anchor": "end"}, short(v))]);
    const below = ticks(x0, x1, Math.max(2, width / 90)).filter(v => !spec.whole || Number.isInteger(v)).map(v =>
      svg("text", {x: sx(v), y: height - 6, "text-anchor": "middle"}, short(v)));
    const rule = spec.rule ? [svg("line", {class: "rule", x1: pad.left, x2: width - pad.right, y1: sy(spec.rule.y), y2: sy(spec.rule.y)}),
      svg("text", {x: width - pad.right, y: sy(spec.rule.y) - 5, "text-anchor": "end"}, spec.rule.text)] : [];
    const lines = all.map(s => svg("path", {d: path(s.x, s.y, sx, sy), fill: "none", stroke: s.color,
      "stroke-width": s.raw ? 1 : 2, opacity: s.raw ? 0.35 : 1, "stroke-linejoin": "round", "stroke-linecap": "round"}));
    const dots = all.flatMap(s => s.raw ? [] : s.x.length < 40 ?
      s.x.map((x, i) => s.y[i] === null ? null : svg("circle", {cx: sx(x), cy: sy(s.y[i]), r: i === s.best ? 4.5 : 2.4, fill: s.color})) :
      s.best !== undefined ? [svg("circle", {cx: sx(s.x[s.best]), cy: sy(s.y[s.best]), r: 4.5, fill: s.color})] : []);
    const cross = svg("line", {class: "cross", y1: pad.top, y2: height - pad.bottom, visibility: "hidden"});
    const picture = svg("svg", {class: "plot-svg", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title},
      grid, below, rule, lines, dots, cross);
    const move = event => {
      const box = picture.getBoundingClientRect(), at = (event.clientX - box.left) * width / box.width;
      const lead = all.reduce((a, b) => b.x.length > a.x.length ? b : a);
      const x = lead.x[nearest(lead.x, x0 + (at - pad.left) / (width - pad.left - pad.right) * (x1 - x0))];
      cross.setAttribute("x1", sx(x)); cross.setAttribute("x2", sx(x)); cross.setAttribute("visibility", "visible");
      tip.replaceChildren(el("div", {}, spec.xname + " " + short(x)), ...all.filter(s => !s.silent).map(s =>
        el("div", {}, s.name + "  " + short(s.y[nearest(s.x, x)]))));
      const px = sx(x) * box.width / width;
      tip.style.opacity = 1;
      tip.style.left = (px > box.width / 2 ? px - tip.offsetWidth - 10 : px + 10) + "px";
    };
    picture.addEventListener("pointermove", move);
    picture.addEventListener("pointerdown", move);
    picture.addEventListener("pointerleave", () => { tip.style.opacity = 0; cross.setAttribute("visibility", "hidden"); });
    plot.replaceChildren(picture, tip);
  };
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now > 0 && now !== width) { width = now; requestAnimationFrame(draw); }
  }).observe(plot);
  return {element: plot, draw: () => width && draw()};
}

const legend = series => el("div", {class: "legend"}, series.filter(s => !s.raw).map(s =>
  el("span", {}, el("i", {style: {background: s.color}}), s.name)));

function chart(title, spec) {
  const drawn = lineChart({title, ...spec});
  const named = spec.series.filter(s => !s.raw);
  return {redraw: drawn.draw, element: el("div", {class: "chart"}, el("div", {class: "chart-head"}, el("h3", {}, title),
    named.length > 1 ? legend(named) : null), drawn.element)};
}

// Metrics of one node that are the same kind of number share a chart: a mean and its classes.
function groups(series) {
  const all = new Map();
  for (const s of series) {
    const dot = s.name.lastIndexOf("."), node = s.name.slice(0, dot), what = s.name.slice(dot + 1);
    const key = /^(mean|class_\d+)$/.test(what) ? node : s.name;
    if (!all.has(key)) all.set(key, []);
    all.get(key).push(s);
  }
  return all;
}

function curves() {
  const home = section("curves"), {epoch = [], batch = []} = data.metrics;
  put(home, {}, [el("h2", {}, "Curves")]);
  if (!epoch.length && !batch.length)
    return put(home, {}, [el("p", {class: "empty"}, "The run has no metrics: no node measured or logged anything.")]);
  const charts = [], rule = ((data.graph.json || {}).run || {}).stop;
  let share = 0.6;
  const smoothed = [];
  for (const s of batch) {
    const raw = {name: s.name, x: s.x, y: s.y, color: colors(0), raw: true};
    const line = {name: "smoothed", x: s.x, y: smooth(s.y, share), color: colors(0)};
    smoothed.push([line, s.y]);
    const means = epoch.find(e => e.name === s.name);
    const series = [raw, line];
    if (means) series.push({name: "epoch's mean", x: means.step, y: means.y, color: colors(1)});
    charts.push(chart(s.name + " by step", {series, xname: "step"}));
  }
  const rest = epoch.filter(e => !batch.some(b => b.name === e.name));
  const ordered = ranked(rest.map(s => s.name)).map(n => rest.find(s => s.name === n));
  for (const [key, series] of groups(ordered)) {
    const lines = series.map((s, i) => ({name: s.name.slice(s.name.lastIndexOf(".") + 1), x: s.x, y: s.y, color: colors(i),
      best: s.best < 0 ? undefined : s.best}));
    const limit = rule && series.some(s => s.name === rule.metric) ? rule.at_least ?? rule.at_most : undefined;
    charts.push(chart((series.length > 1 ? key : series[0].name) + " by epoch", {series: lines, xname: "epoch", whole: true,
      rule: limit === undefined ? null : {y: limit, text: "stop at " + short(limit)}}));
  }
  if (batch.length) {
    const slider = el("input", {type: "range", min: 0, max: 0.98, step: 0.02, value: share, "aria-label": "Smoothing"});
    slider.addEventListener("input", () => {
      share = +slider.value;
      for (const [line, y] of smoothed) line.y = smooth(y, share);
      charts.forEach(c => c.redraw());
    });
    const thinned = batch.find(s => s.each > 1);
    put(home, {}, [el("div", {class: "tools"}, el("label", {}, "Smoothing", slider),
      thinned ? el("span", {}, `Each point is the mean of ${thinned.each} steps.`) : null)]);
  }
  put(home, {}, [el("div", {class: "charts"}, charts.map(c => c.element))]);
}

// ---- pictures -----------------------------------------------------------------------------------

function pictures() {
  const home = section("pictures"), {epochs = [], rows = [], left_out = 0} = data.previews || {};
  put(home, {}, [el("h2", {}, "Pictures")]);
  if (!rows.length)
    return put(home, {}, [el("p", {class: "empty"}, "None: no preview node wrote any.")]);
  const classes = new Map();
  rows.forEach(r => r.images.forEach(i => i && i.classes.forEach((c, k) => classes.set(c, i.colors[k]))));
  const key = [...classes].sort((a, b) => a[0] - b[0]).map(([c, color]) =>
    el("span", {}, el("i", {style: {background: color}}), "class " + c));
  put(home, {}, [
    el("p", {class: "lead"}, "The slice with most foreground of each volume, epoch by epoch. The outline is the label, the fill what ",
      "was predicted: fill outside of the outline is too much, an outline without fill was missed.",
      left_out ? ` ${plural(left_out, "picture")} more in the folder.` : ""),
    el("div", {class: "legend", style: {"margin-bottom": "8px"}}, key),
    el("div", {class: "scroll"}, el("table", {class: "film" + (epochs.length < 5 ? " few" : "")},
      el("thead", {}, el("tr", {}, el("th", {}), epochs.map(e => el("th", {}, "epoch " + e)))),
      el("tbody", {}, rows.map((row, r) => el("tr", {}, el("th", {class: "row", scope: "row"}, row.sample,
        el("small", {}, `slice ${row.slice}`)),
        row.images.map((image, e) => el("td", {}, image ? el("button", {title: "Enlarge", onclick: () => view(r, e)},
          el("img", {src: "data:image/png;base64," + image.png, alt: `${row.sample}, epoch ${epochs[e]}`, loading: "lazy"})) : null))))))),
  ]);
  const viewer = document.getElementById("viewer");
  let at = [0, 0];
  function view(r, e) {
    const row = rows[r], image = row.images[e];
    at = [r, e];
    const go = (dr, de) => {
      for (let [nr, ne] = [r + dr, e + de]; rows[nr] && ne >= 0 && ne < epochs.length; nr += dr, ne += de)
        if (rows[nr].images[ne]) return view(nr, ne);
    };
    viewer.go = go;
    viewer.replaceChildren(el("div", {class: "viewer-bar"}, el("h3", {}, `${row.sample}, epoch ${epochs[e]}`),
      el("button", {onclick: () => go(0, -1)}, "← epoch"), el("button", {onclick: () => go(0, 1)}, "epoch →"),
      el("button", {onclick: () => go(-1, 0)}, "↑"), el("button", {onclick: () => go(1, 0)}, "↓"),
      el("button", {onclick: () => viewer.close()}, "Close")),
      el("img", {src: "data:image/png;base64," + image.png, alt: row.sample}));
    if (!viewer.open) viewer.showModal();
  }
  viewer.addEventListener("keydown", event => {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    if (step) { event.preventDefault(); viewer.go(...step); }
  });
  viewer.addEventListener("click", event => { if (event.target === viewer) viewer.close(); });
}

// ---- graph --------------------------------------------------------------------------------------

function graph() {
  const sheet = document.getElementById("graph-sheet"), picture = sheet.querySelector("svg");
  const tools = document.getElementById("graph-tools");
  if (!picture) return tools.append("Graphviz was not there when the report was made; this is the picture's text.");
  const natural = [picture.getAttribute("width"), picture.getAttribute("height")];
  const set = fit => {
    sheet.classList.toggle("fit", fit);
    picture.setAttribute("width", fit ? "100%" : natural[0]);
    if (fit) picture.removeAttribute("height"); else picture.setAttribute("height", natural[1]);
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(fit === (i === 0))));
  };
  const buttons = [el("button", {onclick: () => set(true)}, "Whole"), el("button", {onclick: () => set(false)}, "Full size")];
  picture.addEventListener("click", () => set(!sheet.classList.contains("fit")));
  tools.append(...buttons, el("span", {}, profile.nodes ?
    "Each box is filled by its node's busy share. Point at one for its settings." : "Not measured: the run did not end."));
  set(innerWidth > 700);
}

// ---- tables -------------------------------------------------------------------------------------

// columns: {name, value(row): to sort by, cell(row): to show, left, wrap, title}
function table(columns, rows, marked) {
  const body = el("tbody");
  let order = null, down = true;
  const fill = () => {
    const sorted = order === null ? rows : [...rows].sort((a, b) => {
      const [x, y] = [order.value(a), order.value(b)];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.replaceChildren(...sorted.map(r => el("tr", {class: marked && marked(r) ? "hot" : null}, columns.map(c =>
      el("td", {class: [c.left && "left", c.wrap && "wrap"].filter(Boolean).join(" ") || null}, c.cell ? c.cell(r) : short(c.value(r)))))));
  };
  const heads = columns.map(c => {
    const sort = () => {
      down = order === c ? !down : !c.left;
      order = c;
      heads.forEach(h => h.removeAttribute("aria-sort"));
      h.setAttribute("aria-sort", down ? "descending" : "ascending");
      fill();
    };
    const h = el("th", {class: c.left ? "left" : null, tabindex: 0, title: c.title, scope: "col", onclick: sort,
      onkeydown: e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(); } }}, c.name);
    return h;
  });
  fill();
  return el("div", {class: "scroll"}, el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
}

const names = data.order.length ? data.order.filter(n => nodes[n]) : Object.keys(nodes);
const lane = name => `var(--${(data.lanes || {})[name] || "compute"})`;
const label = name => [el("span", {class: "dot", style: {background: lane(name)}}), el("b", {}, name)];

function nodeTable() {
  const home = section("nodes");
  put(home, {}, [el("h2", {}, "Nodes")]);
  if (!names.length) return put(home, {}, [el("p", {class: "empty"}, "Not measured: profile.json is written when a run ends.")]);
  const rows = names.map((name, index) => ({name, index, ...nodes[name]}));
  const clamp = v => Math.max(0, Math.min(1, v || 0));
  const bar = r => el("span", {class: "bar", title: `busy ${percent(r.busy)}, blocked ${percent(r.blocked)}, starved ${percent(r.starved)}`},
    [["busy", r.busy], ["blocked", r.blocked], ["starved", r.starved]].map(([k, v]) =>
      el("i", {style: {width: 100 * clamp(v) + "%", background: k === "busy" ? lane(r.name) : `var(--${k})`, "flex-shrink": k === "busy" ? 0 : 1}})));
  put(home, {}, [
    el("p", {class: "lead"}, "Busy: share of the time of all its slots. Starved: it waited for input. Blocked: it had input and waited for a ",
      "credit or its turn. A click on a column sorts by it."),
    table([
      {name: "node", left: true, value: r => r.index, cell: r => label(r.name)},
      {name: "type", left: true, value: r => r.type, cell: r => el("span", {class: "faint"}, r.type)},
      {name: "items", value: r => r.items, title: "how often its body ran"},
      {name: "passed", value: r => r.passed, title: "passed on without its body: found in a cache"},
      {name: "per s", value: r => r.rate, cell: r => r.rate >= 100 ? String(Math.round(r.rate)) : r.rate.toFixed(1)},
      {name: "time", value: r => r.busy, cell: bar, title: "busy, blocked, starved"},
      {name: "busy", value: r => r.busy, cell: r => percent(r.busy)},
      {name: "starved", value: r => r.starved, cell: r => percent(r.starved)},
      {name: "blocked", value: r => r.blocked, cell: r => percent(r.blocked)},
      {name: "p50", value: r => r.p50_ms, cell: r => ms(r.p50_ms)},
      {name: "p99", value: r => r.p99_ms, cell: r => ms(r.p99_ms)},
      {name: "queue", value: r => r.queue_max, title: "most packets that waited in front of it"},
      {name: "credits", value: r => r.credits ? r.credits.total : 0, title: "most out, of all",
        cell: r => r.credits ? `${r.credits.most_out}/${r.credits.total}` : ""},
    ], rows, r => r.name === data.bottleneck),
  ]);
}

// ---- over time ----------------------------------------------------------------------------------

function timeline() {
  const home = section("timeline"), t = data.timeline;
  put(home, {}, [el("h2", {}, "Over time")]);
  if (!t || !t.cpu.length) return put(home, {}, [el("p", {class: "empty"}, "No timeline: the run was shorter than two samples of it, or it was killed early.")]);
  // No more points than pixels: means, of queues the largest.
  const W = 255, H = 62, each = Math.ceil(t.cpu.length / W), step = t.interval_s * each;
  const bins = (y, most) => Array.from({length: Math.ceil(y.length / each)}, (_, b) => {
    const part = y.slice(b * each, b * each + each);
    return most ? Math.max(...part) : part.reduce((a, v) => a + v, 0) / part.length;
  });
  const cpu = bins(t.cpu), rss = bins(t.rss_mb), n = cpu.length;
  const movers = [];  // the cards follow one another: what one points at all show
  function multiple(title, dot, layers, text) {
    const sx = i => (i + 0.5) / n * W;
    const now = el("span", {class: "now"}, text(null));
    const shapes = layers.map(l => {
      const sy = v => H - 1 - Math.min(1, v / l.most) * (H - 4);
      const line = l.y.map((v, i) => sx(i).toFixed(1) + " " + sy(v).toFixed(1)).join("L");
      return l.area ? svg("path", {d: `M${sx(0)} ${H}L${line}L${sx(n - 1)} ${H}Z`, fill: l.color, opacity: 0.45}) :
        svg("path", {d: "M" + line, fill: "none", stroke: l.color, "stroke-width": 1.5, "stroke-linejoin": "round"});
    });
    const cross = svg("line", {class: "cross", y1: 0, y2: H, visibility: "hidden"});
    const picture = svg("svg", {class: "plot-svg", viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": title},
      svg("line", {class: "grid", x1: 0, x2: W, y1: H - 0.5, y2: H - 0.5}), shapes, cross);
    movers.push(i => {
      now.textContent = text(i);
      cross.setAttribute("visibility", i === null ? "hidden" : "visible");
      if (i !== null) { cross.setAttribute("x1", sx(i)); cross.setAttribute("x2", sx(i)); }
    });
    const point = event => {
      const box = picture.getBoundingClientRect();
      const i = Math.max(0, Math.min(n - 1, Math.floor((event.clientX - box.left) / box.width * n)));
      movers.forEach(m => m(i));
    };
    picture.addEventListener("pointermove", point);
    picture.addEventListener("pointerdown", point);
    picture.addEventListener("pointerleave", () => movers.forEach(m => m(null)));
    return el("div", {class: "multiple"}, el("h3", {}, el("span", {title}, dot, title), now), picture);
  }
  const when = i => duration((i + 0.5) * step) + ": ";
  const peak = y => y.reduce((a, b) => Math.max(a, b), 0);
  const cards = [
    multiple("processor", null, [{y: cpu, most: Math.max(peak(cpu), environment.cores || 1), color: "var(--c0)", area: true}],
      i => i === null ? `cores used, of ${environment.cores || "?"}` : when(i) + short(+cpu[i].toFixed(2)) + " cores"),
    multiple("memory", null, [{y: rss, most: peak(rss) * 1.05, color: "var(--c3)", area: true}],
      i => i === null ? "most " + short(peak(t.rss_mb)) + " MB" : when(i) + short(Math.round(rss[i])) + " MB"),
  ];
  const listed = (data.order.length ? data.order : Object.keys(t.nodes)).filter(k => t.nodes[k]);
  const idle = [];
  for (const name of listed) {
    const p = t.nodes[name], busy = bins(p.busy), queue = bins(p.queue, true), out = p.credits ? bins(p.credits) : null;
    const most = peak(queue);
    if (most === 0 && peak(busy) < 0.1) { idle.push(name); continue; }
    const layers = [{y: busy, most: 1, color: lane(name), area: true}];
    if (most > 0) layers.push({y: queue, most, color: "var(--queue)"});
    const about = [most > 0 && "queue up to " + short(most), p.total && plural(p.total, "credit")].filter(Boolean).join(", ");
    cards.push(multiple(name, el("span", {class: "dot", style: {background: lane(name)}}), layers, i => i === null ? about :
      when(i) + percent(busy[i]) + (most > 0 ? `, queue ${short(queue[i])}` : "") + (out ? `, ${short(+out[i].toFixed(1))}/${p.total} out` : "")));
  }
  put(home, {}, [el("p", {class: "lead"}, `The ${duration(t.cpu.length * t.interval_s)} of the last session, a point every ${short(step)} s. Filled: busy share, 0 to 100 %. Line: packets `,
    "waiting in front of the node, each on a scale of its own."),
    el("div", {class: "multiples"}, cards),
    idle.length ? el("p", {class: "empty"}, "Never a queue and hardly busy: " + idle.join(", ") + ".") : null]);
}

// ---- samples ------------------------------------------------------------------------------------

function slowest() {
  const home = section("slowest"), rows = [];
  for (const name of names) for (const s of nodes[name].slowest || []) rows.push({node: name, p50: nodes[name].p50_ms, ...s});
  put(home, {}, [el("h2", {}, "Slowest samples")]);
  if (!rows.length) return put(home, {}, [el("p", {class: "empty"}, "Not measured.")]);
  rows.sort((a, b) => b.ms - a.ms);
  const columns = [
    {name: "time", value: r => r.ms, cell: r => ms(r.ms)},
    {name: "× median", value: r => r.p50 > 0 ? r.ms / r.p50 : 0, cell: r => r.p50 > 0 ? short(+(r.ms / r.p50).toPrecision(2)) : "–"},
    {name: "node", left: true, value: r => r.node, cell: r => label(r.node)},
    {name: "sample", left: true, wrap: true, value: r => r.sample, cell: r => [r.sample || "–", el("div", {class: "faint"}, r.file)]},
    {name: "stamp", left: true, value: r => r.stamp, cell: r => el("span", {class: "faint"}, r.stamp)},
  ];
  const holder = el("div");
  const choose = el("select", {"aria-label": "Node"}, el("option", {value: ""}, "all nodes, the worst 10"),
    names.filter(n => (nodes[n].slowest || []).length).map(n => el("option", {value: n}, n)));
  const fill = () => holder.replaceChildren(table(columns, choose.value ? rows.filter(r => r.node === choose.value) : rows.slice(0, 10)));
  choose.addEventListener("change", fill);
  fill();
  put(home, {}, [el("p", {class: "lead"}, "The ten longest firings of every node. One that took many times the median often has a file that is larger or ",
    "lies elsewhere; the first of all also pay for what is set up then."), el("div", {class: "tools"}, el("label", {}, "Node", choose)), holder]);
}

function quarantine() {
  const home = section("quarantine"), rows = data.quarantine;
  put(home, {}, [el("h2", {}, "Quarantined samples")]);
  if (!rows.length) return put(home, {}, [el("p", {class: "empty"}, "None.")]);
  put(home, {}, [el("p", {class: "lead"}, `${plural(rows.length, "sample")} could not be used and ${rows.length === 1 ? "was" : "were"} left out.`), table([
    {name: "sample", left: true, value: r => r.sample, cell: r => el("b", {}, r.sample)},
    {name: "node", left: true, value: r => r.node, cell: r => r.node},
    {name: "why", left: true, wrap: true, value: r => r.message, cell: r => r.message},
    {name: "stamp", left: true, value: r => r.stamp, cell: r => el("span", {class: "faint"}, r.stamp)},
  ], rows)]);
}

// ---- history, environment, graph ----------------------------------------------------------------

function history() {
  const home = section("history"), rows = data.sessions;
  put(home, {}, [el("h2", {}, "Sessions")]);
  if (!rows.length) return put(home, {}, [el("p", {class: "empty"}, "Not known.")]);
  put(home, {}, [table([
    {name: "begun", left: true, value: r => r.time, cell: r => day(r.time)},
    {name: "went on from", left: true, wrap: true, value: r => r.resumed_from || "", cell: r => r.resumed_from ? el("code", {}, r.resumed_from) : "the beginning"},
    {name: "at step", value: r => r.steps_before},
    {name: "ended", left: true, value: r => r.status || "", cell: r => r.status ? (states[r.status] || [r.status])[0] : "killed, or still running"},
    {name: "at step ", value: r => r.steps ?? -1, cell: r => short(r.steps)},
    {name: "wall time", value: r => r.wall_s ?? -1, cell: r => duration(r.wall_s)},
  ], rows)]);
}

function environmentList() {
  const home = section("environment"), e = environment;
  put(home, {}, [el("h2", {}, "Environment")]);
  if (!e.started) return put(home, {}, [el("p", {class: "empty"}, "Not known: there is no environment.json.")]);
  const quote = w => /^[\w@%+=:,./-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'";
  const rows = [
    ["Command", el("code", {}, (e.command || []).map(quote).join(" "))], ["In", el("code", {}, e.folder)],
    ["Processor", `${e.cpu}, ${plural(e.cores, "core")}`], ["Memory", e.memory_gb + " GB"],
    ["Threads", summary.threads ? `${summary.threads} for data, ${summary.step_threads} for the training region` : null],
    ["System", `${e.system}, ${e.kernel}`],
    ["Versions", Object.entries(e.versions || {}).map(([k, v]) => k + " " + v).join(", ")],
    ["Seed", summary.seed !== undefined ? String(summary.seed) : null],
    ["Weights, SHA-256", summary.weights_sha256 ? el("code", {}, summary.weights_sha256) : null],
    ["Variables", Object.entries(e.variables || {}).map(([k, v]) => el("div", {}, el("code", {}, k + "=" + v)))],
  ].filter(([, v]) => v && (!Array.isArray(v) || v.length));
  put(home, {}, [el("dl", {}, rows.map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]))]);
}

// Colours for keys, strings, numbers and words; short lists stay on one line.
function highlighted(value, indent) {
  const span = (kind, text) => el("span", {class: kind}, text);
  if (value === null || typeof value === "boolean") return [span("b", String(value))];
  if (typeof value === "number") return [span("n", String(value))];
  if (typeof value === "string") return [span("s", JSON.stringify(value))];
  const list = Array.isArray(value), entries = Object.entries(value);
  const flat = entries.every(([, v]) => typeof v !== "object" || v === null || Array.isArray(v));
  const inline = JSON.stringify(value).length + indent.length < 96 && (list ? entries.every(([, v]) => typeof v !== "object") : flat && indent.length > 2);
  if (!entries.length) return [list ? "[]" : "{}"];
  const out = [list ? "[" : "{"], inner = indent + "  ";
  entries.forEach(([k, v], i) => {
    out.push(inline ? (i ? ", " : list ? "" : " ") : (i ? ",\n" : "\n") + inner);
    if (!list) out.push(span("k", JSON.stringify(k)), ": ");
    out.push(...highlighted(v, inner));
  });
  out.push(inline ? (list ? "" : " ") : "\n" + indent, list ? "]" : "}");
  return out;
}

function resolved() {
  const home = section("resolved");
  if (!data.graph.json) return put(home, {}, [el("h2", {}, "The resolved graph"), el("p", {class: "empty"}, "graph.json is not there.")]);
  put(home, {}, [el("details", {}, el("summary", {}, "The resolved graph"),
    el("pre", {class: "json"}, highlighted(data.graph.json, "")))]);
}

const parts = [["curves", "Curves", curves], ["pictures", "Pictures", pictures], ["graph", "Graph", graph],
  ["nodes", "Nodes", nodeTable], ["timeline", "Over time", timeline], ["slowest", "Slowest", slowest],
  ["quarantine", "Quarantine", quarantine], ["history", "Sessions", history],
  ["environment", "Environment", environmentList], ["resolved", "Resolved graph", resolved]];
head();
headline();
for (const [, , draw] of parts) draw();
document.getElementById("nav").append(el("div", {}, parts.map(([id, name]) => el("a", {href: "#s-" + id}, name))));
document.documentElement.dataset.ready = "yes";
