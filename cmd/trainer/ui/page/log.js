// The log of a run, as its job prints it.
import { el, setText } from "/dom.js";

const most = 200000; // characters that are kept

export function logView() {
  const text = el("pre", { className: "log", tabIndex: 0, role: "region", "aria-label": "Log" });
  const note = el("p", { className: "dim" }, "Loading…");
  const element = el("section", {}, el("h2", {}, "Log"), note, text);
  let shown = "", cut = false;
  text.hidden = true;
  return {
    element,
    // take takes an event of the stream.
    take(e) {
      const end = text.scrollTop + text.clientHeight >= text.scrollHeight - 20;
      if (e.anew) [shown, cut] = ["", false];
      if (e.cut) [shown, cut] = [e.anew ? "" : shown + "…\n", true];
      shown += e.text;
      if (shown.length > most) {
        shown = shown.slice(-most);
        shown = shown.slice(shown.indexOf("\n") + 1);
        cut = true;
      }
      text.hidden = !e.has;
      setText(text, shown);
      setText(note, !e.has ? "There is none: a run has a log where it is a job of the queue." : cut ? "Its end. trainer jobs logs prints all of it." : "");
      if (end || e.anew) text.scrollTop = text.scrollHeight;
    },
  };
}
