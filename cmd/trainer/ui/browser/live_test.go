package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// start starts a command, which is killed at the end of the test.
func (p *place) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := p.command(args...)
	var told bytes.Buffer
	c.Stdout, c.Stderr = &told, &told
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
		if t.Failed() {
			t.Logf("trainer %s:\n%s", strings.Join(args, " "), &told)
		}
	})
	return c
}

// long is a training of at most 240 boundaries, each of which takes some tenths of a second.
func long(run string) []string {
	return trainArgs(run, "train.epochs=240", "train.batch=128", "model.hidden=[1024,1024]")
}

// workshop is a page beside a daemon that trains, until the test ends.
func workshop(t *testing.T) *site {
	t.Helper()
	need(t)
	p := newPlace(t, t.TempDir())
	at, end := p.serve(t)
	t.Cleanup(end)
	daemon := p.start(t, "up", "--devices", "cpu:1", "--threads", "1")
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
	})
	p.do(t, "submit", "digits", "--run", filepath.Join("runs", "busy"), "--set", "train.epochs=10000", "--set", "train.batch=128", "--set", "model.hidden=[1024,1024]")
	return &site{url: at, ids: begun(t, at, "busy")}
}

// begun waits until a page has a run, and gives the IDs of all.
func begun(t *testing.T, at, run string) map[string]string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if ids := idsOf(t, at); ids[run] != "" {
			return ids
		}
		if time.Now().After(end) {
			t.Fatalf("the page never has the run %s", run)
		}
	}
}

// point is a point of a curve.
type point struct {
	step  int
	curve string
	value float64
}

// accuracies are the points of the panel of accuracies in metrics.jsonl, in the order of the page's table.
func accuracies(t *testing.T, dir string) (list []point) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"train", "val"} {
			if v, ok := l[part+"_accuracy"].(float64); ok {
				list = append(list, point{int(l["step"].(float64)), part, v})
			}
		}
	}
	slices.Reverse(list)
	return list
}

// shownPoints are the points in the table behind the panel of accuracies.
func (x *tab) shownPoints() (list []point) {
	x.t.Helper()
	rows := eval[[][]string](x, `(() => {
		const behind = document.querySelector("figure[aria-label=accuracy] details");
		if (behind && !behind.open) behind.open = true;
		return [...(behind?.querySelectorAll("tbody tr") ?? [])].map((tr) => [...tr.children].map((td) => td.innerText));
	})()`)
	for _, r := range rows {
		step, err := strconv.Atoi(strings.ReplaceAll(r[0], ",", ""))
		if err != nil {
			x.t.Fatal(err)
		}
		v, err := strconv.ParseFloat(strings.TrimSuffix(r[2], "%"), 64)
		if err != nil {
			x.t.Fatal(err)
		}
		list = append(list, point{step, r[1], v / 100})
	}
	return list
}

// same reports whether the points are the same, in hundredths of a percent.
func same(a, b []point) bool {
	return slices.EqualFunc(a, b, func(a, b point) bool {
		return a.step == b.step && a.curve == b.curve && math.Abs(a.value-b.value) < 6e-5
	})
}

// reaches waits until the page shows the points of a run.
func (x *tab) reaches(want []point) {
	x.t.Helper()
	var got []point
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got = x.shownPoints(); same(got, want) {
			return
		}
	}
	x.t.Fatalf("the page never shows all points once:\n%v, want\n%v", got, want)
}

// A training is killed, goes on, is stopped and deleted while a table and a run are open, and both say so by themselves.
func TestLive(t *testing.T) {
	need(t)
	p := newPlace(t, t.TempDir())
	at, end := p.serve(t)
	t.Cleanup(end)
	table := open(t, at)
	table.until(`document.body.innerText.includes("There are no runs yet")`)
	eval[bool](table, "window.first = true")

	training := p.start(t, long("live")...)
	row := func(state string) {
		t.Helper()
		table.until(fmt.Sprintf(`document.querySelector("#runs tbody .state")?.innerText === %q`, state))
	}
	row("running")
	id := idsOf(t, at)["live"]
	run := open(t, at+"/run/"+id)
	run.until(drawn)
	eval[bool](run, "window.first = true")
	fact := func(name, js string) {
		t.Helper()
		run.until(fmt.Sprintf(`((v) => %s)([...document.querySelectorAll(".facts dt")].find((e) => e.innerText === %q)?.nextElementSibling.innerText)`, js, name))
	}
	fact("State", `v === "running"`)
	for before := len(run.shownPoints()); len(run.shownPoints()) < before+4; {
		run.settled() // points come while one looks
	}

	if err := training.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = training.Wait()
	row("failed")
	fact("State", `v === "failed"`)
	next := func(command string) {
		t.Helper()
		run.until(fmt.Sprintf(`[...document.querySelectorAll(".command code")].some((e) => e.textContent === %q)`, command))
	}
	next("trainer resume runs/live")
	killed := accuracies(t, filepath.Join(p.dir, "runs", "live"))
	run.reaches(killed)

	training = p.start(t, "resume", filepath.Join("runs", "live"))
	row("running")
	fact("State", `v === "running"`)
	for len(run.shownPoints()) < len(killed)+4 {
		run.settled()
	}
	if err := training.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = training.Wait()
	row("stopped")
	fact("State", `v === "stopped"`)
	next("trainer predict runs/live")
	run.reaches(accuracies(t, filepath.Join(p.dir, "runs", "live")))

	if err := os.RemoveAll(filepath.Join(p.dir, "runs", "live")); err != nil {
		t.Fatal(err)
	}
	table.until(`document.body.innerText.includes("There are no runs yet") && !document.querySelector("#runs tbody tr")`)
	fact("Deleted", `v === "the run is not there any more"`)
	for _, x := range []*tab{table, run} {
		if !eval[bool](x, "window.first === true") {
			t.Error("the page was loaded again")
		}
	}
}

// cutter passes requests on to a page, and cuts each of its streams: the first behind its first event, the next behind its
// second, and so on to the fifth; and every other one within the event that follows. Every sixth says that all is to be loaded
// anew.
type cutter struct {
	to    *url.URL
	kinds []string // of events, behind and within which it is to cut

	mu      sync.Mutex
	streams int
	cuts    map[string]int // by the event behind which, or within which with a "~" before
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/events" {
		p := httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(c.to); p.Out.Host = p.In.Host }}
		p.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	n := c.streams
	c.streams++
	c.mu.Unlock()
	if n%6 == 5 {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: reload\ndata: {}\n\n")
		c.mu.Lock()
		c.cuts["reload"]++
		c.mu.Unlock()
		return
	}
	n -= n / 6
	defer panic(http.ErrAbortHandler) // the connection ends without the end of an answer
	ask := r.Clone(r.Context())
	ask.RequestURI, ask.URL.Scheme, ask.URL.Host = "", c.to.Scheme, c.to.Host
	ask.Header.Set("Accept-Encoding", "identity") // events are found in the text
	a, err := http.DefaultTransport.RoundTrip(ask)
	if err != nil {
		return
	}
	defer a.Body.Close()
	for name, v := range a.Header {
		w.Header()[name] = v
	}
	w.WriteHeader(a.StatusCode)
	in := bufio.NewReader(a.Body)
	flush := http.NewResponseController(w)
	for i := range n%5 + 2 {
		name, event, err := nextEvent(in)
		if err != nil {
			return
		}
		last := i > n%5
		within := last && n%2 == 1
		if last && !within {
			return
		}
		if within {
			event = event[:len(event)/2]
		}
		if _, err := io.WriteString(w, event); err != nil || flush.Flush() != nil {
			return
		}
		if within || i == n%5 && n%2 == 0 {
			if within {
				name = "~" + name
			}
			c.mu.Lock()
			c.cuts[name]++
			c.mu.Unlock()
			return
		}
	}
}

// nextEvent reads an event of a stream, with the comments before it.
func nextEvent(in *bufio.Reader) (name, text string, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		text += line
		if rest, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(rest)
		}
		if line == "\n" && name != "" {
			return name, text, nil
		}
	}
}

// whole reports whether streams were cut behind and within every kind of event.
func (c *cutter) whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.kinds {
		if c.cuts[name] == 0 || c.cuts["~"+name] == 0 {
			return false
		}
	}
	return c.cuts["reload"] > 0
}

// grow appends a text to a file, and gives it.
func grow(t *testing.T, path, text string) string {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return text
}

// The stream of a run's page is cut behind and within every kind of event, and to the end: the page has all points and lines of the
// log, each once.
func TestStreamIsCut(t *testing.T) {
	need(t)
	p := newPlace(t, t.TempDir())
	at, end := p.serve(t)
	t.Cleanup(end)
	to, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{to: to, kinds: []string{"rows", "anew", "points", "log"}, cuts: map[string]int{}}
	proxy := httptest.NewServer(c)
	t.Cleanup(proxy.Close) // behind the tab

	training := p.start(t, long("cut")...)
	ended := make(chan error, 1)
	go func() { ended <- training.Wait() }()
	id := begun(t, at, "cut")["cut"]
	x := open(t, proxy.URL+"/#"+to.Fragment+"/run/"+id)
	x.refused = true
	x.until(drawn)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := ""
	for i := 0; !c.whole() && ctx.Err() == nil; i++ {
		x.shownPoints() // the table is open meanwhile
		log += grow(t, filepath.Join(p.dir, "runs", "cut", "log"), fmt.Sprintf("line %d\n", i))
		select {
		case err := <-ended:
			t.Fatalf("the training has ended before each kind of event was cut: %v, %v", err, c.cuts)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if ctx.Err() != nil {
		t.Fatalf("some kinds of events were never cut: %v", c.cuts)
	}
	if err := training.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var code *exec.ExitError
	if err := <-ended; err != nil && !errors.As(err, &code) {
		t.Fatal(err)
	}
	x.until(`document.querySelector(".facts")?.innerText.includes("stopped")`)
	x.reaches(accuracies(t, filepath.Join(p.dir, "runs", "cut")))
	x.until(`document.querySelector("pre.log")?.textContent === ` + quoted(t, log))
	t.Logf("%d streams, cut at %v", c.streams, c.cuts)
}

// So is the stream of samples of memory: the page has each sample once.
func TestMemoryStreamIsCut(t *testing.T) {
	s := workshop(t)
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{to: to, kinds: []string{"rows", "memory"}, cuts: map[string]int{}}
	proxy := httptest.NewServer(c)
	t.Cleanup(proxy.Close) // behind the tab
	x := open(t, proxy.URL+"/#"+to.Fragment+"/memory")
	x.refused = true
	x.until(`document.querySelector("figure[aria-label='cpu:0'] canvas")`)
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		same := eval[bool](x, `fetch("/api/memory?columns=2000", { headers: { Authorization: "Bearer " + location.hash.slice(1).split("/")[0] } }).then((r) => r.json()).then((all) => {
			const behind = document.querySelector("figure[aria-label='cpu:0'] details");
			if (!behind) return false; // it loads anew
			behind.open = true;
			return behind.querySelectorAll("tbody tr").length === all.samples.filter((s) => s.devices.length).length;
		})`)
		if same && c.whole() {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the page never has each sample once, or not all was cut: %v, %v", same, c.cuts)
		}
	}
	t.Logf("%d streams, cut at %v", c.streams, c.cuts)
}
