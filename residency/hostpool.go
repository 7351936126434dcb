package residency

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// Host memory of spills is kept for the next ones: a step spills the same sizes
// as the step before, so that in the long run no page is mapped. Memory is given
// to a copy-out as soon as it was dropped, in order of submission; copyOut then waits
// for its last uses. Memory that no step has taken for long is freed.

// leastKept is the least number of calls of Acquire for which memory is kept.
const leastKept = 64

// keep sets for how long memory is kept: for two steps of so many launches.
func (x *hostMemory) keep(launches int) { x.kept = max(leastKept, uint64(2*launches)) }

// expire frees the memory that was not taken for that long. clock counts the calls
// of Acquire.
func (x *hostMemory) expire(clock uint64) {
	x.clock = clock
	old := 0
	for old < len(x.idle) && clock-x.idle[old].since > x.kept {
		h := x.idle[old]
		h.dev = nil // no spill takes it any more
		x.dropped = append(x.dropped, h)
		old++
	}
	if old > 0 {
		x.idle = slices.Delete(x.idle, 0, old)
		x.sweep()
	}
}

// rest keeps memory that no tensor has any more.
func (x *hostMemory) rest(h *hostMem) {
	h.since = x.clock
	x.idle = append(x.idle, h)
}

// idleBytes is the memory that is kept.
func (x *hostMemory) idleBytes() (bytes int64) {
	for _, h := range x.idle {
		bytes += h.bytes
	}
	return bytes
}

// allocSpill gets memory for a copy-out from dev: that of an earlier spill of the
// same size, if there is one that nothing uses or else the one dropped longest ago.
func (x *hostMemory) allocSpill(dev device.Device, bytes int64, name string) (*hostMem, error) {
	at := -1
	for i, h := range x.idle {
		if h.bytes != bytes || h.dev != dev {
			continue
		}
		if at < 0 {
			at = i
		}
		if h.uses.Done() {
			at = i
			break
		}
	}
	if at < 0 {
		h, err := x.alloc(dev, bytes, name)
		if err == nil && h.counted {
			h.dev = dev
		}
		return h, err
	}
	h := x.idle[at]
	x.idle = append(x.idle[:at], x.idle[at+1:]...)
	h.version, h.ready, h.causes = 0, device.Event{}, h.causes[:0]
	return h, nil
}

// spills reports whether h is memory that allocSpill gives out again.
func (h *hostMem) spills() bool { return h.dev != nil }

// trim frees the memory kept for spills that nothing uses, the oldest first, until
// so many bytes more are within the bound.
func (x *hostMemory) trim(bytes int64) {
	kept := x.idle[:0]
	for _, h := range x.idle {
		if x.used+bytes <= x.most || !h.uses.Done() {
			kept = append(kept, h)
			continue
		}
		x.free(h)
	}
	clear(x.idle[len(kept):])
	x.idle = kept
}
