package cl

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// rig runs the kernels of many nodes, which are one program, over one image of a
// device's memory.
type rig struct {
	t       *testing.T
	library *library
	lane    *lane
	arg     []uint64 // on the heap, for calls
	size    []uintptr
}

func newRig(t *testing.T) *rig {
	t.Helper()
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	r := &rig{t: t, arg: make([]uint64, 1), size: make([]uintptr, 2)}
	c, err := openContext(list[0])
	r.ok(err)
	r.lane, err = c.lane()
	r.ok(err)
	r.library, err = newLibrary(c)
	r.ok(err)
	t.Cleanup(func() { r.ok(errors.Join(r.library.close(), c.close())) })
	return r
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// buffer is memory of the device.
func (r *rig) buffer(size int) uintptr {
	r.t.Helper()
	m, err := r.lane.create(createBuffer, r.library.context.handle, readWrite, uintptr(size), 0)
	r.ok(err)
	return m
}

func (r *rig) copy(f function, object uintptr, b []byte) {
	r.t.Helper()
	r.ok(r.lane.call(f, r.lane.queue, object, 1, 0, uintptr(len(b)), at(r.lane.caller, &b[0]), 0, 0, 0))
}

func (r *rig) setStatus(v int32) {
	r.t.Helper()
	word := []int32{v}
	r.copy(enqueueWriteBuffer, r.library.status, shape.Bytes(word))
}

func (r *rig) status() int32 {
	r.t.Helper()
	word := []int32{0}
	r.copy(enqueueReadBuffer, r.library.status, shape.Bytes(word))
	return word[0]
}

// trial is one run of a node's kernels.
type trial struct {
	kernelstest.Sample
	node    *graph.Node
	calls   []gen.Call
	want    []ref.Array
	alias   []int  // per output: the input whose memory it takes, or -1
	plain   *trial // the one of the same sample in which nothing is in place; nil if this is it
	bytes   int64  // of scratch
	in, out []int  // offsets in the image
	scratch int
}

// guard is the bytes between the ranges of an image.
const guard = 64

var guardBytes = bytes.Repeat([]byte{0xa5}, guard)

// lay gives a trial ranges behind an image: inputs, outputs filled with 0xff, scratch.
func (x *trial) lay(image []byte) []byte {
	add := func(b []byte) int {
		image = append(image, make([]byte, -len(image)&63)...)
		image = append(image, guardBytes...)
		at := len(image)
		image = append(append(image, b...), guardBytes...)
		return at
	}
	for _, a := range x.In {
		x.in = append(x.in, add(kernelstest.Load(a).Mem))
	}
	for i, v := range x.node.Out {
		if x.alias[i] >= 0 {
			x.out = append(x.out, x.in[x.alias[i]])
			continue
		}
		x.out = append(x.out, add(bytes.Repeat([]byte{0xff}, int(v.Meta.Bytes()))))
	}
	x.scratch = add(bytes.Repeat([]byte{0xff}, int(x.bytes)))
	return image
}

// run runs the kernels of trials in groups of that many lanes, over a copy of the image,
// and gives what the image is then.
func (r *rig) run(trials []*trial, image []byte, group int) []byte {
	r.t.Helper()
	m := r.buffer(len(image))
	defer func() { r.ok(r.lane.call(releaseMemObject, m)) }()
	r.copy(enqueueWriteBuffer, m, image)
	for n, x := range trials {
		for i := range x.calls {
			r.enqueue(x, &x.calls[i], m, n+1, group)
		}
	}
	after := make([]byte, len(image))
	r.copy(enqueueReadBuffer, m, after)
	return after
}

func (r *rig) enqueue(x *trial, c *gen.Call, m uintptr, site, group int) {
	r.t.Helper()
	k := r.library.kernel(c.Name).handle
	if c.Copy && x.in[c.Args[0].Index] == x.out[c.Args[1].Index] {
		return
	}
	set := func(i int, v uint64) {
		r.arg[0] = v
		r.ok(r.lane.call(setKernelArg, k, uintptr(i), 8, at(r.lane.caller, &r.arg[0])))
	}
	set(0, uint64(m))
	set(1, uint64(r.library.status))
	for i, a := range c.Args {
		v := a.Value
		switch a.Role {
		case gen.In:
			v += int64(x.in[a.Index])
		case gen.Out:
			v += int64(x.out[a.Index])
		case gen.Scratch:
			v += int64(x.scratch)
		case gen.Site:
			v = int64(site)
		}
		set(i+2, uint64(v))
	}
	lanes, group := c.Lanes(group)
	r.size[0], r.size[1] = uintptr(lanes), uintptr(group)
	if err := r.lane.call(enqueueNDRangeKernel, r.lane.queue, k, 1, 0, at(r.lane.caller, &r.size[0]), at(r.lane.caller, &r.size[1]), 0, 0, 0); err != nil {
		r.t.Fatalf("%v: %v", x.node, err)
	}
}

// check compares the outputs of a trial with the reference.
func (x *trial) check(after []byte) error {
	for i, w := range x.want {
		if err := compare(after[x.out[i]:], w, x.Tol); err != nil {
			return fmt.Errorf("%v %v: output %d: %w", x.node, graph.Metas(x.node.In), i, err)
		}
	}
	return nil
}

// compare compares an output with the reference.
func compare(got []byte, want ref.Array, tol float64) error {
	n := int(want.Meta.Bytes())
	for k, v := range want.I {
		if g := shape.View[int32](got[:n])[k]; g != v {
			return fmt.Errorf("element %d is %d, want %d", k, g, v)
		}
	}
	for k, v := range want.F {
		v, g := float64(float32(v)), float64(shape.View[float32](got[:n])[k])
		if !(math.Abs(g-v) <= tol*(1+math.Abs(v))) && !(math.IsNaN(g) && math.IsNaN(v)) && g != v {
			return fmt.Errorf("element %d is %v, want %v", k, g, v)
		}
	}
	return nil
}

// samples draws count samples of a kind, always the same.
func samples(kind string, count int) []kernelstest.Sample {
	one := rapid.Custom(func(t *rapid.T) kernelstest.Sample { return kernelstest.Cases[kind](kernelstest.NewSource(t)) })
	all := make([]kernelstest.Sample, count)
	for seed := range all {
		all[seed] = one.Example(seed)
	}
	return all
}

// trials are the samples that their op accepts, as trials: out of place, and in place
// where the op allows that.
func (r *rig) trials(list []kernelstest.Sample) (all []*trial, image []byte) {
	r.t.Helper()
	for _, s := range list {
		want, err := ref.Run(s.Op, s.In)
		if err != nil {
			continue // bad inputs, drawn on purpose
		}
		n, err := kernelstest.NodeOf(s.Op, s.In)
		r.ok(err)
		calls, scratch, err := gen.Node(n)
		r.ok(err)
		r.ok(r.library.fill(calls))
		var plain *trial
		for _, alias := range aliases(n) {
			x := &trial{Sample: s, node: n, calls: calls, bytes: scratch, want: want, alias: alias, plain: plain}
			plain = cmp.Or(plain, x)
			image = x.lay(image)
			all = append(all, x)
		}
	}
	var calls []gen.Call
	for _, x := range all {
		calls = append(calls, x.calls...)
	}
	_, err := r.library.add(calls, nil)
	r.ok(err)
	return all, image
}

// aliases are the ways in which a node may use memory: none in place, each output alone
// that the op and the sizes allow, and all of these.
func aliases(n *graph.Node) [][]int {
	none := slices.Repeat([]int{-1}, len(n.Out))
	ways, all := [][]int{none}, slices.Clone(none)
	al, ok := n.Op.(graph.Aliaser)
	if !ok || len(n.In) == 0 {
		return ways
	}
	for i, a := range al.Alias() {
		if a >= 0 && n.Out[i].Meta.Bytes() == n.In[a].Meta.Bytes() {
			one := slices.Clone(none)
			one[i], all[i] = a, a
			ways = append(ways, one)
		}
	}
	if len(ways) > 2 {
		ways = append(ways, all)
	}
	return ways
}

// sameBits finds an output that two trials of a sample do not agree on, each in its image.
func sameBits(x *trial, a []byte, y *trial, b []byte) error {
	for i, v := range x.node.Out {
		n := int(v.Meta.Bytes())
		if !bytes.Equal(a[x.out[i]:][:n], b[y.out[i]:][:n]) {
			return fmt.Errorf("%v: output %d has other bits", x.node, i)
		}
	}
	return nil
}

// unwritten finds a byte outside the outputs and the scratch that a run changed.
func unwritten(trials []*trial, before, after []byte) error {
	after = bytes.Clone(after)
	for _, x := range trials {
		for i, at := range x.out {
			n := int(x.node.Out[i].Meta.Bytes())
			copy(after[at:at+n], before[at:])
		}
	}
	return idle(trials, before, after)
}

// idle finds a byte outside the scratch that a run changed.
func idle(trials []*trial, before, after []byte) error {
	after = bytes.Clone(after)
	for _, x := range trials {
		copy(after[x.scratch:x.scratch+int(x.bytes)], before[x.scratch:])
	}
	for i := range after {
		if after[i] != before[i] {
			return fmt.Errorf("byte %d was written, by mistake (%s)", i, whose(trials, i))
		}
	}
	return nil
}

// whose names the trial to whose ranges a byte is next.
func whose(trials []*trial, at int) string {
	for _, x := range trials {
		if at < x.scratch+guard {
			return fmt.Sprint(x.node)
		}
	}
	return "the end"
}
