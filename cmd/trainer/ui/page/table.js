// The table of runs and jobs.
import { link } from "/api.js";
import { ago, bytes, dash, duration, el, number, plain, set, setName, setText } from "/dom.js";
import { table } from "/app.js";

export const mostCompared = 16; // runs

const nameOf = (r) => r.run?.run ?? (r.job ? `job ${r.job.id} (${r.job.name})` : r.sweep?.name ?? r.id);
export function stateOf(r) {
  if (r.trial?.out) return "out";
  const job = r.job?.state, run = r.run?.state;
  return (!run || (job === "cancelled" && run !== "running") ? job : run) ?? "";
}
export const stateClass = (state) => "state " + state.replace(/[^a-z]/g, "");
export const stepOf = (r) => Math.max(r.run?.step ?? 0, r.job?.step ?? 0);
export const stepsOf = (r) => r.run?.steps || r.job?.steps || 0;
const running = (r) => stateOf(r) === "running";
// told is whether a row knows how far its training is: where another process trains it, that comes with its first boundary.
export const told = (r) => Boolean(!running(r) || r.job || r.now?.live || stepOf(r));
export const stepText = (r) => (!told(r) ? dash : stepsOf(r) ? `${stepOf(r)}/${stepsOf(r)}` : r.run || stepOf(r) ? String(stepOf(r)) : dash);

// states in the order in which they are counted; others come last.
const order = ["running", "waiting", "paused", "new", "stopped", "finished", "out", "failed", "cancelled", "unreadable"];

// counted is "3 running, 12 finished" of a list of states.
export function counted(states) {
  const n = new Map();
  for (const s of states) n.set(s, (n.get(s) ?? 0) + 1);
  const place = (s) => (order.includes(s) ? order.indexOf(s) : order.length);
  return [...n].sort((a, b) => place(a[0]) - place(b[0])).map(([s, k]) => `${k} ${s}`).join(", ");
}

function lossOf(r) {
  const m = r.run?.metrics ?? {};
  for (const part of ["val", "train"]) if (m[part + "_loss"] !== undefined) return { part, v: m[part + "_loss"] };
  return r.job?.loss !== undefined ? { part: "", v: r.job.loss } : null;
}

// metricsOf are the newest metrics of the validation part but for its loss, at most three.
const metricsOf = (r) => Object.entries(r.run?.metrics ?? {}).filter(([name]) => name.startsWith("val_") && name !== "val_loss" && name !== "val_s").slice(0, 3);

// below are the rows that a row leads, directly or not, by its ID: those of trials, and of steps of pipelines.
let below = new Map();
const leadOf = (r) => r.trial?.of ?? (r.job?.sweep || r.job?.pipeline ? `job-${r.job.sweep || r.job.pipeline}` : undefined);

// lead finds what each row leads.
function lead() {
  below = new Map();
  for (const r of table.rows.values()) {
    const seen = new Set([r.id]);
    for (let id = leadOf(r); table.rows.has(id) && !seen.has(id); id = leadOf(table.rows.get(id))) {
      if (!below.has(id)) below.set(id, []);
      below.get(id).push(r);
      seen.add(id);
    }
  }
}
const single = (r) => !r.sweep && !below.has(r.id);
const parts = (r) => (below.get(r.id) ?? []).filter((p) => leadOf(p) === r.id);
const over = new Set(["finished", "out", "failed", "cancelled"]);

// bestOf is the best of a run, or of the trials of a sweep.
function bestOf(r) {
  if (!r.sweep) return r.run?.best;
  let best;
  for (const t of parts(r)) {
    const v = t.trial?.value ?? t.run?.metrics?.[r.sweep.metric];
    if (v !== undefined && !t.trial?.out && (!best || (r.sweep.lower ? v < best.value : v > best.value))) best = { metric: r.sweep.metric, value: v };
  }
  return best;
}

function progress(r) {
  if (single(r)) return stepText(r);
  const all = parts(r), done = all.filter((p) => over.has(stateOf(p))).length;
  return `${done}/${r.sweep?.trials ?? all.length} ${r.sweep ? "trials" : "jobs"}`;
}

// leftOf is how many seconds are left: as its job says, by the end that the queue foretells, or by the run's own pace.
export function leftOf(r) {
  if (running(r) && r.job?.left_seconds) return r.job.left_seconds;
  const ends = Date.parse((running(r) && r.now?.ends) || (!over.has(stateOf(r)) && r.job?.ends) || "");
  return Number.isNaN(ends) ? undefined : Math.max(0, (ends - Date.now()) / 1000);
}
const whereOf = (r) => r.job?.where || (single(r) && running(r) && r.now?.device) || r.run?.error || "";
const whole = (r) => (single(r) ? stateOf(r) : [stateOf(r), counted(parts(r).map(stateOf))].filter(Boolean).join(": "));

// columns: text, what is sorted by, and the class. Those with less and least give way on narrow screens.
const columns = [
  { title: "Run", class: "name", text: nameOf, key: nameOf },
  { title: "State", class: "state", text: whole, key: whole },
  { title: "Step", class: "number", text: progress, key: stepOf },
  { title: "Loss", class: "number", text: (r) => { const l = lossOf(r); return l ? `${l.part} ${number("loss", l.v)}`.trim() : dash; }, key: (r) => lossOf(r)?.v },
  { title: "Metrics", class: "where less", text: (r) => metricsOf(r).map(([name, v]) => `${name.slice(4)} ${number(name, v)}`).join(", ") || dash, key: (r) => metricsOf(r)[0]?.[1] },
  { title: "Best", class: "number least", text: (r) => { const b = bestOf(r); return b ? `${b.metric} ${number(b.metric, b.value)}` : dash; }, key: (r) => bestOf(r)?.value },
  { title: "Left", class: "number less", text: (r) => (leftOf(r) === undefined ? dash : duration(leftOf(r))), key: leftOf },
  { title: "Device, or why not", class: "where less", text: whereOf, key: whereOf },
  { title: "Size", class: "number less", text: (r) => (r.run ? bytes(r.run.bytes) : dash), key: (r) => r.run?.bytes },
  { title: "Changed", class: "number least", text: (r) => ago(changed(r)), key: (r) => Date.parse(changed(r)) },
];

// changed is when a run, or one of those that a row leads, was written last.
const changed = (r) => r.run?.changed ?? (below.get(r.id) ?? []).map((p) => p.run?.changed ?? "").reduce((a, b) => (a > b ? a : b), r.job?.submitted ?? "");

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
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { className: "unseen" }, "compare")), ...heads)), body)));

  function line(r, child) {
    let l = lines.get(r.id);
    if (!l) {
      l = { cells: columns.map((c) => el("td", { className: c.class })) };
      l.box = el("input", { type: "checkbox", checked: chosen.has(r.id), onchange: () => { chosen[l.box.checked ? "add" : "delete"](r.id); counts(); } });
      l.link = r.run ? el("a", { href: link("run", r.id) }) : r.sweep ? el("a", { href: link("sweep", r.id) }) : el("span");
      l.fold = el("button", { type: "button", className: "fold", hidden: true, onclick: () => { open[open.has(r.id) ? "delete" : "add"](r.id); arrange(); } });
      l.cells[0].append(l.fold, l.link);
      l.tr = el("tr", {}, el("td", {}, r.run ? l.box : ""), ...l.cells);
      l.run = Boolean(r.run);
      lines.set(r.id, l);
    }
    l.child = child;
    fill(l, r);
    return l;
  }

  function fill(l, r) {
    set(l.box, "aria-label", "compare " + nameOf(r));
    columns.forEach((c, i) => { if (i) setText(l.cells[i], c.text(r)); });
    const name = plain(nameOf(r));
    setName(l.link, l.child && r.run ? name.split("/").at(-1) : name); // below the row that leads it
    set(l.link, "title", l.link.textContent === name ? "" : name);
    l.cells[1].className = stateClass(stateOf(r)) + (single(r) ? "" : " counted");
  }

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

  // arranged is the rows as they are shown. Trials and steps are below what leads them.
  function arranged() {
    const all = [...table.rows.values()].sort(compared);
    if (filter.trim()) return all.filter(matches).map((r) => ({ r }));
    const led = new Map();
    const tops = all.filter((r) => {
      const id = leadOf(r);
      if (!table.rows.has(id)) return true;
      if (!led.has(id)) led.set(id, []);
      led.get(id).push(r);
      return false;
    });
    const list = [];
    const add = (r, child) => {
      const next = led.get(r.id) ?? [];
      list.push({ r, child, below: next.length });
      if (open.has(r.id)) next.forEach((b) => add(b, true));
    };
    tops.forEach((r) => add(r, false));
    return list;
  }

  function arrange() {
    const focused = document.activeElement;
    lead();
    const list = arranged();
    const rows = list.map(({ r, child, below }) => {
      const l = line(r, child);
      l.tr.className = child ? "child" : "";
      l.fold.hidden = !below;
      if (below) {
        setText(l.fold, (open.has(r.id) ? "▾ " : "▸ ") + below);
        set(l.fold, "aria-expanded", String(open.has(r.id)));
        set(l.fold, "aria-label", `${below} ${r.sweep ? "trials" : "jobs"} of ${nameOf(r)}`);
      }
      return l.tr;
    });
    if (rows.length !== body.children.length || rows.some((tr, i) => tr !== body.children[i])) {
      body.replaceChildren(...rows);
      if (element.contains(focused)) focused.focus();
    }
    heads.forEach((h, i) => {
      if (i === sort.column) set(h, "aria-sort", sort.down ? "descending" : "ascending");
      else h.removeAttribute("aria-sort");
    });
    counts(list.length);
  }

  function counts(shown = body.children.length) {
    for (const id of chosen) if (!table.rows.get(id)?.run) chosen.delete(id);
    compare.disabled = chosen.size < 2 || chosen.size > mostCompared;
    setText(compare, chosen.size > mostCompared ? `Compare at most ${mostCompared}` : chosen.size ? `Compare ${chosen.size}` : "Compare");
    setText(count, table.rows.size === 0 ? "There are no runs yet: trainer train digits makes one." : filter.trim() || shown === table.rows.size ? `${shown} of ${table.rows.size}` : `${table.rows.size}, ${table.rows.size - shown} of them folded`);
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
