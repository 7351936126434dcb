package residency

import "github.com/berth-ml/berth/engine/device"

// devCopy is a tensor's copy on one device. It has a buffer while its contents
// are current, and while a lease contains it.
type devCopy struct {
	buf     device.Buffer // nil when there is none
	version uint64        // of its contents; 0 when undefined
	ready   device.Event  // of the last write or copy into it; of the taking, before there was one
	moved   device.Event  // of the move that brought the contents to this buffer since; never fails
	readers device.Fence  // reads since then
	leased  int           // number of leases that contain it
	writing bool          // one of these writes
	used    uint64        // the manager's clock at its last use
	slot    int           // index in the device's residents, while there is a buffer
	wanted  uint64        // the attempt that wants it
	want    int           // index among that attempt's wants
	brought uint64        // the call of Acquire that last brought contents here
	object  int           // from 1: its number in the known order of uses; 0: it is not in it
}

// lastUses is the events after which the buffer may be overwritten: its readers,
// each of which has waited for the last write and the move since, or those two if
// there are none.
func (c *devCopy) lastUses() []device.Event {
	if len(c.readers) == 0 {
		c.readers.Add(c.ready)
		c.readers.Add(c.moved)
	}
	return c.readers
}

// arrive notes that c has contents of a version once ready has happened. With the
// zero Event nothing was queued: the uses before it still count.
func (c *devCopy) arrive(version uint64, ready device.Event) {
	c.version = version
	if ready.Queue != nil {
		c.ready, c.moved, c.readers = ready, device.Event{}, c.readers[:0]
	}
}

// failed reports whether the contents are known not to have arrived.
func (c *devCopy) failed() bool { return c.version != 0 && c.ready.Err() != nil }

// follow makes s wait for e. It fails if e has failed already.
func follow(s device.Stream, e device.Event) error {
	if !e.Done() {
		return s.WaitFor(e)
	}
	return copyFailed(e)
}
