package residency

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// keepTicks is for how many ticks of the ledger (steps, and boundaries between
// phases of the work) a pooled buffer is kept that nobody takes.
const keepTicks = 8

// pool keeps the buffers of a device whose contents are no longer needed, for
// the next tensor of equal metadata and usage: handing one on costs neither an
// allocation nor a wait of the host. Queued work may still use such a buffer;
// its events go with it, and the stream that writes it next waits for them. If
// that work fails, so does the stream that waited, as with any overwriting.
//
// To every decision on memory, pooled bytes are free: they are deleted before
// anything is evicted, spilled or waited for. Two rules keep the pool small. A
// buffer that was not taken for keepTicks ticks is deleted. And the pool never
// has more bytes than tensors and queued work had in use at once.
type pool struct {
	lists [][]pooled // per class, in the order of pooling
	bytes int64
	most  int64  // of the bytes in use when a buffer was allocated
	turn  uint64 // counts the buffers that were pooled
	tick  int64  // the ledger's ticks when the pool was last looked through
}

// pooled is a buffer in a pool. The memory of its fence goes with it.
type pooled struct {
	buf   device.Buffer
	bytes int64
	uses  fence  // queued work that touches it
	turn  uint64 // grows with the time of pooling
	tick  int64  // the ledger's ticks at that time
}

// add pools a buffer, whose former uses go with it.
func (o *pool) add(class int, b device.Buffer, bytes int64, uses fence) {
	o.turn++
	l := &o.lists[class]
	*l = append(*l, pooled{b, bytes, uses, o.turn, o.tick})
	o.bytes += bytes
}

// grow notes the bytes in use: others, and those of pooled buffers that queued
// work still uses.
func (o *pool) grow(others int64) {
	for _, l := range o.lists {
		for i := range l {
			if !l[i].uses.done() {
				others += l[i].bytes
			}
		}
	}
	o.most = max(o.most, others)
}

// idle reports whether there is a buffer of a class that nothing queued uses.
func (o *pool) idle(class int) bool {
	for _, e := range o.lists[class] {
		if e.uses.done() {
			return true
		}
	}
	return false
}

// find is the index of the buffer of a class that was pooled last among those
// whose uses have ended or stand in the queue of the writer to come; or else,
// if that one is to wait, of the oldest; -1 if there is none.
func (o *pool) find(class int, writer device.Queue, wait bool) int {
	l := o.lists[class]
	i := len(l) - 1
	for i >= 0 && !l[i].uses.before(writer) {
		i--
	}
	if i < 0 && wait && len(l) > 0 {
		return 0
	}
	return i
}

// oldest finds the buffer pooled longest ago, among those that nothing queued
// uses if idle is set; class is -1 if there is none.
func (o *pool) oldest(idle bool) (class, at int) {
	class = -1
	var turn uint64
	for k, l := range o.lists {
		for i := range l {
			if class >= 0 && l[i].turn > turn {
				break
			}
			if !idle || l[i].uses.done() {
				class, at, turn = k, i, l[i].turn
				break
			}
		}
	}
	return class, at
}

// remove takes a buffer out of the pool.
func (o *pool) remove(class, i int) pooled {
	e := o.lists[class][i]
	o.lists[class] = slices.Delete(o.lists[class], i, i+1)
	o.bytes -= e.bytes
	return e
}
