package command

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// killsVariable says how often TestKills kills, where that is not the default.
const killsVariable = "BERTH_KILLS"

// killed trains with checkpoints within epochs, dropout and an optimizer with
// state: all that a resume must restore.
const killed = `
data: {source: digits}
model:
  layers:
    - {type: flatten}
    - {type: dense, units: 48, activation: relu}
    - {type: dropout, rate: 0.2}
    - {type: dense, units: 10}
train: {epochs: 5, batch: 32, log_every: 10}
checkpoint: {every: 7, keep: {last: 2}}
optimizer: {name: adamw, lr: 0.002}
`

// TestKills kills a training at random moments and resumes it until it is
// finished. Its weights must be those of a run that nobody killed. It repeats
// that until it has killed often enough: BERTH_KILLS=500 makes it long.
func TestKills(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	kills := testall.Or(4, 12)
	if s := os.Getenv(killsVariable); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &killer{t: t, r: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(k.dir, "model.yaml"), []byte(killed), 0o644); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if out, err := k.trainer("train", "model.yaml", "--run", "whole").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	k.whole, k.want = time.Since(start), k.weights("whole")
	k.most = kills
	runs := 0
	for ; k.kills < k.most; runs++ {
		k.run("r" + strconv.Itoa(runs))
	}
	t.Logf("%d kills of %d runs, %d of them before the first checkpoint", k.kills, runs, k.early)
}

// killer is the state of TestKills.
type killer struct {
	t            *testing.T
	r            *rand.Rand
	dir          string
	whole        time.Duration // what a run takes
	want         string        // its weights
	most         int           // kills that are wanted; the last run ends however slow the machine has become
	kills, early int
}

// run kills one run until it gets through, and compares its weights.
func (k *killer) run(name string) {
	args := []string{"train", "model.yaml", "--run", name}
	for {
		c := k.trainer(args...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			k.t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(k.r.Float64()*1.2*float64(k.whole)), func() { c.Process.Kill() })
		if k.kills >= k.most {
			timer.Stop()
		}
		err := c.Wait()
		timer.Stop()
		switch {
		case err == nil:
			if got := k.weights(name); got != k.want {
				k.t.Fatalf("%s: after %d kills the weights are %s, want %s", name, k.kills, got, k.want)
			}
			if left, err := filepath.Glob(filepath.Join(k.dir, name, "checkpoints.db?*")); err != nil || len(left) > 0 {
				k.t.Errorf("%s: left %v, %v", name, left, err)
			}
			return
		case c.ProcessState.ExitCode() == 2 && args[0] == "resume":
			// Killed before there was a checkpoint: it has to begin again.
			k.early++
			args = []string{"train", "model.yaml", "--run", name, "--fresh"}
		case c.ProcessState.ExitCode() == -1:
			k.kills++
			args = []string{"resume", name}
		default:
			k.t.Fatalf("%s: %v: %s", name, err, out.String())
		}
	}
}

// trainer is the command, to be run in the test's folder.
func (k *killer) trainer(args ...string) *exec.Cmd {
	c := exec.Command("trainer", args...)
	c.Dir = k.dir
	return c
}

func (k *killer) weights(run string) string {
	b, err := os.ReadFile(filepath.Join(k.dir, run, "report.json"))
	if err != nil {
		k.t.Fatal(err)
	}
	var r struct {
		Weights string `json:"weights_sha256"`
	}
	if err := json.Unmarshal(b, &r); err != nil || len(r.Weights) != 64 {
		k.t.Fatalf("%s: weights %q: %v", run, r.Weights, err)
	}
	return r.Weights
}
