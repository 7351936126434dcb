package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/engine/device"
)

// A server that is told to end while it loads the model ends as orderly as one that answers.
func TestServeEndsWhileItLoads(t *testing.T) {
	dir := t.TempDir() + "/run"
	var out, errs strings.Builder
	if code := run(t.Context(), &signals.Stop{}, []string{"train", "digits", "--max-steps", "2", "--quiet", "--run", dir}, io.Discard, &errs); code != cli.ExitOK {
		t.Fatalf("%d %s", code, &errs)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	device.Register("told", func(o device.OpenOptions) ([]device.Device, error) {
		end()
		return device.Open("cpu", o)
	})
	errs.Reset()
	code := run(ctx, &signals.Stop{}, []string{"serve", dir, "--devices", "told", "--address", "127.0.0.1:0"}, &out, &errs)
	if code != cli.ExitOK || out.Len() > 0 || !regexp.MustCompile(`^[0-9-]+ [0-9:]+ ended before the model was loaded\n$`).MatchString(errs.String()) {
		t.Errorf("%d %s%s", code, &out, &errs)
	}
}

// served is a program that a script has started as a server.
type served struct {
	*exec.Cmd
	url    string
	token  string // of a URL that has one behind #; ask sends it
	stderr *bytes.Buffer
}

// servers are those that run, by the folder of their script.
var servers sync.Map

// server start PROGRAM ARGS… starts a program that prints its URL. server end SIGNAL CODE
// sends it a signal, and expects the exit code; what it said goes to the file served.txt.
func server(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && len(args) >= 2 && args[0] == "start":
		startServer(ts, args[1:])
	case !neg && len(args) == 3 && args[0] == "end":
		endServer(ts, args[1], args[2])
	default:
		ts.Fatalf("usage: server start PROGRAM ARGS…, or server end SIGNAL CODE")
	}
}

func startServer(ts *testscript.TestScript, args []string) {
	program, err := lookPath(ts, args[0])
	ts.Check(err)
	s := &served{Cmd: exec.Command(program, args[1:]...), stderr: &bytes.Buffer{}}
	s.Dir, s.Stderr, s.SysProcAttr = ts.MkAbs("."), s.stderr, signalled
	s.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	if queue := ts.Getenv("BERTH_QUEUE"); queue != "" {
		s.Env = append(s.Env, "BERTH_QUEUE="+queue)
	}
	out, err := s.StdoutPipe()
	ts.Check(err)
	ts.Check(s.Start())
	ts.Defer(func() {
		if _, runs := servers.LoadAndDelete(ts.Getenv("WORK")); runs { // the script has failed
			_ = s.Process.Kill()
			_ = s.Wait()
		}
	})
	servers.Store(ts.Getenv("WORK"), s)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = s.Wait()
		ts.Fatalf("no URL was printed: %v: %s", err, s.stderr)
	}
	s.url, s.token, _ = strings.Cut(strings.TrimSpace(line), "/#")
}

func endServer(ts *testscript.TestScript, name, code string) {
	x, runs := servers.LoadAndDelete(ts.Getenv("WORK"))
	want, err := strconv.Atoi(code)
	ts.Check(err)
	if !runs {
		ts.Fatalf("no server runs")
	}
	s := x.(*served)
	ts.Check(send(s.Process, signalsByName[name]))
	err = s.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("served.txt"), s.stderr.Bytes(), 0o644))
	if got := s.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, expected %d (%v): %s", got, want, err, s.stderr)
	}
}

var namedRun = regexp.MustCompile(`run=@([^&]+)`)

// ask STATUS METHOD PATH [BODY] asks the server, and puts the answer into the file answer.
// ask until PATTERN METHOD PATH [BODY] asks again until the answer matches.
//
// run=@RUN in PATH stands for the ID of a run of the page, which the answer before has.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	x, runs := servers.Load(ts.Getenv("WORK"))
	if neg || len(args) < 3 || !runs {
		ts.Fatalf("usage: ask STATUS METHOD PATH [BODY], while a server runs")
	}
	pattern, status := "", args[0]
	if status == "until" {
		pattern, status, args = args[1], "200", args[1:]
	}
	body := ""
	if len(args) > 3 {
		body = args[3]
	}
	if of := namedRun.FindStringSubmatch(args[2]); of != nil { // the answer before this one has its ID
		row := regexp.MustCompile(`"id":"([^"]+)","run":{"run":"` + regexp.QuoteMeta(of[1]) + `"`).FindStringSubmatch(ts.ReadFile("answer"))
		if row == nil {
			ts.Fatalf("no row of the answer has the run %s", of[1])
		}
		args[2] = namedRun.ReplaceAllLiteralString(args[2], "run="+row[1])
	}
	wanted := regexp.MustCompile(pattern)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		r, err := http.NewRequest(args[1], x.(*served).url+args[2], strings.NewReader(body))
		ts.Check(err)
		if token := x.(*served).token; token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := http.DefaultClient.Do(r)
		ts.Check(err)
		text, err := io.ReadAll(a.Body)
		ts.Check(err)
		ts.Check(a.Body.Close())
		ts.Check(os.WriteFile(ts.MkAbs("answer"), text, 0o644))
		switch {
		case strconv.Itoa(a.StatusCode) != status:
			ts.Fatalf("status %d, expected %s: %s", a.StatusCode, status, text)
		case wanted.Match(text):
			return
		case time.Since(began) > time.Minute:
			ts.Fatalf("the answer never matches: %s", text)
		}
	}
}

// answers FILE LINES expects the predictions in an answer of a server to be those of JSON
// lines that predict wrote.
func answers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: answers FILE LINES")
	}
	var a struct{ Predictions []json.RawMessage }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &a))
	got := ""
	for _, p := range a.Predictions {
		got += string(p) + "\n"
	}
	if want := ts.ReadFile(args[1]); got != want || got == "" {
		ts.Fatalf("the server answers\n%spredict\n%s", got, want)
	}
}

// events FILE LINES expects the pieces of text in events of a server to be those of JSON
// lines that generate printed.
func events(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: events FILE LINES")
	}
	data := regexp.MustCompile(`(?m)^event: piece\ndata: (.*)$`)
	got := ""
	for _, m := range data.FindAllStringSubmatch(ts.ReadFile(args[0]), -1) {
		got += m[1] + "\n"
	}
	if want := ts.ReadFile(args[1]); got == "" || !strings.HasPrefix(want, got) || strings.Count(want, "\n") != strings.Count(got, "\n")+1 {
		ts.Fatalf("the server gives\n%sgenerate\n%s", got, want)
	}
}
