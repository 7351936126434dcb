package ui

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/bounds"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/engine/osfile"
)

// The bounds of visits.
const (
	patience   = 3 * time.Second       // that a folder has to answer; then the others are shown without it
	turnTime   = 50 * time.Millisecond // after which a visit lets another begin
	mostVisits = 64                    // under way at once
	leaveTime  = time.Second           // that visits and reads have to end with the server
)

// The keys of visits to what is no run folder. No path has a zero byte.
const (
	queueKey = "\x00queue"
	rootKey  = "\x00root"
)

// visit is a look at a folder, or at the queue, in a goroutine of its own. A file system that has died holds that up, maybe for
// ever, and nobody can end it. So nobody waits for it longer than patience, and none other begins before it has ended.
type visit struct {
	began time.Time
	done  chan struct{} // closed once found is there
	found found
}

// found is what a visit has found.
type found struct {
	real   string          // the folder's path without links
	run    *seen           // nil: it is no run
	inside []string        // names of the folders in it that may be runs
	jobs   []queued.Record // of the queue
	cause  any             // of a panic, with its stack; nil: there was none
}

// visits begins visits and waits for them. One goroutine uses it at a time.
type visits struct {
	places bounds.Places
	turns  bounds.Places     // of visits that have just begun: so many as there are processors
	under  map[string]*visit // those under way, by what they visit
	full   <-chan time.Time  // of a look: when it waits no more for a place; nil: there always was one
	over   bool              // it waits no more
	going  tasks
}

func newVisits() *visits {
	return &visits{places: make(bounds.Places, mostVisits), turns: make(bounds.Places, runtime.GOMAXPROCS(0)), under: map[string]*visit{}}
}

// anew begins a look.
func (v *visits) anew() { v.full, v.over = nil, false }

// place takes a place, and waits for one no longer than patience in all of a look: as many visits as there may be do not end.
func (v *visits) place(ctx context.Context) bool {
	if v.places.Take() {
		return true
	}
	if v.full == nil {
		v.full = time.After(patience)
	}
	if !v.over {
		select {
		case v.places <- struct{}{}:
			return true
		case <-v.full:
			v.over = true
		case <-ctx.Done():
		}
	}
	return false
}

// begin begins a visit, or gives the one that is under way. It is nil where there is no place.
func (v *visits) begin(ctx context.Context, of string, look func() found) *visit {
	if x := v.under[of]; x != nil {
		return x
	}
	if ctx.Err() != nil || !v.place(ctx) {
		return nil
	}
	v.turns <- struct{}{} // which is free within turnTime
	x := &visit{began: time.Now(), done: make(chan struct{})}
	give := sync.OnceFunc(v.turns.Give)
	late := time.AfterFunc(turnTime, give)
	begun := v.going.begin(func() {
		defer func() {
			if cause := recover(); cause != nil {
				x.found.cause = fmt.Sprintf("%v\n%s", cause, debug.Stack())
			}
			late.Stop()
			give()
			v.places.Give()
			close(x.done)
		}()
		x.found = look()
	})
	if !begun {
		late.Stop()
		give()
		v.places.Give()
		return nil
	}
	v.under[of] = x
	return x
}

// end is what a visit has found, unless it is late.
func (v *visits) end(ctx context.Context, of string, x *visit) (f found, ok bool) {
	if x == nil {
		return found{}, false
	}
	select {
	case <-x.done:
	default:
		wait := time.NewTimer(time.Until(x.began.Add(patience)))
		defer wait.Stop()
		select {
		case <-x.done:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	select {
	case <-x.done:
		delete(v.under, of)
		if x.found.cause != nil {
			panic(x.found.cause)
		}
		return x.found, true
	default:
		return found{}, false
	}
}

// once begins a visit and waits for it.
func (v *visits) once(ctx context.Context, of string, look func() found) (found, bool) {
	return v.end(ctx, of, v.begin(ctx, of, look))
}

// hangs says that a folder does not answer. x is the visit to it; nil: there was no place for one.
func hangs(x *visit) error {
	if x == nil {
		return fmt.Errorf("%d folders do not answer, so no more are looked at: their disks, or the network to them, may be away", mostVisits)
	}
	at := x.began.Format(time.TimeOnly)
	return fmt.Errorf("its folder has not answered since %s: its disk, or the network to it, may be away. Other runs are shown meanwhile", at)
}

// spot is a folder that may be a run.
type spot struct {
	path, shown string // shown is its name for people
	real        string // the path without links; "": not known
	holds       bool   // if it is no run, it may hold trials
}

// visit looks at the folder. before are the runs as they were.
func (sp spot) visit(before map[string]*seen) found {
	f := found{real: sp.real}
	if f.real == "" {
		if st, err := os.Lstat(sp.path); err != nil || !st.IsDir() { // or a link
			return f
		}
		f.real = osfile.Real(sp.path)
	}
	s := &seen{dir: f.real, shown: sp.shown}
	if known := before[f.real]; known != nil {
		copied := *known
		s = &copied
	}
	stamp := stampOf(f.real)
	switch {
	case stamp != "" && (s.stamp == stamp || rundir.IsRun(f.real)): // IsRun reads the config of a run without checkpoints
		s.stamp = stamp
		s.read()
		f.run = s
	case sp.holds:
		f.inside = trialFolders(sp.path)
	}
	return f
}

// visitRoot looks at the folder of all runs.
func visitRoot(folder string) found {
	f := found{real: osfile.Real(folder)}
	list, _ := os.ReadDir(folder) // a folder that is not there has no runs
	for _, e := range list {
		if e.IsDir() { // and no link
			f.inside = append(f.inside, e.Name())
		}
	}
	return f
}

// tasks are goroutines of the server that a dead file system may hold up.
type tasks struct {
	mu     sync.Mutex
	closed bool
	going  sync.WaitGroup
}

// begin calls f in a goroutine of its own, or reports that the server ends.
func (t *tasks) begin(f func()) (begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.going.Go(f)
	}
	return !t.closed
}

// close lets no more begin, and waits for those that are under way, but not for what a dead file system holds up.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		t.going.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(leaveTime):
	}
}

// apart calls f in a goroutine of its own, which may read the folders of the runs with some IDs. It waits until f has ended, or ctx, or
// until one of the folders does not answer. What f gives must be its own, since it may end later.
func apart[T any](ctx context.Context, s *Server, ids []string, f func() (T, error)) (v T, err error) {
	if !s.reads.Take() {
		return v, refused(http.StatusServiceUnavailable, "too many files are being read, some of which do not answer: try again later")
	}
	type answer struct {
		v     T
		err   error
		cause any
	}
	done := make(chan answer, 1)
	begun := s.reading.begin(func() {
		defer s.reads.Give()
		var a answer
		defer func() {
			if cause := recover(); cause != nil {
				a.cause = fmt.Sprintf("%v\n%s", cause, debug.Stack())
			}
			done <- a
		}()
		a.v, a.err = f()
	})
	if !begun {
		s.reads.Give()
		return v, refused(http.StatusServiceUnavailable, "the server ends")
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case a := <-done:
			if a.cause != nil {
				panic(a.cause)
			}
			return a.v, a.err
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-look.C:
			if err := s.board.hanging(ids); err != nil {
				return v, err
			}
		}
	}
}

// hanging is why one of the runs with some IDs cannot be read now; nil: they can.
func (b *board) hanging(ids []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if s := b.dirs[id]; s != nil && s.hangs != nil {
			return refused(http.StatusServiceUnavailable, "%s: %v", s.shown, s.hangs)
		}
	}
	return nil
}
