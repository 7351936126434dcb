package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
)

// A signal while the data is read, or a checkpoint, stops the run like one
// between steps.
func TestSignalBeforeTheFirstStep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data.csv")
	if err := os.WriteFile(path, []byte("a,kind\n1,x\n2,y\n3,x\n4,y\n5,x\n6,y\n7,x\n8,y\n9,x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r := &training{stop: &signals.Stop{}, faults: &faultFlag{}, costs: &costsFlag{}, progress: progressBar, options: berth.TrainOptions{Dir: filepath.Join(dir, "run")}}
	for _, text := range []string{
		"data: {source: csv, path: " + path + ", label: kind}\nmodel: {preset: mlp, hidden: [8]}\n",
		"data: digits\nmodel: {preset: mlp, hidden: [8]}\n",
	} {
		c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		err = r.run(over, io.Discard, nil, c)
		if code := exitCode(err); code != cli.ExitStopped || !strings.Contains(err.Error(), "continue with") {
			t.Errorf("exit code %d: %v", code, err)
		}
		r.options.Resume = err != nil && strings.Contains(err.Error(), "and saved")
	}
}

// heard is a writer whose writes can be waited for.
type heard struct{ to chan string }

func (l heard) Write(b []byte) (int, error) {
	l.to <- string(b)
	return len(b), nil
}

// A signal promises to save once the run has started, not before.
func TestSignalPromisesToSave(t *testing.T) {
	for _, started := range []bool{false, true} {
		r := &training{stop: &signals.Stop{}, faults: &faultFlag{}}
		want := "stopping; a second signal stops at once\n"
		if started {
			o := &berth.Observer{Started: func(berth.Start) {}, Note: func(string) {}}
			r.savesOnceStarted(o, func() {}).Started(berth.Start{})
			want = "stopping once this step is finished and saved; a second signal stops at once\n"
		}
		said := heard{make(chan string, 4)}
		ctx, undo := r.stop.Watch(t.Context(), said)
		if err := sendSelf(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		undo()
		got := ""
		for len(said.to) > 0 {
			got += <-said.to
		}
		if got != want {
			t.Errorf("started %v: it says %q, want %q", started, got, want)
		}
	}
}

// Once nobody reads what a run prints, a signal still has it save, as after
// Ctrl-C in trainer train … | tee log.
func TestStopsWithoutReaders(t *testing.T) {
	t.Parallel()
	for _, both := range []bool{false, true} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "long.yaml"), []byte("data: digits\nmodel: {preset: mlp, hidden: [32]}\ntrain: {epochs: 100000, log_every: 1}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		trainer := exec.Command("trainer", "train", "long.yaml", "--run", "r")
		trainer.Dir, trainer.SysProcAttr = dir, signalled
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		trainer.Stdout = write
		if both {
			trainer.Stderr = write
		}
		if err := errors.Join(trainer.Start(), write.Close()); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(read)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "step 3 ") {
		}
		if err := errors.Join(lines.Err(), read.Close(), send(trainer.Process, syscall.SIGINT)); err != nil {
			t.Fatal(err)
		}
		if err := trainer.Wait(); trainer.ProcessState.ExitCode() != cli.ExitStopped {
			t.Errorf("stderr closed, too: %v: %v, want exit code %d", both, err, cli.ExitStopped)
		}
		verify := exec.Command("trainer", "checkpoints", "verify", "r")
		verify.Dir = dir
		if out, err := verify.CombinedOutput(); err != nil || !strings.Contains(string(out), "all whole") {
			t.Errorf("stderr closed, too: %v: %v: %s", both, err, out)
		}
	}
}

// Whoever loses the file of initial weights is told how to go on.
func TestGoOnWithoutInitialWeights(t *testing.T) {
	for saved, want := range map[int]string{0: "nothing was saved; begin again with the same command", 7: "is of step 7; continue with: trainer resume r"} {
		err := goOn(&berth.WeightsError{Saved: saved, Err: errors.New("w: gone")}, nil, "r")
		if !strings.HasSuffix(err.Error(), want) || exitCode(err) != cli.ExitFailure {
			t.Errorf("exit code %d: %v", exitCode(err), err)
		}
	}
}
