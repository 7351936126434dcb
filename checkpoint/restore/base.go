package restore

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/engine/graph"
)

// BaseOf says which weights the adapter in a checkpoint was trained beside.
func BaseOf(m *checkpoint.Manifest) (*runstate.Base, error) {
	st, err := runstate.Of(m)
	if err != nil {
		return nil, err
	}
	if st.Base == nil {
		return nil, fmt.Errorf("%w: checkpoint %d does not say which weights an adapter was trained beside: begin another run", initial.ErrChanged, m.ID)
	}
	return st.Base, nil
}

// OpenBase opens the weights that the adapter in a checkpoint was trained beside, for the variables
// of a graph of the model. The caller closes them. Other weights than those are refused with
// initial.ErrInit.
func OpenBase(ctx context.Context, m *checkpoint.Manifest, seed uint64, vars []*graph.Value) (*initial.Values, error) {
	base, err := BaseOf(m)
	if err != nil {
		return nil, err
	}
	return initial.OpenBase(ctx, base.Init, base.SHA256, seed, vars)
}
