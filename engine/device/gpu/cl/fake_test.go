package cl

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// fake is a loader of drivers that are not there: it lists them, and can do no more.
type fake struct{ platforms []fakePlatform }

// fakePlatform is a driver. Its failure is that of listing its devices.
type fakePlatform struct {
	name    string
	failure status
	devices []fakeDevice
}

// fakeDevice is a device, with the properties that differ from those of usual.
type fakeDevice struct {
	name    string
	numbers map[uintptr]uint64
	version string
}

// usual are properties of a device that can be used.
var usual = map[uintptr]uint64{deviceType: deviceIsCPU, deviceUnits: 4, deviceMaxGroup: 256, deviceMaxObject: 1 << 30, deviceFPConfig: 0xBF,
	deviceMemory: 4 << 30, deviceLocalMemory: 1 << 15, deviceLittleEndian: 1, deviceAvailable: 1, deviceCompiler: 1}

// handleStep is the distance of the handles of platforms; a device's handle is its
// platform's and its number from 1 on.
const handleStep = 1000

// call implements [driver].
func (d *fake) call(f function, args []uintptr) uintptr {
	switch f {
	case getPlatformIDs:
		if len(d.platforms) == 0 {
			return result(noPlatform)
		}
		return handles(args, len(d.platforms), func(i int) uintptr { return uintptr(i+1) * handleStep })
	case getPlatformInfo:
		return answer(args[2:], append([]byte(d.platforms[args[0]/handleStep-1].name), 0))
	case getDeviceIDs:
		p := d.platforms[args[0]/handleStep-1]
		if p.failure != 0 {
			return result(p.failure)
		}
		if len(p.devices) == 0 {
			return result(deviceNotFound)
		}
		return handles(args[2:], len(p.devices), func(i int) uintptr { return args[0] + uintptr(i+1) })
	case getDeviceInfo:
		return d.platforms[args[0]/handleStep-1].devices[args[0]%handleStep-1].answer(args[1:])
	}
	return result(-59) // an operation that is invalid
}

func (d fakeDevice) answer(args []uintptr) uintptr {
	switch args[0] {
	case deviceName:
		return answer(args[1:], append([]byte(d.name), 0))
	case deviceVersion, deviceRelease:
		return answer(args[1:], []byte(cmp.Or(d.version, "OpenCL 1.2")+"\x00"))
	}
	n, given := d.numbers[args[0]]
	if !given {
		n = usual[args[0]]
	}
	return answer(args[1:], binary.LittleEndian.AppendUint64(nil, n))
}

func result(s status) uintptr { return uintptr(uint32(s)) }

// handles answers a function whose last arguments are the room, the handles and their
// number.
func handles(args []uintptr, n int, handle func(i int) uintptr) uintptr {
	if args[2] != 0 {
		*(*uint32)(pointer(&args[2])) = uint32(n)
	}
	if args[1] != 0 {
		out := unsafe.Slice((*uintptr)(pointer(&args[1])), args[0])
		for i := range out {
			out[i] = handle(i)
		}
	}
	return 0
}

// answer answers a function whose last arguments are the room, the value and its size.
func answer(args []uintptr, value []byte) uintptr {
	if args[2] != 0 {
		*(*uintptr)(pointer(&args[2])) = uintptr(len(value))
	}
	if args[1] != 0 {
		copy(unsafe.Slice((*byte)(pointer(&args[1])), args[0]), value)
	}
	return 0
}

// pointer is the address that an argument is.
func pointer(arg *uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(arg)) }

// faulty is a driver of which some functions fail with a status. It counts calls.
type faulty struct {
	driver
	fails map[function]status
	calls [numFunctions]atomic.Int64
}

// creators are the functions whose result is a handle.
var creators = []function{createContext, createCommandQueue, createBuffer, createProgramWithSource, createProgramWithBinary, createKernel, enqueueMapBuffer}

// call implements [driver].
func (d *faulty) call(f function, args []uintptr) uintptr {
	d.calls[f].Add(1)
	if s := d.fails[f]; s != 0 {
		if slices.Contains(creators, f) {
			*(*status)(pointer(&args[len(args)-1])) = s
			return 0
		}
		return result(s)
	}
	return d.driver.call(f, args)
}

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
