package device_test

import (
	"context"
	"fmt"
	"log"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers the kind
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// A graph is compiled once. Copies and launches are queued on a stream; the
// event of the last one is waited for.
func Example() {
	b := graph.NewBuilder("line", 1)
	x := b.Input("x", shape.F32(3))
	b.Output("y", ops.AddConst(b, ops.ScaleBy(b, x, 2), 1))
	g, err := b.Graph()
	check(err)

	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	check(err)
	d := devs[0]
	line, err := d.Compile(g, device.CompileOptions{})
	check(err)
	s, err := d.NewStream("main")
	check(err)
	in, err := d.Alloc(shape.F32(3), device.Input)
	check(err)
	out, err := d.Alloc(shape.F32(3), device.Activation)
	check(err)
	host, err := d.AllocHost(12)
	check(err)

	copy(shape.View[float32](host.Bytes()), []float32{1, 2, 3})
	check(s.CopyIn(in, host))
	_, err = s.Launch(line, []device.Buffer{in}, []device.Buffer{out})
	check(err)
	done, err := s.CopyOut(host, out)
	check(err)
	check(done.Wait(context.Background()))
	fmt.Println(shape.View[float32](host.Bytes()))

	check(host.Free())
	check(in.Delete())
	check(out.Delete())
	check(s.Close())
	check(d.Close())
	// Output: [3 5 7]
}

// Memory is reserved before work is queued: an allocation beyond the budget
// fails at once, and says how much was needed, used and free.
func ExampleDevice_alloc() {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 4096})
	check(err)
	_, err = devs[0].Alloc(shape.F32(2000), device.Weight)
	fmt.Println(err)
	check(devs[0].Close())
	// Output: cpu:0: out of device memory: needed 8000 bytes, used 0, free 4096 of a budget of 4096: use smaller microbatches, more devices or a larger budget, for a weight buffer f32[2000]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
