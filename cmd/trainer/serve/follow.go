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
	"github.com/berth-ml/berth/engine/device"
)

// follower looks for better or newer checkpoints of the run, or of each adapter's.
type follower struct {
	opt    OpenOptions
	models *models
	cancel context.CancelFunc
	ctx    context.Context // ended by close
	done   sync.WaitGroup

	busy chan struct{} // has an element while a folder is looked at, and checkpoints loaded
	runs []*followed

	// After a device has failed while checkpoints were loaded: when they are loaded again unasked, and the pause before
	// that. The holder of busy owns them.
	again time.Time
	pause time.Duration
}

// followed is a run whose checkpoints may take the place of those in use. The holder of
// follower.busy owns it.
type followed struct {
	part    int // index in the parts of a service
	weights berth.Weights
	seen    os.FileInfo // of watch alone
	wanted  version     // the checkpoint that is to be loaded; zero: the one in use stays
	failed  version     // the checkpoint that could not be loaded: it is not tried again unasked
	why     error       // why wanted could not be loaded
	again   bool        // it is tried again unasked
	heard   failure     // what was told of that last
	told    string      // what is wrong in the folder, until it is not; it is told once
}

// version tells a checkpoint from all others, also from one with its ID of a run that has begun anew.
type version struct {
	id    uint64
	saved int64 // Unix time in nanoseconds
}

// versionOf is that of the weights in use.
func versionOf(u berth.Used) version { return version{u.ID, u.Saved.UnixNano()} }

// failure is that of a checkpoint to be loaded, which is told once.
type failure struct {
	checkpoint version
	device     device.ID // that failed; "" where none did
}

// newFollower begins to look, if the options say so. Weights that were asked for by their ID, or by a
// file, stay.
func newFollower(o OpenOptions, m *models) *follower {
	f := &follower{opt: o, models: m, busy: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if o.Adapters == nil {
		f.add(0, o.Weights)
	}
	for i, a := range o.Adapters {
		f.add(1+i, a.Weights)
	}
	if f.runs != nil && o.Follow > 0 {
		f.done.Go(f.watch)
	}
	return f
}

// add adds a run, unless its weights stay.
func (f *follower) add(part int, w berth.Weights) {
	if w.ID == 0 && w.Init == "" {
		f.runs = append(f.runs, &followed{part: part, weights: w})
	}
}

// close ends the looking.
func (f *follower) close() {
	f.cancel()
	f.done.Wait()
}

// watch looks again and again. It reads the checkpoints only after a file of them has changed.
func (f *follower) watch() {
	for {
		select {
		case <-time.After(f.opt.Follow):
		case <-f.ctx.Done():
			return
		}
		files, changed := make([]os.FileInfo, len(f.runs)), false
		for i, r := range f.runs {
			st, err := os.Stat(rundir.CheckpointPath(r.weights.Dir))
			same := err == nil && r.seen != nil && os.SameFile(st, r.seen) && st.ModTime().Equal(r.seen.ModTime()) && st.Size() == r.seen.Size()
			files[i], changed = st, changed || !same
		}
		if !changed {
			continue
		}
		if _, err := f.look(f.ctx, false); err == nil || f.ctx.Err() != nil {
			for i, r := range f.runs {
				r.seen = files[i]
			}
		}
	}
}

// errLater is the error of a look before the pause after the failure of a device is over.
var errLater = errors.New("the checkpoints are loaded again later")

// look loads the checkpoints that the options choose now, unless they are in use.
// asked says that somebody waits for the result.
func (f *follower) look(ctx context.Context, asked bool) (changed bool, err error) {
	select {
	case f.busy <- struct{}{}:
		defer func() { <-f.busy }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if !asked && time.Now().Before(f.again) {
		return false, errLater
	}
	var other []*followed // with checkpoints to load
	for _, r := range f.runs {
		var fails error
		if r.wanted, fails = f.wanted(ctx, r, asked); fails != nil {
			err = errors.Join(err, f.keeps(r, fails))
		} else if r.wanted != (version{}) {
			other = append(other, r)
		}
	}
	if len(other) == 0 && err == nil && asked {
		return f.comeBack(ctx)
	}
	if len(other) == 0 || err != nil && f.opt.Adapters == nil {
		return false, err
	}
	fails := f.load(ctx, other)
	if fails == nil {
		f.waits(nil)
		return true, err
	}
	if len(other) > 1 && ctx.Err() == nil && !f.models.triesAgain(fails) { // it may be of one of them alone
		fails = nil
		for _, r := range other {
			alone := f.load(ctx, []*followed{r})
			changed, fails = changed || alone == nil, errors.Join(fails, alone)
		}
	}
	f.waits(other)
	for _, r := range other {
		if r.why != nil && ctx.Err() == nil {
			f.tellFailure(r, asked)
		}
	}
	return changed, errors.Join(err, fails)
}

// comeBack loads the weights in use anew where a device does not answer though it is not lost.
func (f *follower) comeBack(ctx context.Context) (changed bool, err error) {
	ids := f.models.mayComeBack()
	if m, _, _ := f.models.now(); ids == nil || m == nil {
		return false, nil
	}
	var kept []int
	for i := range f.opt.Adapters {
		kept = append(kept, i)
	}
	before := f.models.parts()
	if err := f.models.change(ctx, kept, true); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		text := fmt.Sprintf("the weights in use cannot be loaded anew for %s: %v", idsText(ids), err)
		f.models.counted.failedReloads.Add(1)
		f.opt.Log(text)
		return false, unavailable(text)
	}
	still := f.models.mayComeBack()
	ids = slices.DeleteFunc(ids, func(id device.ID) bool { return slices.Contains(still, id) })
	if len(ids) > 0 {
		f.opt.Log("the weights are loaded anew for " + idsText(ids))
	}
	same := func(a, b berth.ServicePart) bool {
		return versionOf(a.Used) == versionOf(b.Used) && a.Used.File == b.Used.File
	}
	return !slices.EqualFunc(before, f.models.parts(), same), nil
}

// waits begins the pause after which the checkpoints of some runs are loaded again, where a device failed that may not fail
// again. It doubles each time.
func (f *follower) waits(list []*followed) {
	f.pause = max(f.opt.Follow, min(2*f.pause, mostPause))
	if !slices.ContainsFunc(list, func(r *followed) bool { return r.again }) {
		f.pause = 0
	}
	f.again = time.Now().Add(f.pause)
}

// load loads the wanted checkpoints of some runs; other adapters keep the weights that they have.
func (f *follower) load(ctx context.Context, list []*followed) error {
	var kept []int
	for i := range f.opt.Adapters {
		if !slices.ContainsFunc(list, func(r *followed) bool { return r.part == 1+i }) {
			kept = append(kept, i)
		}
	}
	err := f.models.change(ctx, kept, false)
	again := f.models.triesAgain(err)
	for _, r := range list {
		r.again = again
		switch r.why = err; {
		case err == nil:
			r.failed, r.heard = version{}, failure{}
			f.models.counted.reloads.Add(1)
			f.opt.Log(f.named(r, "answering with "+usedText(f.used(r))))
		case ctx.Err() == nil && !again:
			r.failed = r.wanted
		}
	}
	return err
}

// tellFailure tells why the wanted checkpoint of a run could not be loaded: once, unless somebody asked. After the failures of
// a device, it tells when no more tries follow.
func (f *follower) tellFailure(r *followed, asked bool) {
	loss, _ := berth.LossOf(r.why)
	switch x := (failure{r.wanted, loss.Device}); {
	case asked || x != r.heard:
		r.heard = x
		again := ""
		if r.again && f.pause > 0 {
			again = "; trying again" + in(f.pause)
		}
		f.failure(r, fmt.Sprintf("checkpoint %d cannot be loaded: %v%s", r.wanted.id, r.why, again))
	case r.failed == r.wanted:
		f.opt.Log(f.named(r, fmt.Sprintf("checkpoint %d is not tried again before POST /reload", r.wanted.id)))
	}
}

// wanted is the checkpoint of a run that is to be loaded; zero where the one in use stays.
func (f *follower) wanted(ctx context.Context, r *followed, asked bool) (version, error) {
	v, damaged, err := chosen(ctx, r.weights)
	if ctx.Err() == nil {
		f.tell(r, damaged, err, asked)
	}
	if err != nil {
		return version{}, err
	}
	now := versionOf(f.used(r))
	inUse := func(s checkpoint.Skipped) bool { return s.ID == now.id } // it is whole in memory
	if v == now || v == r.failed && !asked || slices.ContainsFunc(damaged, inUse) {
		return version{}, nil
	}
	return v, nil
}

// used says which weights of a run are in use.
func (f *follower) used(r *followed) (u berth.Used) {
	if parts := f.models.parts(); parts != nil {
		u = parts[r.part].Used
	}
	return u
}

// named puts the name of the run's adapter before a text.
func (f *follower) named(r *followed, text string) string {
	if f.opt.Adapters == nil {
		return text
	}
	return fmt.Sprintf("adapter %s: %s", f.opt.Adapters[r.part-1].Name, text)
}

// keepsText says what to do about an adapter's run without checkpoints to read.
func keepsText(dir string) string {
	return fmt.Sprintf("the adapter keeps its weights while its checkpoints cannot be read: put those of %s back, or start the server without it", dir)
}

// keeps says of an error about the run's checkpoints which adapter keeps its weights, and what to do. Without
// adapters, it is the error.
func (f *follower) keeps(r *followed, err error) error {
	if f.opt.Adapters == nil {
		return err
	}
	return fmt.Errorf("adapter %s: %s: %w", f.opt.Adapters[r.part-1].Name, keepsText(r.weights.Dir), err)
}

// chosen is the whole checkpoint that w chooses now, and the damaged ones that
// would have come before it.
func chosen(ctx context.Context, w berth.Weights) (v version, damaged []checkpoint.Skipped, err error) {
	found, err := rundir.Find(ctx, w)
	if err != nil {
		return version{}, nil, err
	}
	return versionOf(w.Used(found)), found.Skipped, found.Close()
}

// tell tells of damaged checkpoints, or why none could be found: once, unless somebody asked.
func (f *follower) tell(r *followed, damaged []checkpoint.Skipped, err error, asked bool) {
	why := ""
	switch {
	case err != nil:
		why = fmt.Sprintf("the checkpoints cannot be read: %v", err)
		if f.opt.Adapters != nil {
			why += "; " + keepsText(r.weights.Dir)
		}
	case len(damaged) > 0:
		why = fmt.Sprintf("damaged: %v", damaged[0])
	}
	if why != "" && (asked || why != r.told) {
		f.failure(r, why)
	}
	r.told = why
}

// failure counts a reload that failed, and logs why.
func (f *follower) failure(r *followed, why string) {
	f.models.counted.failedReloads.Add(1)
	now := "no weights answer until the model is loaded again"
	if m, _, _ := f.models.now(); m != nil {
		now = "answering with " + usedText(f.used(r))
	}
	f.opt.Log(f.named(r, why+"; "+now))
}

// reloaded is the answer to POST /reload.
type reloaded struct {
	Changed bool       `json:"changed"` // other weights are in use now
	Weights berth.Used `json:"weights"`

	Devices []deviceState `json:"devices"` // as GET /healthz has them

	Adapters map[string]berth.Used `json:"adapters,omitempty"` // by name
	Error    string                `json:"error,omitempty"`    // why some adapters keep their weights, where others have changed
}

// reload answers POST /reload.
func (f *follower) reload(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	changed, err := f.look(ctx, true)
	if err != nil && !changed {
		_, known := errors.AsType[*problem](err)
		if known || errors.Is(err, context.Canceled) {
			return problemOf(ctx, err)
		}
		return unavailable(fmt.Sprintf("no other checkpoint could be loaded: %v", err))
	}
	answer := reloaded{Changed: changed, Weights: f.models.used(), Adapters: usedByAdapters(f.models.parts()), Devices: f.models.states()}
	if err != nil {
		answer.Error = err.Error()
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
