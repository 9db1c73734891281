// node tests/lsp/vscode.js EXTENSION SLUICE FOLDER: the extension against the server, with a stand-in
// for the module `vscode`: what VS Code itself would do with the answers is not tried here.
"use strict";
const Module = require("module");
const path = require("path");
const fs = require("fs");
const [, , extension, sluice, folder] = process.argv;

class Position { constructor(line, character) { Object.assign(this, { line, character }); } }
class Range { constructor(start, end) { Object.assign(this, { start, end }); } }
class Plain { constructor(...given) { this.given = given; } }
class Uri {
  constructor(text) { this.text = text; this.fsPath = decodeURIComponent(text.replace("file://", "")); }
  static parse(text) { return new Uri(text); }
  toString() { return this.text; }
}
class WorkspaceEdit {
  constructor() { this.edits = []; }
  replace(uri, range, text, about) { this.edits.push({ uri, range, text, about }); }
}
class Diagnostic { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } }
class CompletionItem { constructor(label, kind) { Object.assign(this, { label, kind }); } }
class CodeAction { constructor(title, kind) { Object.assign(this, { title, kind }); } }

const providers = {}, listeners = {}, commands = {}, marks = new Map(), said = [];
const listen = (name) => (f) => ((listeners[name] = f), { dispose() {} });
const panels = [], terminals = [], shown = [];
const provide = (name) => (_, provider) => ((providers[name] = provider), {});
const document = {
  uri: new Uri("file://" + path.join(folder, "g.json")), languageId: "json", version: 1,
  text: fs.readFileSync(path.join(folder, "g.json"), "utf8"), getText() { return this.text; },
};
const vscode = {
  Position, Range, Uri, WorkspaceEdit, Diagnostic, CompletionItem, CodeAction,
  Location: Plain, DiagnosticRelatedInformation: Plain, SnippetString: Plain, InlayHint: Plain, CodeLens: Plain,
  MarkdownString: class { constructor(value) { this.value = value; } },
  Hover: class { constructor(contents) { this.contents = contents; } },
  DocumentSymbol: class { constructor(name) { this.name = name; } },
  TextEdit: { replace: (range, text) => ({ range, text }) },
  CodeActionKind: { QuickFix: { value: "quickfix" }, SourceFixAll: { value: "source.fixAll" } },
  commands: { registerCommand: (name, f) => ((commands[name] = f), {}) },
  ViewColumn: { Beside: -2 },
  window: {
    showWarningMessage: (m) => said.push(m), showErrorMessage: (m) => said.push(m),
    activeTextEditor: { document, viewColumn: 1 },
    showTextDocument: async (d, options) => shown.push(options.selection.start.line),
    createTerminal: (options) => (terminals.push(options), { show() {} }),
    createWebviewPanel: () => {
      const webview = { html: "", onDidReceiveMessage: (f) => { webview.message = f; } };
      panels.push(webview);
      return { webview, onDidDispose() {} };
    },
  },
  workspace: {
    getConfiguration: () => ({ get: () => sluice }), workspaceFolders: [], textDocuments: [document],
    onDidOpenTextDocument: listen("open"), onDidChangeTextDocument: listen("change"),
    onDidCloseTextDocument: listen("close"), onDidSaveTextDocument: listen("save"),
    onDidChangeConfiguration: listen("configuration"),
  },
  languages: new Proxy({
    match: (_, d) => (d.languageId.startsWith("json") ? 10 : 0),
    createDiagnosticCollection: () => ({ set: (uri, all) => marks.set(uri.toString(), all), clear: () => marks.clear() }),
  }, { get: (own, name) => own[name] || provide(name) }),
};
const load = Module._load;
Module._load = (name, ...more) => (name === "vscode" ? vscode : load(name, ...more));

const found = () => marks.get(document.uri.toString());
async function until(holds) {
  for (let i = 0; i < 500 && !holds(); ++i) await new Promise((go) => setTimeout(go, 20));
  if (!holds()) throw new Error("not within 10 s; said: " + said.join("; "));
}
function offset(p) {
  return document.text.split("\n").slice(0, p.line).reduce((sum, l) => sum + l.length + 1, 0) + p.character;
}
// As an editor applies it, with the event that follows.
function apply(edit) {
  const before = document.text, changes = edit.edits.map((e) => ({ range: e.range, text: e.text }));
  const spans = edit.edits.map((e) => [offset(e.range.start), offset(e.range.end), e.text]).sort((a, b) => b[0] - a[0]);
  document.text = spans.reduce((text, [from, to, put]) => text.slice(0, from) + put + text.slice(to), before);
  document.version += 1;
  changes.sort((a, b) => b.range.start.line - a.range.start.line || b.range.start.character - a.range.start.character);
  listeners.change({ document, contentChanges: changes });
}
function where(word) {
  const at = document.text.indexOf(word), lines = document.text.slice(0, at).split("\n");
  return new Position(lines.length - 1, lines[lines.length - 1].length + 1);
}

(async () => {
  const { activate, deactivate } = require(path.join(extension, "extension.js"));
  await activate({ subscriptions: [] });
  await until(() => found() && found().length === 1);
  console.log(`marked: line ${found()[0].range.start.line + 1}: ${found()[0].message.split("\n")[0]}`);
  const actions = await providers.registerCodeActionsProvider.provideCodeActions(document, found()[0].range, {}, null);
  console.log("offered: " + actions[0].title);
  apply(actions[0].edit);
  await until(() => found().length === 0);
  console.log("problems after the fix: 0");
  const hover = await providers.registerHoverProvider.provideHover(document, where('"load_image"'), null);
  console.log("hover: " + /load_image/.exec(hover.contents.value)[0]);
  const items = await providers.registerCompletionItemProvider.provideCompletionItems(document, where('"load_image"'), null);
  console.log("completed: " + items.some((i) => i.label === "load_image"));
  const symbols = await providers.registerDocumentSymbolProvider.provideDocumentSymbols(document, null);
  console.log("outline: " + symbols.map((s) => s.name).join(", "));
  apply(await providers.registerRenameProvider.provideRenameEdits(document, where('"made"'), "source", null));
  document.text.split("\n").forEach((line) => console.log("| " + line));
  fs.writeFileSync(document.uri.fsPath, document.text);
  await commands["sluice.graph"]();
  const script = /nonce="(\w+)"/.exec(panels[0].html)[1];
  console.log("picture: " + (panels[0].html.match(/class="node"/g) || []).length + " nodes, " +
    (panels[0].html.match(/g\.json#L\d+/g) || []).length + " links, its script allowed: " +
    panels[0].html.includes(`script-src 'nonce-${script}'`));
  // The page's own script: a click on a link says its line.
  const posted = [], link = { getAttribute: () => "somewhere/g.json#L4" };
  let click;
  new Function("acquireVsCodeApi", "addEventListener", /<script[^>]*>([^]*)<\/script>/.exec(panels[0].html)[1])(
    () => ({ postMessage: (m) => posted.push(m) }), (_, f) => { click = f; });
  click({ target: { closest: () => link }, preventDefault() {} });
  await panels[0].message(posted[0]);
  console.log("a click goes to line " + (shown[0] + 1));
  fs.writeFileSync(document.uri.fsPath, '{"nodes": "<b>"}');
  await commands["sluice.graph"]();
  console.log("a wrong graph: " + /<pre>(.*)/.exec(panels[1].html)[1].slice(0, 5) + ", markup in it: " +
    panels[1].html.includes("<b>"));
  commands["sluice.open"]();
  console.log("in the browser: " + path.basename(terminals[0].shellPath) + " " + terminals[0].shellArgs[0]);
  await deactivate();
  if (said.length) console.log("said: " + said.join("; "));
})().catch((error) => { console.log("failed: " + error.message); process.exitCode = 1; });
