package devicetest

import (
	"context"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// This file frees memory while queued work still uses it, on devices that have
// no other, so that whoever comes next gets that memory.

// testFreeInFlight: a taker's work waits for the uses before it, and the memory
// counts as free at once.
func testFreeInFlight(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{MemoryBytes: 3 * 256}, func(r *rig) {
		x := r.compile(affine(t, 64), device.CompileOptions{})
		a, b, c := r.upload(make([]float32, 64), 64), r.alloc(shape.F32(64)), r.alloc(shape.F32(64))
		g := newGate()
		r.ok(r.s.WaitFor(g.event()))
		r.launch(x, []device.Buffer{a}, []device.Buffer{b})
		r.launch(x, []device.Buffer{b}, []device.Buffer{c})
		last := r.s.Record()
		r.ok(a.Free(last))
		r.ok(b.Free(last))
		r.fails(a.Free(), device.ErrDeleted)
		_, err := r.s.Launch(x, []device.Buffer{a}, []device.Buffer{c}, nil)
		r.fails(err, device.ErrDeleted)
		if live := r.d.Stats().LiveBy[device.Activation]; live != 256 {
			t.Errorf("%d bytes are live, expected %d", live, 256)
		}
		other := r.stream("other")
		d := r.allocOn(other, shape.F32(64))
		h := r.host(256)
		clear(h.Bytes())
		r.ok(other.CopyIn(d, h))
		r.ok(h.Free()) // in flight: the device keeps it until the copy has ended
		time.Sleep(5 * time.Millisecond)
		if d.Ready().Done() {
			t.Error("a copy did not wait for the uses of its memory")
		}
		g.open(nil)
		r.ok(r.s.WaitFor(d.Ready()))
		r.expect(d, make([]float32, 64)...)
		r.expect(c, repeat(3, 64)...)
		r.sync(r.s)
		r.drop(c, d)
		r.ok(other.Close())
	})
}

// testFreeUnused: a buffer that is freed without a use leaves the wait for the
// uses before it to the next taker.
func testFreeUnused(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{MemoryBytes: 256}, func(r *rig) {
		a := r.upload(repeat(1, 64), 64)
		g := newGate()
		r.ok(r.s.WaitFor(g.event()))
		h := r.host(256)
		if r.computes() {
			_, err := r.s.CopyOut(h, a)
			r.ok(err)
		}
		r.drop(a)
		other, third := r.stream("other"), r.stream("third")
		b := r.allocOn(unwrap(other), shape.F32(64))
		r.ok(b.Free())
		c := r.allocOn(third, shape.F32(64))
		time.Sleep(5 * time.Millisecond)
		if third.Record().Done() {
			t.Error("a stream did not wait for the uses of memory that another had taken and freed")
		}
		g.open(nil)
		r.sync(third)
		if r.computes() && shape.View[float32](h.Bytes())[63] != 1 {
			t.Error("memory was overwritten while it was copied out")
		}
		r.drop(c)
		r.ok(h.Free())
		r.ok(other.Close())
		r.ok(third.Close())
	})
}

// testFailedUse: the failure of a use is not the next taker's.
func testFailedUse(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{MemoryBytes: 256}, func(r *rig) {
		s := r.stream("fails")
		a := r.allocOn(s, shape.F32(64))
		g := newGate()
		r.ok(s.WaitFor(g.event()))
		h := r.host(256)
		clear(h.Bytes())
		r.ok(s.CopyIn(a, h))
		r.ok(a.Free(s.Record()))
		b := r.alloc(shape.F32(64))
		g.open(errGate)
		r.put(b, repeat(2, 64))
		r.expect(b, repeat(2, 64)...)
		r.sync(r.s)
		r.drop(b)
		r.ok(h.Free())
		r.fails(s.Close(), errGate) // waiting for the memory was no report
	})
}

// testWaitForEnd: a stream that waits for an end goes on after it, and not before,
// also if it was a failure.
func testWaitForEnd(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		for _, failure := range []error{nil, errGate} {
			s, g := r.stream("goes on"), newGate()
			r.ok(s.WaitForEnd(device.Event{}))
			r.ok(s.WaitForEnd(g.event()))
			end := s.Record()
			time.Sleep(5 * time.Millisecond)
			if end.Done() {
				t.Error("a stream has not waited")
			}
			g.open(failure)
			r.ok(end.Wait(context.Background()))
			r.ok(s.WaitForEnd(g.event()))
			r.ok(s.Close())
			r.fails(s.WaitForEnd(g.event()), device.ErrClosed)
		}
	})
}

// testSkippedInOrder: what a failed stream skips does not end before the events
// that it was to wait for.
func testSkippedInOrder(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		x := r.compile(affine(t, 2), device.CompileOptions{Alias: []int{0}})
		a, b := r.upload([]float32{1, 2}, 2), r.upload([]float32{3, 4}, 2)
		r.sync(r.s)
		s := r.stream("fails")
		failing, waited, delayed := newGate(), newGate(), newGate()
		r.ok(s.WaitFor(failing.event()))
		failing.open(errGate)
		r.ok(s.WaitFor(waited.event()))
		first, err := r.queue(s, x, []device.Buffer{a}, []device.Buffer{a})
		r.ok(err)
		if d, ok := s.(device.Delayer); ok {
			d.DelayWrite(b, delayed.event())
		} else {
			r.ok(s.WaitFor(delayed.event()))
		}
		second, err := r.queue(s, x, []device.Buffer{b}, []device.Buffer{b})
		r.ok(err)
		for _, c := range []struct {
			e device.Event
			g *gate
		}{{first, waited}, {second, delayed}} {
			time.Sleep(5 * time.Millisecond)
			if c.e.Done() {
				t.Error("a skipped launch has ended before what it was to wait for")
			}
			c.g.open(nil)
			r.fails(r.wait(c.e), errGate)
		}
		r.expect(a, 1, 2)
		r.expect(b, 3, 4)
		r.ok(s.Close())
		r.drop(a, b)
	})
}

// testPassed: of two free ranges, a copy takes the one whose uses the caller has
// waited for, and need not wait for the other's.
func testPassed(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{MemoryBytes: 3 * 256}, func(r *rig) {
		a, b, c := r.upload(repeat(1, 64), 64), r.upload(repeat(2, 64), 64), r.alloc(shape.F32(64))
		copies := r.stream("copies")
		done := r.s.Record()
		r.ok(b.Free(done))
		r.ok(r.wait(done))
		r.d.Passed(done)
		g := newGate()
		r.ok(r.s.WaitFor(g.event()))
		r.ok(a.Free(r.s.Record()))
		d := r.allocOn(copies, shape.F32(64))
		r.sync(copies) // does not end if it waits for the gate
		g.open(nil)
		r.drop(c, d)
		r.ok(copies.Close())
	})
}

// repeat is n times v.
func repeat(v float32, n int) []float32 {
	data := make([]float32, n)
	for i := range data {
		data[i] = v
	}
	return data
}

// unwrap is the stream below the poison.
func unwrap(s device.Stream) device.Stream { return s.(*poisonedStream).Stream }
