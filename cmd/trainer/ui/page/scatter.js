// A point for each trial: a value across, the metric up. uPlot draws it.
import { el, set, setText } from "/dom.js";
import { announcer, alone } from "/keys.js";
import { shade } from "/parallel.js";

/* global uPlot */

const dim = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// scatter is a panel of an axis and that of the metric, as scale.js makes them.
export function scatter(title) {
  const plot = el("div", { className: "plot" }), note = el("p", { className: "legend dim" }), rows = el("div", { className: "rows", tabIndex: 0, role: "group", "aria-label": "Table of " + title });
  const behind = el("details", { ontoggle: () => fill() }, el("summary", {}, "Table of " + title), rows);
  const element = el("figure", { "aria-label": title }, el("h3", {}, title), note, plot, behind);
  const said = announcer();
  plot.tabIndex = 0;
  set(plot, "role", "application");
  set(plot, "aria-label", `${title}. Left and right go from trial to trial, up and down to the next higher and lower value, Home and End to the first and the last, Escape to none.`);
  plot.after(said);
  let u = null, across = null, up = null, points = [], built = "", pointed = null;

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
    if (pointed) {
      g.globalAlpha = 1;
      g.strokeStyle = css("--text");
      g.lineWidth = 1.5 * r;
      g.beginPath();
      g.arc(v.valToPos(pointed.x, "x", true), v.valToPos(pointed.y, "y", true), 7 * r, 0, 2 * Math.PI);
      g.stroke();
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
      hooks: { draw: [dots], setCursor: [(v) => near(v)] },
    };
  }

  // near points at the trial that is nearest to the pointer.
  function near(v) {
    const { left, top } = v.cursor;
    let found = null, least = 400;
    if (left >= 0) for (const p of points) {
      const d = (v.valToPos(p.x, "x") - left) ** 2 + (v.valToPos(p.y, "y") - top) ** 2;
      if (p.inside && d < least) [found, least] = [p, d];
    }
    if (left >= 0 || document.activeElement !== plot) point(found); // or the keys have a trial
  }

  function point(p) {
    if (p === pointed) return;
    pointed = p;
    setText(note, p ? p.words : "");
    u?.redraw(false);
  }

  const inside = () => points.filter((p) => p.inside);
  const beside = (list, by) => list[pointed ? list.indexOf(pointed) + by : by > 0 ? 0 : list.length - 1];
  const higher = () => inside().sort((a, b) => a.y - b.y);
  const keys = {
    ArrowLeft: () => beside(inside(), -1), ArrowRight: () => beside(inside(), 1), ArrowUp: () => beside(higher(), 1), ArrowDown: () => beside(higher(), -1),
    Home: () => inside()[0], End: () => inside().at(-1),
  };
  plot.addEventListener("keydown", (e) => {
    if (!alone(e) || !keys[e.key] && e.key !== "Escape") return;
    e.preventDefault();
    point(e.key === "Escape" ? null : keys[e.key]() ?? pointed);
    setText(said, note.textContent);
  });
  plot.addEventListener("blur", () => point(null));

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
      const now = points.find((p) => p.inside && p.name === pointed?.name) ?? null; // the trial that was pointed at has a new point
      if (now) { pointed = now; setText(note, now.words); } else point(null);
      draw();
    },
    end() { u?.destroy(); u = null; resized.disconnect(); dim.removeEventListener("change", recoloured); },
  };
}
