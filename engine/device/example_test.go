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
	in, err := s.Alloc(shape.F32(3), device.Input)
	check(err)
	out, err := s.Alloc(shape.F32(3), device.Activation)
	check(err)
	host, err := d.AllocHost(12)
	check(err)

	copy(shape.View[float32](host.Bytes()), []float32{1, 2, 3})
	check(s.CopyIn(in, host))
	_, err = s.Launch(line, []device.Buffer{in}, []device.Buffer{out}, nil)
	check(err)
	done, err := s.CopyOut(host, out)
	check(err)
	check(done.Wait(context.Background()))
	fmt.Println(shape.View[float32](host.Bytes()))

	check(host.Free())
	check(in.Free(done))
	check(out.Free(done))
	check(s.Close())
	check(d.Close())
	// Output: [3 5 7]
}

// Memory is taken before work is queued: an allocation beyond the budget fails at
// once, and says how much is needed, used and free.
func ExampleStream_alloc() {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 4096})
	check(err)
	s, err := devs[0].NewStream("main")
	check(err)
	_, err = s.Alloc(shape.F32(2000), device.Weight)
	fmt.Println(err)
	check(s.Close())
	check(devs[0].Close())
	// Output: cpu:0: out of device memory: the weight buffer f32[2000] needs 7.8 KiB; 0 B of 4.0 KiB are used, and the largest free range has 4.0 KiB: use smaller tensors (in a run, smaller microbatches), more devices or a larger memory budget
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
