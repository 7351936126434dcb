package devicetest

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// testRepeat: copies out of a stream that failed are repeated on another, once
// each, also from buffers that were freed since, until the stream is closed.
func testRepeat(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		other := r.stream("other")
		if _, err := other.Repeat(other.Record()); err == nil {
			t.Error("an event without a copy was repeated")
		}
		if !r.computes() {
			r.ok(other.Close())
			return
		}
		a, b := r.upload([]float32{1, 2}, 2), r.upload([]float32{3, 4}, 2)
		r.sync(r.s)
		s, g := r.stream("fails"), newGate()
		well, failed, skipped, last := r.copyOut(s, a), r.failOut(s, g, a), r.copyOut(s, b), r.copyOut(s, b)
		free := newGate()
		r.ok(a.Free(free.event()))
		g.open(errGate)
		r.fails(r.wait(last.done), errGate)
		for _, c := range []copied{failed, skipped} {
			done, err := other.Repeat(c.done)
			r.ok(err)
			r.ok(r.wait(done))
			_, err = other.Repeat(c.done)
			r.fails(err, nil)
		}
		free.open(nil)
		r.ok(s.Close())
		for _, c := range []copied{well, last} {
			_, err := other.Repeat(c.done)
			r.fails(err, nil)
		}
		for c, want := range map[copied]float32{well: 1, failed: 1, skipped: 3} {
			if got := shape.View[float32](c.to.Bytes())[0]; got != want {
				t.Errorf("copied %v, expected %v", got, want)
			}
		}
		for _, c := range []copied{well, failed, skipped, last} {
			r.ok(c.to.Free())
		}
		r.drop(b)
		r.ok(other.Close())
	})
}

// testRepeatIn: copies to the device, and from another one, are repeated likewise. A copy
// from another device waits for the end of its source, and not for its success. A write
// that was queued before the copy is repeated stays the last one.
func testRepeatIn(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Count: 2}, func(r *rig) {
		here, there := r.alloc(shape.F32(2)), r.allocOn(r.theirs[0], shape.F32(2))
		r.sync(r.s)
		r.sync(r.theirs[0])
		h := r.host(8)
		copy(shape.View[float32](h.Bytes()), []float32{5, 6})
		in, peer, g := r.stream("fails"), r.streamOn(r.others[0], "peer"), newGate()
		other, otherPeer := r.stream("other"), r.streamOn(r.others[0], "other")
		r.ok(in.WaitFor(g.event()))
		r.ok(in.CopyIn(here, h))
		first := in.Record()
		if r.d.Spec().PeerCopy {
			r.ok(peer.CopyPeer(there, here))
		}
		carried := peer.Record()
		g.open(errGate)
		r.fails(r.wait(first), errGate)
		r.ok(r.wait(carried)) // it waited for its source alone
		done, err := other.Repeat(first)
		r.ok(err)
		if got := here.Ready(); got != done {
			t.Errorf("a buffer is ready at %v, but the copy into it was repeated until %v", got, done)
		}
		r.ok(r.wait(done))
		r.expect(here, 5, 6)
		behind, last := r.stream("behind"), r.stream("last")
		r.ok(behind.WaitFor(g.event()))
		r.ok(behind.CopyIn(here, h))
		second := behind.Record()
		r.fails(r.wait(second), errGate)
		later := newGate()
		r.ok(last.WaitFor(later.event()))
		r.ok(last.CopyIn(here, h))
		done, err = other.Repeat(second)
		r.ok(err)
		if got := here.Ready(); got != last.Record() {
			t.Errorf("a buffer is ready at %v, but a copy into it that was queued before one was repeated ends at %v", got, last.Record())
		}
		r.ok(r.wait(done))
		later.open(nil)
		r.ok(r.wait(here.Ready()))
		if r.d.Spec().PeerCopy {
			broken := r.streamOn(r.others[0], "fails")
			r.ok(broken.WaitFor(g.event()))
			r.ok(broken.CopyPeer(there, here))
			r.fails(r.wait(broken.Record()), errGate)
			done, err := otherPeer.Repeat(broken.Record())
			r.ok(err)
			r.ok(r.wait(done))
			if _, err := other.Repeat(broken.Record()); err == nil {
				t.Error("a copy was repeated on another device")
			}
			r.ok(broken.Close())
			r.ok(r.s.CopyPeer(here, there))
			r.expect(here, 5, 6)
		}
		r.ok(h.Free())
		r.ok(here.Free(r.s.Record(), other.Record(), last.Record()))
		r.ok(there.Free(peer.Record(), otherPeer.Record()))
		for _, s := range []device.Stream{in, behind, last, peer, other, otherPeer} {
			r.ok(s.Close())
		}
	})
}

// copied is a copy to the host.
type copied struct {
	to   device.HostBuffer
	done device.Event
}

// copyOut queues a copy to new host memory.
func (r *rig) copyOut(s device.Stream, b device.Buffer) copied {
	r.t.Helper()
	h := r.host(b.Meta().Bytes())
	clear(h.Bytes())
	done, err := s.CopyOut(h, b)
	r.ok(err)
	return copied{h, done}
}

// failOut is copyOut behind a gate.
func (r *rig) failOut(s device.Stream, g *gate, b device.Buffer) copied {
	r.t.Helper()
	r.ok(s.WaitFor(g.event()))
	return r.copyOut(s, b)
}
