package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// stops are what Tab has to reach, in the order of the page.
const stops = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((e) => !e.disabled && e.checkVisibility({ visibilityProperty: true }) && e.tabIndex >= 0)`

// focused says what is wrong with the focus at a stop: "" is right.
const focused = `((i) => {
	const stops = ` + stops + `;
	const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(), name = (x) => x ? x.tagName + " " + (x.getAttribute("aria-label") ?? x.textContent).slice(0, 40) : "nothing";
	if (e !== stops[i]) return "the focus is at " + name(e) + ", not at " + name(stops[i]);
	if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) return name(e) + " has no outline: " + s.outline;
	if (r.bottom <= 0 || r.top >= innerHeight || r.right <= 0 || r.left >= innerWidth) return name(e) + " is out of sight";
	return "";
})`

// Tab reaches everything that does something, in the order of the page, and one sees where it is.
func TestTabOrder(t *testing.T) {
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			x := v.show(t)
			n := eval[int](x, stops+".length")
			if n < 10 {
				t.Fatalf("the page has only %d stops", n)
			}
			for i := range n {
				x.press(kb.Tab)
				if fault := eval[string](x, fmt.Sprintf("%s(%d)", focused, i)); fault != "" {
					t.Fatalf("after %d of %d: %s", i+1, n, fault)
				}
			}
		})
	}
}

// tabTo presses Tab until an expression of the element e with the focus is true.
func (x *tab) tabTo(is string) {
	x.t.Helper()
	for range 300 {
		x.press(kb.Tab)
		if eval[bool](x, fmt.Sprintf("Boolean(((e) => %s)(document.activeElement))", is)) {
			return
		}
	}
	x.t.Fatalf("Tab never leads to where %s", is)
}

// rowsAre waits until the table has so many rows.
func (x *tab) rowsAre(n int) {
	x.t.Helper()
	x.until(fmt.Sprintf(`document.querySelectorAll("#runs tbody tr").length === %d`, n))
}

// A user without a mouse filters, sorts, compares, leads on to a run, and does there all that one can do.
func TestKeyboard(t *testing.T) {
	x := views[0].show(t)

	x.press(kb.Tab, kb.Enter) // the first stop skips to the contents
	x.until(`document.activeElement.id === "view"`)

	x.tabTo(`e.type === "search"`)
	x.press("wide")
	x.rowsAre(1)
	x.press(kb.Backspace, kb.Backspace, kb.Backspace, kb.Backspace)
	x.rowsAre(rows)

	x.tabTo(`e.textContent === "Step"`)
	for _, order := range []string{"descending", "ascending"} {
		x.press(kb.Enter)
		x.until(`document.activeElement.closest("th").ariaSort === "` + order + `"`)
	}

	x.tabTo(`e.type === "checkbox"`)
	x.press(" ")
	x.tabTo(`e.type === "checkbox"`)
	x.press(" ")
	for !eval[bool](x, `document.activeElement.textContent === "Compare 2"`) {
		x.back()
	}
	x.press(kb.Enter)
	x.until(`document.querySelector("h1")?.innerText === "2 runs compared"`)
	x.until(drawn)

	x.tabTo(`e.textContent === "← All runs"`)
	x.press(kb.Enter)
	x.rowsAre(rows)
	x.tabTo(`e.textContent === "runs/digits-wide"`)
	x.press(kb.Enter)
	x.until(`document.querySelector("h1")?.innerText === "runs/digits-wide"`)
	x.until(drawn)

	x.tabTo(`e.tagName === "SELECT"`)
	x.press(kb.ArrowDown)
	x.until(`document.activeElement.value === "epoch"`)
	x.until(drawn)
	x.tabTo(`e.parentElement?.innerText.includes("Logarithmic")`)
	x.press(" ")
	x.until(`document.activeElement.checked`)
	x.tabTo(`e.type === "range"`)
	x.press(kb.ArrowRight, kb.ArrowRight)
	x.until(`document.activeElement.value === "0.04"`)
	x.tabTo(`e.parentElement?.innerText.includes("Times and memory")`)
	x.press(" ")
	x.until(`document.querySelector("figure[aria-label=samples_per_s] canvas")`)
	x.tabTo(`e.ariaLabel === "Zoom in"`)
	x.press(kb.Enter)
	x.until(`document.body.innerText.includes("a part is shown")`)
	for _, label := range []string{"To the left", "To the right"} {
		x.tabTo(`e.ariaLabel === "` + label + `"`)
		x.press(kb.Enter)
	}
	x.tabTo(`e.textContent === "All"`)
	x.press(kb.Enter)
	x.until(`!document.body.innerText.includes("a part is shown") && !document.body.innerText.includes("loading…")`)
	x.tabTo(`e.textContent === "Table of accuracy"`)
	x.press(kb.Enter)
	x.until(`document.activeElement.parentElement.open && document.activeElement.parentElement.querySelector("thead th")?.innerText === "epoch" && document.activeElement.parentElement.querySelectorAll("tbody tr").length === 16`)
	x.tabTo(`e.ariaLabel?.startsWith("Copy trainer eval")`)
	x.press(kb.Enter)
	x.until(`["Copied", "Select it, and copy"].includes(document.activeElement.textContent)`)
	lines := `document.querySelectorAll(".config tbody tr").length`
	few := eval[int](x, lines)
	x.tabTo(`e.parentElement?.innerText.includes("lines that differ")`)
	x.press(" ")
	x.until(fmt.Sprintf("%s > %d", lines, few+20))

	x.do(chromedp.NavigateBack()) // the browser's own way back
	x.rowsAre(rows)
}
