// Package stop ends long loops early. A [Check] asks a function, such as a
// context's cause, whether to stop. [Each] walks a list and asks every so many
// items, so that no loop over a large graph needs a count of its own.
package stop

import (
	"context"
	"iter"
)

// every is the items of loops between two questions: some tens of microseconds.
const every = 1024

// Check asks whether to stop, until the answer is yes. Use it from one goroutine.
type Check struct {
	ask  func() error
	left int // items until the next question
	seen int // items so far, without those since the last question
	err  error
}

// Items is how many items were counted so far: the work of linear loops.
func (c *Check) Items() int { return c.seen + every - c.left }

// Of asks whether ctx has ended: its cause then.
func Of(ctx context.Context) func() error {
	return func() error { return context.Cause(ctx) }
}

// When returns a Check that asks f. A nil f never stops.
func When(f func() error) *Check { return &Check{ask: f, left: every} }

// Err asks now. After the first error it returns that one.
func (c *Check) Err() error {
	if c.err == nil && c.ask != nil {
		c.err = c.ask()
	}
	c.seen, c.left = c.Items(), every
	return c.err
}

// Release ends the asking: what is kept with the Check outlives the call that f is of.
// An error that it has given stays.
func (c *Check) Release() { c.ask = nil }

// Done counts an item, and asks after every so many. Once it is true it stays
// so, and Err tells why.
func (c *Check) Done() bool {
	if c.left--; c.left <= 0 {
		return c.Err() != nil
	}
	return c.err != nil
}

// Each walks the items with their indices, until c is done. What a loop over it
// has made by then is incomplete: ask [Check.Err] before using it.
func Each[T any](c *Check, items []T) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i, x := range items {
			if c.Done() || !yield(i, x) {
				return
			}
		}
	}
}
