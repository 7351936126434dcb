package executor

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/panics"
)

// beside compiles the segments of a program while its steps run op by op. Its goroutine
// begins with the first step, and ends with the last segment or with end.
type beside struct {
	wanted []wanted      // in the order of a step
	over   chan struct{} // closed once the goroutine has ended; nil before it begins
	cancel atomic.Bool
	fresh  atomic.Bool // ready has executables

	mu      sync.Mutex
	ready   map[compiled]device.Executable // that the steps do not use yet
	refused []error                        // of segments that stay op by op
}

// wanted is a segment's variant to compile for a device.
type wanted struct {
	compiled
	on      device.Device
	segment device.Segment
}

// errBesideOver ends a compilation that nobody waits for any more.
var errBesideOver = errors.New("the program was closed")

// stopped is errBesideOver after end.
func (b *beside) stopped() error {
	if b.cancel.Load() {
		return errBesideOver
	}
	return nil
}

// add adds a variant, before the goroutine begins.
func (b *beside) add(w wanted) {
	w.segment.Options.Stop = b.stopped
	b.wanted = append(b.wanted, w)
}

// begin starts the goroutine.
func (b *beside) begin(c *compiler) {
	b.over = make(chan struct{})
	go func() {
		defer close(b.over)
		for _, w := range b.wanted {
			if b.stopped() != nil {
				return
			}
			b.compile(c, w)
		}
	}()
}

// compile compiles one variant. A panic of an op that the program brings refuses it.
func (b *beside) compile(c *compiler, w wanted) {
	var x device.Executable
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("compiling %s on %s panicked: %s", w.segment.Graph.Name, w.on.ID(), panics.Text(p))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if err == nil {
			b.ready[w.compiled] = x
			b.fresh.Store(true)
		} else if b.stopped() == nil && !errors.Is(err, device.ErrLost) { // steps tell of a loss
			b.refused = append(b.refused, err)
		}
	}()
	x, err = c.compile(w.on, w.segment)
}

// take takes the executables that are ready.
func (b *beside) take() map[compiled]device.Executable {
	b.mu.Lock()
	defer b.mu.Unlock()
	ready := b.ready
	b.ready = map[compiled]device.Executable{}
	b.fresh.Store(false)
	return ready
}

// end ends the goroutine, and releases what nobody took.
func (b *beside) end() {
	if b == nil {
		return
	}
	b.cancel.Store(true)
	if b.over != nil {
		<-b.over
	}
	for _, x := range b.take() {
		x.Release()
	}
}

// takeRefused takes the failures once the goroutine has ended; nil before.
func (b *beside) takeRefused() (list []error) {
	if b == nil || b.over == nil {
		return nil
	}
	select {
	case <-b.over:
		list, b.refused = b.refused, nil
	default:
	}
	return list
}
