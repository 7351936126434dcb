package train_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/internal/runtest"
)

// imported adds to the run in dir a checkpoint that is its newest with the
// weights of its oldest.
func imported(t *testing.T, dir string) {
	t.Helper()
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	list, _, err := db.List()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "w.safetensors")
	if err := db.Export(list[0].ID, file, "parameter", "statistic"); err != nil {
		t.Fatal(err)
	}
	base, _, err := db.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was := base.Manifest
	id, err := runstate.Import(t.Context(), db, base, file, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	if m := s.Manifest; len(m.Metrics) > 0 || m.Step != was.Step || m.Index != was.Index || string(m.Extra) == string(was.Extra) || m.Best != was.Best {
		t.Errorf("%+v was imported over %+v", m, was)
	}
	if string(base.Manifest.Extra) != string(was.Extra) {
		t.Error("the base's manifest has changed")
	}
}

// A run that was over is evaluated with the weights that were imported.
func TestImportedWeightsAreEvaluated(t *testing.T) {
	dir := t.TempDir()
	before := runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.keep.last=9"), berth.TrainOptions{Dir: dir})
	imported(t, dir)
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.keep.last=9"), berth.TrainOptions{Dir: dir, Resume: true})
	res, err := runtest.Open(t, runtest.Everything).Eval(t.Context(), berth.Weights{Dir: dir, Last: true})
	if err != nil {
		t.Fatal(err)
	}
	f := rep.Final
	if f.ValLoss == nil || *f.ValLoss != res.Loss || *f.ValAccuracy != *res.Accuracy || f.TrainLoss != nil {
		t.Errorf("the report says %+v, eval %+v", f, res)
	}
	if *before.Final.ValLoss == res.Loss || before.WeightsSHA256 == rep.WeightsSHA256 {
		t.Error("the weights are what they were")
	}
}

// What is measured of imported weights begins with them: early stopping, an
// epoch's mean, and what is reported before an epoch has ended.
func TestMetricsBeginWithAnImport(t *testing.T) {
	dir := t.TempDir()
	stops := []string{"train.epochs=9", "checkpoint.keep.last=99", "optimizer.lr=0.0000001", "early_stopping.metric=val_loss", "early_stopping.patience=1", "early_stopping.min_delta=1"}
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything, stops...), berth.TrainOptions{Dir: dir})
	steps := rep.Steps / rep.Epochs
	if rep.Epochs != 2 {
		t.Fatalf("%d epochs before stopping early", rep.Epochs)
	}
	imported(t, dir)
	part := runtest.Train(t, runtest.Open(t, runtest.Everything, stops...), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: rep.Steps + 3})
	if part.Steps != rep.Steps+3 || !reflect.DeepEqual(part.Final, berth.Final{}) {
		t.Errorf("within the epoch: step %d, %+v", part.Steps, part.Final)
	}
	imported(t, dir)
	rep = runtest.Train(t, runtest.Open(t, runtest.Everything, stops...), berth.TrainOptions{Dir: dir, Resume: true})
	if rep.Epochs != 4 || rep.Steps != 4*steps || rep.Final.ValLoss == nil || rep.Final.TrainLoss == nil {
		t.Errorf("stopped after %d epochs, %d steps: %+v", rep.Epochs, rep.Steps, rep.Final)
	}
}
