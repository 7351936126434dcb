package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// view is a view of the page. Each test of views goes through all.
type view struct {
	name  string
	busy  bool               // it is of the workshop, not of the gallery
	place func(*site) string // is behind the token in the URL
	ready string             // holds once all is there
	press []string           // buttons that are pressed then
	after string             // holds once they have done what they do
	shows []string           // texts that are visible then
}

const drawn = `!document.querySelector(".bar")?.parentElement.innerText.includes("loading…") && [...document.querySelectorAll("figure")].length > 0 && [...document.querySelectorAll("figure")].every((f) => f.querySelector("canvas"))`

// rows is the number of rows that the table of the gallery has while no sweep is unfolded.
const rows = 5

var views = []view{
	{
		name: "table", place: func(*site) string { return "" }, ready: fmt.Sprintf(`document.querySelectorAll("#runs tbody tr").length === %d`, rows),
		press: []string{".fold:not([hidden])"}, after: fmt.Sprintf(`document.querySelectorAll("#runs tbody tr").length === %d`, rows+trials),
		shows: []string{"Runs and jobs", "runs/digits-wide", "finished"},
	},
	{
		name: "run", place: func(s *site) string { return "/run/" + s.ids["digits-wide"] }, ready: drawn,
		press: []string{"section > button", "figure[aria-label=accuracy] summary"}, after: `document.querySelector("img.plan")?.complete`,
		shows: []string{"runs/digits-wide", "Curves", "trainer eval", "Checkpoints", "≠ model.hidden", "[256, 128]"},
	},
	{
		name: "trial", place: func(s *site) string { return "/run/" + s.ids["trial-001"] }, ready: drawn + ` && document.querySelector("pre.log")?.innerText.includes("epoch 2/2")`,
		shows: []string{"Log", "epoch 2/2", "Beside"},
	},
	{
		name: "compare", place: func(s *site) string {
			return "/compare/" + s.ids["digits"] + "," + s.ids["digits-wide"] + "," + s.ids["digits-slow-schedule-of-a-long-name"]
		}, ready: drawn, press: []string{"figure[aria-label=accuracy] summary"},
		shows: []string{"3 runs compared", "optimizer.lr", "0.0002"},
	},
	{
		name: "sweep", place: func(s *site) string { return "/sweep/" + s.ids["sweep"] }, ready: fmt.Sprintf(`document.querySelectorAll("#trials tbody tr").length === %d`, trials),
		press: []string{"figure summary"},
		shows: []string{"Parallel coordinates", "optimizer.lr", "val_loss", "[32,16]"},
	},
	{
		name: "memory", busy: true, place: func(*site) string { return "/memory" },
		ready: `document.querySelectorAll("figure canvas").length >= 3 && document.querySelector(".wide tbody tr")`,
		press: []string{"figure summary"},
		shows: []string{"Memory", "cpu:0", "Host memory", "optimizer state"},
	},
	{
		name: "step", busy: true, place: func(s *site) string { return "/run/" + s.ids["busy"] },
		ready: drawn + ` && document.querySelector("figure[aria-label=accuracy] canvas") && [...document.querySelectorAll(".command")].length > 4`, // a boundary has come
		press: []string{"section:first-of-type .bar > button"}, after: `document.querySelector("canvas.steps") && (document.querySelector("section:first-of-type details").open = true)`,
		shows: []string{"measured", "simulated", "Schedule"},
	},
}

// show opens a view, and waits until all is there.
func (v view) show(t *testing.T) *tab {
	t.Helper()
	at := gallery
	if v.busy {
		at = workshop
	}
	s := at(t)
	x := open(t, s.url+v.place(s))
	x.until(v.ready)
	return x
}

// overflow lists what is wider than the window, outside of boxes that scroll.
const overflow = `(() => {
	const wide = [], scrolls = (e) => { for (; e && e !== document.body; e = e.parentElement) if (getComputedStyle(e).overflowX !== "visible") return true; return false; };
	if (document.documentElement.scrollWidth > innerWidth) wide.push("the page: " + document.documentElement.scrollWidth);
	for (const e of document.querySelectorAll("body *")) {
		const r = e.getBoundingClientRect();
		if (r.width && r.right > innerWidth + 1 && r.left > -900 && !scrolls(e.parentElement)) wide.push(e.tagName + "." + e.className + " to " + r.right + ": " + e.textContent.slice(0, 60));
	}
	return wide;
})()`

// Each view shows what it should, in each size and colour, nothing wider than the window, and without findings of axe-core.
func TestViews(t *testing.T) {
	need(t)
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			x := v.show(t)
			for _, button := range v.press {
				eval[chromedp.Void](x, fmt.Sprintf("document.querySelector(%q).click()", button))
			}
			if v.after != "" {
				x.until(v.after)
			}
			text := eval[string](x, "document.body.innerText")
			for _, want := range v.shows {
				if !strings.Contains(text, want) {
					t.Errorf("the page lacks %q:\n%s", want, text)
				}
			}
			eval[bool](x, string(axe)+"; true")
			for _, width := range []int64{1280, 400} {
				for _, colour := range []string{"light", "dark"} {
					x.size(width, 800)
					x.colour(colour)
					x.settled()
					name := fmt.Sprintf("%s-%d-%s", v.name, width, colour)
					if wide := eval[[]string](x, overflow); len(wide) > 0 {
						t.Errorf("%s: too wide: %s", name, strings.Join(wide, "; "))
					}
					if *shots != "" {
						if err := os.WriteFile(filepath.Join(*shots, name+".png"), x.shot(), 0o644); err != nil {
							t.Fatal(err)
						}
					}
					x.axe(name)
				}
			}
		})
	}
}

// finding is a rule of axe-core that elements break.
type finding struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// axe fails the test for findings of axe-core, whose script the page has.
func (x *tab) axe(name string) {
	x.t.Helper()
	result := eval[string](x, `axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify({ findings: r.violations, passed: r.passes.length }))`)
	var r struct {
		Findings []finding
		Passed   int
	}
	if err := json.Unmarshal([]byte(result), &r); err != nil {
		x.t.Fatal(err)
	}
	if r.Passed < 15 {
		x.t.Errorf("%s: only %d rules of axe-core were tried", name, r.Passed)
	}
	for _, f := range r.Findings {
		x.t.Errorf("%s: %s: %s", name, f.ID, f.Help)
		for _, n := range f.Nodes[:min(3, len(f.Nodes))] {
			x.t.Logf("    %s\n    %s", n.HTML, n.FailureSummary)
		}
	}
}
