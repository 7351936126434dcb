package train_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
)

// diverged is a checkpoint whose parameters are NaN, as no run saves one.
type diverged struct{ *checkpoint.Snapshot }

func (d diverged) Read(name string, off int64, dst []byte) error {
	if t, _ := d.Tensor(name); t.Role != graph.Parameter.String() {
		return d.Snapshot.Read(name, off, dst)
	}
	for i := range shape.View[float32](dst) {
		shape.View[float32](dst)[i] = float32(math.NaN())
	}
	return nil
}

// A run whose newest checkpoint is not finite does not go on from it. The error names the
// newest that is.
func TestLastGoodCheckpointIsFinite(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.every=2"), berth.TrainOptions{Dir: dir, MaxSteps: 4})
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newest, _, err := db.Latest(t.Context())
	if err == nil {
		_, err = db.Save(t.Context(), newest.Manifest, diverged{newest})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = runtest.Open(t, runtest.Everything, "checkpoint.every=2").Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	if !errors.Is(err, safetensors.ErrFinite) || !strings.Contains(err.Error(), "the last good checkpoint is 2, of step 4, in ") {
		t.Errorf("got %v", err)
	}
}
