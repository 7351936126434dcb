package ranks

import (
	"context"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/prompt"
)

// Operations are the operations that a transport has begun. They end in any order. They
// are the queue of the transport's events. Once there are as many as are ever open at
// once, beginning, ending and waiting allocate nothing. The zero value has none.
type Operations struct {
	mu    sync.Mutex
	slots []*slot
	free  []uint64 // indices of slots that no open operation and no waiter uses
	err   error    // of the operation that failed first
}

// slot has an operation that is open, or the newest that was.
type slot struct {
	turn    uint64 // counts the operations of this slot
	open    bool
	err     error // why the operation failed
	waiters int
	ended   chan struct{} // has a token once the operation has ended
}

// slotBits are the lowest bits of an event's number: the index of its slot. The others are its turn.
const slotBits = 24

func index(seq uint64) uint64 { return seq & (1<<slotBits - 1) }

// Begin begins an operation.
func (o *Operations) Begin() device.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.free) == 0 {
		o.free = append(o.free, uint64(len(o.slots)))
		o.slots = append(o.slots, &slot{ended: make(chan struct{}, 1)})
	}
	i := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	s := o.slots[i]
	select {
	case <-s.ended: // of the operation before
	default:
	}
	s.turn++
	s.open, s.err = true, nil
	if o.err != nil {
		s.end(o.err)
	}
	return device.Event{Queue: o, Seq: s.turn<<slotBits | i}
}

// End ends an operation. A failure ends all that are open, and those that begin later.
func (o *Operations) End(e device.Event, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s := o.slot(e.Seq); {
	case o.err != nil:
	case err != nil:
		o.err = err
		for _, s := range o.slots {
			if s.open {
				s.end(err)
			}
		}
	case s != nil && s.open:
		s.end(nil)
		o.release(index(e.Seq))
	}
}

// Fail ends all operations that are open, and those that begin later.
func (o *Operations) Fail(err error) { o.End(device.Event{Queue: o}, err) }

// Failure is why all operations fail; nil while they do not.
func (o *Operations) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// end ends the operation of a slot.
func (s *slot) end(err error) {
	s.open, s.err = false, err
	s.ended <- struct{}{}
}

// release gives the slot to the next operation, if nobody asks for this one any more. One that failed keeps its
// slot, since its event is asked for the reason.
func (o *Operations) release(i uint64) {
	if s := o.slots[i]; !s.open && s.err == nil && s.waiters == 0 {
		o.free = append(o.free, i)
	}
}

// slot is the slot of an operation; nil if a later one has it: then the operation ended well.
func (o *Operations) slot(seq uint64) *slot {
	if i := index(seq); i < uint64(len(o.slots)) && o.slots[i].turn == seq>>slotBits {
		return o.slots[i]
	}
	return nil
}

// Finished implements [device.Queue].
func (o *Operations) Finished(seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.slot(seq)
	return s == nil || !s.open
}

// Err implements [device.Queue].
func (o *Operations) Err(seq uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.slot(seq); s != nil {
		return s.err
	}
	return nil
}

// Await implements [device.Queue].
func (o *Operations) Await(ctx context.Context, seq uint64) error {
	o.mu.Lock()
	s := o.slot(seq)
	if s == nil || !s.open {
		o.mu.Unlock()
		return o.Err(seq)
	}
	s.waiters++
	o.mu.Unlock()
	prompt.Wake()
	var err error
	select {
	case <-s.ended:
		s.ended <- struct{}{} // for the other waiters
	case <-ctx.Done():
		err = ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		err = s.err
	}
	if s.waiters--; s.waiters == 0 && !s.open {
		o.release(index(seq))
	}
	return err
}
