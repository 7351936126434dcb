package residency

import "github.com/berth-ml/berth/engine/device"

// devCopy is a tensor's copy on one device.
type devCopy struct {
	buf     device.Buffer // nil when there is none
	version uint64        // of its contents; 0 when undefined
	ready   device.Event  // of the last write or copy into it
	readers fence         // reads since then; in a buffer without contents, its former uses
	leased  int           // number of leases that contain it
	writing bool          // one of these writes
	used    uint64        // the manager's clock at its last use
	slot    int           // index in the device's residents, while there is a buffer
	wanted  uint64        // the attempt that wants it
	want    int           // index among that attempt's wants
	moved   uint64        // the call of Acquire that last moved contents here
	uses    []int         // positions in the known order of uses, ascending
}

// busy reports whether queued work still uses contents that c had. A buffer
// that never had any waits for its former uses in stream order.
func (c *devCopy) busy() bool {
	return c.buf != nil && c.version != 0 && !(c.ready.Done() && c.readers.done())
}

// pending is the fence of all queued uses of c's buffer, with its last write. The
// caller takes it over.
func (c *devCopy) pending() *fence {
	if !c.ready.Done() {
		c.readers.add(c.ready)
	}
	return &c.readers
}

// follow makes s wait for e and for former uses of c's buffer.
func (c *devCopy) follow(s device.Stream, e device.Event) error {
	for _, r := range c.readers {
		if r.Done() {
			continue
		}
		if err := s.WaitFor(r); err != nil {
			return err
		}
	}
	return follow(s, e)
}

// arrive notes that c has contents of a version once ready has happened.
func (c *devCopy) arrive(version uint64, ready device.Event) {
	c.version, c.ready = version, ready
	c.readers = c.readers[:0]
}

// follow makes s wait for e. It fails if e has failed already.
func follow(s device.Stream, e device.Event) error {
	if !e.Done() {
		return s.WaitFor(e)
	}
	return e.Err()
}
