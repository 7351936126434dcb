// The table of runs and jobs.
import { link } from "/api.js";
import { ago, bytes, dash, duration, el, number, setText } from "/dom.js";
import { table } from "/app.js";

const nameOf = (r) => r.run?.run ?? (r.job ? `job ${r.job.id} (${r.job.name})` : r.id);
const stateOf = (r) => (r.job && (!r.run || r.job.state === "paused") ? r.job.state : r.run?.state) ?? "";
const stepOf = (r) => Math.max(r.run?.step ?? 0, r.job?.step ?? 0);
const stepsOf = (r) => r.run?.steps || r.job?.steps || 0;
const running = (r) => stateOf(r) === "running";

function lossOf(r) {
  const m = r.run?.metrics ?? {};
  for (const part of ["val", "train"]) if (m[part + "_loss"] !== undefined) return { part, v: m[part + "_loss"] };
  return r.job?.loss !== undefined ? { part: "", v: r.job.loss } : null;
}
const leftOf = (r) => (running(r) && r.job?.left_seconds) || undefined;

// columns: text, what is sorted by, and the class. Those with less and least give way on narrow screens.
const columns = [
  { title: "Run", class: "name", text: nameOf, key: nameOf },
  { title: "State", class: "state", text: stateOf, key: stateOf },
  { title: "Step", class: "number", text: (r) => (stepsOf(r) ? `${stepOf(r)}/${stepsOf(r)}` : r.run || stepOf(r) ? String(stepOf(r)) : dash), key: stepOf },
  { title: "Loss", class: "number", text: (r) => { const l = lossOf(r); return l ? `${l.part} ${number("loss", l.v)}`.trim() : dash; }, key: (r) => lossOf(r)?.v },
  { title: "Best", class: "number least", text: (r) => (r.run?.best ? `${r.run.best.metric} ${number(r.run.best.metric, r.run.best.value)}` : dash), key: (r) => r.run?.best?.value },
  { title: "Left", class: "number less", text: (r) => (leftOf(r) === undefined ? dash : duration(leftOf(r))), key: leftOf },
  { title: "Device, or why not", class: "where less", text: (r) => r.job?.where || r.run?.error || "", key: (r) => r.job?.where ?? "" },
  { title: "Size", class: "number less", text: (r) => (r.run ? bytes(r.run.bytes) : dash), key: (r) => r.run?.bytes },
  { title: "Changed", class: "number least", text: (r) => ago(r.run?.changed ?? r.job?.submitted), key: (r) => Date.parse(r.run?.changed ?? r.job?.submitted) },
];

// What the user has chosen stays while other views are shown.
const chosen = new Set(), open = new Set();
const sort = { column: columns.length - 1, down: true };
let filter = "";

export function tableView() {
  const lines = new Map(); // of rows by ID: { tr, cells, link, box, fold }
  const body = el("tbody");
  const compare = el("button", { type: "button", onclick: () => { location.hash = link("compare", [...chosen].join(",")); } });
  const count = el("span", { className: "dim", role: "status" });
  const search = el("input", { type: "search", placeholder: "name, state, metric…", value: filter, oninput: () => { filter = search.value; arrange(); } });
  const heads = columns.map((c, i) => el("th", { scope: "col", className: c.class }, el("button", { type: "button", onclick: () => {
    if (sort.column === i) sort.down = !sort.down; else Object.assign(sort, { column: i, down: i > 1 });
    arrange();
  } }, c.title)));
  const element = el("section", {},
    el("h1", {}, "Runs and jobs"),
    el("div", { className: "bar" }, el("label", {}, "Filter", search), compare, count),
    el("div", { className: "wide" }, el("table", { id: "runs", "aria-label": "Runs and jobs" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col", "aria-label": "compare" }), ...heads)), body)));

  function line(r) {
    let l = lines.get(r.id);
    if (!l) {
      l = { cells: columns.map((c) => el("td", { className: c.class })) };
      l.box = el("input", { type: "checkbox", checked: chosen.has(r.id), onchange: () => { chosen[l.box.checked ? "add" : "delete"](r.id); counts(); } });
      l.link = r.run ? el("a", { href: link("run", r.id) }) : el("span");
      l.fold = el("button", { type: "button", className: "fold", hidden: true, onclick: () => { open[open.has(r.id) ? "delete" : "add"](r.id); arrange(); } });
      l.cells[0].append(l.fold, l.link);
      l.tr = el("tr", {}, el("td", {}, r.run ? l.box : ""), ...l.cells);
      l.run = Boolean(r.run);
      lines.set(r.id, l);
    }
    fill(l, r);
    return l;
  }

  function fill(l, r) {
    l.box.setAttribute("aria-label", "compare " + nameOf(r));
    columns.forEach((c, i) => {
      if (i === 0) { setText(l.link, c.text(r)); return; }
      setText(l.cells[i], c.text(r));
    });
    l.cells[1].className = "state " + stateOf(r).replace(/[^a-z]/g, "");
  }

  const leadOf = (r) => r.job?.sweep || r.job?.pipeline || 0;

  function compared(a, b) {
    const key = columns[sort.column].key;
    const x = key(a), y = key(b);
    const none = (v) => v === undefined || v === null || v === "" || Number.isNaN(v);
    if (none(x) || none(y)) return none(x) - none(y) || nameOf(a).localeCompare(nameOf(b)); // those without a value come last
    const d = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (sort.down ? -d : d) || nameOf(a).localeCompare(nameOf(b), "en", { numeric: true });
  }

  function matches(r) {
    const text = [...columns.map((c) => c.text(r)), r.run?.name ?? "", r.job ? "job " + r.job.id : "", ...Object.keys(r.run?.metrics ?? {})].join(" ").toLowerCase();
    return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  }

  // order is the rows as they are shown. Trials and steps are below what leads them.
  function order() {
    const all = [...table.rows.values()].sort(compared);
    if (filter.trim()) return all.filter(matches).map((r) => ({ r }));
    const byJob = new Map(all.filter((r) => r.job).map((r) => [r.job.id, r])), led = new Map();
    const tops = all.filter((r) => {
      const lead = byJob.get(leadOf(r));
      if (!lead) return true;
      if (!led.has(lead.id)) led.set(lead.id, []);
      led.get(lead.id).push(r);
      return false;
    });
    const list = [];
    const add = (r, child) => {
      const below = led.get(r.id) ?? [];
      list.push({ r, child, below: below.length });
      if (open.has(r.id)) below.forEach((b) => add(b, true));
    };
    tops.forEach((r) => add(r, false));
    return list;
  }

  function arrange() {
    const focused = document.activeElement;
    const list = order();
    const rows = list.map(({ r, child, below }) => {
      const l = line(r);
      l.tr.className = child ? "child" : "";
      l.fold.hidden = !below;
      if (below) {
        setText(l.fold, (open.has(r.id) ? "▾ " : "▸ ") + below);
        l.fold.setAttribute("aria-expanded", String(open.has(r.id)));
        l.fold.setAttribute("aria-label", `${below} jobs of ${nameOf(r)}`);
      }
      return l.tr;
    });
    if (rows.length !== body.children.length || rows.some((tr, i) => tr !== body.children[i])) {
      body.replaceChildren(...rows);
      if (element.contains(focused)) focused.focus();
    }
    heads.forEach((h, i) => {
      if (i === sort.column) h.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else h.removeAttribute("aria-sort");
    });
    counts(list.length);
  }

  function counts(shown = body.children.length) {
    for (const id of chosen) if (!table.rows.get(id)?.run) chosen.delete(id);
    compare.disabled = chosen.size < 2;
    setText(compare, chosen.size ? `Compare ${chosen.size}` : "Compare");
    setText(count, table.rows.size === 0 ? "There are no runs yet: trainer train digits makes one." : `${shown} of ${table.rows.size}`);
  }

  arrange();
  const clock = setInterval(() => { // times that have passed
    for (const [id, l] of lines) if (table.rows.has(id)) fill(l, table.rows.get(id));
  }, 10000);
  return {
    element,
    rows(ids) {
      for (const id of ids) {
        const l = lines.get(id), r = table.rows.get(id);
        if (l && (!r || l.run !== Boolean(r.run))) lines.delete(id); // a job has got its run
      }
      arrange();
    },
    end() { clearInterval(clock); },
  };
}
