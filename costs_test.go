package berth

import (
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// A run whose plan follows from arithmetic is predicted by measured times wherever the
// file has those of all its segments. Its plans are still made without them.
func TestPredictionByTimesThatAreThere(t *testing.T) {
	config, err := configs.Load("digits", configs.Overlay{Set: []string{"devices.use=cpu:2", "train.microbatches=2"}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "costs.json")
	run, err := Open(t.Context(), config, OpenOptions{Costs: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	}()
	launches, err := run.Plan().Launches(partition.StepOptions{Microbatches: 2})
	if err != nil {
		t.Fatal(err)
	}
	tasks := timing.Tasks(run.Plan(), launches)
	for known := range len(tasks) + 1 {
		file, err := costs.Open(path, costs.ThisMachine())
		if err != nil {
			t.Fatal(err)
		}
		times := map[costs.Key]float64{}
		for _, x := range tasks[:known] {
			times[costs.SegmentKey(x.Variant.Graph, false, costs.On(run.run.Session().Planner.Specs, x.Device))] = 1
		}
		if err := file.Add(t.Context(), times); err != nil {
			t.Fatal(err)
		}
		p, err := run.run.Session().Predict(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if timed := p.Seconds > 1; timed != (p.Measured == len(p.Launches)) || known == 0 && timed || known == len(tasks) && !timed {
			t.Errorf("%d of %d times are known: %v", known, len(tasks), p)
		}
		if p, err := run.StepTime(t.Context()); err != nil || p.Measured > 0 {
			t.Errorf("a plan by arithmetic: %v, %v", p, err)
		}
	}
}
