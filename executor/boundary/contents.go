package boundary

import (
	"context"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// Contents copies a variable of the program out for a reason, also one that the
// program has in ranges. ok is false if there is none of that name. It waits for the
// steps that are queued.
func (r Rings) Contents(ctx context.Context, why ledger.Reason, name string) (m shape.Meta, b []byte, ok bool, err error) {
	for _, v := range r.Program.Graph().Vars {
		whole := v.Whole()
		if whole.Name != name {
			continue
		}
		if !ok {
			m, b, ok = whole.Meta, make([]byte, whole.Meta.Bytes()), true
		}
		t := r.Program.Var(v.Name)
		if err := r.Runtime.Residency.PullBack(ctx, why, t); err != nil {
			return m, nil, true, err
		}
		err := r.Runtime.Residency.View(t, func(part []byte) error {
			copy(b[v.Offset():], part)
			return nil
		})
		if err != nil {
			return m, nil, true, err
		}
	}
	return m, b, ok, nil
}
