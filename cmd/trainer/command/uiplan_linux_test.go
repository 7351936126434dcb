package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/ui"
	"github.com/berth-ml/berth/configs"
)

// A process that draws a plan ends with a server that is killed.
func TestPlanEndsWithServer(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "runs", "r")
	c, err := configs.Load("shakespeare", configs.Overlay{Set: []string{"model.layers=300", "model.width=8", "model.heads=2", "devices.use=cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err := errors.Join(err, os.MkdirAll(run, 0o700), os.WriteFile(filepath.Join(run, rundir.ConfigName), text, 0o600), os.WriteFile(filepath.Join(run, rundir.MetricsName), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("trainer", "ui", "--address", "127.0.0.1:0")
	server.Dir, server.SysProcAttr, server.Env = dir, signalled, append(os.Environ(), "BERTH_QUEUE="+filepath.Join(dir, "queue"))
	said, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	line, err := bufio.NewReader(said).ReadString('\n')
	base, token, ok := strings.Cut(strings.TrimSpace(line), "/#")
	if err != nil || !ok {
		t.Fatalf("no URL: %q, %v", line, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/plan?run="+ui.RunID(run), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answered := make(chan string, 1)
	go func() {
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return
		}
		text, _ := io.ReadAll(a.Body)
		_ = a.Body.Close()
		answered <- string(text)
	}()
	child := 0
	for end := time.Now().Add(time.Minute); child == 0; time.Sleep(time.Millisecond) {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", server.Process.Pid))
		for _, list := range lists {
			of, _ := os.ReadFile(list)
			for _, pid := range strings.Fields(string(of)) { // Go's runtime starts others, which end at once
				if args, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.Contains(string(args), "--svg") {
					child, _ = strconv.Atoi(pid)
				}
			}
		}
		if len(answered) > 0 || time.Now().After(end) {
			t.Fatalf("no process draws the plan: %.300s", <-answered)
		}
	}
	if err := errors.Join(unix.Kill(child, unix.SIGSTOP), server.Process.Kill()); err != nil { // it does not end by itself
		t.Fatal(err)
	}
	_ = server.Wait()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Now().After(end) {
			_ = unix.Kill(child, unix.SIGKILL)
			t.Fatalf("it goes on: %s", state)
		}
	}
}

// A process that draws a plan is ended once it takes more memory than the page gives it.
func TestWatchMemory(t *testing.T) {
	var why error
	watchMemory(t.Context(), os.Getpid(), 1<<10, func(err error) { why = err })
	if why == nil || !strings.Contains(why.Error(), "more than the 1.0 KiB of memory") {
		t.Error(why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*drawLook)
	defer cancel()
	watchMemory(ctx, os.Getpid(), 1<<50, func(err error) { t.Error(err) })
}
