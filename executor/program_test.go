package executor_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// Training and evaluation on one runtime share weights: the sums of an evaluation
// are those of the weights at that moment of training.
func TestProgramsShareWeights(t *testing.T) {
	for devices := 1; devices <= 2; devices++ {
		alone, together := evaluated(t, devices, false), evaluated(t, devices, true)
		for i := range alone {
			if alone[i] != together[i] {
				t.Errorf("%d devices, after step %d: the loss is %v, of the same weights alone %v", devices, i, together[i], alone[i])
			}
		}
		if alone[0] == alone[1] {
			t.Error("a step changes nothing")
		}
	}
}

// loadEval loads the evaluation of 3 samples at a time, and fills its sums.
func loadEval(t *testing.T, r *rig) *executor.Program {
	t.Helper()
	g, err := models.Eval(r.spec, models.Size{Microbatch: 3})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := partition.New(g, partition.PlanOptions{Devices: specs(r.devs), Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.rt.Load(executor.LoadOptions{Net: "eval", Full: plan})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{models.EvalLoss, models.EvalCorrect} {
		if err := r.rt.Residency.Fill(p.Var(name), make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestScheduleIsTheFullStepsOne(t *testing.T) {
	r := mustRig(t, gptJob(4), "cpu", 2, "gpipe", residency.ManagerOptions{})
	want, err := schedule.New(schedule.Spec{Name: "gpipe", Stages: 2, Microbatches: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.prog.Schedule(); got.String() != want.String() {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	if err := r.run(short(t)); err != nil {
		t.Fatal(err)
	}
	for i, d := range r.rt.Busy() {
		if d <= 0 {
			t.Errorf("device %d was busy for %v", i, d)
		}
	}
}

// evaluated is the evaluation loss after each step of training, either in the
// midst of it, or each on a runtime of its own.
func evaluated(t *testing.T, devices int, together bool) (losses []float32) {
	t.Helper()
	const steps = 4
	r := mustRig(t, gptJob(2), "cpu", devices, "1f1b", residency.ManagerOptions{})
	eval := loadEval(t, r)
	for i := range steps {
		if !together {
			r = mustRig(t, gptJob(2), "cpu", devices, "1f1b", residency.ManagerOptions{})
			eval = loadEval(t, r)
		}
		for k := range i + 1 {
			if together && k < i {
				continue
			}
			step(t, r, r.prog, k, r.batch())
		}
		if err := r.rt.Residency.Fill(eval.Var(models.EvalLoss), make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			step(t, r, eval, 100+k, 3)
		}
		d, err := r.rt.Residency.EnsureHost(short(t), ledger.Epoch, eval.Var(models.EvalLoss))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, shape.View[float32](d)[0])
	}
	return losses
}
