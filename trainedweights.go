package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
)

// load copies the weights in. A device that has no room for all of them reads
// them again whenever it needs them. A checkpoint must be of the run's model, and
// of data with its scaling and classes, which are part of the model. Where a run that
// trains meanwhile deletes it, the one that is the newest or the best then is loaded.
func (t *Trained) load(ctx context.Context, to answer.Loader) (err error) {
	const rounds = 8
	for range rounds {
		contents, e := t.contents(ctx)
		if e != nil {
			return e
		}
		contents.Again = t.setup.anyTight()
		err = to.InitFrom(ctx, contents)
		if t.fixed = t.fixed || err == nil; t.fixed || t.weights.ID != 0 || !errors.Is(err, checkpoint.ErrDeleted) {
			return err
		}
		if err := errors.Join(t.release(), t.pick(ctx)); err != nil {
			return err
		}
	}
	return err
}

// pick finds the checkpoint that is meant.
func (t *Trained) pick(ctx context.Context) error {
	f, err := rundir.Find(ctx, t.weights.Dir, t.weights.Best, t.weights.ID)
	if err == nil {
		t.found, t.used = f, usedOf(t.weights, f)
	}
	return err
}

// contents opens the weights, which are read until release.
func (t *Trained) contents(ctx context.Context) (c executor.Contents, err error) {
	w := t.weights
	if w.Init != "" {
		if t.values == nil {
			if t.values, err = initial.Open(ctx, w.Init, t.setup.config.Seed, t.setup.plan.Graph.Vars); err != nil {
				return c, err
			}
		}
		return contentsOf(t.values), nil
	}
	if t.found == nil {
		if t.found, err = rundir.Find(ctx, w.Dir, false, t.used.ID); err != nil {
			return c, err
		}
	}
	if err := t.suits(&t.found.Snapshot.Manifest); err != nil {
		return c, err
	}
	return executor.Contents{Write: initial.FromSnapshot(t.found.Snapshot)}, nil
}

// suits refuses a checkpoint of another model, or of other data.
func (t *Trained) suits(m *checkpoint.Manifest) error {
	if text := otherOps(m); text != "" {
		return fmt.Errorf("%w: %s", ErrChanged, text)
	}
	list, err := changesSince(t.setup.config, m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if text, err := t.setup.otherOwnModel(m); err != nil {
		return err
	} else if text != "" {
		return fmt.Errorf("%w: %s", ErrChanged, text)
	}
	if untrained(m) {
		list = ofModel(list)
	}
	if list = slices.DeleteFunc(list, harmless); len(list) > 0 {
		return fmt.Errorf("%w: %s: that is part of what was trained; leave it as it was", ErrChanged, configs.SummaryOfChanges(list))
	}
	if now := t.setup.info.Fingerprint; !untrained(m) && m.Fingerprints[dataPrint] != now {
		return fmt.Errorf("%w: %s: open the run with OpenTrained to use it on other data", ErrChanged, otherData(m, now))
	}
	return nil
}

// harmless reports whether a trained model can be used in spite of a change: of
// where and how data is written, or of how the model was trained.
func harmless(c configs.Change) bool {
	section, name, _ := strings.Cut(c.Key, ".")
	switch section {
	case "precision", "optimizer", "schedule":
		return true
	case "train":
		return name != "shuffle" // which would make the data another
	case "data":
		return slices.Contains([]string{"path", "header", "delimiter", "label", "ignore", "input", "target", "prefix", "field"}, name)
	}
	return false
}
