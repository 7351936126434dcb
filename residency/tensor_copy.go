package residency

import "github.com/berth-ml/berth/engine/device"

// devCopy is a tensor's copy on one device. It has a buffer while its contents
// are current, and while a lease contains it.
type devCopy struct {
	buf     device.Buffer // nil when there is none
	version uint64        // of its contents; 0 when undefined
	ready   device.Event  // of the last write or copy into it; of the taking, before there was one
	causes  device.Fence  // if that was a copy, the events by which its source was made; they end before it
	moved   device.Event  // of the move that brought the contents to this buffer since
	carried device.Fence  // the copies that carried the contents here, as far as they are not known to have ended well
	readers device.Fence  // reads since then
	leased  int           // number of leases that contain it
	writing bool          // one of these writes
	used    uint64        // the manager's clock at its last use
	slot    int           // index in the device's residents, while there is a buffer
	wanted  bool          // by the attempt under way
	want    int           // index among that attempt's wants
	brought uint64        // the call of Acquire that last brought contents here
	object  int           // from 1: its number in the known order of uses; 0: it is not in it
	other   int           // from 1: its number among the ranked copies that no order knows; 0: it has none
}

// lastUses is the events after which the buffer may be overwritten: its readers,
// each of which has waited for the last write and the move since, or those two if
// there are none.
func (c *devCopy) lastUses() []device.Event {
	if len(c.readers) == 0 {
		c.addMakers()
	}
	return c.readers
}

// readElsewhere adds a reader on another device's stream. If that device is given up,
// it counts as ended before what it waited for.
func (c *devCopy) readElsewhere(done device.Event) {
	c.addMakers()
	c.readers.Add(done)
}

// addMakers adds the last write and the move since to the readers.
func (c *devCopy) addMakers() {
	c.readers.Add(c.ready)
	c.readers.Add(c.moved)
}

// write notes that c has contents of a version once the task done has ended well.
// Should it fail, those from before are left, if there are any.
func (c *devCopy) write(version uint64, done device.Event) {
	if c.version == 0 {
		c.carried.Add(done)
	}
	carry(&c.carried, c.carried)
	addCarrier(&c.carried, c.moved)
	c.arrive(version, done)
}

// arrive notes that c has contents of a version once ready has happened. With the
// zero Event nothing was queued: the uses before it still count.
func (c *devCopy) arrive(version uint64, ready device.Event) {
	c.version = version
	if ready.Queue != nil {
		c.ready, c.causes, c.moved, c.readers = ready, c.causes[:0], device.Event{}, c.readers[:0]
	}
}

// clear forgets the contents and all uses.
func (c *devCopy) clear() {
	c.other = 0
	c.version, c.ready, c.causes, c.moved, c.readers = 0, device.Event{}, c.causes[:0], device.Event{}, c.readers[:0]
	c.carried = c.carried[:0]
}

// locked reports whether the copy must stay: it is leased, or wanted.
func (c *devCopy) locked() bool { return c.leased > 0 || c.wanted }

// failure is the reason for which the contents are known not to be right; nil if
// none is known.
func (c *devCopy) failure() error {
	if c.version == 0 {
		return nil
	}
	if err := firstFailure(c.ready, c.causes); err != nil {
		return err
	}
	return c.moved.Err() // its device was given up before
}

// passOn sets causes to the events by which the contents were made.
func (c *devCopy) passOn(causes *device.Fence) {
	inherit(causes, c.ready, c.causes)
	if !c.moved.Done() || c.moved.Err() != nil {
		causes.Add(c.moved)
	}
}

// carryOn sets carried to the copies that carried the contents, for a copy of them.
func (c *devCopy) carryOn(carried *device.Fence) {
	carry(carried, c.carried)
	addCarrier(carried, c.moved)
}

// carry sets to to those of the copies that are not known to have ended well.
func carry(to *device.Fence, copies device.Fence) {
	*to = (*to)[:0]
	for _, e := range copies {
		addCarrier(to, e)
	}
}

// addCarrier adds a copy, unless it is known to have ended well.
func addCarrier(to *device.Fence, e device.Event) {
	if !e.Done() || e.Err() != nil {
		to.Add(e)
	}
}

// Contents that were copied are right if three things have gone well: the copy,
// the copies before it, and the task that wrote them first. A copy stream is shared
// by many tensors, so a copy waits only until these have ended, well or not. Their
// events go along with the contents as causes, for those who read them to check.

// inherit sets causes to the events by which contents were made that are copied now:
// last and those before it. It leaves out those that are known to have gone well.
func inherit(causes *device.Fence, last device.Event, before device.Fence) {
	*causes = (*causes)[:0]
	for _, e := range before {
		if !e.Done() || e.Err() != nil {
			causes.Add(e)
		}
	}
	if !last.Done() || last.Err() != nil {
		causes.Add(last)
	}
}

// firstFailure is the failure of contents that were made by these events; nil if
// none is known.
func firstFailure(last device.Event, before device.Fence) error {
	for _, e := range before {
		if err := e.Err(); err != nil {
			return err
		}
	}
	return last.Err()
}
