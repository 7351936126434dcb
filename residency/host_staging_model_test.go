package residency_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestStagingModel updates tensors in place, several in a launch, on several
// devices between which they move, and takes snapshots of any of them at any
// time, while copies to the host are slow. Each snapshot has the contents
// of its tensor when it was queued, and the tensors have those of all updates.
func TestStagingModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newStageWorld(rt, rapid.IntRange(1, 3).Draw(rt, "devices"), rapid.IntRange(1, 6).Draw(rt, "tensors"))
		defer w.close()
		rt.Repeat(map[string]func(*rapid.T){
			"update":  w.update,
			"queue":   w.queue,
			"look":    w.look,
			"reserve": w.reserve,
			"free":    w.free,
		})
		for i := range w.tensors {
			w.compare(rt, i)
			w.fail(w.stage.Queue(w.ctx, ledger.Checkpoint, i))
			w.staged[i] = w.holds[i]
			w.compare(rt, i)
		}
	})
}

// stagingWorld is the devices and tensors of one check, and the model: the expected
// contents of each tensor and of each snapshot.
type stagingWorld struct {
	ctx     context.Context
	m       *residency.Tenant
	devs    []device.Device
	streams []device.Stream
	exes    map[string]device.Executable
	tensors []*residency.Tensor
	stage   *residency.Staging
	holds   [][]float32
	staged  [][]float32 // nil: nothing is
	fail    func(error)
}

// sizeOf is how many numbers tensor i has.
func sizeOf(i int) int { return 1 + 7*i }

func newStageWorld(rt *rapid.T, devices, tensors int) *stagingWorld {
	w := &stagingWorld{ctx: context.Background(), exes: map[string]device.Executable{}}
	w.fail = func(err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	pause := time.Duration(rapid.IntRange(0, 300).Draw(rt, "microseconds a copy takes")) * time.Microsecond
	var err error
	w.devs, err = device.Open("cpu", device.OpenOptions{Count: devices, Threads: 1, MemoryBytes: 1 << 20, OnSpan: func(s device.Span) {
		if s.What == "copy-out" {
			time.Sleep(pause)
		}
	}})
	w.fail(err)
	o := residency.ManagerOptions{HostBytes: rapid.SampledFrom([]int64{0, 1, 64, 4096}).Draw(rt, "host bytes"), SpillDir: os.TempDir()}
	w.m, err = residency.Open(w.devs, o, residency.TenantOptions{})
	w.fail(err)
	for _, d := range w.devs {
		s, err := d.NewStream("compute")
		w.fail(err)
		w.streams = append(w.streams, s)
	}
	for i := range tensors {
		x, err := w.m.Declare(residency.Key{Value: fmt.Sprint("t", i)}, shape.F32(sizeOf(i)), device.Weight)
		w.fail(err)
		v := make([]float32, sizeOf(i))
		for k := range v {
			v[k] = float32(10*i + k)
		}
		w.fail(w.m.Fill(x, shape.Bytes(v)))
		w.tensors, w.holds = append(w.tensors, x), append(w.holds, v)
	}
	w.staged = make([][]float32, tensors)
	w.stage = w.m.NewStaging(w.tensors...)
	return w
}

// step is x := x/2+1 of some tensors, in place.
func (w *stagingWorld) step(dev int, which []int) device.Executable {
	key := fmt.Sprint(dev, which)
	if x := w.exes[key]; x != nil {
		return x
	}
	b, alias := graph.NewBuilder("step", 1), []int{}
	for k, i := range which {
		v := b.Input(fmt.Sprint("t", i), shape.F32(sizeOf(i)))
		b.Output(fmt.Sprint("u", i), b.One(ops.Affine{Scale: 0.5, Shift: 1}, v))
		alias = append(alias, k)
	}
	g, err := b.Graph()
	w.fail(err)
	x, err := w.devs[dev].Compile(g, device.CompileOptions{Alias: alias})
	w.fail(err)
	w.exes[key] = x
	return x
}

func (w *stagingWorld) some(rt *rapid.T) []int {
	all := rapid.SliceOfNDistinct(rapid.IntRange(0, len(w.tensors)-1), 1, -1, rapid.ID[int]).Draw(rt, "which")
	slices.Sort(all)
	return all
}

// update queues a step, and does not wait for it.
func (w *stagingWorld) update(rt *rapid.T) {
	dev, which := rapid.IntRange(0, len(w.devs)-1).Draw(rt, "device"), w.some(rt)
	var needs []residency.Need
	for _, i := range which {
		needs = append(needs, residency.Need{Tensor: w.tensors[i], Device: dev, Mode: residency.ReadWrite})
	}
	x := w.step(dev, which)
	var l residency.Lease
	w.fail(w.m.Acquire(w.ctx, w.streams[dev], needs, x.Memory().Temporary, &l))
	done, err := w.streams[dev].Launch(x, l.Buffers, l.Buffers, l.Scratch)
	w.fail(err)
	w.fail(w.m.Release(&l, done))
	for _, i := range which {
		v := slices.Clone(w.holds[i])
		for k := range v {
			v[k] = v[k]*0.5 + 1
		}
		w.holds[i] = v
	}
}

func (w *stagingWorld) queue(rt *rapid.T) {
	for _, i := range w.some(rt) {
		w.fail(w.stage.Queue(w.ctx, ledger.Checkpoint, i))
		w.staged[i] = w.holds[i]
	}
}

// look waits for a snapshot and compares it.
func (w *stagingWorld) look(rt *rapid.T) { w.compare(rt, w.some(rt)[0]) }

func (w *stagingWorld) compare(rt *rapid.T, i int) {
	if w.staged[i] == nil {
		return
	}
	w.fail(w.stage.Wait(w.ctx, i))
	if got := shape.View[float32](w.stage.Bytes(i)); !slices.Equal(got, w.staged[i]) {
		rt.Fatalf("the snapshot of tensor %d has %v, want %v", i, got, w.staged[i])
	}
}

func (w *stagingWorld) reserve(*rapid.T) { w.fail(w.stage.Reserve(context.Background())) }

func (w *stagingWorld) free(rt *rapid.T) {
	for _, i := range w.some(rt) { // also while its copy is under way
		w.stage.Free(i)
		w.staged[i] = nil
	}
}

func (w *stagingWorld) close() {
	w.stage.Close()
	for _, s := range w.streams {
		w.fail(s.Close())
	}
	w.fail(w.m.Close())
	for _, d := range w.devs {
		w.fail(d.Close())
	}
}
