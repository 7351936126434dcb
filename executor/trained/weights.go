package trained

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/session"
)

// rounds is how often weights are loaded where a run that trains meanwhile deletes their checkpoint each time.
const rounds = 8

// errHalf is the error of a checkpoint that was deleted when some devices of a service had it, and others had not.
var errHalf = errors.New("the checkpoint was deleted before all devices had it")

// load copies the weights in. A device that has no room for all of them reads
// them again whenever it needs them. A checkpoint must be of the run's model, and
// of data with its scaling and classes, which are part of the model. Where a run that
// trains meanwhile deletes it, the one that is the newest or the best then is loaded.
func (t *Model) load(ctx context.Context, to answer.Loader) (err error) {
	for range rounds {
		contents, e := t.contents(ctx)
		if e != nil {
			return e
		}
		contents.Again = t.session.Plan.AnyTight()
		err = to.InitFrom(ctx, contents)
		switch {
		case err == nil:
			t.fixed = true
			return nil
		case t.weights.ID != 0 || !errors.Is(err, checkpoint.ErrDeleted):
			return err
		case t.fixed && t.first:
			return fmt.Errorf("%w: %w", errHalf, err)
		case t.fixed:
			return err
		}
		if err := errors.Join(t.release(), t.pick(ctx)); err != nil {
			return err
		}
	}
	return err
}

// begin begins to load the weights of a service, which each of its devices needs.
func (t *Model) begin() {
	t.first = !t.fixed
	for _, a := range t.adapters {
		a.fixed = false
	}
}

// pickAgain finds the checkpoints that are meant anew, after errHalf.
func (t *Model) pickAgain(ctx context.Context) error {
	if err := t.release(); err != nil {
		return err
	}
	if t.first {
		t.fixed = false
	}
	if t.adapters == nil {
		return t.pick(ctx)
	}
	for _, a := range t.adapters {
		a.fixed = false
		if a.Kept != nil {
			continue
		}
		if err := a.find(ctx, a.Weights); err != nil {
			return fmt.Errorf("adapter %s: %w", a.Name, err)
		}
	}
	return nil
}

// pick finds the checkpoint that is meant.
func (t *Model) pick(ctx context.Context) error {
	f, err := rundir.Find(ctx, t.weights)
	if err == nil {
		t.found, t.used = f, t.weights.Used(f)
		t.frozen, err = besideOf(f)
	}
	return err
}

// contents opens the weights, which are read until release.
func (t *Model) contents(ctx context.Context) (c executor.Contents, err error) {
	if t.adapters != nil {
		return t.baseContents(ctx)
	}
	w := t.weights
	if w.Init != "" {
		if t.values == nil {
			if t.values, err = initial.Open(ctx, w.Init, t.session.Config.Seed, t.session.Plan.Graph.Vars); err != nil {
				return c, err
			}
		}
		return session.ContentsOf(t.values), nil
	}
	if t.found == nil {
		if t.found, err = rundir.Find(ctx, rundir.Weights{Dir: w.Dir, ID: t.used.ID}); err != nil {
			return c, err
		}
	}
	if err := t.suits(); err != nil {
		return c, err
	}
	if err := t.checkBeside(); err != nil {
		return c, err
	}
	if t.session.Spec.LoRA == nil {
		return executor.Contents{Write: initial.FromSnapshot(t.found.Snapshot, nil)}, nil
	}
	return t.withBase(ctx)
}

// withBase is the contents of a checkpoint of an adapter, with those of its base.
func (t *Model) withBase(ctx context.Context) (c executor.Contents, err error) {
	if t.values == nil {
		if t.values, err = restore.OpenBase(ctx, &t.found.Snapshot.Manifest, t.session.Config.Seed, t.session.Plan.Graph.Vars); err != nil {
			return c, err
		}
	}
	c.Write = initial.FromSnapshot(t.found.Snapshot, t.values.Read)
	if s := t.values.Stream(); s != nil {
		c.Sequence = s
	}
	return c, nil
}

// suits refuses a checkpoint of another model, or of other data.
func (t *Model) suits() error {
	m, err := t.session.Lineage()
	if err != nil {
		return err
	}
	return m.Suits(&t.found.Snapshot.Manifest)
}
