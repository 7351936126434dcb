// A point for each trial: a value across, the metric up. uPlot draws it.
import { el, setText } from "/dom.js";
import { shade } from "/parallel.js";

/* global uPlot */

const dim = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// scatter is a panel of an axis and that of the metric, as scale.js makes them.
export function scatter(title) {
  const plot = el("div", { className: "plot" }), note = el("p", { className: "legend dim" }), rows = el("div", { className: "rows", tabIndex: 0, role: "group", "aria-label": "Table of " + title });
  const behind = el("details", { ontoggle: () => fill() }, el("summary", {}, "Table of " + title), rows);
  const element = el("figure", { "aria-label": title }, el("h3", {}, title), note, plot, behind);
  let u = null, across = null, up = null, points = [], built = "";

  const width = () => Math.max(200, Math.floor(plot.clientWidth || element.clientWidth - 24 || 380));

  function dots(v) {
    const g = v.ctx, r = devicePixelRatio;
    g.save();
    g.beginPath();
    g.rect(v.bbox.left, v.bbox.top, v.bbox.width, v.bbox.height);
    g.clip();
    for (const p of points) {
      g.globalAlpha = p.inside ? 0.9 : 0.15;
      g.fillStyle = p.best ? (dim.matches ? "#ff9d5c" : "#c14d00") : shade(p.rank);
      g.beginPath();
      g.arc(v.valToPos(p.x, "x", true), v.valToPos(p.y, "y", true), (p.best ? 5 : 3.2) * r, 0, 2 * Math.PI);
      g.fill();
    }
    g.restore();
  }

  function options() {
    const axis = { stroke: css("--dim"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 }, font: "12px system-ui, sans-serif" };
    const padded = (a) => { const d = 0.03; return [a.value(-d), a.value(1 + d)]; };
    const scale = (a) => ({ time: false, auto: false, distr: a.log ? 3 : 1, range: a.names ? [a.lo, a.hi] : padded(a) });
    const splits = (a) => () => a.ticks.map((t) => t.at), labels = (a) => (_, vs) => vs.map((v) => a.ticks.find((t) => t.at === v)?.text.slice(0, 12) ?? "");
    return {
      width: width(), height: 220, legend: { show: false }, series: [{}, { paths: () => null, points: { show: false } }],
      scales: { x: scale(across), y: scale(up) },
      axes: [{ ...axis, size: 34, splits: splits(across), values: labels(across), filter: (_, vs) => vs }, { ...axis, size: 70, splits: splits(up), values: labels(up), filter: (_, vs) => vs }],
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      hooks: { draw: [dots], setCursor: [(v) => point(v)] },
    };
  }

  // point names the trial that is nearest to the pointer.
  function point(v) {
    const { left, top } = v.cursor;
    let found = null, least = 400;
    if (left >= 0) for (const p of points) {
      const d = (v.valToPos(p.x, "x") - left) ** 2 + (v.valToPos(p.y, "y") - top) ** 2;
      if (p.inside && d < least) [found, least] = [p, d];
    }
    setText(note, found ? found.words : "");
  }

  function draw() {
    const data = [points.map((p) => p.x), points.map((p) => p.y)];
    const shape = JSON.stringify([across.lo, across.hi, across.names, up.lo, up.hi, width(), dim.matches]);
    if (u && shape === built) { u.setData(data, false); u.redraw(); } else {
      u?.destroy();
      built = shape;
      u = new uPlot(options(), data, plot);
    }
    if (behind.open) fill();
  }

  function fill() {
    if (!behind.open) return;
    const most = 500, list = points.filter((p) => p.inside);
    rows.replaceChildren(list.length > most ? el("p", { className: "dim" }, `The first ${most} of ${list.length}.`) : "",
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "trial"), el("th", { scope: "col" }, across.label), el("th", { scope: "col", className: "number" }, up.label))),
        el("tbody", {}, ...list.slice(0, most).map((p) => el("tr", {}, el("td", {}, p.name), el("td", {}, p.value), el("td", { className: "number" }, up.text(p.y)))))));
  }

  const resized = new ResizeObserver(() => { if (u && Math.abs(u.width - width()) > 1) u.setSize({ width: width(), height: 220 }); });
  resized.observe(plot);
  const recoloured = () => { if (u) draw(); };
  dim.addEventListener("change", recoloured);

  return {
    element,
    // set shows points { x, y, rank, best, inside, name, value, words }.
    set(newAcross, newUp, newPoints) {
      [across, up, points] = [newAcross, newUp, [...newPoints].sort((a, b) => a.x - b.x)];
      draw();
    },
    end() { u?.destroy(); u = null; resized.disconnect(); dim.removeEventListener("change", recoloured); },
  };
}
