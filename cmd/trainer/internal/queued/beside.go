package queued

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// aside is how long a command waits for the queue that works without it, too.
const aside = time.Second

// Beside says for a training with devices of its own that a daemon holds others; "" where none runs.
func Beside(ctx context.Context, version string) string {
	text, only := besides(ctx, version)
	switch {
	case text == "":
		return ""
	case only:
		return text + "; this run has devices of its own"
	}
	return text + "; this run has devices of its own. trainer submit shares those of trainer up"
}

// BesideTiming says for times that were measured now that a daemon works beside; "" where none runs.
func BesideTiming(ctx context.Context, version string) string {
	text, _ := besides(ctx, version)
	if text == "" {
		return ""
	}
	return text + "; the times that were measured now may be longer for that"
}

// besides names the daemon that trains on this machine; "" where none runs. only: it runs one job and ends.
func besides(ctx context.Context, version string) (text string, only bool) {
	path, err := queuePath()
	if err != nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, aside)
	defer cancel()
	client, err := socket.Dial(ctx, socket.Path(path), socket.ThisProgram(version))
	if err != nil {
		return "", false
	}
	defer client.Close()
	name, d := "trainer up", client.Daemon()
	if only = d.Only != 0; only {
		name = "trainer submit --wait"
	}
	return fmt.Sprintf("%s (process %d) trains on this machine, too", name, d.Process), only
}

// Resting lists the jobs that wait or are paused, whether they have begun or not. The error is a daemon's that does not answer.
func Resting(ctx context.Context, version string) (list []overview.Resting, err error) {
	views, _, err := listed(ctx, version)
	for i := range views {
		v := &views[i]
		if r := overview.RestingOf(v.ID, v.Dir, v.State); r != nil && !v.Leads() && v.Work == nil {
			list = append(list, *r)
		}
	}
	return list, err
}

// Reserved says whose folders are those of the jobs that are not over. It asks the queue when it is first called.
func Reserved(ctx context.Context, version string) runs.Reserved {
	byName := sync.OnceValue(func() map[string][]jobs.View {
		views := map[string][]jobs.View{}
		list, _, _ := listed(ctx, version)
		for _, v := range list {
			if !v.State.Over() && v.As == 0 {
				name := filepath.Base(v.Dir)
				views[name] = append(views[name], v)
			}
		}
		return views
	})
	return func(dir string) int {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		abs, _ := filepath.Abs(dir)
		for _, v := range byName()[filepath.Base(dir)] {
			if v.Dir == abs || rundir.SameFile(v.Dir, dir) { // somebody may have deleted it, and the folders around it
				return v.ID
			}
		}
		return TrainsIn(dir)
	}
}

// TrainsIn is the job that a daemon trains in a run folder, by the files of both: a daemon that is stopped answers nobody. It is 0
// where another process trains there, or none.
func TrainsIn(dir string) int {
	path, err := queuePath()
	if err != nil {
		return 0
	}
	trains, alive := osfile.LeftPid(rundir.CheckpointPath(dir))
	if !alive || trains != queue.Holder(path) {
		return 0
	}
	return rundir.LoggedJob(dir)
}

// TraceStep asks the daemon for the next step of a job's training: see [jobs.Daemon.TraceStep].
func TraceStep(ctx context.Context, version string, job int) (*berth.StepTrace, error) {
	path, err := queuePath()
	if err != nil {
		return nil, err
	}
	client, err := socket.Dial(ctx, socket.Path(path), socket.ThisProgram(version))
	if errors.Is(err, socket.ErrNoDaemon) {
		return nil, fmt.Errorf("%w: job %d %s", berth.ErrNoStep, job, jobs.WaitsForDaemon)
	}
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.TraceStep(ctx, job)
}

// Lister lists the jobs of the queue again and again, for a page. One goroutine uses it at a time.
type Lister struct {
	version      string
	file, socket os.FileInfo // as they were when no daemon answered; file is nil: one did
	last         []Record    // the newest answer
	sweeps       map[string]*Varied
}

// NewLister is a lister for a program of a version.
func NewLister(version string) *Lister { return &Lister{version: version} }

// List is what trainer jobs ls --json prints: all jobs, none where there is no queue, and nil where it does not answer in a
// second. Where it did before, the jobs stay as they were then, and Where says that. Without a daemon it opens the queue's file
// only if that has changed: a daemon that starts needs the file.
func (l *Lister) List(ctx context.Context) []Record {
	path, err := queuePath()
	if err != nil {
		return nil
	}
	file, _ := os.Stat(path)
	door, _ := os.Stat(socket.Path(path))
	if l.file != nil && unchanged(l.file, file) && unchanged(l.socket, door) {
		return slices.Clone(l.last)
	}
	views, daemon, err := listed(ctx, l.version)
	if err != nil {
		list := slices.Clone(l.last)
		for i := range list {
			if !queue.State(list[i].State).Over() {
				list[i].Where = "not known now: " + err.Error()
			}
		}
		return list
	}
	list := make([]Record, len(views))
	for i := range views {
		list[i] = listedRecord(&views[i])
	}
	l.vary(list, views)
	l.file, l.last = nil, slices.Clone(list)
	if !daemon && ctx.Err() == nil {
		l.file, _ = os.Stat(path) // to open it may change it
		l.socket = door
	}
	return list
}

// Memory says who has the memory of the daemon's devices: see [jobs.Daemon.Memory]. Where no daemon runs it fails with
// socket.ErrNoDaemon. It may be called beside List.
func (l *Lister) Memory(ctx context.Context) (berth.Memory, error) {
	path, err := queuePath()
	if err != nil {
		return berth.Memory{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, aside)
	defer cancel()
	client, err := socket.Dial(ctx, socket.Path(path), socket.ThisProgram(l.version))
	if err != nil {
		return berth.Memory{}, err
	}
	defer client.Close()
	return client.Memory(ctx)
}

// unchanged reports whether a file is as it was; nil is one that is not there.
func unchanged(before, now os.FileInfo) bool {
	if before == nil || now == nil {
		return before == nil && now == nil
	}
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

// listed are all jobs; none where the queue cannot be had. daemon says that there is one, and the error why it does not answer.
func listed(ctx context.Context, version string) (list []jobs.View, daemon bool, err error) {
	path, err := queuePath()
	if err != nil {
		return nil, false, nil
	}
	if _, err := os.Stat(path); err != nil { // to look makes no queue
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, aside)
	defer cancel()
	client, err := socket.Dial(ctx, socket.Path(path), socket.ThisProgram(version))
	switch {
	case errors.Is(err, socket.ErrNoDaemon):
		l, err := jobs.OpenLocal(path)
		if err != nil {
			return nil, true, nil // that starts, or ends
		}
		defer l.Close()
		return l.Views(), false, nil
	case err != nil:
		return nil, true, err
	}
	defer client.Close()
	list, _, err = client.Views(ctx)
	return list, true, err
}
