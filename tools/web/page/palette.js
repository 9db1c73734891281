// Every node type: search, read, and put one into the graph: by the mouse onto a line of the picture,
// or by Enter behind the node that is chosen.
import {el, fill, refill} from "./dom.js";
import {get} from "./api.js";
import {insert} from "./picture.js";
import {state} from "./state.js";

// As samples pass them.
const order = ["io", "transform", "flow", "device", "model", "loss", "optimizer", "metric", "output"];
let types = [], home, list, field;

export async function setUpPalette() {
  home = document.getElementById("palette");
  const rank = t => order.indexOf(t.family) < 0 ? order.length : order.indexOf(t.family);
  types = (await get("types")).filter(t => t.family !== "network").sort((a, b) => rank(a) - rank(b));
  field = el("input", {type: "search", placeholder: "Find a node: flip, dice, load …",
    "aria-label": "Find a node type", oninput: filter, onkeydown: step});
  list = el("div", {class: "types"});
  fill(home, el("h2", {}, "Palette"), field, list);
  filter();
}

function filter() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = t => words.every(w => (t.name + " " + t.family + " " + t.doc).toLowerCase().includes(w));
  const rank = t => t.name.startsWith(words[0] || "") ? 0 : t.name.includes(words[0] || "") ? 1 : 2;
  const found = types.filter(fits);
  if (words.length) found.sort((a, b) => rank(a) - rank(b));
  if (words.length) {
    refill(list, found.slice(0, 100).map(entry));
  } else {
    const groups = new Map();
    for (const t of found) groups.set(t.family, [...(groups.get(t.family) || []), t]);
    refill(list, [...groups].map(([name, all]) => el("details", {},
      el("summary", {}, name, el("span", {class: "faint"}, " " + all.length)), all.map(entry))));
  }
  if (!found.length) refill(list, el("p", {class: "empty"}, "No type holds these words."));
}

function entry(t) {
  const element = el("button", {class: "type", draggable: "true", title: t.doc,
    onclick: () => page(t.name), onkeydown: step, "data-type": t.name,
    ondragstart: event => event.dataTransfer.setData("text/plain", t.name)},
  el("b", {}, t.name), el("span", {class: "faint"}, t.doc));
  return element;
}

// Arrows walk through the list.
function step(event) {
  const way = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (!way) return;
  event.preventDefault();
  const all = [field, ...list.querySelectorAll("button, summary")].filter(e => e.offsetParent);
  all[Math.max(0, Math.min(all.length - 1, all.indexOf(event.target) + way))].focus();
}

const table = rows => rows.length ? el("table", {class: "plain"}, rows.map(r =>
  el("tr", {}, r.map(c => el("td", {}, c))))) : null;

// The page of `sluice inspect`.
export const describe = about => el("div", {class: "about"}, el("p", {}, about.doc),
  el("p", {class: "faint"}, about.traits.join(" · ")),
  table([...about.ports, ...about.fields, ...about.rules]),
  about.params.length ? el("dl", {}, about.params.map(p => [el("dt", {}, p.name), el("dd", {},
    el("i", {}, p.type + ", " + p.default), " ", p.doc)])) : null,
  el("pre", {}, about.example));

async function page(name) {
  const about = await get("types/" + name), dialog = document.getElementById("dialog");
  const after = state.nodes.find(n => n.pointer === state.chosen);
  const add = () => { dialog.close(); insert(name, after?.pointer); };
  refill(dialog, el("div", {class: "form-head"}, el("h2", {}, name),
    el("span", {class: "actions"}, state.readOnly ? null : el("button", {class: "main", onclick: add},
      after ? "Add after " + after.path : "Add to the graph"),
    el("button", {onclick: () => dialog.close()}, "Close"))), describe(about));
  dialog.showModal();
}
