// Elements of a page. All text goes through textContent or setAttribute, never through HTML, so names
// may hold anything.

export function put(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key !== "style") element.setAttribute(key, value);
    else for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
  }
  element.append(...children.flat(9).filter(c => c !== null && c !== undefined && c !== false));
  return element;
}
export const el = (tag, attributes, ...children) =>
  put(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
export const fill = (home, ...children) => put(home, {}, children);
// In the place of what was there; null and false are nothing, as everywhere.
export function refill(home, ...children) {
  home.replaceChildren();
  return fill(home, ...children);
}
export const empty = text => el("p", {class: "empty"}, text);
export const lead = (...text) => el("p", {class: "lead"}, text);
// Text in which `backquotes` mark code.
export const quoted = text => text.split("`").map((part, i) => i % 2 ? el("code", {}, part) : part);
