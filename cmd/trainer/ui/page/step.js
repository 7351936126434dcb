// A step of a training: what ran on which stream of which device, and below it what was simulated, on one axis of time.
import { get } from "/api.js";
import { bytes, el, setText } from "/dom.js";
import { colour } from "/chart.js";
import { announcer, alone } from "/keys.js";

const dim = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// passes are the letters of launches: their colour by its number in chart.js, and their name. The last one that a launch has
// of these colours it.
const passes = { F: [0, "forward"], U: [1, "update"], R: [3, "reduction"], W: [6, "weight gradients"], B: [2, "backward"] };
const between = 4; // the colour of copies between devices

const laneHigh = 20, kernelHigh = 10, copyHigh = 12, gap = 5, headHigh = 26, axisHigh = 22;
const mostRows = 500;

// time is a time in nanoseconds for people.
function time(ns) {
  const a = Math.abs(ns);
  for (const [least, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (a >= least) return Number((ns / least).toPrecision(4)) + " " + unit;
  return Math.round(ns) + " ns";
}

// ticks are round times from low to high, at most so many.
function ticks(low, high, most) {
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= raw);
  const list = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) list.push(i * step);
  return list;
}

const host = (s) => s.from === "host" || s.to === "host" || s.kind === "stream-in" || !s.from;

// fill is the colour of a span; grey is that of kernels.
function fill(s, grey) {
  if (s.kind === "launch") return colour(Object.entries(passes).reduce((c, [p, [n]]) => (s.passes?.includes(p) ? n : c), 5));
  return s.kind === "kernel" ? grey : host(s) ? colour(5) : colour(between);
}

// words describe a span in a line.
function words(s) {
  const list = [`${s.of.title}, ${s.where}: ${s.kind === "wait" ? "waits in " + s.name + " for its inputs" : s.name}`];
  if (s.kind !== "launch" && s.kind !== "wait" && s.kind !== s.name) list.push(s.kind);
  list.push(time(s.time) + ", from " + time(s.start) + " on");
  if (s.waited) list.push("waited " + time(s.waited) + " of that for its inputs");
  if (s.bytes) list.push(bytes(s.bytes) + (s.from && s.to ? ` from ${s.from} to ${s.to}` : ""));
  if (s.for) list.push((s.kind === "kernel" ? "writes " : "") + s.for);
  if (s.other) list.push("of another step");
  return list.join("; ");
}

// timeline is the picture of a trace.
function timeline(trace) {
  const canvas = el("canvas", { tabIndex: 0, role: "application", className: "steps", "aria-label": `Timeline of step ${trace.step}, measured and simulated. Left and right go from span to span, up and down to another stream; with Shift they choose a part, and Enter shows it, or the span. Plus and minus zoom, Page Up and Page Down move, 0 shows the step, Home all, Escape takes the cursor away. The table behind it has the same.` });
  const said = announcer();
  const pointer = el("p", { className: "pointed dim" }, "Point at a span for its name and time.");
  const rows = el("div", { className: "rows", tabIndex: 0, role: "group", "aria-label": "Table of what is shown" });
  const behind = el("details", { ontoggle: () => list() }, el("summary", {}, "Table of what is shown"), rows);
  const lanes = []; // { of, where, top, kernels, spans in order, longest }
  let high = 0;
  for (const [title, of] of [["Measured", trace.measured], ["Simulated", trace.predicted]]) {
    of.title = title;
    of.top = high;
    high += headHigh;
    of.lanes.forEach((l, i) => {
      const spans = of.spans.filter((s) => s.lane === i), kernels = spans.some((s) => s.kind === "kernel"), compute = l.stream === "compute";
      const where = `${l.device} ${l.stream}`;
      for (const s of spans) { s.of = of; s.where = where; s.fill = null; }
      lanes.push({ of, where, compute, kernels, top: high, high: compute ? laneHigh : copyHigh, spans, longest: Math.max(0, ...spans.map((s) => s.time)) });
      high += (compute ? laneHigh : copyHigh) + (kernels ? kernelHigh : 0) + gap;
    });
  }
  high += axisHigh;
  const every = lanes.flatMap((l) => l.spans);
  // tracks are what the keys go along: the launches and copies of a lane, and its kernels.
  const tracks = lanes.flatMap((l) => [l.spans.filter((s) => s.kind !== "kernel"), l.spans.filter((s) => s.kind === "kernel")]).filter((t) => t.length);
  const first = every.reduce((x, s) => Math.min(x, s.start), 0);
  const last = every.reduce((x, s) => Math.max(x, s.start + s.time), Math.max(trace.measured.end, trace.predicted.end, 1));
  const pad = (last - first) / 100, all = { from: first - pad, to: last + pad };
  let span = { from: Math.max(all.from, Math.min(trace.measured.begin, 0) - pad), to: Math.min(all.to, Math.max(trace.measured.end, trace.predicted.end) + pad) };
  const begins = { ...span };
  let asked = 0, selects = null, pointed = null, since = null; // selects is a part of the axis; since is the span at which the keys began one

  let wide = 600, left = 120; // pixels of the picture, and of the names of lanes; measured once, since that costs a layout
  const at = (t) => left + ((t - span.from) / (span.to - span.from)) * (wide - left);
  const when = (x) => span.from + ((x - left) / (wide - left)) * (span.to - span.from);

  function redraw() { if (!asked) asked = requestAnimationFrame(() => { asked = 0; draw(); }); }

  // visible calls f for each span of a lane that is in view. Starts are in order, so the rest is skipped.
  function visible(l, f) {
    let low = 0, top = l.spans.length;
    while (low < top) { const mid = (low + top) >> 1; if (l.spans[mid].start < span.from - l.longest) low = mid + 1; else top = mid; }
    for (; low < l.spans.length && l.spans[low].start <= span.to; low++) if (l.spans[low].start + l.spans[low].time >= span.from) f(l.spans[low]);
  }

  const boxOf = (l, s) => (s.kind === "kernel" ? [l.top + laneHigh, kernelHigh - 1] : [l.top, l.high]);

  function draw() {
    const r = devicePixelRatio || 1, w = wide, g = canvas.getContext("2d");
    if (canvas.width !== Math.round(w * r) || canvas.height !== Math.round(high * r)) {
      canvas.width = Math.round(w * r);
      canvas.height = Math.round(high * r);
      canvas.style.width = w + "px";
      canvas.style.height = high + "px";
    }
    const text = css("--text"), faint = css("--dim"), line = css("--grid"), back = css("--back");
    g.setTransform(r, 0, 0, r, 0, 0);
    g.clearRect(0, 0, w, high);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    for (const t of ticks(span.from, span.to, Math.max(2, Math.floor((w - left) / 90)))) {
      const x = at(t);
      g.fillStyle = line;
      g.fillRect(x, 0, 1, high - axisHigh);
      g.fillStyle = faint;
      const label = time(t), half = g.measureText(label).width / 2;
      if (x + half < w && x - half > left - 8) g.fillText(label, x - half, high - axisHigh / 2);
    }
    for (const of of [trace.measured, trace.predicted]) {
      g.fillStyle = text;
      g.font = "600 12px system-ui, sans-serif";
      g.fillText(of.title, 4, of.top + headHigh / 2);
      g.font = "11px system-ui, sans-serif";
    }
    for (const l of lanes) {
      g.fillStyle = faint;
      g.fillText(l.where, 4, l.top + l.high / 2, left - 10);
    }
    g.save();
    g.beginPath();
    g.rect(left, 0, w - left, high);
    g.clip();
    for (const l of lanes) {
      const drawn = {}; // the pixel of the last narrow span, by kind: a further one there is not seen
      visible(l, (s) => {
        const [y, h] = boxOf(l, s), x = at(s.start), end = Math.max(x + 0.6, at(s.start + s.time));
        if (end - x < 1 && drawn[s.kind] === Math.floor(x)) return;
        if (end - x < 1) drawn[s.kind] = Math.floor(x);
        g.globalAlpha = s.other ? 0.4 : s.kind === "kernel" ? 0.75 : 1;
        if (s.kind === "wait") {
          g.fillStyle = back;
          g.fillRect(x, y + 3, end - x, h - 6);
          return;
        }
        g.fillStyle = s.fill ??= fill(s, faint);
        g.fillRect(x, y, end - x, h);
        if (end - x > 3) {
          g.fillStyle = back;
          g.fillRect(end - 0.7, y, 0.7, h);
        }
        const shown = Math.min(end, w) - Math.max(x, left);
        if (s.kind === "launch" && shown > 30) {
          const name = s.name, wideName = g.measureText(name).width;
          if (wideName + 8 < shown) { g.globalAlpha = 1; g.fillStyle = dim.matches ? "#111" : "#fff"; g.fillText(name, Math.max(x, left) + 4, y + h / 2); }
        }
      });
    }
    g.globalAlpha = 1;
    if (pointed) {
      const l = lanes.find((x) => x.spans.includes(pointed)), [y, h] = boxOf(l, pointed), x = at(pointed.start);
      g.strokeStyle = text;
      g.lineWidth = 1.5;
      g.strokeRect(x, y, Math.max(1, at(pointed.start + pointed.time) - x), h);
    }
    if (selects) {
      g.fillStyle = css("--link");
      g.globalAlpha = 0.2;
      g.fillRect(at(Math.min(selects.from, selects.to)), 0, at(Math.max(selects.from, selects.to)) - at(Math.min(selects.from, selects.to)), high - axisHigh);
    }
    g.restore();
  }

  // hit is the span at a place: of several the shortest, with some pixels of play.
  function hit(x, y) {
    const l = lanes.find((n) => y >= n.top && y < n.top + n.high + (n.kernels ? kernelHigh : 0) + gap);
    let best = null;
    if (l && x >= left) visible(l, (s) => {
      const [top, h] = boxOf(l, s);
      if (y >= top && y < top + h && at(s.start) - 2 <= x && at(s.start + s.time) + 2 >= x && (!best || s.time < best.time)) best = s;
    });
    return best;
  }

  function point(s) {
    if (s === pointed) return;
    pointed = s;
    setText(pointer, s ? words(s) : "Point at a span for its name and time.");
    redraw();
  }

  function show(from, to) {
    const size = Math.min(Math.max(to - from, 100), all.to - all.from); // nanoseconds
    const start = Math.min(Math.max((from + to - size) / 2, all.from), all.to - size);
    span = { from: start, to: start + size };
    redraw();
    if (behind.open) list();
  }
  const zoom = (by, around = (span.from + span.to) / 2) => show(around - (around - span.from) * by, around + (span.to - around) * by);
  const move = (by) => { const d = (span.to - span.from) * by; show(span.from + d, span.to + d); };

  // list writes the table: the longest of what is in view, in their order.
  function list() {
    if (!behind.open) return;
    const seen = [];
    for (const l of lanes) visible(l, (s) => seen.push(s));
    const shown = [...seen].sort((a, b) => b.time - a.time).slice(0, mostRows).sort((a, b) => (a.of === b.of ? a.start - b.start : a.of === trace.measured ? -1 : 1));
    rows.replaceChildren(
      seen.length > shown.length ? el("p", { className: "dim" }, `The ${mostRows} longest of ${seen.length.toLocaleString("en-US")} spans; zoom for others.`) : "",
      el("table", {}, el("thead", {}, el("tr", {}, ...["step", "stream", "kind", "name"].map((t) => el("th", { scope: "col" }, t)), ...["from", "time"].map((t) => el("th", { scope: "col", className: "number" }, t)), el("th", { scope: "col", className: "least" }, "more"))),
        el("tbody", {}, ...shown.map((s) => el("tr", {}, ...[s.of.title, s.where, s.kind, s.name].map((t) => el("td", {}, t)), el("td", { className: "number" }, time(s.start)), el("td", { className: "number" }, time(s.time)),
          el("td", { className: "least" }, [s.bytes ? bytes(s.bytes) : "", s.from && s.to ? `${s.from} → ${s.to}` : "", s.other ? "of another step" : ""].filter(Boolean).join(", ")))))));
  }

  let drags = false;
  const place = (e) => { const b = canvas.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
  canvas.addEventListener("pointermove", (e) => {
    const [x, y] = place(e);
    if (drags) { selects.to = when(Math.max(left, x)); redraw(); } else point(hit(x, y));
  });
  canvas.addEventListener("pointerleave", () => { if (!drags) point(null); });
  canvas.addEventListener("pointerdown", (e) => {
    const [x, y] = place(e);
    if (e.button || x < left) return;
    canvas.setPointerCapture(e.pointerId);
    [drags, since] = [true, null];
    selects = { from: when(x), to: when(x) };
    point(hit(x, y));
  });
  const ends = (e) => {
    if (!drags) return;
    const { from, to } = selects;
    [drags, selects] = [false, null];
    if (e.type === "pointerup" && Math.abs(at(to) - at(from)) >= 4) show(Math.min(from, to), Math.max(from, to));
    redraw();
  };
  canvas.addEventListener("pointerup", ends);
  canvas.addEventListener("pointercancel", ends);
  canvas.addEventListener("dblclick", () => show(begins.from, begins.to));
  canvas.addEventListener("wheel", (e) => { // without focus the page scrolls
    if (document.activeElement !== canvas && !e.ctrlKey) return;
    e.preventDefault();
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) move(Math.sign(e.deltaX || e.deltaY) * 0.1);
    else zoom(1.002 ** Math.max(-300, Math.min(300, e.deltaY)), when(place(e)[0]));
  }, { passive: false });

  // What the keys do. The pointed span stays in view.
  const middle = (s) => s.start + s.time / 2;
  function go(to, chooses) {
    if (!to) return;
    since = chooses ? since ?? pointed ?? to : null;
    selects = since && { from: Math.min(since.start, to.start), to: Math.max(since.start + since.time, to.start + to.time) };
    if (to.start + to.time < span.from || to.start > span.to) show(middle(to) - (span.to - span.from) / 2, middle(to) + (span.to - span.from) / 2);
    point(to);
    setText(said, (since ? `from ${time(selects.from)} to ${time(selects.to)}: ` : "") + words(to));
    redraw();
  }
  // begin is the first span of a track that is in view, or is nearest to that.
  const begin = (t) => t.find((s) => s.start + s.time >= span.from) ?? t.at(-1);
  function along(by, chooses) {
    const t = tracks.find((x) => x.includes(pointed));
    go(t ? t[t.indexOf(pointed) + by] ?? (chooses ? pointed : null) : tracks.length ? begin(tracks[0]) : null, chooses);
  }
  function across(by) {
    const i = tracks.findIndex((x) => x.includes(pointed)), t = tracks[i + by];
    if (i < 0) along(1); else if (t) go(t.reduce((a, b) => (Math.abs(middle(b) - middle(pointed)) < Math.abs(middle(a) - middle(pointed)) ? b : a)));
  }
  function view(f) {
    f();
    [since, selects] = [null, null];
    setText(said, `from ${time(span.from)} to ${time(span.to)}`);
  }
  function chosen() {
    const part = selects ?? (pointed && { from: pointed.start - pointed.time / 10, to: pointed.start + 1.1 * pointed.time });
    if (part) show(part.from, part.to);
  }
  const around = () => (pointed ? Math.min(Math.max(middle(pointed), span.from), span.to) : undefined);
  const keys = {
    ArrowLeft: (e) => along(-1, e.shiftKey), ArrowRight: (e) => along(1, e.shiftKey), ArrowUp: () => across(-1), ArrowDown: () => across(1),
    Enter: () => view(chosen), "+": () => view(() => zoom(0.5, around())), "=": () => view(() => zoom(0.5, around())), "-": () => view(() => zoom(2, around())),
    PageUp: () => view(() => move(-0.5)), PageDown: () => view(() => move(0.5)), 0: () => view(() => show(begins.from, begins.to)), Home: () => view(() => show(all.from, all.to)),
    Escape: () => { [since, selects] = [null, null]; point(null); setText(said, ""); redraw(); },
  };
  canvas.addEventListener("keydown", (e) => {
    if (!keys[e.key] || !alone(e)) return;
    e.preventDefault();
    keys[e.key](e);
  });
  canvas.addEventListener("blur", () => { if (!drags) { [since, selects] = [null, null]; point(null); redraw(); } });

  const resized = new ResizeObserver(() => {
    wide = Math.max(240, frame.clientWidth || 600);
    left = wide < 520 ? 84 : 120;
    redraw();
  });
  const recoloured = () => { for (const s of every) s.fill = null; legend(); redraw(); };
  dim.addEventListener("change", recoloured);

  const button = (text, label, f) => el("button", { type: "button", title: label, "aria-label": label, onclick: f }, text);
  const explains = el("div", { className: "legend" });
  function legend() {
    const has = new Set(every.flatMap((s) => (s.kind === "launch" ? [...(s.passes ?? "")] : [])));
    const list = Object.entries(passes).filter(([p]) => has.has(p)).map(([, [n, name]]) => [colour(n), name]);
    if (every.some((s) => !["launch", "kernel", "wait"].includes(s.kind) && !host(s))) list.push([colour(between), "copy between devices"]);
    if (every.some((s) => !["launch", "kernel", "wait"].includes(s.kind) && host(s))) list.push([colour(5), "copy from or to the host"]);
    if (every.some((s) => s.kind === "kernel")) list.push([css("--dim"), "kernel"]);
    explains.replaceChildren(...list.map(([c, name]) => {
      const box = el("canvas", { width: 12, height: 12 }), g = box.getContext("2d");
      g.fillStyle = c;
      g.fillRect(0, 0, 12, 12);
      return el("span", {}, box, name);
    }), every.some((s) => s.kind === "wait") ? el("span", { className: "dim" }, "a gap within a launch: it waits for its inputs") : "");
  }
  legend();
  const frame = el("div", { className: "steps" }, canvas);
  resized.observe(frame);
  return {
    element: el("div", {},
      el("div", { className: "bar" }, el("span", { role: "group", "aria-label": "Zoom of the timeline" }, button("+", "Zoom in", () => zoom(0.5)), " ", button("−", "Zoom out", () => zoom(2)), " ", button("◂", "To the left", () => move(-0.5)), " ", button("▸", "To the right", () => move(0.5)), " ",
        button("Step", "The step", () => show(begins.from, begins.to)), " ", button("All", "All spans", () => show(all.from, all.to))),
      el("span", { className: "dim least" }, "Drag to zoom, or click and turn the wheel; the keys are the arrows, + − 0, Enter, Page Up and Page Down.")),
      explains, frame, said, pointer, behind),
    end() { resized.disconnect(); dim.removeEventListener("change", recoloured); cancelAnimationFrame(asked); asked = 1; },
  };
}

// numbers are what the trace says in numbers.
function numbers(trace) {
  const percent = (x) => (x * 100).toFixed(1) + "%", m = trace.measured, p = trace.predicted;
  const rows = [
    ["Step", time(m.end - m.begin), time(p.end - p.begin)], ["Bubble: devices without work", percent(m.bubble), percent(p.bubble)],
    ["Copies hidden by work", time(m.hidden), time(p.hidden)], ["Copies exposed", time(m.exposed), time(p.exposed)],
  ];
  return el("table", { className: "numbers" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Schedule " + trace.schedule), ...["measured", "simulated"].map((t) => el("th", { scope: "col", className: "number" }, t)))),
    el("tbody", {}, ...rows.map(([name, ...v]) => el("tr", {}, el("th", { scope: "row" }, name), ...v.map((x) => el("td", { className: "number" }, x))))));
}

// stepSection is the part of a run's page that asks for a step of its training.
export function stepSection(id, signal) {
  const note = el("span", { className: "dim", role: "status" }), problem = el("p", { className: "error", role: "alert", hidden: true });
  const button = el("button", { type: "button", onclick: ask }, "Trace the next step");
  const shown = el("div");
  let picture = null, asks = false, trains = false;

  function state() {
    button.disabled = asks || !trains;
    setText(note, asks ? "waiting for the next step to end…" : trains ? "" : "The run does not train now.");
  }

  async function ask() {
    asks = true;
    problem.hidden = true;
    state();
    try {
      const trace = await get("/api/step", { run: id }, signal);
      picture?.end();
      picture = timeline(trace);
      shown.replaceChildren(
        el("h3", {}, `Step ${trace.step.toLocaleString("en-US")} of ${trace.name}`),
        trace.partial ? el("p", { className: "dim" }, "It has fewer samples than a full step, which is the one that is simulated.") : "",
        trace.left_out ? el("p", { className: "dim" }, `The ${trace.left_out.toLocaleString("en-US")} shortest kernels are left out.`) : "",
        el("div", { className: "wide" }, numbers(trace)), picture.element);
    } catch (e) {
      if (signal.aborted) return;
      problem.hidden = false;
      setText(problem, e.message);
    }
    asks = false;
    state();
    if (document.activeElement === document.body) button.focus(); // which it lost when it was disabled
  }

  state();
  return {
    element: el("section", {}, el("h2", {}, "A step"), el("div", { className: "bar" }, button, note), problem, shown),
    // running says whether the run trains.
    running(now) { if (now !== trains) { trains = now; state(); } },
    end() { picture?.end(); },
  };
}
