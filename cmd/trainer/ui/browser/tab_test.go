package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is a page in the browser. The test fails if a script of the page throws, if its policy is violated, or if the browser
// tells any other error.
type tab struct {
	t       *testing.T
	ctx     context.Context
	mu      sync.Mutex
	faults  []string
	refused bool // requests may fail: the test cuts them, or asks for what there is not
}

// violations keeps the breaches of the page's policy in the page.
const violations = `window.violations = []; addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

// open opens a URL in a tab that has nothing of others.
func open(t *testing.T, url string) *tab {
	t.Helper()
	b, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	x := &tab{t: t}
	ctx, cancel := chromedp.NewContext(b, chromedp.WithNewBrowserContext(), chromedp.WithListener(x.hear))
	x.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // makes the tab, which lives as long as the context given here
		cancel()
		t.Fatal(err)
	}
	call(x, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: violations})
	call(x, log.Enable, cdp.Empty{})
	t.Cleanup(func() {
		defer cancel()
		x.check()
	})
	x.size(1280, 800)
	x.do(chromedp.Navigate(url))
	return x
}

// hear keeps what the browser tells of errors.
func (x *tab) hear(event any) {
	var fault string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		fault = fmt.Sprintf("a script throws: %s", text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text, _ := json.Marshal(e.Args)
			fault = fmt.Sprintf("console: %s", text)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !(x.refused && e.Entry.Source == log.EntrySourceNetwork) {
			fault = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
	if fault != "" {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.faults = append(x.faults, fault)
	}
}

// check fails the test for errors so far.
func (x *tab) check() {
	x.t.Helper()
	list := eval[[]string](x, "violations")
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range append(list, x.faults...) {
		x.t.Error(f)
	}
	x.faults = nil
}

// run runs an action in a tab, and gives its value.
func run[T any](x *tab, a chromedp.Action[T]) T {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		x.t.Fatal(err)
	}
	return v
}

// call sends the browser a command for a tab.
func call[P, R any](x *tab, c cdp.Command[P, R], p P) R {
	x.t.Helper()
	return run(x, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, p) })
}

func (x *tab) do(a chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	run(x, a)
}

// eval gives the value of an expression of JavaScript, a promise's too.
func eval[T any](x *tab, js string) T {
	x.t.Helper()
	return run(x, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
}

// until waits for an expression to be true.
func (x *tab) until(js string) {
	x.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if eval[bool](x, "Boolean("+js+")") {
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("it never was that %s. The page:\n%s", js, eval[string](x, "document.body.innerText.slice(0, 3000)"))
		}
	}
}

// text is what an element shows.
func (x *tab) text(selector string) string {
	x.t.Helper()
	return eval[string](x, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// press types keys, one after the other.
func (x *tab) press(keys ...string) {
	x.t.Helper()
	for _, k := range keys {
		x.do(chromedp.KeyEvent(k))
	}
}

// back presses Tab with Shift.
func (x *tab) back() {
	x.t.Helper()
	x.do(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(kb.ModifierShift)))
}

// size makes the window so large, in CSS pixels.
func (x *tab) size(width, height int64) {
	x.t.Helper()
	call(x, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// colour is "light" or "dark".
func (x *tab) colour(name string) {
	x.t.Helper()
	call(x, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// settled waits until the browser has drawn what the page has now.
func (x *tab) settled() {
	x.t.Helper()
	eval[bool](x, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
}

// shot is a picture of the page, to its end.
func (x *tab) shot() (png []byte) {
	x.t.Helper()
	x.settled()
	return run(x, chromedp.FullScreenshot(100))
}

// idsOf asks a server for the IDs of its runs, by the names of their folders.
func idsOf(t *testing.T, url string) map[string]string {
	t.Helper()
	base, token, _ := strings.Cut(url, "#")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"api/table", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatal(a.Status, err, string(text))
	}
	var table struct {
		Rows []struct {
			ID    string
			Run   *struct{ Run string }
			Sweep *struct{}
		}
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, row := range table.Rows {
		switch {
		case row.Run != nil:
			ids[filepath.Base(row.Run.Run)] = row.ID
		case row.Sweep != nil:
			ids["sweep"] = row.ID
		}
	}
	return ids
}
