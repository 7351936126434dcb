package residency

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// keepTicks is the number of ledger ticks after which a pooled buffer is deleted.
// A tick is a step, or a boundary between phases of the work.
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
	most  int64  // bound on bytes: the most bytes in use when a buffer was allocated
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

// add pools a buffer together with the events of its former uses.
func (o *pool) add(class int, b device.Buffer, bytes int64, uses fence) {
	o.turn++
	l := &o.lists[class]
	*l = append(*l, pooled{b, bytes, uses, o.turn, o.tick})
	o.bytes += bytes
}

// grow raises the bound of the pool to the bytes in use: others, plus the pooled
// buffers that queued work still uses.
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

// find chooses a buffer of a class for the queue writer, which may be nil, and
// returns its index. First choice is the newest buffer whose uses have ended or
// come earlier in the same queue. If there is none and wait is set, it is the
// oldest buffer of the class. Otherwise find returns -1.
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

// oldest finds the buffer pooled longest ago; class is -1 if there is none. With
// idle, it considers only buffers that no queued work uses.
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
