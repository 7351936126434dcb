package cpu_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// A graph is compiled once, its input copied in, and its result copied out.
func Example() {
	if err := double(); err != nil {
		fmt.Println(err)
	}
	// Output: [2 4 6]
}

func double() error {
	devs, err := device.Open(cpu.Kind, device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		return err
	}
	d := devs[0]
	b := graph.NewBuilder("double", 1)
	x := b.Input("x", shape.F32(3))
	b.Output("y", ops.ScaleBy(b, x, 2))
	g, err := b.Graph()
	if err != nil {
		return err
	}
	exe, err1 := d.Compile(g, device.CompileOptions{})
	s, err2 := d.NewStream("main")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	in, err1 := s.Alloc(x.Meta, device.Input)
	out, err2 := s.Alloc(x.Meta, device.Activation)
	h, err3 := d.AllocHost(x.Meta.Bytes())
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	copy(shape.View[float32](h.Bytes()), []float32{1, 2, 3})
	err1 = s.CopyIn(in, h)
	_, err2 = s.Launch(exe, []device.Buffer{in}, []device.Buffer{out}, nil)
	done, err3 := s.CopyOut(h, out)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if err := done.Wait(context.Background()); err != nil {
		return err
	}
	fmt.Println(shape.View[float32](h.Bytes()))
	return errors.Join(s.Close(), in.Free(done), out.Free(done), h.Free(), d.Close())
}
