package cl

import (
	"math"
	"reflect"
	"testing"

	cpukernels "github.com/berth-ml/berth/engine/device/cpu/kernels"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/internal/testall"
)

// Each op that can fail gives the error that it gives on cpu, and writes nothing else.
func TestFailures(t *testing.T) {
	r := newRig(t)
	kinds := []string{"gather", "cross_entropy", "seen_write"}
	if testall.Wanted() {
		kinds = gen.Failing()
	}
	var trials []*trial
	for _, kind := range kinds {
		if kind == "learning_rate" {
			continue // on cpu it has a rate for every step
		}
		trials = append(trials, r.failing(kind))
	}
	var calls []gen.Call
	for _, x := range trials {
		calls = append(calls, x.calls...)
	}
	_, err := r.library.add(calls, nil)
	r.ok(err)
	for _, x := range trials {
		image := x.lay(nil)
		after := r.run([]*trial{x}, image, gen.GroupLanes)
		if r.status() != 1 {
			t.Errorf("%v: status %d", x.node, r.status())
			continue
		}
		r.setStatus(0)
		r.ok(unwritten([]*trial{x}, image, after))
		err := x.failed().Failure(func(v *graph.Value) ([]byte, error) { return after[x.at(v):][:v.Meta.Bytes()], nil })
		if want := x.onCPU(r); err.Error() != want.Error() || reflect.TypeOf(err) != reflect.TypeOf(want) {
			t.Errorf("%v: got %v (%[1]T), want %v (%[2]T)", x.node, err, want)
		}
	}
}

// failing is a trial of a kind of op with inputs that it refuses.
func (r *rig) failing(kind string) *trial {
	r.t.Helper()
	for _, s := range samples(kind, 40) {
		n, err := kernelstest.NodeOf(s.Op, s.In)
		if err != nil || !spoil(n, s.In) {
			continue
		}
		x := &trial{Sample: s, node: n, alias: aliases(n)[0]}
		x.calls, x.bytes, err = gen.Node(n)
		r.ok(err)
		return x
	}
	r.t.Fatalf("no sample of %s can be spoilt", kind)
	return nil
}

// spoil makes a number of the input for which an op can fail one that it refuses.
func spoil(n *graph.Node, in []ref.Array) bool {
	a := in[gen.FailsFor(n)]
	switch {
	case a.Meta.Elems() == 0 || n.Out[0].Meta.Elems() == 0:
		return false
	case a.I != nil:
		a.I[len(a.I)/2] = -1 << 30
	default:
		a.F[0] = math.NaN()
	}
	return true
}

// failed is the first call that can fail.
func (x *trial) failed() *gen.Call {
	for i := range x.calls {
		for _, a := range x.calls[i].Args {
			if a.Role == gen.Site {
				return &x.calls[i]
			}
		}
	}
	return nil
}

// at is where a value is in the image.
func (x *trial) at(v *graph.Value) int {
	for i, w := range x.node.In {
		if v == w {
			return x.in[i]
		}
	}
	return x.out[v.Out]
}

// onCPU is the error of the op's kernel for the cpu kind.
func (x *trial) onCPU(r *rig) error {
	r.t.Helper()
	err := x.prepareOnCPU(r).Run(kernelstest.Serial{})
	if err == nil {
		r.t.Fatalf("%v: cpu does not fail", x.node)
	}
	return err
}

// prepareOnCPU is the op's kernel for the cpu kind.
func (x *trial) prepareOnCPU(r *rig) *kernelstest.Launch {
	r.t.Helper()
	l, err := kernelstest.Rig{On: work.TargetOf(isa.Generic), New: cpukernels.New}.Prepare(x.Op, x.In, nil)
	r.ok(err)
	l.Node.In = x.node.In
	return l
}
