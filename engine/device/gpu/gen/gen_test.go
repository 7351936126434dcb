package gen

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Each op has kernels, but reshape: it is a view, which plans do not run.
func TestKindsAreAll(t *testing.T) {
	var lacking []string
	for _, kind := range ops.Kinds() {
		if !slices.Contains(Kinds(), kind) {
			lacking = append(lacking, kind)
		}
	}
	if !slices.Equal(lacking, []string{"reshape"}) {
		t.Errorf("no kernels for %v", lacking)
	}
}

// own is an op of a program, with a kernel in Go.
type own struct{ ops.Unary }

func (own) Kind() string                      { return "own" }
func (own) Compute(_, _ []graph.Tensor) error { return nil }

// An op that brings a kernel in Go is refused by name.
func TestOwnOpsAreRefused(t *testing.T) {
	v := &graph.Value{Meta: shape.F32(2)}
	_, _, err := Node(&graph.Node{Op: own{}, In: []*graph.Value{v}, Out: []*graph.Value{v}})
	if !errors.Is(err, ErrUnsupported) || err.Error() != "no kernel for a GPU: the op own is Go code: run it on a cpu device" {
		t.Errorf("got %v", err)
	}
}

// The arguments of a norm of many tensors fit the least that a device may allow.
func TestNormOfMany(t *testing.T) {
	n := &graph.Node{Op: ops.GradNorm{Scale: 1}, Out: []*graph.Value{{Meta: shape.F32()}}}
	for range 300 {
		n.In = append(n.In, &graph.Value{Meta: shape.F32()})
	}
	calls, scratch, err := Node(n)
	if err != nil || scratch != 4 {
		t.Fatal(scratch, err)
	}
	read := 0
	for _, c := range calls {
		if bytes := (len(c.Args) + 2) * 8; bytes > 1024 {
			t.Errorf("a kernel has %d bytes of arguments", bytes)
		}
		for _, a := range c.Args {
			if a.Role == In {
				if a.Index != read {
					t.Errorf("input %d comes after %d others", a.Index, read)
				}
				read++
			}
		}
	}
	if read != len(n.In) {
		t.Errorf("%d of %d inputs are read", read, len(n.In))
	}
}

// The ops whose kernels can fail are those with an error for it.
func TestFailuresHaveErrors(t *testing.T) {
	for _, kind := range Kinds() {
		fails := false
		for _, x := range drawn(kind) {
			for _, c := range x.calls() {
				fails = fails || slices.ContainsFunc(c.Args, func(a Arg) bool { return a.Role == Site })
			}
		}
		if known := slices.Contains(Failing(), kind); fails != known {
			t.Errorf("%s can fail: %v; it has an error: %v", kind, fails, known)
		}
	}
}

// Numbers are text that a compiler reads as they are.
func TestFloat(t *testing.T) {
	for v, want := range map[float64]string{0.5: "(0x1p-01f)", -3: "(-0x1.8p+01f)", 1e39: "INF_F", math.Inf(-1): "(-INF_F)"} {
		if got := float(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	if got := float(math.NaN()); got != "NAN_F" {
		t.Errorf("NaN is %s", got)
	}
}
