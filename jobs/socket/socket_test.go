package socket

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a daemon that trains nothing and answers at a socket until the test ends.
func served(t *testing.T) (path string, down chan bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := jobs.Open(jobs.Options{Queue: filepath.Join(dir, "q.db"), Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	path, down = Path(filepath.Join(dir, "q.db")), make(chan bool, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, path, d, ThisProgram("1"), func(finish bool) { down <- finish }) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, d.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket file is left: %v", err)
		}
	})
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return path, down
		}
	}
	t.Fatal("nobody answers")
	return "", nil
}

func dialed(t *testing.T, path, version string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), path, ThisProgram(version))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func digits(t *testing.T) []byte {
	t.Helper()
	c, err := configs.Load("digits", configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Kept()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestClient(t *testing.T) {
	path, down := served(t)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st.Mode(), err)
	}
	c := dialed(t, path, "1")
	s := jobs.Submission{Key: "a", Config: digits(t), Parent: filepath.Join(t.TempDir(), "runs"), Priority: 3}
	j, err := c.Submit(t.Context(), s)
	if err != nil || j.ID != 1 || j.Priority != 3 || j.State != queue.Waiting || j.Memory == 0 || j.Predicted == 0 {
		t.Fatalf("%+v, %v", j, err)
	}
	if again, err := c.Submit(t.Context(), s); err != nil || again.ID != 1 || again.Dir != j.Dir {
		t.Errorf("the same submission again: %+v, %v", again, err)
	}
	if entries, err := os.ReadDir(s.Parent); err != nil || len(entries) != 1 {
		t.Errorf("run folders: %v, %v", entries, err)
	}
	if j, err = c.SetPriority(t.Context(), 1, -2); err != nil || j.Priority != -2 {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err = c.Want(t.Context(), 1, queue.Pause); err != nil || j.State != queue.Paused {
		t.Errorf("%+v, %v", j, err)
	}
	if m, err := c.Memory(t.Context()); err != nil || len(m.Devices) != 1 || m.Devices[0].ID != "cpu:0" || m.Devices[0].Limit == 0 || m.Host.Limit == 0 {
		t.Errorf("memory %+v, %v", m, err)
	}
	if text, err := c.Config(t.Context(), 1); err != nil || text != string(s.Config) {
		t.Errorf("config %q, %v", text, err)
	}
	if list, late, err := c.Views(t.Context()); err != nil || late != "" || len(list) != 1 {
		t.Errorf("%+v, %q, %v", list, late, err)
	}
	if _, err := c.View(t.Context(), 2); !errors.Is(err, queue.ErrNoJob) {
		t.Errorf("a job that is not there: %v", err)
	}
	if _, err := c.TraceStep(t.Context(), 1); !errors.Is(err, berth.ErrNoStep) || !strings.Contains(err.Error(), "job 1 is paused") {
		t.Errorf("the step of a job that does not train: %v", err)
	}
	if err := c.Remove(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if _, err := c.Want(t.Context(), 1, queue.Run); !errors.Is(err, queue.ErrNoJob) {
		t.Errorf("a removed job: %v", err)
	}
	if err := c.Down(t.Context(), true); err != nil || !<-down {
		t.Error(err)
	}
}

// TestHungUp: what a client has asked for ends when it hangs up, so that a step which nobody waits for holds up no other one.
func TestHungUp(t *testing.T) {
	asked, ended := make(chan bool, 1), make(chan error, 1)
	s := &Server{}
	server := httptest.NewServer(s.answer(func(r *http.Request) (any, error) {
		asked <- true
		select {
		case <-r.Context().Done():
			ended <- nil
		case <-time.After(10 * time.Second):
			ended <- errors.New("the daemon goes on for a client that has hung up")
		}
		return nil, nil
	}))
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	c := &Client{http: http.Client{Transport: &http.Transport{DialContext: dial}}}
	defer c.http.CloseIdleConnections()
	go func() { <-asked; hangUp() }()
	if _, err := c.TraceStep(ctx, 1); !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOtherProgram: another program may look and end the daemon.
func TestOtherProgram(t *testing.T) {
	path, down := served(t)
	c := dialed(t, path, "2")
	_, err := c.Submit(t.Context(), jobs.Submission{Key: "a", Config: digits(t)})
	_, traced := c.TraceStep(t.Context(), 1)
	for _, err := range []error{err, c.Remove(t.Context(), 1), c.Other(), traced} {
		if !errors.Is(err, ErrProgram) || !strings.Contains(err.Error(), "trainer down") {
			t.Errorf("another program: %v", err)
		}
	}
	if _, _, err := c.Views(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Down(t.Context(), false); err != nil || <-down {
		t.Error(err)
	}
}

// TestProgramOfUnknownVersion: one that a folder replaces Berth in, which no build says the version of, is the same program
// if it registers the same.
func TestProgramOfUnknownVersion(t *testing.T) {
	path, _ := served(t)
	c := dialed(t, path, "(devel)")
	if _, err := c.Submit(t.Context(), jobs.Submission{Key: "a", Config: digits(t), Parent: t.TempDir()}); err != nil || c.Other() != nil {
		t.Errorf("%v, %v", err, c.Other())
	}
	p := ThisProgram("(devel)")
	p.Keys = "others"
	c, err := Dial(t.Context(), path, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), 1); !errors.Is(err, ErrProgram) || !strings.Contains(err.Error(), "registered") {
		t.Errorf("other layers: %v", err)
	}
}

func TestSupported(t *testing.T) {
	for system, want := range map[string]error{"windows": ErrSystem, "linux": nil, "darwin": nil, "freebsd": nil} {
		if got := supported(system); got != want {
			t.Errorf("%s: %v", system, got)
		}
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "q.sock"), filepath.Join(dir, "no", "q.sock")} {
		if _, err := Dial(t.Context(), path, ThisProgram("1")); !errors.Is(err, ErrNoDaemon) {
			t.Errorf("%s: %v", path, err)
		}
	}
	// One that was killed leaves its file.
	path := filepath.Join(dir, "left.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := Dial(t.Context(), path, ThisProgram("1")); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("a file that was left: %v", err)
	}
	again, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestFolders: a folder that others may write to, and a file that is no socket, are refused.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "q.sock")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(file); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("a file: %v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "text" {
		t.Error("the file was changed")
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(filepath.Join(dir, "other.sock")); !errors.Is(err, ErrOwner) {
		t.Errorf("listening in a folder for all: %v", err)
	}
	if _, err := Dial(t.Context(), filepath.Join(dir, "other.sock"), ThisProgram("1")); !errors.Is(err, ErrOwner) || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("dialing in a folder for all: %v", err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(filepath.Join(dir, "other.sock")); !errors.Is(err, ErrOwner) || !strings.Contains(err.Error(), "(mode 0777): let BERTH_QUEUE name a file") {
		t.Errorf("listening in a folder such as /tmp: %v", err)
	}
	for path, says := range map[string]string{
		filepath.Join(file, "q.sock"):                file + " is a file",
		filepath.Join(dir, strings.Repeat("x", 110)): "set BERTH_QUEUE to a shorter one",
	} {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(t.Context(), path, ThisProgram("1")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("dialing %s: %v", path, err)
		}
	}
}

// TestClosedTwice: a connection that is closed from two sides at once gives one place free.
func TestClosedTwice(t *testing.T) {
	slots := make(chan struct{}, 2)
	for range 2000 {
		slots <- struct{}{}
		a, b := net.Pipe()
		c := &ownConn{Conn: a, free: func() { <-slots }}
		var closing sync.WaitGroup
		begin := make(chan struct{})
		for range 2 {
			closing.Go(func() { <-begin; c.Close() })
		}
		close(begin)
		done := make(chan struct{})
		go func() { closing.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("it waits for a place that is free")
		}
		b.Close()
	}
}

// TestHostile sends what no client sends: the daemon answers, and goes on.
func TestHostile(t *testing.T) {
	path, _ := served(t)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	cases := []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/", "", 404, ""},
		{"POST", "/hello", "", 405, ""},
		{"POST", "/jobs", "", 400, "request: EOF"},
		{"POST", "/jobs", "{}", 400, "no key"},
		{"POST", "/jobs", `{"Key": "a", "Command": "rm"}`, 400, "unknown field"},
		{"POST", "/jobs", `{"Key": "a"} {}`, 400, "more after"},
		{"POST", "/jobs", `{"Key": "a", "Config": 7}`, 400, "cannot unmarshal"},
		{"POST", "/jobs", `{"Key": "` + strings.Repeat("a", mostBody) + `"}`, 400, "too large"},
		{"POST", "/jobs", strings.Repeat("[", 20_000), 400, "request"},
		{"GET", "/jobs/x", "", 400, "expected a number"},
		{"GET", "/jobs/99999999999999999999", "", 400, "expected a number"},
		{"GET", "/jobs/-1", "", 400, "no such job"},
		{"GET", "/jobs/..%2f..%2fetc", "", 400, "expected a number"},
		{"PATCH", "/jobs/1", `{"Wish": "run"}`, 400, "no such job"},
		{"PATCH", "/jobs/1", `{"Wish": "run", "Priority": 1}`, 400, "one of them"},
		{"DELETE", "/jobs/1", "", 400, "no such job"},
		{"POST", "/jobs", `{"Key": "a", "Config": "` + base64.StdEncoding.EncodeToString(digits(t)) + `", "Dir": "runs/a"}`, 400, "absolute"},
	}
	for _, c := range cases {
		r, err := http.NewRequest(c.method, "http://daemon"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Errorf("%s %s %.40s: %v", c.method, c.path, c.body, err)
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.status || !strings.Contains(string(text), c.says) {
			t.Errorf("%s %s %.40s: %d %.200s", c.method, c.path, c.body, answer.StatusCode, text)
		}
	}
	wished := jobs.Submission{Key: "w", Config: digits(t), Parent: filepath.Join(t.TempDir(), "runs")}
	c := dialed(t, path, "1")
	if _, err := c.Submit(t.Context(), wished); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Want(t.Context(), 1, "fly"); err == nil {
		t.Error("a wish that is none was taken")
	}
	hold(t, path)
	if _, _, err := c.Views(t.Context()); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// hold opens some connections and sends half a request on each, and long headers on another.
func hold(t *testing.T, path string) {
	t.Helper()
	for i := range 20 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, [...]string{"GET /jobs HTTP/1.1\r\nHost: x\r\n", "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "\x00\xff\x00"}[i%3])
		t.Cleanup(func() { c.Close() })
	}
	head := "GET /jobs HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 100) + "\r\n"
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, head)
	answer, _ := io.ReadAll(c)
	if !bytes.Contains(answer, []byte("431")) {
		t.Errorf("long headers: %.100s", answer)
	}
}

// FuzzRequest: a submission of any bytes is answered.
func FuzzRequest(f *testing.F) {
	f.Add(`{"Key": "a", "Config": "bW9kZWw6", "Parent": "/tmp"}`)
	f.Add(`{"Wish": "run"}`)
	f.Fuzz(func(t *testing.T, body string) {
		var s jobs.Submission
		var c change
		r, _ := http.NewRequest("POST", "/jobs", strings.NewReader(body))
		_ = decode(r, &s)
		r, _ = http.NewRequest("POST", "/jobs", strings.NewReader(body))
		_ = decode(r, &c)
	})
}
