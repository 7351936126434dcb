package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// train and resume serve the page of their training while it lasts: its URL leads to the run, a step of it is traced, its step is
// that of now though no boundary has come, and a signal ends both, saved.
func TestTrainUI(t *testing.T) {
	if _, err := traceJob(t.Context(), "runs/one", 0); !errors.Is(err, berth.ErrNoStep) || !strings.Contains(err.Error(), "another process trains this run") {
		t.Errorf("of another process: %v", err)
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"train", "digits", "--run", "runs/one", "--set", "train.steps=1000000", "--threads", "1"}, {"resume", "runs/one"},
	} {
		c := exec.Command("trainer", append(args, "--ui", "--address", "127.0.0.1:0", "--quiet")...)
		c.Dir, c.SysProcAttr, c.Env = dir, signalled, append(os.Environ(), "BERTH_QUEUE="+filepath.Join(dir, "queue"))
		said, err := c.StderrPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(said)
		line, err := lines.ReadString('\n')
		base, view, ok := strings.Cut(strings.TrimSpace(line), "/#")
		token, id, of := strings.Cut(view, "/run/")
		if err != nil || !ok || !of {
			_ = c.Process.Kill()
			t.Fatalf("%v: no URL: %q, %v", args, line, err)
		}
		get := func(path string, want int) []byte {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Close = true
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				a, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(a.Body)
				_ = a.Body.Close()
				if err == nil && a.StatusCode == want {
					return text
				}
				if time.Now().After(end) { // the run begins, meanwhile
					_ = c.Process.Kill()
					t.Fatalf("%v: %s: %d %s, %v", args, path, a.StatusCode, text, err)
				}
			}
		}
		var x berth.StepTrace
		if err := json.Unmarshal(get("/api/step?run="+id, http.StatusOK), &x); err != nil || x.Name != "digits" || x.Step < 1 || len(x.Measured.Spans) == 0 {
			t.Errorf("%v: %+v, %v", args, x, err)
		}
		if page := string(get("/api/run?run="+id, http.StatusOK)); !strings.Contains(page, `"run":"runs/one","state":"running"`) {
			t.Errorf("%v: the page of its run: %.300s", args, page)
		}
		var table struct {
			Rows []struct {
				ID  string
				Run struct{ Step, Steps int }
				Now struct{ Live bool }
			}
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the page looks once a second
			if err := json.Unmarshal(get("/api/table", http.StatusOK), &table); err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) == 1 && table.Rows[0].ID == id && table.Rows[0].Now.Live && table.Rows[0].Run.Step >= x.Step && table.Rows[0].Run.Steps == 1000000 {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%v: the table never has the step of now: %+v", args, table)
				break
			}
		}
		if err := send(c.Process, signalsByName["TERM"]); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(lines)
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != cli.ExitStopped || !strings.Contains(string(text), "continue with: trainer resume runs/one") {
			t.Errorf("%v: exit code %d: %s", args, code, text)
		}
	}
}
