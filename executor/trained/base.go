package trained

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// runtime makes a runtime with the memory that a call needs. On shared devices, it has the weights beside which
// adapters were trained together with others.
func (t *Model) runtime(ctx context.Context, o residency.TenantOptions) (*executor.Runtime, error) {
	of := func(v *graph.Value) bool { return v.Tagged(graph.BaseTag) }
	t.beside = t.frozen
	if t.adapters != nil {
		first := t.adapters[0]
		of = func(v *graph.Value) bool { return first.frozen[v.Whole().Name] }
		t.beside = first.base.SHA256
	}
	if t.beside != "" {
		var err error
		if o.Base, err = t.session.Base(t.beside, of); err != nil {
			return nil, err
		}
	}
	return t.session.Runtime(ctx, t.session.Devices, t.weights.Dir, o)
}

// besideOf is the hash of the weights that the adapter in a checkpoint was trained beside; "": it has none.
func besideOf(f *rundir.Found) (string, error) {
	st, err := runstate.Of(&f.Snapshot.Manifest)
	if err != nil || st.Base == nil {
		return "", err
	}
	return st.Base.SHA256, nil
}

// checkBeside refuses a checkpoint beside other weights than those that the runtime has for it.
func (t *Model) checkBeside() error {
	now, err := besideOf(t.found)
	if err == nil && now != t.beside {
		err = fmt.Errorf("%w: %s is another run by now, beside weights with SHA-256 %s and not %s: open it anew", initial.ErrChanged, t.weights.Dir, now, t.beside)
	}
	return err
}
