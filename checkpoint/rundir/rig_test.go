package rundir_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

// ring is a source with the losses of an epoch of so many steps.
type ring int

func (r ring) Tensors() []checkpoint.Tensor {
	return []checkpoint.Tensor{{Name: models.LossRing, Meta: shape.F32(int(r)), Role: "metric"}}
}

func (r ring) Read(_ string, _ int64, dst []byte) error {
	clear(dst)
	return nil
}

// configText is a config of three epochs, resolved, with changes.
func configText(t *testing.T, set ...string) []byte {
	t.Helper()
	c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 3, batch: 32}\n"), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// save adds a checkpoint to the run folder dir: of a run that stands at a step,
// where an epoch has ten.
func save(t *testing.T, dir string, at runstate.Progress, set ...string) {
	t.Helper()
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	extra, err := json.Marshal(runstate.State{Progress: at})
	if err != nil {
		t.Fatal(err)
	}
	m := checkpoint.Manifest{
		Step: at.Step, Epoch: at.Epoch, Index: at.Index, Metrics: at.Metrics(), Best: at.Best,
		Extra: extra, Config: configText(t, set...),
	}
	if _, err := db.Save(t.Context(), m, ring(10)); err != nil {
		t.Fatal(err)
	}
}

// damage flips a bit of the manifest that has a text.
func damage(t *testing.T, dir, text string) {
	t.Helper()
	path := rundir.CheckpointPath(dir)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := 0; i+len(text) <= len(b); i++ {
		if string(b[i:i+len(text)]) == text {
			b[i] ^= 1
			n++
		}
	}
	if n == 0 {
		t.Fatalf("%s has no %q", path, text)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// files are the contents of a folder by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range list {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(b)
	}
	return all
}

// notes collects notes.
type notes []string

func (n *notes) add(text string) { *n = append(*n, text) }
