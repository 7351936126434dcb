package runtest

import (
	"bytes"
	"os"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
)

// Contents reads all of a run's newest checkpoint, or of that of a step.
func Contents(t *testing.T, dir string, step int) map[string][]byte {
	t.Helper()
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ms, skipped, err := db.List()
	if err != nil || len(skipped) > 0 {
		t.Fatal(skipped, err)
	}
	for _, m := range ms {
		if m.Step != step {
			continue
		}
		s, err := db.Load(m.ID)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string][]byte{}
		for _, x := range s.Tensors() {
			b := make([]byte, x.Meta.Bytes())
			if err := s.Read(x.Name, 0, b); err != nil {
				t.Fatal(err)
			}
			all[x.Name] = b
		}
		return all
	}
	t.Fatalf("no checkpoint of step %d among %d", step, len(ms))
	return nil
}

// DamageStep flips a bit of a weight in the checkpoint of a step.
func DamageStep(t *testing.T, dir string, step int) {
	t.Helper()
	was := Contents(t, dir, step)["fc1.weight"][:64]
	path := rundir.CheckpointPath(dir)
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(b, was) {
		t.Fatalf("the weights of step %d are not found: %v", step, err)
	}
	for at := bytes.Index(b, was); at >= 0; at = bytes.Index(b, was) {
		b[at] ^= 1
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
