package queued

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// pollEvery is how often a waiting command asks.
const pollEvery = 100 * time.Millisecond

// betweenDaemons is how long a command that waits for a job does without a daemon: one may follow the other.
const betweenDaemons = 2 * time.Second

// await waits until a job is over. see sees it now and then, the last time when it is over.
func await(ctx context.Context, d desk, id int, see func(*jobs.View) error) (*jobs.View, error) {
	var last jobs.View
	for answered := time.Now(); ; {
		v, err := d.View(ctx, id)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			last = v
			if seen := see(&v); seen != nil || v.State.Over() {
				return &v, seen
			}
			answered = time.Now()
		case errors.Is(err, queue.ErrNoJob) && last.ID == id: // its number was no mistake
			return nil, fmt.Errorf("job %d was removed (jobs rm) before its end was seen here: its run folder %s says what became of it", id, shortPath(last.Dir))
		case !unanswered(err):
			return nil, err
		case time.Since(answered) > betweenDaemons:
			return nil, fmt.Errorf("%w waiting: job %d is not over: %w", errStopped, id, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w waiting: job %d %s", errStopped, id, unwatched(&last))
		case <-time.After(pollEvery):
		}
	}
}

// unwatched is what becomes of a job for which a command waits no more.
func unwatched(v *jobs.View) string {
	switch {
	case v.State == queue.Paused:
		return "is paused"
	case v.Where == jobs.WaitsForDaemon:
		return jobs.WaitsForDaemon
	}
	return "goes on"
}

// wait waits until a job is over, or cannot begin, and returns its failure.
func wait(ctx context.Context, d desk, id int, n *notes) error {
	v, err := await(ctx, d, id, func(v *jobs.View) error {
		if v.Stuck != 0 {
			return errStuck
		}
		return n.see(v)
	})
	switch {
	case errors.Is(err, errStuck):
		by, err := d.View(ctx, v.Stuck)
		if err != nil {
			return err
		}
		return stuck(v, &by)
	case err != nil:
		return err
	}
	return outcome(v)
}

// errStuck is that a job cannot begin for another one, which has failed or is cancelled.
var errStuck = errors.New("it cannot begin")

// stuck is the error with which a command ends that waited for a job that cannot begin for another one: with the exit code
// of that.
func stuck(v, by *jobs.View) error {
	if by.State == queue.Failed {
		return coded(fmt.Errorf("job %d cannot begin: job %d (%s) failed: %s: trainer jobs resume %d lets both go on", v.ID, by.ID, by.Name, by.Failure(), by.ID), by)
	}
	return fmt.Errorf("job %d cannot begin: job %d (%s) is %s: trainer jobs cancel %d ends it, too", v.ID, by.ID, by.Name, by.State, v.ID)
}

// coded gives an error the exit code of a job that has failed.
func coded(err error, v *jobs.View) error {
	if v.State == queue.Failed && v.Code() == cli.ExitUsage {
		return cli.Usage(err)
	}
	return err
}

// notes tell once why a job does not run that a command waits for: while it is waiting, while it cannot begin, and while it
// is paused.
type notes struct {
	tell func(string)
	told map[note]bool
}

// note is what is told once.
type note struct {
	state queue.State
	stuck int
}

func notesOf(c *cobra.Command) *notes {
	return &notes{func(text string) { cli.Tell(c, c.ErrOrStderr(), text) }, map[note]bool{}}
}

func (n *notes) see(v *jobs.View) error {
	text := ""
	switch {
	case v.State == queue.Paused:
		text = fmt.Sprintf("job %d is paused: trainer jobs resume %d lets it go on", v.ID, v.ID)
	case v.State == queue.Waiting && v.Where != "" && v.Where != jobs.AboutToBegin:
		text = fmt.Sprintf("job %d: %s", v.ID, v.Where)
	}
	if of := (note{v.State, v.Stuck}); text != "" && !n.told[of] {
		n.told[of] = true
		n.tell(text)
	}
	return nil
}

// outcome is the error with which a command that waited for a job ends.
func outcome(v *jobs.View) error {
	switch v.State {
	case queue.Finished:
		return nil
	case queue.Failed:
		return coded(fmt.Errorf("job %d failed: %s", v.ID, v.Failure()), v)
	}
	if v.Where != "" {
		return fmt.Errorf("job %d is %s: %s", v.ID, v.State, v.Where)
	}
	return fmt.Errorf("job %d is %s", v.ID, v.State)
}
