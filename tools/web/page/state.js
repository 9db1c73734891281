// What the modules share, and a line of text that goes by itself.
export const state = {view: "graph", graph: null, graphs: [], editor: null, nodes: [], chosen: "",
  jobs: new Map(), run: null, readOnly: false};

const listeners = {};
export const when = (what, handler) => (listeners[what] ||= []).push(handler);
export const tell = (what, data) => (listeners[what] || []).forEach(handler => handler(data));

let timer = 0;
export function say(text, bad = false) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.className = "shown" + (bad ? " bad" : "");
  clearTimeout(timer);
  timer = setTimeout(() => { toast.className = ""; }, bad ? 8000 : 3500);
}
