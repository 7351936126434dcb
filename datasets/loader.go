package datasets

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// Batch says what a slot holds.
type Batch struct {
	Slot    int    // index into the loader's slots
	Samples int    // rows filled; fewer than a batch only at an epoch's end
	At      Cursor // of the first sample
	Next    Cursor // of the sample after the last: where to resume once this batch is done
}

// LoaderOptions configure NewLoader.
type LoaderOptions struct {
	Batch  int    // samples per batch
	Start  Cursor // where to begin
	Epochs int    // end before epoch Start.Epoch+Epochs; 0 means never
}

// Loader reads batches ahead of their consumer on a goroutine of its own. No
// batch spans two epochs. It allocates nothing per batch.
type Loader struct {
	part   *Part
	opt    LoaderOptions
	slots  [][][]byte
	free   chan int
	filled chan Batch
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	err    error // why filled was closed; set before
}

// NewLoader starts reading part into slots, each of which is one set of
// destinations as Part.Read takes them, for opt.Batch samples. The memory is
// the caller's, who may touch a slot between Next and Return only; two slots
// read one batch ahead. The caller must Close the loader before it frees them.
func NewLoader(part *Part, slots [][][]byte, opt LoaderOptions) (*Loader, error) {
	if len(slots) == 0 {
		return nil, fmt.Errorf("%w: a loader needs at least one slot", ErrDst)
	}
	if err := part.holds(opt.Start); err != nil {
		return nil, err
	}
	for i, s := range slots {
		if err := part.fits(opt.Batch, s); err != nil {
			return nil, fmt.Errorf("slot %d: %w", i, err)
		}
	}
	l := &Loader{part: part, opt: opt, slots: slots,
		free: make(chan int, len(slots)), filled: make(chan Batch, len(slots)),
		stop: make(chan struct{}), done: make(chan struct{})}
	for i := range slots {
		l.free <- i
	}
	go l.run()
	return l, nil
}

// run is the loader's goroutine; Close ends it.
func (l *Loader) run() {
	defer close(l.done)
	defer close(l.filled)
	at := l.part.Next(l.opt.Start, 0) // an epoch's end is the next one's start
	for l.opt.Epochs == 0 || at.Epoch < l.opt.Start.Epoch+l.opt.Epochs {
		var slot int
		select {
		case slot = <-l.free:
		case <-l.stop:
			return
		}
		n, err := l.part.Read(at, l.opt.Batch, l.slots[slot])
		if err != nil {
			l.err = err
			return
		}
		next := l.part.Next(at, n)
		l.filled <- Batch{Slot: slot, Samples: n, At: at, Next: next} // has room for every slot
		at = next
	}
	l.err = io.EOF
}

// Next waits for the next filled slot, in order. It fails with io.EOF after the
// last batch, with ctx's cause, with ErrClosed after Close, or with what went wrong in reading.
func (l *Loader) Next(ctx context.Context) (Batch, error) {
	select {
	case b, ok := <-l.filled:
		if ok {
			return b, nil
		}
		if l.err == nil {
			return Batch{}, ErrClosed
		}
		return Batch{}, l.err
	case <-ctx.Done():
		return Batch{}, context.Cause(ctx)
	}
}

// Return gives a slot back to be filled again. Each slot that Next handed out
// is returned once, in any order. It does not block.
func (l *Loader) Return(slot int) {
	select {
	case l.free <- slot:
	default:
		panic(fmt.Sprintf("BUG: slot %d returned twice to the loader", slot))
	}
}

// Close ends the goroutine and waits for it; the slots are the caller's alone
// then. More calls do nothing.
func (l *Loader) Close() {
	l.once.Do(func() { close(l.stop) })
	<-l.done
}
