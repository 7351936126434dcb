// The page of one run, and of several that are compared.
import { get, link } from "/api.js";
import { ago, brief, bytes, dash, duration, el, number, set, setText } from "/dom.js";
import { chart } from "/chart.js";
import { stepSection } from "/step.js";
import { follow, table } from "/app.js";
import { leftOf, stepOf, stepsOf, told } from "/table.js";
import { logView } from "/log.js";
import { planView } from "/plan.js";

// look is how curves are drawn; it stays while other views are shown.
const look = { unit: "step", log: false, smooth: 0 };

// onRequest are panels that are shown when they are asked for.
const onRequest = new Set(["samples_per_s", "train_s", "val_s", "samples_seen", "tokens_seen", "device_peak_bytes"]);
let measures = false; // whether they are

// twice are the fields that lines of steps and of boundaries have.
const twice = new Set(["learning_rate", "grad_norm"]);

export function runView(ids) {
  const several = ids.length > 1;
  const element = el("article", {}, el("p", {}, "Loading…"));
  const panels = new Map(); // by name: { chart, lines, marks }
  const gone = new AbortController();
  const names = ids.map((id) => table.rows.get(id)?.run?.run ?? id);
  let span = null, unit = look.unit, loading = false, again = false, parts = null;

  const problem = el("p", { className: "error", role: "alert", hidden: true });
  const grid = el("div", { className: "panels" });
  const note = el("span", { className: "dim", role: "status" });
  const facts = el("dl", { className: "facts" });
  const trace = several ? null : stepSection(ids[0], gone.signal);
  const log = several ? null : logView(), plan = several ? null : planView(ids[0]);

  function complain(e) {
    if (gone.signal.aborted) return;
    problem.hidden = false;
    setText(problem, e.message);
  }

  async function begin() {
    try {
      parts = several ? await get("/api/compare", { run: ids }, gone.signal) : await get("/api/run", { run: ids[0] }, gone.signal);
    } catch (e) {
      if (!gone.signal.aborted) element.replaceChildren(el("h1", {}, several ? "Runs compared" : names[0]), el("p", { className: "error", role: "alert" }, e.message), el("p", {}, el("a", { href: link() }, "All runs")));
      return;
    }
    problem.hidden = true;
    layout();
    await curves();
  }

  function layout() {
    const title = several ? `${ids.length} runs compared` : parts.run.run;
    set(document, "title", title + " – Berth");
    element.replaceChildren(
      el("p", {}, el("a", { href: link() }, "← All runs")), el("h1", {}, title), problem,
      ...(several ? [legendOfRuns()] : [facts]),
      el("h2", {}, "Curves"), controls(), grid,
      ...(several ? [differences()] : [trace.element, ...sections()]));
    if (!several) { state(); was = stateNow(); }
    panes();
  }

  // progress says how far the run is.
  function progress(r) {
    if (!told(r)) return "none told yet: it comes with the first boundary, an epoch's end or as train.boundary says";
    const n = (x) => x.toLocaleString("en-US");
    return n(stepOf(r)) + (stepsOf(r) ? ` of ${n(stepsOf(r))}` : "");
  }

  // state writes the facts of the run, which change while it trains.
  function state() {
    const r = table.rows.get(ids[0]) ?? parts, run = r.run ?? parts.run, job = r.job;
    trace.running(run.state === "running" || job?.state === "running");
    const list = [["State", run.state], ["Config", run.name || dash], ["Step", progress(r)], ["Epochs", String(run.epoch)]];
    if (run.best) list.push(["Best", `${run.best.metric} ${number(run.best.metric, run.best.value)} at step ${run.best.step}` + (run.best.checkpoint ? `, checkpoint ${run.best.checkpoint}` : "")]);
    if (job) list.push(["Job", `${job.id}, ${job.state}` + (job.where ? `: ${job.where}` : "")]);
    else if (r.now?.device) list.push(["Devices", r.now.device]);
    if (leftOf(r) !== undefined) list.push(["Left", duration(leftOf(r))]);
    list.push(["Size", bytes(run.bytes)], ["Changed", ago(run.changed)]);
    if (run.error) list.push(["Problem", run.error]);
    if (!table.rows.has(ids[0])) list.unshift(["Deleted", "the run is not there any more"]);
    const text = JSON.stringify(list);
    if (facts.dataset.text === text) return;
    facts.dataset.text = text;
    facts.replaceChildren(...list.flatMap(([name, v]) => [el("dt", {}, name), el("dd", {}, v)]));
  }

  function controls() {
    const units = el("select", { onchange: () => { look.unit = units.value; span = null; curves(); follow(); } },
      ...["step", "epoch", "time"].map((u) => el("option", { value: u, selected: u === look.unit }, u)));
    const log = el("input", { type: "checkbox", checked: look.log, onchange: () => { look.log = log.checked; draw(); } });
    const smooth = el("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: look.smooth, oninput: () => { look.smooth = Number(smooth.value); draw(); } });
    const more = el("input", { type: "checkbox", checked: measures, onchange: () => { measures = more.checked; panes(); curves(); } });
    const zoom = (by, shift, text, label) => el("button", { type: "button", title: label, "aria-label": label, onclick: () => step(by, shift) }, text);
    return el("div", { className: "bar" },
      el("label", {}, "By", units), el("label", {}, log, "Logarithmic"), el("label", {}, "Smoothed", smooth), el("label", {}, more, "Times and memory"),
      el("span", { role: "group", "aria-label": "Zoom" }, zoom(0.5, 0, "+", "Zoom in"), " ", zoom(2, 0, "−", "Zoom out"), " ", zoom(1, -0.5, "◂", "To the left"), " ", zoom(1, 0.5, "▸", "To the right"), " ",
        el("button", { type: "button", onclick: () => zoomTo(null) }, "All")),
      note);
  }

  // whole is the part of the axis that has points.
  function whole() {
    let from = Infinity, to = -Infinity;
    for (const p of panels.values()) for (const l of p.lines) if (l.x.length) { from = Math.min(from, l.x[0]); to = Math.max(to, l.x[l.x.length - 1]); }
    return from < to ? { from, to } : null;
  }
  let range = null, least = Infinity; // of all points, and the smallest distance that was seen, while a part is shown

  // nearest is the smallest distance between neighbouring points of a curve.
  function nearest() {
    let d = Infinity;
    for (const p of panels.values()) for (const l of p.lines) for (let i = 1; i < l.x.length; i++) if (l.x[i] > l.x[i - 1]) d = Math.min(d, l.x[i] - l.x[i - 1]);
    return d;
  }

  function step(by, shift) {
    const at = span ?? whole();
    if (!at) return;
    const size = (at.to - at.from) * by, middle = (at.from + at.to) / 2 + shift * (at.to - at.from);
    zoomTo({ from: middle - size / 2, to: middle + size / 2 });
  }

  // zoomTo shows a part of the axis, within what there is and not smaller than from point to point, and returns it; null: all of it.
  function zoomTo(part) {
    if (!span) [range, least] = [whole(), Infinity];
    least = Math.min(least, nearest());
    span = null;
    const size = part ? Math.max(part.to - part.from, least) : Infinity;
    if (range && size < range.to - range.from) {
      const from = Math.min(Math.max((part.from + part.to - size) / 2, range.from), range.to - size);
      span = { from, to: from + size };
    }
    draw(); // at once, with the points that are there
    curves();
    return span;
  }

  // panes makes the charts that are to be shown, and ends the others.
  function panes() {
    const wanted = parts.panels.filter((p) => measures || !onRequest.has(p.name));
    for (const [name, p] of panels) if (!wanted.some((w) => w.name === name)) { p.chart.end(); panels.delete(name); }
    for (const w of wanted) if (!panels.has(w.name)) panels.set(w.name, { chart: chart(w.name, zoomTo), lines: [], marks: {} });
    grid.replaceChildren(...(wanted.length ? wanted.map((w) => panels.get(w.name).chart.element) : [el("p", { className: "dim" }, "There are no metrics yet: they come at the end of the first epoch, or at train.boundary.")]));
  }

  // lineOf is a curve as it is drawn. Of one run, the colour says the part; of several, the run.
  function lineOf(c, run) {
    const train = c.field.startsWith("train_"), perStep = !c.boundary;
    const part = perStep ? "each step" : train ? "train" : c.field.startsWith("val_") ? "val" : "";
    const own = several ? brief(names[run]) + (part ? ", " + part : "") : part || (twice.has(c.field) ? "at boundaries" : c.field);
    return { ...c, key: `${run} ${c.field} ${Boolean(c.boundary)}`, label: own, colour: several ? run : perStep ? -1 : train ? 1 : 0, dash: several && (train || run >= 8), thin: perStep };
  }

  // curves loads the panels as they are shown now.
  async function curves() {
    if (loading) { again = true; return; }
    loading = true;
    do {
      again = false;
      const asked = { x: look.unit, ...(span ?? {}) };
      setText(note, "loading…");
      let got = look.unit;
      try {
        for (const [name, p] of [...panels]) {
          const answers = await Promise.all(ids.map((id) => get("/api/curves", { run: id, panel: name, columns: p.chart.columns(), ...asked }, gone.signal)));
          if (again) break;
          p.lines = answers.flatMap((a, i) => a.curves.map((c) => lineOf(c, i)));
          p.marks = several ? {} : answers[0];
          const units = answers.map((a) => a.unit);
          if (units.some((x) => x !== look.unit)) got = "step";
          p.mixed = new Set(units).size > 1;
          unit = got;
          paint(p);
        }
        setText(note, got !== look.unit ? `The ${look.unit} of steps is not known yet: by step.` : span ? "a part is shown" : "");
        if (!again) problem.hidden = true;
      } catch (e) { setText(note, ""); complain(e); }
    } while (again && !gone.signal.aborted);
    loading = false;
  }

  function paint(p) {
    p.chart.set(p.lines.filter((l) => l.x.length), { ...look, unit }, span, p.marks);
  }
  function draw() { for (const p of panels.values()) paint(p); }

  function legendOfRuns() {
    return el("ul", {}, ...parts.runs.map((r) => el("li", {}, el("a", { href: link("run", r.id) }, r.run.run), ` – ${r.run.state}, step ${r.run.step}` + (r.run.best ? `, best ${r.run.best.metric} ${number(r.run.best.metric, r.run.best.value)}` : ""))));
  }

  function differences() {
    const rows = parts.config.map((d) => el("tr", {}, el("td", { className: "code" }, d.key), ...d.values.map((v) => el("td", { className: "code" }, v || dash))));
    return el("section", {}, el("h2", {}, "Keys of the configs that differ"),
      rows.length ? el("div", { className: "wide", tabIndex: 0, role: "group", "aria-label": "Keys that differ" }, el("table", { className: "differ" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "key"), ...names.map((n) => el("th", { scope: "col", title: n }, brief(n))))), el("tbody", {}, ...rows))) : el("p", { className: "dim" }, "None do."));
  }

  function sections() {
    return [commands(), checkpoints(), log.element, plan.element, config()];
  }

  function commands() {
    return el("section", {}, el("h2", {}, "What next"), ...parts.commands.map((c) => el("div", { className: "command" },
      el("code", {}, c.text), el("button", { type: "button", "aria-label": "Copy " + c.text, onclick: async (e) => {
        const b = e.currentTarget;
        try { await navigator.clipboard.writeText(c.text); setText(b, "Copied"); } catch { setText(b, "Select it, and copy"); }
      } }, "Copy"), el("span", { className: "dim" }, c.does))));
  }

  function checkpoints() {
    const list = parts.checkpoints;
    const metric = parts.run.best?.metric;
    return el("section", {}, el("h2", {}, "Checkpoints"), parts.problem ? el("p", { className: "error" }, parts.problem) : "",
      list.length ? el("div", { className: "wide", tabIndex: 0, role: "group", "aria-label": "Checkpoints" }, el("table", {}, el("thead", {}, el("tr", {}, ...["ID", "step", "epoch"].map((t) => el("th", { scope: "col", className: "number" }, t)), ...(metric ? [el("th", { scope: "col", className: "number" }, metric)] : []), el("th", { scope: "col", className: "number" }, "size"), el("th", { scope: "col", className: "least" }, "saved"), el("th", { scope: "col" }, el("span", { className: "unseen" }, "use")))),
        el("tbody", {}, ...list.map((c) => el("tr", {}, ...[c.id, c.step, c.epoch].map((v) => el("td", { className: "number" }, String(v))), ...(metric ? [el("td", { className: "number" }, number(metric, c.metrics[metric]))] : []), el("td", { className: "number" }, bytes(c.bytes)), el("td", { className: "least" }, ago(c.time)), el("td", {}, [c.best ? "the best" : "", c.eval ? "trainer eval takes it" : ""].filter(Boolean).join("; ")))))))
        : el("p", { className: "dim" }, "There are none."));
  }

  let against = 0, onlyDiffering = true; // what the config is compared with, and whether other lines are left out

  function config() {
    const c = parts.config;
    if (!c) return el("section", {}, el("h2", {}, "Config"), el("p", { className: "dim" }, "It cannot be read."));
    const head = el("tr"), body = el("tbody"), words = el("span");
    const fill = () => {
      const base = c.bases[against], was = new Map(base?.differs.map((d) => [d.key, d.value])), have = new Set(c.lines.map((l) => l.key));
      const all = [...c.lines, ...(base?.differs ?? []).filter((d) => !have.has(d.key)).map((d) => ({ key: d.key, value: "" }))];
      head.replaceChildren(...["key", "value", ...(base ? [base.run ? el("a", { href: link("run", base.run) }, base.name) : base.name] : [])].map((t) => el("th", { scope: "col" }, t)));
      body.replaceChildren(...all.filter((l) => !base || !onlyDiffering || was.has(l.key)).map((l) => el("tr", { className: was.has(l.key) ? "differs" : "" },
        el("td", { className: "code" }, (was.has(l.key) ? "≠ " : "") + l.key), el("td", { className: "code" }, l.value || dash), ...(base ? [el("td", { className: "code" }, was.has(l.key) ? was.get(l.key) || dash : "")] : []))));
      if (base) words.replaceChildren(`Only the ${base.differs.length} lines that differ`);
    };
    const choice = el("select", { onchange: () => { against = Number(choice.value); fill(); } }, ...c.bases.map((b, i) => el("option", { value: i, selected: i === against }, b.name)));
    const only = el("input", { type: "checkbox", checked: onlyDiffering, onchange: () => { onlyDiffering = only.checked; fill(); } });
    fill();
    return el("section", {}, el("h2", {}, "Config"),
      el("div", { className: "bar" }, ...(c.bases.length ? [el("label", {}, "Beside", choice), el("label", {}, only, words)] : [el("span", { className: "dim" }, "No shipped config has its name.")])),
      el("div", { className: "wide" }, el("table", { className: "config" }, el("thead", {}, head), body)));
  }

  // append puts new points behind those that are shown.
  function append(run, news) {
    const i = ids.indexOf(run);
    const touched = new Set();
    for (const n of news) {
      const key = `${i} ${n.field} ${Boolean(n.boundary)}`;
      for (const p of panels.values()) {
        const l = p.lines.find((x) => x.key === key);
        if (!l) continue;
        const last = l.x[l.x.length - 1] ?? -Infinity;
        n.x.forEach((x, j) => { if (x > last) { l.x.push(x); l.y.push(n.y[j]); } }); // the curves may have been asked for after these came
        const marks = p.marks.boundaries;
        if (n.boundary && marks) for (const x of n.x) if (!(marks[marks.length - 1] >= x)) marks.push(x);
        touched.add(p);
        if (l.x.length > 4 * p.chart.columns()) again = true; // it is thinned anew
      }
    }
    if (again) { curves(); return; }
    touched.forEach(paint);
  }

  // mark shows the checkpoints that there are now.
  function mark(places) {
    for (const p of panels.values()) if (p.marks.checkpoints) { p.marks.checkpoints = places; paint(p); }
  }

  let later = 0;
  // soon begins anew, once for many wishes.
  function soon() {
    clearTimeout(later);
    later = setTimeout(() => (parts ? refresh() : begin()), 300);
  }

  // refresh loads the run again, and leaves what the user has open.
  async function refresh() {
    if (!several && !table.rows.has(ids[0])) { state(); return; } // what was drawn stays
    try {
      const next = several ? await get("/api/compare", { run: ids }, gone.signal) : await get("/api/run", { run: ids[0] }, gone.signal);
      const same = JSON.stringify(next.panels) === JSON.stringify(parts.panels);
      parts = next;
      if (!same) panes();
      if (!several) { state(); fresh(); }
      await curves();
    } catch (e) { complain(e); }
  }

  // fresh writes what changes while a run trains, and is not in the table.
  function fresh() {
    replace("What next", commands());
    replace("Checkpoints", checkpoints());
  }

  let due = 0, was = "";
  const stateNow = () => { const r = table.rows.get(ids[0]); return `${r?.run?.state} ${r?.job?.state}`; };
  // renew loads that: soon where the state is another, else at most every five seconds.
  function renew() {
    const now = stateNow(), turned = now !== was;
    was = now;
    if (turned) { clearTimeout(due); due = 0; }
    due ||= setTimeout(async () => {
      due = 0;
      if (!table.rows.has(ids[0])) return; // what was drawn stays
      try {
        const { run, commands, checkpoints, problem } = await get("/api/run", { run: ids[0] }, gone.signal);
        Object.assign(parts, { run, commands, checkpoints, problem });
        fresh();
      } catch (e) { complain(e); }
    }, turned ? 300 : 5000);
  }

  function replace(heading, section) {
    for (const old of element.querySelectorAll("section")) {
      if (old.querySelector("h2")?.textContent !== heading || !section || old.textContent === section.textContent) continue;
      const focused = old.contains(document.activeElement);
      old.replaceWith(section);
      if (focused) section.querySelector("[tabindex], button")?.focus();
    }
  }

  begin();
  const clock = setInterval(() => { if (parts && !several) state(); }, 10000); // times that have passed
  return {
    element,
    watch: () => ({ run: ids, x: look.unit, log: several ? undefined : ids[0] }),
    rows(changed) { if (parts && !several && changed.has(ids[0])) { state(); renew(); } },
    event(name, v) {
      if (name === "points" && parts && !span && !loading) append(v.run, v.curves);
      else if (name === "points" || name === "anew") soon();
      else if (name === "saved" && loading) again = true;
      else if (name === "saved" && parts && !several) mark(v.checkpoints);
      else if (name === "log") log?.take(v);
    },
    end() { gone.abort(); trace?.end(); plan?.end(); clearTimeout(later); clearTimeout(due); clearInterval(clock); for (const p of panels.values()) p.chart.end(); document.title = "Berth"; },
  };
}
