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
		want := []float32{3, 4}
		for _, failure := range []error{nil, errGate} {
			r.waitingIsFree(func(held time.Duration) (busy int64) {
				before := r.s.Busy()
				g := newGate()
				s.DelayWrite(w, g.event())
				e := r.launch(x, []device.Buffer{w}, []device.Buffer{w})
				time.Sleep(held)
				if e.Done() {
					t.Error("a launch did not wait for what it overwrites")
				}
				g.open(failure)
				r.ok(r.wait(e))
				if r.computes() {
					want = []float32{2*want[0] + 1, 2*want[1] + 1}
					r.expect(w, want...)
				}
				return r.s.Busy() - before
			})
			if !r.computes() {
				break
			}
		}
		if r.computes() {
			testDelayBeforeLaunch(r, w, want)
		}
		r.drop(w)
	})
}

// testDelayBeforeLaunch: a launch that does not overwrite the buffer in place waits
// for the event before it begins. So does every launch once other streams launch
// too, since theirs may have to go first. The buffer has the held numbers.
func testDelayBeforeLaunch(r *rig, w device.Buffer, held []float32) {
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
	r.expect(out, 2*held[0]+1, 2*held[1]+1)
	other := r.stream("other")
	g = newGate()
	r.ok(other.WaitFor(g.event()))
	first, err := r.queue(other, plain, []device.Buffer{w}, []device.Buffer{out})
	r.ok(err)
	s.DelayWrite(w, first)
	e = r.launch(inPlace, []device.Buffer{w}, []device.Buffer{w})
	g.open(nil)
	r.ok(r.wait(e))
	r.expect(out, 2*held[0]+1, 2*held[1]+1)
	r.expect(w, 2*held[0]+1, 2*held[1]+1)
	r.drop(out)
	r.ok(other.Close())
}
