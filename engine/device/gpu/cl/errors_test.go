package cl

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

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
		if driver.calls[finish].Load() == 0 {
			t.Errorf("%v of %s: the launch ended before what it had queued", c.s, functionNames[c.f])
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
