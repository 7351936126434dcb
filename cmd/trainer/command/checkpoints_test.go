package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// slow is a run whose epoch takes so long that nothing is saved meanwhile.
const slow = `
data: {source: digits}
model: {preset: mlp, hidden: [256, 256]}
train: {epochs: 100000, batch: 1, boundary: 1000000}
`

// saving is a run that saves at every step.
const saving = `
data: {source: digits}
model: {preset: mlp, hidden: [256, 256]}
train: {epochs: 100000, batch: 8}
checkpoint: {every: 1, keep: {last: 3}}
`

// TestHeld looks at a run's checkpoints while another process trains. They can be
// read. Whoever would change them is told at once who has them.
func TestHeld(t *testing.T) {
	testall.Long(t)
	t.Parallel()
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
	training.SysProcAttr = signalled
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
	if stop := signalsByName["STOP"]; stop != nil { // to hold the file, it need not compute
		if err := send(training.Process, stop); err != nil {
			t.Fatal(err)
		}
	}
	held := fmt.Sprintf("trainer: checkpoint file is in use by process %d: ", training.Process.Pid)
	for _, args := range [][]string{
		{"checkpoints", "verify", "r"}, {"checkpoints", "prune", "r"}, {"checkpoints", "prune", "r", "--checkpoint", "1"}, {"resume", "r"}, {"train", "slow.yaml", "--run", "r", "--fresh"}, {"train", "slow.yaml", "--run", "r"},
	} {
		out, err := trainer(args...).CombinedOutput()
		advice := ": stop that process, or use a copy: `trainer checkpoints copy` makes one while the file is in use\n"
		switch {
		case args[0] == "train":
			advice = ": stop that process, or train in another folder (--run DIR)\n"
		case args[0] == "resume":
			advice = ": stop that process\n"
		}
		if err == nil || !strings.Contains(string(out), held) || !strings.HasSuffix(string(out), advice) || strings.Count(string(out), "is in use by") != 1 {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	for _, args := range [][]string{
		{"checkpoints", "ls", "r"}, {"checkpoints", "inspect", "r"}, {"export", "r", "--out", "now.safetensors"},
		{"eval", "r"}, {"predict", "r", "--out", "answers.csv"},
	} {
		if out, err := trainer(args...).CombinedOutput(); err != nil || strings.Contains(string(out), "skipped") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "runs"), 0o755), os.Symlink("../r", filepath.Join(dir, "runs", "slow"))); err != nil {
		t.Fatal(err)
	}
	if out, err := trainer("train", "slow.yaml").CombinedOutput(); err == nil || !strings.Contains(string(out), held) || !strings.Contains(string(out), "--run DIR") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := trainer("checkpoints", "copy", "r", "copy.db").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, args := range [][]string{{"checkpoints", "ls", "copy.db"}, {"checkpoints", "verify", "copy.db"}, {"export", "copy.db", "--out", "weights.safetensors"}} {
		if out, err := trainer(args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	if err := send(training.Process, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if goOn := signalsByName["CONT"]; goOn != nil {
		if err := send(training.Process, goOn); err != nil {
			t.Fatal(err)
		}
	}
	if err := training.Wait(); training.ProcessState.ExitCode() != 75 {
		t.Errorf("%v: %s", err, log.String())
	}
	if out, err := trainer("checkpoints", "verify", "r").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestCopies takes copies of a run that saves at every step, and evaluates its
// checkpoints. All are whole, and can be used.
func TestCopies(t *testing.T) {
	t.Parallel()
	copies := testall.Or(2, 8)
	dir := t.TempDir()
	trainer := func(args ...string) *exec.Cmd {
		c := exec.Command("trainer", args...)
		c.Dir = dir
		return c
	}
	for _, sub := range []string{"r", "copy"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "saving.yaml"), []byte(saving), 0o644); err != nil {
		t.Fatal(err)
	}
	training := trainer("train", "saving.yaml", "--run", "r")
	var log bytes.Buffer
	training.Stdout, training.Stderr = &log, &log
	training.SysProcAttr = signalled
	if err := training.Start(); err != nil {
		t.Fatal(err)
	}
	copyTo := filepath.Join("copy", "checkpoints.db")
	made := 0
	for until := time.Now().Add(time.Minute); made < copies; time.Sleep(10 * time.Millisecond) {
		out, err := trainer("checkpoints", "copy", "r", copyTo).CombinedOutput()
		if err != nil {
			if time.Now().After(until) || made > 0 || !strings.Contains(string(out), "checkpoint not found") { // until the first is saved
				t.Fatalf("%v: %s; %s", err, out, log.String())
			}
			continue
		}
		made++
		for _, args := range [][]string{{"eval", "r"}, {"checkpoints", "ls", "r"}, {"checkpoints", "inspect", "r"}} {
			if out, err := trainer(args...).CombinedOutput(); err != nil || strings.Contains(string(out), "skipped") {
				t.Errorf("%v: %v: %s", args, err, out)
			}
		}
		if out, err := trainer("checkpoints", "verify", copyTo).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		if made == copies {
			if out, err := trainer("eval", "copy").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
		if err := os.Remove(filepath.Join(dir, copyTo)); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(training.Process, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := training.Wait(); training.ProcessState.ExitCode() != 75 {
		t.Errorf("%v: %s", err, log.String())
	}
}
