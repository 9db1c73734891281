// What the commands measured: the node table of `profile`, forecasts of `--what-if`, and the text of
// `advise` beside the author's, change by change.
import {el, quoted, refill} from "./dom.js";
import {withLf} from "./editor.js";
import {percent, short} from "./words.js";
import {state} from "./state.js";

function open(title, ...children) {
  const dialog = document.getElementById("dialog");
  refill(dialog, el("div", {class: "form-head"}, el("h2", {}, title),
    el("span", {class: "actions"}, el("button", {onclick: () => dialog.close()}, "Close"))),
  ...children.flat(9).filter(Boolean));
  if (!dialog.open) dialog.showModal();
  return dialog;
}

// The first `texts` columns hold texts, the others numbers.
const head = (names, texts = 1) => el("thead", {}, el("tr", {}, names.map((n, i) =>
  el("th", {class: i < texts ? "left" : null}, n))));
const rows = (all, texts = 1) => el("tbody", {}, all.map(r => el("tr", {}, r.map((c, i) =>
  el("td", {class: i < texts ? "left" : null}, c)))));

export function showProfile(job) {
  const p = job.result, nodes = Object.entries(p.nodes || {});
  nodes.sort((a, b) => b[1].busy - a[1].busy);
  open("Profile of " + job.title,
    el("div", {class: "verdict"}, el("b", {}, "What limits"), el("span", {}, quoted(p.verdict || ""))),
    el("div", {class: "scroll"}, el("table", {},
      head(["node", "per s", "busy", "starved", "blocked", "p50 ms", "queue"]),
      rows(nodes.filter(([, n]) => n.items || n.passed).map(([name, n]) => [name, short(n.rate),
        percent(n.busy), percent(n.starved), percent(n.blocked), short(n.p50_ms),
        short(n.queue_max)])))));
}

export function showWhatIf(job) {
  const all = job.result.what_if || [];
  open("What if, for " + job.title, el("div", {class: "scroll"}, el("table", {},
    head(["change", "now /s", "predicted /s", "gain", "measured /s"]),
    rows(all.map(w => [w.change, short(w.before), short(w.predicted),
      (w.predicted / w.before).toFixed(2) + " ×", w.measured ? short(w.measured) : "–"])))));
}

// What `data check` found: each kind, then each file.
export function showData(job) {
  const lists = [];
  const look = (value, key) => {
    if (Array.isArray(value) && value.some(v => v && typeof v === "object" && v.text))
      lists.push([key, value]);
    else if (value && typeof value === "object")
      for (const [k, v] of Object.entries(value)) look(v, k);
  };
  look(job.result, "");
  open("The data of " + job.title, lists.length ? lists.map(([name, all]) => [el("h3", {}, name),
    el("div", {class: "scroll"}, el("table", {}, head(["what", "where", "found"], 3),
      rows(all.map(f => [f.kind || "", f.file || (f.count ? f.count + " files" : ""), f.text]), 3)))])
    : el("p", {}, "Nothing is wrong with it."),
  el("details", {class: "more"}, el("summary", {}, "All of it"),
    el("pre", {}, JSON.stringify(job.result, null, 2).slice(0, 40000))));
}

// Lines of two texts: the longest common ones stay, the rest are changes.
export function changes(from, to) {
  const a = from.split("\n"), b = to.split("\n"), n = a.length, m = b.length;
  const common = Array.from({length: n + 1}, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; --i)
    for (let k = m - 1; k >= 0; --k)
      common[i][k] = a[i] === b[k] ? common[i + 1][k + 1] + 1
        : Math.max(common[i + 1][k], common[i][k + 1]);
  const all = [];
  let i = 0, k = 0;
  while (i < n || k < m) {
    if (i < n && k < m && a[i] === b[k]) { ++i; ++k; continue; }
    const change = {at: i, old: [], now: []};
    while (i < n || k < m) {
      if (i < n && k < m && a[i] === b[k]) break;
      if (k >= m || (i < n && common[i + 1][k] >= common[i][k + 1])) change.old.push(a[i++]);
      else change.now.push(b[k++]);
    }
    all.push(change);
  }
  return all;
}

export function showAdvice(job, replaceText) {
  // What it began with may not be what the editor holds by now.
  const advice = job.result, text = withLf(job.before), advised = withLf(job.text || job.before);
  const same = state.graph?.id === job.graph && state.editor.getValue() === text;
  const steps = advice.changes || [];
  if (advised === text)
    return open("Advice for " + job.title, el("p", {}, "Nothing that was tried makes it faster. ",
      quoted(advice.before?.verdict || "")));
  const all = changes(text, advised), taken = new Set(all);
  const take = () => {
    const lines = text.split("\n");
    for (const c of [...all].reverse())
      if (taken.has(c)) lines.splice(c.at, c.old.length, ...c.now);
    dialog.close();
    replaceText(lines.join("\n"));
  };
  const dialog = open("Advice for " + job.title,
    el("p", {}, short(advice.before.rate) + "/s as it is, " + short(advice.after.rate) +
      "/s measured with all of it."),
    el("ul", {}, steps.map(s => el("li", {}, quoted(s.change), ": ", s.why,
      el("span", {class: "faint"}, " " + s.effect)))),
    all.map(c => el("label", {class: "change"}, el("input", {type: "checkbox", checked: "",
      onchange: e => { e.target.checked ? taken.add(c) : taken.delete(c); }}),
    el("pre", {}, c.old.map(l => el("del", {}, "- " + l + "\n")),
      c.now.map(l => el("ins", {}, "+ " + l + "\n"))))),
    same ? el("div", {class: "buttons"}, el("button", {class: "main", onclick: take},
      "Take these into the text"))
      : el("p", {class: "faint"}, "The editor holds another text than this advice began with: make ",
        "the changes there by hand, or ask for advice again."));
}
