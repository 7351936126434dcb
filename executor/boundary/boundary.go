package boundary

import (
	"context"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// Seal says that from now on only the batch goes in. Checkpoints still come
// out, and anything else for the reasons given.
func Seal(m *residency.Tenant, reasons ...ledger.Reason) {
	m.Ledger().Boundary()
	m.Seal()
	m.Unseal(append(reasons, ledger.Checkpoint)...)
}

// Unseal lets everything move.
func Unseal(m *residency.Tenant) { m.Unseal() }

// Rings are the values that a program's steps record on the device, one of each
// ring per step. A step writes over that of one ring's length before it.
type Rings struct {
	Runtime *executor.Runtime
	Program *executor.Program
}

// Values are a ring's contents: one for each of the newest steps.
type Values []float32

// Pull pulls a ring back; nil if the program has no such ring.
func (r Rings) Pull(ctx context.Context, why ledger.Reason, name string) (Values, error) {
	v := r.Program.Var(name)
	if v == nil {
		return nil, nil
	}
	return r.Runtime.Floats(ctx, why, v)
}

// Of is the value of a step, counted from 1.
func (v Values) Of(step int) float64 { return float64(v[(step-1)%len(v)]) }

// Mean is the mean over the samples of the steps after first, up to last; nil
// if there are none, or no ring.
func (v Values) Mean(first, last int, samples func(step int) int) *float64 {
	var sum float64
	n := 0
	for step := first + 1; step <= last && v != nil; step++ {
		sum += v.Of(step) * float64(samples(step))
		n += samples(step)
	}
	if n == 0 {
		return nil
	}
	sum /= float64(n)
	return &sum
}

// Salvage copies every variable of a program to the host as it was before a
// step that failed: the step's update was skipped. Variables that the program has in
// ranges are whole.
func Salvage(ctx context.Context, rt *executor.Runtime, p *executor.Program) (map[string][]byte, error) {
	Unseal(rt.Residency)
	out := map[string][]byte{}
	for _, v := range p.Graph().Vars {
		whole := v.Whole()
		if out[whole.Name] == nil {
			out[whole.Name] = make([]byte, whole.Meta.Bytes())
		}
		err := rt.Residency.Salvage(ctx, p.Var(v.Name), func(b []byte) error {
			copy(out[whole.Name][v.Offset():], b)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
