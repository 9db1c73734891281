// Draws the report from the JSON in the page, with what tools/page has; the build puts it in front.
const data = JSON.parse(document.getElementById("data").textContent);
const summary = data.summary || {}, environment = data.environment || {};
const profile = data.profile || {}, nodes = profile.nodes || {};
const run = (data.graph.json || {}).run || {};
const section = id => document.getElementById("s-" + id);

// ---- head and headline --------------------------------------------------------------------------

const states = {
  done: ["done", "good"], stopped: ["stopped by its rule", "good"], cut: ["interrupted", "warn"],
  failed: ["failed", "bad"], stalled: ["stalled", "bad"], open: ["did not end", "warn"],
};

function head() {
  const [text, kind] = states[data.status] || [String(data.status), ""];
  const about = [data.folder, environment.started && "started " + day(environment.started),
    environment.cpu, data.version && "Sluice " + data.version];
  fill(document.getElementById("head"),
    el("div", {class: "title"}, el("h1", {}, data.graph.name || "run"),
      el("span", {class: "pill " + kind}, text)),
    data.graph.desc ? el("p", {class: "desc"}, data.graph.desc) : null,
    el("p", {class: "meta"}, about.filter(Boolean).join("  ·  ")));
  document.getElementById("foot").textContent = "Made by sluice report, " + day(data.made) +
    ". One file, no network: it may be kept and sent.";
}

const card = (value, label, more, main) => el("div", {class: "card" + (main ? " main" : "")},
  el("span", {}, label), el("b", {}, value), more ? el("small", {}, more) : null);

// The stop rule's metric, else means of validation, else losses come first; learning rates last.
function ranked(names) {
  const rank = n => run.stop && n === run.stop.metric ? 0 : /\.mean$/.test(n) ? 1 :
    /loss/.test(n) ? 2 : /\.lr$/.test(n) ? 9 : 3;
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

function metricCards() {
  const metrics = summary.metrics || data.best || {};
  const shown = ranked(Object.keys(metrics))
    .filter(n => !/\.lr$/.test(n) && metrics[n].best !== null).slice(0, 3);
  return shown.map((name, i) => {
    const m = metrics[name];
    const last = m.last === m.best ? "" : "; last " + short(m.last);
    return card(short(m.best), name, "best, epoch " + (m.best_epoch + 1) + last, i === 0);
  });
}

function headline() {
  const samples = summary.samples || {};
  const lost = Object.entries(samples)
    .filter(([k, n]) => n > 0 && k !== "emitted" && k !== "delivered")
    .map(([k, n]) => short(n) + " " + k.replace("_", " "));
  const all = data.sessions_n ? `${duration(data.sessions_s)} in ${data.sessions_n} sessions` : "";
  const epochs = summary.epochs ?? data.epochs, steps = summary.steps ?? data.steps;
  const of = data.planned_epochs ? "of " + short(data.planned_epochs) : "";
  fill(section("headline"),
    summary.error ? el("p", {class: "note bad"}, summary.error) : null,
    el("div", {class: "cards"}, metricCards(),
      data.wall_s !== null ? card(duration(data.wall_s), "wall time", all) : null,
      epochs ? card(short(epochs), "epochs", of) : null,
      steps ? card(short(steps), "steps") : null,
      samples.emitted ? card(short(samples.emitted), "samples read", lost.join(", ") || "none lost")
        : null),
    profile.verdict ? el("div", {class: "verdict"}, el("b", {}, "What limits"),
      el("span", {}, quoted(profile.verdict))) : null,
    profile.straggler ? el("div", {class: "verdict"}, el("b", {}, "Who is waited for"),
      el("span", {}, quoted(profile.straggler))) : null);
  if (!data.missing.length) return;
  fill(section("missing"), el("div", {class: "note"}, "Not everything is here:",
    el("ul", {}, data.missing.map(m => el("li", {}, m)))));
  section("missing").hidden = false;
}

// ---- charts -------------------------------------------------------------------------------------

// Metrics of one node that are the same kind of number share a chart: a mean and its classes.
function groups(series) {
  const all = new Map();
  for (const s of series) {
    const dot = s.name.lastIndexOf("."), what = s.name.slice(dot + 1);
    const key = /^(mean|class_\d+)$/.test(what) ? s.name.slice(0, dot) : s.name;
    if (!all.has(key)) all.set(key, []);
    all.get(key).push(s);
  }
  return all;
}

function stepChart(s, epoch, share, smoothed) {
  const line = {name: "smoothed", x: s.x, y: smooth(s.y, share), color: colors(0)};
  smoothed.push([line, s.y]);
  const series = [{name: s.name, x: s.x, y: s.y, color: colors(0), raw: true}, line];
  const means = epoch.find(e => e.name === s.name);
  if (means) series.push({name: "epoch's mean", x: means.step, y: means.y, color: colors(1)});
  return chart(s.name + " by step", {series, xname: "step"});
}

function epochChart(key, series) {
  const lines = series.map((s, i) => ({name: s.name.slice(s.name.lastIndexOf(".") + 1), x: s.x,
    y: s.y, color: colors(i), best: s.best < 0 ? undefined : s.best}));
  const ruled = run.stop && series.some(s => s.name === run.stop.metric);
  const limit = ruled ? run.stop.at_least ?? run.stop.at_most : undefined;
  return chart((series.length > 1 ? key : series[0].name) + " by epoch", {series: lines,
    xname: "epoch", whole: true,
    rule: limit === undefined ? null : {y: limit, text: "stops at " + short(limit)}});
}

function curves() {
  const home = section("curves"), {epoch = [], batch = []} = data.metrics;
  fill(home, el("h2", {}, "Curves"));
  if (!epoch.length && !batch.length)
    return fill(home, empty("The run has no metrics: no node measured or logged anything."));
  let share = 0.6;
  const smoothed = [], charts = batch.map(s => stepChart(s, epoch, share, smoothed));
  const rest = epoch.filter(e => !batch.some(b => b.name === e.name));
  const ordered = ranked(rest.map(s => s.name)).map(n => rest.find(s => s.name === n));
  for (const [key, series] of groups(ordered)) charts.push(epochChart(key, series));
  if (batch.length) {
    const slide = () => {
      share = +slider.value;
      for (const [line, y] of smoothed) line.y = smooth(y, share);
      charts.forEach(c => c.redraw());
    };
    const slider = el("input", {type: "range", min: 0, max: 0.98, step: 0.02, value: share,
      "aria-label": "Smoothing", oninput: slide});
    const thin = batch.find(s => s.each > 1);
    fill(home, el("div", {class: "tools"}, el("label", {}, "Smoothing", slider),
      thin ? el("span", {}, `Each point is the mean of ${thin.each} steps.`) : null));
  }
  fill(home, el("div", {class: "charts"}, charts.map(c => c.element)));
}

// ---- pictures -----------------------------------------------------------------------------------

const source = image => "data:image/png;base64," + image.png;

function pictures() {
  const home = section("pictures"), {epochs = [], rows = [], left_out = 0} = data.previews || {};
  fill(home, el("h2", {}, "Pictures"));
  if (!rows.length) return fill(home, empty("None: no preview node wrote any."));
  const classes = new Map();
  for (const row of rows)
    for (const image of row.images.filter(Boolean))
      image.classes.forEach((c, k) => classes.set(c, image.colors[k]));
  const key = [...classes].sort((a, b) => a[0] - b[0])
    .map(([c, color]) => ({name: "class " + c, color}));
  const cell = (row, r, image, e) => image ? el("button", {title: "Enlarge",
    onclick: () => view(rows, epochs, r, e)}, el("img", {src: source(image),
    alt: `${row.sample}, epoch ${epochs[e]}`})) : null;
  const line = (row, r) => el("tr", {}, el("th", {class: "row", scope: "row"}, row.sample,
    el("small", {}, `slice ${row.slice}`)),
  row.images.map((image, e) => el("td", {}, cell(row, r, image, e))));
  const more = left_out ? ` ${plural(left_out, "picture")} more in the folder.` : "";
  fill(home, lead("The slice with most of the label of each volume, epoch by epoch. The outline is ",
    "the label, the fill what was predicted: fill outside of the outline is too much, an outline ",
    "without fill was missed.", more),
  legend(key),
  el("div", {class: "scroll"}, el("table", {class: "film" + (epochs.length < 5 ? " few" : "")},
    el("thead", {}, el("tr", {}, el("th"), epochs.map(e => el("th", {}, "epoch " + e)))),
    el("tbody", {}, rows.map(line)))));
}

// ---- scores: ROC, FROC, confusion, slides ---------------------------------------------------------

function scoreChart(score) {
  const lines = score.kind === "froc" ? [{name: "sensitivity", x: score.x, y: score.y}] : score.lines;
  const what = score.kind === "froc"
    ? {title: `${score.node}: sensitivity by false positives an image`, x: "false positives"}
    : {title: `${score.node}: true by false positive rate`, x: "false positive rate"};
  return chart(what.title, {xname: what.x,
    series: lines.map((l, i) => ({...l, name: l.name || "rate", color: colors(i)}))}).element;
}

// A row a true class, a column a predicted one; the shade is the share of the row.
function confusion(score) {
  const cell = row => {
    const all = row.reduce((a, b) => a + b, 0) || 1;
    return n => el("td", {style: {background:
      `color-mix(in srgb, ${colors(0)} ${Math.round(70 * n / all)}%, transparent)`}}, short(n));
  };
  return el("div", {class: "chart"}, el("h3", {}, score.node + ": true classes by predicted ones"),
    el("div", {class: "scroll"}, el("table", {class: "confusion"},
      el("thead", {}, el("tr", {}, el("th"), score.names.map(n => el("th", {scope: "col"}, n)))),
      el("tbody", {}, score.counts.map((row, i) =>
        el("tr", {}, el("th", {scope: "row"}, score.names[i]), row.map(cell(row))))))));
}

function scores() {
  const home = section("scores"), {scores: all = [], overviews = []} = data;
  if (!all.length && !overviews.length) return;
  home.hidden = false;
  fill(home, el("h2", {}, overviews.length ? "Slides and scores" : "Scores"));
  if (overviews.length)
    fill(home, lead("Each slide in small, under it the map of probabilities, yellow to red; a ring ",
      "about each detection."),
    el("div", {class: "overviews"}, overviews.map(o => el("figure", {},
      el("img", {src: source(o), alt: o.name}), el("figcaption", {}, o.name)))));
  fill(home, el("div", {class: "charts"},
    all.filter(s => s.kind !== "confusion").map(scoreChart),
    all.filter(s => s.kind === "confusion").map(confusion)));
}

// One picture, large; arrows lead to the sample's other epochs and to the other samples.
function view(rows, epochs, r, e) {
  const viewer = document.getElementById("viewer");
  const go = (dr, de) => {
    for (let nr = r + dr, ne = e + de; rows[nr] && ne in epochs; nr += dr, ne += de)
      if (rows[nr].images[ne]) return view(rows, epochs, nr, ne);
  };
  const button = (text, dr, de) => el("button", {onclick: () => go(dr, de)}, text);
  viewer.replaceChildren(
    el("div", {class: "viewer-bar"}, el("h3", {}, `${rows[r].sample}, epoch ${epochs[e]}`),
      button("← epoch", 0, -1), button("epoch →", 0, 1), button("↑", -1, 0), button("↓", 1, 0),
      el("button", {onclick: () => viewer.close()}, "Close")),
    el("img", {src: source(rows[r].images[e]), alt: rows[r].sample}));
  viewer.onkeydown = event => {
    const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const step = steps[event.key];
    if (step) { event.preventDefault(); go(...step); }
  };
  viewer.onclick = event => { if (event.target === viewer) viewer.close(); };
  if (!viewer.open) viewer.showModal();
}

// ---- graph --------------------------------------------------------------------------------------

function graph() {
  const sheet = document.getElementById("graph-sheet"), picture = sheet.querySelector("svg");
  const tools = document.getElementById("graph-tools");
  if (!picture && !sheet.textContent.trim()) sheet.append(empty("graph.json could not be drawn."));
  if (!picture) return;
  const show = whole => {
    sheet.classList.toggle("whole", whole);
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(whole === (i === 1))));
  };
  const buttons = [el("button", {onclick: () => show(false)}, "Full size"),
    el("button", {onclick: () => show(true)}, "Whole")];
  picture.addEventListener("click", () => show(!sheet.classList.contains("whole")));
  fill(tools, buttons, el("span", {}, profile.nodes ?
    "Boxes are filled by their nodes' busy share. Point at one for its settings." :
    "Not measured."));
  show(false);
}

// ---- tables -------------------------------------------------------------------------------------

// columns: {name, value(row): to sort by, cell(row): to show, left, wrap, title}
function table(columns, rows, marked) {
  const body = el("tbody");
  let order = null, down = true;
  const classes = c => [c.left && "left", c.wrap && "wrap"].filter(Boolean).join(" ") || null;
  const draw = () => {
    const sorted = order === null ? rows : [...rows].sort((a, b) => {
      const x = order.value(a), y = order.value(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.replaceChildren(...sorted.map(r => el("tr", {class: marked && marked(r) ? "hot" : null},
      columns.map(c => el("td", {class: classes(c)}, c.cell ? c.cell(r) : short(c.value(r)))))));
  };
  const heads = columns.map(c => {
    const sort = () => {
      down = order === c ? !down : !c.left;
      order = c;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      draw();
    };
    const key = e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(); } };
    const th = el("th", {class: c.left ? "left" : null, tabindex: 0, scope: "col", title: c.title,
      onclick: sort, onkeydown: key}, c.name);
    return th;
  });
  draw();
  return el("div", {class: "scroll"},
    el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
}

const names = data.order.length ? data.order.filter(n => nodes[n]) : Object.keys(nodes);
const lane = name => `var(--${(data.lanes || {})[name] || "compute"})`;
const mark = name => el("span", {class: "dot", style: {background: lane(name)}});
const label = name => [mark(name), el("b", {}, name)];
const faint = text => el("span", {class: "faint"}, text);

// Busy, blocked and starved, one behind the other.
function timeBar(r) {
  const clamp = v => 100 * Math.max(0, Math.min(1, v || 0)) + "%";
  const part = (share, color, shrink) =>
    el("i", {style: {width: clamp(share), background: color, "flex-shrink": shrink}});
  return el("span", {class: "bar"}, part(r.busy, lane(r.name), 0),
    part(r.blocked, "var(--blocked)", 1), part(r.starved, "var(--starved)", 1));
}

function nodeTable() {
  const home = section("nodes");
  fill(home, el("h2", {}, "Nodes"));
  if (!names.length)
    return fill(home, empty("Not measured: there is no profile.json."));
  const rows = names.map((name, index) => ({name, index, ...nodes[name]}));
  const share = key => ({name: key, value: r => r[key], cell: r => percent(r[key])});
  const time = key => ({name: key, value: r => r[key + "_ms"], cell: r => ms(r[key + "_ms"])});
  const together = r => r.done_with && r.shared_s >= 0.05 * r.busy_s ?
    faint(" + " + r.done_with.join(" + ")) : [];
  const rate = r => r.rate >= 100 ? String(Math.round(r.rate)) : r.rate.toFixed(1);
  const credits = r => r.credits ? `${r.credits.most_out}/${r.credits.total}` : "";
  fill(home, lead("Busy: share of the time of all its slots. Starved: it waited for input. ",
    "Blocked: it had input and waited for a credit or its turn. What one pass does for several ",
    "nodes stands at the first named. A click on a column sorts by it."),
  table([
    {name: "node", left: true, value: r => r.index, cell: r => [label(r.name), together(r)]},
    {name: "type", left: true, value: r => r.type, cell: r => faint(r.type)},
    {name: "items", value: r => r.items, title: "how often its body ran"},
    {name: "passed", value: r => r.passed, title: "passed on without its body: found in a cache"},
    {name: "per s", value: r => r.rate, cell: rate},
    {name: "time", value: r => r.busy, cell: timeBar, title: "busy, blocked, starved"},
    share("busy"), share("starved"), share("blocked"), time("p50"), time("p99"),
    {name: "queue", value: r => r.queue_max, title: "most packets that waited in front of it"},
    {name: "credits", value: r => r.credits ? r.credits.total : 0, title: "most out, of all",
      cell: credits},
  ], rows, r => r.name === data.bottleneck));
}

// ---- over time ----------------------------------------------------------------------------------

const mini = {width: 255, height: 62};

// layers: {y, most: the value at the top, color, area}. text(i): of point i, of none where null.
// `movers`: the cards follow one another, so what one points at all show.
function miniChart(title, dot, layers, text, movers) {
  const W = mini.width, H = mini.height, n = layers[0].y.length, sx = i => (i + 0.5) / n * W;
  const now = el("span", {class: "now"}, text(null));
  const shapes = layers.map(l => {
    const sy = v => H - 1 - Math.min(1, v / (l.most || 1)) * (H - 4);
    const line = l.y.map((v, i) => sx(i).toFixed(1) + " " + sy(v).toFixed(1)).join("L");
    if (!l.area) return svg("path", {d: "M" + line, fill: "none", stroke: l.color,
      "stroke-width": 1.5, "stroke-linejoin": "round"});
    const d = `M${sx(0)} ${H}L${line}L${sx(n - 1)} ${H}Z`;
    return svg("path", {d, fill: l.color, opacity: 0.45});
  });
  const cross = svg("line", {class: "cross", y1: 0, y2: H, visibility: "hidden"});
  const picture = svg("svg", {class: "plot-svg", viewBox: `0 0 ${W} ${H}`, role: "img",
    preserveAspectRatio: "none", "aria-label": title},
  svg("line", {class: "grid", x1: 0, x2: W, y1: H - 0.5, y2: H - 0.5}), shapes, cross);
  movers.push(i => {
    now.textContent = text(i);
    cross.setAttribute("visibility", i === null ? "hidden" : "visible");
    if (i !== null) put(cross, {x1: sx(i), x2: sx(i)}, []);
  });
  const point = event => {
    const box = picture.getBoundingClientRect();
    const i = Math.floor((event.clientX - box.left) / box.width * n);
    movers.forEach(m => m(Math.max(0, Math.min(n - 1, i))));
  };
  const leave = () => movers.forEach(m => m(null));
  put(picture, {onpointermove: point, onpointerdown: point, onpointerleave: leave}, []);
  return el("div", {class: "multiple"},
    el("h3", {}, el("span", {title}, dot, title), now), picture);
}

// No more points than pixels: means, of queues the largest.
function bins(y, each, largest) {
  return Array.from({length: Math.ceil(y.length / each)}, (_, b) => {
    const part = y.slice(b * each, b * each + each);
    return largest ? Math.max(...part) : part.reduce((a, v) => a + v, 0) / part.length;
  });
}

function timeline() {
  const home = section("timeline"), t = data.timeline;
  fill(home, el("h2", {}, "Over time"));
  if (!t || !t.cpu.length)
    return fill(home, empty("No timeline: the run was too short for one, or was killed early."));
  const each = Math.ceil(t.cpu.length / mini.width), step = t.interval_s * each, movers = [];
  const when = i => duration((i + 0.5) * step) + ": ";
  const cpu = bins(t.cpu, each), rss = bins(t.rss_mb, each), cores = environment.cores;
  const cards = [
    miniChart("processor", null,
      [{y: cpu, most: Math.max(peak(cpu), cores || 1), color: "var(--c0)", area: true}],
      i => i === null ? `cores used, of ${cores || "?"}` : when(i) + cpu[i].toFixed(2) + " cores",
      movers),
    miniChart("memory", null,
      [{y: rss, most: peak(rss) * 1.05, color: "var(--c3)", area: true}],
      i => i === null ? `most ${short(peak(t.rss_mb))} MB` : when(i) + Math.round(rss[i]) + " MB",
      movers),
  ];
  const idle = [];
  for (const name of data.order.length ? data.order : Object.keys(t.nodes)) {
    const p = t.nodes[name];
    if (!p) continue;
    const busy = bins(p.busy, each), queue = bins(p.queue, each, true), most = peak(queue);
    const out = p.credits ? bins(p.credits, each) : null;
    if (most === 0 && peak(busy) < 0.1) { idle.push(name); continue; }
    const layers = [{y: busy, most: 1, color: lane(name), area: true}];
    if (most > 0) layers.push({y: queue, most, color: "var(--queue)"});
    const about = [most > 0 && "queue up to " + short(most), p.total && plural(p.total, "credit")];
    const text = i => i === null ? about.filter(Boolean).join(", ") : when(i) + percent(busy[i]) +
      (most > 0 ? ", queue " + short(queue[i]) : "") +
      (out ? `, ${short(+out[i].toFixed(1))}/${p.total} out` : "");
    cards.push(miniChart(name, mark(name), layers, text, movers));
  }
  const whole = duration(t.cpu.length * t.interval_s);
  fill(home, lead(`The ${whole} of the last session, a point every ${short(step)} s. `,
    "Filled: busy share, 0 to 100 %. Line: packets waiting in front of the node, each on a scale ",
    "of its own."),
  el("div", {class: "multiples"}, cards),
  idle.length ? empty("Never a queue and hardly busy: " + idle.join(", ") + ".") : null);
}

// ---- trace --------------------------------------------------------------------------------------

// One row a thread, one bar a body: Chrome's "X" events.
function trace() {
  const home = section("trace"), t = data.trace;
  fill(home, el("h2", {}, "Trace"));
  const bodies = t ? t.traceEvents.filter(e => e.ph === "X") : [];
  if (!bodies.length) return fill(home, empty("No trace: sluice run --trace takes one."));
  const threads = t.traceEvents.filter(e => e.ph === "M" && bodies.some(b => b.tid === e.tid))
    .sort((a, b) => a.args.name.localeCompare(b.args.name));
  const kinds = [...new Set(bodies.map(e => e.name))].sort();
  const color = name => colors(kinds.indexOf(name));
  const opacity = name => 1 / (1 + Math.floor(kinds.indexOf(name) / 6));  // for colours used twice
  const from = Math.min(...bodies.map(e => e.ts)), to = Math.max(...bodies.map(e => e.ts + e.dur));
  const W = 1000, left = 110, row = 24, H = threads.length * row + 18;
  const x = us => left + (us - from) / (to - from) * (W - left);
  const bar = e => svg("rect", {x: x(e.ts), width: Math.max(0.4, x(e.ts + e.dur) - x(e.ts)),
    y: threads.findIndex(m => m.tid === e.tid) * row + 3, height: row - 6, fill: color(e.name),
    opacity: opacity(e.name)},
  svg("title", {}, `${e.name}, ${ms(e.dur / 1000)}${e.args.sample ? ", " + e.args.sample : ""}, ` +
    `epoch ${e.args.epoch}, index ${e.args.index}`));
  const names = threads.map((m, i) => [
    svg("text", {x: 0, y: i * row + row / 2 + 4}, m.args.name.replace("sluice-", "")),
    svg("line", {class: "grid", x1: 0, x2: W, y1: (i + 1) * row, y2: (i + 1) * row})]);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map(f => svg("text", {x: left + f * (W - left), y: H - 2,
    "text-anchor": f === 1 ? "end" : f ? "middle" : "start"}, "+" + ms(f * (to - from) / 1000)));
  fill(home, lead(`${ms((to - from) / 1000)} of the run, ${duration(t.from_s)} after its first body; `,
    `${plural(bodies.length, "body")} of ${short(t.slices)}. `,
    "The whole trace opens in ui.perfetto.dev."),
  svg("svg", {class: "plot-svg", viewBox: `0 0 ${W} ${H}`, role: "img",
    "aria-label": "bodies by thread"}, names, ticks, bodies.map(bar)),
  el("p", {class: "legend"}, kinds.map(name => el("span", {},
    el("i", {style: {background: color(name), opacity: opacity(name)}}), name))));
}

// ---- samples ------------------------------------------------------------------------------------

function slowest() {
  const home = section("slowest"), rows = [];
  fill(home, el("h2", {}, "Slowest samples"));
  for (const name of names)
    for (const s of nodes[name].slowest || []) {
      const p50 = nodes[name].p50_ms;
      rows.push({node: name, times: p50 > 0 ? s.ms / p50 : 0, ...s});
    }
  if (!rows.length) return fill(home, empty("Not measured."));
  rows.sort((a, b) => b.ms - a.ms);
  const columns = [
    {name: "time", value: r => r.ms, cell: r => ms(r.ms)},
    {name: "× median", value: r => r.times, cell: r => short(+r.times.toPrecision(2))},
    {name: "node", left: true, value: r => r.node, cell: r => label(r.node)},
    {name: "sample", left: true, wrap: true, value: r => r.sample,
      cell: r => [r.sample || "–", el("div", {class: "faint"}, r.file)]},
    {name: "stamp", left: true, value: r => r.stamp, cell: r => faint(r.stamp),
      title: "stream/epoch/index, counted from 0"},
  ];
  const holder = el("div");
  const show = () => holder.replaceChildren(table(columns,
    choose.value ? rows.filter(r => r.node === choose.value) : rows.slice(0, 10)));
  const measured = names.filter(n => (nodes[n].slowest || []).length);
  const choose = el("select", {"aria-label": "Node", onchange: show},
    el("option", {value: ""}, "all nodes, the worst 10"),
    measured.map(n => el("option", {value: n}, n)));
  show();
  fill(home, lead("The ten longest firings of every node. One that took many times the median ",
    "often has a file that is larger or lies elsewhere; a node's first ones also pay for what is ",
    "set up then."), el("div", {class: "tools"}, el("label", {}, "Node", choose)), holder);
}

function quarantine() {
  const home = section("quarantine"), rows = data.quarantine;
  fill(home, el("h2", {}, "Quarantined samples"));
  if (!rows.length) return fill(home, empty("None."));
  fill(home, lead(plural(rows.length, "sample"), " could not be used and ",
    rows.length === 1 ? "was" : "were", " left out."), table([
    {name: "sample", left: true, wrap: true, value: r => r.sample, cell: r => r.sample},
    {name: "node", left: true, value: r => r.node, cell: r => r.node},
    {name: "why", left: true, wrap: true, value: r => r.message, cell: r => r.message},
    {name: "stamp", left: true, value: r => r.stamp, cell: r => faint(r.stamp)},
  ], rows));
}

// ---- history, environment, graph ----------------------------------------------------------------

function sessions() {
  const home = section("history"), rows = data.sessions;
  fill(home, el("h2", {}, "Sessions"));
  if (!rows.length) return fill(home, empty("Not known."));
  const from = r => r.resumed_from ? el("code", {}, r.resumed_from) : "the beginning";
  const end = r => r.status ? (states[r.status] || [r.status])[0] : "killed, or still running";
  fill(home, table([
    {name: "begun", left: true, value: r => r.time, cell: r => day(r.time)},
    {name: "went on from", left: true, wrap: true, value: r => r.resumed_from, cell: from},
    {name: "at step", value: r => r.steps_before},
    {name: "ended", left: true, value: end, cell: end},
    {name: "at step", value: r => r.steps ?? -1, cell: r => short(r.steps)},
    {name: "wall time", value: r => r.wall_s ?? -1, cell: r => duration(r.wall_s)},
  ], rows));
}

function environmentList() {
  const home = section("environment"), e = environment;
  fill(home, el("h2", {}, "Environment"));
  if (!e.started) return fill(home, empty("Not known: there is no environment.json."));
  const shell = w => /^[\w@%+=:,./-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'";
  const threads = summary.threads &&
    `${summary.threads} for data, ${summary.step_threads} for the training region`;
  const rows = [
    ["Command", el("code", {}, (e.command || []).map(shell).join(" "))],
    ["In", el("code", {}, e.folder)],
    ["Processor", `${e.cpu}, ${plural(e.cores, "core")}`],
    ["Memory", e.memory_gb + " GB"],
    ["Processes", summary.world && `${summary.world.processes}; threads, times and memory are ` +
      "those of the first"],
    ["Threads", threads],
    ["System", `${e.system}, ${e.kernel}`],
    ["Versions", Object.entries(e.versions || {}).map(([k, v]) => k + " " + v).join(", ")],
    ["Seed", summary.seed !== undefined && String(summary.seed)],
    ["Weights, SHA-256", summary.weights_sha256 && el("code", {}, summary.weights_sha256)],
    ["Variables", Object.entries(e.variables || {})
      .map(([k, v]) => el("div", {}, el("code", {}, k + "=" + v)))],
  ];
  fill(home, el("dl", {}, rows.filter(([, v]) => v && (!Array.isArray(v) || v.length))
    .map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])));
}

// Colours for keys, strings, numbers and words; lists of plain values stay on one line.
function highlighted(value, indent) {
  const span = (kind, text) => [el("span", {class: kind}, text)];
  if (value === null || typeof value === "boolean") return span("b", String(value));
  if (typeof value === "number") return span("n", String(value));
  if (typeof value === "string") return span("s", JSON.stringify(value));
  const list = Array.isArray(value), entries = Object.entries(value);
  if (!entries.length) return [list ? "[]" : "{}"];
  const plain = ([, v]) => typeof v !== "object" || v === null || (!list && Array.isArray(v));
  const inline = JSON.stringify(value).length + indent.length < 96 && entries.every(plain) &&
    (list || indent.length > 2);
  const out = [list ? "[" : "{"], inner = indent + "  ";
  entries.forEach(([k, v], i) => {
    if (inline) out.push(i ? ", " : list ? "" : " "); else out.push((i ? ",\n" : "\n") + inner);
    if (!list) out.push(span("k", JSON.stringify(k)), ": ");
    out.push(...highlighted(v, inner));
  });
  return [...out, inline ? (list ? "" : " ") : "\n" + indent, list ? "]" : "}"];
}

function resolved() {
  const home = section("resolved"), json = data.graph.json;
  if (!json)
    return fill(home, el("h2", {}, "The resolved graph"), empty("graph.json is not there."));
  fill(home, el("details", {}, el("summary", {}, "The resolved graph"),
    el("pre", {class: "json"}, highlighted(json, ""))));
}

const parts = [["curves", "Curves", curves], ["pictures", "Pictures", pictures],
  ["scores", "Scores", scores],
  ["graph", "Graph", graph], ["nodes", "Nodes", nodeTable], ["timeline", "Over time", timeline],
  ["trace", "Trace", trace], ["slowest", "Slowest", slowest], ["quarantine", "Quarantine", quarantine],
  ["history", "Sessions", sessions], ["environment", "Environment", environmentList],
  ["resolved", "Resolved graph", resolved]];
head();
headline();
for (const [, , draw] of parts) draw();
fill(document.getElementById("nav"),
  el("div", {}, parts.filter(([id]) => !section(id).hidden).map(([id, name]) => el("a", {href: "#s-" + id}, name))));
document.documentElement.dataset.ready = "yes";
