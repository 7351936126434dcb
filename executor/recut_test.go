package executor_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// recut has the rig go on by a plan for devices that are so slow. It reports false where that cannot be.
func (r *rig) recut(t *rapid.T, schedule string, slow []float64) bool {
	j := r.job
	j.slow = slow
	o, err := j.options(r.devs, schedule)
	if err != nil {
		t.Fatal(err)
	}
	if !o.Full.Movable() {
		return false
	}
	o.OpByOp, o.CheckFinite = j.alone, j.alone
	if undone, err := r.prog.Recut(t.Context(), o); err != nil || undone {
		t.Fatalf("%v, undone: %v", err, undone)
	}
	launches, err := o.Full.Launches(partition.StepOptions{Microbatches: o.Full.Microbatches})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string][]int{}
	for i := range launches {
		for _, n := range launches[i].Needs {
			if n.Value.Kind == graph.Variable {
				used[n.Value.Name] = append(used[n.Value.Name], launches[i].Device)
			}
		}
	}
	for _, v := range o.Full.Graph.Vars {
		for d := range r.devs {
			if has := r.rt.Residency.Has(d, r.prog.Var(v.Name)); has != slices.Contains(used[v.Name], d) && len(used[v.Name]) > 0 {
				t.Fatalf("%s has %s: %v, though the launches that use it are on %v", r.devs[d].ID(), v.Name, has, used[v.Name])
			}
		}
	}
	return true
}

// Whichever blocks stages get, and whenever they do, the bits are those of one device, and each variable is where it is used
// and nowhere else.
func TestSameWeightsWithAnyStages(t *testing.T) {
	t.Parallel()
	recuts := 0
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		j.replicas = 0
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		j.balanced, j.alone = true, rapid.Bool().Draw(t, "op by op")
		devices := rapid.IntRange(2, 3).Draw(t, "devices")
		if rapid.Bool().Draw(t, "pins") {
			j.drawPins(t, devices)
		}
		devs, err := openDevices("cpu", devices, 1)
		if err != nil {
			t.Fatal(err)
		}
		schedule := rapid.SampledFrom([]string{"gpipe", "1f1b", "interleaved", "zb-h1"}).Draw(t, "schedule")
		r, err := newRig(j, devs, schedule, residency.ManagerOptions{})
		defer func() {
			if err := r.close(); err != nil {
				t.Error(err)
			}
		}()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.prog.Init(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		for i, n := range r.epoch() {
			if r.prog.Plan().Movable() && rapid.Bool().Draw(t, "recut") {
				slow := rapid.SliceOfN(rapid.SampledFrom([]float64{1, 3, 100}), len(devs), len(devs)).Draw(t, "slow")
				if r.recut(t, schedule, slow) {
					recuts++
				}
			}
			b, err := r.feed(i, n)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.prog.Step(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.vars(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
	})
	if recuts == 0 && !testing.Short() { // which draws none
		t.Error("no plan changed")
	}
}

// A plan of another model, or under another name, is refused, and the program goes on as before.
func TestRecutRefuses(t *testing.T) {
	t.Parallel()
	j := mlpJob(4)
	j.balanced = true
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	own, err := j.options(r.devs, "1f1b")
	if err != nil {
		t.Fatal(err)
	}
	other := own
	other.Net = "other"
	foreign, err := gptJob(4).options(r.devs, "1f1b")
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range []executor.LoadOptions{other, foreign} {
		if undone, err := r.prog.Recut(t.Context(), o); !undone || !errors.Is(err, executor.ErrOptions) {
			t.Errorf("%d: %v, undone: %v", i, err, undone)
		}
		step(t, r, r.prog, i, r.batch())
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
}

// Where a copy between devices fails for good while blocks move, each variable is on a device as the newest step has left it.
func TestRecutFails(t *testing.T) {
	t.Parallel()
	j := mlpJob(4)
	want := steps(t, j)[1]
	j.balanced = true
	devs, err := openDevices("cpu", 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &fault{op: faults.Peer, late: true}
	r, err := newRig(j, withFaults(devs, f), "1f1b", residency.ManagerOptions{})
	defer func() {
		if err := r.close(); err != nil && !errors.Is(err, errBoom) {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.prog.Init(short(t), first); err != nil {
		t.Fatal(err)
	}
	step(t, r, r.prog, 0, j.epoch()[0])
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	j.slow = []float64{1, 100}
	o, err := j.options(r.devs, "1f1b")
	if err != nil {
		t.Fatal(err)
	}
	f.next()
	if undone, err := r.prog.Recut(short(t), o); undone || !errors.Is(err, errBoom) {
		t.Fatalf("%v, undone: %v", err, undone)
	}
	if last, err := r.prog.Whole(); last != 1 || err != nil {
		t.Errorf("step %d is whole: %v", last, err)
	}
	r.holds(t, want)
}
