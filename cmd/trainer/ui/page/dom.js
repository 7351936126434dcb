// Elements, and numbers as people read them. Texts of runs go into the page as text, never as HTML.

// moves are characters that nobody sees, and that move what stands around them: those that steer terminals, and those that turn the
// order of a text around.
const moves = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

// plain is a text with a mark in the place of each of those.
export const plain = (text) => String(text).replace(moves, "\ufffd");

// set sets a property of an element, or an attribute: those with a hyphen, "role", "for", "scope" and "href". What people read or hear is plain.
export function set(e, name, v) {
  if (name === "title" || name === "placeholder" || name.startsWith("aria-")) v = plain(v);
  if (name.includes("-") || ["role", "for", "scope", "href"].includes(name)) e.setAttribute(name, v);
  else e[name] = v;
}

// el makes an element: props are set as above, and on… are listeners.
export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, v] of Object.entries(props)) {
    if (v === undefined || v === null) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), v);
    else set(e, name, v);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null).map((c) => (c instanceof Node ? c : plain(c))));
  return e;
}

// setText changes a text only if it is another, so that screen readers stay silent.
export function setText(e, text) {
  text = plain(text);
  if (e.textContent !== text) e.textContent = text;
}

// setName is setText of a path or another name of parts, which may be broken between these.
export function setName(e, text) {
  text = plain(text);
  if (e.textContent === text) return;
  e.replaceChildren(...text.split(/(?<=[/_])/).flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
}

// brief is a name in few characters: its beginning and its end.
export const brief = (name) => (name.length > 48 ? name.slice(0, 20) + "…" + name.slice(-27) : name);

export const dash = "–";

// shares are metrics that are printed in percent.
const share = /^(train_|val_|test_)?(accuracy|precision|recall|f1|auc|top_\d+|balanced_accuracy)(_.*)?$/;

// number is a metric in few characters.
export function number(name, v) {
  if (v === undefined || v === null || !Number.isFinite(v)) return dash;
  if (share.test(name) && !/auc/.test(name)) return (v * 100).toFixed(2) + "%";
  if (name.endsWith("_bytes")) return bytes(v);
  if (Number.isInteger(v) && Math.abs(v) < 1e15) return v.toLocaleString("en-US");
  const a = Math.abs(v);
  if (a >= 1e6 || a < 1e-3) return v.toExponential(3);
  if (a >= 1000) return v.toLocaleString("en-US", { maximumFractionDigits: 1 });
  return v.toPrecision(4);
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i ? n.toFixed(1) : n) + " " + units[i];
}

// duration is a time of so many seconds in one or two units.
export function duration(s) {
  if (!(s >= 0)) return dash;
  s = Math.round(s);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d";
}

export function ago(time) {
  const at = Date.parse(time);
  if (!(at > 0)) return dash;
  const s = (Date.now() - at) / 1000;
  return s < 2 ? "now" : duration(s) + " ago";
}
