// Keys over a picture that uPlot draws: a cursor that goes from point to point and says what is there, a part of the axis that
// is chosen with it, and zooming.
import { el, set, setText } from "/dom.js";

// announcer is a text that screen readers say when it changes, and nobody sees.
export const announcer = () => el("p", { className: "unseen", role: "status" });

// alone is whether a key is pressed alone, or with Shift: others belong to the browser.
export const alone = (e) => !e.ctrlKey && !e.metaKey && !e.altKey;

const help = "Arrows go from point to point; with Shift they choose a part, and Enter shows it. Plus and minus zoom, Page Up and Page Down move, 0 shows all, Escape takes the cursor away.";

// keyboard gives the element around a plot its keys. of() is the plot, words(i) what is at an index of its data, place(x) what a place
// of the axis is called, and zoom({ from, to }) shows a part of the axis and returns what it shows; of and for null, all.
export function keyboard(plot, title, { of, words, place, zoom }) {
  const said = announcer();
  plot.tabIndex = 0;
  set(plot, "role", "application");
  set(plot, "aria-label", `${title}. ${help}`);
  plot.after(said);
  let at = null, since = null; // places on the axis: of the cursor, and where the chosen part begins

  // first is the first curve that has a value at an index; -1: none has.
  const first = (u, i) => u.series.findIndex((_, s) => s && u.data[s][i] !== null && u.data[s][i] !== undefined);

  // next is the index of the first point behind a place that is in view, or before it.
  function next(u, by) {
    const { min, max } = u.scales.x, xs = u.data[0];
    const from = at === null || at < min || at > max ? (by > 0 ? -Infinity : Infinity) : at;
    for (let i = by > 0 ? 0 : xs.length - 1; i >= 0 && i < xs.length; i += by) {
      if ((xs[i] - from) * by > 0 && xs[i] >= min && xs[i] <= max && first(u, i) > 0) return i;
    }
    return -1;
  }

  // draw puts the cursor and the chosen part where they are; without the focus there is neither.
  function draw() {
    const u = of();
    if (!u) return;
    const shown = at !== null && document.activeElement === plot, left = shown ? u.valToPos(at, "x") : -10;
    const i = shown ? u.data[0].indexOf(at) : -1, curve = i < 0 ? -1 : first(u, i); // those of a part are other points
    u.setCursor({ left, top: curve < 0 ? u.over.clientHeight / 2 : u.valToPos(u.data[curve][i], "y") });
    const edge = shown && since !== null ? u.valToPos(since, "x") : left;
    u.setSelect({ left: Math.min(left, edge), top: 0, width: Math.abs(left - edge), height: u.over.clientHeight }, false);
  }

  function go(by, chooses) {
    const u = of(), i = next(u, by);
    if (i < 0) return;
    since = chooses ? since ?? at : null;
    at = u.data[0][i];
    draw();
    setText(said, (since === null ? "" : `from ${place(since)}: `) + words(i));
  }

  function view(part) {
    since = null;
    const now = zoom(part);
    setText(said, now ? `from ${place(now.from)} to ${place(now.to)}` : "all is shown");
  }

  function scale(by) {
    const { min, max } = of().scales.x, around = at === null ? (min + max) / 2 : Math.min(Math.max(at, min), max);
    view({ from: around - (around - min) * by, to: around + (max - around) * by });
  }

  function shift(by) {
    const { min, max } = of().scales.x, d = (max - min) * by;
    view({ from: min + d, to: max + d });
  }

  const keys = {
    ArrowLeft: (e) => go(-1, e.shiftKey), ArrowRight: (e) => go(1, e.shiftKey),
    Home: () => { at = null; go(1); }, End: () => { at = null; go(-1); },
    Enter: () => { if (since !== null && since !== at) view({ from: Math.min(since, at), to: Math.max(since, at) }); },
    "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), 0: () => view(null),
    PageUp: () => shift(-0.5), PageDown: () => shift(0.5),
    Escape: () => { at = since = null; draw(); setText(said, ""); },
  };
  plot.addEventListener("keydown", (e) => {
    if (!keys[e.key] || !alone(e) || !of()) return;
    e.preventDefault();
    keys[e.key](e);
  });
  const again = () => { if (at !== null) draw(); };
  plot.addEventListener("focus", again);
  plot.addEventListener("blur", () => { since = null; again(); });
  plot.addEventListener("pointerdown", () => { at = since = null; }, { capture: true }); // the pointer has the cursor now
  return {
    // drawn puts the cursor where it was, once the plot has drawn other data or another part.
    drawn() { if (document.activeElement === plot) again(); },
  };
}
