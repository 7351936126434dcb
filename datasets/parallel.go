package datasets

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// inParallel works on the things that produce yields, several at a time, and collects
// the results in the order of the things. It ends with the first error in that
// order, and returns once nothing of it runs. Twice as many things as there are
// workers are in memory at most.
func inParallel[T, R any](ctx context.Context, produce func(yield func(T) error) error, work func(T) (R, error), collect func(R) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	workers := runtime.GOMAXPROCS(0)
	tasks := make(chan *task[T, R], workers)
	pending := make(chan *task[T, R], 2*workers)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(errEnded)
	for range workers {
		running.Go(func() {
			for t := range tasks {
				t.result, t.err = work(t.of)
				close(t.done)
			}
		})
	}
	var producing error // valid once pending is closed
	running.Go(func() {
		defer close(pending)
		defer close(tasks)
		producing = produce(func(of T) error {
			t := &task[T, R]{of: of, done: make(chan struct{})}
			for _, c := range []chan *task[T, R]{pending, tasks} {
				select {
				case c <- t:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
	})
	for t := range pending {
		select {
		case <-t.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if t.err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if t.err != nil {
			return t.err
		}
		if err := collect(t.result); err != nil {
			return err
		}
	}
	return producing
}

// errEnded ends the workers of inParallel.
var errEnded = errors.New("ended")

// task is a thing to work on, and its result once done is closed.
type task[T, R any] struct {
	of     T
	result R
	err    error
	done   chan struct{}
}

// recycled are arrays that are used again, so that a long list of pieces leaves no
// garbage: the heap would grow to twice what is kept before it is collected.
type recycled[T any] struct{ free sync.Pool }

// get is an empty slice, with the array of one that was put if there is any.
func (r *recycled[T]) get() []T {
	if s, ok := r.free.Get().(*[]T); ok {
		return (*s)[:0]
	}
	return nil
}

func (r *recycled[T]) put(s []T) {
	if cap(s) > 0 {
		r.free.Put(&s)
	}
}

// pieceBytes is the most bytes that are handled before the context is asked
// whether to go on.
const pieceBytes = 256 << 10

// inPieces calls f for consecutive ranges of n things, each of at most piece of
// them. Once ctx is done it fails with the cause.
func inPieces(ctx context.Context, n, piece int, f func(from, to int) error) error {
	for from := 0; from < n; from += piece {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f(from, min(n, from+piece)); err != nil {
			return err
		}
	}
	return nil
}
