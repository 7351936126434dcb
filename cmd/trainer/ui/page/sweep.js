// The page of a sweep: its trials as a table, by parallel coordinates, and as points over each key that varies.
import { link } from "/api.js";
import { dash, el, number, set, setText } from "/dom.js";
import { table } from "/app.js";
import { counted, mostCompared, stateClass, stateOf, stepText, stepOf } from "/table.js";
import { axisOf, metricAxis, short } from "/scale.js";
import { parallel } from "/parallel.js";
import { scatter } from "/scatter.js";

const mostRows = 200; // trials that the table has until all are asked for

// trialsOf are the trials of a sweep, with the numbers of the run that each has.
function trialsOf(id, sweep) {
  const list = [];
  for (const r of table.rows.values()) {
    const t = r.trial;
    if (t?.of !== id) continue;
    const run = r.run ?? table.rows.get(t.as)?.run, best = run?.best?.metric === sweep.metric ? run.best.value : undefined;
    list.push({ row: r, number: t.number, settings: t.settings ?? [], out: t.out, state: t.out ? "out" : stateOf(r), value: t.value ?? run?.metrics?.[sweep.metric], best, run: r.run ? r.id : t.as });
  }
  return list;
}

export function sweepView(id) {
  const element = el("article", {});
  const title = el("h1"), about = el("p"), facts = el("dl", { className: "facts" }), count = el("span", { className: "dim", role: "status" });
  const compare = el("button", { type: "button", onclick: () => { location.hash = link("compare", [...chosen].join(",")); } });
  const more = el("button", { type: "button", hidden: true, onclick: () => { whole = true; rows(); } });
  const all = el("button", { type: "button", onclick: () => lines.clear() }, "All trials");
  const head = el("tr"), body = el("tbody"), panels = el("div", { className: "panels" });
  let settled = 0;
  const lines = parallel(() => { // while a range is drawn, points and table wait
    clearTimeout(settled);
    settled = setTimeout(() => { if (!ended) { mark(); rows(); } }, 120);
  });
  const chosen = new Set(), cells = new Map(), plots = [];
  let sweep = null, trials = [], axes = [], metric = null, columns = [], sort = { column: 4, down: false }, keys = "", whole = false, ended = false;

  // begin lays the page out for the keys that vary.
  function begin() {
    keys = JSON.stringify([sweep.metric, sweep.vary.map((d) => d.key)]);
    const value = (t) => t.value, best = (t) => t.best, m = sweep.metric || "metric";
    columns = [
      { title: "Trial", class: "", key: (t) => t.number, text: (t) => String(t.number) },
      { title: "State", class: "state", key: (t) => t.state, text: (t) => t.state },
      { title: "Step", class: "number", key: (t) => stepOf(t.row), text: (t) => stepText(t.row) },
      { title: "Best", class: "number least", key: best, text: (t) => number(m, t.best) },
      { title: m, class: "number", key: value, text: (t) => number(m, t.value) },
      ...sweep.vary.map((d, i) => ({ title: d.key, class: d.values ? "code" : "number", key: (t) => (d.values ? t.settings[i] : t.settings[i] === "" ? undefined : Number(t.settings[i])), text: (t) => (t.settings[i] === undefined ? dash : short(t.settings[i])) })),
    ];
    sort.down = !sweep.lower;
    head.replaceChildren(el("th", { scope: "col" }, el("span", { className: "unseen" }, "compare")), ...columns.map((c, i) => (c.head = el("th", { scope: "col", className: c.class.replace("code", "") }, el("button", { type: "button", onclick: () => {
      if (sort.column === i) sort.down = !sort.down; else sort = { column: i, down: (i === 3 || i === 4) && !sweep.lower };
      rows();
    } }, c.title)))));
    cells.clear();
    plots.splice(0).forEach((p) => p.end());
    for (const d of sweep.vary) plots.push(scatter(`${m} over ${d.key}`));
    panels.replaceChildren(...plots.map((p) => p.element));
    element.replaceChildren(
      el("p", {}, el("a", { href: link() }, "← All runs")), title, about, facts, el("h2", {}, "Parallel coordinates"), lines.element,
      el("h2", {}, "Each key"), panels, el("h2", {}, "Trials"), el("div", { className: "bar" }, compare, all, count),
      el("div", { className: "wide" }, el("table", { id: "trials", "aria-label": "Trials" }, el("thead", {}, head), body)), more);
  }

  const none = (v) => v === undefined || v === null || v === "" || Number.isNaN(v);
  // compared sorts trials by a column; those without a value come last.
  function compared(key, down) {
    return (a, b) => {
      const x = key(a), y = key(b);
      if (none(x) || none(y)) return none(x) - none(y) || a.number - b.number;
      const d = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return (down ? -d : d) || a.number - b.number;
    };
  }

  // show shows the sweep as the table has it now.
  function show() {
    const r = table.rows.get(id);
    if (!r?.sweep) {
      const gone = el("p", { className: "error", role: "alert" }, "There is no such sweep: it may have been deleted.");
      if (sweep) { about.replaceChildren(gone); return; } // what was drawn stays
      element.replaceChildren(el("h1", {}, "Sweep"), gone, el("p", {}, el("a", { href: link() }, "All runs")));
      return;
    }
    sweep = r.sweep;
    if (JSON.stringify([sweep.metric, sweep.vary.map((d) => d.key)]) !== keys) begin();
    trials = trialsOf(id, sweep);
    const valued = trials.filter((t) => !none(t.value)).sort(compared((t) => t.value, !sweep.lower));
    valued.forEach((t, i) => { t.rank = valued.length > 1 ? 1 - i / (valued.length - 1) : 1; });
    const first = valued.find((t) => !t.out) ?? valued[0];
    axes = sweep.vary.map(axisOf);
    metric = metricAxis(sweep.metric || "metric", sweep.lower, valued.map((t) => t.value));
    for (const t of trials) {
      t.isBest = t === first;
      t.at = axes.map((a, i) => (t.settings[i] === undefined ? null : a.at(t.settings[i], t.number)));
      t.words = `trial ${t.number}, ${t.state}` + (none(t.value) ? "" : `: ${sweep.metric} ${number(sweep.metric, t.value)}`) + sweep.vary.map((d, i) => `; ${d.key} ${short(t.settings[i] ?? "")}`).join("");
      t.line = { number: t.number, units: [...axes.map((a, i) => (t.at[i] === null ? null : a.unit(t.at[i]))), none(t.value) ? null : metric.unit(t.value)], rank: t.rank ?? null, best: t.isBest, words: t.words };
    }
    const name = r.job ? `Sweep ${r.job.id}: ${sweep.name}` : `Sweep in ${sweep.name}`;
    set(document, "title", name + " – Berth");
    setText(title, name);
    const list = [["State", r.job ? `${r.job.state}` + (r.job.where ? `: ${r.job.where}` : "") : "no job: only its run folders tell of it"],
      ["Trials", `${trials.length} of ${sweep.trials} have begun` + (trials.length ? ": " + counted(trials.map((t) => t.state)) : "")],
      ["Metric", sweep.metric ? `${sweep.metric}, ${metric.note}` : dash], ["The best", first ? first.words : dash]];
    const text = JSON.stringify(list);
    if (facts.dataset.text !== text) {
      facts.dataset.text = text;
      facts.replaceChildren(...list.flatMap(([n, v]) => [el("dt", {}, n), el("dd", {}, v)]));
    }
    lines.set([...axes, metric], trials.map((t) => t.line));
    mark();
    rows();
  }

  // mark shows which trials the chosen ranges have.
  function mark() {
    all.disabled = !lines.chosen();
    plots.forEach((p, i) => p.set(axes[i], metric, trials.filter((t) => t.at[i] !== null && !none(t.value)).map((t) => ({ x: t.at[i], y: t.value, rank: t.rank, best: t.isBest, inside: t.line.inside, name: String(t.number), value: short(t.settings[i]), words: t.words }))));
  }

  function line(t) {
    let l = cells.get(t.row.id);
    if (!l || l.run !== t.run) {
      l = { cells: columns.map((c) => el("td", { className: c.class })), run: t.run };
      l.box = el("input", { type: "checkbox", checked: chosen.has(t.run), onchange: () => { chosen[l.box.checked ? "add" : "delete"](t.run); counts(); } });
      set(l.box, "aria-label", `compare trial ${t.number}`);
      l.link = t.run ? el("a", { href: link("run", t.run) }) : el("span");
      l.cells[0].append(l.link);
      l.tr = el("tr", {}, el("td", {}, t.run ? l.box : ""), ...l.cells);
      cells.set(t.row.id, l);
    }
    columns.forEach((c, i) => setText(i ? l.cells[i] : l.link, c.text(t)));
    l.cells[1].className = stateClass(t.state);
    l.tr.className = t.isBest ? "differs" : "";
    return l.tr;
  }

  function rows() {
    const c = columns[sort.column] ?? columns[0], focused = document.activeElement;
    const within = trials.filter((t) => t.line.inside).sort(compared(c.key, sort.down)), list = within.slice(0, whole ? within.length : mostRows).map(line);
    more.hidden = list.length === within.length;
    setText(more, `Show all ${within.length}`);
    setText(count, `${within.length} of ${trials.length} trials` + (more.hidden ? "" : `, the first ${list.length} are shown`));
    if (list.length !== body.children.length || list.some((tr, i) => tr !== body.children[i])) {
      body.replaceChildren(...list);
      if (body.contains(focused)) focused.focus();
    }
    columns.forEach((x, i) => { if (i === sort.column) set(x.head, "aria-sort", sort.down ? "descending" : "ascending"); else x.head.removeAttribute("aria-sort"); });
    counts();
  }

  function counts() {
    for (const run of chosen) if (!table.rows.get(run)?.run) chosen.delete(run);
    compare.disabled = chosen.size < 2 || chosen.size > mostCompared;
    setText(compare, chosen.size > mostCompared ? `Compare at most ${mostCompared}` : chosen.size ? `Compare ${chosen.size}` : "Compare");
  }

  let later = 0;
  requestAnimationFrame(() => { if (!ended) show(); });
  show();
  return {
    element,
    rows(ids) {
      if (later || ![...ids].some((x) => x === id || !table.rows.has(x) || table.rows.get(x).trial?.of === id)) return;
      later = setTimeout(() => { later = 0; show(); }, 200); // once for many rows
    },
    end() { ended = true; clearTimeout(later); clearTimeout(settled); lines.end(); plots.forEach((p) => p.end()); document.title = "Berth"; },
  };
}
