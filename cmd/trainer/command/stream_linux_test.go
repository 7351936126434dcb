package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// TestStreamedWeightsAreNeverWhole uses 108 MiB of weights that do not train, where a
// device has 12 MiB and the host may take 32 MiB. The whole process stays below the
// size of the weights, but for garbage, of which more or less is left by chance.
func TestStreamedWeightsAreNeverWhole(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("trains 220 MiB of weights: set TEST_ALL=1")
	}
	const weights, limit = 220 << 20, "--device-memory=12MiB"
	dir := t.TempDir()
	config := filepath.Join(dir, "deep.yaml")
	text := "data: {source: digits, split: 0.95}\n" +
		"model: {preset: mlp, hidden: [" + strings.Repeat("1024, ", 55) + "1024]}\n" +
		"train: {epochs: 1, batch: 64}\n" +
		"optimizer: {freeze: [\"layers.?.*\", \"layers.[1-4]?.*\", \"layers.5[0-5].*\"]}\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (peak int64) {
		t.Helper()
		c := exec.Command("trainer", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOGC=10")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	}
	run("train", config, "--run", "whole", "--max-steps", "1")
	run("export", "whole", "--out", "w.safetensors")
	for _, args := range [][]string{
		{"train", config, "--run", "r", "--init", "w.safetensors", "--max-steps", "2"},
		{"resume", "r", "--max-steps", "3"},
		{"eval", "r"},
		{"eval", "r", "--init", "w.safetensors"},
		{"predict", "r", "--out", "answers.csv"},
	} {
		peak := run(append(args, limit, "--host-memory=32MiB")...)
		t.Logf("%v took %d MiB", args, peak>>20)
		if peak >= weights {
			t.Errorf("%v took %d MiB, the weights have %d", args, peak>>20, weights>>20)
		}
	}
}
