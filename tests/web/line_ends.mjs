// The page's editor under Node: a file keeps its line ends. CodeMirror is one that holds lines as the
// real one does; the server is a text.
//
//     node tests/web/line_ends.mjs
import {cpSync, mkdtempSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const page = mkdtempSync(join(tmpdir(), "sluice-page-"));
for (const from of ["tools/page", "tools/web/page"])
  cpSync(new URL("../../" + from, import.meta.url), page, {recursive: true});
writeFileSync(join(page, "package.json"), '{"type": "module"}');

const element = {setAttribute() {}, append() {}, replaceChildren() {}, addEventListener() {}};
let text = "", listener = () => {};
const hold = now => { text = now.split(/\r\n?|\n/).join("\n"); listener(editor, [{text: [""]}]); };
const editor = {
  state: {lint: {options: {}}}, getValue: () => text, setValue: hold,
  replaceRange: (piece, from, to) => hold(text.slice(0, from) + piece + text.slice(to)),
  getDoc: () => ({posFromIndex: i => i}), getInputField: () => element,
  on: (what, handler) => { if (what === "changes") listener = handler; },
  clearHistory() {}, performLint() {}, setOption() {}, setSize() {},
};
let file = "", version = 0;
const answers = {GET: () => ({id: "1", name: "g.json", text: file, sha256: "v" + version}),
  PUT: body => { file = body.text; return {sha256: "v" + ++version}; },
  POST: body => ({serial: body.serial, ok: false, diagnostics: []})};
Object.assign(globalThis, {
  CodeMirror: () => editor, location: {hash: "#token", pathname: "/"}, history: {replaceState() {}},
  sessionStorage: {setItem() {}, getItem: () => "token"},
  document: {getElementById: () => element, createElement: () => ({...element})},
  fetch: async (path, how) => ({ok: true,
    json: async () => answers[how.method](how.body ? JSON.parse(how.body) : {})}),
});

const {openGraph, save, setUpEditor} = await import(pathToFileURL(join(page, "editor.js")));
const {state} = await import(pathToFileURL(join(page, "state.js")));
const {emit} = await import(pathToFileURL(join(page, "api.js")));

let failed = 0;
function check(holds, sentence, why) {
  console.log((holds ? "ok    " : "FAILS ") + sentence + (holds ? "" : ": " + JSON.stringify(why)));
  failed += !holds;
}

setUpEditor();
for (const [name, end] of [["LF", "\n"], ["CR LF", "\r\n"]]) {
  const lines = ["{", '  "nodes": {}', "}", ""];
  file = lines.join(end);
  await openGraph("1");
  check(!state.graph.dirty, `a file of ${name} is unchanged when it is opened`, text);
  hold(text + "// more\n");
  check(state.graph.dirty, `${name}: what is typed is a change`);
  await save();
  check(file === [...lines.slice(0, 3), "// more", ""].join(end), `${name}: it is saved as it was opened`, file);
  check(!state.graph.dirty, `${name}: and is then unchanged`);
  file = lines.join(end);
  emit("file", {graph: "1", sha256: "v" + ++version});
  await new Promise(resolve => setTimeout(resolve, 200));
  check(text === lines.join("\n") && !state.graph.dirty, `${name}: what another program wrote is no change`, text);
}
rmSync(page, {recursive: true});
process.exit(failed ? 1 : 0);
