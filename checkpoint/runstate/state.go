package runstate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
)

// State is what a checkpoint's manifest holds as Extra: where the run stands,
// and the description of its data, so that predicting needs no other.
type State struct {
	Progress   Progress
	Data       datasets.Info
	EpochSteps int `json:",omitempty"` // steps of an epoch; 0: the ring of losses has as many entries
	// Base is the weights that an adapter is trained beside; nil: the checkpoint has all weights.
	Base *Base `json:",omitempty"`
}

// Base says which weights an adapter is trained beside. They are in no checkpoint.
type Base struct {
	Init   string `json:",omitempty"` // the source, as initial.ParseSource reads it, with an absolute path; "": by rule, from the config's seed
	SHA256 string // of the weights: see initial.Values.BaseHash
}

// Of reads the state of a checkpoint.
func Of(m *checkpoint.Manifest) (st State, err error) {
	if err := json.Unmarshal(m.Extra, &st); err != nil {
		return st, fmt.Errorf("checkpoint %d: state of the run: %w", m.ID, err)
	}
	return st, nil
}

// Import adds to db a checkpoint that is base with the parameters of a
// safetensors file in place of its own, and with other tensors that the file has
// for it (see [checkpoint.DB.Import]). A run goes on from it where base stood.
// Metrics of base's weights are left out: the new checkpoint has none before the
// next boundary, and early stopping counts from there.
func Import(ctx context.Context, db *checkpoint.DB, base *checkpoint.Snapshot, path, prefix string) (id uint64, err error) {
	st, err := Of(&base.Manifest)
	if err != nil {
		return 0, err
	}
	p := &st.Progress
	p.Last, p.Watched, p.Unmeasured = Boundary{}, Watched{}, false
	p.Lost, p.Imported = base.Manifest.Step, base.Manifest.Step
	as := *base
	if as.Manifest.Extra, err = json.Marshal(st); err != nil {
		return 0, err
	}
	return db.Import(ctx, &as, path, prefix, graph.Parameter.String())
}
