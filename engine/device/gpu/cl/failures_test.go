package cl

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// openFaulty opens a device on a driver whose functions a test can make fail.
func openFaulty(t *testing.T, o device.OpenOptions, change func(f *found)) (device.Device, *faulty) {
	t.Helper()
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	f := &faulty{driver: list[0].driver, fails: map[function]status{}}
	list[0].driver = f
	if change != nil {
		change(&list[0])
	}
	o.Count, o.MemoryBytes = 1, 1<<20
	devs, err := openAll(o, list)
	if err != nil {
		t.Fatal(err)
	}
	return devs[0], f
}

// negate is z = -x, of layer 2.
func negate(t *testing.T) *graph.Graph {
	return devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		x := b.Input("x", shape.F32(4))
		defer b.In(&graph.Layer{Index: 2, Type: "dense", Name: "h", Block: "h", Pos: graph.Pos{File: "m.yaml", Line: 7}})()
		return []*graph.Value{ops.Neg(b, x)}
	})
}

// A device that crashes is lost, whatever the driver calls that; one without memory is
// not. Everything can still be closed.
func TestDriverFailures(t *testing.T) {
	for _, c := range []struct {
		f     function
		s     status
		cause error
		text  string
	}{
		{finish, outOfResources, device.ErrLost, "clFinish: CL_OUT_OF_RESOURCES (-5)"},
		{finish, deviceNotAvailable, device.ErrLost, "clFinish: CL_DEVICE_NOT_AVAILABLE (-2)"},
		{enqueueNDRangeKernel, invalidQueue, device.ErrLost, "clEnqueueNDRangeKernel: CL_INVALID_COMMAND_QUEUE (-36)"},
		{enqueueNDRangeKernel, allocationFailure, device.ErrOutOfMemory, "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"},
		{enqueueReadBuffer, nvidiaIllegalAccess, device.ErrLost, "clEnqueueReadBuffer: error -9999"},
	} {
		d, driver := openFaulty(t, device.OpenOptions{}, nil)
		x, err := d.Compile(negate(t), device.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := d.NewStream("s")
		a, _ := s.Alloc(shape.F32(4), device.Activation)
		b, _ := s.Alloc(shape.F32(4), device.Activation)
		driver.fails[c.f] = c.s
		e, err := s.Launch(x, []device.Buffer{a}, []device.Buffer{b}, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Wait(t.Context())
		if !errors.Is(err, c.cause) || !strings.Contains(err.Error(), "driver ") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v of %s: %v", c.s, functionNames[c.f], err)
		}
		clear(driver.fails)
		for _, err := range []error{s.Close(), a.Free(), b.Free(), d.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A copy that fails names its device, so that a run can go on without it.
func TestCopyFailure(t *testing.T) {
	d, driver := openFaulty(t, device.OpenOptions{}, nil)
	s, _ := d.NewStream("s")
	b, _ := s.Alloc(shape.F32(4), device.Activation)
	h, err := d.AllocHost(16)
	if err != nil {
		t.Fatal(err)
	}
	driver.fails[enqueueWriteBuffer] = invalidQueue
	if err := s.CopyIn(b, h); err != nil {
		t.Fatal(err)
	}
	err = b.Ready().Wait(t.Context())
	op, ok := errors.AsType[*device.OpError](err)
	if !ok || op.Device != d.ID() || op.What != "copy-in" || !errors.Is(err, device.ErrLost) {
		t.Errorf("%v", err)
	}
	for _, err := range []error{h.Free(), s.Close(), b.Free(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// A device that cannot be opened leaves nothing with the driver, nor does one that is
// closed.
func TestOpenFailures(t *testing.T) {
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	real := list[0].driver
	for _, f := range []function{createContext, createBuffer, createCommandQueue, enqueueWriteBuffer, 0} {
		driver := &faulty{driver: real, fails: map[function]status{}}
		if list[0].driver = driver; f != 0 {
			driver.fails[f] = outOfHostMemory
		}
		devs, err := openAll(device.OpenOptions{Count: 2, MemoryBytes: 1 << 20, Shared: true}, list[:1])
		if f != 0 && (err == nil || !strings.Contains(err.Error(), "opencl:0: ") || !strings.Contains(err.Error(), functionNames[f]+": CL_OUT_OF_HOST_MEMORY (-6)")) {
			t.Errorf("%s: %v", functionNames[f], err)
		}
		if err := errors.Join(closeAll(devs)...); err != nil {
			t.Error(err)
		}
		for made, given := range map[function]function{createContext: releaseContext, createBuffer: releaseMemObject, createCommandQueue: releaseCommandQueue} {
			if f == made {
				continue
			}
			if m, g := driver.calls[made].Load(), driver.calls[given].Load(); m != g {
				t.Errorf("%s fails: %s succeeded %d times, %s %d times", functionNames[f], functionNames[made], m, functionNames[given], g)
			}
		}
	}
}

// A device that has too little for a kernel says so when the kernel is compiled, and
// compiling can be stopped.
func TestCompileFailures(t *testing.T) {
	sum := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		x := b.Input("x", shape.F32(4, 4))
		defer b.In(&graph.Layer{Index: 2, Type: "dense", Name: "h", Block: "h", Pos: graph.Pos{File: "m.yaml", Line: 7}})()
		return []*graph.Value{ops.MatMulOf(b, x, x, false, false)}
	})
	d, _ := openFaulty(t, device.OpenOptions{}, func(f *found) { f.local = 16 })
	_, err := d.Compile(sum, device.CompileOptions{})
	if !errors.Is(err, device.ErrUnsupported) || !strings.Contains(err.Error(), "16 B") || !strings.Contains(err.Error(), "m.yaml:7") {
		t.Errorf("local memory of 16 bytes: %v", err)
	}
	stopped := errors.New("stopped")
	if _, err := d.Compile(negate(t), device.CompileOptions{Stop: func() error { return stopped }}); !errors.Is(err, stopped) {
		t.Errorf("stopped: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The error of a kernel that a driver does not compile has the op, its place in the
// config, and the line of its text.
func TestCompileError(t *testing.T) {
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	c, err := openContext(list[0])
	if err != nil {
		t.Fatal(err)
	}
	n := negate(t).Nodes[0]
	good := gen.Call{Name: "good", Source: "KERNEL void good(GLOBAL f32* x) {\n\tx[0] = 1.0f;\n}\n"}
	bad := gen.Call{Node: n, Name: "bad", Source: "KERNEL void bad(GLOBAL f32* x) {\n\tx[0] = 1.0f;\n\tx[1] = wrong;\n}\n"}
	_, err = c.compile(newUnit([]*gen.Call{&good, &bad}))
	for _, part := range []string{`layer 2 (dense "h")`, "m.yaml:7", "CL_BUILD_PROGRAM_FAILURE (-11)", "line 3", "x[1] = wrong;", "wrong'"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

// The times of kernels come by the names of their ops, where they are wanted.
func TestKernelTimes(t *testing.T) {
	var spans []device.KernelSpan
	wanted := false
	d, _ := openFaulty(t, device.OpenOptions{Sync: true, OnKernel: func(s device.KernelSpan) { spans = append(spans, s) }, WantKernels: func() bool { return wanted }}, nil)
	x, err := d.Compile(negate(t), device.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream("s")
	a, _ := s.Alloc(shape.F32(4), device.Activation)
	b, _ := s.Alloc(shape.F32(4), device.Activation)
	for range 2 {
		if _, err := s.Launch(x, []device.Buffer{a}, []device.Buffer{b}, nil); err != nil {
			t.Fatal(err)
		}
		wanted = true
	}
	if len(spans) != 1 || spans[0].Work.Name != "neg" || spans[0].End.Before(spans[0].Start) {
		t.Errorf("spans %+v", spans)
	}
	for _, err := range []error{s.Close(), a.Free(), b.Free(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}
