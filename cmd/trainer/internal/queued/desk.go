package queued

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// pathVariable names a file for the queue in place of the usual one.
const pathVariable = "BERTH_QUEUE"

// queuePath is the file of the queue: that of BERTH_QUEUE, or one in the user's state folder.
func queuePath() (string, error) {
	if path := os.Getenv(pathVariable); path != "" {
		return filepath.Abs(path)
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if runtime.GOOS == "windows" {
		dir = os.Getenv("LocalAppData")
	}
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("the queue of jobs has no folder: %w: set %s to a file", err, pathVariable)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "berth", "queue.db"), nil
}

// desk is the queue as a command reaches it: through its daemon, or as a file where none runs.
type desk interface {
	Submit(ctx context.Context, s jobs.Submission) (queue.Job, error)
	Views(ctx context.Context) (list []jobs.View, full string, err error)
	View(ctx context.Context, id int) (jobs.View, error)
	Want(ctx context.Context, id int, w queue.Wish) (queue.Job, error)
	SetPriority(ctx context.Context, id, priority int) (queue.Job, error)
	Remove(ctx context.Context, id int) error
	Config(ctx context.Context, id int) (string, error)
	Close()
}

// openDesk reaches the daemon, or else the file. daemon says which it was.
func openDesk(ctx context.Context, version string) (d desk, daemon bool, err error) {
	path, err := queuePath()
	if err != nil {
		return nil, false, err
	}
	for began := time.Now(); ; time.Sleep(pollEvery) {
		client, err := socket.Dial(ctx, socket.Path(path), socket.ThisProgram(version))
		ends := errors.Is(err, socket.ErrNoAnswer) && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		switch {
		case err == nil:
			return client, true, nil
		case ends && time.Since(began) < startsWithin: // it has taken the connection, and answers no more
			continue
		case !errors.Is(err, socket.ErrNoDaemon):
			return nil, true, err
		}
		l, err := jobs.OpenLocal(path)
		if err == nil {
			return local{l}, false, nil
		}
		// A daemon has the queue before it answers, and still has it when it answers no more.
		if !errors.Is(err, queue.ErrHeld) || time.Since(began) > startsWithin {
			return nil, false, err
		}
	}
}

// startsWithin is how long a daemon that has the queue may take until it answers.
const startsWithin = 10 * time.Second

// local is a queue without a daemon, with the methods of a client.
type local struct{ *jobs.Local }

func (l local) Views(context.Context) ([]jobs.View, string, error) { return l.Local.Views(), "", nil }
func (l local) View(_ context.Context, id int) (jobs.View, error)  { return l.Local.View(id) }
func (l local) Remove(_ context.Context, id int) error             { return l.Local.Remove(id) }
func (l local) Close()                                             { _ = l.Local.Close() }
func (l local) Want(_ context.Context, id int, w queue.Wish) (queue.Job, error) {
	return l.Local.Want(id, w)
}
func (l local) SetPriority(_ context.Context, id, priority int) (queue.Job, error) {
	return l.Local.SetPriority(id, priority)
}
func (l local) Config(_ context.Context, id int) (string, error) {
	text, err := l.Local.Config(id)
	return string(text), err
}

// newKey tells one submission from all others.
func newKey() string { return rand.Text() }
