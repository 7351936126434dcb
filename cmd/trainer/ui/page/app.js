// The page: what it knows of the table, the stream that keeps it so, and which view is shown.
import { events, get, link, place } from "/api.js";
import { el, setText } from "/dom.js";
import { tableView } from "/table.js";
import { runView } from "/run.js";
import { memoryView } from "/memory.js";
import { sweepView } from "/sweep.js";

const view = document.getElementById("view"), live = document.getElementById("live");

// table is what the server has told: rows by ID, and the version up to which.
export const table = { rows: new Map(), folder: "", instance: "", version: 0 };

let shown = null; // the view: { element, rows(ids), event(name, value), watch, end() }
let stream = null; // the AbortController of the stream

function tell(text) { setText(live, text); }

async function load() {
  const all = await get("/api/table");
  table.rows = new Map(all.rows.map((r) => [r.id, r]));
  Object.assign(table, { folder: all.folder, instance: all.instance, version: all.version });
  setText(document.getElementById("folder"), all.folder);
  document.getElementById("memory").hidden = !all.memory;
}

// take brings the table up to date.
function take(name, v) {
  tell("live");
  if (name === "reload") return true;
  if (name !== "rows") { shown?.event?.(name, v); return false; }
  for (const r of v.rows) table.rows.set(r.id, r);
  for (const id of v.gone ?? []) table.rows.delete(id);
  table.version = v.version;
  shown?.rows?.(new Set([...v.rows.map((r) => r.id), ...(v.gone ?? [])]));
  return false;
}

// follow keeps a stream open until another takes its place. One that is cut goes on where it was.
export async function follow() {
  stream?.abort();
  const mine = (stream = new AbortController());
  for (let pause = 500; !mine.signal.aborted; pause = Math.min(2 * pause, 8000)) {
    let anew = false;
    try {
      const w = shown?.watch?.() ?? {};
      await events({ instance: table.instance, since: table.version, ...w }, mine.signal, (name, v) => {
        if (mine.signal.aborted) return true; // it is for another view
        pause = 500;
        anew = name === "reload";
        return take(name, v);
      });
      if (anew && !mine.signal.aborted) { await load(); show(); return; }
    } catch (e) {
      if (mine.signal.aborted) return;
      if (e.status === 401 || e.status === 403) { refuse(e); return; }
    }
    if (mine.signal.aborted) return;
    tell("not connected, tries again");
    await new Promise((done) => setTimeout(done, pause));
  }
}

function refuse(e) {
  tell("");
  view.replaceChildren(el("h1", {}, "This page cannot be shown"), el("p", {}, e.message),
    el("p", {}, "trainer ui prints a URL with a new token each time it starts: open that."));
}

// show shows the view that the URL names.
function show() {
  shown?.end?.();
  const [kind, ids = ""] = place().view;
  document.getElementById("home").href = link();
  document.getElementById("memory").href = link("memory");
  const list = ids.split(",").filter(Boolean);
  if ((kind === "run" || kind === "compare") && list.length) shown = runView(list);
  else if (kind === "memory") shown = memoryView();
  else if (kind === "sweep" && ids) shown = sweepView(ids);
  else shown = tableView();
  view.replaceChildren(shown.element);
  follow();
}

let token = place().token;
addEventListener("hashchange", () => {
  if (place().token !== token) { location.reload(); return; }
  show();
  view.focus();
  scrollTo(0, 0);
});
document.getElementById("skip").addEventListener("click", (e) => { e.preventDefault(); view.focus(); });

if (!token) refuse(new Error("The URL lacks the token."));
else load().then(show, (e) => refuse(e));
