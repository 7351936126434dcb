// The picture of a run's plan, as trainer plan --svg draws it. It is shown as an image: scripts in it would not run.
import { get } from "/api.js";
import { el, set, setText } from "/dom.js";

export function planView(run) {
  const gone = new AbortController();
  const note = el("p", { className: "dim", role: "status" }, "How the model is split over devices, and the predicted step.");
  const button = el("button", { type: "button", onclick: () => draw() }, "Draw the plan");
  const picture = el("div", { className: "wide" });
  const table = el("pre", { className: "log", tabIndex: 0, role: "region", "aria-label": "Table of the plan" });
  const behind = el("details", { hidden: true }, el("summary", {}, "Table of the plan"), table);
  const element = el("section", {}, el("h2", {}, "Plan"), note, button, picture, behind);
  let url = "";

  async function draw() {
    button.disabled = true;
    setText(note, "Planning…");
    try {
      const p = await get("/api/plan", { run }, gone.signal);
      URL.revokeObjectURL(url);
      url = URL.createObjectURL(new Blob([p.svg], { type: "image/svg+xml" }));
      const image = el("img", { className: "plan", alt: "The stages of the plan with their layers, devices and memory, and the predicted step. The table below has the same." });
      image.addEventListener("error", () => setText(note, "The browser cannot show the picture."));
      image.src = url;
      picture.replaceChildren(image);
      picture.tabIndex = 0; // it may be wider than the screen
      set(picture, "role", "region");
      set(picture, "aria-label", "Picture of the plan");
      setText(table, p.table);
      behind.hidden = false;
      button.hidden = true;
      setText(note, "");
    } catch (e) {
      if (gone.signal.aborted) return;
      setText(note, e.message);
      setText(button, "Try again");
    }
    button.disabled = false;
  }

  return { element, end() { gone.abort(); URL.revokeObjectURL(url); } };
}
