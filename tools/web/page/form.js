// What is chosen, as a form. A change goes into the text; a value that stands in a variable asks where
// the change is meant.
import {el, fill, refill} from "./dom.js";
import {edit, jump, nodeAt, rename} from "./editor.js";
import {describe} from "./palette.js";
import {say, state, tell, when} from "./state.js";

let home, shown = "", busy = false;

export function setUpForm() {
  home = document.getElementById("form");
  when("choose", show);
  when("checked", () => { if (state.chosen && !home.contains(document.activeElement)) show(); });
  when("graph", () => { state.chosen = ""; show(); });
}

async function show() {
  const pointer = state.chosen;
  if (!pointer) return hint();
  if (busy) return;
  busy = true;
  let node;
  try {
    node = await nodeAt(pointer);
  } finally {
    busy = false;
  }
  if (pointer !== state.chosen) return show();
  if (!node) return hint();
  const keep = home.scrollTop, same = shown === pointer;
  shown = pointer;
  draw(node);
  home.scrollTop = same ? keep : 0;
}

function hint() {
  shown = "";
  refill(home, el("p", {class: "empty"},
    "Choose a node in the picture, or put the cursor on it in the text."));
}

const flows = (title, fields) => fields?.length ? el("div", {class: "flow"}, el("b", {}, title),
  fields.map(([name, what]) => el("span", {class: "chip"}, name + " ", el("i", {}, what)))) : null;

function draw(node) {
  const about = node.about;
  const doc = about ? el("details", {class: "doc"}, el("summary", {}, about.doc.split(". ")[0].replace(/\.$/, "")),
    describe(about)) : null;
  const set = node.settings.filter(p => p.from !== "default");
  refill(home,
    el("div", {class: "form-head"}, el("h2", {}, node.name),
      node.type ? el("code", {}, node.type) : null,
      node.part ? el("span", {}, "the part ", el("code", {}, node.part)) : null, actions(node)),
    doc, flows("in", node.in_fields), flows("out", node.out),
    el("div", {class: "params"}, node.kind === "node" ? reads(node) : null,
      node.params.map(p => row(p))),
    node.settings.length ? el("details", {class: "more", ...(set.length ? {open: ""} : {})},
      el("summary", {}, "Threads, errors, order"),
      el("div", {class: "params"}, node.settings.map(p => row(p)))) : null);
}

function actions(node) {
  if (state.readOnly || node.kind !== "node") return null;
  const drop = async () => {
    await edit([{op: "remove", pointer: node.pointer}]);
    state.chosen = "";
    tell("choose", "");
  };
  const name = async () => {
    const to = prompt("A new name for " + node.name, node.name);
    if (!to || to === node.name) return;
    const {line, character} = node.range.start;
    await rename({line, character: character + 1}, to);
    state.chosen = node.pointer.slice(0, node.pointer.lastIndexOf("/") + 1) + to;
    tell("choose", state.chosen);
  };
  const off = () => edit([{op: "set", pointer: node.pointer + "/disabled", value: true}]);
  return el("span", {class: "actions"},
    el("button", {onclick: () => jump(node.range, true)}, "text"),
    el("button", {onclick: name}, "rename"), el("button", {onclick: off}, "disable"),
    el("button", {onclick: drop}, "remove"));
}

// From which nodes it reads: "load", or {"pred": "infer", "label": "val"} where it has several ports.
function reads(node) {
  const names = state.nodes.map(n => n.path.split("/")[0]);
  const field = el("input", {id: "p-in", value: node.in_text ? standing({from: "file",
    text: node.in_text}) : "", list: "names", spellcheck: "false", autocomplete: "off",
  disabled: state.readOnly ? "" : null, onchange: () =>
    send(node.pointer + "/in", valueOf({kind: "string"}, field.value))});
  return el("div", {class: "param"}, el("label", {for: "p-in"}, "in"), field,
    el("span", {class: "chip"}, "reads"), el("datalist", {id: "names"}, [...new Set(names)].map(n =>
      el("option", {value: n}))));
}

// What a parameter's text means in the file: JSON as it is typed; a word is a text.
function valueOf(p, text) {
  try {
    const value = JSON.parse(text);
    return p.kind === "string" && /number|boolean/.test(typeof value) ? text : value;
  } catch {
    if (/^string|json/.test(p.kind) || text.startsWith("@")) return text;
    if (/^list/.test(p.kind) && text.includes(",") && !text.startsWith("["))
      return valueOf(p, "[" + text + "]");
    return text;
  }
}
const written = value => typeof value === "string" ? value : JSON.stringify(value);
function standing(p) {  // what the field shows
  const text = p.from === "var" ? p.var_text : p.from === "file" ? p.text : null;
  if (text === null || text === undefined) return p.required ? "" : written(p.default);
  try {
    return written(JSON.parse(text));
  } catch {
    return text;
  }
}

function row(p) {
  const change = text => apply(p, text);
  const id = "p-" + p.name, field = input(p, id, change);
  const chip = p.from === "var" ? el("span", {class: "chip var", title: "Its value stands in " +
      p.var_pointer?.slice(1).replaceAll("/", ".")}, "@" + p.var)
    : p.from === "file" ? el("button", {class: "chip file", title: "Take it out: the default holds",
      disabled: state.readOnly || p.required ? "" : null,
      onclick: () => edit([{op: "remove", pointer: p.pointer}]).then(show)}, "in file",
    p.required ? null : " ×")
    : p.required ? el("span", {class: "chip lacking"}, "required")
      : el("span", {class: "chip"}, "default");
  return el("div", {class: "param"}, el("label", {for: id}, p.name), field, chip,
    el("small", {}, el("i", {}, p.type), " ", p.doc));
}

function input(p, id, change) {
  const now = standing(p), off = state.readOnly ? "" : null;
  const options = p.kind === "bool" ? ["true", "false"] : /^string/.test(p.kind) ? p.choices : [];
  if (options.length && (options.includes(now) || !now)) {
    const list = el("select", {id, disabled: off, onchange: e => change(e.target.value)},
      now ? null : el("option", {value: ""}, ""), options.map(o => el("option", {value: o}, o)));
    list.value = now;
    return list;
  }
  return el("input", {id, value: now, spellcheck: "false", autocomplete: "off", disabled: off,
    onchange: e => change(e.target.value)});
}

async function apply(p, text) {
  if (text === standing(p)) return;
  const value = valueOf(p, text);
  if (p.from === "var" && p.var_pointer && !text.startsWith("@")) return askWhere(p, value);
  await send(p.pointer, value);
}

async function send(pointer, value) {
  try {
    await edit([{op: "set", pointer, value}]);
  } catch (why) {
    say(why.message, true);
  }
  show();
}

function askWhere(p, value) {
  const dialog = document.getElementById("dialog");
  const choose = pointer => () => { dialog.close(); send(pointer, value); };
  const name = p.var_pointer.slice(1).replaceAll("/", ".");
  refill(dialog, el("h2", {}, p.name + " comes from " + name),
    el("p", {}, "Others may use it too. Where is " + written(value) + " meant?"),
    el("div", {class: "buttons"},
      el("button", {onclick: choose(p.var_pointer)}, "In " + name + ", for all who use it"),
      el("button", {onclick: choose(p.pointer)}, "Here alone"),
      el("button", {onclick: () => { dialog.close(); show(); }}, "Nowhere")));
  dialog.showModal();
}
