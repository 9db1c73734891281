// The picture of the text: a click chooses a node, a drop puts one onto an edge, and while a run goes
// on each node shows its rate and queue. The last right picture stays, greyed, while the text is wrong.
import {el, refill, svg} from "./dom.js";
import {short} from "./words.js";
import {edit, jump} from "./editor.js";
import {say, state, tell, when} from "./state.js";

let sheet, drawing = null, scale = 0, all = false;

export function setUpPicture() {
  const zoom = factor => () => { scale = (scale || fitted()) * factor; size(); };
  sheet = el("div", {class: "sheet", tabindex: 0, "aria-label": "Picture of the graph"});
  sheet.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15)();
  }, {passive: false});
  sheet.addEventListener("dragover", event => event.preventDefault());
  sheet.addEventListener("drop", drop);
  refill(document.getElementById("picture"), sheet, el("div", {class: "zoom"},
    el("button", {title: "Smaller", "aria-label": "Smaller", onclick: zoom(1 / 1.25)}, "−"),
    el("button", {title: "Larger", "aria-label": "Larger", onclick: zoom(1.25)}, "+"),
    el("button", {title: "All of it", onclick: () => { scale = 0; all = !all; size(); }}, "fit")));
  new ResizeObserver(() => scale || size()).observe(sheet);
  when("undrawn", () => sheet.setAttribute("aria-busy", "true"));
  when("picture", draw);
  when("cursor", follow);
  when("choose", mark);
  when("live", live);
}

const width = () => drawing?.viewBox.baseVal.width || 1;
function fitted() {
  const box = drawing?.viewBox.baseVal;
  if (!box) return 1;
  const whole = (sheet.clientHeight - 24) / box.height;
  return Math.min((sheet.clientWidth - 24) / box.width, Math.max(all ? 0.1 : 0.85, whole), 1.25);
}
function size() {
  if (drawing && sheet.clientWidth) drawing.setAttribute("width", Math.round(width() * (scale || fitted())));
}

// Graphviz's text, without its links and what it would run.
function parsed(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (root.localName !== "svg") return null;
  for (const bad of root.querySelectorAll("script, foreignObject")) bad.remove();
  for (const one of root.querySelectorAll("*"))
    for (const {name} of [...one.attributes])
      if (/^on|href$|^target$/i.test(name)) one.removeAttribute(name);
  root.removeAttribute("height");
  return document.importNode(root, true);
}

function draw(picture) {
  sheet.setAttribute("aria-busy", "false");
  sheet.classList.toggle("stale", !picture);
  if (!picture) return;
  state.nodes = picture.nodes;
  drawing = picture.svg ? parsed(picture.svg) : null;
  if (!drawing) {
    refill(sheet, el("p", {class: "faint"}, "Graphviz draws the picture, and it is not here: ",
      "install graphviz. The nodes:"), el("div", {class: "list"}, picture.nodes.map(n =>
      el("button", {onclick: () => choose(n), "data-path": n.path}, n.path))));
  } else {
    refill(sheet, drawing);
    for (const n of picture.nodes) {
      const group = drawing.getElementById(n.id);
      if (!group) continue;
      group.classList.add("pick");
      for (const [k, v] of Object.entries({tabindex: 0, role: "button",
        "aria-label": n.path + ", " + n.type, "data-path": n.path})) group.setAttribute(k, v);
      group.addEventListener("click", () => choose(n));
      group.addEventListener("keydown", event => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(n); }
      });
    }
    size();
  }
  mark();
  tell("drawn");
}

function choose(n) {
  state.chosen = n.pointer;
  if (n.range) jump(n.range, false);
  tell("choose", n.pointer);
}

function mark() {
  if (!drawing) return;
  for (const n of state.nodes)
    drawing.getElementById(n.id)?.classList.toggle("chosen", n.pointer === state.chosen);
}

// The cursor moved: the innermost node, network or `run` around it is what is chosen.
function follow(at) {
  const holds = r => r && (r.start.line < at.line ||
    (r.start.line === at.line && r.start.character <= at.character)) && (at.line < r.end.line ||
    (at.line === r.end.line && at.character <= r.end.character));
  const n = state.nodes.find(one => holds(one.range));
  if (!n || n.pointer === state.chosen) return;
  state.chosen = n.pointer;
  tell("choose", n.pointer);
}

// ---- a node from the palette --------------------------------------------------------------------

// The edge nearest to a point of the screen: its two nodes.
function edgeAt(x, y) {
  let best = null, nearest = 60;
  for (const edge of drawing.querySelectorAll("g.edge")) {
    const line = edge.querySelector("path"), title = edge.querySelector("title");
    if (!line || !title) continue;
    const matrix = line.getScreenCTM(), length = line.getTotalLength();
    for (let i = 0; i <= 24; ++i) {
      const p = line.getPointAtLength(length * i / 24).matrixTransform(matrix);
      const far = Math.hypot(p.x - x, p.y - y);
      if (far < nearest) { nearest = far; best = title.textContent; }
    }
  }
  const [from, to] = (best || "").split("->").map(end => end.split(":")[0]);
  const find = path => state.nodes.find(n => n.path === path);
  return best && find(from) ? {from: find(from), to: find(to)} : null;
}

async function drop(event) {
  event.preventDefault();
  const type = event.dataTransfer.getData("text/plain");
  if (!type || !drawing || state.readOnly) return;
  const on = event.target.closest?.("g.node");
  const node = on && state.nodes.find(n => n.id === on.id);
  const edge = node ? {from: node} : edgeAt(event.clientX, event.clientY);
  if (!edge) return say("drop it onto a node, or onto a line between two");
  await insert(type, edge.from.pointer, edge.to?.pointer);
}

export async function insert(type, after, before) {
  const how = {op: "insert", type};
  if (after) how.after = after;
  if (before) how.before = before;
  const pointer = await edit([how]);
  state.chosen = pointer;
  tell("choose", pointer);
}

// ---- while a run goes on ------------------------------------------------------------------------

function live(figures) {
  if (!drawing) return;
  for (const old of drawing.querySelectorAll(".rate")) old.remove();
  if (!figures) return;
  for (const node of figures.nodes || []) {
    const n = state.nodes.find(one => one.path === node.path);
    const group = n && drawing.getElementById(n.id), shape = group?.querySelector("path, polygon");
    if (!shape) continue;
    const box = shape.getBBox();
    const full = node.room ? Math.min(1, node.queue / node.room) : 0;
    group.append(svg("g", {class: "rate"},
      svg("rect", {x: box.x, y: box.y + box.height - 3, width: box.width * Math.min(1, node.busy),
        height: 3, class: "busy"}),
      svg("rect", {x: box.x + box.width - 4, y: box.y + box.height * (1 - full), width: 4,
        height: box.height * full, class: "queue"}),
      svg("text", {x: box.x + box.width - 6, y: box.y - 2, "text-anchor": "end"},
        short(+node.rate.toPrecision(3)) + "/s")));
  }
}
