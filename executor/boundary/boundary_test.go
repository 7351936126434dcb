package boundary_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/berth-ml/berth/datasets"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// epoch takes an epoch's steps.
func epoch(t *testing.T, r *smallrun.Run) {
	t.Helper()
	err := feed.Each(t.Context(), r.Devices[0], r.Program, r.Data.Train, func(datasets.Batch) error {
		r.Runtime.Residency.Ledger().Step()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Rings hold the losses of the steps asked for, and their mean over samples.
func TestRings(t *testing.T) {
	r := smallrun.New(t, "cpu")
	epoch(t, r)
	rings := boundary.Rings{Runtime: r.Runtime, Program: r.Program}
	losses, err := rings.Pull(t.Context(), ledger.Epoch, models.LossRing)
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= smallrun.Steps; step++ {
		if loss := losses.Of(step); loss < 1 || loss > 5 {
			t.Errorf("loss %v of step %d", loss, step)
		}
	}
	samples := func(step int) int { return 10 * step }
	mean := losses.Mean(1, 3, samples)
	if want := (20*losses.Of(2) + 30*losses.Of(3)) / 50; math.Abs(*mean-want) > 1e-12 {
		t.Errorf("mean %v, want %v", *mean, want)
	}
	if mean := losses.Mean(3, 3, samples); mean != nil {
		t.Errorf("no steps: %v", *mean)
	}
	missing, err := rings.Pull(t.Context(), ledger.Epoch, "no_such_ring")
	if mean := missing.Mean(0, 3, samples); mean != nil || err != nil {
		t.Errorf("a ring that is missing: %v, %v", mean, err)
	}
}

// Between Seal and Unseal losses come out only if they are logged, and a
// boundary's pull-back counts for no step.
func TestSeal(t *testing.T) {
	r := smallrun.NewWith(t, "cpu", residency.TenantOptions{Strict: true})
	m := r.Runtime.Residency
	epoch(t, r)
	pull := func(why ledger.Reason) error {
		_, err := r.Runtime.Floats(t.Context(), why, r.Program.Var(models.LossRing))
		return err
	}
	if err := pull(ledger.Epoch); err != nil {
		t.Fatal(err)
	}
	for _, reasons := range [][]ledger.Reason{nil, {ledger.Log}} {
		boundary.Seal(m, reasons...)
		logs := len(reasons) > 0
		epoch(t, r) // the ring is on the device again
		if err := pull(ledger.Epoch); !errors.Is(err, residency.ErrNotResident) {
			t.Errorf("logs %v: the epoch's losses: %v", logs, err)
		}
		if err := pull(ledger.Log); logs && err != nil || !logs && !errors.Is(err, residency.ErrNotResident) {
			t.Errorf("logs %v: logging: %v", logs, err)
		}
	}
	boundary.Unseal(m)
	epoch(t, r)
	if err := pull(ledger.Epoch); err != nil {
		t.Error(err)
	}
	if got := m.Ledger().SteadyState().PullBack; got.Median != 0 {
		t.Errorf("the median step pulls %d bytes back", got.Median)
	}
}

// Salvage has the variables as the program has them.
func TestSalvage(t *testing.T) {
	r := smallrun.New(t, "cpu")
	all, err := boundary.Salvage(t.Context(), r.Runtime, r.Program)
	if err != nil || len(all) != len(r.Plan.Graph.Vars) {
		t.Fatalf("%d variables, %v", len(all), err)
	}
	for _, v := range r.Plan.Graph.Vars {
		want := make([]byte, v.Meta.Bytes())
		if err := r.First(v, want); err != nil {
			t.Fatal(err)
		}
		if v.Role == graph.Parameter && !bytes.Equal(all[v.Name], want) {
			t.Errorf("%s is not what it was", v.Name)
		}
	}
}
