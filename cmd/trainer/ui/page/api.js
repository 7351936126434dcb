// Requests to the server, with the token of the URL.

// The part of the URL behind # is TOKEN or TOKEN/VIEW. Browsers do not send it.
export function place() {
  const [token, ...view] = location.hash.slice(1).split("/");
  return { token, view: view.map((x) => { try { return decodeURIComponent(x); } catch { return ""; } }) };
}

export function link(...view) {
  return "#" + [place().token, ...view.map(encodeURIComponent)].join("/");
}

export class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

async function ask(path, params, signal) {
  const q = new URLSearchParams();
  for (const [name, v] of Object.entries(params)) {
    for (const x of Array.isArray(v) ? v : [v]) if (x !== undefined) q.append(name, x);
  }
  const a = await fetch(path + "?" + q, { headers: { Authorization: "Bearer " + place().token }, signal, cache: "no-store" });
  if (!a.ok) {
    let text = "the server answers with " + a.status;
    try { text = (await a.json()).error; } catch { /* it is not of the server */ }
    throw new Refused(a.status, text);
  }
  return a;
}

export async function get(path, params = {}, signal = undefined) {
  return (await ask(path, params, signal)).json();
}

// events gives each server-sent event of a stream to take(name, value), until the stream ends or take returns true.
export async function events(params, signal, take) {
  const reader = (await ask("/api/events", params, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const m = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end));
      if (m && take(m[1], JSON.parse(m[2]))) { reader.cancel(); return; }
    }
  }
}
