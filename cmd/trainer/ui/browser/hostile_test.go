package browser

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// attacks are texts that a page which takes texts of runs for HTML, or for code, would run.
var attacks = []string{
	`<img src=x onerror=window.hacked=1>`,
	`"><svg onload=window.hacked=1>`,
	`'};window.hacked=1;{'`,
	`javascript:window.hacked=1`,
	`<iframe srcdoc='<script>parent.hacked=1<script>'>`,
	`#x,y&z%3Cb%3E`,
	strings.Repeat("long", 50),
}

// Names of runs, configs and metrics are shown as they are: none becomes a script, an element or a breach of the page's policy, and
// none makes the page wider than the window.
func TestHostileRuns(t *testing.T) {
	need(t)
	p := newPlace(t, t.TempDir())
	p.train(t, "plain", "train.epochs=2", "train.batch=128")
	runs := filepath.Join(p.dir, "runs")
	for _, text := range attacks {
		dir := filepath.Join(runs, text)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(runs, "plain"))); err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(dir, "config.yaml"), "name: digits\n", "name: "+quoted(t, text)+"\n")
		edit(t, filepath.Join(dir, "metrics.jsonl"), `"val_loss"`, quoted(t, text)+`:0.5,"val_loss"`)
	}
	at, end := p.serve(t)
	t.Cleanup(end)
	ids := idsOf(t, at)

	x := open(t, at)
	x.rowsAre(len(attacks) + 1)
	x.unharmed("the table", attacks...)
	for _, text := range attacks {
		x.visit("/run/" + ids[text])
		x.until(drawn)
		x.unharmed("the run "+text, "runs/"+text, text)
	}
	x.visit("/compare/" + strings.Join(slices.Sorted(maps.Values(ids)), ","))
	x.until(drawn)
	x.unharmed("the comparison", attacks...)
	x.refused = true
	for _, text := range attacks { // the view itself
		x.visit("/run/" + url.PathEscape(text))
		x.until(`document.querySelector("[role=alert]")?.innerText`)
		x.unharmed("a view of a run that is not there")
	}
}

// edit replaces a text in a file, which must have it.
func edit(t *testing.T, path, old, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s lacks %s", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(b), old, text)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// quoted is a text as JSON, and as YAML.
func quoted(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// visit leads to another view of the page that is open.
func (x *tab) visit(place string) {
	x.t.Helper()
	eval[bool](x, fmt.Sprintf(`(location.hash = location.hash.split("/")[0] + %s, document.getElementById("view").replaceChildren(), true)`, quoted(x.t, place)))
	x.until(`document.getElementById("view").textContent`)
}

// unharmed fails the test where a text has done something, or is not shown.
func (x *tab) unharmed(where string, shown ...string) {
	x.t.Helper()
	if eval[bool](x, "window.hacked !== undefined") {
		x.t.Fatalf("%s: a script of a run ran", where)
	}
	if html := eval[[]string](x, `[...document.querySelectorAll("img, iframe, object, embed, body script, [onerror], [onload], [srcdoc], a:not([href^='#'])")].filter((e) => e.id !== "home").map((e) => e.outerHTML)`); len(html) > 0 {
		x.t.Fatalf("%s: a text has become HTML: %s", where, html)
	}
	text := eval[string](x, "document.body.textContent")
	for _, want := range shown {
		if !strings.Contains(text, want) {
			x.t.Errorf("%s: %q is not shown", where, want)
		}
	}
	for _, width := range []int64{1280, 400} {
		x.size(width, 800)
		x.settled()
		if wide := eval[[]string](x, overflow); len(wide) > 0 {
			x.t.Errorf("%s: too wide at %d: %s", where, width, strings.Join(wide, "; "))
		}
	}
	x.check()
}
