package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
)

// follower looks for better or newer checkpoints of the run.
type follower struct {
	opt    OpenOptions
	models *models
	cancel context.CancelFunc
	ctx    context.Context // ended by close
	done   sync.WaitGroup

	busy   chan struct{} // has an element while the folder is looked at, and a checkpoint loaded
	seen   os.FileInfo   // of watch alone
	failed uint64        // the checkpoint that could not be loaded: it is not tried again unasked
	told   string        // what is wrong in the folder, until it is not; it is told once
}

// newFollower begins to look, if the options say so.
func newFollower(o OpenOptions, m *models) *follower {
	f := &follower{opt: o, models: m, busy: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if f.follows() && o.Follow > 0 {
		f.done.Go(f.watch)
	}
	return f
}

// follows reports whether other weights may come: not in place of those that were asked
// for by their ID, or by a file.
func (f *follower) follows() bool {
	w := f.opt.Weights
	return w.ID == 0 && w.Init == ""
}

// close ends the looking.
func (f *follower) close() {
	f.cancel()
	f.done.Wait()
}

// watch looks again and again. It reads the checkpoints only after their file has changed.
func (f *follower) watch() {
	for {
		select {
		case <-time.After(f.opt.Follow):
		case <-f.ctx.Done():
			return
		}
		st, err := os.Stat(rundir.CheckpointPath(f.opt.Weights.Dir))
		if err == nil && f.seen != nil && os.SameFile(st, f.seen) && st.ModTime().Equal(f.seen.ModTime()) && st.Size() == f.seen.Size() {
			continue
		}
		if _, _, err := f.look(f.ctx, false); err == nil || f.ctx.Err() != nil {
			f.seen = st
		}
	}
}

// look loads the checkpoint that the options choose now, unless it is the one in use.
// asked says that somebody waits for the result.
func (f *follower) look(ctx context.Context, asked bool) (used berth.Used, changed bool, err error) {
	x, w := f.models, f.opt.Weights
	select {
	case f.busy <- struct{}{}:
		defer func() { <-f.busy }()
	case <-ctx.Done():
		return x.used(), false, context.Cause(ctx)
	}
	if !f.follows() {
		return x.used(), false, nil
	}
	id, damaged, err := chosen(ctx, w)
	if ctx.Err() == nil {
		f.tell(damaged, err, asked)
	}
	if err != nil {
		return x.used(), false, err
	}
	inUse := func(s checkpoint.Skipped) bool { return s.ID == x.used().ID } // it is whole in memory
	if id == x.used().ID || id == f.failed && !asked || slices.ContainsFunc(damaged, inUse) {
		return x.used(), false, nil
	}
	if err := x.change(ctx, w); err != nil {
		if ctx.Err() == nil {
			f.failed = id
			f.failure(fmt.Sprintf("checkpoint %d cannot be loaded: %v", id, err))
		}
		return x.used(), false, err
	}
	f.failed = 0
	x.counted.reloads.Add(1)
	f.opt.Log("answering with " + usedText(x.used()))
	return x.used(), true, nil
}

// chosen is the ID of the whole checkpoint that w chooses now, and the damaged ones that
// would have come before it.
func chosen(ctx context.Context, w berth.Weights) (id uint64, damaged []checkpoint.Skipped, err error) {
	found, err := rundir.Find(ctx, w)
	if err != nil {
		return 0, nil, err
	}
	return found.Snapshot.Manifest.ID, found.Skipped, found.Close()
}

// tell tells of damaged checkpoints, or why none could be found: once, unless somebody asked.
func (f *follower) tell(damaged []checkpoint.Skipped, err error, asked bool) {
	why := ""
	switch {
	case err != nil:
		why = fmt.Sprintf("the checkpoints cannot be read: %v", err)
	case len(damaged) > 0:
		why = fmt.Sprintf("damaged: %v", damaged[0])
	}
	if why != "" && (asked || why != f.told) {
		f.failure(why)
	}
	f.told = why
}

// failure counts a reload that failed, and logs why.
func (f *follower) failure(why string) {
	f.models.counted.failedReloads.Add(1)
	now := "no weights answer until the model is loaded again"
	if m, _, _ := f.models.now(); m != nil {
		now = "answering with " + usedText(m.service.Used())
	}
	f.opt.Log(why + "; " + now)
}

// reloaded is the answer to POST /reload.
type reloaded struct {
	Changed bool       `json:"changed"` // other weights are in use now
	Weights berth.Used `json:"weights"`
}

// reload answers POST /reload.
func (f *follower) reload(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	used, changed, err := f.look(ctx, true)
	if err != nil {
		p := problemOf(ctx, err)
		if !errors.Is(err, context.Canceled) {
			p = unavailable(fmt.Sprintf("no other checkpoint could be loaded: %v", err))
		}
		return p
	}
	writeJSON(w, http.StatusOK, reloaded{changed, used})
	return nil
}
