package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// World has all ranks that a launcher has started, and carries messages between them. It
// implements [ranks.Transport].
type World struct {
	launch  ranks.Launch
	library string // its name and version
	ops     ranks.Operations
	bell    *bell         // rings when something new is there for the thread
	ended   chan struct{} // closed at the end of the thread
	thread  *thread

	mu     sync.Mutex
	posted []*message // what the thread has not taken yet, in order
	spare  []*message // what it has ended, for later posts
	closed bool
	failed error // of Fail
}

// Open loads MPI and meets the other ranks. files are those of the library that are tried; nil: those that fit the
// launcher. It returns [ranks.ErrLibrary] or [ranks.ErrLaunch], or ctx's cause where it ends before the others come, with
// [ranks.ErrCarrier] after its deadline.
func Open(ctx context.Context, launch ranks.Launch, files []string) (*World, error) {
	if files == nil {
		files = launch.Libraries
	}
	w := &World{launch: launch, bell: new(bell), ended: make(chan struct{})}
	met := make(chan error, 1)
	go w.serve(files, met)
	select {
	case err := <-met:
		if err != nil {
			return nil, err
		}
		return w, nil
	case <-ctx.Done():
		err := fmt.Errorf("in MPI_Init, rank %d of %d waits for the others: %w", launch.Rank, launch.Size, context.Cause(ctx))
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", ranks.ErrCarrier, err)
		}
		return nil, err
	}
}

// Rank implements [ranks.Transport].
func (w *World) Rank() int { return w.launch.Rank }

// Size implements [ranks.Transport].
func (w *World) Size() int { return w.launch.Size }

// Library is MPI's name and version.
func (w *World) Library() string { return w.library }

// Send implements [ranks.Transport].
func (w *World) Send(to int, tag ranks.Tag, b []byte) device.Event {
	return w.post(message{kind: sends, peer: to, tag: tag, b: b})
}

// Recv implements [ranks.Transport].
func (w *World) Recv(from int, tag ranks.Tag, b []byte) device.Event {
	return w.post(message{kind: receives, peer: from, tag: tag, b: b})
}

// Allreduce sums numbers of all ranks in place, by MPI's own function and in its order. ok is false where the
// library's handles for that are not known.
func (w *World) Allreduce(b []byte) (e device.Event, ok bool) {
	if w.thread.handles.float == 0 {
		return e, false
	}
	return w.post(message{kind: sums, b: b}), true
}

// Run implements [ranks.Runner].
func (w *World) Run(work func(ranks.Transport)) device.Event {
	return w.post(message{kind: works, work: work})
}

// within is the world for work that the thread runs. Waiting for an event of it has the thread carry messages.
type within struct{ *World }

// Send implements [ranks.Transport].
func (w within) Send(to int, tag ranks.Tag, b []byte) device.Event {
	return w.event(w.World.Send(to, tag, b))
}

// Recv implements [ranks.Transport].
func (w within) Recv(from int, tag ranks.Tag, b []byte) device.Event {
	return w.event(w.World.Recv(from, tag, b))
}

// Run implements [ranks.Runner]: the thread has its turn.
func (w within) Run(work func(ranks.Transport)) device.Event {
	work(w)
	return device.Event{}
}

// event is one of the world's that the thread can wait for.
func (w within) event(e device.Event) device.Event { return device.Event{Queue: w, Seq: e.Seq} }

// Finished implements [device.Queue].
func (w within) Finished(seq uint64) bool { return w.ops.Finished(seq) }

// Err implements [device.Queue].
func (w within) Err(seq uint64) error { return w.ops.Err(seq) }

// Await implements [device.Queue].
func (w within) Await(ctx context.Context, seq uint64) error {
	for !w.ops.Finished(seq) {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.thread.turn()
	}
	return w.ops.Err(seq)
}

// post hands a message to the thread.
func (w *World) post(m message) device.Event {
	m.event = w.ops.Begin()
	w.mu.Lock()
	var to *message
	if n := len(w.spare); n > 0 {
		to, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		to = new(message)
	}
	m.parts = to.parts[:0]
	*to = m
	w.posted = append(w.posted, to)
	w.mu.Unlock()
	w.bell.ring()
	return m.event
}

// take gives the thread what was posted since it asked last, and takes back what it has ended. Its error is Fail's.
func (w *World) take(to []*message, ended []*message) (list []*message, closed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = append(w.spare, ended...)
	list = append(to, w.posted...)
	w.posted = w.posted[:0]
	return list, w.closed, w.failed
}

// Close implements [ranks.Transport]. MPI may never end: see quietBefore. So the ranks meet first, and then wait for MPI
// no longer than it needs: no message is under way any more.
func (w *World) Close() error {
	_ = w.meet() // whoever waits for messages has been told of a failure
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.bell.ring()
	select {
	case <-w.ended:
	case <-time.After(finalizeWithin):
	}
	return nil
}

// finalizeWithin is how long MPI has to end.
const finalizeWithin = 10 * time.Second

// meet returns once all ranks have called it.
func (w *World) meet() error {
	ctx := context.Background()
	if w.Rank() != 0 {
		return cmp.Or(w.Send(0, ranks.TagClose, nil).Wait(ctx), w.Recv(0, ranks.TagClose, nil).Wait(ctx))
	}
	for _, post := range []func(int, ranks.Tag, []byte) device.Event{w.Recv, w.Send} {
		for peer := 1; peer < w.Size(); peer++ {
			if err := post(peer, ranks.TagClose, nil).Wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fail implements [ranks.Transport]. MPI is not asked again: what is under way stays so until the process ends.
func (w *World) Fail(err error) {
	w.mu.Lock()
	w.failed = cmp.Or(w.failed, err)
	w.mu.Unlock()
	w.bell.ring()
	select {
	case <-w.ended:
	case <-time.After(abortWithin): // the thread is stuck in MPI
		w.ops.Fail(err)
	}
}

// abortWithin is how long MPI has to end all ranks. A process that ends without it makes the launcher end the others.
const abortWithin = time.Second

// Abort implements [ranks.Transport]. It does not return.
func (w *World) Abort(code int) {
	muteErrors()
	go w.thread.abort(code) // it may hang, as MPI may be in any state
	time.Sleep(abortWithin)
	os.Exit(code)
}

// nameOf is the name in a library's text about itself, such as "Open MPI v4.1.4, package: …" and
// "MPICH Version:\t4.0.2\n…".
func nameOf(text []byte) string {
	s, _, _ := strings.Cut(string(text), "\x00")
	s, _, _ = strings.Cut(s, "\n")
	s, _, _ = strings.Cut(s, ",")
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "Version:", " ")), " ")
}
