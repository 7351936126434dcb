package devicetest

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// specMistakes says which fields of a Spec are wrong, on a device that was opened with a
// budget in bytes.
func specMistakes(s device.Spec, budget int64) (all []string) {
	check := func(ok bool, field, want string, is any) {
		if !ok {
			all = append(all, fmt.Sprintf("%s is %v: give %s", field, is, want))
		}
	}
	check(s.MemoryBytes == budget, "MemoryBytes", fmt.Sprintf("the budget, %d", budget), s.MemoryBytes)
	check(s.Threads > 0, "Threads", "at least 1", s.Threads)
	check(s.FlopsPerSecond > 0, "FlopsPerSecond", "an estimate above 0", s.FlopsPerSecond)
	check(s.LinkBytesPerS > 0, "LinkBytesPerS", "an estimate above 0", s.LinkBytesPerS)
	check(s.Description != "", "Description", "a text for trainer devices", "empty")
	return all
}

func testSpec(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Count: 2, Threads: 3, MemoryBytes: 1 << 20}, func(r *rig) {
		threads := 0
		for i, d := range append([]device.Device{r.d}, r.others...) {
			s := d.Spec()
			if want := device.ID(fmt.Sprintf("%s:%d", s.Kind, i)); s.ID != want || d.ID() != want {
				t.Errorf("device %d is %q, %q, expected %q", i, s.ID, d.ID(), want)
			}
			for _, mistake := range specMistakes(s, 1<<20) {
				t.Errorf("Spec of %s: %s", s.ID, mistake)
			}
			threads += s.Threads
		}
		if threads > 3 {
			t.Errorf("%d threads in all, at most 3 were allowed", threads)
		}
	})
	each := []device.Share{{Threads: 2, MemoryBytes: 1 << 20}, {}, {MemoryBytes: 1 << 18}}
	with(t, open, device.OpenOptions{Count: 3, Threads: 5, MemoryBytes: 1 << 19, Each: each}, func(r *rig) {
		for i, memory := range []int64{1 << 20, 1 << 19, 1 << 18} {
			if s := append([]device.Device{r.d}, r.others...)[i].Spec(); s.MemoryBytes != memory {
				t.Errorf("device %d has %d bytes, expected %d", i, s.MemoryBytes, memory)
			}
		}
	})
	with(t, open, device.OpenOptions{Count: 2, Prefix: "7/"}, func(r *rig) {
		if s := r.others[0].Spec(); s.ID != device.ID("7/"+s.Kind+":1") || r.others[0].ID() != s.ID {
			t.Errorf("the second device with the prefix 7/ is %s", s.ID)
		}
	})
	with(t, open, device.OpenOptions{Count: 3, Threads: 1}, func(r *rig) {
		for _, d := range append([]device.Device{r.d}, r.others...) {
			if d.Spec().Threads != 1 {
				t.Errorf("%s has %d threads, expected 1", d.ID(), d.Spec().Threads)
			}
		}
	})
}

func testMemory(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		b, err := r.s.Alloc(shape.F32(3, 5), device.Weight)
		r.ok(err)
		if b.Device() != r.d.ID() || !b.Meta().Equal(shape.F32(3, 5)) || b.Usage() != device.Weight {
			t.Errorf("buffer on %v is %v for %v", b.Device(), b.Meta(), b.Usage())
		}
		c, err := r.s.Alloc(shape.I32(17), device.Input)
		r.ok(err)
		s := r.d.Stats()
		if s.Live != 64+128 || s.LiveBy[device.Weight] != 64 || s.LiveBy[device.Input] != 128 || s.Allocs != 2 {
			t.Errorf("stats %+v", s)
		}
		r.drop(b)
		r.fails(b.Free(), device.ErrDeleted)
		again := r.alloc(shape.F32(3, 5)) // takes b's place
		r.fails(b.Free(), device.ErrDeleted)
		h := r.host(60)
		r.fails(r.s.CopyIn(b, h), device.ErrDeleted)
		r.ok(h.Free())
		r.drop(again, c)
		s = r.d.Stats()
		if s.Live != 0 || s.Peak != 192 || s.PeakBy[device.Weight] != 64 || s.PeakBy[device.Activation] != 64 {
			t.Errorf("stats %+v", s)
		}
		for _, m := range []shape.Meta{shape.F32(-1), {}} {
			if _, err := r.s.Alloc(m, device.Weight); err == nil {
				t.Errorf("%v was allocated", m)
			}
		}
		h = r.host(100)
		if len(h.Bytes()) != 100 {
			t.Errorf("host buffer has %d bytes, expected 100", len(h.Bytes()))
		}
		r.ok(h.Free())
		r.fails(h.Free(), device.ErrDeleted)
	})
}

func testOutOfMemory(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{MemoryBytes: 4096}, func(r *rig) {
		a := r.alloc(shape.F32(1000)) // 4032 bytes
		_, err := r.s.Alloc(shape.F32(100), device.Grad)
		r.fails(err, device.ErrOutOfMemory, string(r.d.ID()), "448 B", "3.9 KiB", "64 B", "4.0 KiB", "grad")
		r.drop(r.alloc(shape.F32(16))) // exactly what is left
		r.drop(a)
		r.drop(r.alloc(shape.F32(1024)))
		if s := r.d.Stats(); s.Peak > 4096 {
			t.Errorf("peak of %d bytes is over the budget", s.Peak)
		}
	})
}

// testPieces frees every other buffer of a full device: what is free then lies
// in pieces, of which each can be had, and no larger one. In the end all is one
// piece again.
func testPieces(t *testing.T, open Opener) {
	const budget = 1 << 20
	with(t, open, device.OpenOptions{MemoryBytes: budget}, func(r *rig) {
		for _, size := range []int{1 << 10, 3 << 10, 1 << 14, 1 << 18, 1 << 9} {
			var bs []device.Buffer
			for range budget / size {
				bs = append(bs, r.alloc(shape.F32(size/4)))
			}
			r.drop(r.fill(shape.F32(16))...)
			for i := 0; i < len(bs); i += 2 {
				r.drop(bs[i])
			}
			_, err := r.s.Alloc(shape.F32(size/2), device.Activation)
			r.fails(err, device.ErrOutOfMemory)
			for i := 0; i < len(bs); i += 2 {
				bs[i] = r.alloc(shape.F32(size / 4))
			}
			r.drop(bs...)
		}
		whole := r.upload(make([]float32, budget/4), budget/4)
		r.expect(whole, make([]float32, budget/4)...)
		r.drop(whole)
	})
}

// fill allocates until the device is full.
func (r *rig) fill(m shape.Meta) (bs []device.Buffer) {
	r.t.Helper()
	for {
		b, err := r.s.Alloc(m, device.Activation)
		if err != nil {
			r.fails(err, device.ErrOutOfMemory)
			return bs
		}
		bs = append(bs, b)
	}
}

func testLeaks(t *testing.T, open Opener) {
	r := &rig{t: t, d: open(t, device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})[0]}
	r.s = r.stream("forgotten")
	r.upload(make([]float32, 6), 2, 3)
	r.copies.Wait()
	h := r.host(10)
	err := r.d.Close()
	r.fails(err, nil, string(r.d.ID()), "activation f32[2,3]", `"forgotten"`, "10 bytes")
	r.fails(h.Free(), device.ErrDeleted)
}

func testClosed(t *testing.T, open Opener) {
	r := &rig{t: t, d: open(t, device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})[0]}
	s := r.stream("main")
	r.ok(s.Close())
	r.fails(s.Close(), device.ErrClosed)
	r.fails(s.WaitFor(device.Event{}), device.ErrClosed)
	g := affine(t, 4)
	x := r.compile(g, device.CompileOptions{})
	_, err := s.Launch(x, nil, nil, nil)
	r.fails(err, device.ErrClosed)
	r.ok(r.d.Close())
	r.fails(r.d.Close(), device.ErrClosed)
	_, err = s.Alloc(shape.F32(1), device.Weight)
	r.fails(err, device.ErrClosed)
	_, err = r.d.AllocHost(1)
	r.fails(err, device.ErrClosed)
	_, err = r.d.NewStream("late")
	r.fails(err, device.ErrClosed)
	_, err = r.d.Compile(g, device.CompileOptions{})
	r.fails(err, device.ErrClosed)
	_, err = r.d.Estimate(g, device.CompileOptions{})
	r.fails(err, device.ErrClosed)
}
