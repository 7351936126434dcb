// Package browser tests the page of trainer ui in Chromium: how it looks, by keyboard alone, with axe-core, and live. It is a
// module of its own: nothing else needs what drives a browser. The tests start the real command on runs that it has trained.
//
// They skip where Chromium or axe-core is missing, and fail with TEST_BROWSER=required. .ci/setup installs both: Debian's
// chromium, and npm's axe-core (MPL-2.0) into testdata, at the version and hash of testdata/package-lock.json.
//
//	go test -shots DIR    also writes a picture of each view, size and colour
//	go test -update       also writes the pictures of docs/page.md
package browser

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var (
	shots  = flag.String("shots", "", "write a picture of each view to `DIR`")
	update = flag.Bool("update", false, "write the pictures of docs/page.md")
)

// patience is how long a test waits for anything. A loaded machine takes its time.
const patience = 3 * time.Minute

const axeFile = "testdata/node_modules/axe-core/axe.min.js"

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "berth-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	work = dir
	code := m.Run()
	for i := len(ends) - 1; i >= 0; i-- {
		ends[i]()
	}
	if err := os.RemoveAll(dir); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var (
	work string   // a folder that is removed behind all tests
	ends []func() // are called behind all tests, the last first
)

// need ends a test where the browser or axe-core is missing.
func need(t *testing.T) {
	t.Helper()
	_, err := browserPath()
	if err == nil {
		_, err = os.Stat(axeFile)
	}
	switch {
	case err == nil:
	case os.Getenv("TEST_BROWSER") == "required":
		t.Fatalf("%v: .ci/setup installs what the tests need", err)
	default:
		t.Skip(err)
	}
}

func browserPath() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no chromium in PATH")
}

// trainer is the command, built once.
var trainer = sync.OnceValues(func() (string, error) {
	path := filepath.Join(work, "trainer")
	if out, err := exec.Command("go", "build", "-C", "../../../..", "-o", path, "./cmd/trainer").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// place is a folder in which commands run, with a queue and a cache of its own.
type place struct {
	dir  string
	exec string
}

func newPlace(t *testing.T, dir string) *place {
	t.Helper()
	path, err := trainer()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &place{dir, path}
}

// command is the trainer with arguments, not started.
func (p *place) command(args ...string) *exec.Cmd {
	c := exec.Command(p.exec, args...)
	c.Dir = p.dir
	c.Env = append(os.Environ(), "BERTH_QUEUE="+filepath.Join(p.dir, "queue.db"), "XDG_STATE_HOME="+p.dir, "XDG_CACHE_HOME="+filepath.Join(p.dir, "cache"))
	return c
}

// do runs a command that must succeed.
func (p *place) do(t *testing.T, args ...string) {
	t.Helper()
	if out, err := p.command(args...).CombinedOutput(); err != nil {
		t.Fatalf("trainer %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// train trains digits in a run folder.
func (p *place) train(t *testing.T, run string, set ...string) {
	t.Helper()
	p.do(t, trainArgs(run, set...)...)
}

func trainArgs(run string, set ...string) []string {
	args := []string{"train", "digits", "--threads", "1", "--run", filepath.Join("runs", run)}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	return args
}

// serve starts trainer ui, and gives its URL and what ends it.
func (p *place) serve(t *testing.T) (url string, end func()) {
	t.Helper()
	c := p.command("ui", "--address", "127.0.0.1:0")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	c.Stderr = &told
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = c.Wait()
		t.Fatalf("trainer ui: %v\n%s", err, &told)
	}
	return strings.TrimSpace(line), func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			fmt.Fprintf(os.Stderr, "trainer ui: %v\n%s", err, &told)
		}
	}
}

// site is a page of trainer ui.
type site struct {
	url string            // with the token
	ids map[string]string // of rows, by the name of a run's folder, or "sweep"
}

// gallery is the page that many tests look at and none changes.
func gallery(t *testing.T) *site {
	t.Helper()
	need(t)
	shown.Do(func() {
		p := newPlace(t, filepath.Join(work, "gallery"))
		p.train(t, "digits", "train.epochs=10", "train.batch=128")
		p.train(t, "digits-wide", "train.epochs=8", "train.batch=128", "model.hidden=[256,128]", "optimizer.lr=0.001")
		p.train(t, "digits-slow-schedule-of-a-long-name", "train.epochs=5", "train.batch=128", "schedule.name=constant", "optimizer.lr=0.0002")
		p.train(t, "short", "train.epochs=1", "train.batch=128")
		p.do(t, "sweep", "digits", "--run", filepath.Join("runs", "tune"), "--vary", "optimizer.lr=log:1e-4..1e-1", "--vary", "model.hidden=[64],[32,16]",
			"--trials", fmt.Sprint(trials), "--set", "train.epochs=2", "--wait")
		url, end := p.serve(t)
		ends = append(ends, end)
		shownAt = &site{url: url, ids: idsOf(t, url)}
	})
	if shownAt == nil {
		t.Fatal("the runs could not be made: see the first test that needed them")
	}
	return shownAt
}

const trials = 12 // of the sweep

var (
	shown   sync.Once
	shownAt *site
)

// chromium is the browser, started once.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path, err := browserPath()
	if err != nil {
		return nil, err
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(work, "profile")), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"))
	if os.Getuid() == 0 {
		o = append(o, chromedp.NoSandbox) // it refuses root otherwise
	}
	allocator, done := chromedp.NewExecAllocator(context.Background(), o...)
	ctx, cancel := chromedp.NewContext(allocator)
	ends = append(ends, func() { cancel(); done() })
	return ctx, chromedp.Do(ctx)
})
