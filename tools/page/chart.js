// Curves as SVG, drawn anew when their place changes its size.
import {el, empty, put, svg} from "./dom.js";
import {short} from "./words.js";

export const colors = i => `var(--c${i % 6})`;

export function ticks(low, high, count) {
  const span = high - low || 1, raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(m => m * power >= raw);
  const all = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step)
    all.push(+v.toPrecision(12));
  return all;
}

export function smooth(y, share) {  // exponential, without the bias of its beginning
  let sum = 0, weight = 0;
  return y.map(v => {
    if (v === null) return null;
    sum = share * sum + (1 - share) * v;
    weight = share * weight + (1 - share);
    return sum / weight;
  });
}

export function path(x, y, sx, sy) {
  let d = "", pen = false;
  for (let i = 0; i < x.length; ++i) {
    if (y[i] === null || !isFinite(y[i])) { pen = false; continue; }
    d += (pen ? "L" : "M") + sx(x[i]).toFixed(1) + " " + sy(y[i]).toFixed(1);
    pen = true;
  }
  return d;
}

export function nearest(x, value) {
  let low = 0, high = x.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) low = middle; else high = middle;
  }
  return high > low && value - x[low] > x[high] - value ? high : low;
}

// The values that the axes span and how they become pixels.
export function scales(spec, series, width, height, pad) {
  const xs = series.flatMap(s => [s.x[0], s.x[s.x.length - 1]]);
  const ys = series.flatMap(s => s.y).filter(v => v !== null && isFinite(v));
  if (!ys.length) return null;
  if (spec.rule) ys.push(spec.rule.y);
  let low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
  if (high - low < 1e-12) {
    low -= Math.abs(low) * 0.1 || 0.5;
    high += Math.abs(high) * 0.1 || 0.5;
  }
  const room = (high - low) * 0.06, x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1e-9);
  low = low >= 0 && low < room * 3 ? 0 : low - room;
  high += room;
  const across = width - pad.left - pad.right, down = height - pad.top - pad.bottom;
  return {low, high, x0, x1, sx: v => pad.left + (v - x0) / (x1 - x0) * across,
    sy: v => pad.top + (high - v) / (high - low) * down,
    back: px => x0 + (px - pad.left) / across * (x1 - x0)};
}

// series: {name, x, y, color, raw?: drawn faintly, best?: index}. Drawn anew when it is resized.
export function lineChart(spec) {
  const plot = el("div", {class: "plot"}), tip = el("div", {class: "tip"});
  const height = 210, pad = {left: 52, right: 12, top: 10, bottom: 24};
  let width = 0;

  function axes(s) {
    const across = y => ({x1: pad.left, x2: width - pad.right, y1: s.sy(y), y2: s.sy(y)});
    const left = ticks(s.low, s.high, 4).map(v => [svg("line", {class: "grid", ...across(v)}),
      svg("text", {x: pad.left - 8, y: s.sy(v) + 4, "text-anchor": "end"}, short(v))]);
    const below = ticks(s.x0, s.x1, Math.max(2, width / 90))
      .filter(v => !spec.whole || Number.isInteger(v))
      .map(v => svg("text", {x: s.sx(v), y: height - 6, "text-anchor": "middle"}, short(v)));
    const rule = spec.rule ? [svg("line", {class: "rule", ...across(spec.rule.y)}),
      svg("text", {x: pad.left + 4, y: s.sy(spec.rule.y) - 5}, spec.rule.text)] : [];
    return [left, below, rule];
  }

  function dots(line, s) {
    if (line.raw) return [];
    const at = (i, r) => line.y[i] === null ? null :
      svg("circle", {cx: s.sx(line.x[i]), cy: s.sy(line.y[i]), r, fill: line.color});
    const all = line.x.length < 40 ? line.x.map((_, i) => at(i, 2.4)) : [];
    return line.best === undefined ? all : [...all, at(line.best, 4.5)];
  }

  function draw() {
    const series = spec.series.filter(s => s.x.length);
    const s = scales(spec, series, width, height, pad);
    if (!s) return plot.replaceChildren(empty("No finite values."));
    // Wide round strokes of noise are blots, and take the browser more than a frame while it scrolls.
    const thin = l => l.raw || l.x.length > 200;
    const lines = series.map(l => svg("path", {d: path(l.x, l.y, s.sx, s.sy), fill: "none",
      stroke: l.color, "stroke-width": thin(l) ? 1 : 2, opacity: l.raw ? 0.35 : 1,
      "stroke-linejoin": thin(l) ? "bevel" : "round", "stroke-linecap": "round"}));
    const cross = svg("line",
      {class: "cross", y1: pad.top, y2: height - pad.bottom, visibility: "hidden"});
    const picture = svg("svg", {class: "plot-svg", viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": spec.title}, axes(s), lines, series.map(l => dots(l, s)), cross);
    const longest = series.reduce((a, b) => b.x.length > a.x.length ? b : a);
    const point = event => {
      const box = picture.getBoundingClientRect(), scale = width / box.width;
      const x = longest.x[nearest(longest.x, s.back((event.clientX - box.left) * scale))];
      put(cross, {x1: s.sx(x), x2: s.sx(x), visibility: "visible"}, []);
      tip.replaceChildren(el("div", {}, spec.xname + " " + short(x)),
        ...series.map(l => el("div", {}, l.name + "  " + short(l.y[nearest(l.x, x)]))));
      const px = s.sx(x) / scale;
      tip.style.left = (px > box.width / 2 ? px - tip.offsetWidth - 10 : px + 10) + "px";
      tip.style.opacity = 1;
    };
    const leave = () => {
      tip.style.opacity = 0;
      cross.setAttribute("visibility", "hidden");
    };
    put(picture, {onpointermove: point, onpointerdown: point, onpointerleave: leave}, []);
    plot.replaceChildren(picture, tip);
  }

  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now > 0 && now !== width) { width = now; requestAnimationFrame(draw); }
  }).observe(plot);
  return {element: plot, draw: () => width && draw()};
}

export const legend = named => el("div", {class: "legend"}, named.map(s =>
  el("span", {}, el("i", {style: {background: s.color}}), s.name)));

export function chart(title, spec) {
  const drawn = lineChart({title, ...spec}), named = spec.series.filter(s => !s.raw);
  const top = el("div", {class: "chart-head"}, el("h3", {}, title),
    named.length > 1 ? legend(named) : null);
  return {redraw: drawn.draw, element: el("div", {class: "chart"}, top, drawn.element)};
}
