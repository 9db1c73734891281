// All runs: a table that sorts and filters, and those that are chosen beside each other.
import {el, fill, refill} from "./dom.js";
import {get, on, patch, post} from "./api.js";
import {colors, legend, lineChart} from "./chart.js";
import {day, duration, short} from "./words.js";
import {openRun, states} from "./run.js";
import {say, state} from "./state.js";

let home, rows = [], chosen = new Set(), sorted = {by: "started", up: false}, filter = "", table,
  compared, archived = false, axis = "epoch";

export function setUpRuns() {
  home = document.getElementById("view-runs");
  const field = el("input", {type: "search", placeholder: "filter: brain  status=done  val_dice.mean>0.9  lr>1e-3",
    "aria-label": "Filter runs", spellcheck: "false", oninput: () => { filter = field.value; draw(); }});
  const old = el("label", {}, el("input", {type: "checkbox", onchange: e => { archived = e.target.checked; draw(); }}),
    " archived too");
  table = el("div", {class: "scroll tall"});
  compared = el("div", {class: "compared"});
  fill(home, el("div", {class: "toolbar"}, field, old, el("span", {class: "gap"}),
    el("button", {class: "main", onclick: compare}, "Compare the chosen")), table, compared);
  on("runs", () => { if (state.view === "runs") showRuns(); });
}

export async function showRuns() {
  rows = (await get("runs")).runs;
  draw();
}

// ---- filter and order ---------------------------------------------------------------------------

// What a word of the filter is held against: a metric's best, a setting given by --set, a column.
function value(row, name) {
  if (row.metrics[name]) return row.metrics[name].best ?? row.metrics[name].last;
  const ends = Object.keys(row.metrics).find(n => n.endsWith("." + name));
  if (ends) return row.metrics[ends].best ?? row.metrics[ends].last;
  const set = Object.keys(row.set).find(p => p === name || p.endsWith("." + name));
  return set ? row.set[set] : row[name];
}
export function fits(row, text) {
  return text.split(/\s+/).filter(Boolean).every(word => {
    const m = word.match(/^([^<>=!]+)(<=|>=|!=|<|>|=)(.*)$/);
    if (!m) return [row.name, row.title, row.note, row.status, ...row.tags,
      ...Object.entries(row.set).map(e => e.join("="))].join(" ").toLowerCase()
      .includes(word.toLowerCase());
    const v = value(row, m[1]);
    if (v === undefined || v === null) return false;
    const [a, b] = [Number(v), Number(m[3])];
    const both = m[3] !== "" && !isNaN(a) && !isNaN(b);
    switch (m[2]) {
      case "<": return both && a < b;
      case ">": return both && a > b;
      case "<=": return both && a <= b;
      case ">=": return both && a >= b;
      case "!=": return both ? a !== b : String(v) !== m[3];
      default: return both ? a === b : String(v) === m[3];
    }
  });
}

function metricNames() {
  const counts = new Map();
  for (const r of rows) for (const n of Object.keys(r.metrics))
    if (!/\.lr$|grad_norm/.test(n)) counts.set(n, (counts.get(n) || 0) + 1);
  const rank = n => /\.mean$/.test(n) ? 0 : /loss/.test(n) ? 1 : 2;
  return [...counts].sort((a, b) => rank(a[0]) - rank(b[0]) || b[1] - a[1]).slice(0, 4).map(e => e[0]);
}

function draw() {
  const metrics = metricNames();
  const sets = [...new Set(rows.flatMap(r => Object.keys(r.set)))].slice(0, 6);
  const columns = [
    {name: "run", left: true, key: r => r.name, cell: r => el("button", {class: "link", onclick: () => {
      openRun(r.id); state.show("run"); }}, r.title || r.name)},
    {name: "status", left: true, key: r => r.status, cell: r => el("span",
      {class: "pill " + (states[r.status]?.[1] || "")}, states[r.status]?.[0] || r.status)},
    {name: "started", key: r => r.started, cell: r => day(r.started).slice(0, 16)},
    {name: "epochs", key: r => r.epochs, cell: r => short(r.epochs)},
    {name: "steps", key: r => r.steps, cell: r => short(r.steps)},
    {name: "time", key: r => r.wall_s, cell: r => duration(r.wall_s)},
    ...metrics.map(n => ({name: n, key: r => r.metrics[n]?.best ?? null,
      cell: r => r.metrics[n] ? el("span", {title: "last " + short(r.metrics[n].last)},
        short(r.metrics[n].best)) : "–"})),
    ...sets.map(n => ({name: n, key: r => r.set[n] ?? null, cell: r => r.set[n] ?? ""})),
    {name: "tags, note", left: true, key: r => r.tags.join() + r.note, cell: r => el("button",
      {class: "link faint", title: "Change", onclick: () => notes(r)},
      [...r.tags.map(t => "#" + t), r.note].join(" ") || "…")},
  ];
  const by = columns.find(c => c.name === sorted.by) || columns[2];
  const shown = rows.filter(r => (archived || !r.archived) && fits(r, filter));
  const order = (a, b) => {
    const [x, y] = [by.key(a), by.key(b)];
    if (x === null || x === undefined || y === null || y === undefined)
      return (x ?? null) === null ? ((y ?? null) === null ? 0 : 1) : -1;
    return (x < y ? -1 : x > y ? 1 : 0) * (sorted.up ? 1 : -1);
  };
  shown.sort(order);
  const sort = c => { sorted = {by: c.name, up: sorted.by === c.name ? !sorted.up : !!c.left}; draw(); };
  const head = c => el("th", {class: c.left ? "left" : null, "aria-sort": by === c
    ? sorted.up ? "ascending" : "descending" : null},
  el("button", {class: "link", onclick: () => sort(c)}, c.name));
  const pick = r => el("input", {type: "checkbox", "aria-label": "Choose " + r.name,
    checked: chosen.has(r.id) ? "" : null,
    onchange: e => { e.target.checked ? chosen.add(r.id) : chosen.delete(r.id); }});
  refill(table, shown.length ? el("table", {class: "runs"},
    el("thead", {}, el("tr", {}, el("th"), columns.map(head))),
    el("tbody", {}, shown.map(r => el("tr", {"data-run": r.name}, el("td", {}, pick(r)),
      columns.map(c => el("td", {class: c.left ? "left" : null}, c.cell(r)))))))
    : el("p", {class: "empty"}, rows.length ? "No run fits the filter." : "No runs yet."));
  table.dataset.count = shown.length;
}

function notes(r) {
  if (state.readOnly) return;
  const dialog = document.getElementById("dialog");
  const name = el("input", {value: r.title, id: "n-name"}), tags = el("input",
    {value: r.tags.join(" "), id: "n-tags"}), note = el("textarea", {rows: 5, id: "n-note"}, r.note);
  const old = el("input", {type: "checkbox", id: "n-old", checked: r.archived ? "" : null});
  const keep = async () => {
    dialog.close();
    await patch("runs/" + r.id, {name: name.value, tags: tags.value.split(/[\s,#]+/).filter(Boolean),
      note: note.value, archived: old.checked});
    showRuns();
  };
  refill(dialog, el("h2", {}, r.name), el("div", {class: "fields"},
    el("label", {for: "n-name"}, "name"), name, el("label", {for: "n-tags"}, "tags"), tags,
    el("label", {for: "n-note"}, "note"), note, el("label", {for: "n-old"}, "archived"), old),
  el("div", {class: "buttons"}, el("button", {class: "main", onclick: keep}, "Keep"),
    el("button", {onclick: () => dialog.close()}, "Close")));
  dialog.showModal();
}

// ---- beside each other --------------------------------------------------------------------------

async function compare() {
  const ids = rows.filter(r => chosen.has(r.id)).map(r => r.id);
  if (ids.length < 2) return say("choose two runs or more");
  const found = await post("compare", {runs: ids});
  const names = found.runs.map(r => r.title || r.name);
  const dot = i => el("i", {class: "dot", style: {background: colors(i)}});
  const head = first => el("thead", {}, el("tr", {}, el("th", {class: "left"}, first),
    names.map((n, i) => el("th", {}, dot(i), n))));
  const setting = s => el("tr", {}, el("td", {class: "left"}, s.path), ids.map((_, i) =>
    el("td", {}, s.in.includes(i) ? JSON.stringify(s.values[i]) : "–")));
  const figure = what => f => el("tr", {}, el("td", {class: "left"}, f.name), f.values.map(v =>
    el("td", {}, v ? short(v[what]) : "–")));
  const parts = ["best", "last", "min"].map(what => el("table", {class: "figures"}, head(what),
    el("tbody", {}, found.figures.map(figure(what)))));
  const charts = el("div", {class: "charts"});
  const again = () => {
    axis = across.value;
    refill(charts);
    drawWhenSeen(charts, ids, names, found.figures.map(f => f.name));
  };
  const across = el("select", {"aria-label": "Across", onchange: again}, ["epoch", "step"].map(a =>
    el("option", {value: a, selected: a === axis ? "" : null}, "by " + a)));
  refill(compared, el("h2", {}, "Settings that differ"), el("div", {class: "scroll"},
    found.settings.length ? el("table", {class: "settings"}, head("setting"),
      el("tbody", {}, found.settings.map(setting))) : el("p", {class: "empty"}, "None.")),
  el("h2", {}, "Curves"), el("div", {class: "tools"}, across), legend(names.map((name, i) => ({name, color: colors(i)}))), charts,
  el("h2", {}, "Figures"), el("div", {class: "scroll"}, parts));
  drawWhenSeen(charts, ids, names, found.figures.map(f => f.name));
  compared.scrollIntoView({behavior: "smooth"});
}

// A chart asks for its points when it comes into view.
function drawWhenSeen(place, ids, names, metrics) {
  const seen = new IntersectionObserver(entries => {
    for (const entry of entries.filter(e => e.isIntersecting)) {
      seen.unobserve(entry.target);
      load(entry.target);
    }
  }, {rootMargin: "200px"});
  const load = async home => {
    const name = home.dataset.curve;
    const {curves} = await post("curves", {runs: ids, names: [name], x: axis, columns: 300});
    const series = ids.map((id, i) => ({name: names[i], color: colors(i),
      ...(curves[name]?.[id] || {x: [], y: []})})).filter(s => s.x.length);
    const chart = lineChart({title: name, series, xname: axis, whole: true});
    refill(home, el("h3", {}, name), chart.element);
  };
  for (const name of metrics.filter(n => !/\.lr$/.test(n))) {
    const home = el("div", {class: "chart", "data-curve": name}, el("h3", {}, name));
    place.append(home);
    seen.observe(home);
  }
}
