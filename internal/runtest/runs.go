package runtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// Everything has every kind of state that a run has: dropout, batchnorm statistics, momentum, a
// learning rate that moves, a norm that joins all gradients, and a last batch
// that is smaller and does not divide into microbatches.
const Everything = `
data: {source: digits, split: 0.18}
model:
  layers:
    - {type: conv2d, name: conv, channels: 4, kernel: 3, padding: same}
    - {type: batchnorm, name: norm}
    - relu
    - {type: max_pool, kernel: 2}
    - flatten
    - {type: dense, name: fc1, units: 24, activation: tanh}
    - {type: dropout, rate: 0.3}
    - {type: residual, name: skip, layers: [{type: layernorm}, {type: dense, units: 24}]}
    - {type: dense, name: fc2, units: 10}
train: {epochs: 3, batch: 32, microbatches: 4}
optimizer: {name: adamw, lr: 0.01, clip_norm: 0.5, no_decay: [bias, norm]}
schedule: {name: cosine, warmup: 5}
`

// A tied table on the first and the last stage.
const tied = `
data: {source: text, path: TEXT, context: 8}
model: {preset: gpt, layers: 2, heads: 2, width: 16, dropout: 0.1}
train: {epochs: 1, batch: 16, microbatches: 4}
optimizer: {name: adamw, lr: 0.01, clip_norm: 1.0}
`

func Open(t *testing.T, text string, set ...string) *berth.Run {
	t.Helper()
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func Train(t *testing.T, r *berth.Run, o berth.TrainOptions) *berth.Report {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	rep, err := r.Train(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// Tied is a config with a tied table on the first and the last stage, with a text of its own.
func Tied(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "text.txt")
	text := ""
	for i := range 300 {
		text += fmt.Sprintf("%d bottles, %d more; ", i, i*i%17)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(tied, "TEXT", path, 1)
}

// Parsed is a config of a text, or the shipped one of a name.
func Parsed(t *testing.T, text string, set ...string) *configs.Config {
	t.Helper()
	parse := func() (*configs.Config, error) { return configs.Load(text, configs.Overlay{Set: set}) }
	if strings.Contains(text, "\n") {
		parse = func() (*configs.Config, error) {
			return configs.Parse("test.yaml", []byte(text), configs.Overlay{Set: set})
		}
	}
	c, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// OpenDevices opens devices of that many bytes each.
func OpenDevices(t *testing.T, use string, bytes int64, set ...string) *berth.Devices {
	t.Helper()
	set = append(set, "devices.use="+use, fmt.Sprintf("devices.memory=%dB", bytes))
	d, err := berth.OpenDevices(Parsed(t, "digits", set...).Devices, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// OpenOn opens a config on shared devices.
func OpenOn(t *testing.T, d *berth.Devices, c *configs.Config) *berth.Run {
	t.Helper()
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{Devices: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
