package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// shift presses a key with Shift.
func (x *tab) shift(key string) {
	x.t.Helper()
	x.do(chromedp.KeyEvent(key, chromedp.KeyModifiers(kb.ModifierShift)))
}

// said is what a screen reader has been told of the picture with the focus.
const said = `((e) => e.closest("figure")?.querySelector("[role=status]") ?? e.parentElement.parentElement.querySelector(":scope > [role=status]"))(document.activeElement).textContent`

// says presses a key, waits until an expression of what is said, t, holds, and gives that.
func (x *tab) says(key, js string) string {
	x.t.Helper()
	x.press(key)
	x.until(fmt.Sprintf("((t) => %s)(%s)", js, said))
	return eval[string](x, said)
}

// opens opens the table behind the picture with the focus, and leads into it.
func (x *tab) opens(rows string) {
	x.t.Helper()
	x.tabTo(`e.tagName === "SUMMARY"`)
	x.press(kb.Enter)
	x.until(fmt.Sprintf(`document.activeElement.parentElement.open && ((n) => %s)(document.activeElement.parentElement.querySelectorAll("tbody tr").length)`, rows))
	x.press(kb.Tab)
	x.until(`document.activeElement.classList.contains("rows")`)
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

	x.tabTo(`e.className === "plot" && e.ariaLabel.startsWith("accuracy. ")`)
	first := x.says(kb.ArrowRight, `/^epoch 1.00: train .*; val /.test(t)`)
	if second := x.says(kb.ArrowRight, `t.startsWith("epoch 2.00: ")`); second == first {
		t.Errorf("two points have the same values: %s", first)
	}
	x.shift(kb.ArrowRight)
	x.says(kb.End, `t.startsWith("epoch 8.00: ")`)
	x.says(kb.Home, `t === `+quoted(t, first))
	for range 3 {
		x.shift(kb.ArrowRight)
	}
	x.until(`document.querySelector("figure[aria-label=accuracy] .u-select").getBoundingClientRect().width > 20`)
	x.says(kb.Enter, `t === "from 1.00 to 4.00"`)
	x.until(`document.body.innerText.includes("a part is shown")`)
	x.says(kb.ArrowLeft, `t.startsWith("epoch 3.00: ")`)
	x.says("+", `t === "from 2.00 to 3.50"`)
	x.says(kb.PageUp, `t === "from 1.25 to 2.75"`)
	x.says("-", `t === "from 0.08 to 3.08"`) // steps have points before the first boundary

	for range 60 { // as often as halves a number to its last bit
		x.press("+")
	}
	x.until(`document.body.innerText.includes("a part is shown") && !document.body.innerText.includes("loading…")`)
	x.check()
	x.says("0", `t === "all is shown"`)
	x.until(`!document.body.innerText.includes("a part is shown") && !document.body.innerText.includes("loading…")`)
	x.says(kb.Escape, `t === ""`)
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

// The same user looks through a sweep: trials, ranges, points and their tables, order and comparison.
func TestKeyboardSweep(t *testing.T) {
	x := views[slices.IndexFunc(views, func(v view) bool { return v.name == "sweep" })].show(t)
	row := func(n string) string {
		t.Helper()
		return eval[string](x, `[...document.querySelectorAll("#trials tbody tr")].at(`+n+`).children[1].innerText`)
	}

	x.tabTo(`e.tagName === "CANVAS"`) // trials from the best to the worst, as the table has them
	x.says(kb.ArrowDown, `t.startsWith("trial `+row("0")+`,")`)
	x.says(kb.ArrowDown, `t.startsWith("trial `+row("1")+`,")`)
	x.says(kb.ArrowUp, `t.startsWith("trial `+row("0")+`,")`)
	x.says(kb.End, `t.startsWith("trial `+row("-1")+`,")`)
	x.says(kb.Escape, `t.startsWith("The best: trial `+row("0")+`,")`)

	x.tabTo(`e.ariaLabel === "optimizer.lr, at least"`)
	x.press(kb.PageUp, kb.PageUp, kb.PageUp, kb.PageUp)
	x.until(fmt.Sprintf(`((n) => n > 0 && n < %d && %s.startsWith(n + " of %d trials are in the chosen ranges"))(document.querySelectorAll("#trials tbody tr").length)`, trials, said, trials))
	if v := eval[string](x, `document.activeElement.getAttribute("aria-valuetext")`); v == "" || v == "1e-4" {
		t.Errorf("the range begins at %q", v)
	}
	x.press(kb.Escape)
	x.until(fmt.Sprintf(`document.querySelectorAll("#trials tbody tr").length === %d`, trials))

	x.tabTo(`e.className === "plot" && e.ariaLabel.startsWith("val_loss over optimizer.lr")`)
	value := func(text string) (v float64) {
		t.Helper()
		if _, err := fmt.Sscanf(text[strings.Index(text, "val_loss "):], "val_loss %f", &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return v
	}
	x.says(kb.Home, `t.startsWith("trial ")`)
	left := x.says(kb.ArrowRight, `t.startsWith("trial ")`)
	x.says(kb.ArrowLeft, `t.startsWith("trial ") && t !== `+quoted(t, left))
	x.says(kb.ArrowRight, `t === `+quoted(t, left))
	if eval[bool](x, said+`.startsWith("trial `+row("0")+`,")`) {
		x.press(kb.ArrowUp)
	} else {
		x.press(kb.ArrowDown)
	}
	x.until(said + " !== " + quoted(t, left))
	if other := eval[string](x, said); (value(other) > value(left)) != strings.HasPrefix(left, "trial "+row("0")+",") {
		t.Errorf("%s is not beyond %s", other, left)
	}
	x.says(kb.Escape, `t === ""`)
	x.opens(fmt.Sprintf("n === %d", trials))

	x.tabTo(`e.tagName === "BUTTON" && e.textContent === "Trial"`)
	for _, order := range []string{"ascending", "descending"} {
		x.press(kb.Enter)
		x.until(`document.activeElement.closest("th").ariaSort === "` + order + `"`)
	}
	if first := row("0"); first != fmt.Sprint(trials) {
		t.Errorf("the first of the trials is %s", first)
	}
	for range 2 {
		x.tabTo(`e.type === "checkbox"`)
		x.press(" ")
	}
	for !eval[bool](x, `document.activeElement.textContent === "Compare 2"`) {
		x.back()
	}
	x.press(kb.Enter)
	x.until(`document.querySelector("h1")?.innerText === "2 runs compared"`)
	x.until(drawn)
	x.tabTo(`e.className === "plot" && e.ariaLabel.startsWith("loss. ")`)
	x.says(kb.End, `/^step [\d,]+: .*trial-.*trial-/.test(t)`)
}

// And the same through memory, and through a step.
func TestKeyboardOfDaemon(t *testing.T) {
	memory := views[slices.IndexFunc(views, func(v view) bool { return v.name == "memory" })]
	x := memory.show(t)
	x.tabTo(`e.tagName === "SELECT"`)
	x.press(kb.ArrowDown)
	x.until(`document.activeElement.value === "training" && document.querySelector("figure .legend").innerText.includes("1 digits")`)
	x.press(kb.ArrowUp)
	x.until(`document.querySelector("figure .legend").innerText.includes("optimizer state")`)
	x.tabTo(`e.tagName === "SELECT"`)
	x.press(kb.ArrowUp)
	x.until(`document.activeElement.value === "120"`)
	x.tabTo(`e.type === "checkbox"`)
	x.press(" ")
	x.until(`!document.querySelector("figure .legend").innerText.includes("above the picture")`)
	x.press(" ")

	x.tabTo(`e.className === "plot" && e.ariaLabel.startsWith("cpu:0. ")`)
	x.says(kb.ArrowRight, `/^\d\d:\d\d:\d\d: weights \d.*; peaks by plan \d/.test(t)`)
	const far = `/^from [^:]+(:\d\d:\d\d)? to [^:]+(:\d\d:\d\d)?$/.test(t)`
	for end := time.Now().Add(patience); !eval[bool](x, `/^from \S+: \d\d/.test(`+said+`)`); x.shift(kb.ArrowRight) { // until a second sample has come
		if time.Now().After(end) {
			t.Fatal("no part can be chosen")
		}
	}
	x.says(kb.Enter, far)
	x.says("-", `t === "all is shown" || `+far)
	x.says("0", `t === "all is shown"`)
	x.opens("n > 1")

	x.press(kb.Escape)
	x.do(chromedp.Navigate(strings.Replace(eval[string](x, "location.href"), "/memory", "", 1)))
	x.tabTo(`e.textContent === "runs/busy"`)
	x.press(kb.Enter)
	x.until(drawn)
	x.tabTo(`e.textContent === "Trace the next step"`)
	x.press(kb.Enter)
	x.until(`document.querySelector("canvas.steps")`)
	x.tabTo(`e.className === "steps"`)
	one := x.says(kb.ArrowRight, `t.startsWith("Measured, cpu:0 ")`)
	two := x.says(kb.ArrowDown, `/^(Measured|Simulated), /.test(t) && t !== `+quoted(t, one))
	if shown := x.text(".pointed"); shown != two {
		t.Errorf("%q is said, and %q shown", two, shown)
	}
	x.says(kb.ArrowUp, `t.startsWith("Measured, cpu:0 ") && t !== `+quoted(t, two))
	x.shift(kb.ArrowRight)
	x.until(`/^from .* to .*: Measured, /.test(` + said + `)`)
	part := x.says(kb.Enter, far)
	wide := x.says("-", far+` && t !== `+quoted(t, part))
	near := x.says("+", far+` && t !== `+quoted(t, wide))
	x.says(kb.PageDown, far+` && t !== `+quoted(t, near))
	step := x.says("0", far)
	x.says("+", far+` && t !== `+quoted(t, step))
	x.says(kb.Escape, `t === ""`)
	x.opens("n > 1")
}
