package train

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/units"
)

// goal is where a call of Train ends.
type goal struct {
	steps    int // of the whole run
	maxSteps int // of the run until this call ends; 0: no limit
	stopping configs.EarlyStopping
	began    time.Time
	maxTime  time.Duration // since began; 0: no limit
}

// reached reports whether there is no step left to take.
func (g goal) reached(at *runstate.Progress) bool {
	return g.completed(at) || g.maxSteps > 0 && at.Step >= g.maxSteps
}

// completed reports whether the run is over, whatever this call was asked for.
func (g goal) completed(at *runstate.Progress) bool {
	return at.StoppedEarly(g.stopping) || at.Step >= g.steps
}

// lacks reports whether less time is left than need, which is asked only of a
// call with a limit.
func (g goal) lacks(need func() time.Duration) bool {
	return g.maxTime > 0 && time.Since(g.began)+need() >= g.maxTime
}

// standing says where a resumed run stands, and what is left of it.
func (g goal) standing(at *runstate.Progress, dir string) string {
	switch {
	case at.Unmeasured:
		return fmt.Sprintf("resuming at step %d of %d, with the evaluation of the weights there, from %s", at.Step, g.steps, rundir.CheckpointPath(dir))
	case at.StoppedEarly(g.stopping):
		return fmt.Sprintf("the run in %s is finished: it stopped early, at step %d of %d", dir, at.Step, g.steps)
	case at.Step >= g.steps:
		return fmt.Sprintf("the run in %s is finished: %s", dir, units.Count(at.Step, "step"))
	case g.reached(at):
		return fmt.Sprintf("nothing to do: the run in %s is at step %d of %d, and no step after %d is asked for: leave out that limit (--max-steps) to complete the run", dir, at.Step, g.steps, g.maxSteps)
	}
	return fmt.Sprintf("resuming at step %d of %d (epoch %d) from %s", at.Step, g.steps, at.Epoch+1, rundir.CheckpointPath(dir))
}
