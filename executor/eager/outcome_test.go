package eager

import (
	"context"
	"errors"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestChain(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	var got []float32
	note := func(ds []*tensor.Dense) error {
		got = append(got, ds[0].Data().([]float32)...)
		return nil
	}
	chain := new(Chain)
	for i := range 6 { // the chain orders calls on different devices
		x := r.FromBytes(shape.F32(1), shape.Bytes([]float32{float32(i)}), r.devs[i%2].ID())
		chain = r.Call(chain, note, x)
	}
	if err := chain.Wait(bg); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != float32(i) {
			t.Fatalf("order %v", got)
		}
	}
	// A failure goes along the chain, through ops too.
	broken := errors.New("disk full")
	chain = r.Call(chain, func([]*tensor.Dense) error { return broken })
	inv := &Invocation{Op: ops.Fill{Meta: shape.F32(1)}, Chain: chain, Loc: At(graph.Pos{File: "script", Line: 3})}
	r.Run(inv)
	fails(t, inv.Results[0].Wait(bg), broken, "outcome_test.go:", "call: ")
	chain = r.Call(inv.Chain, note, r.floats([]float32{1}, 1))
	fails(t, chain.Wait(bg), broken)
	if chain.Err() == nil || len(got) != 6 {
		t.Error("a call ran after the chain had failed")
	}
	// So does a panic of a function.
	chain = r.Call(nil, func(ds []*tensor.Dense) error { return ds[1].T() }, r.floats([]float32{1}, 1))
	fails(t, r.Call(chain, note, r.floats([]float32{1}, 1)).Wait(bg), nil, "outcome_test.go:", "call: the function panicked: ", "index out of range [1]", "(at ")
	// A call that is wrong breaks its chain at once.
	inv = &Invocation{Op: ops.AddOp, Chain: new(Chain), Loc: At(graph.Pos{File: "script", Line: 4})}
	r.Run(inv)
	fails(t, inv.Chain.Err(), graph.ErrShape, "script:4: add")
	fails(t, r.Call(inv.Chain, note, r.floats([]float32{1}, 1)).Wait(bg), graph.ErrShape)
}

func TestWaitIsBounded(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate()
	x := r.One(ops.Unary{Fn: "neg"}, r.floats([]float32{1}, 1))
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := x.Wait(ctx); err != context.Canceled {
		t.Error(err)
	}
	if _, err := x.ToHost(ctx); err != context.Canceled {
		t.Error(err)
	}
	for range 100 { // as a program that looks from time to time
		if err := x.Wait(ctx); err != context.Canceled {
			t.Error(err)
		}
	}
	if n := len(r.lanes[0].progress.waiters); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
	if x.Done() || x.Err() != nil {
		t.Error("done while the lane is held")
	}
	if err := x.Release(); err != nil { // while it is pending
		t.Error(err)
	}
	open()
}
