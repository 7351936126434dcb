// Axes of a sweep: where the value of a trial is on one, and its ticks.
import { number, plain } from "/dom.js";

// short is a value of a key in few characters.
export function short(text) {
  const v = Number(text);
  if (text === "" || !Number.isFinite(v)) return plain(text).replaceAll(", ", ",") || "–";
  if (Number.isInteger(v) && Math.abs(v) < 1e7) return String(v);
  const a = Math.abs(v);
  return a >= 1e5 || a < 1e-3 ? Number(v.toPrecision(3)).toExponential().replace("+", "") : String(Number(v.toPrecision(4)));
}

function linearTicks(lo, hi, whole) {
  let step = 10 ** Math.floor(Math.log10((hi - lo) / 5));
  for (const by of [2, 2.5, 2]) if ((hi - lo) / step > 8) step *= by;
  if (whole) step = Math.max(1, Math.round(step));
  const list = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi * (1 + 1e-12) + 1e-300 && list.length < 20; i++) list.push(i * step);
  return list;
}

function logTicks(lo, hi) {
  const list = [], decades = Math.log10(hi / lo), every = Math.ceil(decades / 8);
  for (let d = Math.floor(Math.log10(lo)); d <= Math.log10(hi); d++) {
    for (const m of decades > 3 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5]) {
      const v = m * 10 ** d;
      if (v >= lo * (1 - 1e-9) && v <= hi * (1 + 1e-9) && d % every === 0) list.push(v);
    }
  }
  return list;
}

const most = 25; // values of an axis that have ticks

// spread moves trials apart that have the same value of a list: from -1/6 to 1/6.
const spread = (trial) => (((trial * 0.618034) % 1) - 0.5) / 3;

// axisOf is the axis of a dimension, as the server tells of it: at(text, trial) is a number on it, or null; unit(v) where that
// is, from 0 to 1; text(v) its name.
export function axisOf(d) {
  if (d.values) {
    const index = new Map(d.values.map((v, i) => [v, i])), n = d.values.length;
    const every = 1 + Math.floor((n - 1) / most);
    return {
      label: d.key, names: d.values, lo: -0.5, hi: n - 0.5, log: false,
      at: (text, trial) => (index.has(text) ? index.get(text) + spread(trial) : null),
      unit: (v) => (v + 0.5) / n, value: (u) => u * n - 0.5,
      text: (v) => short(d.values[Math.min(n - 1, Math.max(0, Math.round(v)))]),
      ticks: d.values.flatMap((v, i) => (i % every ? [] : [{ at: i, text: short(v) }])),
    };
  }
  const at = (text) => { const v = Number(text); return text === "" || !Number.isFinite(v) ? null : v; };
  return { ...numbers(d.key, d.lo, d.hi, d.log, d.whole, (v) => short(String(d.whole ? Math.round(v) : v))), at };
}

// metricAxis is the axis of a metric over the values that trials have.
export function metricAxis(metric, lower, values) {
  let lo = Infinity, hi = -Infinity;
  for (const v of values) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
  if (lo > hi) [lo, hi] = [0, 1];
  return { ...numbers(metric, lo, hi, lo > 0 && hi / lo > 20, false, (v) => (number(metric, 0.5).endsWith("%") ? number(metric, v) : short(String(v)))), note: lower ? "lower is better" : "higher is better" };
}

function numbers(label, lo, hi, log, whole, text) {
  if (!(lo < hi)) { const d = Math.abs(lo) / 2 || 1; [lo, hi, log] = [lo - d, hi + d, false]; }
  const f = log ? Math.log : (v) => v, back = log ? Math.exp : (v) => v, a = f(lo), b = f(hi);
  return {
    label, lo, hi, log, text,
    unit: (v) => (f(v) - a) / (b - a), value: (u) => back(a + u * (b - a)),
    ticks: (log ? logTicks(lo, hi) : linearTicks(lo, hi, whole)).map((v) => ({ at: v, text: text(v) })),
  };
}
