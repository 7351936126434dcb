// A panel with curves: uPlot, a legend with the values at the pointer, and a table behind it.
import { el, number, setText } from "/dom.js";
import { keyboard } from "/keys.js";

/* global uPlot */

// colours that people who see few colours can tell apart (Okabe and Ito), in light and in dark.
const light = ["#0072b2", "#d55e00", "#007a58", "#a8508a", "#8a6d00", "#2f2f2f", "#3b8ec2", "#7a3f00"];
const dark = ["#56b4e9", "#ff9d5c", "#2fc79a", "#e39fc8", "#f0e442", "#d8d8d8", "#9cc8ff", "#d0a070"];
const dim = matchMedia("(prefers-color-scheme: dark)");
// colour is that of a run or a part by its number; below 0 the one of single steps, which are behind the others.
export const colour = (i) => (i < 0 ? (dim.matches ? "#78828c" : "#a3abb3") : (dim.matches ? dark : light)[i % light.length]);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// smoothed is an exponential moving average of weight w from 0 to 1, without the bias of its beginning.
function smoothed(ys, w) {
  let sum = 0, weight = 0;
  return ys.map((y) => {
    if (y === null || y === undefined) return y;
    sum = sum * w + y * (1 - w);
    weight = weight * w + (1 - w);
    return sum / weight;
  });
}

const whole = Array.from({ length: 13 }, (_, i) => [1, 2, 5].map((m) => m * 10 ** i)).flat(); // between the steps that an axis names
const two = (n) => String(n).padStart(2, "0");

// clock is a time since the beginning: 0.25 s, 1:30, 2:05:00.
function clock(s) {
  if (s < 60) return Number(s.toFixed(3)) + " s";
  s = Math.round(s);
  const m = Math.floor(s / 60) % 60, h = Math.floor(s / 3600);
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

export const place = (unit, v) => (unit === "time" ? clock(v) : unit === "epoch" ? Number(v).toFixed(2) : Math.round(v).toLocaleString("en-US"));

// chart is a panel of a title. onzoom hears the part of the axis that the user chooses, and returns what is shown; null: all of it.
export function chart(title, onzoom) {
  const plot = el("div", { className: "plot" }), legend = el("div", { className: "legend" });
  const rows = el("div", { className: "rows", tabIndex: 0, role: "group", "aria-label": "Table of " + title });
  const behind = el("details", { ontoggle: () => fill() }, el("summary", {}, "Table of " + title), rows);
  const element = el("figure", { "aria-label": title }, el("h3", {}, title), legend, plot, behind);
  let u = null, lines = [], look = { unit: "step", log: false, smooth: 0 }, span = null, marks = {}, values = [], built = "";

  const keys = keyboard(plot, title, { of: () => u, words, place: (x) => place(look.unit, x), zoom: onzoom });

  const width = () => Math.max(200, Math.floor(plot.clientWidth || element.clientWidth - 24 || 480));
  const height = () => (width() < 420 ? 220 : 260);
  const usable = (y) => (look.log && !(y > 0) ? null : y);

  // series are what uPlot draws: of each curve the raw line, and in front of it the smoothed one.
  function series() {
    const list = [], data = [];
    for (const l of lines) {
      const c = colour(l.colour), few = l.x.length <= 60;
      const raw = { label: l.label, stroke: look.smooth ? c + "55" : c, width: l.thin && !look.smooth ? 1 : 1.5, dash: l.dash ? [6, 4] : undefined, points: { show: few && !look.smooth, size: 4, fill: c }, scale: "y" };
      const ys = l.y.map(usable);
      list.push(raw);
      data.push([l.x, ys]);
      if (look.smooth) {
        list.push({ ...raw, stroke: c, width: 2, points: { show: false } });
        data.push([l.x, smoothed(ys, look.smooth)]);
      }
    }
    return { list, data };
  }

  function draw() {
    const { list, data } = series();
    const joined = data.length ? uPlot.join(data) : [[]];
    const shape = JSON.stringify([list.map((s) => [s.label, s.stroke, s.width, s.dash, s.points.show]), look, width(), dim.matches]);
    if (u && shape === built) {
      u.setData(joined, false);
    } else {
      u?.destroy();
      built = shape;
      u = new uPlot(options(list), joined, plot);
    }
    const x = joined[0];
    const all = span ?? { from: x[0] ?? 0, to: x[x.length - 1] ?? 1 };
    u.setScale("x", { min: all.from, max: all.to > all.from ? all.to : all.from + 1 });
    describe(u.cursor.idx);
    if (behind.open) fill();
  }

  // words are the values that are at an index: those of the curves themselves, not of the smoothed ones.
  function words(i) {
    const per = look.smooth ? 2 : 1;
    const values = lines.map((l, k) => ({ l, y: u.data[1 + k * per]?.[i] })).filter(({ y }) => y !== null && y !== undefined);
    return `${look.unit} ${place(look.unit, u.data[0][i])}: ` + values.map(({ l, y }) => `${l.label} ${number(l.field, y)}`).join("; ");
  }

  function options(list) {
    const axis = { stroke: css("--dim"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 }, font: "12px system-ui, sans-serif" };
    return {
      width: width(), height: height(), legend: { show: false }, series: [{}, ...list],
      scales: { x: { time: false }, y: look.log ? { distr: 3 } : {} },
      axes: [
        { ...axis, size: 34, space: 70, ...(look.unit === "time" || look.unit === "epoch" ? {} : { incrs: whole }), values: (_, vs) => vs.map((v) => (look.unit === "time" ? clock(v) : v.toLocaleString("en-US"))) },
        { ...axis, size: 64, values: (_, vs) => vs.map((v) => (v === null || v === undefined ? "" : short(v))) },
      ],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      hooks: {
        setSelect: [(v) => {
          if (v.select.width < 3) return;
          const from = v.posToVal(v.select.left, "x"), to = v.posToVal(v.select.left + v.select.width, "x");
          v.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          onzoom({ from, to });
        }],
        setCursor: [(v) => describe(v.cursor.idx)],
        draw: [(v) => mark(v), () => keys.drawn()],
        ready: [(v) => v.over.addEventListener("dblclick", () => onzoom(null))],
      },
    };
  }

  const short = (v) => {
    const a = Math.abs(v);
    if (a === 0) return "0";
    if (a >= 1e5 || a < 1e-3) return Number(v.toPrecision(4)).toExponential().replace("+", "");
    return String(Number(v.toPrecision(5)));
  };

  // mark draws a short line at the foot for each boundary, and a triangle for each checkpoint.
  function mark(v) {
    const r = devicePixelRatio, y = v.bbox.top + v.bbox.height;
    v.ctx.save();
    v.ctx.fillStyle = v.ctx.strokeStyle = css("--dim");
    v.ctx.lineWidth = r;
    v.ctx.beginPath();
    for (const m of marks.boundaries ?? []) {
      const x = Math.round(v.valToPos(m, "x", true)) + 0.5;
      if (x < v.bbox.left || x > v.bbox.left + v.bbox.width) continue;
      v.ctx.moveTo(x, y - 5 * r);
      v.ctx.lineTo(x, y);
    }
    v.ctx.stroke();
    for (const m of marks.checkpoints ?? []) {
      const x = v.valToPos(m, "x", true);
      if (x < v.bbox.left || x > v.bbox.left + v.bbox.width) continue;
      v.ctx.beginPath();
      v.ctx.moveTo(x, y - 7 * r);
      v.ctx.lineTo(x - 4 * r, y);
      v.ctx.lineTo(x + 4 * r, y);
      v.ctx.fill();
    }
    v.ctx.restore();
  }

  // describe writes the values at an index, or the newest ones.
  function describe(idx) {
    if (!u) return;
    const per = look.smooth ? 2 : 1;
    lines.forEach((l, i) => {
      const ys = u.data[1 + i * per] ?? [];
      let j = idx ?? ys.length - 1;
      while (j > 0 && (ys[j] === undefined || ys[j] === null)) j--; // the value before it
      setText(values[i], `${l.label} ${number(l.field, ys[j])}`);
    });
    if (values.length) setText(values[values.length - 1], idx === null || idx === undefined || !u.data[0].length ? "" : `${look.unit} ${place(look.unit, u.data[0][idx])}`);
  }

  function key() {
    values = lines.map(() => el("span"));
    const list = lines.map((l, i) => {
      const c = el("canvas", { width: 18, height: 10 }), g = c.getContext("2d");
      g.strokeStyle = colour(l.colour);
      g.lineWidth = l.thin ? 1.5 : 3;
      g.setLineDash(l.dash ? [5, 3] : []);
      g.beginPath(); g.moveTo(0, 5); g.lineTo(18, 5); g.stroke();
      return el("span", {}, c, values[i]);
    });
    values.push(el("span", { className: "dim" }));
    legend.replaceChildren(...list, values[values.length - 1]);
  }

  // fill writes the table: the points that are drawn.
  function fill() {
    if (!behind.open) return;
    const most = 500;
    const list = lines.flatMap((l) => l.x.map((x, i) => ({ label: l.label, x, y: l.y[i], field: l.field }))).sort((a, b) => a.x - b.x);
    const left = list.length - most;
    rows.replaceChildren(
      left > 0 ? el("p", { className: "dim" }, `The last ${most} of the ${list.length} points that are drawn; zoom for others.`) : "",
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, look.unit), el("th", { scope: "col" }, "curve"), el("th", { scope: "col", className: "number" }, "value"))),
        el("tbody", {}, ...list.slice(-most).reverse().map((p) => el("tr", {}, el("td", {}, place(look.unit, p.x)), el("td", {}, p.label), el("td", { className: "number" }, number(p.field, p.y)))))));
  }

  const resized = new ResizeObserver(() => { if (u && Math.abs(u.width - width()) > 1) u.setSize({ width: width(), height: height() }); });
  resized.observe(plot);
  const recoloured = () => { key(); draw(); };
  dim.addEventListener("change", recoloured);

  return {
    element,
    columns: () => Math.min(2000, width()),
    // set draws curves { label, field, colour, dash, thin, x, y } as look = { unit, log, smooth } says, within a span of the axis.
    set(newLines, newLook, newSpan, newMarks) {
      const same = newLines.length === lines.length && newLines.every((l, i) => l.label === lines[i].label && l.colour === lines[i].colour);
      [lines, look, span, marks] = [newLines, newLook, newSpan, newMarks];
      if (!same) key();
      draw();
    },
    end() { u?.destroy(); u = null; resized.disconnect(); dim.removeEventListener("change", recoloured); },
  };
}
