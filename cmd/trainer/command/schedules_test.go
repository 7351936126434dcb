package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
)

// TestEveryConfigFillsTheBubble trains the shipped configs for two steps with weight
// gradients in passes of their own, and compares the weights with the plain run's.
// Without TEST_ALL, only one does.
func TestEveryConfigFillsTheBubble(t *testing.T) {
	t.Parallel()
	names := configs.Names()
	if !testall.Wanted() {
		names = []string{"digits-cnn"}
	}
	for _, name := range names {
		dir := t.TempDir()
		train := func(run string, args ...string) string {
			t.Helper()
			args = append([]string{"train", name, "--run", run, "--set", "train.microbatches=4", "--max-steps", "2", "--assert-resident", "--quiet"}, args...)
			c := exec.Command("trainer", args...)
			c.Dir = dir
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
			text, err := os.ReadFile(filepath.Join(dir, run, "report.json"))
			if err != nil {
				t.Fatal(err)
			}
			var r documented
			if err := json.Unmarshal(text, &r); err != nil || len(r.WeightsSHA256) != 64 {
				t.Fatalf("weights %q: %v", r.WeightsSHA256, err)
			}
			return r.WeightsSHA256
		}
		want := train("plain")
		for _, devices := range []string{"cpu:2", "cpu:3"} {
			if got := train(devices, "--devices", devices, "--set", "partition.schedule=zb-h1"); got != want {
				t.Errorf("%s on %s: weights %s, want %s", name, devices, got, want)
			}
		}
	}
}
