// Who has the memory of devices, over time: stacked by usage or by training, with limit, floors and peaks, and what moved.
import { get, link } from "/api.js";
import { bytes, dash, el, setText } from "/dom.js";
import { colour } from "/chart.js";
import { css, stack } from "/stack.js";
import { follow } from "/app.js";

// names are the usages as people say them.
const names = { weight: "weights", opt_state: "optimizer state", grad: "gradients", activation: "activations", input: "batch", scratch: "scratch", cache: "caches" };
const nameOf = (usage) => names[usage] ?? usage;

// look is how memory is drawn; it stays while other views are shown.
const look = { by: "usage", limit: false, last: 600 };

const most = 2000; // samples that the page keeps
const late = 5000; // ms from a sample of the stream to the next, at most, unless some were missed
const ownColours = 7; // of trainings; the others have one together
const compared = (a, b) => (a.job || Infinity) - (b.job || Infinity) || a.name.localeCompare(b.name, "en", { numeric: true });
const sum = (list) => list.reduce((a, b) => a + b, 0);

// tenantOf names who has memory. Frozen weights that several trainings have together are theirs.
function tenantOf(t) {
  if (t.jobs) return `${t.name}, of job${t.jobs.length > 1 ? "s" : ""} ${t.jobs.join(", ")}`;
  return t.job ? `${t.job} ${t.name}` : t.name || "this training";
}

export function memoryView() {
  const gone = new AbortController();
  const panels = new Map(); // by name
  let samples = [], usages = [], now = null, version = 0, loading = false;

  const problem = el("p", { role: "status", hidden: true });
  const grid = el("div", { className: "panels" });
  const who = el("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "Who has memory now" }); // keys scroll it
  const choice = (label, list, value, take) => {
    const s = el("select", { onchange: () => { take(s.value); draw(); } }, ...list.map(([v, text]) => el("option", { value: v, selected: String(v) === String(value) }, text)));
    return el("label", {}, label, s);
  };
  const limit = el("input", { type: "checkbox", checked: look.limit, onchange: () => { look.limit = limit.checked; draw(); } });
  const element = el("article", {},
    el("p", {}, el("a", { href: link() }, "← All runs")), el("h1", {}, "Memory"), problem,
    el("div", { className: "bar" },
      choice("By", [["usage", "usage"], ["training", "training"]], look.by, (v) => { look.by = v; }),
      choice("Time", [[120, "last 2 minutes"], [600, "last 10 minutes"], [0, "all"]], look.last, (v) => { look.last = Number(v); for (const p of panels.values()) p.whole(); }),
      el("label", {}, limit, "Up to the limit")),
    el("h2", { className: "unseen" }, "Over time"), grid, el("h2", {}, "Who has it now"), who);
  document.title = "Memory – Berth";

  async function load() {
    if (loading) return;
    loading = true;
    try {
      const all = await get("/api/memory", { columns: Math.min(most, Math.max(200, innerWidth)) }, gone.signal);
      [usages, samples, version] = [all.usages, [], 0];
      take(all);
      follow(); // from here on
    } catch (e) {
      if (!gone.signal.aborted) say(e.message);
    }
    loading = false;
  }

  function say(text) {
    problem.hidden = !text;
    setText(problem, text ?? "");
  }

  // take adds samples, and says who has memory now.
  function take(v) {
    const news = version ? v.samples.slice(Math.max(0, v.samples.length - (v.version - version))) : v.samples;
    for (const s of news) s.apart = v.apart ?? late;
    samples = samples.concat(news);
    if (samples.length > most) samples = samples.slice(-most);
    [version, now] = [v.version, v.now];
    say(v.problem ? `Memory is not known now: ${v.problem}` : now && !now.devices.length ? "Nothing has used a device yet." : "");
    draw();
    table();
  }

  // shown are the samples of the time that is drawn, with one that has nothing between two that are far apart.
  function shown() {
    const last = samples[samples.length - 1]?.at ?? 0;
    const list = look.last ? samples.filter((s) => s.at >= last - look.last * 1000) : samples;
    return list.flatMap((s, i) => (i && s.at - list[i - 1].at > Math.max(s.apart, list[i - 1].apart) ? [{ at: list[i - 1].at + 1, devices: [], host: null }, s] : [s]));
  }

  function draw() {
    if (gone.signal.aborted) return;
    const list = shown(), x = list.map((s) => s.at / 1000), wanted = [];
    const ids = [...new Set(list.flatMap((s) => s.devices.map((d) => d.id)))];
    for (const id of ids) {
      const at = list.map((s) => s.devices.find((d) => d.id === id) ?? null);
      wanted.push([id, memoryOf(id, at)], [`${id}, moved`, movesOf(id, x, at)]);
    }
    if (ids.length) wanted.push(["host", hostOf(list)]);
    for (const [name, p] of panels) if (!wanted.some(([w]) => w === name)) { p.end(); panels.delete(name); }
    for (const [name, w] of wanted) if (!panels.has(name)) panels.set(name, stack(w.title));
    const elements = wanted.map(([name]) => panels.get(name).element);
    if (elements.length !== grid.children.length || elements.some((e, i) => e !== grid.children[i])) grid.replaceChildren(...elements);
    for (const [name, w] of wanted) panels.get(name).set({ x, ...w });
  }

  const of = (at, f) => at.map((d) => (d ? f(d) : null));

  // memoryOf is the picture of a device's memory.
  function memoryOf(id, at) {
    const newest = at.findLast((d) => d);
    const floor = of(at, (d) => d.floor), peak = of(at, (d) => d.peak), areas = look.by === "usage" ? byUsage(at) : byTraining(at);
    const lines = [
      { label: "floors", y: floor, dash: [2, 3], colour: css("--text") },
      { label: "peaks by plan", y: peak, dash: [7, 4], colour: css("--text") },
    ];
    const top = Math.max(1, ...at.map((d) => (d ? Math.max(d.peak, d.suspended ?? 0, sum(d.usage) + (d.suspended ?? 0)) : 0)));
    if (look.limit || top >= newest.limit / 4) lines.push({ label: "limit", y: of(at, (d) => d.limit), colour: css("--bad") });
    else lines.push({ label: "limit", above: newest.limit, colour: css("--bad") });
    return { title: id, areas, lines, unit: bytes };
  }

  function byUsage(at) {
    const list = usages.map((u, i) => ({ label: nameOf(u), colour: colour(i), y: of(at, (d) => d.usage[i]) }));
    list.push({ label: "suspended trainings", colour: colour(-1), y: of(at, (d) => d.suspended ?? 0) });
    return list.filter((a, i) => i < 2 || a.y.some((v) => v > 0));
  }

  function byTraining(at) {
    const largest = new Map();
    for (const d of at) for (const [name, n] of Object.entries(d?.who ?? {})) largest.set(name, Math.max(n, largest.get(name) ?? 0));
    const order = [...largest].sort((a, b) => b[1] - a[1]).map(([name]) => name), own = order.slice(0, ownColours).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const list = own.map((name, i) => ({ label: name, colour: colour(i), y: of(at, (d) => d.who?.[name] ?? 0) }));
    const rest = order.slice(ownColours);
    if (rest.length) list.push({ label: `${rest.length} others`, colour: colour(-1), y: of(at, (d) => sum(rest.map((name) => d.who?.[name] ?? 0))) });
    return list;
  }

  // movesOf is the picture of what moved between the host and a device, in bytes each second.
  function movesOf(id, x, at) {
    const rate = (f) => at.map((d, i) => (d && i && at[i - 1] ? Math.max(0, f(d) - f(at[i - 1])) / (x[i] - x[i - 1]) : null));
    const lines = [
      { label: "to the device", colour: colour(0), y: rate((d) => d.in) },
      { label: "to the host", colour: colour(1), y: rate((d) => d.out) },
      { label: "for lack of room", colour: colour(2), dash: [5, 3], y: rate((d) => d.spilled) },
    ];
    return { title: `${id}: moved to the host and back`, areas: [], lines, unit: (v) => bytes(Math.round(v)) + "/s" };
  }

  function hostOf(list) {
    const at = list.map((s) => (s.devices.length ? s.host : null)), newest = at.findLast((h) => h);
    const areas = [{ label: "tensors, batches and saves", colour: colour(0), y: of(at, (h) => h.tensors) }, { label: "data", colour: colour(1), y: of(at, (h) => h.data) }];
    const lines = [], top = Math.max(...at.map((h) => (h ? h.tensors + h.data : 0)));
    if (at.some((h) => h?.file)) lines.push({ label: "in a file beside it", colour: colour(3), dash: [5, 3], y: of(at, (h) => h.file ?? 0) });
    if (newest.limit) lines.push(look.limit || top >= newest.limit / 4 ? { label: "limit", y: of(at, (h) => h.limit || null), colour: css("--bad") } : { label: "limit", above: newest.limit, colour: css("--bad") });
    return { title: "Host memory", areas, lines, unit: bytes };
  }

  // table writes who has memory now.
  function table() {
    const n = (v) => el("td", { className: "number" }, v ? bytes(v) : dash);
    const some = usages.filter((u) => now?.devices.some((d) => d.tenants.some((t) => t.by_usage[u])));
    const rows = (now?.devices ?? []).flatMap((d) => d.tenants.sort(compared).map((t) => el("tr", {}, el("td", {}, d.id),
      el("td", { className: "name" }, tenantOf(t)), el("td", {}, t.suspended ? "suspended" : ""),
      n(sum(Object.values(t.by_usage))), ...some.map((u) => n(t.by_usage[u])), n(t.floor), n(t.peak), n(t.moves.in), n(t.moves.out), n(t.moves.spilled))));
    const head = (text, number) => el("th", { scope: "col", className: number ? "number" : "" }, text);
    who.replaceChildren(rows.length
      ? el("table", { "aria-label": "Who has memory now" }, el("thead", {}, el("tr", {}, head("Device"), head("Training"), head("State"), head("All", true),
        ...some.map((u) => head(nameOf(u), true)), head("Floor", true), head("Peak by plan", true), head("Moved in", true), head("Moved out", true), head("For lack of room", true))), el("tbody", {}, ...rows))
      : el("p", { className: "dim" }, now ? "Nobody has memory of a device." : "Not known now."));
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", draw);
  load();
  return {
    element,
    watch: () => (usages.length ? { memory: version } : {}),
    event(name, v) {
      if (name === "memory" && v.version > version) take(v);
      else if (name === "anew" && v.memory) load();
    },
    end() { gone.abort(); dark.removeEventListener("change", draw); for (const p of panels.values()) p.end(); },
  };
}
