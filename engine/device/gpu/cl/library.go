package cl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/internal/units"
)

// library is the kernels of a device that are compiled.
type library struct {
	context *context
	status  uintptr // the status word's object
	failed  uintptr // the object of a status word that is set
	lanes   int     // of the work groups of kernels that take any number

	mu      sync.Mutex
	kernels map[string]*kernel // by name
	tables  tables
}

// kernel is a compiled kernel. The driver keeps its arguments from one run to the next.
type kernel struct {
	handle uintptr
	args   []uint64 // as they are set; under the device's turn
	ran    bool     // once at least, on a driver that compiles then
}

func newLibrary(c *context) (*library, error) {
	to := c.caller()
	status, err := to.create(createBuffer, c.handle, readWrite, statusBytes, 0)
	if err != nil {
		return nil, err
	}
	failed, err := to.create(createBuffer, c.handle, readWrite, statusBytes, 0)
	if err != nil {
		return nil, errors.Join(err, to.call(releaseMemObject, status))
	}
	l := &library{context: c, status: status, failed: failed, lanes: min(gen.GroupLanes, c.of.group), kernels: map[string]*kernel{}, tables: tables{}}
	err = errors.Join(c.write(status, make([]byte, statusBytes)), c.write(failed, bytes.Repeat([]byte{1}, statusBytes)))
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// statusBytes is the size of the status word's object.
const statusBytes = 64

// add loads the kernels that are not there yet, in units, and tells where it got them:
// the slowest source of them. Between two units it asks stop, if that is not nil, and
// ends with its error.
func (l *library) add(calls []gen.Call, stop func() error) (from device.Source, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.missing(calls, nil) {
		if stop != nil {
			if err := stop(); err != nil {
				return 0, err
			}
		}
		of, err := l.load(u)
		if err != nil {
			return 0, err
		}
		from = max(from, of)
	}
	return from, nil
}

// find tells where add would get kernels. Those in loaded count as loaded; it adds the
// others to them.
func (l *library) find(calls []gen.Call, loaded map[string]bool) (from device.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.missing(calls, loaded) {
		from = max(from, l.context.find(u))
		for _, c := range u.calls {
			loaded[c.Name] = true
		}
	}
	return from
}

// missing are the units of the kernels that are not there yet, nor in loaded. It needs mu.
func (l *library) missing(calls []gen.Call, loaded map[string]bool) (units []*unit) {
	var missing []*gen.Call
	taken := map[string]bool{}
	for i := range calls {
		c := &calls[i]
		if l.kernels[c.Name] == nil && !loaded[c.Name] && !taken[c.Name] {
			taken[c.Name] = true
			missing = append(missing, c)
		}
	}
	for part := range slices.Chunk(missing, unitKernels) {
		units = append(units, newUnit(part))
	}
	return units
}

// kernel is a kernel that was added.
func (l *library) kernel(name string) *kernel {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kernels[name]
}

// load loads a unit, and tells where from. It needs mu.
func (l *library) load(u *unit) (device.Source, error) {
	defer keepSignals()()
	program, from, err := l.context.program(u)
	if err != nil {
		return 0, err
	}
	to := l.context.caller()
	for _, c := range u.calls {
		name := []byte(c.Name + "\x00")
		k, err := to.create(createKernel, program, at(to, &name[0]))
		if err == nil {
			if err = l.fits(to, c, k); err != nil {
				err = errors.Join(err, to.call(releaseKernel, k))
			}
		}
		if err != nil {
			return 0, errors.Join(fmt.Errorf("%s: %w", describe(c), err), to.call(releaseProgram, program))
		}
		l.kernels[c.Name] = &kernel{handle: k}
	}
	return from, to.call(releaseProgram, program)
}

// Properties of kernels, by their numbers in the standard.
const (
	kernelMaxGroup    = 0x11B0
	kernelLocalMemory = 0x11B2
)

// fits refuses a kernel for which the device has too little.
func (l *library) fits(to *caller, c *gen.Call, kernel uintptr) error {
	of := l.context.of
	property := func(p uintptr) (v uint64, err error) {
		err = to.call(getKernelWorkGroupInfo, kernel, of.handle, p, unsafe.Sizeof(v), at(to, &v), 0)
		return v, err
	}
	local, err := property(kernelLocalMemory)
	if err != nil {
		return err
	}
	if local > uint64(of.local) {
		needed, has := units.TwoBytes(int64(local), of.local)
		return fmt.Errorf("%w: its kernel needs %s of local memory, and %s has %s: use another device", device.ErrUnsupported, needed, of.name, has)
	}
	most, err := property(kernelMaxGroup)
	if _, group := c.Lanes(l.lanes); err == nil && uint64(group) > most {
		err = fmt.Errorf("%w: its kernel needs groups of %d lanes, and %s has %d for it: use another device", device.ErrUnsupported, group, of.name, most)
	}
	return err
}

// set sets argument i to 8 bytes, unless it has them. word is on the heap.
func (k *kernel) set(to *caller, i int, v uint64, word []uint64) error {
	if i < len(k.args) && k.args[i] == v {
		return nil
	}
	word[0] = v
	err := to.call(setKernelArg, k.handle, uintptr(i), 8, at(to, &word[0]))
	if i == len(k.args) && err == nil {
		k.args = append(k.args, v)
	} else if err == nil {
		k.args[i] = v
	}
	return err
}

// close gives all that the library made back to the driver.
func (l *library) close() error {
	to := l.context.caller()
	var errs []error
	for _, k := range l.kernels {
		errs = append(errs, to.call(releaseKernel, k.handle))
	}
	for _, object := range l.tables {
		errs = append(errs, to.call(releaseMemObject, object))
	}
	return errors.Join(append(errs, to.call(releaseMemObject, l.status), to.call(releaseMemObject, l.failed))...)
}
