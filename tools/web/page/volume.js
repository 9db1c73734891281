// A volume on three planes: the image, with label and prediction as outlines. A click moves the cross,
// the wheel and arrow keys go through slices. Bytes come from the server slice by slice.
import {el, refill} from "./dom.js";
import {bytes, get} from "./api.js";
import {short} from "./words.js";

const planes = ["sagittal", "coronal", "axial"];
const across = [1, 0, 0], up = [2, 2, 1];  // axes of each plane's columns and rows

export async function volumeViewer(home, run, name) {
  if (!name) return refill(home);
  refill(home, el("p", {class: "empty"}, "reading …"));
  const question = which => `name=${encodeURIComponent(name)}&which=${which}`;
  const open = which => get(`runs/${run}/volume?${question(which)}`).catch(() => null);
  const [pred, image, label] = await Promise.all([open("pred"), open("image"), open("label")]);
  if (!pred) return refill(home, el("p", {class: "empty"}, "It cannot be read."));
  const same = v => v && v.shape.every((n, i) => n === pred.shape[i]);
  // Without an image the file itself is shown, as an image where it holds no labels.
  const layers = {image: same(image) ? image : pred.labels.length ? null : pred,
    label: same(label) ? label : null, pred: pred.labels.length ? pred : null};
  const source = {image: same(image) ? "image" : "pred", label: "label", pred: "pred"};
  const state = {at: pred.shape.map(n => Math.floor(n / 2)), shown: {label: true, pred: true},
    low: layers.image?.low ?? 0, high: layers.image?.high ?? 1};
  const cache = new Map();

  const slice = (which, plane) => {
    const window = which === "image" ? `&low=${state.low}&high=${state.high}` : "";
    const path = `runs/${run}/slice?${question(source[which])}&plane=${plane}&at=${state.at[plane]}` +
      (which === "image" ? window : "");
    if (!cache.has(path)) {
      if (cache.size > 400) cache.clear();
      cache.set(path, bytes(path).then(b => new Uint8Array(b)));
    }
    return cache.get(path);
  };

  const canvases = planes.map((title, plane) => el("canvas", {tabindex: 0, role: "img",
    "aria-label": title + " plane", width: pred.shape[across[plane]], height: pred.shape[up[plane]]}));
  const captions = planes.map(() => el("figcaption", {}));

  // A voxel is an outline's where a neighbour has another label.
  function outline(data, pixels, width, height, color) {
    for (let y = 0; y < height; ++y)
      for (let x = 0; x < width; ++x) {
        const i = y * width + x, v = data[i];
        if (!v) continue;
        const inside = x > 0 && x < width - 1 && y > 0 && y < height - 1 && data[i - 1] === v &&
          data[i + 1] === v && data[i - width] === v && data[i + width] === v;
        if (inside) continue;
        const [r, g, b] = color(v);
        pixels.set([r, g, b, 255], 4 * i);
      }
  }
  const sets = {label: [[64, 220, 120], [90, 200, 250], [250, 220, 90], [240, 120, 220]],
    pred: [[255, 96, 72], [255, 160, 60], [200, 110, 255], [255, 90, 160]]};

  async function drawPlane(plane) {
    const width = pred.shape[across[plane]], height = pred.shape[up[plane]], at = state.at[plane];
    const names = ["image", "label", "pred"].filter(n => layers[n] && state.shown[n] !== false);
    const data = Object.fromEntries(await Promise.all(names.map(async n =>
      [n, await slice(n, plane)])));
    if (at !== state.at[plane]) return;
    const picture = new ImageData(width, height), pixels = picture.data;
    for (let i = 0; i < width * height; ++i) {
      const v = data.image ? data.image[i] : 0;
      pixels.set([v, v, v, 255], 4 * i);
    }
    for (const n of ["label", "pred"]) if (data[n])
      outline(data[n], pixels, width, height, v => sets[n][(v - 1) % 4]);
    const context = canvases[plane].getContext("2d");
    context.putImageData(picture, 0, 0);
    context.fillStyle = "rgb(120 170 255 / 55%)";
    context.fillRect(state.at[across[plane]], 0, 1, height);
    context.fillRect(0, height - 1 - state.at[up[plane]], width, 1);
    captions[plane].textContent = `${planes[plane]} ${at + 1}/${pred.shape[plane]}`;
    canvases[plane].dataset.drawn = at;
  }
  const draw = () => planes.forEach((_, plane) => drawPlane(plane));
  const go = (plane, step) => {
    state.at[plane] = Math.max(0, Math.min(pred.shape[plane] - 1, state.at[plane] + step));
    draw();
  };

  canvases.forEach((canvas, plane) => {
    const ratio = pred.shape[across[plane]] * pred.spacing[across[plane]] /
      (pred.shape[up[plane]] * pred.spacing[up[plane]]);
    canvas.style.aspectRatio = String(ratio);
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      go(plane, event.deltaY > 0 ? -1 : 1);
    }, {passive: false});
    canvas.addEventListener("keydown", event => {
      const step = {ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10,
        PageDown: -10}[event.key];
      if (step) { event.preventDefault(); go(plane, step); }
    });
    const point = event => {
      const box = canvas.getBoundingClientRect();
      const part = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v * n)));
      state.at[across[plane]] = part((event.clientX - box.left) / box.width,
        pred.shape[across[plane]]);
      state.at[up[plane]] = part(1 - (event.clientY - box.top) / box.height, pred.shape[up[plane]]);
      draw();
    };
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointermove", event => { if (event.buttons) point(event); });
  });

  const toggle = (which, text) => layers[which] ? el("label", {}, el("input", {type: "checkbox",
    checked: "", onchange: e => { state.shown[which] = e.target.checked; draw(); }}),
  el("i", {class: "dot", style: {background: `rgb(${sets[which][0].join(" ")})`}}), text) : null;
  const edge = (which, text) => layers.image ? el("label", {}, text, el("input", {type: "range",
    min: layers.image.least, max: layers.image.most, value: state[which], step: "any",
    oninput: e => { state[which] = +e.target.value; draw(); }})) : null;
  refill(home, el("div", {class: "tools"}, toggle("label", "label"),
    toggle("pred", "prediction"), edge("low", "darkest"), edge("high", "brightest"),
    el("span", {class: "faint"}, pred.shape.join(" × ") + " voxels of " +
      pred.spacing.map(s => short(+s.toPrecision(3))).join(" × ") + " mm" +
      (layers.image ? "" : "; no image was found that belongs to it"))),
  el("div", {class: "planes"}, planes.map((_, plane) => el("figure", {}, canvases[plane],
    captions[plane]))));
  draw();
}
