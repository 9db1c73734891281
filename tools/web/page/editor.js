// The text, which is the truth: everything else on the page is made from it, and what a form or the
// palette changes comes back to it as one change that can be undone.
import {el, fill, refill} from "./dom.js";
import {get, on, post, put} from "./api.js";
import {say, state, tell, when} from "./state.js";

const delay = 80;  // ms after the last key
let serial = 0, timer = 0, quiet = false;

const place = p => ({line: p.line, ch: p.character});
const range = r => [place(r.start), place(r.end)];
const at = p => ({line: p.line, character: p.ch});
// What the editor makes of a file's text: its lines end with LF, and the file's as its first one does.
export const withLf = text => text.replace(/\r\n?/g, "\n");
const ofFile = text => ({saved: withLf(text), lineEnd: /^[^\n]*\r\n/.test(text) ? "\r\n" : "\n"});
const forFile = text => text.replaceAll("\n", state.graph.lineEnd);
function body(more) {
  return {graph: opened().id, text: state.editor.getValue(), ...more};
}
export function opened() {
  if (!state.graph) throw new Error("no graph is open");
  return state.graph;
}

export function setUpEditor() {
  const editor = CodeMirror(document.getElementById("editor"), {
    mode: {name: "javascript", json: true}, lineNumbers: true, matchBrackets: true,
    autoCloseBrackets: true, tabSize: 2, gutters: ["CodeMirror-lint-markers"],
    readOnly: true, viewportMargin: 30,  // until a graph is open
    lint: {getAnnotations: () => [], lintOnChange: false},
    extraKeys: {Tab: false, "Shift-Tab": false, "Ctrl-Space": complete, "Cmd-S": save,
      "Ctrl-S": save, "F2": renameHere, "F12": define, "Ctrl-K": hover, "Shift-Alt-F": format},
  });
  editor.getInputField().setAttribute("aria-label", "Text of the graph");
  state.editor = editor;
  editor.on("changes", (_, changes) => {
    state.graph.dirty = editor.getValue() !== state.graph.saved;
    tell("text");
    tell("undrawn");
    clearTimeout(timer);
    timer = setTimeout(check, delay);
    const typed = changes[0];
    // A quote comes with the one that closes it.
    if (typed.origin === "+input" && /^(""?|[@.])$/.test(typed.text[0])) complete(editor);
  });
  editor.on("cursorActivity", () => {
    if (!quiet) tell("cursor", at(editor.getCursor()));
  });
  on("file", changedOutside);
  when("problem", d => jump(d.range, true));
}

export async function openGraph(id) {
  if (state.graph?.dirty && !confirm("Leave " + state.graph.name + " without saving it?")) return;
  const file = await get("graph/" + id);
  state.graph = {...file, ...ofFile(file.text), dirty: false};
  state.editor.setOption("readOnly", state.readOnly);
  state.editor.setValue(state.graph.saved);
  state.editor.clearHistory();
  tell("graph");
  await check();
}

// ---- checks -------------------------------------------------------------------------------------

async function check() {
  const mine = ++serial;
  const found = await post("check", body({serial: mine}));
  if (found.serial !== serial) return;
  state.check = found;
  mark(found.diagnostics);
  listProblems(found.diagnostics);
  tell("checked", found);
  if (!found.ok) return tell("picture", null);
  await draw();
}

// One picture at a time: that of a large graph takes seconds, and what was typed meanwhile is in the next.
let drawing = false;
async function draw() {
  if (drawing) return;
  drawing = true;
  try {
    for (let mine = -1; mine !== serial && state.check.ok;) {
      mine = serial;
      const picture = await post("picture", body({serial: mine}));
      if (picture && picture.serial === serial) tell("picture", picture);
    }
  } finally {
    drawing = false;
  }
}

function mark(diagnostics) {
  const marks = diagnostics.map(d => {
    const [from, to] = range(d.range);
    if (from.line === to.line && from.ch === to.ch) to.ch += 1;
    return {from, to, severity: d.severity === "error" ? "error" : "warning",
      message: d.message + (d.hint ? "; " + d.hint : "")};
  });
  state.editor.state.lint.options.getAnnotations = () => marks;
  state.editor.performLint();
}

function listProblems(diagnostics) {
  const home = document.getElementById("problems");
  const rows = diagnostics.slice(0, 100).map(d => el("div", {class: "problem " + d.severity},
    el("button", {class: "link", onclick: () => jump(d.range, true)},
      el("span", {class: "line"}, String(d.range.start.line + 1)), d.message,
      d.hint ? el("span", {class: "faint"}, " " + d.hint) : null),
    d.fixes.map(f => el("button", {class: "fix", onclick: () => fix(f)}, f.title))));
  refill(home, rows);
  home.hidden = !rows.length;
  state.editor.setSize(null, "100%");
}

function fix(f) {
  const [from, to] = range(f.range);
  state.editor.replaceRange(f.text, from, to, "fix");
  state.editor.focus();
}

// ---- going to places ----------------------------------------------------------------------------

export function jump(where, focus) {
  const [from, to] = range(where);
  quiet = true;
  state.editor.setSelection(from, to, {scroll: false});
  const {top, clientHeight} = state.editor.getScrollInfo();
  const y = state.editor.charCoords(from, "local").top;
  if (y < top || y > top + clientHeight - 60) state.editor.scrollTo(0, Math.max(0, y - clientHeight / 3));
  if (focus) state.editor.focus();
  quiet = false;
}

async function define() {
  const there = await post("assist/define", body({at: at(state.editor.getCursor())}));
  if (there) jump(there, true);
}

// ---- changes ------------------------------------------------------------------------------------

// The new text as the smallest change of one piece.
export function replaceText(text) {
  const old = state.editor.getValue();
  if (old === text) return;
  let front = 0, back = 0;
  const least = Math.min(old.length, text.length);
  while (front < least && old[front] === text[front]) ++front;
  while (back < least - front && old[old.length - 1 - back] === text[text.length - 1 - back]) ++back;
  const doc = state.editor.getDoc();
  state.editor.replaceRange(text.slice(front, text.length - back), doc.posFromIndex(front),
    doc.posFromIndex(old.length - back), "edit");
}

// The answer's text in the place of the one that was asked about. Where that was changed meanwhile, by
// a key or by another answer, the question is put again about the new one.
async function change(path, more) {
  const {id} = state.graph;
  for (;;) {
    const question = body(more());
    const answer = await post(path, question);
    if (state.graph.id !== id) throw new Error("another graph was opened; nothing was changed");
    if (state.editor.getValue() !== question.text) continue;
    replaceText(answer.text);
    return answer;
  }
}

export const edit = async edits => (await change("edit", () => ({edits}))).pointer;

export const nodeAt = pointer => post("node", body({pointer}));

export async function rename(where, name) {
  const mark = state.editor.setBookmark(place(where));
  try {
    const renamed = await change("assist/rename", () => ({at: at(mark.find() || place(where)), name}));
    if (renamed.warning) say(renamed.warning);
  } finally {
    mark.clear();
  }
}

async function renameHere() {
  const name = prompt("The new name");
  if (name) await rename(at(state.editor.getCursor()), name);
}

const format = () => change("assist/format", () => ({}));

let saving;
export const save = () => saving = write();
async function write() {
  if (state.readOnly) return say("read-only: nothing is saved");
  const text = state.editor.getValue(), graph = opened();
  try {
    const saved = await put("graph/" + graph.id, {text: forFile(text)}, graph.sha256);
    Object.assign(graph, {sha256: saved.sha256, saved: text, dirty: state.editor.getValue() !== text});
    say("saved " + graph.name);
    tell("text");
    return true;
  } catch (why) {
    if (why.status !== 409) throw why;
    offerOther(why.body);
    return false;
  }
}

export async function saveAs() {
  const name = prompt("The new file's name", opened().name.split("/").pop()
    .replace(/(-\d+)?\.json$/, "-2.json"));
  if (!name) return;
  const {id} = await post("graphs", {beside: state.graph.id, name,
    text: forFile(state.editor.getValue())});
  state.graph.dirty = false;
  await openGraph(id);
  say("saved as " + name);
}

async function changedOutside({graph, sha256}) {
  await saving?.catch(() => {});  // of this page's own text nothing is to be said
  if (graph !== state.graph?.id || sha256 === state.graph.sha256) return;
  const other = await get("graph/" + graph);
  if (graph !== state.graph.id || other.sha256 === state.graph.sha256) return;
  if (state.graph.dirty) return offerOther(other);
  take(other);
  say(state.graph.name + " was changed by another program");
}

function take(other) {
  Object.assign(state.graph, {sha256: other.sha256, ...ofFile(other.text), dirty: false});
  replaceText(state.graph.saved);
  tell("text");
}

// Somebody else wrote the file meanwhile: whose text is it to be?
function offerOther(other) {
  const dialog = document.getElementById("dialog");
  const choose = action => () => { dialog.close(); action(); };
  refill(dialog, el("h2", {}, "Another program changed " + state.graph.name),
    el("p", {}, "Your changes here are not saved. Which text is it to be?"),
    el("div", {class: "buttons"},
      el("button", {onclick: choose(() => { state.graph.sha256 = other.sha256; save(); })},
        "Mine: save over it"),
      el("button", {onclick: choose(() => take(other))}, "The other one (undo brings mine back)"),
      el("button", {onclick: choose(() => {})}, "Later")));
  dialog.showModal();
}

// ---- completion and documentation ---------------------------------------------------------------

const kinds = {5: "key", 6: "variable", 7: "type", 12: "value", 18: "node", 20: "choice"};

// Asked for anew with each key while the list is open.
async function candidates(editor) {
  const found = await post("assist/complete", body({at: at(editor.getCursor())}));
  const [from, to] = range(found.range);
  const typed = editor.getRange(from, editor.getCursor()).replaceAll('"', "");
  const list = found.items.filter(i => i.label.startsWith(typed)).map(i => ({text: i.text,
    displayText: i.label, render: element => fill(element, el("span", {}, i.label),
      el("span", {class: "faint"}, " " + (i.detail || kinds[i.kind] || "")))}));
  return {list, from, to};
}
const complete = editor => editor.showHint({hint: candidates, completeSingle: false});

async function hover(editor) {
  const page = await post("assist/hover", body({at: at(editor.getCursor())}));
  if (!page) return;
  const note = el("div", {class: "hover"}, page.markdown.replace(/[*`]/g, ""));
  editor.addWidget(editor.getCursor(), note, true);
  const leave = () => { note.remove(); editor.off("cursorActivity", leave); };
  editor.on("cursorActivity", leave);
}
