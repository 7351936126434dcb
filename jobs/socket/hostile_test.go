package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs"
)

// impatient lets a server wait only shortly for slow clients.
func impatient(t *testing.T, most time.Duration) {
	t.Helper()
	before := slowest
	slowest = most
	t.Cleanup(func() { slowest = before })
}

// TestManyConnections opens more connections than a daemon takes, and does nothing good on them. A client gets its
// turn as soon as these were too slow, and they cost a bounded number of goroutines.
func TestManyConnections(t *testing.T) {
	testall.Long(t)
	impatient(t, 400*time.Millisecond)
	path, _ := served(t)
	const head = "GET /jobs HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, be := range map[string]func(net.Conn){
		"say nothing": func(net.Conn) {},
		"half a head": func(c net.Conn) { _, _ = io.WriteString(c, "GET /jobs HTTP/1.1\r\nHost: x\r\n") },
		"half a body": func(c net.Conn) {
			_, _ = io.WriteString(c, "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
		},
		"stay":             func(c net.Conn) { _, _ = io.WriteString(c, head) },
		"byte by byte":     slowly("POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + strings.Repeat("[", 900_000)),
		"a head for ever":  slowly("GET /jobs HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 100_000)),
		"read no answers":  forEver(head),
		"read no refusals": forEver("GET /no HTTP/1.1\r\nHost: x\r\n\r\n"),
		"send a body on":   forEver("POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("4\r\n[[[[\r\n", 1000)),
		"hang up":          func(c net.Conn) { _, _ = io.WriteString(c, head); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			for range mostConnections + 50 {
				c, err := net.Dial("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					be(c)
				}()
				t.Cleanup(func() { c.Close(); <-done })
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			client, err := Dial(ctx, path, ThisProgram("1"))
			if err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			defer client.Close()
			if _, _, err := client.Views(ctx); err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			// Of each connection: one of the test, and of those that are open two of the server.
			if n := runtime.NumGoroutine() - before; n > 4*mostConnections {
				t.Errorf("%d goroutines", n)
			}
			t.Logf("answered after %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

// slowly sends a text byte by byte, until it is cut off.
func slowly(text string) func(net.Conn) {
	return func(c net.Conn) {
		for i := range text {
			if _, err := c.Write([]byte(text[i : i+1])); err != nil {
				return
			}
			time.Sleep(slowest / 10)
		}
	}
}

// forEver sends a text again and again, and reads nothing.
func forEver(text string) func(net.Conn) {
	return func(c net.Conn) {
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

// TestSlowPlan: a plan that takes longer than a client may take to send it is not cut off.
func TestSlowPlan(t *testing.T) {
	planned := func(seed int) time.Duration {
		t.Helper()
		config, err := configs.Load("shakespeare", configs.Overlay{Set: []string{fmt.Sprint("seed=", seed)}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := config.Kept()
		if err != nil {
			t.Fatal(err)
		}
		path, _ := served(t)
		c, began := dialed(t, path, "1"), time.Now()
		if _, err := c.Submit(t.Context(), jobs.Submission{Key: "a", Config: text, Dir: filepath.Join(t.TempDir(), "run")}); err != nil {
			t.Error(err)
		}
		return time.Since(began)
	}
	first := planned(1)
	impatient(t, first/3) // a busy machine plans and sends slowly
	second := planned(2)
	t.Logf("planned in %v, and then in %v", first, second)
}

// TestForeignTalk: what is no request of a client is refused, or cut off, soon.
func TestForeignTalk(t *testing.T) {
	impatient(t, 250*time.Millisecond)
	path, _ := served(t)
	for _, text := range []string{
		"\n\n\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /jobs\r\n\r\n",
		"GET /jobs HTTP/9.9\r\nHost: x\r\n\r\n", "GET /jobs HTTP/1.1\r\n\r\n", "GET /jobs HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"BREW /jobs HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT x:22 HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS /jobs HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n{}{}", "POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n{}",
		"POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "GET /" + strings.Repeat("a", mostHeader*2) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /jobs/1/../../down HTTP/1.1\r\nHost: x\r\n\r\n", "GET //jobs HTTP/1.1\r\nHost: x\r\n\r\n", "POST /down HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]",
		"DELETE /jobs HTTP/1.1\r\nHost: x\r\n\r\n", "GET /jobs/%00 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /jobs/1%2fconfig HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, text)
		answer, err := io.ReadAll(io.LimitReader(c, 1<<20))
		c.Close()
		if len(answer) > 12 && (string(answer[:5]) != "HTTP/" || answer[9] == '2') {
			t.Errorf("%.60q is answered with %.100q", text, answer)
		}
		var slow net.Error
		if errors.As(err, &slow) && slow.Timeout() {
			t.Errorf("%.60q: the connection stays open: %.100q", text, answer)
		}
	}
	if list, _, err := dialed(t, path, "1").Views(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after all that: %v, %v", list, err)
	}
}

// TestHostileSubmissions: they are refused in a moment, and leave no folder behind.
func TestHostileSubmissions(t *testing.T) {
	path, _ := served(t)
	c := dialed(t, path, "1")
	dir := t.TempDir()
	runs := filepath.Join(dir, "runs")
	good := digits(t)
	named := func(name string) []byte { return append([]byte(fmt.Sprintf("name: %q\n", name)), good...) }
	for name, s := range map[string]jobs.Submission{
		"no folder":          {Config: good},
		"a relative parent":  {Config: good, Parent: "runs"},
		"a parent in a file": {Config: good, Parent: "/etc/passwd/runs"},
		"a name with a path": {Config: named("../../x"), Parent: runs},
		"deep YAML":          {Config: []byte(strings.Repeat("[", 200_000)), Parent: runs},
		"deep blocks":        {Config: []byte(strings.Repeat("- ", 200_000)), Parent: runs},
		"aliases of aliases": {Config: []byte(bomb()), Parent: runs},
		"a huge config":      {Config: []byte(strings.Repeat("# x\n", 1<<19)), Parent: runs},
		"bytes":              {Config: []byte{0xff, 0xfe, 0}, Parent: runs},
		"layers for ever":    {Config: append(good, []byte("\nmodel: {layers: ["+strings.Repeat("{type: dense, units: 1000000}, ", 20_000)+"]}\n")...), Parent: runs},
	} {
		s.Key = name
		began := time.Now()
		if j, err := c.Submit(t.Context(), s); err == nil {
			t.Errorf("%s: it is job %d in %s", name, j.ID, j.Dir)
		} else if len(err.Error()) > 4000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	if entries, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(entries) > 0 {
		t.Errorf("left %v", entries)
	}
	list, _, err := c.Views(t.Context())
	if err != nil || len(list) != 0 {
		t.Errorf("after all that: %v, %v", list, err)
	}
}

// bomb is a text whose aliases stand for very many values.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	return text
}

// TestHangs: of a daemon that takes connections and does not answer, a client says so in plain words, and for how long. Its own
// bound is not taken for the caller's.
func TestHangs(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "s") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const text = "the daemon did not answer within 1 s: its process, trainer up, may be stopped, or the machine overloaded. Try again, or end that process"
	check := func(whose string, err error, callers bool) {
		t.Helper()
		if !errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) != callers || !strings.HasPrefix(err.Error(), text) || strings.Contains(err.Error(), "deadline") {
			t.Errorf("%s: %v", whose, err)
		}
	}
	_, err = dialWithin(t.Context(), 20*time.Millisecond, path, ThisProgram("1"))
	check("its own bound", err, false)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, path, ThisProgram("1"))
	check("the caller's bound", err, true)
}

// TestIdleClient: a client closes a connection that it does not use, before the daemon would.
func TestIdleClient(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	impatient(t, 100*time.Millisecond)
	dir, err := os.MkdirTemp("", "s") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{}, 1)
	s := http.Server{ // which waits for ever
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(ThisProgram("1")) }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	defer func() { s.Close(); <-ended }()
	dialed(t, path, "1")
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the connection stays open")
	}
}
