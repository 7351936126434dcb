package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slow is a run whose epoch takes so long that nothing is saved meanwhile.
const slow = `
data: {source: digits}
model: {preset: mlp, hidden: [1024, 1024]}
train: {epochs: 1000, batch: 1}
`

// TestHeld looks at a run's checkpoints while another process trains: who has
// them is said at once, nothing is waited for or changed, and a copy can be
// read.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	trainer := func(args ...string) *exec.Cmd {
		c := exec.Command("trainer", args...)
		c.Dir = dir
		return c
	}
	if err := os.WriteFile(filepath.Join(dir, "slow.yaml"), []byte(slow), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := trainer("train", "slow.yaml", "--run", "r", "--max-steps", "5").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	training := trainer("resume", "r")
	var log bytes.Buffer
	training.Stdout, training.Stderr = &log, &log
	if err := training.Start(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "r", "checkpoints.db")
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if pid, err := os.ReadFile(file + ".pid"); err == nil && string(pid) == fmt.Sprintln(training.Process.Pid) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the run did not begin: %s", log.String())
		}
	}
	held := fmt.Sprintf("held by process %d: stop it, or work on a copy of the file", training.Process.Pid)
	for _, args := range [][]string{
		{"checkpoints", "ls", "r"}, {"checkpoints", "verify", "r"}, {"checkpoints", "prune", "r"}, {"checkpoints", "compact", "r"},
		{"eval", "r"}, {"resume", "r"}, {"train", "slow.yaml", "--run", "r", "--fresh"}, {"train", "slow.yaml", "--run", "r"},
	} {
		out, err := trainer(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), held) {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "copy.db"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls", "copy.db"}, {"verify", "copy.db"}, {"export", "copy.db", "weights.safetensors"}} {
		if out, err := trainer(append([]string{"checkpoints"}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	if err := training.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := training.Wait(); training.ProcessState.ExitCode() != 75 {
		t.Errorf("%v: %s", err, log.String())
	}
	if out, err := trainer("checkpoints", "verify", "r").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
