// A panel over the time of day: areas on top of each other, and lines, with the values at the pointer and a table behind it.
import { bytes, dash, el, setText } from "/dom.js";
import { keyboard } from "/keys.js";

/* global uPlot */

const dim = matchMedia("(prefers-color-scheme: dark)");
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clock = (s) => new Date(s * 1000).toLocaleTimeString("en-GB");

// The steps of the axes: of times in seconds, and of bytes.
const times = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const powers = Array.from({ length: 54 }, (_, i) => 2 ** i);

// stack is a panel of a title.
export function stack(title) {
  const plot = el("div", { className: "plot" }), legend = el("div", { className: "legend" }), rows = el("div", { className: "rows wide", tabIndex: 0, role: "region", "aria-label": "Samples of " + title }); // keys scroll it
  const behind = el("details", { ontoggle: () => fill() }, el("summary", {}, "Table of " + title), rows);
  const element = el("figure", { "aria-label": title }, el("h3", {}, title), legend, plot, behind);
  let u = null, p = null, built = "", values = [], span = null;

  const keys = keyboard(plot, title, { of: () => u, words, place: clock, zoom });

  const width = () => Math.max(200, Math.floor(plot.clientWidth || element.clientWidth - 24 || 480));
  const height = () => 240;
  const parts = () => [...p.areas, ...p.lines];
  const drawn = () => p.lines.filter((l) => l.y);

  // sums are the upper edges of the areas.
  function sums() {
    let below = p.x.map(() => 0);
    return p.areas.map((a) => (below = a.y.map((v, i) => (v === null || below[i] === null ? null : below[i] + v))));
  }

  // The uppermost area is drawn first, and each lower one over it.
  function data() {
    return [p.x, ...sums().reverse(), ...drawn().map((l) => l.y)];
  }

  function options() {
    const axis = { stroke: css("--dim"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 }, font: "12px system-ui, sans-serif" };
    const areas = [...p.areas].reverse().map((a) => ({ label: a.label, stroke: a.colour, width: 1, fill: a.colour, points: { show: false } }));
    const lines = drawn().map((l) => ({ label: l.label, stroke: l.colour, width: 1.5, dash: l.dash, points: { show: false } }));
    return {
      width: width(), height: height(), legend: { show: false }, series: [{}, ...areas, ...lines],
      scales: { x: { time: false }, y: { range: (_, least, most) => [0, (most > 0 ? most : 1) * 1.06] } },
      axes: [
        { ...axis, size: 34, space: 80, incrs: times, values: (_, vs) => vs.map(clock) },
        { ...axis, size: 76, incrs: powers, values: (_, vs) => vs.map((v) => bytes(v).replace(".0 ", " ")) },
      ],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      hooks: {
        setSelect: [(v) => {
          if (v.select.width < 3) return;
          const from = v.posToVal(v.select.left, "x"), to = v.posToVal(v.select.left + v.select.width, "x");
          v.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          zoom({ from, to });
        }],
        setCursor: [(v) => describe(v.cursor.idx)],
        draw: [lone, () => keys.drawn()],
        ready: [(v) => v.over.addEventListener("dblclick", () => zoom(null))],
      },
    };
  }

  // lone draws the samples that have none beside them, which are no area and no line: as bars, and as short lines.
  function lone(v) {
    const has = (y, i) => y[i] !== null && y[i] !== undefined, r = devicePixelRatio, g = v.ctx;
    g.save();
    g.beginPath();
    g.rect(v.bbox.left, v.bbox.top, v.bbox.width, v.bbox.height);
    g.clip();
    v.series.forEach((series, k) => {
      const y = v.data[k];
      if (k) y.forEach((_, i) => {
        if (!has(y, i) || has(y, i - 1) || has(y, i + 1)) return;
        const x = v.valToPos(v.data[0][i], "x", true), top = v.valToPos(y[i], "y", true), area = k <= p.areas.length;
        g.fillStyle = series.stroke(v, k);
        g.fillRect(x - 1.5 * r, top - (area ? 0 : r), 3 * r, area ? v.bbox.top + v.bbox.height - top : 2 * r);
      });
    });
    g.restore();
  }

  function draw() {
    const shape = JSON.stringify([p.areas.map((a) => [a.label, a.colour]), p.lines.map((l) => [l.label, l.colour, Boolean(l.y)]), width(), dim.matches]);
    if (u && shape === built) {
      u.setData(data(), false);
    } else {
      u?.destroy();
      built = shape;
      key();
      u = new uPlot(options(), data(), plot);
    }
    u.setScale("x", span ?? whole());
    describe(u.cursor.idx);
    fill();
  }

  // whole is the time that has samples, at least ten seconds.
  function whole() {
    const first = p.x[0] ?? 0, last = p.x[p.x.length - 1] ?? 1;
    return { min: first, max: Math.max(last, first + 10) };
  }

  // zoom shows a part of that time, and returns it; null: all of it.
  function zoom(part) {
    const { min, max } = whole(), size = part ? Math.max(1, part.to - part.from) : Infinity; // seconds
    const from = part ? Math.min(Math.max(part.from, min), max - size) : min;
    span = size < max - min ? { min: from, max: from + size } : null;
    draw();
    return span && { from: span.min, to: span.max };
  }

  // words are the values at an index.
  function words(i) {
    return `${clock(p.x[i])}: ` + parts().filter((part) => part.y).map((part) => `${part.label} ${text(part.y[i])}`).join("; ");
  }

  // describe writes the values at an index, or the newest ones.
  function describe(idx) {
    const i = idx ?? p.x.length - 1;
    parts().forEach((part, k) => setText(values[k], `${part.label} ${part.y ? text(part.y[i]) : p.unit(part.above) + ", above the picture"}`));
    setText(values[values.length - 1], idx === null || idx === undefined || p.x[i] === undefined ? "" : clock(p.x[i]));
  }

  const text = (v) => (v === null || v === undefined ? dash : p.unit(v));

  function key() {
    values = parts().map(() => el("span"));
    const list = parts().map((part, i) => {
      const c = el("canvas", { width: 18, height: 10 }), g = c.getContext("2d");
      g.strokeStyle = g.fillStyle = part.colour;
      if (i < p.areas.length) g.fillRect(0, 0, 18, 10);
      else { g.lineWidth = 2; g.setLineDash(part.dash ?? []); g.beginPath(); g.moveTo(0, 5); g.lineTo(18, 5); g.stroke(); }
      return el("span", {}, c, values[i]);
    });
    values.push(el("span", { className: "dim" }));
    legend.replaceChildren(...list, values[values.length - 1]);
  }

  // fill writes the table: the newest samples that are drawn.
  function fill() {
    if (!behind.open || !p) return;
    const many = 300, list = parts().filter((part) => part.y);
    const at = p.x.map((x, i) => i).filter((i) => (!span || p.x[i] >= span.min && p.x[i] <= span.max) && list.some((part) => part.y[i] !== null)).slice(-many).reverse();
    rows.replaceChildren(el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "time"), ...list.map((part) => el("th", { scope: "col", className: "number" }, part.label)))),
      el("tbody", {}, ...at.map((i) => el("tr", {}, el("td", {}, clock(p.x[i])), ...list.map((part) => el("td", { className: "number" }, text(part.y[i]))))))));
  }

  const resized = new ResizeObserver(() => { if (u && Math.abs(u.width - width()) > 1) u.setSize({ width: width(), height: height() }); });
  resized.observe(plot);

  return {
    element,
    // set draws areas { label, colour, y } and lines { label, colour, dash, y } over x, Unix times in seconds. A line may be above the picture
    // in place of y. unit words a value.
    set(picture) { p = picture; draw(); },
    whole() { span = null; },
    end() { u?.destroy(); u = null; resized.disconnect(); },
  };
}
