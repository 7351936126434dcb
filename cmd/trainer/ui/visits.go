package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
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
	mostVisits = 128                   // to folders that answered the last time, and as many to others, under way at once
	mostBeside = 32                    // of them, to folders in one folder: a dead disk leaves places for others
	keepTime   = 2 * time.Second       // that what a visit has found is true; later it is left aside
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
	done  chan struct{} // closed once what follows is there
	ended time.Time
	found found
}

// old reports whether a visit has ended so long ago that what it has found may be true no more. The cause of a panic is told
// however late.
func (x *visit) old() bool {
	select {
	case <-x.done:
		return x.found.cause == nil && time.Since(x.ended) > keepTime
	default:
		return false
	}
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
	pools    map[poolOf]*pool  // that have places taken
	answered map[string]bool   // folders that answered at the last whole look
	turns    bounds.Places     // of visits that have just begun: so many as there are processors
	under    map[string]*visit // those under way, by what they visit
	going    tasks
}

func newVisits() *visits {
	return &visits{pools: map[poolOf]*pool{}, turns: make(bounds.Places, runtime.GOMAXPROCS(0)), under: map[string]*visit{}}
}

// anew begins a look. It uses no old visits.
func (v *visits) anew() {
	maps.DeleteFunc(v.under, func(_ string, x *visit) bool { return x.old() })
	maps.DeleteFunc(v.pools, func(_ poolOf, p *pool) bool { return len(p.Places) == 0 })
}

// poolOf names a pool. Folders that answered the last time have pools of their own, which others that are dead cannot fill.
type poolOf struct {
	in       string // the folder that those which are visited are in; "": any
	answered bool
}

// pool is places for visits.
type pool struct {
	bounds.Places
	stuck bool // none became free for as long as patience
}

// take takes a place, and waits for one no longer than patience. Then as many visits as there may be do not end, and nobody waits
// again before a place is free.
func (p *pool) take(ctx context.Context) bool {
	if p.Take() {
		p.stuck = false
		return true
	}
	if p.stuck {
		return false
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case p.Places <- struct{}{}:
		return true
	case <-late.C:
		p.stuck = true
	case <-ctx.Done():
	}
	return false
}

// pool is a pool, with so many places.
func (v *visits) pool(of poolOf, most int) *pool {
	if v.pools[of] == nil {
		v.pools[of] = &pool{Places: make(bounds.Places, most)}
	}
	return v.pools[of]
}

// begin begins a visit to a folder, or gives the one that is under way. It is nil where there is no place.
func (v *visits) begin(ctx context.Context, folder string, look func() found) *visit {
	if x := v.under[folder]; x != nil {
		return x
	}
	answered := v.answered[folder]
	beside, all := v.pool(poolOf{filepath.Dir(folder), answered}, mostBeside), v.pool(poolOf{"", answered}, mostVisits)
	if ctx.Err() != nil || !beside.take(ctx) {
		return nil
	}
	if !all.take(ctx) {
		beside.Give()
		return nil
	}
	return v.start(folder, look, func() { all.Give(); beside.Give() })
}

// start starts a visit, and calls leave when it has ended.
func (v *visits) start(of string, look func() found, leave func()) *visit {
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
			leave()
			x.ended = time.Now()
			close(x.done)
		}()
		x.found = look()
	})
	if !begun {
		late.Stop()
		give()
		leave()
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

// key begins a visit to what is no folder of a run, or gives the one that is under way. It needs no place: there is one of each.
func (v *visits) key(ctx context.Context, key string, look func() found) *visit {
	if x := v.under[key]; x != nil || ctx.Err() != nil {
		return x
	}
	return v.start(key, look, func() {})
}

// hangs says that a folder does not answer. x is the visit to it; nil: there was no place for one.
func hangs(x *visit) error {
	if x == nil {
		return errors.New("so many folders do not answer that this one is not looked at: their disks, or the network to them, may be away")
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

// apart calls f in a goroutine of its own, which may read the folders of the runs with some IDs. It waits until f has ended, or
// ctx, or until one of the folders does not answer. What f gives must be its own, since it may end later.
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
