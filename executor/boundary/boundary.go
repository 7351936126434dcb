package boundary

import (
	"context"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// Seal says that from now on only the batch goes in. Checkpoints still come
// out, and losses if logs is true.
func Seal(m *residency.Tenant, logs bool) {
	m.Ledger().Boundary()
	m.Seal()
	m.Unseal(ledger.Checkpoint)
	if logs {
		m.Unseal(ledger.Log)
	}
}

// Unseal lets everything move.
func Unseal(m *residency.Tenant) { m.Unseal() }

// Rings are the values that a program's steps record on the device, one of each
// ring per step. A step writes over that of one epoch before it.
type Rings struct {
	Runtime *executor.Runtime
	Program *executor.Program
}

// Each pulls a ring back and gives f the values of the steps after first, up to
// last, in order. Steps count from 1.
func (r Rings) Each(ctx context.Context, why ledger.Reason, name string, first, last int, f func(step int, value float64) error) error {
	ring, err := r.Runtime.Floats(ctx, why, r.Program.Var(name))
	if err != nil {
		return err
	}
	for step := first + 1; step <= last; step++ {
		if err := f(step, float64(ring[(step-1)%len(ring)])); err != nil {
			return err
		}
	}
	return nil
}

// Mean is the mean over the samples of the steps after first, up to last; nil
// if there are none, or the program has no such ring.
func (r Rings) Mean(ctx context.Context, name string, first, last int, samples func(step int) int) (*float64, error) {
	if r.Program.Var(name) == nil {
		return nil, nil
	}
	var sum float64
	n := 0
	err := r.Each(ctx, ledger.Epoch, name, first, last, func(step int, value float64) error {
		sum += value * float64(samples(step))
		n += samples(step)
		return nil
	})
	if err != nil || n == 0 {
		return nil, err
	}
	sum /= float64(n)
	return &sum, nil
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
