package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
)

// Weights says which weights to use: a run folder's checkpoint, or a file.
type Weights struct {
	Dir  string // run folder
	Best bool   // its best checkpoint by the watched metric, not its newest
	ID   uint64 // that checkpoint, not the newest; 0 for none in particular; not with Best
	Init string // FILE.safetensors[:PREFIX] in place of a run folder
}

// use fills a program's variables and copies them in. A checkpoint must be of the run's
// model, and of data with its scaling and classes, which are part of the model.
func (r *Run) use(ctx context.Context, w Weights, p *executor.Program) error {
	if w.Init != "" {
		c, err := r.initial(w.Init)
		if err != nil {
			return err
		}
		return errors.Join(p.Init(ctx, c.read), c.close())
	}
	if w == r.asked {
		w.Best, w.ID = false, r.found // which was read and found whole
	}
	return withCheckpoint(ctx, w, func(s *checkpoint.Snapshot, skipped []checkpoint.Skipped) error {
		if err := r.suits(&s.Manifest); err != nil {
			return err
		}
		if w.ID == 0 {
			r.Skipped = skipped
		}
		return p.Init(ctx, snapshotContents(s))
	})
}

// withCheckpoint opens the checkpoint that w means, for reading, and says which
// had to be skipped.
func withCheckpoint(ctx context.Context, w Weights, f func(*checkpoint.Snapshot, []checkpoint.Skipped) error) error {
	db, err := checkpoint.Open(CheckpointPath(w.Dir), checkpoint.Options{ReadOnly: true})
	if err != nil {
		return advised(w.Dir, err)
	}
	snap, skipped, err := PickCheckpoint(ctx, db, w)
	if err != nil {
		return errors.Join(advised(w.Dir, err), db.Close())
	}
	return errors.Join(f(snap, skipped), db.Close())
}

// OpenTrained opens a run for using what was trained: for predicting from
// files, and for evaluating on any data. What must be known of the data that it
// was trained on is in the checkpoint; the config's data is read once it is
// asked for. Keys of the config that neither decide what the model computes nor
// what validates may be others than in training; so may the data.
func OpenTrained(ctx context.Context, c *configs.Config, w Weights) (*Run, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	r := &Run{Config: c, Data: &datasets.Dataset{Name: c.Data.Source}, sizes: newSizes(c, c.Train.Batch)}
	err := withCheckpoint(ctx, w, func(s *checkpoint.Snapshot, skipped []checkpoint.Skipped) error {
		st, err := stateOf(&s.Manifest)
		r.Data.Info, r.Skipped = st.Data, skipped
		r.asked, r.found = w, s.Manifest.ID
		return err
	})
	if err != nil {
		return nil, err
	}
	r.like = &r.Data.Info
	r.spec = modelSpec(c, r.like)
	return r.opened(func() error {
		g, err := models.Eval(r.spec, r.sizes.microbatch)
		if err != nil {
			return err
		}
		o := r.planOptions()
		o.Microbatches, o.Stop = 1, stopOf(ctx)
		r.Plan, err = partition.New(g, o)
		return err
	})
}

// advised adds to damage what can be done about it.
func advised(dir string, err error) error {
	if errors.Is(err, checkpoint.ErrDamaged) {
		return nothingWhole(dir, err)
	}
	return err
}

// PickCheckpoint finds the checkpoint that w means among those of a run folder.
// What had to be skipped is the second result. It fails with
// checkpoint.ErrDamaged where there are some and none is whole.
func PickCheckpoint(ctx context.Context, db *checkpoint.DB, w Weights) (*checkpoint.Snapshot, []checkpoint.Skipped, error) {
	switch {
	case w.ID != 0 && w.Best:
		return nil, nil, fmt.Errorf("%w: the best checkpoint and checkpoint %d are asked for: give one", ErrOptions, w.ID)
	case w.ID != 0:
		s, err := db.Load(w.ID)
		return s, nil, err
	}
	pick := db.Latest
	if w.Best {
		pick = db.Best
	}
	s, skipped, err := pick(ctx)
	switch {
	case !errors.Is(err, checkpoint.ErrNotFound):
		return s, skipped, err
	case len(skipped) > 0:
		return nil, skipped, noneWhole(db.Path(), skipped)
	case w.Best:
		return nil, nil, fmt.Errorf("%s: %w: none has a value of the metric that the best is chosen by, as those of an epoch's end with a validation part have; take the newest", db.Path(), checkpoint.ErrNotFound)
	}
	return nil, nil, fmt.Errorf("%s: %w: it holds none yet", db.Path(), checkpoint.ErrNotFound)
}

// suits refuses a checkpoint that the run's model and data are not of.
func (r *Run) suits(m *checkpoint.Manifest) error {
	list, err := r.changes(m)
	if err != nil {
		return err
	}
	if list = slices.DeleteFunc(list, harmless); len(list) > 0 {
		return fmt.Errorf("%w: %s: that is part of what was trained; leave it as it was", ErrChanged, changesText(list))
	}
	print := r.Data.Info.Fingerprint
	if r.like != nil {
		print = r.like.Fingerprint
	}
	if then := m.Fingerprints["data"]; then != print {
		return fmt.Errorf("%w: the data is not what checkpoint %d was trained on (fingerprint %s then, %s now): open the run with OpenTrained to use it on other data",
			ErrChanged, m.ID, short(then), short(print))
	}
	return nil
}

// harmless tells a change that a trained model can be used in spite of: where
// and how data is written, and how it was trained.
func harmless(change string) bool {
	key, _, _ := strings.Cut(change, " ")
	section, name, _ := strings.Cut(key, ".")
	switch section {
	case "precision", "optimizer", "schedule":
		return true
	case "train":
		return name != "shuffle" // which would make the data another
	case "data":
		return slices.Contains([]string{"path", "header", "delimiter", "label", "ignore", "input", "target", "prefix"}, name)
	}
	return false
}

// data is the run's data: that of a trained run is read now.
func (r *Run) data(ctx context.Context) (*datasets.Dataset, error) {
	if r.Data.Train != nil {
		return r.Data, nil
	}
	s := datasetSpec(r.Config)
	s.Like = r.like
	data, err := datasets.Open(ctx, s)
	if err != nil {
		return nil, badData(ctx, r.Config, err)
	}
	r.Data = data
	return data, nil
}
