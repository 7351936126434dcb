package browser

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
	"\u202egnp.exe\u2066\u200b",
	"\x1b]0;owned\x07\x1b[31m\u009b2J",
}

// inFiles are further ones, which no file's name can have.
var inFiles = append([]string{"a\x00b", "</script><script>window.hacked=1</script>", "two\tparts"}, attacks...)

// moves are characters that turn the order of a text around, hide, or steer a terminal.
var moves = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f-\x{9f}\x{061c}\x{200b}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{feff}]`)

// printed is a text as the page may show it: with a mark in the place of each of those.
func printed(text string) string { return moves.ReplaceAllString(text, "\ufffd") }

// Names of runs, configs and metrics, and lines of logs, are shown as they are: none becomes a script, an element or a breach of
// the page's policy, and none makes the page wider than the window.
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
		write(t, filepath.Join(dir, "log"), strings.Join(inFiles, "\n")+"\n")
	}
	for _, text := range inFiles {
		edit(t, filepath.Join(runs, "plain", "metrics.jsonl"), `"val_loss"`, quoted(t, text)+`:0.5,"val_loss"`)
	}
	edit(t, filepath.Join(runs, "plain", "config.yaml"), "name: digits\n", "name: "+quoted(t, inFiles[0])+"\n")
	at, end := p.serve(t)
	t.Cleanup(end)
	ids := idsOf(t, at)

	x := open(t, at)
	x.rowsAre(len(attacks) + 1)
	x.unharmed("the table", attacks...)
	for _, text := range attacks {
		x.visit("/run/" + ids[text])
		x.until(drawn)
		x.until(`!document.querySelector("pre.log").hidden`)
		x.unharmed("the run "+text, "runs/"+text, text, inFiles[1])
	}
	x.visit("/run/" + ids["plain"])
	x.until(drawn)
	x.unharmed("the run with every metric", inFiles...)
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

// Trials whose folders, keys and values are so are no worse: their names, axes, points, tables and what is said of them.
func TestHostileSweep(t *testing.T) {
	need(t)
	p := newPlace(t, t.TempDir())
	p.train(t, "plain", "train.epochs=1", "train.batch=256")
	folder := attacks[0] + attacks[len(attacks)-2] + attacks[len(attacks)-3]
	for i, text := range inFiles {
		dir := filepath.Join(p.dir, "runs", folder, fmt.Sprintf("trial-%03d", i+1))
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(p.dir, "runs", "plain"))); err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(dir, "config.yaml"), "host_memory: 0\n", "host_memory: 1GiB\n  spill_dir: "+quoted(t, text)+"\n")
	}
	at, end := p.serve(t)
	t.Cleanup(end)
	x := open(t, at)
	x.rowsAre(2)
	eval[chromedp.Void](x, `document.querySelector(".fold:not([hidden])").click()`)
	x.rowsAre(2 + len(inFiles))
	x.unharmed("the table", folder, "trial-001")
	ids := idsOf(t, at)
	x.visit("/sweep/" + ids["sweep"])
	x.until(fmt.Sprintf(`document.querySelectorAll("#trials tbody tr").length === %d && document.querySelector("figure .plot canvas")`, len(inFiles)))
	eval[bool](x, `[...document.querySelectorAll("details")].every((d) => (d.open = true))`)
	values := slices.DeleteFunc(slices.Clone(inFiles), func(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }) // YAML escapes the others
	x.unharmed("the sweep", append(values, folder, "devices.spill_dir")...)
	x.tabTo(`e.className === "plot"`)
	for range inFiles {
		x.says(kb.ArrowRight, `t.startsWith("trial ")`)
	}
	x.unharmed("what is said")
	x.visit("/run/" + ids["trial-001"])
	x.until(drawn)
	x.unharmed("a trial", folder)
}

// write writes a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
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
	write(t, path, strings.ReplaceAll(string(b), old, text))
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
	names := eval[string](x, `[document.title, ...[...document.querySelectorAll("*")].flatMap((e) => [...e.attributes].filter((a) => ["title", "placeholder"].includes(a.name) || a.name.startsWith("aria-")).map((a) => a.value))].join("\n")`)
	for _, want := range shown {
		if !strings.Contains(text, printed(want)) {
			x.t.Errorf("%s: %q is not shown", where, want)
		}
	}
	if m := moves.FindString(text + names); m != "" {
		x.t.Errorf("%s: the page has the character %q", where, m)
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
