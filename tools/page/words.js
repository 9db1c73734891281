// Numbers and times in words.

export function short(v) {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 1e6 || a < 1e-4) return v.toExponential(2);
  if (Number.isInteger(v)) return v.toLocaleString("en");
  return a >= 1000 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(4));
}
export const percent = v => (100 * v < 0.95 && v > 0 ? "<1" : Math.round(100 * v)) + " %";
export const two = v => String(v).padStart(2, "0");
export function duration(s) {
  if (s === null || s === undefined) return "–";
  if (s < 60) return (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
  const t = Math.round(s);
  if (t < 3600) return Math.floor(t / 60) + " min " + two(t % 60) + " s";
  return Math.floor(t / 3600) + " h " + two(Math.floor(t / 60) % 60) + " min";
}
export function ms(v) {
  if (v >= 1000) return (v / 1000).toFixed(2) + " s";
  if (v >= 1) return v.toFixed(v >= 10 ? 0 : 1) + " ms";
  return (1000 * v).toFixed(v >= 0.01 ? 0 : 1) + " µs";
}
export const day = t => t ? t.replace("T", " ").replace("Z", " UTC") : "";
export const plural = (n, word) =>
  short(n) + " " + (n === 1 ? word : word.endsWith("y") ? word.slice(0, -1) + "ies" : word + "s");
export const peak = y => y.reduce((a, b) => Math.max(a, b), 0);
