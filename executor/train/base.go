package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/units"
)

// openBase notes which weights an adapter is trained beside, in a run that begins.
func (a *attempt) openBase(ctx context.Context) (err error) {
	if a.session.Spec.LoRA == nil || a.opt.Resume {
		return nil
	}
	a.base = &runstate.Base{}
	if a.base.Init, err = a.values.Source(); err != nil {
		return err
	}
	if a.base.Init == "" {
		a.opt.Observer.note("the adapter trains beside random weights, which follow from the seed: give those of a trained model by --init FILE, or init of a pipeline's job")
	}
	a.base.SHA256, err = a.values.BaseHash(ctx, a.session.Plan.Graph.Vars)
	return err
}

// tellShared tells of a base that other runs have on the devices, too.
func (a *attempt) tellShared() {
	others := a.rt.Residency.BaseUsers()
	if len(others) == 0 {
		return
	}
	var on []string
	for i, d := range a.session.Devices {
		if n := a.rt.BaseBytes(i); n > 0 {
			on = append(on, fmt.Sprintf("%s on %s", units.Bytes(n), d.ID()))
		}
	}
	a.opt.Observer.note(fmt.Sprintf("the frozen weights are those of %s too, and are on the devices once: %s", strings.Join(others, ", "), strings.Join(on, ", ")))
}

// Shares names the other runs and services on shared devices that have the weights beside which the run trains
// an adapter, and says how many bytes these take there, once for all. There are none without an adapter.
func (t *Training) Shares() (with []string, bytes int64) {
	a := t.loop.a
	with = a.rt.Residency.BaseUsers()
	for i := range a.session.Devices {
		bytes += a.rt.BaseBytes(i)
	}
	return with, bytes
}

// ofBase reports whether a variable of that name is of the weights that an adapter is trained beside.
func (a *attempt) ofBase(name string) bool {
	return slices.ContainsFunc(a.session.Plan.Graph.Vars, func(v *graph.Value) bool { return v.Whole().Name == name && v.Tagged(graph.BaseTag) })
}

// goesOn is the contents of variables of a run that goes on from a checkpoint. Those of the base of
// an adapter come from where they came from when the run began.
func (a *attempt) goesOn(ctx context.Context, snap *checkpoint.Snapshot) (c executor.Contents, err error) {
	if a.session.Spec.LoRA == nil {
		return executor.Contents{Write: initial.FromRun(a.folder.DB, snap, nil)}, nil
	}
	m := &snap.Manifest
	if a.base, err = restore.BaseOf(m); err != nil {
		return c, err
	}
	values, err := restore.OpenBase(ctx, m, a.session.Config.Seed, a.session.Plan.Graph.Vars)
	if err != nil {
		return c, err
	}
	if err := a.values.Close(); err != nil {
		return c, errors.Join(err, values.Close())
	}
	a.values = values
	c.Write = initial.FromRun(a.folder.DB, snap, values.Read)
	if s := values.Stream(); s != nil {
		c.Sequence = s
	}
	return c, nil
}
