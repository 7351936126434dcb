package rundir

import (
	"errors"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
)

// State says whether a folder holds a run.
type State uint8

// The states of a folder.
const (
	None       State = iota // no folder, or no checkpoint in it
	Unfinished              // steps, or the last epoch's evaluation, are left
	Finished                // all steps are taken, or the run stopped early
)

// Status is how far the run in a folder came, by its newest checkpoint.
type Status struct {
	State State
	Step  int // steps taken
	Total int // steps of the whole run; 0: not known
}

// StatusOf reads the status of a folder, and changes nothing in it. It reads
// manifests, not tensors. The error is checkpoint.ErrHeld while a run trains
// there, and checkpoint.ErrDamaged where no checkpoint can be read.
func StatusOf(dir string) (Status, error) {
	var st Status
	err := newest(dir, false, func(db *checkpoint.DB, m checkpoint.Manifest) (err error) {
		st, err = statusAt(db, m)
		return err
	})
	if errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, ErrNoCheckpoint) {
		return Status{}, nil
	}
	return st, advised(dir, err)
}

// statusAt is the status at a checkpoint.
func statusAt(db *checkpoint.DB, m checkpoint.Manifest) (Status, error) {
	saved, err := runstate.Of(&m)
	if err != nil {
		return Status{}, err
	}
	c, err := configs.Parse("the config of the newest checkpoint", m.Config, configs.Overlay{})
	if err != nil {
		return Status{}, err
	}
	snap, err := db.Load(m.ID)
	if err != nil {
		return Status{}, err
	}
	at := saved.Progress
	at.Step, at.Epoch, at.Index = m.Step, m.Epoch, m.Index
	st := Status{State: Unfinished, Step: at.Step}
	steps := saved.EpochSteps
	if ring, ok := snap.Tensor(models.LossRing); ok && steps == 0 {
		steps = ring.Meta.Shape.Elems()
	}
	if steps > 0 {
		st.Total = at.Resume(runstate.PaceOf(c.Train, steps, c.Train.Batch))
	}
	over := c.Train.Steps == 0 && at.Epoch >= c.Train.Epochs || c.Train.Steps > 0 && at.Step >= c.Train.Steps
	if !at.Unmeasured && (over || at.StoppedEarly(c.EarlyStopping)) {
		st.State = Finished
	}
	return st, nil
}
