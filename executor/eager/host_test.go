package eager

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/ops"
)

// While functions have taken all slots, their own calls fail at once, and Cancel ends the
// waiting of others.
func TestCallsWithinCallsThatAreFull(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	var began, called sync.WaitGroup
	began.Add(laneSize)
	called.Add(laneSize)
	end := make(chan struct{})
	x := r.floats([]float32{1}, 1)
	var chains []*Chain
	for i := range laneSize {
		chains = append(chains, r.Call(nil, func([]*tensor.Dense) error {
			began.Done()
			began.Wait()
			var err error
			if i%2 == 0 {
				err = r.Call(nil, func([]*tensor.Dense) error { return nil }).Err()
			} else {
				err = x.CopyTo("cpu:0").Err()
			}
			called.Done()
			called.Wait()
			<-end
			if !errors.Is(err, ErrBusy) {
				return errors.Join(errors.New("there was room for a call within a function"), err)
			}
			return nil
		}))
	}
	called.Wait()
	waiting := make(chan *Chain)
	go func() { waiting <- r.Call(nil, func([]*tensor.Dense) error { return nil }) }()
	r.Cancel(nil)
	fails(t, (<-waiting).Err(), ErrCanceled)
	r.Restart()
	close(end)
	for _, c := range chains {
		if err := c.Wait(bg); err != nil {
			t.Fatal(err)
		}
	}
	within := make(chan error, 1)
	err := r.Call(nil, func([]*tensor.Dense) error {
		within <- r.Call(nil, func([]*tensor.Dense) error { return nil }).Wait(bg)
		return nil
	}).Wait(bg)
	if err = errors.Join(err, <-within); err != nil {
		t.Errorf("with room for a call within a function: %v", err)
	}
	r.expect(x, 1)
}

// A function that a full lane waits for makes no call that would wait for the lane.
func TestOpsWithinCallsThatAreFull(t *testing.T) {
	r := open(t, 1, ContextOptions{}).queued()
	x := r.floats([]float32{1}, 1)
	full, refused := make(chan struct{}), make(chan error, 1)
	saved := r.Call(nil, func([]*tensor.Dense) error {
		<-full
		refused <- r.One(ops.AddOp, x.Ref(), x.Ref()).Err()
		return nil
	})
	first := &Invocation{Op: ops.AddOp, Args: []Tensor{x.Ref(), x.Ref()}, Chain: saved}
	r.Run(first)
	list := slices.Clone(first.Results)
	for range laneSize {
		list = append(list, r.One(ops.AddOp, x.Ref(), x.Ref()))
	}
	close(full)
	fails(t, <-refused, ErrBusy, "host_test.go:", "add: ", "1024 calls wait for cpu:0")
	for _, y := range list {
		r.expect(y, 2)
	}
	r.expect(x, 1)
}
