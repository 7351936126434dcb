package datasets

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// Batch describes the samples in a slot.
type Batch struct {
	Slot    int    // index into the loader's slots
	Samples int    // samples in the slot; fewer than LoaderOptions.Batch only at an epoch's end
	Empty   int    // of them, samples without positions that fill up a batch of sequences
	Bucket  int    // index in Part.Buckets of the positions of each sample; 0 where all samples have one shape
	At      Cursor // of the first sample
	Next    Cursor // of the sample after the last: the position to resume at after this batch
}

// LoaderOptions configure NewLoader.
type LoaderOptions struct {
	Batch  int    // samples per batch
	Start  Cursor // of the first sample
	Epochs int    // end before epoch Start.Epoch+Epochs; 0 means never
	// Rows says which samples of the batch at a place, which has so many, are read; the others' places have any contents.
	// It is called from the loader's goroutine. Nil: all are.
	Rows func(at Cursor, samples, bucket int) ([]Rows, error)
}

// Loader reads batches ahead of their consumer, on its own goroutine, and batches of many pixels on one for each core. No
// batch contains samples of two epochs. It allocates nothing per batch.
type Loader struct {
	part   *Part
	opt    LoaderOptions
	slots  [][][]byte
	free   chan int
	filled chan Batch
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	err    error   // the reason for which filled was closed; set before that
	pieces *pieces // nil: the loader's goroutine reads all
}

// NewLoader starts reading part into slots. Each slot is a set of destinations
// for Part.Read with room for opt.Batch samples; with two slots the loader reads
// one batch ahead. The caller owns the memory, may touch a slot only between
// Next and Return, and must Close the loader before it frees the slots.
func NewLoader(part *Part, slots [][][]byte, opt LoaderOptions) (*Loader, error) {
	if len(slots) == 0 {
		return nil, fmt.Errorf("%w: a loader needs at least one slot", ErrDst)
	}
	if err := part.checkCursor(opt.Start); err != nil {
		return nil, err
	}
	for i, s := range slots {
		if err := part.checkRoom(opt.Batch, s); err != nil {
			return nil, fmt.Errorf("slot %d: %w", i, err)
		}
	}
	l := &Loader{part: part, opt: opt, slots: slots,
		free: make(chan int, len(slots)), filled: make(chan Batch, len(slots)),
		stop: make(chan struct{}), done: make(chan struct{})}
	for i := range slots {
		l.free <- i
	}
	if n := min(part.readers(opt.Batch), opt.Batch); n > 1 {
		l.pieces = newPieces(part, opt.Batch, n)
	}
	go l.run()
	return l, nil
}

// run is the loader's goroutine; Close ends it.
func (l *Loader) run() {
	defer close(l.done)
	defer close(l.filled)
	defer l.pieces.close()
	at := l.part.Next(l.opt.Start, 0) // the end of an epoch is the start of the next
	for l.opt.Epochs == 0 || at.Epoch < l.opt.Start.Epoch+l.opt.Epochs {
		var slot int
		select {
		case slot = <-l.free:
		case <-l.stop:
			return
		}
		n, err := l.read(at, l.slots[slot])
		if err != nil {
			l.err = err
			return
		}
		next := l.part.Next(at, n)
		l.filled <- Batch{Slot: slot, Samples: n, Empty: l.part.Empty(at, n), Bucket: l.part.Bucket(at), At: at, Next: next} // never blocks: filled has room for every slot
		at = next
	}
	l.err = io.EOF
}

// read reads a batch into a slot.
func (l *Loader) read(at Cursor, dst [][]byte) (int, error) {
	n := min(l.opt.Batch, l.part.Len()-at.Index)
	rows := []Rows(nil)
	if l.opt.Rows != nil {
		var err error
		if rows, err = l.opt.Rows(at, n, l.part.Bucket(at)); err != nil {
			return 0, err
		}
		if rows == nil {
			rows = []Rows{}
		}
	}
	if l.pieces != nil {
		return n, l.pieces.read(at, n, rows, dst)
	}
	return l.part.ReadRows(at, l.opt.Batch, rows, dst)
}

// Next waits for the next batch, in order. It fails with io.EOF after the last
// batch, with ErrClosed after Close, or with an error of reading. Once ctx is
// done it fails with ctx's cause, even if a batch is ready.
func (l *Loader) Next(ctx context.Context) (Batch, error) {
	if ctx.Err() != nil {
		return Batch{}, context.Cause(ctx)
	}
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

// Return gives a slot back to be filled again. The caller returns each slot that
// Next gave it once, in any order. Return does not block.
func (l *Loader) Return(slot int) {
	select {
	case l.free <- slot:
	default:
		panic(fmt.Sprintf("BUG: slot %d returned twice to the loader", slot))
	}
}

// Close ends the goroutine and waits for it. After that the loader no longer
// touches the slots. Further calls do nothing.
func (l *Loader) Close() {
	l.once.Do(func() { close(l.stop) })
	<-l.done
}
