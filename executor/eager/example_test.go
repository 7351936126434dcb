package eager_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/executor/eager"
)

func Example() {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	c, err := eager.New(devs, eager.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	x := c.FromHost(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, -2, 3, -4})), "")
	y := c.One(ops.Unary{Fn: "relu"}, x.Ref()) // x is used again
	z := c.One(ops.MatMul{TransB: true}, y, x) // both are used up here
	fmt.Println(z.Meta())                      // known at once
	d, err := z.ToHost(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Data())
	if err := z.Release(); err != nil {
		log.Fatal(err)
	}
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
	if err := devs[0].Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// f32[2,2]
	// [1 3 3 9]
}

// One step of gradient descent, written op by op.
func ExampleTape() {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	c, err := eager.New(devs, eager.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	x := c.FromHost(tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float32{1, 2})), "")
	w := c.FromHost(tensor.New(tensor.WithShape(2, 1), tensor.WithBacking([]float32{3, 4})), "")

	tape := c.NewTape()
	loss := tape.One(ops.MatMul{}, x, w.Ref())
	grads, err := tape.Gradients(loss, w)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(tape.Close(), loss.Release()); err != nil {
		log.Fatal(err)
	}
	w = c.One(ops.Binary{Fn: "sub"}, w, c.One(ops.Affine{Scale: 0.5}, grads[0]))
	d, err := w.ToHost(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Data())
	if err := errors.Join(w.Release(), c.Close(), devs[0].Close()); err != nil {
		log.Fatal(err)
	}
	// Output: [2.5 3]
}

// Canceled calls fail, and tensors that were computed before stay.
func ExampleContext_Cancel() {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	c, err := eager.New(devs, eager.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	x := c.FromHost(tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 2})), "")
	if err := x.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	c.Cancel(errors.New("the user is gone"))
	y := c.One(ops.Unary{Fn: "neg"}, x.Ref())
	fmt.Println(errors.Is(y.Err(), eager.ErrCanceled))
	c.Restart()
	z := c.One(ops.Unary{Fn: "neg"}, x)
	d, err := z.ToHost(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Data())
	if err := errors.Join(z.Release(), c.Close(), devs[0].Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// true
	// [-1 -2]
}

// A host function runs with contents, and a second one after it.
func ExampleContext_Call() {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	c, err := eager.New(devs, eager.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	x := c.FromHost(tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 2})), "")
	first := c.Call(nil, func(args []*tensor.Dense) error {
		fmt.Println(args[0].Data())
		return nil
	}, c.One(ops.Unary{Fn: "square"}, x))
	second := c.Call(first, func([]*tensor.Dense) error {
		fmt.Println("saved")
		return nil
	})
	if err := errors.Join(second.Wait(context.Background()), c.Close(), devs[0].Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// [1 4]
	// saved
}
