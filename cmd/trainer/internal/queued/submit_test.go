//go:build unix

package queued

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// queueHere has commands use a queue of the test's own, in a folder that is the working folder from now on.
func queueHere(t *testing.T) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // a umask may leave others the right to write
		t.Fatal(err)
	}
	path = filepath.Join(dir, "q.db")
	t.Setenv(pathVariable, path)
	t.Chdir(dir)
	return dir, path
}

// TestSubmitAgain: a submission whose answer is lost is sent again, and there is one job.
func TestSubmitAgain(t *testing.T) {
	dir, path := queueHere(t)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	behind := filepath.Join(dir, "behind.sock")
	go func() { served <- socket.Serve(ctx, behind, d, socket.ThisProgram("1"), func(bool) {}) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	listens(t, behind)
	lost := loses(t, socket.Path(path), behind)
	var out bytes.Buffer
	c := Submit(&signals.Stop{}, "1")
	c.SetArgs([]string{"digits"})
	c.SetOut(&out)
	c.SetErr(&out)
	if err := c.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "job 1 in runs/digits: ") {
		t.Errorf("%v, %s", err, out.String())
	}
	if *lost != 1 || len(d.Views()) != 1 {
		t.Errorf("%d answers were lost, and there are %d jobs", *lost, len(d.Views()))
	}
}

// TestDaemonThatEnds: a daemon that takes a connection, and ends before it answers, is no daemon.
func TestDaemonThatEnds(t *testing.T) {
	_, path := queueHere(t)
	l, err := net.Listen("unix", socket.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		ended <- errors.Join(err, l.Close())
	}()
	d, daemon, err := openDesk(t.Context(), "1")
	if err != nil || daemon {
		t.Fatalf("a daemon: %t, %v", daemon, err)
	}
	d.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// listens waits until a daemon of this process listens.
func listens(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestSubmitInterrupted: a signal before the daemon's answer leaves open whether there is a job.
func TestSubmitInterrupted(t *testing.T) {
	_, path := queueHere(t)
	l, err := net.Listen("unix", socket.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			interrupt()
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(socket.ThisProgram("1"))
	})}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	c := Submit(&signals.Stop{}, "1")
	c.SetArgs([]string{"digits"})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.ExecuteContext(ctx); !errors.Is(err, berth.ErrStopped) || !strings.Contains(err.Error(), "trainer jobs ls says whether the job is queued") {
		t.Error(err)
	}
}

// loses hands on what comes to a socket to the one behind it, and loses the first answer to a submission.
func loses(t *testing.T, path, behind string) (lost *int) {
	t.Helper()
	lost = new(int)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "daemon"})
	proxy.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", behind)
	}}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || *lost > 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK {
			t.Errorf("the daemon: %d %s", answer.Code, answer.Body)
		}
		*lost++
		panic(http.ErrAbortHandler)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return lost
}

// TestSubmitWaits: while a command trains its job itself, others reach the queue. Their jobs wait for a daemon with the
// devices that they need, and a second command that waits trains its own once the first has ended.
func TestSubmitWaits(t *testing.T) {
	_, path := queueHere(t)
	submit := func(out io.Writer, args ...string) (ended chan error) {
		ended = make(chan error, 1)
		c := Submit(&signals.Stop{}, "1")
		c.SetArgs(append([]string{"digits"}, args...))
		c.SetOut(out)
		c.SetErr(io.Discard)
		go func() { ended <- c.ExecuteContext(t.Context()) }()
		return ended
	}
	first := submit(io.Discard, "--wait", "--set", "train.epochs=100000")
	var client *socket.Client
	for client == nil {
		client, _ = socket.Dial(t.Context(), socket.Path(path), socket.ThisProgram("1"))
	}
	defer client.Close()
	var says bytes.Buffer
	second := submit(&says, "--wait", "--set", "train.epochs=1")
	if err := <-submit(io.Discard, "--devices", "cpu:3"); err != nil {
		t.Errorf("a job with more devices: %v", err)
	}
	for waiting := 0; waiting < 2; {
		list, _, err := client.Views(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waiting = 0
		for _, v := range list {
			if v.ID > 1 && v.Where == "waits for a daemon: trainer up" {
				waiting++
			}
		}
	}
	if _, err := client.Want(t.Context(), 1, queue.Pause); err != nil {
		t.Fatal(err)
	}
	if err := <-first; !errors.Is(err, berth.ErrStopped) || !strings.Contains(err.Error(), "trainer jobs resume 1 lets it go on") {
		t.Errorf("the first command: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second command: %v", err)
	}
	for _, want := range []string{fmt.Sprintf("; begins here after job 1, which process %d trains\n", os.Getpid()), "\nepoch 1/1  loss "} {
		if !strings.Contains(says.String(), want) {
			t.Errorf("the second command does not say %q: %s", want, says.String())
		}
	}
	l, err := jobs.OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	states := map[queue.State]int{}
	for _, v := range l.Views() {
		states[v.State]++
	}
	if states[queue.Waiting] != 1 || states[queue.Paused] != 1 || states[queue.Finished] != 1 {
		t.Errorf("%v", states)
	}
}

// TestWaiting: a command that waits says once why its job does not run. A signal, and the end of the daemon, end the
// command alone, with the exit code of a stop.
func TestWaiting(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "q.db")
	t.Setenv(pathVariable, path)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := serve(ctx, path, d, socket.ThisProgram("1"), d.Run)
		ended <- errors.Join(err, d.Close())
	}()
	for _, name := range []string{"first", "second"} {
		if _, err := d.Submit(t.Context(), submission(t, dir, name, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.SetPriority(1, 1); err != nil {
		t.Fatal(err)
	}
	for v, err := d.View(2); v.Where != "needs 1 cpu: after 1"; v, err = d.View(2) {
		if err != nil {
			t.Fatal(err)
		}
	}
	command := func(ctx context.Context, says io.Writer, args ...string) (ended chan error) {
		ended = make(chan error, 1)
		c := Jobs("1")
		c.SetArgs(args)
		c.SetOut(io.Discard)
		c.SetErr(says)
		c.SilenceErrors, c.SilenceUsage = true, true
		go func() { ended <- c.ExecuteContext(ctx) }()
		return ended
	}
	signal, interrupt := context.WithCancel(t.Context())
	waiting := make(chan string, 100)
	commands := []chan error{command(signal, lines(waiting), "wait", "2"), command(signal, lines(waiting), "logs", "2", "-f")}
	next := func() string {
		select {
		case text := <-waiting:
			return text
		case <-time.After(20 * time.Second):
			t.Fatal("a command that waits says nothing")
			return ""
		}
	}
	said := []string{next(), next()}
	if _, err := d.Want(2, queue.Pause); err != nil {
		t.Fatal(err)
	}
	said = append(said, next(), next())
	want := strings.Repeat("jobs: job 2: needs 1 cpu: after 1\n", 2) + strings.Repeat("jobs: job 2 is paused: trainer jobs resume 2 lets it go on\n", 2)
	if got := strings.Join(said, ""); got != want {
		t.Errorf("they say %q", got)
	}
	interrupt()
	for _, c := range commands {
		if err := <-c; !errors.Is(err, berth.ErrStopped) || !strings.HasSuffix(err.Error(), "job 2 is paused") {
			t.Errorf("after a signal: %v", err)
		}
	}
	last := command(t.Context(), lines(waiting), "wait", "2")
	next()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-last; !errors.Is(err, berth.ErrStopped) || !strings.Contains(err.Error(), "job 2 is not over: no daemon runs") {
		t.Errorf("without the daemon: %v", err)
	}
	if len(waiting) > 0 {
		t.Errorf("then they say %q", <-waiting)
	}
}

// TestWaitingBehind: a command that waits for a job ends once that cannot begin, and says what to do. The log of the job
// is followed on.
func TestWaitingBehind(t *testing.T) {
	dir, path := queueHere(t)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { // nobody runs jobs
		served <- socket.Serve(ctx, socket.Path(path), d, socket.ThisProgram("1"), func(bool) {})
	}()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	listens(t, socket.Path(path))
	first := submission(t, dir, "first", 0)
	second := submission(t, dir, "second", 0)
	second.After = []int{1}
	for _, s := range []jobs.Submission{first, second} {
		if _, err := d.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	said := make(chan string, 100)
	command := func(ctx context.Context, args ...string) (ended chan error) {
		ended = make(chan error, 1)
		c := Jobs("1")
		c.SetArgs(args)
		c.SetOut(io.Discard)
		c.SetErr(lines(said))
		c.SilenceErrors, c.SilenceUsage = true, true
		go func() { ended <- c.ExecuteContext(ctx) }()
		return ended
	}
	says := func(want string) {
		t.Helper()
		select {
		case got := <-said:
			if got != want {
				t.Errorf("it says %q, expected %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("it does not say %q", want)
		}
	}
	signal, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	wait := command(signal, "wait", "2")
	says("jobs: job 2: waits for job 1 (first)\n")
	logs := command(signal, "logs", "2", "-f")
	says("jobs: job 2: waits for job 1 (first)\n")
	if _, err := d.Want(1, queue.Cancel); err != nil {
		t.Fatal(err)
	}
	says("jobs: job 2: job 1 (first) is cancelled, so this job cannot begin: trainer jobs cancel 2 ends it, too\n")
	select {
	case err := <-wait:
		if err == nil || err.Error() != "job 2 cannot begin: job 1 (first) is cancelled: trainer jobs cancel 2 ends it, too" {
			t.Errorf("wait ends with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("wait does not end")
	}
	if _, err := d.Want(2, queue.Cancel); err != nil {
		t.Fatal(err)
	}
	if err := <-logs; err != nil {
		t.Errorf("logs -f ends with %v", err)
	}
}

// TestSystemWithoutSockets: where commands cannot reach a daemon, up says so, and a job is queued, and trained with --wait.
func TestSystemWithoutSockets(t *testing.T) {
	_, path := queueHere(t)
	before := supported
	defer func() { supported = before }()
	supported = func() error { return socket.ErrSystem }
	run := func(c *cobra.Command, args ...string) error {
		c.SetArgs(args)
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		c.SilenceErrors, c.SilenceUsage = true, true
		return c.ExecuteContext(t.Context())
	}
	stop := &signals.Stop{}
	if err := run(Up(stop, "1")); !errors.Is(err, socket.ErrSystem) {
		t.Errorf("up: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("up made a queue")
	}
	for _, c := range []struct {
		command *cobra.Command
		args    []string
	}{
		{Submit(stop, "1"), []string{"digits", "--set", "train.epochs=1"}}, {Submit(stop, "1"), []string{"digits", "--set", "train.epochs=1", "--wait"}},
		{Jobs("1"), []string{"wait", "2"}}, {Jobs("1"), []string{"cancel", "1"}},
	} {
		if err := run(c.command, c.args...); err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	if _, err := os.Stat(socket.Path(path)); err == nil {
		t.Error("there is a socket")
	}
}

// TestWaitingForADaemon: a daemon that starts a moment later trains the job for which a command waits.
func TestWaitingForADaemon(t *testing.T) {
	dir, path := queueHere(t)
	l, err := jobs.OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	s := submission(t, dir, "first", 0)
	s.Length = []string{"train.epochs=1"}
	_, err = l.Submit(t.Context(), s)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	c := Jobs("1")
	c.SetArgs([]string{"wait", "1"})
	c.SetErr(lines(said))
	waited := make(chan error, 1)
	go func() { waited <- c.ExecuteContext(t.Context()) }()
	if got := <-said; got != "jobs: job 1 is waiting, and no daemon runs: waits 5 s for trainer up to start\n" {
		t.Errorf("it says %q", got)
	}
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() {
		_, err := serve(ctx, path, d, socket.ThisProgram("1"), d.Run)
		ran <- errors.Join(err, d.Close())
	}()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// lines sends each write.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestIgnored: keys that do not count for a job are told, but not those that a config has written out with their defaults.
func TestIgnored(t *testing.T) {
	usual, err := configs.Load("digits", configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := usual.YAML()
	if err != nil || !strings.Contains(string(whole), "threads: 0") {
		t.Fatalf("%s: %v", whole, err)
	}
	for set, want := range map[string]string{"": "", "devices.threads=1": "submit: devices.threads: trainer up has its own, so the job's does not count\n"} {
		cfg, err := configs.Parse("whole.yaml", whole, configs.Overlay{Set: strings.Fields(set)})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c := Submit(&signals.Stop{}, "1")
		c.SetErr(&out)
		ignored(c, cfg)
		if out.String() != want {
			t.Errorf("--set %q: %q", set, out.String())
		}
	}
}
