package devicetest

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// testDelayWrite: a launch waits for the event before it overwrites the buffer in
// place. The launch succeeds even if the event fails.
func testDelayWrite(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		s, ok := r.s.(device.Delayer)
		if !ok {
			return
		}
		x := r.compile(affine(t, 2), device.CompileOptions{Alias: []int{0}})
		w := r.upload([]float32{3, 4}, 2)
		for i, failure := range []error{nil, errGate} {
			before := r.s.Busy()
			g := newGate()
			s.DelayWrite(w, g.event())
			e := r.launch(x, []device.Buffer{w}, []device.Buffer{w})
			const delay = 20 * time.Millisecond
			time.Sleep(delay)
			if e.Done() {
				t.Error("a launch did not wait for what it overwrites")
			}
			g.open(failure)
			r.ok(r.wait(e))
			if !r.computes() {
				break
			}
			r.expect(w, [][]float32{{7, 9}, {15, 19}}[i]...)
			if busy := r.s.Busy() - before; busy >= int64(delay) {
				t.Errorf("busy for %v: waiting is counted", time.Duration(busy))
			}
		}
		if r.computes() {
			testDelayBeforeLaunch(r, w)
		}
		r.drop(w)
	})
}

// testDelayBeforeLaunch: a launch that does not overwrite the buffer in place waits
// for the event before it begins. So does every launch once other streams launch
// too, since theirs may have to go first.
func testDelayBeforeLaunch(r *rig, w device.Buffer) {
	s := r.s.(device.Delayer)
	plain := r.compile(affine(r.t, 2), device.CompileOptions{})
	inPlace := r.compile(affine(r.t, 2), device.CompileOptions{Alias: []int{0}})
	out := r.alloc(shape.F32(2))
	g := newGate()
	s.DelayWrite(out, g.event())
	e := r.launch(plain, []device.Buffer{w}, []device.Buffer{out})
	time.Sleep(time.Millisecond)
	if e.Done() {
		r.t.Error("a launch did not wait for the buffer of its output")
	}
	g.open(errors.New("the copy before it failed"))
	r.ok(r.wait(e)) // all the same
	r.expect(out, 31, 39)
	other := r.stream("other")
	g = newGate()
	r.ok(other.WaitFor(g.event()))
	first, err := r.queue(other, plain, []device.Buffer{w}, []device.Buffer{out})
	r.ok(err)
	s.DelayWrite(w, first)
	e = r.launch(inPlace, []device.Buffer{w}, []device.Buffer{w})
	g.open(nil)
	r.ok(r.wait(e))
	r.expect(out, 31, 39)
	r.expect(w, 31, 39)
	r.drop(out)
	r.ok(other.Close())
}
