package train

import (
	"fmt"
	"reflect"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
)

// longer says how a run goes on that was finished.
type longer struct {
	than int    // its steps when it was; 0: it was not finished, or does not go on
	note string // for its user
}

// leastRate is the share of optimizer.lr below which a run learns next to nothing.
const leastRate = 0.01

// goOnLonger decides the schedule of a finished run, of which newest is the newest checkpoint, that a config
// goes on with beyond its end. The step at which the schedule ends is then a key of the config
// (schedule.ends_at), so that a run that is killed goes on as if it had not been.
func goOnLonger(c *configs.Config, newest *checkpoint.Manifest, samples int) (l longer) {
	then, at := finishedRun(newest)
	if then == nil {
		return l
	}
	total := at.Resume(session.NewSizes(c, samples).Pace)
	if total <= at.Step {
		return l
	}
	l.than = at.Step
	goes := fmt.Sprintf("the run was finished at step %d, and goes on to step %d", at.Step, total)
	s := &c.Schedule
	switch {
	case c.Overridden("schedule.ends_at"):
	case c.Overridden("schedule.name"), s.EndsAt == then.Schedule.EndsAt && !sameSchedule(*s, then.Schedule):
		s.EndsAt = total
	case s.EndsAt == 0 && asShort(c, then, at.Step, total):
		l.note = goes + ": the rates of its schedule do not depend on the length"
		return l
	case s.EndsAt == 0:
		s.EndsAt = at.Step // where the schedule ended
	}
	rates := fmt.Sprintf("the learning rate follows the schedule %s", s.Name)
	if s.EndsAt < total {
		schedule := specs.Optimizer(c, total).Schedule
		rate := schedule.At(total - 1)
		little := ""
		if rate < leastRate*schedule.Base {
			little = " and learns next to nothing"
		}
		rates = fmt.Sprintf("the learning rate stays %.3g from step %d on (schedule.ends_at)%s, unless --schedule names a schedule", rate, s.EndsAt, little)
	}
	l.note = fmt.Sprintf("%s: %s; the weights differ from those of a run of that length", goes, rates)
	return l
}

// endedEarly refuses more epochs of a run that stopped early: they would end at once.
func endedEarly(c *configs.Config, newest *checkpoint.Manifest) error {
	then, at := stateOf(newest)
	if then == nil || !at.StoppedEarly(c.EarlyStopping) || c.Train.Epochs <= then.Train.Epochs && c.Train.Steps <= then.Train.Steps {
		return nil
	}
	key, left := "train.epochs", "epochs"
	if c.Train.Steps > then.Train.Steps {
		key, left = "train.steps", "steps"
	}
	err := fmt.Errorf("%s: the run stopped early, at step %d, so it would end at once again: leave this out, and give --set early_stopping.patience=0 for the %s that were left, or a patience above %d",
		key, at.Step, left, c.EarlyStopping.Patience)
	return errs.With(configs.At(c.Where(key), err), errs.ErrOptions)
}

// finishedRun is the config of the newest checkpoint and where it stands, if the run
// has taken all of its steps; nil if not.
func finishedRun(newest *checkpoint.Manifest) (then *configs.Config, at runstate.Progress) {
	then, at = stateOf(newest)
	if then == nil || at.Unmeasured || at.Step == 0 || !at.Over(then.Train) {
		return nil, at
	}
	return then, at
}

// sameSchedule reports whether two schedules are the same up to their ends.
func sameSchedule(a, b configs.Schedule) bool {
	return a.Name == b.Name && a.Warmup == b.Warmup && reflect.DeepEqual(a.Keys, b.Keys)
}

// asShort reports whether the schedule gives the first steps of a run of total steps the
// rates that it gave those of a run that ended with them.
func asShort(c, then *configs.Config, steps, total int) bool {
	was, is := specs.Optimizer(then, steps).Schedule, specs.Optimizer(c, total).Schedule
	is.Base = was.Base
	for i := range steps {
		if was.At(i) != is.At(i) {
			return false
		}
	}
	return true
}

// stateOf is the config of a checkpoint, which may be nil, and where it stands; nil if it cannot be read.
func stateOf(m *checkpoint.Manifest) (then *configs.Config, at runstate.Progress) {
	if m == nil {
		return nil, at
	}
	st, err := runstate.Of(m)
	if err != nil {
		return nil, at
	}
	if then, err = configs.Parse("the config of the newest checkpoint", m.Config, configs.Overlay{}); err != nil {
		return nil, at
	}
	at = st.Progress
	at.Step, at.Epoch, at.Index = m.Step, m.Epoch, m.Index
	return then, at
}
