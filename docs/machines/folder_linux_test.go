package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// folder is one in which a test runs commands.
type folder struct {
	t   *testing.T
	dir string
	env []string
}

// try runs a command in the folder of the test, and gives what it prints.
func (f *folder) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = f.env, f.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try with a command that must succeed.
func (f *folder) run(name string, args ...string) string {
	f.t.Helper()
	out, err := f.try(name, args...)
	if err != nil {
		f.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// config is one of a run whose number of epochs is given later.
const config = `
data: {source: digits}
model: {preset: mlp, hidden: [32]}
train: {batch: 32, microbatches: 8, reduction: tree, epochs: %d}
optimizer: {name: adamw, lr: 0.003}
devices: {threads: 1}
`

// report is what a test reads of a run's report.
type report struct {
	Steps    int    `json:"steps"`
	Finished bool   `json:"finished"`
	Weights  string `json:"weights_sha256"`
}

func (f *folder) report(run string) (r report) {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, run, "report.json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// epochs writes the config of a number of epochs.
func (f *folder) epochs(file string, n int) {
	f.t.Helper()
	f.write(file, fmt.Sprintf(config, n))
}

// write writes a file, which can be run.
func (f *folder) write(file, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, file), []byte(text), 0o755); err != nil {
		f.t.Fatal(err)
	}
}
