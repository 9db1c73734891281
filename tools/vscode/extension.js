// Sluice's language server in VS Code, without any dependency: a child process, messages, and one
// provider for each thing that it answers.
"use strict";
const { execFile, spawn } = require("child_process");
const { randomBytes } = require("crypto");
const fs = require("fs");
const os = require("os");
const path = require("path");
const vscode = require("vscode");

const languages = [{ language: "json" }, { language: "jsonc" }];

// ---- the wire -----------------------------------------------------------------------------------

class Client {
  constructor(command, onNotice, onEnd) {
    this.waiting = new Map();
    this.last = 0;
    this.bytes = Buffer.alloc(0);
    this.onNotice = onNotice;
    this.child = spawn(command, ["lsp"]);
    this.child.stdout.on("data", (data) => this.receive(data));
    this.child.stdin.on("error", () => {});
    const end = (why) => {
      for (const { reject } of this.waiting.values()) reject(new Error("the server has ended"));
      this.waiting.clear();
      if (this.child) onEnd(why);
      this.child = undefined;
    };
    this.child.on("error", (error) => end(error.message));
    this.child.on("exit", (code) => end(`exit code ${code}`));
  }

  receive(data) {
    this.bytes = Buffer.concat([this.bytes, data]);
    for (;;) {
      const end = this.bytes.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = /content-length: *(\d+)/i.exec(this.bytes.toString("ascii", 0, end));
      const from = end + 4, to = from + Number(length[1]);
      if (this.bytes.length < to) return;
      const message = JSON.parse(this.bytes.toString("utf8", from, to));
      this.bytes = this.bytes.subarray(to);
      if (message.method) {
        this.onNotice(message.method, message.params);
        continue;
      }
      const asked = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (!asked) continue;
      if (message.error) asked.reject(new Error(message.error.message));
      else asked.resolve(message.result);
    }
  }

  send(message) {
    if (!this.child) return;
    const text = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }
  tell(method, params) {
    this.send({ method, params });
  }
  ask(method, params, token) {
    if (!this.child) return Promise.resolve(null);
    const id = ++this.last;
    const answer = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    if (token) token.onCancellationRequested(() => this.tell("$/cancelRequest", { id }));
    this.send({ id, method, params });
    return answer;
  }
  async stop() {
    const child = this.child;
    if (!child) return;
    const asked = this.ask("shutdown", {}).catch(() => {});
    this.child = undefined;  // its end is no surprise
    await asked;
    child.stdin.end();
  }
}

// ---- VS Code's words for the protocol's -----------------------------------------------------------

const position = (p) => new vscode.Position(p.line, p.character);
const range = (r) => new vscode.Range(position(r.start), position(r.end));
const location = (l) => new vscode.Location(vscode.Uri.parse(l.uri), range(l.range));
const wire = (p) => ({ line: p.line, character: p.character });
const wireRange = (r) => ({ start: wire(r.start), end: wire(r.end) });
const named = (document) => ({ textDocument: { uri: document.uri.toString() } });
const at = (document, p) => ({ ...named(document), position: wire(p) });

function diagnostic(d) {
  const out = new vscode.Diagnostic(range(d.range), d.message, d.severity - 1);
  out.code = d.code;
  out.source = d.source;
  out.tags = d.tags;
  out.relatedInformation = (d.relatedInformation || []).map(
    (r) => new vscode.DiagnosticRelatedInformation(location(r.location), r.message));
  return out;
}

function completion(item) {
  const out = new vscode.CompletionItem(item.label, item.kind - 1);
  out.detail = item.detail;
  out.documentation = item.documentation && new vscode.MarkdownString(item.documentation.value);
  out.sortText = item.sortText;
  out.filterText = item.filterText;
  out.range = range(item.textEdit.range);
  const text = item.textEdit.newText;
  out.insertText = item.insertTextFormat === 2 ? new vscode.SnippetString(text) : text;
  return out;
}

function symbol(s) {
  const out = new vscode.DocumentSymbol(s.name, s.detail || "", s.kind - 1, range(s.range),
                                        range(s.selectionRange));
  out.children = (s.children || []).map(symbol);
  return out;
}

function workspaceEdit(edit) {
  const out = new vscode.WorkspaceEdit();
  for (const { textDocument, edits } of edit.documentChanges || [])
    for (const e of edits) {
      const about = e.annotationId && edit.changeAnnotations[e.annotationId];
      out.replace(vscode.Uri.parse(textDocument.uri), range(e.range), e.newText, about);
    }
  return out;
}

// ---- the extension ------------------------------------------------------------------------------

function binary() {
  const given = vscode.workspace.getConfiguration("sluice").get("path");
  if (given) return given;
  for (const folder of vscode.workspace.workspaceFolders || [])
    for (const place of ["build/sluice", ".venv/bin/sluice"]) {
      const file = path.join(folder.uri.fsPath, place);
      if (fs.existsSync(file)) return file;
    }
  return "sluice";
}

let client;
let marks;

async function start() {
  if (client) await client.stop();
  marks.clear();
  const command = binary();
  client = new Client(
    command,
    (method, params) => {
      if (method === "textDocument/publishDiagnostics")
        marks.set(vscode.Uri.parse(params.uri), params.diagnostics.map(diagnostic));
      if (method === "window/showMessage") vscode.window.showWarningMessage(params.message);
    },
    (why) => {
      marks.clear();
      vscode.window.showErrorMessage(`${command} lsp: ${why}. The setting sluice.path says where it is.`);
    });
  const capabilities = {
    general: { positionEncodings: ["utf-16"] },
    textDocument: { completion: { completionItem: { snippetSupport: true } } },
    workspace: { workspaceEdit: { documentChanges: true, changeAnnotationSupport: {} } },
  };
  await client.ask("initialize", {
    processId: process.pid, clientInfo: { name: "Visual Studio Code" }, rootUri: null, capabilities,
  });
  client.tell("initialized", {});
  vscode.workspace.textDocuments.forEach(opened);
}

const isJson = (document) => vscode.languages.match(languages, document) > 0;

function opened(document) {
  if (!isJson(document)) return;
  client.tell("textDocument/didOpen", {
    textDocument: { uri: document.uri.toString(), languageId: document.languageId,
                    version: document.version, text: document.getText() },
  });
}

function changed(event) {
  if (!isJson(event.document) || event.contentChanges.length === 0) return;
  client.tell("textDocument/didChange", {
    textDocument: { uri: event.document.uri.toString(), version: event.document.version },
    contentChanges: event.contentChanges.map((c) => ({ range: wireRange(c.range), text: c.text })),
  });
}

function providers() {
  const ask = (method, params, token) => client.ask("textDocument/" + method, params, token);
  const l = vscode.languages;
  return [
    l.registerCompletionItemProvider(languages, {
      provideCompletionItems: async (d, p, token) =>
        ((await ask("completion", at(d, p), token)) || { items: [] }).items.map(completion),
    }, '"', "@", ".", ":"),
    l.registerHoverProvider(languages, {
      provideHover: async (d, p, token) => {
        const h = await ask("hover", at(d, p), token);
        return h && new vscode.Hover(new vscode.MarkdownString(h.contents.value), range(h.range));
      },
    }),
    l.registerDefinitionProvider(languages, {
      provideDefinition: async (d, p, token) => {
        const found = await ask("definition", at(d, p), token);
        return found && location(found);
      },
    }),
    l.registerReferenceProvider(languages, {
      provideReferences: async (d, p, context, token) =>
        ((await ask("references", { ...at(d, p), context }, token)) || []).map(location),
    }),
    l.registerDocumentHighlightProvider(languages, {
      provideDocumentHighlights: async (d, p, token) =>
        ((await ask("documentHighlight", at(d, p), token)) || [])
          .map((h) => new vscode.DocumentHighlight(range(h.range), h.kind - 1)),
    }),
    l.registerRenameProvider(languages, {
      prepareRename: async (d, p, token) => {
        const found = await ask("prepareRename", at(d, p), token);
        if (!found) throw new Error("no name stands here");
        return { range: range(found.range), placeholder: found.placeholder };
      },
      provideRenameEdits: async (d, p, newName, token) =>
        workspaceEdit(await ask("rename", { ...at(d, p), newName }, token)),
    }),
    l.registerCodeActionsProvider(languages, {
      provideCodeActions: async (d, r, context, token) => {
        const only = context.only ? [context.only.value] : undefined;
        const asked = { ...named(d), range: wireRange(r), context: { diagnostics: [], only } };
        return ((await ask("codeAction", asked, token)) || []).map((a) => {
          const kind = a.kind === "quickfix" ? vscode.CodeActionKind.QuickFix
                                             : vscode.CodeActionKind.SourceFixAll;
          const out = new vscode.CodeAction(a.title, kind);
          out.edit = workspaceEdit(a.edit);
          out.isPreferred = a.isPreferred;
          out.diagnostics = a.diagnostics && a.diagnostics.map(diagnostic);
          return out;
        });
      },
    }),
    l.registerDocumentSymbolProvider(languages, {
      provideDocumentSymbols: async (d, token) =>
        ((await ask("documentSymbol", named(d), token)) || []).map(symbol),
    }),
    l.registerInlayHintsProvider(languages, {
      provideInlayHints: async (d, r, token) =>
        ((await ask("inlayHint", { ...named(d), range: wireRange(r) }, token)) || []).map((h) => {
          const out = new vscode.InlayHint(position(h.position), h.label);
          out.paddingLeft = h.paddingLeft;
          return out;
        }),
    }),
    l.registerCodeLensProvider(languages, {
      provideCodeLenses: async (d, token) =>
        ((await ask("codeLens", named(d), token)) || [])
          .map((c) => new vscode.CodeLens(range(c.range), c.command)),
    }),
    l.registerDocumentFormattingEditProvider(languages, {
      provideDocumentFormattingEdits: async (d, options, token) =>
        ((await ask("formatting", { ...named(d), options }, token)) || [])
          .map((e) => vscode.TextEdit.replace(range(e.range), e.newText)),
    }),
  ];
}

// ---- the picture, and the page in the browser ------------------------------------------------------

// What `sluice dot` draws of the file, or what it says of it.
function drawn(file) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "sluice-"));
  const out = path.join(folder, "graph.svg");
  return new Promise((resolve) =>
    execFile(binary(), ["dot", file, "-o", out], (error, _, said) => {
      const text = error ? said || error.message : fs.readFileSync(out, "utf8");
      fs.rmSync(folder, { recursive: true });
      const plain = text.replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`);
      resolve(error ? `<pre>${plain}</pre>` : text.slice(text.indexOf("<svg")));
    }));
}

// Each node of the picture links to its line.
function page(picture) {
  const nonce = randomBytes(16).toString("hex");
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-${nonce}'`;
  return `<!doctype html><meta http-equiv="Content-Security-Policy" content="${policy}">
<style>body { background: white; } pre { color: black; } a { cursor: pointer; }</style>${picture}
<script nonce="${nonce}">
const editor = acquireVsCodeApi();
addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  event.preventDefault();
  const line = /#L(\\d+)$/.exec(link.getAttribute("xlink:href") || link.getAttribute("href") || "");
  if (line) editor.postMessage({ line: Number(line[1]) });
});
</script>`;
}

async function showGraph() {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !isJson(editor.document)) return;
  const { document } = editor;
  const panel = vscode.window.createWebviewPanel(
    "sluice.graph", path.basename(document.uri.fsPath), vscode.ViewColumn.Beside, { enableScripts: true });
  const draw = async () => { panel.webview.html = page(await drawn(document.uri.fsPath)); };
  panel.webview.onDidReceiveMessage(async ({ line }) => {
    const at = new vscode.Position(line - 1, 0), place = new vscode.Range(at, at);
    await vscode.window.showTextDocument(document, { viewColumn: editor.viewColumn, selection: place });
  });
  const saved = vscode.workspace.onDidSaveTextDocument((d) => d === document && draw());
  panel.onDidDispose(() => saved.dispose());
  await draw();
}

function openPage() {
  const editor = vscode.window.activeTextEditor;
  const file = editor && isJson(editor.document) ? [editor.document.uri.fsPath] : [];
  vscode.window.createTerminal({ name: "sluice open", shellPath: binary(), shellArgs: ["open", ...file] }).show();
}

async function activate(context) {
  marks = vscode.languages.createDiagnosticCollection("sluice");
  const w = vscode.workspace;
  context.subscriptions.push(
    marks,
    vscode.commands.registerCommand("sluice.restart", start),
    vscode.commands.registerCommand("sluice.graph", showGraph),
    vscode.commands.registerCommand("sluice.open", openPage),
    w.onDidOpenTextDocument(opened),
    w.onDidChangeTextDocument(changed),
    w.onDidCloseTextDocument((d) => isJson(d) && client.tell("textDocument/didClose", named(d))),
    w.onDidSaveTextDocument((d) => isJson(d) && client.tell("textDocument/didSave", named(d))),
    w.onDidChangeConfiguration((e) => e.affectsConfiguration("sluice.path") && start()),
    ...providers());
  await start().catch(() => {});
}

const deactivate = () => client && client.stop();

module.exports = { activate, deactivate };
