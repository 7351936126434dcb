// Parallel coordinates: an axis for each key that varies and one for the metric, and a line for each trial. A range that is chosen
// on an axis, by the pointer or by its two handles, leaves the trials within it.
import { el, set, setText } from "/dom.js";
import { alone } from "/keys.js";

const dim = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const shades = 24;
const stops = { light: [[190, 205, 220], [70, 130, 190], [8, 30, 88]], dark: [[70, 82, 96], [86, 150, 190], [240, 228, 66]] };

// shade is a colour from that of the worst, 0, to that of the best, 1.
export function shade(u) {
  const list = dim.matches ? stops.dark : stops.light, at = Math.min(0.999, Math.max(0, u)) * 2, i = Math.floor(at);
  return `rgb(${list[i].map((c, k) => Math.round(c + (list[i + 1][k] - c) * (at - i))).join(",")})`;
}

const high = 300, top = 46, foot = 16, side = 62, apart = 132; // pixels

export function parallel(onrange) {
  const lines = el("canvas", { role: "application", tabIndex: 0 }), over = el("canvas", { className: "over", "aria-hidden": "true" });
  const axes = el("div");
  const area = el("div", { className: "parallel" }, lines, over, axes);
  const note = el("p", { className: "legend", role: "status" });
  const element = el("figure", { "aria-label": "Parallel coordinates" }, note, el("div", { className: "wide" }, area));
  let list = [], trials = [], ranges = [], bars = [], shape = "", names = "", width = 0, pointed = -1;

  const x = (i) => side + (list.length > 1 ? (i * (width - 2 * side)) / (list.length - 1) : 0);
  const y = (u) => top + high * (1 - u);
  const inside = (t) => ranges.every((r, i) => !r || (t.units[i] !== null && t.units[i] >= r.from && t.units[i] <= r.to));

  function size(canvas) {
    const r = devicePixelRatio, h = top + high + foot;
    if (canvas.width !== Math.round(width * r) || canvas.height !== Math.round(h * r)) {
      canvas.width = Math.round(width * r);
      canvas.height = Math.round(h * r);
      canvas.style.width = width + "px";
      canvas.style.height = h + "px";
    }
    const g = canvas.getContext("2d");
    g.setTransform(r, 0, 0, r, 0, 0);
    g.clearRect(0, 0, width, h);
    return g;
  }

  function trace(g, t) {
    let on = false;
    for (let i = 0; i < t.units.length; i++) {
      const u = t.units[i];
      if (u === null) { on = false; continue; }
      if (on) g.lineTo(x(i), y(u)); else g.moveTo(x(i), y(u));
      on = true;
    }
  }

  // draw draws all lines, those of one colour by one stroke: first what is left out, then from the worst to the best.
  function draw() {
    const g = size(lines);
    const groups = Array.from({ length: shades + 2 }, () => []);
    for (const t of trials) groups[!t.inside ? 0 : t.rank === null ? 1 : 2 + Math.min(shades - 1, Math.floor(t.rank * shades))].push(t);
    g.lineJoin = "round";
    g.globalAlpha = trials.length > 200 ? 0.7 : 1;
    groups.forEach((group, k) => {
      if (!group.length) return;
      g.strokeStyle = k === 0 ? css("--grid") : k === 1 ? css("--dim") : shade((k - 2) / (shades - 1));
      g.lineWidth = k === 0 ? 1 : 1.4;
      g.setLineDash(k === 1 ? [3, 3] : []);
      g.beginPath();
      for (const t of group) trace(g, t);
      g.stroke();
    });
    g.setLineDash([]);
    g.globalAlpha = 1;
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    const back = css("--back"), text = css("--text"), edge = css("--dim");
    list.forEach((a, i) => {
      g.strokeStyle = edge;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x(i), y(0)); g.lineTo(x(i), y(1));
      g.stroke();
      for (const t of a.ticks) {
        const at = y(a.unit(t.at)), words = t.text.length > 14 ? t.text.slice(0, 13) + "…" : t.text;
        g.beginPath(); g.moveTo(x(i) - 4, at); g.lineTo(x(i), at); g.stroke();
        g.fillStyle = back;
        g.globalAlpha = 0.8;
        g.fillRect(x(i) + 5, at - 8, g.measureText(words).width + 4, 16);
        g.globalAlpha = 1;
        g.fillStyle = text;
        g.fillText(words, x(i) + 7, at);
      }
    });
    point();
  }

  // point draws the best trial and the one that is pointed at over the others.
  function point() {
    const g = size(over);
    const best = trials.find((t) => t.best);
    for (const [t, colour] of [[best, dim.matches ? "#ff9d5c" : "#c14d00"], [trials[pointed], css("--text")]]) {
      if (!t || (t === best && !t.inside && t !== trials[pointed])) continue;
      g.strokeStyle = colour;
      g.lineWidth = 3;
      g.beginPath();
      trace(g, t);
      g.stroke();
    }
  }

  function words() {
    const t = trials[pointed] ?? trials.find((o) => o.best);
    const within = trials.filter((o) => o.inside).length;
    const chosen = ranges.some(Boolean) ? `${within} of ${trials.length} trials are in the chosen ranges. ` : "";
    setText(note, chosen + (t ? (trials[pointed] ? "" : "The best: ") + t.words : ""));
    set(lines, "aria-label", `${trials.length} trials as lines over ${list.map((a) => a.label).join(", ")}. Up and down go to the next better and worse trial, Home and End to the best and the worst, Escape to none. The table below has the same.`);
  }

  // the trial whose line is nearest to a place
  function nearest(px, py) {
    let found = -1, least = 12;
    const i = Math.max(0, Math.min(list.length - 2, Math.floor(((px - side) / (width - 2 * side)) * (list.length - 1))));
    const f = (px - x(i)) / (x(i + 1) - x(i));
    trials.forEach((t, n) => {
      const a = t.units[i], b = t.units[i + 1];
      if (!t.inside || a === null || b === null || f < -0.1 || f > 1.1) return;
      const d = Math.abs(y(a + (b - a) * f) - py);
      if (d < least) [found, least] = [n, d];
    });
    return found;
  }
  area.addEventListener("pointermove", (e) => {
    if (e.buttons || list.length < 2) return;
    const box = area.getBoundingClientRect(), n = nearest(e.clientX - box.left, e.clientY - box.top);
    if (n !== pointed) { pointed = n; point(); words(); }
  });
  area.addEventListener("pointerleave", () => { pointed = -1; point(); words(); });

  // The keys go from trial to trial within the chosen ranges, the best first.
  lines.addEventListener("keydown", (e) => {
    const list = trials.map((_, n) => n).filter((n) => trials[n].inside).sort((a, b) => (trials[b].rank ?? -1) - (trials[a].rank ?? -1));
    const at = list.indexOf(pointed), to = { ArrowDown: at + 1, ArrowUp: Math.max(0, at - 1), Home: 0, End: list.length - 1, Escape: -1 }[e.key];
    if (to === undefined || !alone(e)) return;
    e.preventDefault();
    pointed = to < 0 ? -1 : list[Math.min(to, list.length - 1)] ?? -1;
    point();
    words();
  });
  lines.addEventListener("blur", () => { pointed = -1; point(); words(); });

  function range(i, from, to) {
    [from, to] = [Math.max(0, Math.min(from, to)), Math.min(1, Math.max(from, to))];
    ranges[i] = from <= 0 && to >= 1 ? null : { from, to };
    choose();
    onrange();
  }

  function choose() {
    for (const t of trials) t.inside = inside(t);
    if (!trials[pointed]?.inside) pointed = -1;
    bars.forEach((b) => b.place());
    draw();
    words();
  }

  // bar is an axis to take a range on: a drag across it, or its handles.
  function bar(i) {
    const a = list[i];
    const band = el("div", { className: "band" });
    const handle = (end, label) => {
      const h = el("div", {
        className: "handle " + end, tabIndex: 0, role: "slider", "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": `${a.label}, ${label}`,
        onkeydown: (e) => {
          const r = ranges[i] ?? { from: 0, to: 1 }, by = { ArrowUp: 0.02, ArrowRight: 0.02, ArrowDown: -0.02, ArrowLeft: -0.02, PageUp: 0.1, PageDown: -0.1, Home: -1, End: 1 }[e.key];
          if (e.key === "Escape" || e.key === "Delete") range(i, 0, 1);
          else if (by === undefined) return;
          else if (end === "from") range(i, Math.min(r.from + by, r.to), r.to);
          else range(i, r.from, Math.max(r.to + by, r.from));
          e.preventDefault();
        },
      });
      return h;
    };
    const from = handle("from", "at least"), to = handle("to", "at most");
    const element = el("div", { className: "axis" }, el("span", { className: "name", title: a.label }, a.label), a.note ? el("span", { className: "note" }, a.note) : "", band, to, from);
    let began = null, held = "";
    const unitOf = (e) => 1 - (e.clientY - element.getBoundingClientRect().top - top) / high;
    element.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      held = e.target === from ? "from" : e.target === to ? "to" : "";
      const r = ranges[i] ?? { from: 0, to: 1 };
      began = held === "from" ? r.to : held === "to" ? r.from : unitOf(e);
      element.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    element.addEventListener("pointermove", (e) => {
      if (began === null || (!held && Math.abs(unitOf(e) - began) < 0.01)) return;
      range(i, began, unitOf(e));
    });
    element.addEventListener("pointerup", (e) => {
      if (began !== null && !held && Math.abs(unitOf(e) - began) < 0.01) range(i, 0, 1); // a click shows all again
      began = null;
    });
    element.addEventListener("pointercancel", () => { began = null; });
    axes.append(element);
    return {
      place() {
        const r = ranges[i] ?? { from: 0, to: 1 };
        element.style.left = x(i) - 14 + "px";
        band.hidden = !ranges[i];
        band.style.top = y(r.to) + "px";
        band.style.height = (r.to - r.from) * high + "px";
        for (const [h, u] of [[from, r.from], [to, r.to]]) {
          h.style.top = y(u) + (h === from ? 0 : -12) + "px";
          set(h, "aria-valuenow", String(Math.round(u * 100)));
          set(h, "aria-valuetext", a.text(a.value(u)));
        }
      },
    };
  }

  function fit() {
    const room = element.clientWidth - 26;
    width = Math.max(room, 2 * side + (list.length - 1) * apart);
    area.style.width = width + "px";
    area.style.height = top + high + foot + "px";
  }

  const resized = new ResizeObserver(() => {
    const before = width;
    fit();
    if (width !== before && list.length) { bars.forEach((b) => b.place()); draw(); }
  });
  resized.observe(element);
  const recoloured = () => { if (list.length) draw(); };
  dim.addEventListener("change", recoloured);

  return {
    element,
    // set shows trials { number, units, rank, best, words }: units has their places on the axes from 0 to 1, null for none; rank is from 0,
    // the worst, to 1, null without a value.
    set(newList, newTrials) {
      const next = JSON.stringify(newList.map((a) => [a.label, a.lo, a.hi, a.note, a.names])), labels = JSON.stringify(newList.map((a) => a.label));
      const clip = (u) => Math.max(0, Math.min(1, u));
      if (labels !== names) ranges = newList.map(() => null);
      else ranges = ranges.map((r, i) => r && { from: clip(newList[i].unit(list[i].value(r.from))), to: clip(newList[i].unit(list[i].value(r.to))) });
      const held = trials[pointed]?.number;
      [list, trials, names] = [newList, newTrials, labels];
      pointed = trials.findIndex((t) => t.number === held);
      fit();
      if (next !== shape) {
        const held = document.activeElement, at = [...axes.querySelectorAll(".handle")].indexOf(held);
        shape = next;
        axes.replaceChildren();
        bars = list.map((_, i) => bar(i));
        if (at >= 0) axes.querySelectorAll(".handle")[at]?.focus();
      }
      choose();
    },
    clear() { ranges = list.map(() => null); choose(); onrange(); },
    chosen: () => ranges.some(Boolean),
    end() { resized.disconnect(); dim.removeEventListener("change", recoloured); },
  };
}
